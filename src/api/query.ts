import { isPetStatus, PET_STATUSES, type Result } from '../pets/pet.ts'
import type { PageQuery } from '../pets/store.ts'

const DEFAULT_LIMIT = 20
const LIMIT = /^(?:[1-9]\d?|100)$/
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
  const parameters = new URLSearchParams(`?${query}`) // which drops the first question mark and no other
  const issues: string[] = []
  function read(name: string, isValid: (text: string) => boolean, mustBe: string): string | undefined {
    const [text, ...more] = parameters.getAll(name)
    const isRight = text === undefined || (more.length === 0 && isValid(text))
    if (!isRight) issues.push(`${name} must be ${mustBe}, given once`)
    return text
  }
  const limit = read('limit', (text) => LIMIT.test(text), 'an integer from 1 to 100') ?? DEFAULT_LIMIT
  const after = read('after', isInt64, 'an integer from 0 to 2^63-1') ?? 0
  const status = read('status', isPetStatus, `one of ${PET_STATUSES.join(', ')}`)
  if (issues.length > 0) return { ok: false, issues }
  // Ids stay below 2^53, so an `after` that is rounded above it still means the same page: the empty one.
  return { ok: true, value: { limit: Number(limit), after: Number(after), ...(isPetStatus(status) && { status }) } }
}

function isInt64(text: string): boolean {
  return DIGITS.test(text) && BigInt(text) < 2n ** 63n
}
