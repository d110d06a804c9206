import { inspect } from 'node:util'

/** What a value must be: an option, a setting, a member of a fault, a parameter of a control. */
export interface Rule {
  readonly mustBe: string
  readonly isType: (value: unknown) => boolean // otherwise a TypeError
  readonly isInRange: (value: unknown) => boolean // otherwise a RangeError
  readonly isSecret?: true // messages do not show the value
}

export type Rules<Name extends string> = Readonly<Record<Name, Rule>>

export const isString = (value: unknown): value is string => typeof value === 'string'

/** Whether a value is an object, and no array. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** A rule for what has no range: a value of another shape is a TypeError. */
export function shape(mustBe: string, isType: (value: unknown) => boolean): Rule {
  return { mustBe, isType, isInRange: () => true }
}

export const BOOLEAN: Rule = shape('true or false', (value) => typeof value === 'boolean')

export const STRING: Rule = shape('a string', isString)

export function integer(minimum: number, maximum: number, more = ''): Rule {
  return {
    mustBe: `an integer from ${minimum} to ${maximum}${more}`,
    isType: (value) => typeof value === 'number',
    isInRange: (value) =>
      Number.isInteger(value) && minimum <= Number(value) && Number(value) <= maximum,
  }
}

export function oneOf(...words: readonly string[]): Rule {
  return {
    mustBe: `one of ${words.join(', ')}`,
    isType: isString,
    isInRange: (value) => isString(value) && words.includes(value),
  }
}

export function matching(mustBe: string, pattern: RegExp): Rule {
  return {
    mustBe,
    isType: isString,
    isInRange: (value) => isString(value) && pattern.test(value),
  }
}

/** A rule that admits one more value. */
export function orElse(rule: Rule, other: unknown): Rule {
  return {
    mustBe: `${rule.mustBe}, or ${other}`,
    isType: (value) => value === other || rule.isType(value),
    isInRange: (value) => value === other || rule.isInRange(value),
  }
}

/** Throws unless a value follows a rule; the message shows `text` for it. */
export function check(name: string, value: unknown, rule: Rule, text = show(value)): void {
  const isType = rule.isType(value)
  if (isType && rule.isInRange(value)) return
  const given = value === undefined ? ' is required and' : ` ${text}`
  const message = `${name}${rule.isSecret ? '' : given} must be ${rule.mustBe}`
  throw isType ? invalidOption(new RangeError(message)) : misuse(message)
}

/** Checks an object against the rules of its members; undefined counts as omitted. */
export function checkMembers(
  what: string,
  input: unknown,
  rules: Rules<string>,
): Readonly<Record<string, unknown>> {
  // Its value is not shown: a key may be given in its place.
  if (!isRecord(input)) throw misuse(`${what} must be an object`)
  const names = Object.keys(rules)
  const unknown = Object.keys(input).find((name) => !names.includes(name))
  if (unknown !== undefined) {
    throw misuse(`${what} must not have ${show(unknown)}; known are ${names.join(', ')}`)
  }
  for (const [name, rule] of Object.entries(rules)) {
    if (input[name] !== undefined) check(name, input[name], rule)
  }
  return input
}

/** The error for an argument of the wrong type or shape. */
export function misuse(message: string): Error {
  return invalidOption(new TypeError(message))
}

function invalidOption(error: Error): Error {
  return Object.assign(error, { code: 'invalid_option' })
}

function show(value: unknown): string {
  return inspect(value, { depth: 0, breakLength: Infinity, compact: true }) // on one line
}
