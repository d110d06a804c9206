import { isUtf8 } from 'node:buffer'
import type { Result } from './pet.ts'

// Decoding puts it in the place of invalid UTF-8.
const REPLACEMENT = '\ufffd'

// A number of 16 digits may lie beyond 2^53; one with a fraction or an exponent may be rounded to an integer. Other texts need
// no second parse. A match inside a string only costs one.
const MAY_ROUND = /\d{16}|\d[.eE]/

const MAX_INT64_DIGITS = 19

/**
 * Parses JSON like `JSON.parse`, but with exact integers: plain digits beyond ±(2^53-1) become a bigint, and a number that is
 * not integral never becomes an integer. `JSON.parse` gives access to the source text only from Node 21 on.
 *
 * @returns The value, or the one issue of a text that is not one JSON value. It quotes nothing, because that may be a secret.
 */
export function parseJson(text: string): Result<unknown> {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    const message = String(error).replace(/^SyntaxError: (?:".*" )?|, (?:\.\.\.)?".*$/gs, '')
    return { ok: false, issues: [message] }
  }
  return { ok: true, value: MAY_ROUND.test(text) ? exactNumbers(text) : value }
}

/** Parses bytes, which must be UTF-8, like {@link parseJson}. */
export function parseJsonBytes(bytes: Buffer): Result<unknown> {
  const text = bytes.toString()
  if (!text.includes(REPLACEMENT) || isUtf8(bytes)) return parseJson(text)
  return { ok: false, issues: ['it is not valid UTF-8'] }
}

/** The value of a valid JSON text. Its numbers pass through JSON.parse as strings, behind a mark that no client can guess. */
function exactNumbers(text: string): unknown {
  const mark = crypto.randomUUID()
  const root: Record<string, unknown> = { value: JSON.parse(quoteNumbers(text, mark)) }
  const objects = [root] // a list, because recursion over deeply nested text would overflow the stack
  for (let object = objects.pop(); object !== undefined; object = objects.pop()) {
    for (const [key, member] of Object.entries(object)) {
      if (isObject(member)) objects.push(member)
      else if (typeof member === 'string' && member.startsWith(mark))
        object[key] = exactNumber(member.slice(mark.length))
    }
  }
  return root['value']
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}

/** Puts every number of a valid JSON text, outside its strings, in quotes and behind a mark. */
function quoteNumbers(text: string, mark: string): string {
  let isString = false
  return text.replace(/\\.|"|-?\d[\d.eE+-]*/g, (token) => {
    if (token === '"') isString = !isString
    return isString || token === '"' ? token : `"${mark}${token}"`
  })
}

/** An integer as number or bigint; NaN for what only rounds to an integer; an inexact number for what no int64 can be. */
function exactNumber(source: string): number | bigint {
  const value = Number(source)
  const isSafe = Number.isSafeInteger(value)
  if (!/^-?\d+$/.test(source)) return isSafe && digitsOf(source) !== digitsOf(String(value)) ? Number.NaN : value
  return isSafe || source.replace('-', '').length > MAX_INT64_DIGITS ? value : BigInt(source)
}

/** The digits of a number without exponent, point, and the zeros at both ends. */
function digitsOf(number: string): string {
  return number.replace(/e.*|[-.]/gi, '').replace(/^0+|0+$/g, '')
}
