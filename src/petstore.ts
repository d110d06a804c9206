import { inspect } from 'node:util'
import { refuse } from './api/errors.ts'
import type { Context } from './api/operations.ts'
import { routes } from './api/routes.ts'
import { messageOf } from './guards.ts'
import { type Core, noRoomFor, PetstoreHandle, replacePets, withStorageCode } from './handle.ts'
import { Keyring } from './http/bearer.ts'
import type { RequestHead, RequestOutcome, Service } from './http/dispatch.ts'
import { Limits } from './http/limits.ts'
import { openLogs } from './http/log.ts'
import { readTarget, Router } from './http/router.ts'
import { HttpServer, isLoopback, reachable } from './http/server.ts'
import { CREATE_RULES, type Options, readOptions, RULES } from './options.ts'
import { ownStore } from './pets/own-store.ts'
import { openSnapshotStore } from './pets/snapshot-store.ts'
import { MemoryStore, type Report } from './pets/store.ts'
import { controls, isFromWebPage } from './testing/control.ts'
import { Faults } from './testing/faults.ts'
import { RequestLog, type SharedBudget } from './testing/requests.ts'
import { Stores } from './testing/stores.ts'
import { makeStrict } from './testing/violations.ts'
import type { Petstore, PetstoreOptions, StartOptions } from './types.ts'

/**
 * Starts a petstore that listens, by default on a free port of the loopback address.
 *
 * @throws Error with a `code`: an option is wrong, the snapshot cannot be used, or a port.
 * @example
 * const petstore = await startPetstore({ pets: [{ name: 'Rex', categoryId: 1, status: 'sold' }] })
 * const response = await fetch(`${petstore.url}/pets`, { headers: petstore.headers })
 * await petstore.close()
 */
export async function startPetstore(options: StartOptions = {}): Promise<Petstore> {
  return (await launch(options)).petstore
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
  const base = baseOf(readOptions(given, CREATE_RULES))
  return new PetstoreHandle(assemble(base, makeStore(base, base.log.event)))
}

/** @internal What only the executable needs: addresses as bound, such as `0.0.0.0`. */
export interface Launched extends Core {
  readonly petstore: Petstore
  readonly bound: string
  readonly boundControls: string | undefined
}

/** @internal What the store reports of its start is logged in the next turn of the event loop. */
export async function launch(given: StartOptions, overrides?: Partial<Limits>): Promise<Launched> {
  const options = readOptions(given, RULES)
  const limits = { ...new Limits(), ...overrides }
  const { basePath, snapshot, maxStore } = options
  const base = baseOf(options)
  let onStarted = () => {}
  const started = new Promise<void>((resolve) => {
    onStarted = resolve
  })
  const report: Report = (...event) => void started.then(() => base.log.event(...event))
  const store = snapshot
    ? await withStorageCode(openSnapshotStore(snapshot, maxStore, report))
    : makeStore(base, report)
  const core = assemble(base, store)
  const server = makeServer(core, core.service, limits)
  try {
    await fill(store, options)
    const bound = await server.listen(options.port, options.host)
    const controls = await startControls(core, limits)
    const petstore = new PetstoreHandle(core, {
      url: reachable(bound) + basePath,
      controlUrl: controls?.url,
      async stop(drain) {
        await controls?.server.stop(0)
        return server.stop(drain)
      },
    })
    const boundControls = controls?.bound
    return { ...core, petstore, bound: bound + basePath, boundControls }
  } catch (error) {
    await Promise.allSettled([server.stop(0), store.close()])
    throw error
  } finally {
    setImmediate(onStarted)
  }
}

/** Puts the initial pets into a store that is empty. Memory has them already. */
async function fill(store: Context['store'], options: Options): Promise<void> {
  const { pets, store: usersOwn } = options
  if (pets.length === 0) return
  if (store.size === 0) await replacePets(store, pets, options)
  if (usersOwn !== undefined) await withStorageCode(store.get(1)) // its first use fills it
}

type Base = Pick<Core, 'options' | 'logFor' | 'keyring' | 'log'>

/** What a petstore has before its store. */
function baseOf(options: Options): Base {
  const logFor = openLogs(options.log, options.logStream ?? process.stdout)
  const keyring = new Keyring(options.apiKeys)
  return { options, logFor, keyring, log: logFor(keyring) }
}

