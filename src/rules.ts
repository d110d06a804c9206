import { util } from './builtins.ts'

/** What the value under a name must be. */
export interface Rule<T> {
  readonly mustBe: string
  /** Its shape: any other is a TypeError. */
  isShape(value: unknown): value is T
  /** Its range: any other is a RangeError. */
  isInRange(value: T): boolean
  /** The value is never shown. */
  readonly isSecret?: true
}

const isNumber = (value: unknown): value is number => typeof value === 'number'
const isText = (value: unknown): value is string => typeof value === 'string'
const isBoolean = (value: unknown): value is boolean => typeof value === 'boolean'

/** An integer within bounds. */
export function integer(minimum: number, maximum: number): Rule<number> {
  const isInRange = (value: number) => Number.isInteger(value) && value >= minimum && value <= maximum
  return { mustBe: `an integer from ${minimum} to ${maximum}`, isShape: isNumber, isInRange }
}

/** A text that matches. */
export function text(pattern: RegExp, mustBe: string): Rule<string> {
  return { mustBe, isShape: isText, isInRange: (value) => pattern.test(value) }
}

/** One of a few words. */
export function oneOf<const T extends string>(words: readonly T[]): Rule<T> {
  const isShape = (value: unknown): value is T => isText(value)
  return { mustBe: `one of ${words.join(', ')}`, isShape, isInRange: (value) => words.includes(value) }
}

/** True or false. */
export const BOOLEAN: Rule<boolean> = { mustBe: 'true or false', isShape: isBoolean, isInRange: () => true }

/** Something of a shape, whatever its range. */
export function shape<T>(mustBe: string, isShape: (value: unknown) => value is T): Rule<T> {
  return { mustBe, isShape, isInRange: () => true }
}

/** Rules by the names that they are for. */
export type Rules = Readonly<Record<string, Rule<unknown>>>

/**
 * Holds an object to its rules; members that are undefined count as left out.
 *
 * @param what What the object is, as messages call it.
 * @throws TypeError for what is no object, an unknown name and a wrong shape, RangeError for a value out of its range; the
 * message names it, the value and what it must be.
 */
export function checkMembers(what: string, input: unknown, rules: Rules): asserts input is object {
  if (typeof input !== 'object' || input === null) throw new TypeError(`${what} ${show(input)} must be an object`)
  for (const [name, value] of Object.entries(input)) {
    const rule = Object.hasOwn(rules, name) ? rules[name] : undefined
    if (rule === undefined) throw new TypeError(unknownName(what, name, Object.keys(rules)))
    if (value !== undefined) check(name, value, rule)
  }
}

/** Holds one value to its rule, as {@link checkMembers} does. */
export function check(name: string, value: unknown, rule: Rule<unknown>): void {
  const { mustBe, isShape, isInRange, isSecret } = rule
  const message = () => `${name} ${isSecret ? '' : `${show(value)} `}must be ${mustBe}`
  if (!isShape(value)) throw new TypeError(message())
  if (!isInRange(value)) throw new RangeError(message())
}

function unknownName(what: string, name: string, names: readonly string[]): string {
  return `${what} must not have ${show(name)}; known are ${names.join(', ')}`
}

/** A value as a message shows it. */
function show(value: unknown): string {
  return util.inspect(value, {
    depth: 0,
    maxStringLength: 100,
    maxArrayLength: 3,
    breakLength: Number.POSITIVE_INFINITY,
  })
}
