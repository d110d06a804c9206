import type { RequestListener } from 'node:http'
import type { Context } from './api/operations.ts'
import { type Awaitable, messageOf } from './guards.ts'
import type { Service } from './http/dispatch.ts'
import { Exchange } from './http/exchange.ts'
import { createFetch } from './http/fetch.ts'
import type { Log } from './http/log.ts'
import type { HttpServer } from './http/server.ts'
import { check, integer, misuse, type Options, RULES, valid, withCode } from './options.ts'
import { parsePet, validateNewPets, validateSeed } from './pets/pet.ts'
import { closeTenant, type Stores, type Tenant } from './testing/stores.ts'
import type { Added, Fault, GetPetState, NewPet, Pet, Petstore, RecordedRequest } from './types.ts'

/** All that a petstore is made of. */
export interface Core extends Tenant {
  readonly options: Options
  readonly log: Log
  readonly context: Context
  readonly service: Service
  readonly stores?: Stores<Core>
  url: string
  controlUrl?: string
  server?: HttpServer
  controlServer?: HttpServer
}

const DRAIN = integer(0, 86_400_000)

/** Its functions are members, not methods, so that each works alone. */
export class PetstoreHandle implements Petstore {
  apiKey: string
  readonly log: Petstore['log']
  readonly fetch: Petstore['fetch']
  readonly #core: Core
  readonly #isOfKey: boolean

  /** @param key Makes it the petstore of this key alone. */
  constructor(core: Core, key?: string) {
    this.apiKey = key ?? core.options.apiKeys[0] ?? ''
    this.log = core.log
    this.fetch = createFetch(core.service)
    this.#core = core
    this.#isOfKey = key !== undefined
  }

  get url(): string {
    return this.#core.url
  }

  get controlUrl(): string | undefined {
    return this.#core.controlUrl
  }

  /** What its key has to itself, or else all keys together. */
  get #tenant(): Core {
    return this.#core.stores?.of(this.apiKey) ?? this.#core
  }

  readonly of = (key: string): Petstore => {
    const { stores } = this.#core
    if (stores === undefined) throw misuse('of(key) needs the option storePerKey')
    if (typeof key !== 'string' || !stores.isValid(key)) throw misuse('key must be a valid API key')
    return new PetstoreHandle(this.#core, key)
  }

  readonly listener: RequestListener = (req, res) =>
    new Exchange(this.#core.service, req, res).process()

  get headers(): Petstore['headers'] {
    return { authorization: `Bearer ${this.apiKey}` }
  }

  get pets(): Pet[] {
    const { store } = this.#tenant.context
    if (store.values === undefined) throw misuse('pets must be asked of your own store')
    return Array.from(store.values(), parsePet)
  }

  get requests(): RecordedRequest[] {
    return this.#tenant.requestLog.requests
  }

  get pendingFaults(): Fault[] {
    return this.#tenant.faults.pending
  }

  get getPetState(): GetPetState {
    return this.#tenant.context.getPetState
  }

  set getPetState(state: GetPetState) {
    check('getPetState', state, RULES.getPetState)
    this.#tenant.context.getPetState = state
  }

  readonly add = async (newPets: readonly NewPet[]): Promise<Pet[]> => {
    const { store } = this.#tenant.context
    // All at once, so that a snapshot takes them in one write.
    const adding = valid('newPets', validateNewPets(newPets)).map((pet) => store.add(pet))
    const outcomes = await Promise.all(adding)
    return outcomes.map(petIn)
  }

  readonly reset: Petstore['reset'] = async (newPets) => {
    const { options, context, faults, requestLog } = this.#tenant
    const pets = newPets === undefined ? options.pets : valid('newPets', validateSeed(newPets))
    if (!(await stored(context.store.reset(pets)))) throw noRoomFor(pets, options)
    context.getPetState = options.getPetState
    faults.clear()
    requestLog.clear()
  }

  readonly inject = (fault: Fault): void => this.#tenant.faults.inject(fault)
  readonly clearFaults = (): void => this.#tenant.faults.clear()
  readonly clearRequests = (): void => this.#tenant.requestLog.clear()
  readonly waitForRequests: Petstore['waitForRequests'] = (count, options) =>
    this.#tenant.requestLog.waitFor(count, options)

  readonly replaceKeys = (apiKeys: readonly string[]): void => {
    check('apiKeys', apiKeys, RULES.apiKeys)
    if (this.#isOfKey) throw misuse('replaceKeys must be called on the petstore of all keys')
    this.apiKey = apiKeys[0] ?? ''
    this.#core.keyring.replace(apiKeys)
    this.#core.stores?.onKeysReplaced()
  }

  readonly close = async (drain = 0): Promise<number> => {
    check('drain', drain, DRAIN)
    const { stores, context, log, server, controlServer } = this.#core
    if (this.#isOfKey) {
      stores?.close(this.apiKey)
      return 0
    }
    context.isDraining = true
    const [cutOff = 0] = await Promise.all([server?.stop(drain), controlServer?.stop(0)])
    stores?.closeAll()
    await stored(closeTenant(this.#core)).finally(() => log.flush())
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
