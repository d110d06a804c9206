import { refuse } from './api/errors.ts'
import type { Context } from './api/operations.ts'
import { routes } from './api/routes.ts'
import { Keyring } from './http/bearer.ts'
import type { Service } from './http/dispatch.ts'
import { Exchange } from './http/exchange.ts'
import { createFetch } from './http/fetch.ts'
import { countingReport, createLog } from './http/log.ts'
import { Router } from './http/router.ts'
import { HttpServer } from './http/server.ts'
import { check, type Options, readNewPets, readOptions, RULES } from './options.ts'
import { parseJson } from './pets/json.ts'
import type { NewPet, Pet } from './pets/pet.ts'
import { MemoryStore, readPet } from './pets/store.ts'
import { controls } from './testing/control.ts'
import { Faults } from './testing/faults.ts'
import { Journal } from './testing/journal.ts'
import type { CreateOptions, Petstore, PetstoreOptions } from './types.ts'

/**
 * Starts a petstore that listens, by default on a free port of the loopback address.
 *
 * @throws TypeError or RangeError that names the option, the value and what it must be; Error with file, line and
 * reason if the snapshot cannot be used, and with the system's code if an address cannot be listened on.
 * @example
 * const petstore = await startPetstore({ pets: [{ name: 'Rex', categoryId: 1, status: 'sold' }] })
 * const response = await fetch(`${petstore.url}/pets`, { headers: petstore.headers })
 * await petstore.close()
 */
export async function startPetstore(options: PetstoreOptions = {}): Promise<Petstore> {
  return (await launch(options)).petstore
}

/** @internal What only the executable needs: addresses as they are bound, `0.0.0.0` say, and how to fail /readyz. */
export interface Launched {
  petstore: Petstore
  bound: string
  boundControls?: string
  pets: number
  failReadyz: () => void
}

/** @internal */
export async function launch(given: PetstoreOptions): Promise<Launched> {
  const options = readOptions(given, true)
  const { host, port, basePath, maxStore, pets, snapshot, controlHost, controlPort, maxConnections, keepAlive } =
    options
  const core = assemble(options)
  const { context, log, service } = core
  if (snapshot !== undefined) {
    const { openSnapshotStore } = await import('./pets/snapshot.ts')
    context.store = await openSnapshotStore(snapshot, maxStore, log.event)
  }
  const connections = { maxConnections, keepAlive, warn: countingReport((line) => log.event('warn', line)) }
  const server = new HttpServer(service, connections)
  let control: HttpServer | undefined
  try {
    const { store } = context
    if (store.size === 0 && pets.length > 0 && !(await store.reset(pets))) throw doesNotFit(options)
    const { url, bound } = await server.listen(port, host)
    const stop = async (drain: number) => (await Promise.all([server.stop(drain), control?.stop(0)]))[0]
    const petstore = createHandle(core, `${url}${basePath}`, stop)
    const failReadyz = () => void (context.isDraining = true)
    const launched = { petstore, bound: `${bound}${basePath}`, pets: store.size, failReadyz }
    if (controlPort === undefined) return launched
    const router = new Router(controls(petstore), '')
    control = new HttpServer({ router, maxBody: MAX_CONTROL_BODY, refuse, onBug: service.onBug }, connections)
    const { url: controlUrl, bound: boundControls } = await control.listen(controlPort, controlHost)
    return { ...launched, petstore: Object.assign(petstore, { controlUrl }), boundControls }
  } catch (error) {
    await Promise.all([server.stop(0), context.store.close()])
    throw error
  }
}

/**
 * Creates a petstore without a socket: call its `fetch`, or serve its `listener` from a server of your own.
 *
 * @throws TypeError or RangeError that names the option, the value and what it must be.
 * @example
 * const petstore = createPetstore()
 * const response = await petstore.fetch(`${petstore.url}/pets`, { headers: petstore.headers })
 */
export function createPetstore(given: CreateOptions = {}): Petstore {
  const options = readOptions(given, false)
  const core = assemble(options)
  if (!core.context.store.reset(options.pets)) throw doesNotFit(options)
  return createHandle(core, `http://${NO_HOST}${options.basePath}`, async () => 0)
}

