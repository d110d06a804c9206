import { refuse } from './api/errors.ts'
import { routes } from './api/routes.ts'
import { Keyring } from './http/bearer.ts'
import type { Service } from './http/dispatch.ts'
import { createListener } from './http/exchange.ts'
import { createFetch } from './http/fetch.ts'
import { countingReport, createLog, type Log } from './http/log.ts'
import { Router } from './http/router.ts'
import { HttpServer } from './http/server.ts'
import { check, type Options, readNewPets, readOptions, RULES } from './options.ts'
import type { NewPet, Pet } from './pets/pet.ts'
import { MemoryStore, type PetStore, readPet } from './pets/store.ts'
import { controls } from './testing/control.ts'
import { Faults } from './testing/faults.ts'
import { Journal } from './testing/journal.ts'
import type { CreateOptions, Petstore, PetstoreOptions } from './types.ts'

/**
 * Starts a petstore that listens, by default on a free port of the loopback address.
 *
 * @throws TypeError or RangeError that names the option, the value and what it must be; Error with file, line and reason
 * if the snapshot cannot be used, and with the system's code if an address cannot be listened on.
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
export async function launch(options: PetstoreOptions): Promise<Launched> {
  const read = readOptions(options, true)
  const keyring = new Keyring(read.apiKeys)
  const log = logOf(read, keyring)
  const store = await openStore(read, log)
  const core = assemble(read, keyring, log, store)
  const { host, port, basePath, controlHost, controlPort, maxConnections, keepAlive } = read
  const connections = { maxConnections, keepAlive, warn: countingReport((line) => log.event('warn', line)) }
  const server = new HttpServer(core.service, connections)
  let control: HttpServer | undefined
  try {
    const { url, bound } = await server.listen(port, host)
    const stop = async (drain: number) => (await Promise.all([server.stop(drain), control?.stop(0)]))[0]
    const petstore = createHandle(core, `${url}${basePath}`, stop)
    const failReadyz = () => void (core.state.isDraining = true)
    const launched = { petstore, bound: `${bound}${basePath}`, pets: store.size, failReadyz }
    if (controlPort === undefined) return launched
    const { onBug } = core.service
    const service = { router: new Router(controls(petstore), ''), maxBody: MAX_CONTROL_BODY, refuse, onBug }
    control = new HttpServer(service, connections)
    const listening = await control.listen(controlPort, controlHost)
    return {
      ...launched,
      petstore: Object.assign(petstore, { controlUrl: listening.url }),
      boundControls: listening.bound,
    }
  } catch (error) {
    await Promise.all([server.stop(0), store.close()])
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
export function createPetstore(options: CreateOptions = {}): Petstore {
  const read = readOptions(options, false)
  const keyring = new Keyring(read.apiKeys)
  const store = new MemoryStore(read.maxStore)
  if (!store.reset(read.pets)) throw doesNotFit(read)
  const core = assemble(read, keyring, logOf(read, keyring), store)
  return createHandle(core, `http://${NO_HOST}${read.basePath}`, async () => 0)
}

const MAX_CONTROL_BODY = 64 * 2 ** 20
// RFC 6761 §6.4: a name that never resolves, so that a request over a socket fails and says why.
const NO_HOST = 'petstore.invalid'

function logOf({ log: format, logStream = process.stdout }: Options, keyring: Keyring): Log {
  return createLog(format, logStream, (text) => keyring.redact(text))
}

async function openStore(options: Options, log: Log): Promise<PetStore> {
  const { maxStore: maxBytes, pets, snapshot: path } = options
  const open = async (path: string) => (await import('./pets/snapshot.ts')).openSnapshotStore(path, maxBytes, log.event)
  const store = path === undefined ? new MemoryStore(maxBytes, log.event) : await open(path)
  try {
    if (store.size === 0 && pets.length > 0 && !(await store.reset(pets))) throw doesNotFit(options)
    return store
  } catch (error) {
    await store.close()
    throw error
  }
}

function doesNotFit({ pets, maxStore }: Options): RangeError {
  return new RangeError(`Cannot start with ${pets.length} pets: they do not fit into ${maxStore} bytes`)
}

function assemble(options: Options, keyring: Keyring, log: Log, store: PetStore) {
  const { basePath, maxBody, getPet, delay, page, cors } = options
  const state = { isDraining: false }
  const context = { store, basePath, page, getPet, isDraining: () => state.isDraining }
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
  return { options, keyring, log, store, state, context, faults, journal, service }
}

function createHandle(
  core: ReturnType<typeof assemble>,
  url: string,
  stop: (drain: number) => Promise<number>,
): Petstore {
  const { options, keyring, log, store, state, context, faults, journal, service } = core
  const [apiKey = ''] = options.apiKeys
  async function close(drain = 0): Promise<number> {
    state.isDraining = true
    const cutOff = await stop(drain * 1000)
    faults.clear()
    journal.close()
    await store.close().finally(() => log.flush())
    return cutOff
  }
  async function reset(pets: readonly NewPet[] = options.pets): Promise<void> {
    if (!(await store.reset(pets))) throw new RangeError(`Cannot reset to ${pets.length} pets: they do not fit`)
    context.getPet = options.getPet
    faults.clear()
    journal.clear()
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
    listener: createListener(service),
    get pets() {
      return Array.from(store.values(), readPet)
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
      return addPets(store, readNewPets('newPets', newPets))
    },
    reset: async (newPets) => reset(newPets === undefined ? newPets : readNewPets('newPets', newPets)),
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
async function addPets(store: PetStore, newPets: readonly NewPet[]): Promise<Pet[]> {
  const pets: Pet[] = []
  for (const pet of newPets) {
    const adding = store.add(pet)
    const added = adding instanceof Promise ? await adding : adding // in memory, all are there when `add` returns
    if (!added.ok) {
      const what = `Cannot add pet ${pets.length + 1} of ${newPets.length}`
      if (added.reason === 'store_full') throw new RangeError(`${what}: the store has no room for it`)
      throw new Error(`${what}: it could not be stored`)
    }
    pets.push(readPet(added.json))
  }
  return pets
}
