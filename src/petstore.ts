import type { RequestListener } from 'node:http'
import { assemble, cannotBegin, type Core, layBase, openStore } from './core.ts'
import { createListener } from './http/exchange.ts'
import { createFetch } from './http/fetch.ts'
import type { Log } from './http/log.ts'
import { HttpServer } from './http/server.ts'
import { type CreateOptions, OPTION_RULES, type PetstoreOptions, readNewPets, readOptions } from './options.ts'
import type { NewPet, Pet } from './pets/pet.ts'
import { MemoryStore } from './pets/store.ts'
import { check } from './rules.ts'
import { controlServer } from './testing/control.ts'
import { checkFault, type Fault } from './testing/faults.ts'
import type { RecordedRequest } from './testing/journal.ts'

/** A petstore that runs. */
export interface Petstore extends AsyncDisposable {
  /** The base address, without a slash at its end: every operation's path is relative to it. */
  readonly url: string
  /** The base address of the test controls, where `controlPort` was given. */
  readonly controlUrl?: string
  /** The first of the keys that it was set up with. */
  readonly apiKey: string
  /**
   * Calls the petstore in process, as the global `fetch` would over a socket; the host in the URL does not matter. As there, a
   * text body wants its `content-type`, and a request that is hung up on rejects with a TypeError.
   */
  readonly fetch: typeof globalThis.fetch
  /** Serves the petstore from a node:http server of your own, or from whatever takes a request listener. */
  readonly listener: RequestListener
  /** What the store holds, in ascending order of id: a copy made at each reading, as the next two are. */
  readonly pets: Pet[]
  /** The latest requests, as many as the option `journal` says and 16 Mi characters hold, from the oldest on. */
  readonly requests: RecordedRequest[]
  /** The faults that have not met their requests yet, in their order. */
  readonly pendingFaults: Fault[]
  /** The log, for what its owner wants to add. */
  readonly log: Pick<Log, 'on' | 'event' | 'flush'>
  /**
   * Adds animals as clients do, but beside the journal and the faults.
   *
   * @returns The animals with their ids.
   * @throws TypeError that names the animal that is wrong, before any is added; RangeError when the store has no room.
   */
  add(...newPets: NewPet[]): Promise<Pet[]>
  /**
   * Goes back to the animals of the option `pets`, or begins with others: ids from 1 on, no requests, no faults.
   *
   * @throws TypeError that names the animal that is wrong, RangeError when they do not fit: all is then as it was.
   */
  reset(newPets?: readonly NewPet[]): Promise<void>
  /**
   * Makes requests fail. Faults apply in the order in which they were injected, one to a request, each `times` times.
   *
   * @throws TypeError or RangeError that names the member, the value and what it must be.
   * @example
   * petstore.inject({ operation: 'createPet', times: 2, status: 503, retryAfter: 1 })
   */
  inject(fault: Fault): void
  /** Makes these keys, and no others, the valid ones from the next request on. */
  replaceKeys(apiKeys: readonly string[]): void
  /**
   * Stops listening, closes idle connections, and writes out snapshot and log. Closing again is fine, and may shorten the wait.
   *
   * @param drain Seconds that requests in flight get to be answered; 0 unless given, which cuts them off at once.
   * @returns How many requests in flight were cut off.
   */
  close(drain?: number): Promise<number>
}

/**
 * Starts a petstore that listens, on a free port of the loopback address unless told otherwise.
 *
 * @throws TypeError or RangeError that names the option, the value and what it must be; Error with file, line and reason when
 * the snapshot cannot be used, and with the system's code when an address cannot be listened on.
 * @example
 * await using petstore = await startPetstore({ pets: [{ name: 'Rex', categoryId: 1, status: 'sold' }] })
 * const headers = { authorization: `Bearer ${petstore.apiKey}` }
 * const response = await fetch(`${petstore.url}/pets`, { headers })
 */
export async function startPetstore(options: PetstoreOptions = {}): Promise<Petstore> {
  const read = readOptions(options, true)
  const base = layBase(read)
  const { host, port, basePath, controlHost, controlPort, limits, maxConnections, keepAlive } = read
  const core = assemble(read, base, await openStore(read, base.log))
  const { controls, service, allow, onBug } = core
  const bounds = { limits, maxConnections, keepAlive: keepAlive * 1000 }
  const server = new HttpServer({ ...bounds, service, allow })
  const control = controlPort === undefined ? undefined : controlServer(controls, { ...bounds, onBug })
  try {
    const url = `${await server.listen(port, host)}${basePath}`
    const controlUrl = await control?.listen(controlPort ?? 0, controlHost)
    const petstore = handleOf(core, url, async (drain) => {
      const [cut] = await Promise.all([server.stop(drain * 1000), control?.stop(0)])
      return cut
    })
    return controlUrl === undefined ? petstore : Object.assign(petstore, { controlUrl })
  } catch (error) {
    await Promise.all([server.stop(0), core.store.close()])
    throw error
  }
}

/**
 * Makes a petstore without a socket: it is called by its `fetch`, or served by a server of your own through its `listener`.
 *
 * @throws TypeError or RangeError that names the option, the value and what it must be.
 * @example
 * const petstore = createPetstore({ apiKeys: ['key-of-the-tests'] })
 * const headers = { authorization: 'Bearer key-of-the-tests' }
 * const response = await petstore.fetch(`${petstore.url}/pets`, { headers })
 */
export function createPetstore(options: CreateOptions = {}): Petstore {
  const read = readOptions(options, false)
  const store = new MemoryStore(read.maxStore)
  if (!store.reset(read.pets)) throw cannotBegin(read)
  return handleOf(assemble(read, layBase(read), store), `http://${NO_HOST}${read.basePath}`, async () => 0)
}

// RFC 6761 §6.4: a name that never leads anywhere, so that a request over a socket fails and says why.
const NO_HOST = 'petstore.invalid'

function handleOf(core: Core, url: string, stop: (drain: number) => Promise<number>): Petstore {
  const { controls, keyring, apiKey, log, store, state, service } = core
  async function close(drain = 0): Promise<number> {
    state.isDraining = true
    const cut = await stop(drain)
    controls.faults.clear()
    await store.close()
    await log.flush()
    return cut
  }
  return {
    url,
    apiKey,
    fetch: createFetch(service),
    listener: createListener(service),
    get pets() {
      return controls.pets
    },
    get requests() {
      return controls.journal.requests
    },
    get pendingFaults() {
      return controls.faults.pending
    },
    log,
    add: async (...newPets) => controls.add(readNewPets('newPets', newPets)),
    reset: async (newPets) => controls.reset(newPets === undefined ? newPets : readNewPets('newPets', newPets)),
    inject(fault) {
      checkFault(fault)
      controls.faults.inject(fault)
    },
    replaceKeys(apiKeys) {
      check('apiKeys', apiKeys, OPTION_RULES.apiKeys)
      keyring.replace(apiKeys)
    },
    close,
    async [Symbol.asyncDispose]() {
      await close()
    },
  }
}
