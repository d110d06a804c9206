import { inspect } from 'node:util'
import { refuse } from '../api/errors.ts'
import type { Context } from '../api/operations.ts'
import { routes } from '../api/routes.ts'
import { messageOf } from '../guards.ts'
import { fill, type Listeners, noRoomFor, orStorageFailed, PetstoreHandle } from './petstore.ts'
import { Keyring } from '../http/bearer.ts'
import type { RequestHead, Service } from '../http/dispatch.ts'
import { Limits } from '../http/limits.ts'
import { openLog } from '../http/log.ts'
import { createRouter } from '../http/router.ts'
import { HttpServer, isLoopback } from '../http/server.ts'
import { CREATE_RULES, type Options, readOptions, RULES } from './options.ts'
import { openSnapshotStore } from '../files/snapshot-store.ts'
import { type AnyStore, type Budget, MemoryStore, type Report } from '../pets/store.ts'
import { userStore } from '../pets/user-store.ts'
import { controlRoutes, isFromWebPage } from '../fake/control.ts'
import { type Core, Cores, type Setup } from './cores.ts'
import { Faults } from '../fake/faults.ts'
import { RequestRecorder } from '../fake/requests.ts'
import { makeStrict } from '../fake/violations.ts'
import type { Petstore, PetstoreOptions, StartOptions } from '../types.ts'

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
  return new PetstoreHandle(makeRootCore(setup, makeStore(setup, setup.log.event)))
}

/** @internal What the executable needs: the petstore, its core, and addresses as bound. */
export interface Launched extends Core, Omit<Listeners, 'stop'> {
  readonly petstore: Petstore
  /** Logs what the store has reported: not before the first line of the log. */
  readonly logReports: () => void
}

/** @internal Starts a petstore, for `startPetstore` and the executable. Tests override limits. */
export async function launch(given: StartOptions, overrides?: Partial<Limits>): Promise<Launched> {
  const options = readOptions(given, RULES)
  const limits = { ...new Limits(), ...overrides }
  const { basePath, snapshot, maxStore } = options
  const setup = makeSetup(options)
  let logReports = () => {} // will resolve mayLog: reports follow the first line of the log
  const mayLog = new Promise<void>((resolve) => {
    logReports = resolve
  })
  const report: Report = (...event) => void mayLog.then(() => setup.log.event(...event))
  const store = snapshot
    ? await orStorageFailed(openSnapshotStore(snapshot, maxStore, report))
    : makeStore(setup, report)
  const core = makeRootCore(setup, store)
  const server = makeServer(core, core.service, limits)
  try {
    // For an empty snapshot. Memory has its pets already; a user's store fills itself on first use.
    await orStorageFailed(fill(store, options))
    const bound = await server.listen(options.port, options.host)
    const controls = await startControls(core, limits)
    const addresses = { bound: bound + basePath, boundControls: controls?.bound }
    const petstore = new PetstoreHandle(core, {
      ...addresses,
      async stop(drain) {
        await controls?.server.stop(0)
        return server.stop(drain)
      },
    })
    return { ...core, ...addresses, petstore, logReports }
  } catch (error) {
    logReports()
    await Promise.allSettled([server.stop(0), store.close()])
    throw error
  }
}

/** What a petstore has before its store. */
function makeSetup(options: Options): Setup {
  const { apiKeys, storePerKey, hasGeneratedKey, log, logStream = process.stdout } = options
  const keyring = new Keyring(apiKeys, storePerKey && hasGeneratedKey)
  const { redact } = keyring
  return { options, keyring, redact, log: openLog(log, logStream, redact) }
}

/** A store without a file, with its initial pets. */
function makeStore({ options, log }: Setup, report?: Report, budget?: Budget): AnyStore {
  const { store: ownStore, pets, maxStore } = options
  if (ownStore) {
    const fillStore = () => fill(ownStore, options)
    return userStore(ownStore, fillStore, (error) =>
      log.count('error', 'the store failed', `: ${messageOf(error)}`),
    )
  }
  const memory = new MemoryStore(maxStore, report, budget)
  if (!memory.reset(pets)) throw noRoomFor(pets, options)
  return memory
}

