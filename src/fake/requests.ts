import { unescape as decodeLeniently } from 'node:querystring'
import { clearTimeout, setTimeout } from '../http/clock.ts'
import { NO_BODY, type RequestHead, type RequestOutcome } from '../http/dispatch.ts'
import { readTarget } from '../http/router.ts'
import { check, checkMembers, integer, oneOf, orElse, type Rule, withCode } from '../rules.ts'
import { MAX_ID } from '../pets/pet.ts'
import type { Budget } from '../pets/store.ts'
import type { RecordedOperation, RecordedRequest, WaitOptions } from '../types.ts'
import { memberViolations, OPERATIONS, parameterViolations } from './violations.ts'

const RECORDED: readonly RecordedOperation[] = [...OPERATIONS, 'page', 'openapi']

const MAX_SIZE = 16 * 2 ** 20 // characters of all requests as JSON, each counted as a byte
const MAX_BODY_BYTES = 2 ** 20
export const FILTERS: Readonly<Record<string, Rule<unknown>>> = {
  operation: oneOf(RECORDED),
  status: orElse(integer(100, 599), null),
  petId: integer(1, MAX_ID),
  key: orElse(integer(0, 1_000_000), null),
}
const WAIT_RULES = { ...FILTERS, timeout: integer(0, 600_000) }
const SHOWN_REQUESTS = 20
const SHOWN_BODY = 100 // characters

type Filters = readonly (readonly [name: string, value: unknown])[]
type Entry = Readonly<{ request: RecordedRequest; size: number }>

type Reason = 'timeout' | 'closed'
type Wait = Readonly<{ onRequest(request: RecordedRequest): void; end(reason: Reason): void }>

/** The latest requests, limited in number and in size. */
export class RequestRecorder {
  readonly #maxLength: number
  readonly #redact: (text: string) => string
  readonly #waits = new Set<Wait>()
  // By the head object, in the order of arrival; undefined while they are in flight.
  readonly #requests = new Map<RequestHead, Entry | undefined>()
  #count = 0 // of those no longer in flight
  #size = 0
  readonly #budget: Budget
  isClosed = false

  /** @param budget Bytes that several recorders take together. */
  constructor(
    maxLength: number,
    redact: (text: string) => string,
    budget: Budget = { maxBytes: Infinity, bytes: 0 },
  ) {
    this.#maxLength = maxLength
    this.#redact = redact
    this.#budget = budget
  }

  get requests(): RecordedRequest[] {
    return structuredClone(this.#find([]))
  }

  clear(): void {
    this.#requests.clear()
    this.#count = 0
    this.#grow(-this.#size)
  }

  close(): void {
    this.isClosed = true
    for (const { end } of this.#waits) end('closed')
  }

  async waitFor(count: number, options: WaitOptions = {}): Promise<RecordedRequest[]> {
    check('count', count, integer(0, this.#maxLength, ', the option maxRequests'))
    checkMembers('options', options, WAIT_RULES)
    const { timeout = 4_000, ...given } = options
    const filters = Object.entries(given).filter(([, value]) => value !== undefined)
    const outcome = await new Promise<RecordedRequest[] | Error>((resolve) => {
      const settle = (result: RecordedRequest[] | Error) => {
        clearTimeout(timer)
        this.#waits.delete(wait)
        resolve(result)
      }
      let missing = 0 // at least; a recount at each request would take quadratic time
      const recount = () => {
        const found = this.#find(filters)
        missing = count - found.length
        if (missing <= 0) settle(structuredClone(found))
      }
      const onRequest = (request: RecordedRequest) => {
        if (matches(request, filters)) missing--
        if (missing <= 0) recount()
      }
      const end = (reason: Reason) =>
        settle(withCode(reason, new Error(this.#describeMiss(count, filters, reason))))
      const wait: Wait = { onRequest, end }
      const timer = setTimeout(end, timeout, 'timeout')
      this.#waits.add(wait)
      recount()
      if (this.isClosed) end('closed') // does nothing if there were enough
    })
    if (Array.isArray(outcome)) return outcome
    Error.captureStackTrace(outcome) // it leads to the caller now, not to a timer
    throw outcome
  }

  #find(filters: Filters): RecordedRequest[] {
    const recorded = [...this.#requests.values()].flatMap((entry) => entry?.request ?? [])
    return recorded.filter((request) => matches(request, filters))
  }

  #describeMiss(count: number, filters: Filters, reason: Reason): string {
    const wanted = filters.map(([name, value]) => `, ${name} ${value}`)
    const all = [...this.#requests]
    const lines = all
      .filter(([, entry], at) => !entry || at >= all.length - SHOWN_REQUESTS)
      .map(([head, entry]) => `\n  ${this.#describe(head, entry?.request)}`)
    const came = lines.length === 0 ? 'none came' : `these came last:${lines.join('')}`
    const plural = count === 1 ? '' : 's'
    return `${reason}: waited for ${count} request${plural}${wanted.join('')}; ${came}`
  }

  #describe(head: RequestHead, request: RecordedRequest | undefined): string {
    if (!request) return this.#redact(`${head.method} ${head.target} in flight`)
    const { method, path, query, status } = request // redacted when it was added
    const target = query === '' ? path : `${path}?${query}`
    const body = request.body.replace(/\s+/g, ' ').slice(0, SHOWN_BODY)
    return `${method} ${target} ${status ?? 'no response'} ${body}`.trimEnd()
  }

  /** Records a request in flight. */
  begin(head: RequestHead): void {
    this.#requests.set(head, undefined)
  }

  /** Adds a request, unless it could not be read or has been forgotten since it began. */
  add(outcome: RequestOutcome): void {
    const { head, route, key = null, body = NO_BODY, reply, ms } = outcome
    if (!head || !this.#requests.has(head)) return
    const redact = this.#redact
    const { path, query } = readTarget(head.target)
    const operation = route?.operation ?? ''
    const violations = [...parameterViolations(operation, query), ...memberViolations(body)]
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
      duration: ms,
      violations: violations.map(redact),
    }
    const size = JSON.stringify(request).length
    this.#requests.set(head, { request, size })
    this.#count++
    this.#grow(size)
    this.dropOldest()
    const { bytes, maxBytes } = this.#budget
    if (bytes > maxBytes) this.#budget.makeRoom?.(0)
    for (const { onRequest } of this.#waits) onRequest(request)
  }

  #grow(bytes: number): void {
    this.#size += bytes
    this.#budget.bytes += bytes
  }

  /** Drops the oldest while there are too many or, given a share, all recorders exceed it. */
  dropOldest(share: number = Infinity): void {
    for (const [head, entry] of this.#requests) {
      const isWithin = this.#count <= this.#maxLength && this.#size <= MAX_SIZE
      if (isWithin && this.#budget.bytes <= this.#budget.maxBytes * share) return
      if (!entry) continue
      this.#requests.delete(head)
      this.#count--
      this.#grow(-entry.size)
    }
  }
}

function matches(request: RecordedRequest, filters: Filters): boolean {
  const { operation, path } = request
  const petId = operation === 'getPet' && decodeLeniently(path.split('/').at(-1) ?? '')
  const seen: Record<string, unknown> = { ...request, petId }
  return filters.every(([name, value]) => String(seen[name]) === String(value)) // petId is text
}
