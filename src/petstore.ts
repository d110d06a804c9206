import { randomBytes } from 'node:crypto'
import type { IncomingHttpHeaders, RequestListener } from 'node:http'
import { FullPages } from './api/full-pages.ts'
import { routes } from './api/routes.ts'
import { Keyring } from './http/bearer.ts'
import { corsFields } from './http/cors.ts'
import { createDispatch } from './http/dispatch.ts'
import { createListener, type Service } from './http/exchange.ts'
import { createFetch } from './http/fetch.ts'
import { createLog, type Log } from './http/log.ts'
import { readRequestId } from './http/reply.ts'
import { type Call, type Route, Router } from './http/router.ts'
import { HttpServer } from './http/server.ts'
import {
  type CreateOptions,
  OPTION_RULES,
  type Options,
  type PetstoreOptions,
  readNewPets,
  readOptions,
} from './options.ts'
import type { NewPet, Pet } from './pets/pet.ts'
import { openSnapshotStore } from './pets/snapshot-store.ts'
import { MemoryStore, type PetStore } from './pets/store.ts'
import { check } from './rules.ts'
import { controlServer } from './testing/control.ts'
import { Controls } from './testing/controls.ts'
import { checkFault, type Fault, Faults } from './testing/faults.ts'
import { Journal, type RecordedRequest } from './testing/journal.ts'

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

/** Makes a key that nobody can guess: 192 random bits, base64url. */
export function generateApiKey(): string {
  return randomBytes(24).toString('base64url')
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

interface Base {
  readonly keyring: Keyring
  readonly apiKey: string
  readonly log: Log
}

function layBase({ apiKeys = [generateApiKey()], log: format, logStream = process.stdout }: Options): Base {
  const keyring = new Keyring(apiKeys)
  return { keyring, apiKey: apiKeys[0] ?? '', log: createLog(format, logStream, (text) => keyring.redact(text)) }
}

interface Core extends Base {
  readonly store: PetStore
  readonly controls: Controls
  readonly service: Service
  /** The methods of all resources. */
  readonly allow: string
  readonly onBug: (error: unknown) => void
  /** Set when the petstore begins to close. */
  readonly state: { isDraining: boolean }
}

/** Puts store, routes and test controls together. */
function assemble(
  { basePath, maxBody, getPet, page, cors, journal: length, pets }: Options,
  base: Base,
  store: PetStore,
): Core {
  const { keyring, log } = base
  const state = { isDraining: false }
  const pages = new FullPages()
  const faults = new Faults()
  const journal = new Journal(length, (text) => keyring.redact(text))
  const controls = new Controls(store, pets, faults, journal, () => pages.clear())
  const onBug = (error: unknown) => log.event('error', error instanceof Error ? String(error.stack) : String(error))
  const context = { store, basePath, pages, isDraining: () => state.isDraining }
  const router = new Router(routes(context, { getPet, page }), basePath)
  const handle = (route: Route, call: Call) => faults.answer(route, call)
  const dispatch = createDispatch({ router, keyring, preflights: cors !== undefined, maxBody, onBug, handle })
  const record = recorder(log, length > 0 ? journal : undefined)
  const service = { dispatch, echo: (headers: IncomingHttpHeaders) => echo(headers, cors), maxBody, record }
  return { ...base, store, controls, service, allow: router.allow, onBug, state }
}

function recorder(log: Log, journal: Journal | undefined): Service['record'] {
  if (journal === undefined) return log.on ? log.request : undefined
  return (outcome) => {
    log.request(outcome)
    journal.add(outcome)
  }
}

/** The field lines of an answer that come from the request's. */
function echo(headers: IncomingHttpHeaders, cors?: string): readonly string[] {
  const requestId = readRequestId(headers['x-request-id'])
  const lines = requestId === undefined ? NO_LINES : ['X-Request-Id', requestId]
  return cors === undefined ? lines : [...lines, ...corsFields(cors, headers)]
}

const NO_LINES: readonly string[] = []

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

async function openStore(options: Options, log: Log): Promise<PetStore> {
  const { maxStore, pets, snapshot: path } = options
  const store =
    path === undefined
      ? new MemoryStore(maxStore)
      : await openSnapshotStore({ path, maxBytes: maxStore, report: log.event })
  try {
    if (store.size > 0 || pets.length === 0 || (await store.reset(pets))) return store
    throw cannotBegin(options)
  } catch (error) {
    await store.close()
    throw error
  }
}

function cannotBegin({ pets, maxStore }: Options): RangeError {
  return new RangeError(`Cannot begin with ${pets.length} animals: they do not fit into ${maxStore} bytes`)
}
