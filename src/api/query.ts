import { URLSearchParams } from 'node:url'
import { failure, type Parsed } from '../pets/json.ts'
import { isPetStatus, MAX_ID, PET_STATUSES } from '../pets/pet.ts'
import type { PageQuery } from '../types.ts'

const LIMIT = /^(?:[1-9]\d?|100)$/
const DIGITS = /^(?:0|[1-9]\d{0,18})$/

const MAX_QUERIES = 500
const MAX_LENGTH = 100 // characters of a query that is cached: longer than any useful one

// Parsing a query costs more than building its page.
const cache = new Map<string, Parsed<PageQuery>>()

/** The query of listPets. */
export function readListQuery(query: string): Parsed<PageQuery> {
  const cached = cache.get(query)
  if (cached) return cached
  const result = parseListQuery(query)
  if (query.length > MAX_LENGTH) return result
  if (cache.size === MAX_QUERIES) cache.clear()
  cache.set(query, result)
  return result
}

/** The reason names every parameter that is wrong. Ignores unknown ones. */
function parseListQuery(query: string): Parsed<PageQuery> {
  const parameters = new URLSearchParams(`?${query}`) // or it would drop a leading `?` of the query
  const issues: string[] = []
  function read(name: string, isValid: (text: string) => boolean, mustBe: string) {
    const [text, ...more] = parameters.getAll(name)
    const isRight = text === undefined || (more.length === 0 && isValid(text))
    if (!isRight) issues.push(`${name} must be ${mustBe}, given once`)
    return text
  }
  const limit = read('limit', (text) => LIMIT.test(text), 'an integer from 1 to 100') ?? '20'
  const after = read('after', isCursor, 'an integer from 0 to 2^63-1') ?? '0'
  const status = read('status', isPetStatus, `one of ${PET_STATUSES.join(', ')}`)
  if (issues.length > 0) return failure(issues.join('; '))
  // No id is above MAX_ID.
  const range = { limit: Number(limit), after: Math.min(Number(after), MAX_ID) }
  // Frozen, because it is cached, and a user's own store gets it too.
  return { ok: true, value: Object.freeze(isPetStatus(status) ? { ...range, status } : range) }
}

function isCursor(text: string): boolean {
  return DIGITS.test(text) && BigInt(text) < 2n ** 63n
}
