import { isPetStatus, type Issue, PET_STATUSES, type PetStatus, type Result } from '../pets/pet.ts'

/** The query of listPets, read: `limit` and `after` with their defaults. */
export interface ListQuery {
  limit: number
  after: number
  status?: PetStatus
}

/** The contract's bounds of `limit`. */
export const LIMIT = { minimum: 1, maximum: 100, default: 20 } as const

const MAX_INT64 = 2n ** 63n - 1n
const DIGITS = /^(?:0|[1-9]\d{0,18})$/

/** Reads the query of listPets, and names every parameter that is wrong; unknown names are ignored. */
export function readListQuery(query: string): Result<ListQuery> {
  if (query === '') return { ok: true, value: { limit: LIMIT.default, after: 0 } }
  const parameters = new URLSearchParams(query)
  const issues: Issue[] = []
  function read<T>(name: string, absent: T, parse: (text: string) => T | undefined, mustBe: string): T {
    const [text, ...more] = parameters.getAll(name)
    if (text === undefined) return absent
    const value = more.length === 0 ? parse(text) : undefined
    if (value !== undefined) return value
    issues.push({ path: name, code: 'invalid', message: `${name} must be ${mustBe}, given once` })
    return absent
  }
  const limit = read('limit', LIMIT.default, readLimit, `an integer from ${LIMIT.minimum} to ${LIMIT.maximum}`)
  const after = read('after', 0, readAfter, 'an integer from 0 to 2^63-1')
  const status = read('status', undefined, readStatus, `one of ${PET_STATUSES.join(', ')}`)
  if (issues.length > 0) return { ok: false, issues }
  return { ok: true, value: status === undefined ? { limit, after } : { limit, after, status } }
}

function readLimit(text: string): number | undefined {
  const limit = DIGITS.test(text) ? Number(text) : 0
  return limit >= LIMIT.minimum && limit <= LIMIT.maximum ? limit : undefined
}

// Ids stay below 2^53, so an `after` that is rounded above it still means the same page: the empty one.
function readAfter(text: string): number | undefined {
  return DIGITS.test(text) && BigInt(text) <= MAX_INT64 ? Number(text) : undefined
}

function readStatus(text: string): PetStatus | undefined {
  return isPetStatus(text) ? text : undefined
}
