export type { Awaitable } from './store-types.ts' // for http, which imports no types of pets

/** Whether a value is an object: an array is one, too. */
export function hasMembers(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}

/** Whether a value is an object, and no array. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return hasMembers(value) && !Array.isArray(value)
}

/** Whether an error has one of these codes. */
export function hasCode(error: unknown, ...codes: string[]): boolean {
  return hasMembers(error) && codes.includes(String(error['code']))
}

/** The message of anything thrown; for a failed connect, that of each address. */
export function messageOf(error: unknown): string {
  if (error instanceof AggregateError) return error.errors.map(messageOf).join('; ')
  return error instanceof Error ? error.message : String(error)
}
