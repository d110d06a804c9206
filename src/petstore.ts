import { randomBytes } from 'node:crypto'
import { routes } from './api/routes.ts'
import { Keyring } from './http/bearer.ts'
import { createDispatch } from './http/dispatch.ts'
import { LIMITS, type Limits } from './http/limits.ts'
import { createLog, type Log, type LogFormat, type LogStream } from './http/log.ts'
import { Router } from './http/router.ts'
import { HttpServer } from './http/server.ts'
import type { NewPet } from './pets/pet.ts'
import { openSnapshotStore } from './pets/snapshot-store.ts'
import { MemoryStore, type PetStore } from './pets/store.ts'

/** How a petstore is set up; every option may be left out. */
export interface PetstoreOptions {
  /** Port to listen on; 0, the default, picks a free one. */
  port?: number
  /** Address to listen on; 127.0.0.1 unless given. */
  host?: string
  /** Path that all operations stand under; /v1 unless given. */
  basePath?: string
  /** Keys that are valid; one is generated unless given. */
  apiKeys?: readonly string[]
  /** Animals that an empty store begins with, ids from 1 on; none unless given. */
  pets?: readonly NewPet[]
  /** Bytes that a request's body may have; 65,536 unless given. */
  maxBody?: number
  /** Bytes of animals' JSON that are kept, beyond which a create is answered 507; 256 MiB unless given. */
  maxStore?: number
  /** JSON file that keeps the animals; without one they end with the process. */
  snapshot?: string
  /** `gone` answers getPet with 410, as after its removal; `deprecated` unless given. */
  getPet?: 'deprecated' | 'gone'
  /** Whether `/` shows a page; true unless given. */
  page?: boolean
  /** Open connections beyond which further ones are closed at once; 10,000 unless given. */
  maxConnections?: number
  /** Seconds that an idle connection is kept; 75 unless given. */
  keepAlive?: number
  /** Form of the log; off unless given. */
  log?: LogFormat
  /** Where the log goes; standard output unless given. */
  logStream?: LogStream
  /** Bounds on size and time of requests. */
  limits?: Partial<Limits>
}

/** A petstore that runs. */
export interface Petstore {
  /** The base address: every operation's path is relative to it. */
  readonly url: string
  /** The first of the keys that it was started with. */
  readonly apiKey: string
  readonly log: Log
  /** Makes these keys, and no others, the valid ones from the next request on. */
  replaceKeys(apiKeys: readonly string[]): void
  /**
   * Stops listening, closes idle connections, lets requests in flight be answered, and writes out snapshot and log.
   *
   * @param drain Seconds after which what is left is cut off; 0 unless given.
   * @returns How many requests in flight were cut off.
   */
  close(drain?: number): Promise<number>
}

type Defaulted = 'host' | 'basePath' | 'maxBody' | 'maxStore' | 'getPet' | 'page' | 'maxConnections' | 'keepAlive'

/** What a petstore's options are unless given. */
export const DEFAULTS: Required<Pick<PetstoreOptions, Defaulted>> = {
  host: '127.0.0.1',
  basePath: '/v1',
  maxBody: 64 * 2 ** 10,
  maxStore: 256 * 2 ** 20,
  getPet: 'deprecated',
  page: true,
  maxConnections: 10_000,
  keepAlive: 75,
}

/** Makes a key that nobody can guess: 192 random bits, base64url. */
export function generateApiKey(): string {
  return randomBytes(24).toString('base64url')
}

/**
 * Starts a petstore: puts store, routes and server together, and listens.
 *
 * @throws RangeError when the animals do not fit into the store; Error with file, line and reason when the snapshot cannot be
 * used; the system's error when the address cannot be listened on.
 */
export async function startPetstore(options: PetstoreOptions = {}): Promise<Petstore> {
  const { port = 0, apiKeys = [generateApiKey()], pets = [], log: format = 'off', ...given } = options
  const { host, basePath, maxBody, maxStore, getPet, page, maxConnections, keepAlive } = { ...DEFAULTS, ...given }
  const keyring = new Keyring(apiKeys)
  const log = createLog(format, options.logStream ?? process.stdout, (text) => keyring.redact(text))
  const store = await openStore({ maxStore, pets, snapshot: options.snapshot }, log)
  const router = new Router(routes({ store, basePath }, { getPet, page }), basePath)
  const onBug = (error: unknown) => log.event('error', error instanceof Error ? String(error.stack) : String(error))
  const server = new HttpServer({
    dispatch: createDispatch({ router, keyring, maxBody, onBug }),
    log,
    allow: router.allow,
    maxBody,
    maxConnections,
    keepAlive: keepAlive * 1000,
    limits: { ...LIMITS, ...options.limits },
  })
  const address = await server.listen(port, host).catch(async (error: unknown) => {
    await store.close()
    throw error
  })
  return {
    url: `http://${hostOf(address)}:${address.port}${basePath}`,
    apiKey: apiKeys[0] ?? '',
    log,
    replaceKeys: (keys) => keyring.replace(keys),
    async close(drain = 0) {
      const cut = await server.stop(drain * 1000)
      await store.close()
      await log.flush()
      return cut
    },
  }
}

interface StoreOptions {
  maxStore: number
  pets: readonly NewPet[]
  snapshot: string | undefined
}

async function openStore({ maxStore, pets, snapshot: path }: StoreOptions, log: Log): Promise<PetStore> {
  // With a snapshot this is the trial: it takes all animals or none, for the next start would take a few for all.
  const memory = new MemoryStore(maxStore)
  const isRoom = pets.every((pet) => memory.add(pet).ok)
  if (path === undefined) {
    if (!isRoom) throw cannotBegin(pets, `they do not fit into ${maxStore} bytes`)
    return memory
  }
  const store = await openSnapshotStore({ path, maxBytes: maxStore, report: log.event })
  if (store.size > 0) return store
  const added = isRoom ? await Promise.all(pets.map((pet) => store.add(pet))) : []
  if (isRoom && added.every(({ ok }) => ok)) return store
  await store.close()
  throw cannotBegin(pets, isRoom ? 'they could not be written' : `they do not fit into ${maxStore} bytes`)
}

function cannotBegin(pets: readonly NewPet[], why: string): RangeError {
  return new RangeError(`Cannot begin with ${pets.length} animals: ${why}`)
}

/** The host by which this machine reaches an address that it listens on; the unspecified address is none. */
function hostOf({ address, family }: { address: string; family: string }): string {
  if (address === '0.0.0.0') return '127.0.0.1'
  if (address === '::') return '[::1]'
  return family === 'IPv6' ? `[${address}]` : address
}
