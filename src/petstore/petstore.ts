import type { RequestListener } from 'node:http'
import { ERRORS } from '../api/errors.ts'
import { hasCode, messageOf } from '../guards.ts'
import { Exchange } from '../http/exchange.ts'
import { createFetch } from '../http/fetch.ts'
import { reachableUrl } from '../http/server.ts'
import { type Options, petsOrThrow, RULES } from './options.ts'
import { check, integer, misuse, withCode } from '../rules.ts'
import { parsePet, validateInitialPets, validateNewPets } from '../pets/pet.ts'
import type { Added, Awaitable, NewPet, Pet, Store } from '../store-types.ts'
import { closeCore, type Core } from './cores.ts'
import type { Fault, GetPetState, Petstore, RecordedRequest } from '../types.ts'

/** Where a petstore listens: URLs as bound, such as http://0.0.0.0:8080/v1. */
export interface Listeners {
  readonly bound: string
  readonly boundControls: string | undefined
  stop(drain: number): Promise<number> // of requests that were cut off
}

// RFC 6761 §6.4: never resolves, so that a request over a socket fails and says why.
const NO_HOST = 'http://petstore.invalid'
const DRAIN = integer(0, 86_400_000)
const closed = () => withCode('closed', new Error('this petstore is closed'))

/** What startPetstore and createPetstore return. Arrow functions, so that each works alone. */
export class PetstoreHandle implements Petstore {
  readonly url: string
  readonly controlUrl: string | undefined
  readonly log: Petstore['log']
  readonly fetch: Petstore['fetch']
  readonly #core: Core
  readonly #listeners: Listeners | undefined
  readonly #key: string | undefined
  #isKeyClosed = false

  /** @param key Makes it the petstore of this key alone. */
  constructor(core: Core, listeners?: Listeners, key?: string) {
    const { bound = NO_HOST + core.options.basePath, boundControls } = listeners ?? {}
    this.url = reachableUrl(bound)
    this.controlUrl = boundControls && reachableUrl(boundControls)
    this.log = core.log
    this.fetch = createFetch(core.service)
    this.#core = core
    this.#listeners = listeners
    this.#key = key
  }

  /** The core of its key, opened if need be. Without `storePerKey`, the only one. */
  get #coreOfKey(): Core {
    if (this.#isKeyClosed) throw closed()
    return this.#core.cores?.use(this.apiKey) ?? this.#core
  }

