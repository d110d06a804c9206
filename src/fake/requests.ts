import { unescape as decodeLeniently } from 'node:querystring'
import { NO_BODY, type RequestHead, type RequestOutcome } from '../http/dispatch.ts'
import { HEAP_LIMIT } from '../http/limits.ts'
import { readTarget } from '../http/router.ts'
import { check, checkMembers, integer, oneOf, orElse, type Rule, rule } from '../rules.ts'
import { withCode } from '../rules.ts'
import { MAX_ID } from '../pets/pet.ts'
import type { RecordedOperation, RecordedRequest, WaitOptions } from '../types.ts'
import { memberViolations, MENTIONED, OPERATIONS, parameterViolations } from './violations.ts'
import { type Matches, Wait } from './wait.ts'

const LISTED: readonly RecordedOperation[] = [...OPERATIONS, 'page', 'openapi']
const RECORDED = [...LISTED, ...MENTIONED]

// Of all requests as JSON, each character counted as a byte. V8 may take four times as much.
const MAX_BYTES = Math.min(16 * 2 ** 20, HEAP_LIMIT / 16)
const MAX_BODY_BYTES = 2 ** 20
export const FILTERS: Readonly<Record<string, Rule<unknown>>> = {
  operation: oneOf(LISTED, MENTIONED),
  status: orElse(integer(100, 599), null),
  petId: integer(1, MAX_ID),
  key: orElse(integer(0, 1_000_000), null),
}
const isFunction = (value: unknown): value is () => unknown => typeof value === 'function'
const WAIT_RULES = {
  ...FILTERS,
  matching: rule('a function of a request', isFunction),
  timeout: integer(0, 600_000),
}
const MAX_WAITS = 100 // at once, of a store: one request may end them all, each with a copy of all requests
const SHOWN_REQUESTS = 20 // of those in flight, and of the others
const SHOWN_DETAIL = 200 // characters of a body, or of an Error

type Filters = readonly (readonly [name: string, value: unknown])[]
type Matching = WaitOptions['matching']
type Entry = Readonly<{ request: RecordedRequest; size: number; ended: number }>

/** The latest requests, limited in number and in size. */
export class RequestRecorder {
  readonly maxRequests: number
  bytes = 0 // of those no longer in flight
  readonly #redact: (text: string) => string
  readonly #onGrowth: (bytes: number) => void
  readonly #waits = new Set<Wait>()
  // By the head object, in the order of arrival; undefined while they are in flight.
  readonly #requests = new Map<RequestHead, Entry | undefined>()
  #count = 0 // of those no longer in flight

  /** @param onGrowth Gets each change of `bytes`. */
  constructor(
    maxRequests: number,
    redact: (text: string) => string,
    onGrowth: (bytes: number) => void = () => {},
  ) {
    this.maxRequests = maxRequests
    this.#redact = redact
    this.#onGrowth = onGrowth
  }

  get requests(): RecordedRequest[] {
    return this.#find(() => true)
  }

