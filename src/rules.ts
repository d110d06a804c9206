import { inspect } from 'node:util'
import { codedError, messageOf } from './errors.ts'

/** What a value must be: an option, or a member of a fault. */
export interface Rule {
  readonly mustBe: string
  readonly accepts: (value: unknown) => boolean
  readonly isSecret?: true // messages do not show the value
  readonly read?: (text: string) => unknown // parses a flag or variable; by default it is the value
  readonly textMustBe?: string // `mustBe` for that text, if it differs
}

export const BOOLEAN: Rule = {
  mustBe: 'true or false',
  accepts: (value) => typeof value === 'boolean',
  read: (text) => {
    if (text === '1' || text === 'true') return true
    return text === '0' || text === 'false' ? false : undefined
  },
  textMustBe: '1 or true, 0 or false',
}

export const FUNCTION: Rule = {
  mustBe: 'a function',
  accepts: (value) => typeof value === 'function',
}

export function integer(minimum: number, maximum: number): Rule {
  return {
    mustBe: `an integer from ${minimum} to ${maximum}`,
    accepts: (value) => {
      return Number.isInteger(value) && minimum <= Number(value) && Number(value) <= maximum
    },
    read: toNumber,
  }
}

/** Decimal digits as a number; NaN for any other text. */
export function toNumber(text: string): number {
  return /^\d+$/.test(text) ? Number(text) : NaN
}

export function oneOf(...values: readonly unknown[]): Rule {
  return { mustBe: `one of ${values.join(', ')}`, accepts: (value) => values.includes(value) }
}

export function matching(mustBe: string, pattern: RegExp): Rule {
  return { mustBe, accepts: (value) => typeof value === 'string' && pattern.test(value) }
}

/** Whether a value is an object, and not an array. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Throws unless a value follows a rule. */
export function check(name: string, value: unknown, rule: Rule): void {
  if (rule.accepts(value)) return
  const shown = inspect(value, { depth: 0, breakLength: Infinity, compact: true }) // on one line
  throw invalidOption(name, shown, rule, rule.mustBe)
}

function invalidOption(name: string, value: string, { isSecret }: Rule, mustBe: string): Error {
  const shown = isSecret ? '' : ` ${value}`
  return codedError('invalid_option', `${name}${shown} must be ${mustBe}`)
}

/** Reads the text of a flag or variable. Throws unless its value follows the rule. */
export function readText(name: string, text: string, rule: Rule): unknown {
  const mustBe = rule.textMustBe ?? rule.mustBe
  let reason = ''
  try {
    const value = rule.read ? rule.read(text) : text
    if (rule.accepts(value)) return value
  } catch (error) {
    reason = `: ${messageOf(error)}`
  }
  throw invalidOption(name, JSON.stringify(text), rule, mustBe + reason)
}

/** Checks an object against the rules of its members; undefined counts as omitted. */
export function checkMembers(
  what: string,
  input: unknown,
  rules: Readonly<Record<string, Rule>>,
): Readonly<Record<string, unknown>> {
  // Its value is not shown: a key may be given in its place.
  if (!isRecord(input)) throw codedError('invalid_option', `${what} must be an object`)
  const known = new Map(Object.entries(rules))
  for (const [name, value] of Object.entries(input)) {
    const rule = known.get(name)
    if (!rule) {
      const names = [...known.keys()].join(', ')
      throw codedError('invalid_option', `${what} must not have ${name}: it may have ${names}`)
    }
    if (value !== undefined) check(name, value, rule)
  }
  return input
}