  /** The same, to change what it has: after close(), it can only be read. */
  get #openCore(): Core {
    const core = this.#coreOfKey
    if (core.recorder.isClosed) throw closed()
    return core
  }

  readonly of = (key: string): Petstore => {
    const { cores } = this.#core
    if (!cores) throw misuse('of(key) needs the option storePerKey')
    cores.use(key) // throws if it is not valid
    return new PetstoreHandle(this.#core, this.#listeners, key)
  }

  readonly listener: RequestListener = (req, res) =>
    new Exchange(this.#core.service, req, res).process()

  get apiKey(): string {
    return this.#key ?? this.#core.keyring.firstKey
  }

  get headers(): Petstore['headers'] {
    return { authorization: `Bearer ${this.apiKey}` }
  }

  get pets(): Pet[] {
    const { store } = this.#coreOfKey.context
    if (!store.values) throw misuse('pets must be read from your own store')
    return Array.from(store.values(), parsePet)
  }

  get requests(): RecordedRequest[] {
    return this.#coreOfKey.recorder.requests
  }

  get pendingFaults(): Fault[] {
    return this.#coreOfKey.faults.pending
  }

  get getPetState(): GetPetState {
    return this.#coreOfKey.context.getPetState
  }

  set getPetState(state: GetPetState) {
    check('getPetState', state, RULES.getPetState)
    this.#coreOfKey.context.getPetState = state
  }

  readonly add = async (newPets: readonly NewPet[]): Promise<Pet[]> => {
    const { store } = this.#openCore.context
    const pets = petsOrThrow(validateNewPets(newPets))
    // A local store, which has values(), takes all at once; a user's own stops at a failure.
    const adding = store.values ? pets.map((pet) => store.add(pet)) : await addInOrder(store, pets)
    const outcomes = await Promise.all(adding)
    return outcomes.map((added, at) => petIn(added, `pet ${at + 1} of ${pets.length}`))
  }

  readonly reset: Petstore['reset'] = async (newPets) => {
    const { options } = this.#core
    const { context, faults, recorder } = this.#openCore
    const pets = newPets === undefined ? options.pets : petsOrThrow(validateInitialPets(newPets))
    faults.hangUp() // first, so that no delayed request adds a pet to the fresh ones
    const fits = await orStorageFailed(context.store.reset(pets))
    if (!fits) throw noRoomFor(pets, options)
    faults.hangUp() // on those that came meanwhile, too
    faults.clear()
    context.getPetState = options.getPetState
    recorder.clear()
  }

  readonly inject = (fault: Fault): void => this.#openCore.faults.inject(fault)
  readonly clearFaults = (): void => this.#coreOfKey.faults.clear()
  readonly clearRequests = (): void => this.#coreOfKey.recorder.clear()
  readonly waitForRequests: Petstore['waitForRequests'] = async (count, options) =>
    this.#coreOfKey.recorder.waitFor(count, options)

  readonly replaceKeys = (apiKeys: readonly string[]): void => {
    check('apiKeys', apiKeys, RULES.apiKeys)
    this.#core.keyring.replace(apiKeys)
    this.#core.cores?.closeInvalid()
  }

  readonly close = async (drain = 0): Promise<number> => {
    check('drain', drain, DRAIN)
    const { cores, context, log } = this.#core
    if (this.#key) {
      if (!this.#isKeyClosed) cores?.close(this.#key)
      this.#isKeyClosed = true
      return 0
    }
    context.isDraining = true
    const cutOff = await this.#listeners?.stop(drain)
    cores?.closeAll()
    await orStorageFailed(closeCore(this.#core)).finally(() => log.flush())
    return cutOff ?? 0
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }
}

/** Adds one pet after the other, up to a failure. */
async function addInOrder(store: Store, pets: readonly NewPet[]): Promise<Added[]> {
  const outcomes: Added[] = []
  for (const pet of pets) {
    const added = await store.add(pet)
    outcomes.push(added)
    if (!added.ok) break
  }
  return outcomes
}

/** The pet that was added. Throws an error that says which one was not. */
function petIn(added: Added, which: string): Pet {
  if (added.ok) return parsePet(added.json)
  const { reason } = added
  const [, why] = ERRORS[reason]
  const message = `${which}: ${why}`
  if (reason === 'store_full') throw withCode(reason, new RangeError(message))
  throw withCode('storage_failed', new Error(message))
}

/** Puts the initial pets into a store that is empty. Throws an error if they do not fit. */
export async function fill(store: Store, options: Options): Promise<void> {
  const { pets } = options
  if (pets.length === 0) return
  const { json } = await store.page({ limit: 1, after: 0 })
  if (json === '[]' && !(await store.reset(pets))) throw noRoomFor(pets, options)
}

/** The error for pets that do not fit; it names the limit. */
export function noRoomFor(pets: readonly NewPet[], { store, maxStore }: Options): RangeError {
  const room = store ? 'the store' : `the ${maxStore} bytes of maxStore (--max-store)`
  return withCode('store_full', new RangeError(`${pets.length} pets do not fit into ${room}`))
}

/** Waits for the store; if that fails, the error has the code `storage_failed`. */
export async function orStorageFailed<T>(work: Awaitable<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    if (error instanceof RangeError && hasCode(error, 'store_full')) throw error // noRoomFor()'s
    throw withCode('storage_failed', new Error(messageOf(error), { cause: error }))
  }
}
