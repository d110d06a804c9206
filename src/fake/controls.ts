import type { IncomingHttpHeaders } from 'node:http'
import { isIP } from 'node:net'
import { URLSearchParams } from 'node:url'
import { errorReply, hasCode, messageOf } from '../errors.ts'
import type { App } from '../http/exchange.ts'
import { type Asked, type Reply, type Route, Router } from '../http/router.ts'
import { parseJsonBytes } from '../pets/json.ts'
import { petJson } from '../pets/pet.ts'
import type { Awaitable, Pet } from '../pets/store.ts'
import { checkMembers, misuse, type Rule } from '../rules.ts'
import type { Petstore } from '../types.ts'
import { COUNT, FILTERS } from './requests.ts'

const MAX_BODY = 64 * 2 ** 20

/** A petstore, which validates what it is given. */
interface Controlled extends Omit<Petstore, 'add' | 'reset' | 'inject'> {
  add(pets: unknown): Promise<Pet[]>
  reset(pets?: unknown): Promise<void>
  inject(fault: unknown): unknown
}

/** Does what a request asks for; returns JSON, or nothing. */
type Task = (asked: Asked) => Awaitable<string | void>

/**
 * The test controls over HTTP, for tests in any language: without a key, and not for web pages.
 *
 * @param isLocal Whether they listen on a loopback address.
 */
export function controlApp(
  petstore: Controlled,
  isLocal: boolean,
  onBug: (error: unknown) => void,
): App {
  const routes = [
    control('POST', '/reset', ({ body }) => {
      return petstore.reset(body.length > 0 ? readJson(body) : undefined)
    }),
    control('GET', '/pets', () => jsonOf(petstore.pets)),
    control('POST', '/pets', async ({ body }) => jsonOf(await petstore.add(readJson(body)))),
    control('GET', '/requests', ({ query }) => findRequests(petstore, query)),
    control('DELETE', '/requests', () => petstore.clearRequests()),
    control('GET', '/faults', () => JSON.stringify(petstore.pendingFaults)),
    control('POST', '/faults', ({ body }) => {
      petstore.inject(readJson(body))
      return JSON.stringify(petstore.pendingFaults.at(-1))
    }),
    control('DELETE', '/faults', () => petstore.clearFaults()),
  ]
  const authorize: App['authorize'] = ({ headers }) => {
    return isFromWebPage(headers, isLocal) ? 'forbidden' : undefined
  }
  return { router: new Router(routes, ''), authorize, cors: [], maxBody: MAX_BODY, onBug }
}

function control(method: Route['method'], path: string, task: Task): Route {
  const status = method === 'POST' ? 201 : 200
  const handle = async (asked: Asked): Promise<Reply> => {
    try {
      if (path !== '/requests' && asked.query !== '') throw misuse('there must be no query')
      const body = await task(asked)
      return body === undefined ? { status: 204 } : { status, body }
    } catch (error) {
      return replyTo(error)
    }
  }
  return { method, path, operation: path, handle, isSecured: true }
}

/** Status and code of the response to each error of a petstore. */
const STATUSES = {
  invalid_option: [400, 'bad_request'],
  invalid_pet: [400, 'invalid_pet'],
  timeout: [408, 'request_timeout'],
  storage_failed: [503, 'storage_failed'],
  outcome_unknown: [503, 'outcome_unknown'],
  closed: [503, 'not_ready'],
  store_full: [507, 'store_full'],
} as const

/** Throws any other error: it is a bug. */
function replyTo(error: unknown): Reply {
  const known = Object.entries(STATUSES).find(([code]) => hasCode(error, code))
  if (!known) throw error
  const [status, code] = known[1]
  return errorReply(status, code, messageOf(error))
}

const WAIT: Rule = {
  mustBe: 'seconds from 0 to 600, such as 5 or 0.25',
  isType: (value) => typeof value === 'number',
  isInRange: (value) => Number(value) <= 600,
}
const PARAMETERS = { ...FILTERS, count: COUNT, wait: WAIT }

/** GET /requests: those that match, once there are `count` of them, or `wait` seconds are over. */
async function findRequests(petstore: Controlled, query: string): Promise<string> {
  const pairs = Array.from(new URLSearchParams(`?${query}`), ([name, text]) => {
    return [name, valueOf(text)] as const
  })
  const parameters: Record<string, unknown> = Object.fromEntries(pairs)
  if (pairs.length > Object.keys(parameters).length) {
    throw misuse('query must name each parameter once')
  }
  checkMembers('query', parameters, PARAMETERS)
  const { count = 0, wait = 4, ...filters } = parameters
  const timeout = Math.round(Number(wait) * 1_000)
  return JSON.stringify(await petstore.waitForRequests(Number(count), { ...filters, timeout }))
}

/** A number, null, or any other text. */
function valueOf(text: string): unknown {
  if (text === 'null') return null
  return /^\d+(?:\.\d+)?$/.test(text) ? Number(text) : text
}

function readJson(body: Buffer): unknown {
  const input = parseJsonBytes(body)
  if (input.ok) return input.value
  throw misuse(`the body must be JSON: ${input.reason}`)
}

/** With exact integers, unlike JSON.stringify. */
function jsonOf(pets: readonly Pet[]): string {
  return `[${pets.map((pet) => petJson(pet.id, pet)).join(',')}]`
}

/**
 * Whether a web page may have sent a request. Its browser says so in Origin or Sec-Fetch-Site (W3C
 * Fetch Metadata) or, after DNS rebinding of a loopback address, in the Host.
 */
function isFromWebPage(headers: IncomingHttpHeaders, isLocal: boolean): boolean {
  const { origin, host = 'localhost', 'sec-fetch-site': site = 'none' } = headers
  if (origin !== undefined || (site !== 'none' && site !== 'same-origin')) return true
  const name = host.replace(/:\d*$/, '').replace(/[[\]]/g, '')
  return isLocal && !/^localhost$/i.test(name) && isIP(name) === 0
}
