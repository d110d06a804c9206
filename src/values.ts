import { fs } from './builtins.ts'
import { isApiKey, KEY_MUST_BE } from './http/bearer.ts'
import { messageOf } from './pets/errors.ts'
import { parseJson } from './pets/json.ts'
import { describeIssues, type NewPet, validateNewPets } from './pets/pet.ts'
import { oneOf, type Rule } from './rules.ts'

/** Bad use: the message says what was given and what it must be. */
export class UsageError extends Error {}

/** Reads decimal digits as an integer that a rule allows. */
export function digits({ mustBe, isInRange }: Rule<number>): (text: string) => number {
  return (text) => {
    const value = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN
    if (isInRange(value)) return value
    throw new UsageError(`must be ${mustBe}`)
  }
}

/** Reads a number of bytes that a rule allows: digits, and k, m or g behind them. */
export function bytes({ isInRange }: Rule<number>, shownMaximum: string): (text: string) => number {
  return (text) => {
    const [, digits, unit = ''] = /^(\d{1,15})([kmg]?)$/i.exec(text) ?? []
    const value = Number(digits) * 1024 ** ['', 'k', 'm', 'g'].indexOf(unit.toLowerCase())
    if (isInRange(value)) return value
    throw new UsageError(`must be a number of bytes from 1 to ${shownMaximum}; k, m or g behind it multiplies by 1024`)
  }
}

/** Accepts a text that a rule allows. */
export function word<T extends string>({ mustBe, isShape, isInRange }: Rule<T>): (text: string) => T {
  return (text) => {
    if (isShape(text) && isInRange(text)) return text
    throw new UsageError(`must be ${mustBe}`)
  }
}

/** Reads 1 or 0. */
export function bit(text: string): boolean {
  return word(oneOf(['0', '1']))(text) === '1'
}

/** Accepts a key. A refused one is shown only so far that its owner knows it: it may be all but the right one. */
export function checkKey(key: string): string {
  if (isApiKey(key)) return key
  const shown = key.length < 8 ? key : `${key.slice(0, 3)}…`
  throw new UsageError(`${JSON.stringify(shown)} (${key.length} characters) must be ${KEY_MUST_BE}`)
}

/** Accepts keys with commas between them. */
export function checkKeys(text: string): string[] {
  return text.split(',').map((key) => checkKey(key.trim()))
}

/** Reads the file of animals to begin with: a JSON array of NewPet. */
export function readSeed(path: string): NewPet[] {
  const mustHold = 'must hold a JSON array of NewPet'
  const input = parseJson(readText(path))
  if (!input.ok) throw new UsageError(`${mustHold}: ${describeIssues(input.issues)}`)
  if (!Array.isArray(input.value)) throw new UsageError(mustHold)
  const pets = validateNewPets(input.value)
  if (pets.ok) return pets.value
  throw new UsageError(`${mustHold}: ${describeIssues(pets.issues)}`)
}

function readText(path: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(fs.readFileSync(path))
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