/** The store without a file, with its initial pets. */
function makeStore({ options, log }: Base, report: Report): Context['store'] {
  const { store, pets, maxStore } = options
  if (store !== undefined) {
    return ownStore(store, pets, (error) =>
      log.count('error', 'the store failed', `: ${messageOf(error)}`),
    )
  }
  const memory = new MemoryStore(maxStore, report)
  if (memory.reset(pets)) return memory
  throw noRoomFor(pets, options)
}

function assemble(base: Base, store: Context['store']): Core {
  const core = coreOf(base, store)
  return base.options.storePerKey ? withStorePerKey(core) : core
}

/** @param requestBudget Shared with the recorded requests of other stores. */
function coreOf(base: Base, store: Context['store'], requestBudget?: SharedBudget): Core {
  const { options, keyring, log } = base
  const { basePath, cors, maxBody, journal: maxRecorded, storePerKey, hasGeneratedKey } = options
  const isAnyKeyValid = storePerKey && hasGeneratedKey
  const context: Context = { ...options, store, isAnyKeyValid, isDraining: false }
  const table = routes(context)
  if (options.strict) makeStrict(table) // before the faults, which apply to what it refuses, too
  const faults = new Faults(table, options.delay)
  const requestLog = new RequestLog(maxRecorded, keyring, requestBudget)
  const record = (request: RequestOutcome) => {
    log.request?.(request)
    requestLog.add(request)
  }
  const service: Service = {
    router: new Router(table, basePath),
    authorize: ({ authorization }, method) =>
      method === 'OPTIONS' ? undefined : keyring.authorize(authorization),
    cors: [cors ?? []].flat(),
    maxBody,
    refuse,
    onBug: (error) => log.event('error', inspect(error)),
    begin: maxRecorded === 0 ? undefined : requestLog.begin,
    record: maxRecorded === 0 ? log.request : record,
  }
  return { ...base, context, faults, requestLog, service }
}

/**
 * What needs a key goes to the service of its key. The rest is not recorded, because each handle
 * shows the requests of one key.
 */
function withStorePerKey(core: Core): Core {
  const { options, logFor, log } = core
  const stores = new Stores(core, (keyring, petBudget, requestBudget) => {
    const store = new MemoryStore(options.maxStore, undefined, petBudget)
    store.reset(options.pets)
    return coreOf({ options, logFor, keyring, log: logFor(keyring) }, store, requestBudget)
  })
  const keyless: Service = { ...core.service, begin: undefined, record: log.request }
  const pick = ({ target, headers }: RequestHead) => {
    const { secured } = keyless.router.match(readTarget(target).path)
    const key = secured ? stores.keyIn(headers.authorization) : undefined
    return key === undefined ? keyless : stores.of(key).service
  }
  return { ...core, stores, service: { ...keyless, pick } }
}

function makeServer({ options, log }: Core, service: Service, limits: Limits): HttpServer {
  const { maxConnections, keepAlive: keepAliveTimeout } = options
  const warn = (what: string) => log.count('warn', what)
  return new HttpServer(service, { ...limits, maxConnections, keepAliveTimeout, warn })
}

const MAX_CONTROL_BODY = 64 * 2 ** 20

/** Starts the test controls if they are wanted. */
async function startControls(core: Core, limits: Limits) {
  const { options, service, keyring, stores } = core
  const { controlPort, controlHost } = options
  if (controlPort === undefined) return undefined
  let isOnLoopback = true // until the address is known
  // Where each key has a store, a control acts on that of the valid key of its request.
  const serviceOf = (key?: string): Service => ({
    router: new Router(controls(new PetstoreHandle(core, undefined, key)), ''),
    authorize: (headers) => {
      if (isFromWebPage(headers, isOnLoopback)) return 'forbidden'
      const needsKey = stores !== undefined && key === undefined
      return needsKey ? keyring.authorize(headers.authorization) : undefined
    },
    cors: [],
    maxBody: MAX_CONTROL_BODY,
    refuse,
    onBug: service.onBug,
  })
  const pick =
    stores && (({ headers }: RequestHead) => serviceOf(stores.keyIn(headers.authorization)))
  const server = makeServer(core, { ...serviceOf(), pick }, limits)
  const bound = await server.listen(controlPort, controlHost)
  isOnLoopback = isLoopback(bound)
  return { url: reachable(bound), bound, server }
}
