import { inspect } from 'node:util'
import { routesOf } from './api/operations.ts'
import { codedError } from './errors.ts'
import { controlApp } from './fake/controls.ts'
import { Faults } from './fake/faults.ts'
import { Requests } from './fake/requests.ts'
import { isLoopback } from './http/addresses.ts'
import type { App, Exchange } from './http/exchange.ts'
import { Keys } from './http/keys.ts'
import { Log } from './http/log.ts'
import { Router } from './http/router.ts'
import { HttpServer } from './http/server.ts'
import { API_KEYS, type Options, petsOrThrow, readOptions } from './options.ts'
import { MemoryStore } from './pets/memory-store.ts'
import { orStorageFailed, petOrThrow, resetOrThrow } from './pets/outcomes.ts'
import { parsePet, validateInitialPets, validateNewPets } from './pets/pet.ts'
import { SnapshotStore } from './pets/snapshot-store.ts'
import type { Added, Awaitable, InitialPet, Pet, Store } from './pets/store.ts'
import { userStore } from './pets/user-store.ts'
import { check, integer, misuse } from './rules.ts'
import type { Petstore, StartOptions } from './types.ts'

/**
 * Starts a petstore that listens, by default on a free port of the loopback address.
 *
 * @param options All have defaults: see {@link StartOptions}.
 * @returns The running petstore.
 * @throws TypeError or RangeError `invalid_option`, TypeError `invalid_pet`: an option is wrong.
 * @throws Error `storage_failed` or `store_full`, or with the system's code: it cannot listen.
 * @example
 * const petstore = await startPetstore({ pets: [{ name: 'Rex', categoryId: 1, status: 'sold' }] })
 * const response = await fetch(`${petstore.url}/pets`, { headers: petstore.headers })
 * await petstore.close()
 */
export async function startPetstore(options: StartOptions = {}): Promise<Petstore> {
  const { petstore } = await RunningPetstore.launch(options, 'fake')
  return petstore
}

/** @internal A petstore, and the parts of it that the executable shows and stops. */
export interface Launched {
  readonly petstore: Petstore
  readonly options: Options
  readonly log: Log
  readonly keys: Keys
  readonly store: Store
  readonly server: HttpServer
  /** From now on, /readyz is 503. */
  announceStop(): void
}

const DRAIN = integer(0, 86_400_000, ' ms')

/** @internal */
export class RunningPetstore implements Petstore {
  readonly #options: Options
  readonly #log: Log
  readonly #store: Store
  readonly #keys: Keys
  readonly #faults = new Faults()
  readonly #requests = new Requests()
  readonly #server: HttpServer
  readonly #controls: HttpServer | undefined
  #state: 'open' | 'stopping' | 'closed' = 'open'
  #ending: Promise<void> | undefined

