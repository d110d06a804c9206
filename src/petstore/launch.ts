import { refuse } from '../api/errors.ts'
import { routes } from '../api/routes.ts'
import { controlRoutes, isFromWebPage, teacherRoutes } from '../fake/control-routes.ts'
import { RequestRecorder } from '../fake/requests.ts'
import { type OpenStore, startsOf } from '../fake/teacher.ts'
import { openSnapshotStore } from '../files/snapshot-store.ts'
import { messageOf } from '../guards.ts'
import { isLoopback } from '../http/addresses.ts'
import { Keyring } from '../http/bearer.ts'
import type { RequestHead, Service } from '../http/dispatch.ts'
import { Limits } from '../http/limits.ts'
import { openLog } from '../http/log.ts'
import { createRouter, type Route } from '../http/router.ts'
import { HttpServer } from '../http/server.ts'
import { type AnyStore, MemoryStore, type Report } from '../pets/store.ts'
import { userStore } from '../pets/user-store.ts'
import type { Petstore, PetstoreOptions, StartOptions } from '../types.ts'
import { type Core, makeCore, type Setup } from './core.ts'
import { KeyCores } from './key-cores.ts'
import { CREATE_RULES, type Options, readOptions, RULES } from './options.ts'
import { fill, noRoomFor, orStorageFailed, type Parts, PetstoreHandle } from './petstore.ts'

/**
 * Starts a petstore that listens, by default on a free port of the loopback address.
 *
 * @throws Error with a `code`: an option is wrong, or the snapshot or a port cannot be used.
 * @example
 * const petstore = await startPetstore({ pets: [{ name: 'Rex', categoryId: 1, status: 'sold' }] })
 * const response = await fetch(`${petstore.url}/pets`, { headers: petstore.headers })
 * await petstore.close()
 */
export async function startPetstore(options: StartOptions = {}): Promise<Petstore> {
  const { petstore, logReports } = await launch(options)
  logReports()
  return petstore
}

/**
 * Creates a petstore without a socket: call its `fetch`, or serve its `listener` yourself.
 *
 * @throws TypeError or RangeError that names the option and what it must be.
 * @example
 * const petstore = createPetstore()
 * const response = await petstore.fetch(`${petstore.url}/pets`, { headers: petstore.headers })
 */
export function createPetstore(given: PetstoreOptions = {}): Petstore {
  const setup = makeSetup(readOptions(given, CREATE_RULES))
  return new PetstoreHandle(makeParts(setup, makeStore(setup, setup.log.event)))
}

/** @internal A petstore that listens, and its parts. */
export interface Launched extends Parts {
  readonly petstore: Petstore
  /** Logs what the store has reported so far: after the first line of the log. */
  readonly logReports: () => void
}

/** @internal Starts a petstore, for `startPetstore` and the executable. */
export async function launch(given: StartOptions, limits: Partial<Limits> = {}): Promise<Launched> {
  const setup = makeSetup(readOptions(given, RULES))
  const held: Parameters<Report>[] = []
  let report: Report = (...event) => void held.push(event)
  const logReports = () => {
    report = setup.log.event
    for (const event of held) report(...event)
  }
  try {
    const parts = await listen(setup, { ...new Limits(), ...limits }, (...event) =>
      report(...event),
    )
    return { ...parts, petstore: new PetstoreHandle(parts), logReports }
  } catch (error) {
    logReports()
    throw error
  }
}

async function listen(setup: Setup, given: Limits, report: Report): Promise<Parts> {
  const { options } = setup
  // Half for the API, and half for the controls: neither can take what is the other's.
  const shares = options.controlPort === undefined ? 1 : 2
  const limits = { ...given, maxHeldBytes: given.maxHeldBytes / shares }
  const { snapshot, maxStore, basePath } = options
  const store = snapshot
    ? await orStorageFailed(openSnapshotStore(snapshot, maxStore, report))
    : makeStore(setup, report)
  const parts = makeParts(setup, store)
  const server = makeServer(parts, parts.core.service, limits)
  try {
    // Fills an empty snapshot, and by this first use a user's store. Memory has its pets already.
    await orStorageFailed(fill(store, options))
    const bound = await server.listen(options.port, options.host)
    const load = () => server.load
    const controls = await startControls(parts, limits)
    const stop = async (drain: number) => {
      await controls?.server.stop(0)
      return server.stop(drain)
    }
    return { ...parts, bound: bound + basePath, boundControls: controls?.bound, load, stop }
  } catch (error) {
    await Promise.allSettled([server.stop(0), store.close()])
    throw error
  }
}

function makeSetup(options: Options): Setup {
  const { apiKeys, storePerKey, hasGeneratedKey, log, logStream = process.stdout } = options
  const keyring = new Keyring(apiKeys, storePerKey && hasGeneratedKey, options.teacherKey)
  const faultSum = { length: 0 }
  return { options, keyring, log: openLog(log, logStream, keyring.redact), faultSum }
}

