import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { text } from 'node:stream/consumers'
import { URLSearchParams } from 'node:url'
import { inspect, type InspectOptions } from 'node:util'
import { type Control, CONTROLS, errorIn, jsonOf } from '../fake/controls.ts'
import { checkFault } from '../fake/fault-rules.ts'
import { describeWait, readWaitOptions } from '../fake/wait.ts'
import { hasCode, messageOf } from '../guards.ts'
import { parseJson, valueOrThrow } from '../pets/json.ts'
import { petOrThrow, validateInitialPets, validateNewPets } from '../pets/pet.ts'
import { check, checkMembers, isString, matching, rule, withCode } from '../rules.ts'
import { now, request, setTimeout } from '../runtime.ts'
import type { ConnectOptions, Fault, GetPetState, NewPet, PendingFault, Pet } from '../types.ts'
import type { Petstore, RecordedRequest, RemoteFault, RemotePetstore } from '../types.ts'
import { API_KEY, petsOrThrow, RULES } from './options.ts'

const CONNECT_RULES = {
  controlUrl: matching('a URL such as http://127.0.0.1:8081', /^http:\/\/[^/]/),
  apiKey: API_KEY,
  url: rule('a string', isString),
}
const POLL = 50 // milliseconds between two looks at the requests, for `matching`
// No request has this key: a wait for it times out at once, with an error that lists what came.
const NEVER = { key: 1_000_000, count: 1, wait: 0 }

/**
 * Connects to the test controls of a petstore in another process, or on another machine. Nothing
 * stays open: each access is a request.
 *
 * @throws TypeError or RangeError that names the option and what it must be.
 * @example
 * const petstore = connectPetstore({ controlUrl, apiKey })
 * await petstore.reset([{ name: 'Rex', categoryId: 1 }])
 * const fault = await petstore.inject({ operation: 'listPets', status: 503 })
 * console.log(await petstore.pets, await fault.hits)
 */
export function connectPetstore(options: ConnectOptions): RemotePetstore {
  checkMembers('options', options, CONNECT_RULES)
  const { controlUrl, apiKey, url } = options
  check('controlUrl', controlUrl, CONNECT_RULES.controlUrl)
  check('apiKey', apiKey, CONNECT_RULES.apiKey)
  return new RemoteHandle(controlUrl, apiKey, url)
}

interface Answer {
  readonly text: string
  readonly location: string
}

/** What connectPetstore returns. Arrow functions, so that each works alone. */
class RemoteHandle implements RemotePetstore {
  readonly url: string
  readonly controlUrl: string
  readonly apiKey: string
  readonly headers: Petstore['headers']

  constructor(controlUrl: string, apiKey: string, url = '') {
    this.url = url
    this.controlUrl = controlUrl.replace(/\/$/, '')
    this.apiKey = apiKey
    this.headers = { authorization: `Bearer ${apiKey}` }
  }

  get pets(): Promise<Pet[]> {
    return this.#call(CONTROLS.pets).then(readPets)
  }

  get requests(): Promise<RecordedRequest[]> {
    return this.#find({})
  }

  get pendingFaults(): Promise<PendingFault[]> {
    return this.#call(CONTROLS.faults).then(({ text }) => JSON.parse(text))
  }

  get getPetState(): Promise<GetPetState> {
    return this.#call(CONTROLS.getPetState).then(({ text }) => JSON.parse(text))
  }

  readonly setGetPetState = async (state: GetPetState): Promise<void> => {
    check('getPetState', state, RULES.getPetState)
    await this.#run(CONTROLS.setGetPetState, JSON.stringify(state))
  }

  readonly add = async (newPets: readonly NewPet[]): Promise<Pet[]> => {
    const pets = petsOrThrow(validateNewPets(newPets))
    return readPets(await this.#call(CONTROLS.add, jsonOf(pets)))
  }

  readonly reset: Petstore['reset'] = async (newPets) => {
    const pets = newPets && petsOrThrow(validateInitialPets(newPets))
    await this.#run(CONTROLS.reset, pets && jsonOf(pets))
  }

  readonly inject = async (fault: Fault): Promise<RemoteFault> => {
    checkFault(fault)
    const { location } = await this.#call(CONTROLS.inject, JSON.stringify(fault))
    const getHits = () => this.#call([CONTROLS.fault[0], location])
    return {
      get hits() {
        return getHits().then(({ text }) => JSON.parse(text).hits)
      },
      remove: () => this.#run([CONTROLS.removeFault[0], location]),
    }
  }

  readonly clearFaults = (): Promise<void> => this.#run(CONTROLS.clearFaults)
  readonly clearRequests = (): Promise<void> => this.#run(CONTROLS.clearRequests)
  readonly verify = (): Promise<void> => this.#run(CONTROLS.verify)

  readonly waitForRequests: Petstore['waitForRequests'] = async (count, options = {}) => {
    const { timeout, matching, filters } = readWaitOptions(options)
    const find = (ms: number) =>
      this.#find({ ...Object.fromEntries(filters), count, wait: ms / 1_000 })
    if (!matching) return find(timeout)
    const end = now() + timeout
    try {
      // None is missed, unless more than maxRequests come between two looks.
      for (;;) {
        const left = Math.max(0, Math.round(end - now()))
        const found = (await find(left)).filter(matching)
        if (found.length >= count) return found
        if (left === 0) await this.#find(NEVER)
        await new Promise((resolve) => setTimeout(resolve, Math.min(left, POLL)))
      }
    } catch (error) {
      if (!(error instanceof Error && hasCode(error, 'timeout'))) throw error
      const wanted = describeWait('timeout', count, filters, matching)
      throw withCode('timeout', new Error(error.message.replace(/^.*?(?=; )/, () => wanted)))
    }
  }

  async #run(control: Control, body?: string): Promise<void> {
    await this.#call(control, body)
  }

  async #find(parameters: Record<string, unknown>): Promise<RecordedRequest[]> {
    const pairs = Object.entries(parameters).map(([name, value]) => [name, String(value)])
    const query = new URLSearchParams(Object.fromEntries(pairs))
    const [method, path] = CONTROLS.requests
    return JSON.parse((await this.#call([method, `${path}?${query}`])).text)
  }

  async #call([method, path]: Control, body = ''): Promise<Answer> {
    const { status, ...answer } = await this.#send(method, path, body)
    if (status < 300) return answer
    throw errorIn(answer.text, `${method} ${this.controlUrl}${path} responded ${status}`)
  }

  async #send(method: string, path: string, body: string): Promise<Answer & { status: number }> {
    const headers = { ...this.headers, 'content-type': 'application/json' }
    try {
      // A connection for each call: none keeps the process running, and no proxy is asked.
      const sent = request(this.controlUrl + path, { method, headers, agent: false })
      sent.on('error', () => {}) // one may follow the head
      const [response]: IncomingMessage[] = await once(sent.end(body), 'response')
      if (!response) throw new Error('no response')
      const { statusCode: status = 0, headers: received } = response
      return { status, location: received.location ?? '', text: await text(response) }
    } catch (cause) {
      const message = `no petstore responds at ${this.controlUrl}: ${messageOf(cause)}`
      throw withCode('closed', new Error(message, { cause }))
    }
  }

  [inspect.custom](_depth: number, options: InspectOptions): string {
    return `RemotePetstore ${inspect({ controlUrl: this.controlUrl }, options)}`
  }
}

function readPets({ text }: Answer): Pet[] {
  const pets = valueOrThrow(parseJson(text))
  return Array.isArray(pets) ? pets.map(petOrThrow) : []
}
