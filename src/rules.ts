import { inspect } from 'node:util'
import { isRecord } from './guards.ts'
import type { Delay, PetstoreErrorCode } from './types.ts'

/** What a value must be. */
export interface Rule<T> {
  readonly mustBe: string
  readonly isSecret?: true // see secret()
  isType(value: unknown): value is T // else a TypeError
  isInRange(value: T): boolean // else a RangeError
  detail?(value: T): string // which part is out of range, for the message
}

export function rule<T>(
  mustBe: string,
  isType: (value: unknown) => value is T,
  isInRange: (value: T) => boolean = () => true,
): Rule<T> {
  return { mustBe, isType, isInRange }
}

export const isString = (value: unknown): value is string => typeof value === 'string'
export const isNumber = (value: unknown): value is number => typeof value === 'number'

export function integer(minimum: number, maximum: number, more = ''): Rule<number> {
  return rule(
    `an integer from ${minimum} to ${maximum}${more}`,
    isNumber,
    (value) => Number.isInteger(value) && minimum <= value && value <= maximum,
  )
}

/** @param unlisted Words that it takes, too. */
export function oneOf<const T extends string>(
  words: readonly T[],
  unlisted: readonly T[] = [],
): Rule<T> {
  const all = [...words, ...unlisted]
  // Any string, so that another word is a RangeError.
  const isType = (value: unknown): value is T => isString(value)
  return rule(`one of ${words.join(', ')}`, isType, (value) => all.includes(value))
}

/** A rule that admits one more value. */
export function orElse<T>({ mustBe, isType, isInRange }: Rule<T>, other: unknown): Rule<unknown> {
  return {
    mustBe: `${mustBe}, or ${other}`,
    isType: (value): value is unknown => value === other || isType(value),
    isInRange: (value) => !isType(value) || isInRange(value),
  }
}

/** A rule whose messages do not show the value: it is a secret, or one may be in its place. */
export function secret<T>(rule: Rule<T>): Rule<T> {
  return { ...rule, isSecret: true }
}

export function matching(mustBe: string, pattern: RegExp): Rule<string> {
  return rule(mustBe, isString, (value) => pattern.test(value))
}

const MILLISECONDS = integer(0, 600_000, ' ms')

export const DELAY: Rule<Delay> = rule(
  `${MILLISECONDS.mustBe}, or a range: [MIN, MAX], as a setting MIN-MAX`,
  (value): value is Delay =>
    isNumber(value) || (Array.isArray(value) && value.length === 2 && value.every(isNumber)),
  (value) => {
    const [min, max] = isNumber(value) ? [value, value] : value
    return MILLISECONDS.isInRange(min) && MILLISECONDS.isInRange(max) && min <= max
  },
)

export const BOOLEAN: Rule<boolean> = rule('true or false', (value) => typeof value === 'boolean')

/** Checks an object against the rules of its members; undefined counts as omitted. */
export function checkMembers(
  what: string,
  input: unknown,
  rules: Readonly<Record<string, Rule<unknown>>>,
): asserts input is object {
  // Its kind is shown, and not its value: a key may be given in its place.
  const kind = Object.prototype.toString.call(input).slice(8, -1)
  if (!isRecord(input)) throw misuse(`${what} must be an object (got ${kind})`)
  const names = Object.keys(rules)
  const unknown = Object.keys(input).find((name) => !names.includes(name))
  if (unknown !== undefined) {
    const hint = hintFor(unknown, names)
    throw misuse(`${what} must not have ${show(unknown)}${hint}; known are ${names.join(', ')}`)
  }
  for (const [name, rule] of Object.entries(rules)) {
    if (input[name] !== undefined) check(name, input[name], rule)
  }
}

/**
 * The end of a message: the known word that contains the unknown one, or is contained in it, or
 * begins like it and is at most two letters away.
 */
export function hintFor(unknown: string, known: readonly string[]): string {
  const plain = (word: string): string => word.replace(/[-_]/g, '').toLowerCase()
  const wrong = plain(unknown)
  const longer = known.find((word) => plain(word).includes(wrong))
  // The last: PORT, the first, is in a mistyped PETSTORE_CONTROL_PORTS, too.
  const shorter = known.findLast((word) => wrong.includes(plain(word)))
  const alike = known.filter((word) => plain(word)[0] === wrong[0])
  const near = alike.find((word) => isNear(plain(word), wrong))
  const meant = longer ?? shorter ?? near
  return meant ? ` (did you mean ${meant}?)` : ''
}

/** Whether two words are at most two letters apart. Takes no time for a long one. */
function isNear(word: string, wrong: string): boolean {
  return Math.abs(word.length - wrong.length) <= 2 && editDistance(word, wrong) <= 2
}

/** How many letters must be added, left out or replaced (Levenshtein, 1966). */
function editDistance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, at) => at)
  for (const [index, letter] of [...from].entries()) {
    const next = [index + 1]
    for (const [at, other] of [...to].entries()) {
      const replaced = (row[at] ?? 0) + (letter === other ? 0 : 1)
      next.push(Math.min(replaced, (row[at + 1] ?? 0) + 1, (next[at] ?? 0) + 1))
    }
    row = next
  }
  return row.at(-1) ?? 0
}

/** Throws unless a value follows a rule; the error shows `text` for it. */
export function check<T>(
  name: string,
  value: unknown,
  rule: Rule<T>,
  text?: string,
): asserts value is T {
  const { mustBe, isSecret, isType, isInRange, detail } = rule
  if (isType(value) && isInRange(value)) return
  const given = value === undefined ? 'is required and' : (text ?? show(value))
  const shown = isSecret ? name : `${name} ${given}`
  const message = `${shown} must be ${mustBe}`
  if (!isType(value)) throw misuse(message)
  const part = detail ? ` (${detail(value)})` : ''
  throw withCode('invalid_option', new RangeError(message + part))
}

/** The error for an argument of the wrong shape. */
export function misuse(message: string): TypeError {
  return withCode('invalid_option', new TypeError(message))
}

/** Gives an error the code by which callers know it. */
export function withCode<E extends Error>(code: PetstoreErrorCode, error: E): E {
  return Object.assign(error, { code })
}

export function show(value: unknown): string {
  return inspect(value, { depth: 0, breakLength: Infinity, compact: true }) // on one line
}
