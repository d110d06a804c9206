import type { RequestListener } from 'node:http'
import { inspect, type InspectOptions } from 'node:util'
import { ADD_ERRORS, ERRORS } from '../api/errors.ts'
import type { IdentifiedFault } from '../fake/faults.ts'
import type { RequestRecorder } from '../fake/requests.ts'
import { verify } from '../fake/verify.ts'
import { hasCode, messageOf } from '../guards.ts'
import { reachableUrl } from '../http/addresses.ts'
import { Exchange } from '../http/exchange.ts'
import { connectionError, createFetch } from '../http/fetch.ts'
import type { Load } from '../http/server.ts'
import { nextTurn } from '../runtime.ts'
import { parsePet, validateInitialPets, validateNewPets } from '../pets/pet.ts'
import { check, integer, misuse, withCode } from '../rules.ts'
import type { Added, Awaitable, NewPet, Pet, Store } from '../store-types.ts'
import type { Fault, GetPetState, InjectedFault, PendingFault, Petstore } from '../types.ts'
import type { RecordedRequest } from '../types.ts'
import { closeCore, type Core, type Setup } from './core.ts'
import type { KeyCores } from './key-cores.ts'
import { checkApiKeys, type Options, petsOrThrow, RULES } from './options.ts'

/** What a petstore is put together from. URLs are as bound, such as http://0.0.0.0:8080/v1. */
export interface Parts extends Setup {
  readonly core: Core // with `keyCores`, of requests without a valid key
  readonly keyCores?: KeyCores
  readonly bound?: string // undefined without a socket
  readonly boundControls?: string | undefined
  readonly load?: () => Load
  /** Stops listening; returns how many requests were cut off. */
  readonly stop?: (drain: number) => Promise<number>
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
  declare readonly apiKey: string
  declare readonly headers: Petstore['headers']
  readonly #parts: Parts
  readonly #own: { readonly key: string; readonly core: Core } | undefined
  readonly #fetch: Petstore['fetch']

  /** @param own Makes it the petstore of this key alone. */
  constructor(parts: Parts, own?: { key: string; core: Core }) {
    const { bound = NO_HOST + parts.options.basePath, boundControls } = parts
    this.url = reachableUrl(bound)
    this.controlUrl = boundControls && reachableUrl(boundControls)
    this.log = parts.log
    this.#parts = parts
    this.#own = own
    this.#fetch = createFetch(parts.core.service)
    // Of its own, so that a copy, `fetch(url, { ...petstore, method })`, sends the key; getters,
    // because replaceKeys() changes them.
    const getKey = () => own?.key ?? parts.keyring.firstKey
    const getHeaders = () => ({ authorization: `Bearer ${getKey()}` })
    Object.defineProperty(this, 'apiKey', { get: getKey, enumerable: true })
    Object.defineProperty(this, 'headers', { get: getHeaders, enumerable: true })
    const show = (_depth: number, options: InspectOptions) => this.#show(options)
    Object.defineProperty(this, inspect.custom, { value: show })
  }

