import { URLSearchParams } from 'node:url'
import { failure, type Parsed } from '../pets/json.ts'
import { int64FromDigits, isPetStatus, PET_STATUSES } from '../pets/pet.ts'
import type { PageQuery } from '../pets/store.ts'

const LIMIT = /^(?:[1-9]\d?|100)$/
const DIGITS = /^(?:0|[1-9]\d{0,18})$/
const DEFAULT: PageQuery = { limit: 20, after: 0 }

export const LIST_PARAMETERS: readonly string[] = ['limit', 'after', 'status']

/** The query of listPets. The reason names every parameter that is wrong. Ignores unknown ones. */
export function readListQuery(query: string): Parsed<PageQuery> {
  if (query === '') return { ok: true, value: DEFAULT }
  const parameters = parametersOf(query)
  const issues: string[] = []
  const read = (name: string, isValid: (text: string) => boolean, mustBe: string) => {
    const [text, ...more] = parameters.getAll(name)
    const isRight = text === undefined || (more.length === 0 && isValid(text))
    if (!isRight) issues.push(`${name} must be ${mustBe}, given once`)
    return text
  }
  const limit = read('limit', (text) => LIMIT.test(text), 'an integer from 1 to 100') ?? '20'
  const after = read('after', isCursor, 'an integer from 0 to 2^63-1') ?? '0'
  const status = read('status', isPetStatus, `one of ${PET_STATUSES.join(', ')}`)
  if (issues.length > 0) return failure(issues.join('; '))
  const range = { limit: Number(limit), after: int64FromDigits(after) ?? 0 }
  return { ok: true, value: isPetStatus(status) ? { ...range, status } : range }
}

function isCursor(text: string): boolean {
  return DIGITS.test(text) && int64FromDigits(text) !== undefined
}

/** The parameters that an operation does not have. */
export function unknownParameters(query: string, known: readonly string[]): string[] {
  return [...parametersOf(query).keys()].filter((name) => !known.includes(name))
}

function parametersOf(query: string): URLSearchParams {
  return new URLSearchParams(`?${query}`) // which would drop a leading `?` of the query
}
