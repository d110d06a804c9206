import { isUtf8 } from 'node:buffer'
import type { Result } from './pet.ts'

// A number of 16 digits may lie beyond 2^53; one with a fraction or an exponent may be rounded to an integer. Other texts
// need no second parse. A match inside a string only costs one.
const MAY_ROUND = /\d{16}|\d[.eE]/

// Parses JSON like JSON.parse, but with exact integers: plain digits beyond ±(2^53-1) become a bigint, and a number that
// is not integral never becomes an integer. The issue of a text that is not JSON quotes nothing: it may be a secret.
export function parseJson(text: string): Result<unknown> {
  try {
    const value: unknown = JSON.parse(text)
    return { ok: true, value: MAY_ROUND.test(text) ? exactNumbers(text) : value }
  } catch (error) {
    return { ok: false, issues: [String(error).replace(/^SyntaxError: (?:".*" )?|, (?:\.\.\.)?".*$/gs, '')] }
  }
}

/** Parses bytes, which must be UTF-8, like {@link parseJson}. */
export function parseJsonBytes(bytes: Buffer): Result<unknown> {
  const text = bytes.toString()
  // Decoding puts U+FFFD in the place of invalid UTF-8.
  if (!text.includes('\ufffd') || isUtf8(bytes)) return parseJson(text)
  return { ok: false, issues: ['it is not valid UTF-8'] }
}

/** Numbers pass JSON.parse as strings behind a mark that no client can guess: Node 20 does not give their source. */
function exactNumbers(text: string): unknown {
  const mark = crypto.randomUUID()
  let isString = false
  const marked = text.replace(/\\.|"|-?\d[\d.eE+-]*/g, (token) => {
    if (token === '"') isString = !isString
    return isString || token === '"' ? token : `"${mark}${token}"`
  })
  const root: { value: unknown } = { value: JSON.parse(marked) }
  const objects: object[] = [root] // a list, because recursion over deeply nested text would overflow the stack
  for (let object = objects.pop(); object !== undefined; object = objects.pop()) {
    for (const [key, member] of Object.entries(object)) {
      if (typeof member === 'object' && member !== null) objects.push(member)
      if (typeof member !== 'string' || !member.startsWith(mark)) continue
      Object.assign(object, { [key]: exactNumber(member.slice(mark.length)) })
    }
  }
  return root.value
}

/** An integer as number or bigint; NaN for what only rounds to one; an inexact number for what no int64 can be. */
function exactNumber(source: string): number | bigint {
  const value = Number(source)
  const isSafe = Number.isSafeInteger(value)
  if (!/^-?\d+$/.test(source)) return isSafe && digitsOf(source) !== digitsOf(String(value)) ? Number.NaN : value
  return isSafe || source.length > '-9223372036854775808'.length ? value : BigInt(source)
}

/** The digits of a number without exponent, point, and the zeros at both ends. */
function digitsOf(number: string): string {
  return number.replace(/e.*|[-.]/gi, '').replace(/^0+|0+$/g, '')
}
