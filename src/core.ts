import type { IncomingHttpHeaders } from 'node:http'
import { FullPages } from './api/full-pages.ts'
import { routes } from './api/routes.ts'
import { crypto } from './builtins.ts'
import { Keyring } from './http/bearer.ts'
import { corsFields } from './http/cors.ts'
import { createDispatch } from './http/dispatch.ts'
import type { Service } from './http/exchange.ts'
import { createLog, type Log } from './http/log.ts'
import { readRequestId } from './http/reply.ts'
import { type Call, type Route, Router } from './http/router.ts'
import type { Options } from './options.ts'
import { MemoryStore, type PetStore } from './pets/store.ts'
import { Controls } from './testing/controls.ts'
import { Faults } from './testing/faults.ts'
import { Journal } from './testing/journal.ts'

/** Makes a key that nobody can guess: 192 random bits, base64url. */
export function generateApiKey(): string {
  return crypto.randomBytes(24).toString('base64url')
}

/** What there is before the store. */
export interface Base {
  readonly keyring: Keyring
  readonly apiKey: string
  readonly log: Log
}

export function layBase({ apiKeys = [generateApiKey()], log: format, logStream = process.stdout }: Options): Base {
  const keyring = new Keyring(apiKeys)
  return { keyring, apiKey: apiKeys[0] ?? '', log: createLog(format, logStream, (text) => keyring.redact(text)) }
}

/** A petstore without its ways in. */
export interface Core extends Base {
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
export function assemble(
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

/** Opens the store, and begins an empty one with the animals of the options. */
export async function openStore(options: Options, log: Log): Promise<PetStore> {
  const { maxStore, pets, snapshot: path } = options
  const store =
    path === undefined
      ? new MemoryStore(maxStore)
      : await (
          await import('./pets/snapshot-store.ts')
        ).openSnapshotStore({ path, maxBytes: maxStore, report: log.event })
  try {
    if (store.size > 0 || pets.length === 0 || (await store.reset(pets))) return store
    throw cannotBegin(options)
  } catch (error) {
    await store.close()
    throw error
  }
}

/** The error of animals that do not fit into the store that is to begin with them. */
export function cannotBegin({ pets, maxStore }: Options): RangeError {
  return new RangeError(`Cannot begin with ${pets.length} animals: they do not fit into ${maxStore} bytes`)
}
