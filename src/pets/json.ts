import { isUtf8 } from 'node:buffer'
import { randomUUID } from 'node:crypto'
import { messageOf } from '../errors.ts'

/** A parsed value, or the reason why there is none. */
export type Parsed<T> = { ok: true; value: T } | { ok: false; reason: string }

export function failure(reason: string): Parsed<never> {
  return { ok: false, reason }
}

// What JSON.parse may round: 16 digits, a fraction, an exponent. Other texts need no second parse,
// which takes three times the memory. The digits must stand where a value begins, so that a name
// such as "Rex 3.5" causes none. A name such as "a,3.5" does, to no harm.
const MAY_ROUND = /(?:^|[:[,])\s*-?(?:\d{16}|\d+[.eE])/
const ESCAPE_OR_QUOTE_OR_MAY_ROUND = /\\.|"|-?(?:\d{16}|\d+[.eE])[\d.eE+-]*/g
// The messages of V8 that quote nothing of the text, which may be a secret.
const QUOTES_NOTHING = /^[^"]* (?:at position \d+|end of JSON input)/
const BYTE_ORDER_MARK = '\ufeff'
const MAX_INT64_LENGTH = '-9223372036854775808'.length

/**
 * Parses JSON like JSON.parse, but with exact integers: plain digits beyond ±(2^53-1) become a
 * bigint, and no fraction is rounded to an integer. The reason quotes nothing of the text.
 */
export function parseJson(text: string): Parsed<unknown> {
  try {
    const value: unknown = JSON.parse(text)
    return { ok: true, value: MAY_ROUND.test(text) ? exactNumbers(text) : value }
  } catch (error) {
    if (text.startsWith(BYTE_ORDER_MARK)) return failure('it must not begin with a byte order mark')
    const [reason = 'it is not valid JSON'] = QUOTES_NOTHING.exec(messageOf(error)) ?? []
    return failure(reason)
  }
}

/** Parses bytes, which must be UTF-8, like {@link parseJson}. */
export function parseJsonBytes(bytes: Buffer): Parsed<unknown> {
  if (isUtf8(bytes)) return parseJson(bytes.toString())
  return failure('it is not valid UTF-8')
}

/**
 * Numbers pass JSON.parse as strings with a secret mark, such as `"7c9e6679f3219007199254740993"`:
 * Node 20 does not give their source.
 */
function exactNumbers(text: string): unknown {
  const mark = randomUUID().slice(-12)
  let isInString = false
  const marked = text.replace(ESCAPE_OR_QUOTE_OR_MAY_ROUND, (token) => {
    if (token === '"') isInString = !isInString
    return isInString || token === '"' ? token : `"${mark}${token}"`
  })
  const root: Record<string, unknown> = { value: JSON.parse(marked) }
  // Grows in the loop: recursion over deeply nested text would overflow the stack.
  const records = [root]
  for (const record of records) {
    for (const [key, value] of Object.entries(record)) {
      if (hasMembers(value)) records.push(value)
      else if (typeof value === 'string' && value.startsWith(mark)) {
        record[key] = exactNumber(value.slice(mark.length))
      }
    }
  }
  return root['value']
}

function hasMembers(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}

/**
 * Plain digits: exact up to the length of an int64; no validator accepts longer ones as a number.
 * With a point or an exponent: NaN if only rounding made it an integer, such as 9007199254740990.9.
 */
function exactNumber(source: string): number | bigint {
  const value = Number(source)
  const isSafe = Number.isSafeInteger(value)
  const isPlain = /^-?\d+$/.test(source)
  if (isPlain) return isSafe || source.length > MAX_INT64_LENGTH ? value : BigInt(source)
  const isRounded = isSafe && significantDigits(source) !== significantDigits(String(value))
  return isRounded ? Number.NaN : value
}

/** The digits of a number without exponent, sign, point, and the zeros at both ends. */
function significantDigits(number: string): string {
  const digits = number.replace(/e.*|[-.]/gi, '')
  // Without the lookbehind, a run of inner zeros would take quadratic time.
  return digits.replace(/^0+|(?<!0)0+$/g, '')
}