/** A store without a file, with its initial pets. */
function makeStore({ options, log }: Setup, report: Report): AnyStore {
  const { store: ownStore, pets, maxStore } = options
  if (ownStore) {
    const fillStore = () => fill(ownStore, options)
    return userStore(ownStore, fillStore, (error) =>
      log.count('error', `the store failed: ${messageOf(error)}`),
    )
  }
  const memory = new MemoryStore(maxStore, report)
  if (!memory.reset(pets)) throw noRoomFor(pets, options)
  return memory
}

function makeParts(setup: Setup, store: AnyStore): Parts {
  const { options, keyring } = setup
  const { redact } = keyring
  if (!options.storePerKey) {
    const recorder = new RequestRecorder(options.maxRequests, redact)
    return { ...setup, core: makeCore(setup, store, recorder, redact) }
  }
  // The core of requests without a valid key. They are not recorded: a petstore shows its key's.
  // Its store is only measured: each key's begins like it.
  const keyless = makeCore(setup, store, new RequestRecorder(0, redact), redact)
  const keyCores = new KeyCores(setup, store.bytes ?? 0)
  const full = fullService(keyless)
  const serviceFor = ({ method, target, headers }: RequestHead) => {
    const { secured } = keyless.service.router.find(method, target)
    const key = secured ? keyring.keyIn(headers.authorization) : undefined
    if (key === undefined) return undefined
    return keyCores.coreOf(key)?.service ?? full
  }
  return { ...setup, core: { ...keyless, service: { ...keyless.service, serviceFor } }, keyCores }
}

/** The service of valid keys whose stores have no room. */
function fullService({ context, service }: Core): Service {
  const handle = () => refuse('noRoomForStore')
  const table = routes(context).map((route) => ({ ...route, handle }))
  return { ...service, router: createRouter(table, context.basePath), authorize: () => undefined }
}

function makeServer({ options, log }: Setup, service: Service, limits: Limits): HttpServer {
  const { maxConnections, keepAlive: keepAliveTimeout, unref } = options
  const warn = (what: string) => log.count('warn', what)
  return new HttpServer(service, { ...limits, maxConnections, keepAliveTimeout, unref, warn })
}

const MAX_CONTROL_BODY = 4 * 2 ** 20 // parsing it must not hold up the petstore for long
const CONTROL_PATHS = '/ (GET / lists them)' // where they are

/** Starts the test controls if they are wanted. */
async function startControls(parts: Parts, limits: Limits) {
  const { options, core, keyring, keyCores } = parts
  const { controlPort, controlHost } = options
  if (controlPort === undefined) return undefined
  let isOnLoopback = true // until the address is known
  const petstore = new PetstoreHandle(parts)
  const serviceOf = (routes: Route[]): Service => ({
    router: createRouter(routes, '', CONTROL_PATHS),
    authorize: (headers) => {
      if (isFromWebPage(headers, isOnLoopback)) return 'forbidden'
      if (keyring.isReserved(headers.authorization)) return undefined // the teacher's
      return keyCores && keyring.authorize(headers.authorization)
    },
    cors: [],
    maxBody: MAX_CONTROL_BODY,
    refuse,
    onBug: core.service.onBug,
  })
  const service = serviceOf(controlRoutes(() => petstore))
  const forTeacher = keyCores && serviceOf(teacherRoutes(() => storesOf(parts, keyCores)))
  // With `keyCores`, a control acts on the store that the key has once the body has come.
  const serviceFor = ({ headers: { authorization } }: RequestHead) => {
    if (keyring.isReserved(authorization)) return forTeacher
    const key = keyCores && keyring.keyIn(authorization)
    return key === undefined ? undefined : serviceOf(controlRoutes(() => petstore.of(key)))
  }
  const server = makeServer(parts, { ...service, serviceFor }, limits)
  const bound = await server.listen(controlPort, controlHost)
  isOnLoopback = isLoopback(bound)
  return { bound, server }
}

/** The stores that are open, by number, for the teacher. */
function storesOf(parts: Parts, { open }: KeyCores): OpenStore<PetstoreHandle>[] {
  const starts = parts.keyring.isAnyKeyValid ? startsOf([...open.keys()]) : undefined
  const stores = Array.from(open, ([key, core]) => {
    // As the requests of the key are numbered.
    const number = Number(core.service.authorize({ authorization: `Bearer ${key}` }, 'GET'))
    const keyStart = starts?.get(key) ?? null
    const pets = core.context.store.size
    const petstore = new PetstoreHandle(parts, { key, core })
    return { petstore, number, keyStart, pets, ...core.recorder.summary }
  })
  return stores.sort((a, b) => a.number - b.number)
}