  private constructor(options: Options, log: Log, store: Store, purpose: 'server' | 'fake') {
    const { basePath, strict, getPetState, cors = [], maxBody, apiKeys, host } = options
    this.#options = options
    this.#log = log
    this.#store = store
    this.#keys = new Keys(apiKeys)
    const isStopping = (): boolean => this.#state !== 'open'
    const own = routesOf({ store, basePath, strict, getPetState, isStopping })
    const routes = purpose === 'fake' ? own.map((route) => this.#faults.wrap(route)) : own
    const app: App = {
      router: new Router(routes, basePath),
      authorize: ({ method, headers }) => {
        return method === 'OPTIONS' ? undefined : this.#keys.authorize(headers.authorization)
      },
      cors: [cors].flat(),
      maxBody,
      onBug: this.#onBug,
      onEnd: (exchange) => this.#onEnd(exchange, purpose),
      onRefused: (reply, remote) => log.refused(reply, remote),
    }
    this.#server = new HttpServer(app, options)
    if (options.controlPort === undefined) return
    this.#controls = new HttpServer(controlApp(this, isLoopback(host), this.#onBug), options)
  }

  /** @param purpose Only a fake has faults, and records requests. */
  static async launch(given: StartOptions, purpose: 'server' | 'fake'): Promise<Launched> {
    const options = readOptions(given)
    const log = new Log(options.log)
    const store = await openStore(options, log)
    const petstore = new RunningPetstore(options, log, store, purpose)
    try {
      await fill(store, options.pets)
      const { port, host, controlPort = 0 } = options
      await petstore.#server.listen(port, host)
      await petstore.#controls?.listen(controlPort, host)
    } catch (error) {
      await petstore.close().catch(() => {}) // the first error counts
      throw error
    }
    const announceStop = (): void => {
      petstore.#state = 'stopping'
    }
    const parts = { keys: petstore.#keys, server: petstore.#server, options, log, store }
    return { petstore, ...parts, announceStop }
  }

  readonly #onBug = (error: unknown): void => {
    if (this.#log.isOff) console.error(`petstore-server: ${inspect(error)}`)
    else this.#log.event('error', inspect(error))
  }

  #onEnd(exchange: Exchange, purpose: 'server' | 'fake'): void {
    const isProbe = exchange.route?.isProbe === true
    if (!isProbe || exchange.reply?.status !== 200) this.#log.request(exchange)
    if (!isProbe && purpose === 'fake') this.#requests.add(exchange)
  }

  get url(): string {
    return this.#server.url + this.#options.basePath
  }

  get controlUrl(): string | undefined {
    return this.#controls?.url
  }

  get apiKey(): string {
    return this.#keys.first
  }

  get headers(): { readonly authorization: string } {
    return { authorization: `Bearer ${this.apiKey}` }
  }

  get pets(): Pet[] {
    if (this.#store instanceof MemoryStore) return Array.from(this.#store.pets.values(), parsePet)
    throw misuse('pets must be read from your own store')
  }

  get requests(): Petstore['requests'] {
    return this.#requests.all
  }

  get pendingFaults(): Petstore['pendingFaults'] {
    return this.#faults.pending
  }

  readonly add: Petstore['add'] = async (newPets) => {
    this.#checkOpen()
    const pets = petsOrThrow(validateNewPets(newPets))
    const outcomes: Awaitable<Added>[] = []
    for (const pet of pets) {
      const adding = this.#store.add(pet)
      // A store of this process takes all at once; a user's own stops at a failure.
      const added = this.#store instanceof MemoryStore ? adding : await adding
      outcomes.push(added)
      if ('ok' in added && !added.ok) break
    }
    return (await Promise.all(outcomes)).map(petOrThrow)
  }

  readonly reset: Petstore['reset'] = async (newPets) => {
    this.#checkOpen()
    const { pets } = this.#options
    const fresh = newPets === undefined ? pets : petsOrThrow(validateInitialPets(newPets))
    this.#faults.clear() // first, so that no delayed request adds a pet to the fresh ones
    await resetOrThrow(this.#store, fresh)
    this.#requests.clear()
  }

  readonly inject: Petstore['inject'] = (fault) => {
    this.#checkOpen()
    return this.#faults.inject(fault)
  }

  readonly clearFaults = (): void => this.#faults.clear()
  readonly clearRequests = (): void => this.#requests.clear()

  readonly waitForRequests: Petstore['waitForRequests'] = (count, options) => {
    return this.#requests.waitFor(count, options)
  }

  readonly replaceKeys: Petstore['replaceKeys'] = (apiKeys) => {
    check('apiKeys', apiKeys, API_KEYS)
    this.#keys.replace(apiKeys)
  }

  readonly close: Petstore['close'] = async (drain = 0) => {
    check('drain', drain, DRAIN)
    this.#state = 'closed'
    await this.#controls?.stop(0)
    const cutOff = await this.#server.stop(drain)
    this.#ending ??= this.#end()
    await this.#ending
    return cutOff
  }

  async #end(): Promise<void> {
    this.#faults.clear()
    this.#requests.close()
    await orStorageFailed(this.#store.close())
    await this.#log.flush()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  #checkOpen(): void {
    if (this.#state === 'closed') throw codedError('closed', 'this petstore is closed')
  }
}

function openStore({ store, snapshot, maxStore }: Options, log: Log): Awaitable<Store> {
  if (store) return userStore(store)
  if (snapshot === undefined) return new MemoryStore(maxStore)
  const warn = (message: string): void => log.event('warn', message)
  return orStorageFailed(SnapshotStore.open(snapshot, maxStore, warn))
}

/** Puts the initial pets into a store that is empty. */
async function fill(store: Store, pets: readonly InitialPet[]): Promise<void> {
  if (pets.length === 0) return
  const { json } = await orStorageFailed(store.page({ limit: 1, after: 0 }))
  if (json === '[]') await resetOrThrow(store, pets)
}
