import type { RequestListener } from 'node:http'
import type { Context } from './api/operations.ts'
import { messageOf } from './guards.ts'
import type { Keyring } from './http/bearer.ts'
import type { Service } from './http/dispatch.ts'
import { Exchange } from './http/exchange.ts'
import { createFetch } from './http/fetch.ts'
import type { Log } from './http/log.ts'
import type { HttpServer } from './http/server.ts'
import { check, integer, misuse, type Options, RULES, valid, withCode } from './options.ts'
import { parsePet, validateNewPets, validateSeed } from './pets/pet.ts'
import type { Added, Awaitable } from './pets/store.ts'
import type { Faults } from './testing/faults.ts'
import type { RequestLog } from './testing/requests.ts'
import type { Fault, GetPetState, NewPet, Pet, Petstore, RecordedRequest } from './types.ts'

/** All that a petstore is made of. */
export interface Core {
  readonly options: Options
  readonly keyring: Keyring
  readonly log: Log
  readonly context: Context
  readonly faults: Faults
  readonly requestLog: RequestLog
  readonly service: Service
  server?: HttpServer
  controlServer?: HttpServer
}

// RFC 6761 §6.4: never resolves, so that a request over a socket fails and says why.
const NO_HOST = 'petstore.invalid'
const DRAIN = integer(0, 86_400_000)

/** Its functions are members, not methods, so that each works alone. */
export class PetstoreHandle implements Petstore {
  url: string
  controlUrl?: string
  apiKey: string
  readonly log: Petstore['log']
  readonly fetch: Petstore['fetch']
  readonly #core: Core

  constructor(core: Core) {
    this.url = `http://${NO_HOST}${core.options.basePath}`
    this.apiKey = core.options.apiKeys[0] ?? ''
    this.log = core.log
    this.fetch = createFetch(core.service)
    this.#core = core
  }

  readonly listener: RequestListener = (req, res) =>
    new Exchange(this.#core.service, req, res).process()

  get headers(): Petstore['headers'] {
    return { authorization: `Bearer ${this.apiKey}` }
  }

  get pets(): Pet[] {
    const { store } = this.#core.context
    if (store.values === undefined) throw misuse('pets must be asked of your own store')
    return Array.from(store.values(), parsePet)
  }

  get requests(): RecordedRequest[] {
    return this.#core.requestLog.requests
  }

  get pendingFaults(): Fault[] {
    return this.#core.faults.pending
  }

  get getPetState(): GetPetState {
    return this.#core.context.getPetState
  }

  set getPetState(state: GetPetState) {
    check('getPetState', state, RULES.getPetState)
    this.#core.context.getPetState = state
  }

  readonly add = async (newPets: readonly NewPet[]): Promise<Pet[]> => {
    const { store } = this.#core.context
    // All at once, so that a snapshot takes them in one write.
    const adding = valid('newPets', validateNewPets(newPets)).map((pet) => store.add(pet))
    const outcomes = await Promise.all(adding)
    return outcomes.map(petIn)
  }

  readonly reset: Petstore['reset'] = async (newPets) => {
    const { options, context, faults, requestLog } = this.#core
    const pets = newPets === undefined ? options.pets : valid('newPets', validateSeed(newPets))
    if (!(await stored(context.store.reset(pets)))) throw noRoomFor(pets, options)
    context.getPetState = options.getPetState
    faults.clear()
    requestLog.clear()
  }

  readonly inject = (fault: Fault): void => this.#core.faults.inject(fault)
  readonly clearFaults = (): void => this.#core.faults.clear()
  readonly clearRequests = (): void => this.#core.requestLog.clear()
  readonly waitForRequests: Petstore['waitForRequests'] = (count, options) =>
    this.#core.requestLog.waitFor(count, options)

  readonly replaceKeys = (apiKeys: readonly string[]): void => {
    check('apiKeys', apiKeys, RULES.apiKeys)
    this.apiKey = apiKeys[0] ?? ''
    this.#core.keyring.replace(apiKeys)
  }

  readonly close = async (drain = 0): Promise<number> => {
    check('drain', drain, DRAIN)
    const { context, faults, requestLog, log, server, controlServer } = this.#core
    context.isDraining = true
    const [cutOff = 0] = await Promise.all([server?.stop(drain), controlServer?.stop(0)])
    faults.clear()
    requestLog.close()
    await stored(context.store.close()).finally(() => log.flush())
    return cutOff
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }
}

/** The pet that was added, or an error that names it by its place. */
function petIn(added: Added, at: number, all: readonly Added[]): Pet {
  if (added.ok) return parsePet(added.json)
  const pet = `Cannot add pet ${at + 1} of ${all.length}`
  if (added.reason === 'store_full')
    throw withCode('store_full', new RangeError(`${pet}: the store has no room for it`))
  const outcome = added.reason === 'outcome_unknown' ? 'may have been added' : 'could not be stored'
  throw withCode('storage_failed', new Error(`${pet}: it ${outcome}`))
}

export function noRoomFor({ length }: readonly NewPet[], { store, maxStore }: Options): RangeError {
  const message = `${length} pets do not fit into ${store ? 'the store' : `${maxStore} bytes`}`
  return withCode('store_full', new RangeError(message))
}

/** Waits for the store; if that fails, the error has the code `storage_failed`. */
export async function stored<T>(work: Awaitable<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    throw withCode('storage_failed', new Error(messageOf(error), { cause: error }))
  }
}
