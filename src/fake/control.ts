import type { IncomingHttpHeaders } from 'node:http'
import { isIP } from 'node:net'
import { URLSearchParams } from 'node:url'
import { CODES, errorReply, type Status } from '../api/errors.ts'
import { hasCode, messageOf } from '../guards.ts'
import type { Reply } from '../http/respond.ts'
import type { Call, Route } from '../http/router.ts'
import { checkMembers, integer, isNumber, misuse, rule } from '../rules.ts'
import { parseJsonBytes } from '../pets/json.ts'
import { petJson } from '../pets/pet.ts'
import type { Awaitable, Pet, Petstore, PetstoreErrorCode } from '../types.ts'
import { FILTERS } from './requests.ts'

/** The petstore as the controls call it, with unchecked JSON. It validates its arguments. */
interface Unchecked {
  readonly pets: Petstore['pets']
  readonly pendingFaults: Petstore['pendingFaults']
  add(newPets: unknown): Promise<Pet[]>
  reset(newPets?: unknown): Promise<void>
  inject(fault: unknown): unknown
  getPetState: unknown
  clearFaults(): void
  clearRequests(): void
  waitForRequests(count: number, options: object): Promise<unknown>
}

/** Status of the response to each error of a petstore, and its code if it is not the usual one. */
const RESPONSES: Readonly<Record<PetstoreErrorCode, readonly [status: Status, code?: string]>> = {
  invalid_option: [400],
  invalid_pet: [400, 'invalid_pet'],
  timeout: [408],
  storage_failed: [503],
  outcome_unknown: [503, 'outcome_unknown'],
  closed: [503, 'not_ready'],
  store_full: [507],
}

/** @param open The petstore that the request acts on. */
type Task = (open: () => Unchecked, call: Call) => Awaitable<string | void>
type Row = readonly [method: Route['method'], path: string, task: Task]

const reset: Task = (open, { body }) => open().reset(body.length === 0 ? undefined : readJson(body))

const add: Task = async (open, { body }) => jsonOf(await open().add(readJson(body)))

const inject: Task = (open, { body }) => {
  const petstore = open()
  petstore.inject(readJson(body))
  return JSON.stringify(petstore.pendingFaults.at(-1))
}

const setGetPetState: Task = (open, { body }) => {
  open().getPetState = readJson(body)
}

const TABLE: readonly Row[] = [
  ['GET', '/', () => JSON.stringify(TABLE.map(([method, path]) => ({ method, path })))],
  ['POST', '/reset', reset],
  ['GET', '/pets', (open) => jsonOf(open().pets)],
  ['POST', '/pets', add],
  ['GET', '/requests', findRequests],
  ['DELETE', '/requests', (open) => open().clearRequests()],
  ['GET', '/faults', (open) => JSON.stringify(open().pendingFaults)],
  ['POST', '/faults', inject],
  ['DELETE', '/faults', (open) => open().clearFaults()],
  ['PUT', '/get-pet', setGetPetState],
]

/** The test controls over HTTP: not logged, and without a key unless each key has a store. */
export function controlRoutes(open: () => Unchecked): Route[] {
  return TABLE.map((row) => routeOf(row, open))
}

function routeOf([method, path, task]: Row, open: () => Unchecked): Route {
  const hasParameters = method === 'GET' && path === '/requests'
  const handle = async (call: Call): Promise<Reply> => {
    try {
      if (call.query && !hasParameters) throw misuse('query must be empty')
      const body = await task(open, call)
      if (body === undefined) return { status: 204 }
      return { status: method === 'POST' ? 201 : 200, body }
    } catch (error) {
      for (const [known, [status, code = CODES[status]]] of Object.entries(RESPONSES)) {
        if (hasCode(error, known)) return errorReply(status, code, messageOf(error))
      }
      throw error // a bug
    }
  }
  return { method, path, operation: path, handle, scope: 'base' } // the operation is never shown
}

/** Pets with exact integers, which JSON.stringify does not write. */
function jsonOf(pets: readonly Pet[]): string {
  return `[${pets.map((pet) => petJson(pet.id, pet)).join(',')}]`
}

function readJson(body: Buffer): unknown {
  const input = parseJsonBytes(body)
  if (input.ok) return input.value
  throw misuse(`The body must be JSON (strings in double quotes): ${input.reason}`)
}

const PARAMETERS = {
  ...FILTERS,
  count: integer(0, 1_000_000),
  wait: rule('seconds from 0 to 600, such as 5 or 0.25', isNumber, (wait) => wait <= 600),
}

const DIGITS = /^(?:0|[1-9]\d{0,15})$/
const DECIMAL = /^(?:0|[1-9]\d{0,2})(?:\.\d{1,3})?$/

async function findRequests(open: () => Unchecked, { query }: Call): Promise<string> {
  const pairs = Array.from(new URLSearchParams(query), ([name, text]) => [name, read(name, text)])
  const given: Record<string, unknown> = Object.fromEntries(pairs)
  if (pairs.length > Object.keys(given).length) throw misuse('query must name each parameter once')
  checkMembers('query', given, PARAMETERS)
  const { count = 0, wait, ...filters } = given
  const timeout = wait === undefined ? undefined : Math.round(Number(wait) * 1000)
  const found = await open().waitForRequests(Number(count), { ...filters, timeout })
  return JSON.stringify(found)
}

/** Null, a number in plain digits, or the text as it is. */
function read(name: string, text: string): string | number | null {
  if (text === 'null') return null
  const pattern = name === 'wait' ? DECIMAL : DIGITS
  return pattern.test(text) ? Number(text) : text
}

/**
 * Whether a web page may have sent a request. Its browser says so in Origin or Sec-Fetch-Site (W3C
 * Fetch Metadata) or, after DNS rebinding, in the Host.
 */
export function isFromWebPage(headers: IncomingHttpHeaders, isOnLoopback: boolean): boolean {
  const { origin, host = 'localhost', 'sec-fetch-site': site = 'none' } = headers
  if (origin !== undefined || (site !== 'none' && site !== 'same-origin')) return true
  const name = host.replace(/:\d*$/, '').replace(/[[\]]/g, '')
  return isOnLoopback && !/^localhost$/i.test(name) && isIP(name) === 0
}
