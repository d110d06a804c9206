import { NO_BODY, type RequestHead, type RequestOutcome } from '../http/dispatch.ts'
import { HEAP_LIMIT } from '../http/limits.ts'
import { readTarget } from '../http/router.ts'
import { check, integer, withCode } from '../rules.ts'
import { pack, unpack } from '../pets/store.ts'
import type { RecordedRequest, WaitOptions } from '../types.ts'
import { memberViolations, MENTIONED, parameterViolations } from './violations.ts'
import { describeWait, LISTED, type Matches, onOneLine, passes } from './wait.ts'
import { readWaitOptions, Wait } from './wait.ts'

const RECORDED = [...LISTED, ...MENTIONED]

// Of all requests: their JSON in UTF-8, which is how they are kept, and an overhead for each.
const MAX_BYTES = Math.min(16 * 2 ** 20, HEAP_LIMIT / 16)
const OVERHEAD = 300
const MAX_BODY_BYTES = 2 ** 20
const MAX_WAITS = 100 // at once: one request may end them all, each with a copy of all requests
const SHOWN_REQUESTS = 20 // of those in flight, and of the others

/** A request in its place in the order of arrival. */
interface Entry {
  head: RequestHead | undefined // while it is in flight
  packed: string // JSON; as objects, many short headers would take ten times as much
  ended: number
}

/** The latest requests, limited in number and in size. */
export class RequestRecorder {
  readonly maxRequests: number
  bytes = 0 // of those no longer in flight
  readonly #redact: (text: string) => string
  readonly #onGrowth: (bytes: number) => void
  readonly #waits = new Set<Wait>()
  readonly #requests = new Set<Entry>()
  readonly #inFlight = new Map<RequestHead, Entry>()
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
    for (const entry of this.#requests) {
      if (!entry.head && entry.ended >= (latest?.ended ?? 0)) latest = entry
    }
    if (!latest) return { requests: 0, lastStatus: null, since: null }
    const since = new Date(latest.ended).toISOString()
    return { requests: this.#count, lastStatus: requestIn(latest).status, since }
  }

  clear(): void {
    this.#requests.clear()
    this.#inFlight.clear()
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
    const recorded = [...this.#requests].filter(({ head }) => !head)
    return recorded.map(requestIn).filter(matches)
  }

  #describeLatest(): string {
    const all = [...this.#requests]
    const inFlight = all.filter(({ head }) => head).slice(-SHOWN_REQUESTS)
    const others = all.filter(({ head }) => !head).slice(-SHOWN_REQUESTS)
    const shown = new Set([...inFlight, ...others])
    const lines = all.filter((one) => shown.has(one)).map((one) => `\n  ${this.#describe(one)}`)
    return lines.length === 0 ? 'none came' : `these came last:${lines.join('')}`
  }

  #describe(entry: Entry): string {
    const { head } = entry
    if (head) return this.#redact(`${head.method} ${head.target} in flight`)
    const request = requestIn(entry) // redacted when it was added
    const { method, path, query, status, code, message } = request
    const target = query === '' ? path : `${path}?${query}`
    const detail = onOneLine(code === null ? request.body : `${code}: ${message}`)
    return `${method} ${target} ${status ?? 'no response'} ${detail}`.trimEnd()
  }

  /** Records a request in flight. */
  begin(head: RequestHead): void {
    const entry: Entry = { head, packed: '', ended: 0 }
    this.#requests.add(entry)
    this.#inFlight.set(head, entry)
  }

  /**
   * Adds a request, unless it could not be read or has been forgotten since it began.
   * @param fault Whether one applied to it.
   */
  add(outcome: RequestOutcome, fault: boolean): void {
    const { head, route, key = null, body = NO_BODY, reply, ms } = outcome
    const entry = head && this.#inFlight.get(head)
    if (!entry) return
    this.#inFlight.delete(head)
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
    const packed = pack(JSON.stringify(request))
    Object.assign(entry, { head: undefined, packed, ended: Date.now() })
    this.#count++
    this.#grow(sizeOf(entry))
    this.#dropOldest(this.maxRequests, MAX_BYTES)
    for (const wait of this.#waits) wait.onRequest(request)
  }

  /** Drops the older half, by number; the only one, too. */
  dropOlderHalf(): void {
    this.#dropOldest(Math.floor(this.#count / 2), MAX_BYTES)
  }

  /** Drops the oldest until these are left. */
  #dropOldest(maxCount: number, maxBytes: number): void {
    for (const entry of this.#requests) {
      if (this.#count <= maxCount && this.bytes <= maxBytes) return
      if (entry.head) continue
      this.#requests.delete(entry)
      this.#count--
      this.#grow(-sizeOf(entry))
    }
  }

  #grow(bytes: number): void {
    this.bytes += bytes
    this.#onGrowth(bytes)
  }
}

function sizeOf({ packed }: Entry): number {
  return packed.length + OVERHEAD
}

function requestIn({ packed }: Entry): RecordedRequest {
  return JSON.parse(unpack(packed))
}

function copyOf(request: RecordedRequest): RecordedRequest {
  const { headers, violations } = request
  return { ...request, headers: { ...headers }, violations: [...violations] }
}
