import { readFileSync } from 'node:fs'
import { isApiKey, KEY_MUST_BE } from './http/bearer.ts'
import { messageOf } from './pets/errors.ts'
import { parseJson } from './pets/json.ts'
import { describeIssues, type NewPet, validateNewPet } from './pets/pet.ts'

/** Bad use: the message says what was given and what it must be. */
export class UsageError extends Error {}

/** Reads decimal digits as an integer within bounds. */
export function integer(minimum: number, maximum: number): (text: string) => number {
  return (text) => {
    const value = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN
    if (value >= minimum && value <= maximum) return value
    throw new UsageError(`must be an integer from ${minimum} to ${maximum}`)
  }
}

/** Reads a number of bytes: digits, and k, m or g behind them. */
export function bytes(maximum: number, shownMaximum: string): (text: string) => number {
  return (text) => {
    const [, digits, unit = ''] = /^(\d{1,15})([kmg]?)$/i.exec(text) ?? []
    const value = Number(digits) * 1024 ** ['', 'k', 'm', 'g'].indexOf(unit.toLowerCase())
    if (value >= 1 && value <= maximum) return value
    throw new UsageError(`must be a number of bytes from 1 to ${shownMaximum}; k, m or g behind it multiplies by 1024`)
  }
}

/** Accepts a text that matches. */
export function matching(pattern: RegExp, mustBe: string): (text: string) => string {
  return (text) => {
    if (pattern.test(text)) return text
    throw new UsageError(`must be ${mustBe}`)
  }
}

/** Accepts one of a few words. */
export function oneOf<const T extends string>(values: readonly T[]): (text: string) => T {
  return (text) => {
    const value = values.find((one) => one === text)
    if (value !== undefined) return value
    throw new UsageError(`must be one of ${values.join(', ')}`)
  }
}

/** Reads 1 or 0. */
export function bit(text: string): boolean {
  return oneOf(['0', '1'])(text) === '1'
}

/** Accepts a key. A refused one is shown only so far that its owner knows it: it may be all but the right one. */
export function checkKey(key: string): string {
  if (isApiKey(key)) return key
  const shown = key.length < 8 ? key : `${key.slice(0, 3)}…`
  throw new UsageError(`${JSON.stringify(shown)} (${key.length} characters) must be ${KEY_MUST_BE}`)
}

/** Reads the file of animals to begin with: a JSON array of NewPet. */
export function readSeed(path: string): NewPet[] {
  const mustHold = 'must hold a JSON array of NewPet'
  const input = parseJson(readText(path))
  if (!input.ok) throw new UsageError(`${mustHold}: ${describeIssues(input.issues)}`)
  if (!Array.isArray(input.value)) throw new UsageError(mustHold)
  return input.value.map((item: unknown, at) => {
    const pet = validateNewPet(item)
    if (pet.ok) return pet.value
    throw new UsageError(`${mustHold}: in item ${at + 1}, ${describeIssues(pet.issues)}`)
  })
}

function readText(path: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(readFileSync(path))
  } catch (error) {
    throw new UsageError(`must be a file of UTF-8 text that can be read: ${messageOf(error)}`)
  }
}

/** The keys of a file: one a line, `#` starts a comment. */
export function readKeysFile(path: string): string[] {
  const lines = readText(path).split('\n').entries()
  const keys: string[] = []
  for (const [at, line] of lines) {
    const key = line.replace(/#.*/, '').trim()
    if (key === '') continue
    if (!isApiKey(key)) throw new UsageError(`must hold one key a line: line ${at + 1} must be ${KEY_MUST_BE}`)
    keys.push(key)
  }
  if (keys.length === 0) throw new UsageError('must hold at least one key')
  return keys
}