/** With `storePerKey`, this core passes each request with a key to the core of that key. */
function makeRootCore(setup: Setup, store: AnyStore): Core {
  const { options, keyring } = setup
  if (!options.storePerKey) return makeCore(setup, store)
  // Its requests are not recorded: a handle shows those of one key.
  const keyless = makeCore({ ...setup, options: { ...options, maxRequests: 0 } }, store)
  // The budget of their stores is `cores` itself. Each begins with the pets of the keyless store.
  const cores: Cores = new Cores(setup, store.bytes ?? 0, (keySetup) =>
    makeCore(keySetup, makeStore(keySetup, undefined, cores)),
  )
  const serviceFor = ({ method, target, headers }: RequestHead) => {
    const { secured } = keyless.service.router.find(method, target)
    const key = secured ? keyring.keyIn(headers.authorization) : undefined
    return key ? cores.use(key).service : undefined
  }
  return { ...keyless, cores, service: { ...keyless.service, serviceFor } }
}

/** A store, and all that belongs to it. */
function makeCore(setup: Setup, store: AnyStore): Core {
  const { options, keyring, log, redact, storeNumber, requestBudget } = setup
  const { basePath, page, getPetState, cors, maxBody, maxRequests } = options
  const context: Context = { store, basePath, page, keyring, getPetState, isDraining: false }
  const table = routes(context)
  // Before Faults, which then decorates it: faults apply to what it refuses, too.
  if (options.strict) makeStrict(table, redact)
  const faults = new Faults(table, options.delay)
  const recorder = new RequestRecorder(maxRequests, redact, requestBudget)
  const logRequest = log.requestLogger?.(redact)
  const router = createRouter(table, basePath)
  const onBegin = (head: RequestHead) => {
    const { route } = router.find(head.method, head.target)
    if (route?.access !== 'probe') recorder.begin(head)
  }
  const service: Service = {
    router,
    authorize: ({ authorization }, method) =>
      method === 'OPTIONS' ? undefined : keyring.authorize(authorization, storeNumber),
    cors: [cors ?? []].flat(),
    maxBody,
    refuse,
    onBug: (error) => log.event('error', redact(inspect(error))),
    onBegin: maxRequests === 0 ? undefined : onBegin,
    onEnd(request) {
      logRequest?.(request)
      recorder.add(request) // ignores one that has not begun
    },
  }
  return { ...setup, context, faults, recorder, service }
}

function makeServer({ options, log }: Core, service: Service, limits: Limits): HttpServer {
  const { maxConnections, keepAlive: keepAliveTimeout } = options
  const warn = (what: string) => log.count('warn', what)
  return new HttpServer(service, { ...limits, maxConnections, keepAliveTimeout, warn })
}

const MAX_CONTROL_BODY = 64 * 2 ** 20

/** Starts the test controls if they are wanted. */
async function startControls(core: Core, limits: Limits) {
  const { options, service, keyring, cores } = core
  const { controlPort, controlHost } = options
  if (controlPort === undefined) return undefined
  let isOnLoopback = true // until the address is known
  // With `cores`, a control acts on the store of the valid key of its request.
  const routesOf = (key?: string) => controlRoutes(new PetstoreHandle(core, undefined, key))
  const serviceOf = (key?: string): Service => ({
    router: createRouter(routesOf(key), '', '/ (GET / lists them)'),
    authorize: (headers) => {
      if (isFromWebPage(headers, isOnLoopback)) return 'forbidden'
      return cores && keyring.authorize(headers.authorization)
    },
    cors: [],
    maxBody: MAX_CONTROL_BODY,
    refuse,
    onBug: service.onBug,
  })
  const serviceFor = ({ headers }: RequestHead) =>
    cores && serviceOf(keyring.keyIn(headers.authorization))
  const server = makeServer(core, { ...serviceOf(), serviceFor }, limits)
  const bound = await server.listen(controlPort, controlHost)
  isOnLoopback = isLoopback(bound)
  return { bound, server }
}