  /** The core of a key, opened if need be. Without `storePerKey`, the only one. */
  #coreOf(key: string): Core {
    const { core, keyCores } = this.#parts
    if (!keyCores) return core
    if (core.context.state === 'closed' && !keyCores.open.has(key)) throw closed()
    const opened = keyCores.coreOf(key)
    if (opened) return opened
    throw withCode('store_full', new RangeError(ERRORS.noRoomForStore[1]))
  }

  /**
   * The core that this handle reads and writes: its own key's or, for the petstore of all keys, the
   * first key's, whose store this opens if need be.
   */
  #core(): Core {
    return this.#own?.core ?? this.#coreOf(this.apiKey)
  }

  /** The same, to change it: once closed, it can only be read. */
  #openCore(): Core {
    const core = this.#core()
    if (core.context.state === 'closed') throw closed()
    return core
  }

  readonly of = (key: string): PetstoreHandle => {
    if (!this.#parts.keyCores) throw misuse('of(key) needs the option storePerKey')
    return new PetstoreHandle(this.#parts, { key, core: this.#coreOf(key) })
  }

  readonly fetch: Petstore['fetch'] = async (input, init) => {
    const { context } = this.#own?.core ?? this.#parts.core
    if (context.state === 'closed') throw connectionError('fetch failed')
    return this.#fetch(input, init)
  }

  readonly listener: RequestListener = (req, res) =>
    new Exchange(this.#parts.core.service, req, res).process()

  get pets(): Pet[] {
    const { store } = this.#core().context
    if (!store.values) throw misuse('pets must be read from your own store')
    return Array.from(store.values(), parsePet)
  }

  get requests(): RecordedRequest[] {
    return this.#core().recorder.requests
  }

  get pendingFaults(): PendingFault[] {
    return this.#core().faults.pending
  }

  get getPetState(): GetPetState {
    return this.#core().context.getPetState
  }

  set getPetState(state: GetPetState) {
    check('getPetState', state, RULES.getPetState)
    this.#core().context.getPetState = state
  }

  readonly add = async (newPets: readonly NewPet[]): Promise<Pet[]> => {
    const { store } = this.#openCore().context
    const pets = petsOrThrow(validateNewPets(newPets))
    // A local store, which has values(), takes all at once; a user's own stops at a failure.
    const adding = store.values ? pets.map((pet) => store.add(pet)) : await addInOrder(store, pets)
    const outcomes = await Promise.all(adding)
    return outcomes.map((added, at) => petIn(added, `pet ${at + 1} of ${pets.length}`))
  }

  readonly reset: Petstore['reset'] = async (newPets) => {
    const { options } = this.#parts
    const { context, faults, recorder } = this.#openCore()
    const pets = newPets === undefined ? options.pets : petsOrThrow(validateInitialPets(newPets))
    faults.hangUp() // first, so that no delayed request adds a pet to the fresh ones
    const fits = await orStorageFailed(context.store.reset(pets))
    if (!fits) throw noRoomFor(pets, options)
    faults.hangUp() // on those that came meanwhile, too
    faults.clear()
    context.getPetState = options.getPetState
    recorder.clear()
  }

  readonly inject = (fault: Fault): IdentifiedFault => this.#openCore().faults.inject(fault)
  /** @internal A fault by its id, for the controls. */
  readonly injected = (id: string): InjectedFault | undefined => this.#core().faults.injected(id)
  readonly verify = (): void => verify(this.pendingFaults, this.requests)
  readonly clearFaults = (): void => this.#core().faults.clear()
  readonly clearRequests = (): void => this.#core().recorder.clear()
  readonly waitForRequests: RequestRecorder['waitFor'] = async (...wait) => {
    const { context, recorder } = this.#core()
    const waiting = recorder.waitFor(...wait)
    if (context.state === 'closed') recorder.endWaits() // no more will come
    return waiting
  }

  readonly replaceKeys = (apiKeys: readonly string[]): void => {
    checkApiKeys(apiKeys, this.#parts.options.teacherKey)
    this.#parts.keyring.replace(apiKeys)
    this.#parts.keyCores?.closeInvalid()
  }

  readonly close = async (drain = 0): Promise<number> => {
    check('drain', drain, DRAIN)
    const { core, keyCores, stop, log } = this.#parts
    if (this.#own) {
      keyCores?.close(this.#own.key, this.#own.core)
      return 0
    }
    if (core.context.state === 'serving') core.context.state = 'draining'
    const cutOff = await stop?.(drain)
    keyCores?.closeAll()
    await orStorageFailed(closeCore(core)).finally(() => log.flush())
    // A client in this process learns in this turn that its connections have ended. Without it, it
    // would use one of them for a petstore that is next on the same port.
    await nextTurn()
    return cutOff ?? 0
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  /** What console.log() shows: no key, and no store that this would open. */
  #show(options: InspectOptions): string {
    const { core, keyCores } = this.#parts
    const shown = this.#own?.core ?? (keyCores ? undefined : core)
    const contents = shown && {
      pets: shown.context.store.size,
      faults: shown.faults.pending,
      requests: shown.recorder.requests.map(({ method, path, status }) => {
        return `${method} ${path} ${status}`
      }),
    }
    return `Petstore ${inspect({ url: this.url, ...contents }, options)}`
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
  const [, why] = ERRORS[ADD_ERRORS[reason]]
  const message = `${which}: ${why}`
  throw withCode(reason, reason === 'store_full' ? new RangeError(message) : new Error(message))
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

/** Waits for the store; if that fails, the error has the code `storage_failed`, or its own. */
export async function orStorageFailed<T>(work: Awaitable<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    if (error instanceof RangeError && hasCode(error, 'store_full')) throw error // noRoomFor()'s
    const code = hasCode(error, 'outcome_unknown') ? 'outcome_unknown' : 'storage_failed'
    throw withCode(code, new Error(messageOf(error), { cause: error }))
  }
}
