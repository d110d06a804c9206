import { clearTimeout, now, setTimeout } from '../clock.ts'
import { codedError } from '../errors.ts'
import type { Exchange } from '../http/exchange.ts'
import { check, checkMembers, integer, oneOf, orElse, type Rules, shape } from '../rules.ts'
import type { RecordedRequest, WaitOptions } from '../types.ts'
import { OPERATIONS } from './fault-rules.ts'

const MAX_REQUESTS = 1_000
const MAX_BYTES = 16 * 2 ** 20 // of all requests, each as JSON
const SHOWN_REQUESTS = 20
const SHOWN_DETAIL = 200 // characters of a body, or of an Error

export const FILTERS: Rules<'operation' | 'status'> = {
  operation: oneOf(...OPERATIONS),
  status: orElse(integer(100, 599), null),
}
export const COUNT = integer(0, MAX_REQUESTS)

const WAIT_RULES: Rules<keyof WaitOptions> = {
  ...FILTERS,
  matching: shape('a function of a request', (value) => typeof value === 'function'),
  timeout: integer(0, 600_000, ' ms'),
}

/** A request that is over. */
interface Entry {
  readonly started: number // when its head arrived
  readonly request: RecordedRequest
  readonly bytes: number // as JSON
}

/** Somebody who waits until there are enough requests. */
interface Wait {
  readonly count: number
  readonly options: WaitOptions
  readonly resolve: (requests: RecordedRequest[]) => void
  readonly reject: (error: unknown) => void
}

/** The latest requests. */
export class Requests {
  readonly #entries: Entry[] = []
  readonly #waits = new Set<Wait>()
  #bytes = 0 // of all entries
  #clearedAt = 0
  #isClosed = false

  /** Copies, in the order of arrival. */
  get all(): RecordedRequest[] {
    const inOrder = this.#entries.toSorted((one, other) => one.started - other.started)
    return inOrder.map(({ request }) => ({ ...request, headers: { ...request.headers } }))
  }

  /** Records a request, unless it was in flight when all were forgotten. */
  add(exchange: Exchange): void {
    const { started } = exchange
    if (started < this.#clearedAt) return
    const request = recordOf(exchange)
    const bytes = Buffer.byteLength(JSON.stringify(request))
    this.#entries.push({ started, request, bytes })
    this.#bytes += bytes
    while (this.#entries.length > MAX_REQUESTS || this.#bytes > MAX_BYTES) {
      this.#bytes -= this.#entries.shift()?.bytes ?? 0
    }
    for (const wait of this.#waits) this.#check(wait)
  }

  clear(): void {
    this.#entries.length = 0
    this.#bytes = 0
    this.#clearedAt = now()
  }

  close(): void {
    this.#isClosed = true
    for (const wait of this.#waits) wait.reject(this.#errorFor('closed', wait))
  }

  /** See `Petstore.waitForRequests`. */
  async waitFor(count: number, options: WaitOptions = {}): Promise<RecordedRequest[]> {
    check('count', count, COUNT)
    checkMembers('options', options, WAIT_RULES)
    const { timeout = 4_000 } = options
    return new Promise((resolve, reject) => {
      const end = <T>(settle: (value: T) => void) => {
        return (value: T): void => {
          clearTimeout(timer)
          this.#waits.delete(wait)
          settle(value)
        }
      }
      const wait: Wait = { count, options, resolve: end(resolve), reject: end(reject) }
      const timer = setTimeout(() => wait.reject(this.#errorFor('timeout', wait)), timeout)
      this.#waits.add(wait)
      this.#check(wait)
      if (this.#isClosed) wait.reject(this.#errorFor('closed', wait)) // no more will come
    })
  }

  /** Ends a wait for which there are enough requests. */
  #check(wait: Wait): void {
    try {
      const found = this.all.filter((request) => passes(request, wait.options))
      if (found.length >= wait.count) wait.resolve(found)
    } catch (error) {
      wait.reject(error) // thrown by `matching`
    }
  }

  #errorFor(code: 'timeout' | 'closed', { count, options }: Wait): Error {
    const latest = this.all.slice(-SHOWN_REQUESTS)
    const came =
      latest.length === 0
        ? 'none came'
        : `these came last:${latest.map((request) => `\n  ${lineFor(request)}`).join('')}`
    return codedError(code, `${code}: waited for ${describe(count, options)}; ${came}`)
  }
}

function recordOf(exchange: Exchange): RecordedRequest {
  const { req, path, query, route, body, reply, duration } = exchange
  const headers: Record<string, string> = {}
  for (const [name, value] of Object.entries(req.headers)) headers[name] = String(value)
  if (headers['authorization'] !== undefined) headers['authorization'] = '[redacted]'
  return {
    operation: OPERATIONS.find((name) => name === route?.operation) ?? null,
    method: req.method ?? '',
    path,
    query,
    headers,
    body: body.toString(),
    status: reply?.status ?? null,
    code: reply?.error?.code ?? null,
    message: reply?.error?.message ?? null,
    duration,
  }
}

function passes(request: RecordedRequest, { operation, status, matching }: WaitOptions): boolean {
  if (operation !== undefined && request.operation !== operation) return false
  if (status !== undefined && request.status !== status) return false
  return !matching || matching(request)
}

function describe(count: number, { operation, status, matching }: WaitOptions): string {
  let text = `${count} request${count === 1 ? '' : 's'}`
  if (operation !== undefined) text += `, operation ${operation}`
  if (status !== undefined) text += `, status ${status}`
  return matching ? `${text}, matching ${onOneLine(String(matching))}` : text
}

function lineFor(request: RecordedRequest): string {
  const { method, path, query, status, code, message, body } = request
  const target = query === '' ? path : `${path}?${query}`
  const detail = onOneLine(code === null ? body : `${code}: ${message}`)
  return `${method} ${target} ${status ?? 'no response'} ${detail}`.trimEnd()
}

function onOneLine(text: string): string {
  return text.replace(/\s+/g, ' ').slice(0, SHOWN_DETAIL)
}
