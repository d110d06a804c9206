import { isPetStatus, PET_STATUSES, type Result } from '../pets/pet.ts'
import type { PageQuery } from '../pets/store.ts'

const [DEFAULT_LIMIT, MAX_LIMIT] = [20, 100]
const MAX_INT64 = 2n ** 63n - 1n
const DIGITS = /^(?:0|[1-9]\d{0,18})$/

const MAX_KNOWN = 1_000
const known = new Map<string, Result<PageQuery>>()

/** Reads the query of listPets, which most often came before: parsing it takes longer than the page. */
export function readListQuery(query: string): Result<PageQuery> {
  let read = known.get(query)
  if (read !== undefined) return read
  if (known.size === MAX_KNOWN) known.clear()
  known.set(query, (read = parseListQuery(query)))
  return read
}

/** The issues name every parameter that is wrong; unknown names are ignored. */
function parseListQuery(query: string): Result<PageQuery> {
  const parameters = new URLSearchParams(`?${query}`) // it drops one leading question mark, which would be a part of a name
  const issues: string[] = []
  function read<T>(name: string, fallback: T, parse: (text: string) => T | undefined, mustBe: string): T {
    const [text, ...more] = parameters.getAll(name)
    if (text === undefined) return fallback
    const value = more.length === 0 ? parse(text) : undefined
    if (value === undefined) issues.push(`${name} must be ${mustBe}, given once`)
    return value ?? fallback
  }
  const limit = read('limit', DEFAULT_LIMIT, parseLimit, `an integer from 1 to ${MAX_LIMIT}`)
  const after = read('after', 0, parseAfter, 'an integer from 0 to 2^63-1')
  const parseStatus = (text: string) => (isPetStatus(text) ? text : undefined)
  const status = read('status', undefined, parseStatus, `one of ${PET_STATUSES.join(', ')}`)
  if (issues.length > 0) return { ok: false, issues }
  return { ok: true, value: { limit, after, ...(status && { status }) } }
}

function parseLimit(text: string): number | undefined {
  const limit = DIGITS.test(text) ? Number(text) : 0
  return limit >= 1 && limit <= MAX_LIMIT ? limit : undefined
}

// Ids stay below 2^53, so an `after` that is rounded above it still means the same page: the empty one.
function parseAfter(text: string): number | undefined {
  return DIGITS.test(text) && BigInt(text) <= MAX_INT64 ? Number(text) : undefined
}
