import { unescape as decodeLeniently } from 'node:querystring'
import { MAX_ID } from '../pets/pet.ts'
import { checkMembers, integer, oneOf, orElse, type Rule, rule } from '../rules.ts'
import { clearTimeout, setTimeout } from '../runtime.ts'
import type { RecordedOperation, RecordedRequest, WaitOptions } from '../types.ts'
import { MENTIONED, OPERATIONS } from './violations.ts'

export const LISTED: readonly RecordedOperation[] = [...OPERATIONS, 'page', 'openapi']
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
const SHOWN_DETAIL = 200 // characters of a body, or of an Error

type Filters = readonly (readonly [name: string, value: unknown])[]
type Matching = WaitOptions['matching']

export type Matches = (request: RecordedRequest) => boolean
type Outcome = RecordedRequest[] | 'timeout' | 'closed'

/** A caller who waits for requests. */
export class Wait {
  readonly outcome: Promise<Outcome>
  readonly #matches: Matches
  readonly #count: number
  readonly #find: (matches: Matches) => RecordedRequest[]
  #missing = 0 // at least; a recount at each request would take quadratic time
  #settle: (outcome: Outcome | Promise<never>) => void = () => {}

  /** @param find Copies of all requests that match. */
  constructor(
    count: number,
    matches: Matches,
    timeout: number,
    find: (matches: Matches) => RecordedRequest[],
  ) {
    this.#matches = matches
    this.#count = count
    this.#find = find
    this.outcome = new Promise((resolve) => {
      const timer = setTimeout(() => this.end('timeout'), timeout)
      this.#settle = (outcome) => {
        clearTimeout(timer)
        resolve(outcome)
      }
    })
    this.#try(() => this.#recount())
  }

  onRequest(request: RecordedRequest): void {
    this.#try(() => {
      if (this.#matches(request)) this.#missing--
      if (this.#missing <= 0) this.#recount()
    })
  }

  end(reason: 'timeout' | 'closed'): void {
    this.#settle(reason)
  }

  /** What the caller's `matching` throws rejects the wait. */
  #try(look: () => void): void {
    try {
      look()
    } catch (error) {
      this.#settle(Promise.reject(error))
    }
  }

  #recount(): void {
    const found = this.#find(this.#matches)
    this.#missing = this.#count - found.length
    if (this.#missing <= 0) this.#settle(found)
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

export function passes(request: RecordedRequest, filters: Filters): boolean {
  const { operation, path } = request
  const petId = operation === 'getPet' && decodeLeniently(path.split('/').at(-1) ?? '')
  const seen: Record<string, unknown> = { ...request, petId }
  return filters.every(([name, value]) => String(seen[name]) === String(value)) // petId is text
}

export function onOneLine(text: string): string {
  return text.replace(/\s+/g, ' ').slice(0, SHOWN_DETAIL)
}