  /** How many requests have ended; the status of the latest one, and when it ended (ISO 8601). */
  get summary(): { requests: number; lastStatus: number | null; since: string | null } {
    let latest: Entry | undefined
    for (const entry of this.#requests.values()) {
      if (entry && entry.ended >= (latest?.ended ?? 0)) latest = entry
    }
    const since = latest ? new Date(latest.ended).toISOString() : null
    return { requests: this.#count, lastStatus: latest?.request.status ?? null, since }
  }

  clear(): void {
    this.#requests.clear()
    this.#count = 0
    this.#grow(-this.bytes)
  }

  endWaits(): void {
    for (const wait of this.#waits) wait.end('closed')
  }

  /** @param left Ends the wait, once resolved. */
  async waitFor(
    count: number,
    options: WaitOptions = {},
    left?: Promise<void>,
  ): Promise<RecordedRequest[]> {
    check('count', count, integer(0, this.maxRequests, ', the option maxRequests'))
    const { timeout, matching, filters } = readWaitOptions(options)
    const matches: Matches = (request) =>
      passes(request, filters) && (!matching || matching(copyOf(request)))
    const wait = new Wait(count, matches, timeout, (matches) => this.#find(matches))
    this.#waits.add(wait)
    if (this.#waits.size > MAX_WAITS) this.#endOldestWait()
    void left?.then(() => wait.end('closed'))
    const outcome = await wait.outcome.finally(() => this.#waits.delete(wait))
    if (Array.isArray(outcome)) return outcome
    const message = describeWait(outcome, count, filters, matching)
    throw withCode(outcome, new Error(`${message}; ${this.#describeLatest()}`))
  }

  #endOldestWait(): void {
    const [oldest] = this.#waits
    if (!oldest) return
    this.#waits.delete(oldest)
    oldest.end('timeout')
  }

  #find(matches: Matches): RecordedRequest[] {
    const recorded = [...this.#requests.values()].flatMap((entry) => entry?.request ?? [])
    return recorded.filter(matches).map(copyOf)
  }

  #describeLatest(): string {
    const all = [...this.#requests]
    const inFlight = all.filter(([, entry]) => !entry).slice(-SHOWN_REQUESTS)
    const others = all.filter(([, entry]) => entry).slice(-SHOWN_REQUESTS)
    const shown = new Set([...inFlight, ...others])
    const lines = all
      .filter((one) => shown.has(one))
      .map(([head, entry]) => `\n  ${this.#describe(head, entry?.request)}`)
    return lines.length === 0 ? 'none came' : `these came last:${lines.join('')}`
  }

  #describe(head: RequestHead, request: RecordedRequest | undefined): string {
    if (!request) return this.#redact(`${head.method} ${head.target} in flight`)
    const { method, path, query, status, code, message } = request // redacted when it was added
    const target = query === '' ? path : `${path}?${query}`
    const detail = onOneLine(code === null ? request.body : `${code}: ${message}`)
    return `${method} ${target} ${status ?? 'no response'} ${detail}`.trimEnd()
  }

  /** Records a request in flight. */
  begin(head: RequestHead): void {
    this.#requests.set(head, undefined)
  }

  /**
   * Adds a request, unless it could not be read or has been forgotten since it began.
   * @param fault Whether one applied to it.
   */
  add(outcome: RequestOutcome, fault: boolean): void {
    const { head, route, key = null, body = NO_BODY, reply, ms } = outcome
    if (!head || !this.#requests.has(head)) return
    const redact = this.#redact
    const textOrNull = (text?: string) => (text === undefined ? null : redact(text))
    const { path, query } = readTarget(head.target)
    const operation = route?.operation ?? ''
    const inQuery = parameterViolations(operation, query, redact)
    const violations = [...inQuery, ...memberViolations(body, redact)]
    const headers = Object.entries(head.headers).map(([name, value]) => [
      redact(name),
      name === 'authorization' ? '[redacted]' : redact(`${value}`),
    ])
    const request: RecordedRequest = {
      operation: RECORDED.find((name) => name === operation) ?? null,
      method: redact(head.method),
      path: redact(path),
      query: redact(query),
      key,
      headers: Object.fromEntries(headers),
      body: redact(body.toString('utf8', 0, MAX_BODY_BYTES)),
      status: reply?.status ?? null,
      code: textOrNull(reply?.code),
      message: textOrNull(reply?.message),
      fault,
      duration: ms,
      violations,
    }
    const size = JSON.stringify(request).length
    this.#requests.set(head, { request, size, ended: Date.now() })
    this.#count++
    this.#grow(size)
    this.#dropOldest(this.maxRequests, MAX_BYTES)
    for (const wait of this.#waits) wait.onRequest(request)
  }

  /** Drops the older half, by number; the only one, too. */
  dropOlderHalf(): void {
    this.#dropOldest(Math.floor(this.#count / 2), MAX_BYTES)
  }

  /** Drops the oldest until these are left. */
  #dropOldest(maxCount: number, maxBytes: number): void {
    for (const [head, entry] of this.#requests) {
      if (this.#count <= maxCount && this.bytes <= maxBytes) return
      if (!entry) continue // in flight
      this.#requests.delete(head)
      this.#count--
      this.#grow(-entry.size)
    }
  }

  #grow(bytes: number): void {
    this.bytes += bytes
    this.#onGrowth(bytes)
  }
}

/** Checks the options of a wait, and fills in their defaults. */
export function readWaitOptions(options: WaitOptions): {
  timeout: number
  matching: Matching
  filters: Filters
} {
  checkMembers('options', options, WAIT_RULES)
  const { timeout = 4_000, matching, ...given } = options
  const filters = Object.entries(given).filter(([, value]) => value !== undefined)
  return { timeout, matching, filters }
}

/** The beginning of the error of a wait: what it waited for. */
export function describeWait(
  reason: string,
  count: number,
  filters: Filters,
  matching: Matching,
): string {
  const wanted = filters.map(([name, value]) => `, ${name} ${value}`)
  if (matching) wanted.push(`, matching ${onOneLine(String(matching))}`)
  const plural = count === 1 ? '' : 's'
  return `${reason}: waited for ${count} request${plural}${wanted.join('')}`
}

function copyOf(request: RecordedRequest): RecordedRequest {
  const { headers, violations } = request
  return { ...request, headers: { ...headers }, violations: [...violations] }
}

function onOneLine(text: string): string {
  return text.replace(/\s+/g, ' ').slice(0, SHOWN_DETAIL)
}

function passes(request: RecordedRequest, filters: Filters): boolean {
  const { operation, path } = request
  const petId = operation === 'getPet' && decodeLeniently(path.split('/').at(-1) ?? '')
  const seen: Record<string, unknown> = { ...request, petId }
  return filters.every(([name, value]) => String(seen[name]) === String(value)) // petId is text
}
