import { refuse } from './api/errors.ts'
import type { Context } from './api/operations.ts'
import { routes } from './api/routes.ts'
import { messageOf } from './guards.ts'
import { type Core, noRoomFor, PetstoreHandle, stored } from './handle.ts'
import { Keyring } from './http/bearer.ts'
import type { RequestHead, RequestRecord, Service } from './http/dispatch.ts'
import { Limits } from './http/limits.ts'
import { countingReport, createLog, type Log } from './http/log.ts'
import { readTarget, Router } from './http/router.ts'
import { HttpServer, isLoopback, reachable } from './http/server.ts'
import { CREATE_RULES, type Options, readOptions, RULES } from './options.ts'
import { OwnStore } from './pets/own-store.ts'
import { openSnapshotStore } from './pets/snapshot-store.ts'
import { type Budget, MemoryStore } from './pets/store.ts'
import { controls, isFromWebPage } from './testing/control.ts'
import { Faults } from './testing/faults.ts'
import { RequestLog } from './testing/requests.ts'
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
  return new PetstoreHandle(assemble({ ...base, store: makeStore(base) }))
}

/** The store without a file, with its initial pets. */
function makeStore({ options, log }: Base): Context['store'] {
  const { store, pets, maxStore } = options
  if (store !== undefined) {
    const report = countingReport(log, 'error')
    return new OwnStore(store, pets, (error) => report(`the store failed: ${messageOf(error)}`))
  }
  const memory = new MemoryStore(maxStore, log.event)
  if (memory.reset(pets)) return memory
  throw noRoomFor(pets, options)
}

/** @internal What only the executable needs: addresses as bound, such as `0.0.0.0`. */
export interface Launched extends Core {
  readonly petstore: Petstore
  readonly bound: string
  readonly boundControls: string | undefined
}

/** @internal */
export async function launch(given: StartOptions, some?: Partial<Limits>): Promise<Launched> {
  const options = readOptions(given, RULES)
  const limits = { ...new Limits(), ...some }
  const { snapshot, maxStore, pets } = options
  const base = baseOf(options)
  const store =
    snapshot === undefined
      ? makeStore(base)
      : await stored(openSnapshotStore(snapshot, maxStore, base.log.event))
  const core = assemble({ ...base, store })
  const server = makeServer(core, core.service, limits)
  core.server = server
  try {
    const isEmpty = store.size === 0 && pets.length > 0
    if (isEmpty && !(await stored(store.reset(pets)))) throw noRoomFor(pets, options)
    if (options.store && pets.length > 0) await stored(store.get(1)) // fills it
    const bound = await server.listen(options.port, options.host)
    core.url = reachable(bound) + options.basePath
    const boundControls = await startControls(core, limits)
    const petstore = new PetstoreHandle(core)
    return { ...core, petstore, bound: bound + options.basePath, boundControls }
  } catch (error) {
    await Promise.allSettled([server.stop(0), store.close()])
    throw error
  }
}

// RFC 6761 §6.4: never resolves, so that a request over a socket fails and says why.
const NO_HOST = 'petstore.invalid'
const MAX_CONTROL_BODY = 64 * 2 ** 20

interface Base {
  readonly options: Options
  readonly openLog: (keyring: Keyring) => Log
  readonly keyring: Keyring
  readonly log: Log
}

function baseOf(options: Options): Base {
  const openLog = createLog(options.log, options.logStream ?? process.stdout)
  const keyring = new Keyring(options.apiKeys)
  return { options, openLog, keyring, log: openLog(keyring) }
}

interface Parts extends Base {
  readonly store: Context['store']
}

/** @param budget Of all stores, if there is one for each key: this is then one of them. */
function assemble(parts: Parts, budget?: Budget): Core {
  const { options, keyring, log, store } = parts
  const { basePath, page, getPetState, delay, strict, cors, maxBody, journal } = options
  const stores = options.storePerKey && budget === undefined ? storesFor(parts) : undefined
  const context: Context = {
    store,
    basePath,
    page,
    getPetState,
    isDraining: false,
    get isAnyKeyValid() {
      return stores?.isAnyKeyValid === true
    },
  }
  const table = routes(context)
  if (strict) makeStrict(table)
  const faults = new Faults(table, delay)
  const requestLog = new RequestLog(journal, keyring, budget)
  const record = (request: RequestRecord) => {
    log.request?.(request)
    requestLog.add(request)
  }
  const service: Service = {
    router: new Router(table, basePath),
    authorize: ({ authorization }, method) =>
      method === 'OPTIONS' ? undefined : keyring.check(authorization),
    cors: [cors ?? []].flat(),
    maxBody,
    refuse,
    onBug: (error) => log.event('error', String(error instanceof Error ? error.stack : error)),
    begin: journal === 0 ? undefined : requestLog.begin,
    record: journal === 0 ? log.request : record,
  }
  const core = { ...parts, url: `http://${NO_HOST}${basePath}`, context, faults, requestLog }
  return stores ? { ...core, stores, service: perKey(service, stores) } : { ...core, service }
}

function storesFor({ options, openLog, keyring, log, store }: Parts): Stores<Core> {
  const { maxStore, pets, isAnyKeyValid } = options
  return new Stores<Core>({
    keyring,
    isAnyKeyValid,
    maxBytes: maxStore,
    initialBytes: store.bytes ?? 0,
    warn: countingReport(log, 'warn'),
    open(ofKey, budget) {
      const own = new MemoryStore(maxStore, undefined, budget)
      own.reset(pets)
      const parts = { options, openLog, keyring: ofKey, log: openLog(ofKey), store: own }
      return assemble(parts, budget)
    },
  })
}

/** What needs a key goes to the service of the key that it has. */
function perKey(service: Service, stores: Stores<Core>): Service {
  const pick = ({ target, headers }: RequestHead) => {
    const { secured } = service.router.match(readTarget(target).path)
    const key = secured ? stores.keyIn(headers.authorization) : undefined
    return key === undefined ? service : stores.of(key).service
  }
  return { ...service, pick }
}

function makeServer({ options, log }: Core, service: Service, limits: Limits): HttpServer {
  const { maxConnections, keepAlive: keepAliveTimeout } = options
  const warn = countingReport(log, 'warn')
  return new HttpServer(service, { ...limits, maxConnections, keepAliveTimeout, warn })
}

/** Starts the test controls if they are wanted; resolves to their address as bound. */
async function startControls(core: Core, limits: Limits): Promise<string | undefined> {
  const { options, service, keyring, stores } = core
  const { controlPort, controlHost } = options
  if (controlPort === undefined) return undefined
  let isOnLoopback = true // until the address is known
  const serviceOf = (petstore: Petstore, keys?: Keyring): Service => ({
    router: new Router(controls(petstore), ''),
    authorize: (headers) =>
      isFromWebPage(headers, isOnLoopback) ? 'forbidden' : keys?.check(headers.authorization),
    maxBody: MAX_CONTROL_BODY,
    refuse,
    onBug: service.onBug,
  })
  const petstore = new PetstoreHandle(core)
  // Where each key has a store, this one refuses what has no valid key.
  const shared = serviceOf(petstore, stores && keyring)
  const pick = ({ headers }: RequestHead): Service => {
    const key = stores?.keyIn(headers.authorization)
    return key === undefined ? shared : serviceOf(petstore.of(key))
  }
  core.controlServer = makeServer(core, { ...shared, pick }, limits)
  const bound = await core.controlServer.listen(controlPort, controlHost)
  core.controlUrl = reachable(bound)
  isOnLoopback = isLoopback(bound)
  return bound
}