const MAX_CONTROL_BODY = 64 * 2 ** 20
// RFC 6761 §6.4: a name that never resolves, so that a request over a socket fails and says why.
const NO_HOST = 'petstore.invalid'

function doesNotFit({ pets, maxStore }: Options): RangeError {
  return new RangeError(`Cannot start with ${pets.length} pets: they do not fit into ${maxStore} bytes`)
}

function assemble(options: Options) {
  const { basePath, page, getPet, delay, cors, maxBody, maxStore, logStream = process.stdout } = options
  const keyring = new Keyring(options.apiKeys)
  const log = createLog(options.log, logStream, (text) => keyring.redact(text))
  const store = new MemoryStore(maxStore, log.event)
  const context: Context = { store, basePath, page, getPet, isDraining: false }
  const table = routes(context)
  const faults = new Faults(table, delay)
  const journal = new Journal(options.journal, keyring)
  const service: Service = {
    router: new Router(table, basePath),
    keyring,
    cors,
    maxBody,
    refuse,
    onBug: (error) => log.event('error', error instanceof Error ? String(error.stack) : String(error)),
    record: options.journal === 0 ? log.request : (request) => (log.request?.(request), journal.add(request)),
  }
  return { options, keyring, log, context, faults, journal, service }
}

function createHandle(
  core: ReturnType<typeof assemble>,
  url: string,
  stop: (drain: number) => Promise<number>,
): Petstore {
  const { options, keyring, log, context, faults, journal, service } = core
  const [apiKey = ''] = options.apiKeys
  async function close(drain = 0): Promise<number> {
    context.isDraining = true
    const cutOff = await stop(drain * 1000)
    faults.clear()
    journal.close()
    await context.store.close().finally(() => log.flush())
    return cutOff
  }
  return {
    url,
    apiKey,
    headers: { authorization: `Bearer ${apiKey}` },
    get getPet() {
      return context.getPet
    },
    set getPet(getPet) {
      check('getPet', getPet, RULES.getPet)
      context.getPet = getPet
    },
    fetch: createFetch(service),
    listener: (req, res) => new Exchange(service, req, res).process(),
    get pets() {
      return Array.from(context.store.values(), (json) => readPet(parseJson(json)))
    },
    get requests() {
      return journal.requests
    },
    get pendingFaults() {
      return faults.pending
    },
    log,
    async add(...newPets) {
      if (Array.isArray(newPets[0])) throw new TypeError('add takes pets one by one: spread the array, add(...pets)')
      return addPets(context.store, readNewPets('newPets', newPets))
    },
    async reset(newPets) {
      const pets = newPets === undefined ? options.pets : readNewPets('newPets', newPets)
      if (!(await context.store.reset(pets)))
        throw new RangeError(`Cannot reset to ${pets.length} pets: they do not fit`)
      context.getPet = options.getPet
      faults.clear()
      journal.clear()
    },
    inject: (fault) => faults.inject(fault),
    clearFaults: () => faults.clear(),
    clearRequests: () => journal.clear(),
    waitForRequests: (count, wait) => journal.waitFor(count, wait),
    replaceKeys(apiKeys) {
      check('apiKeys', apiKeys, RULES.apiKeys)
      keyring.replace(apiKeys)
    },
    close,
    [Symbol.asyncDispose]: async () => void (await close()),
  }
}

/** Adds pets until one cannot be added; rejects then, with an error that names it. */
async function addPets(store: MemoryStore, newPets: readonly NewPet[]): Promise<Pet[]> {
  const pets: Pet[] = []
  for (const pet of newPets) {
    const added = await store.add(pet)
    const what = `Cannot add pet ${pets.length + 1} of ${newPets.length}`
    if (added.ok) pets.push(readPet(parseJson(added.json)))
    else if (added.reason === 'store_full') throw new RangeError(`${what}: the store has no room for it`)
    else throw new Error(`${what}: it could not be stored`)
  }
  return pets
}
