import { refuse } from './api/errors.ts'
import type { Context } from './api/operations.ts'
import { routes } from './api/routes.ts'
import { messageOf } from './guards.ts'
import { type Core, noRoomFor, PetstoreHandle, stored } from './handle.ts'
import { Keyring } from './http/bearer.ts'
import type { RequestRecord, Service } from './http/dispatch.ts'
import type { Limits } from './http/limits.ts'
import { countingReport, createLog, type Log } from './http/log.ts'
import { Router } from './http/router.ts'
import { HttpServer, isLoopback } from './http/server.ts'
import { CREATE_RULES, type Options, readOptions, RULES } from './options.ts'
import { openSnapshotStore } from './pets/snapshot-store.ts'
import { MemoryStore, serve } from './pets/store.ts'
import { controls, isFromWebPage } from './testing/control.ts'
import { Faults } from './testing/faults.ts'
import { RequestLog } from './testing/requests.ts'
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
  const options = readOptions(given, CREATE_RULES)
  const keyring = new Keyring(options.apiKeys)
  const log = createLog(options.log, keyring, options.logStream ?? process.stdout)
  return new PetstoreHandle(assemble(options, keyring, log, makeStore(options, log)))
}

/** The store without a file, with its initial pets. */
function makeStore(options: Options, log: Log): Context['store'] {
  const { store, pets, maxStore } = options
  if (store !== undefined) {
    const report = countingReport((line) => log.event('error', line))
    return serve(store, pets, (error) => report(`the store failed: ${messageOf(error)}`))
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
export async function launch(given: StartOptions, limits?: Limits): Promise<Launched> {
  const options = readOptions(given, RULES)
  const { snapshot, maxStore } = options
  const keyring = new Keyring(options.apiKeys)
  const log = createLog(options.log, keyring, options.logStream ?? process.stdout)
  const store =
    snapshot === undefined
      ? makeStore(options, log)
      : await stored(openSnapshotStore(snapshot, maxStore, log.event))
  const core = assemble(options, keyring, log, store)
  const petstore = new PetstoreHandle(core)
  const server = makeServer(core, core.service, limits)
  core.server = server
  try {
    if (store.size === 0 && options.pets.length > 0) await petstore.reset()
    if (options.store && options.pets.length > 0) await stored(store.get(1)) // fills it
    const { url, bound } = await server.listen(options.port, options.host)
    petstore.url = url + options.basePath
    const boundControls = await startControls(core, petstore, limits)
    return { ...core, petstore, bound: bound + options.basePath, boundControls }
  } catch (error) {
    await Promise.allSettled([server.stop(0), store.close()])
    throw error
  }
}

const MAX_CONTROL_BODY = 64 * 2 ** 20

function assemble(options: Options, keyring: Keyring, log: Log, store: Context['store']): Core {
  const { basePath, page, getPetState, delay, strict, cors, maxBody, journal } = options
  const context: Context = { store, basePath, page, getPetState, isDraining: false }
  const table = routes(context)
  if (strict) makeStrict(table)
  const faults = new Faults(table, delay)
  const requestLog = new RequestLog(journal, keyring)
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
  return { options, keyring, log, context, faults, requestLog, service }
}

function makeServer({ options, log }: Core, service: Service, limits?: Limits): HttpServer {
  const { maxConnections, keepAlive } = options
  const warn = countingReport((line) => log.event('warn', line))
  return new HttpServer(service, { maxConnections, keepAlive, warn }, limits)
}

/** Starts the test controls if they are wanted; resolves to their address as bound. */
async function startControls(
  core: Core,
  petstore: PetstoreHandle,
  limits?: Limits,
): Promise<string | undefined> {
  const { controlPort, controlHost } = core.options
  if (controlPort === undefined) return undefined
  let isOnLoopback = true // until the address is known
  const service: Service = {
    router: new Router(controls(petstore), ''),
    authorize: (headers) => (isFromWebPage(headers, isOnLoopback) ? 'forbidden' : undefined),
    maxBody: MAX_CONTROL_BODY,
    refuse,
    onBug: core.service.onBug,
  }
  core.controlServer = makeServer(core, service, limits)
  const { url, bound } = await core.controlServer.listen(controlPort, controlHost)
  petstore.controlUrl = url
  isOnLoopback = isLoopback(bound)
  return bound
}
