import { buffer } from '../builtins.ts'
import type { Result } from './pet.ts'

// What decoding puts in the place of what is not UTF-8.
const REPLACEMENT = '\ufffd'
const QUOTE = 0x22
const BACKSLASH = 0x5c

// A number of 16 digits may lie beyond 2^53; one with a fraction or an exponent may round to an integer that it is not.
// A text with neither, outside strings or in them, is JSON.parse's alone and costs one scan more.
const MAY_ROUND = /\d{16}|\d[.eE]/

const NUMBER = /^-?(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/
const MAX_INT64_DIGITS = 19

/**
 * Reads JSON as `JSON.parse` does, but exact in its integers: one of plain digits beyond ±(2^53-1) comes as a bigint, and
 * a number whose value is not an integer never comes as one. `JSON.parse` alone loses such digits, and its access to the
 * source text exists only from Node 21 on.
 *
 * @returns The value, or the one issue of a text that is not one JSON value; it quotes nothing, for that may be a secret.
 */
export function parseJson(text: string): Result<unknown> {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    const message = String(error).replace(/^SyntaxError: (?:".*" )?|, (?:\.\.\.)?".*$/gs, '')
    return { ok: false, issues: [{ path: '', code: 'syntax', message }] }
  }
  return { ok: true, value: MAY_ROUND.test(text) ? exactNumbers(text) : value }
}

/** Reads the bytes of a body as {@link parseJson} reads a text. */
export function parseJsonBytes(bytes: Buffer): Result<unknown> {
  const text = bytes.toString()
  if (!text.includes(REPLACEMENT) || buffer.isUtf8(bytes)) return parseJson(text)
  return { ok: false, issues: [{ path: '', code: 'syntax', message: 'it is not valid UTF-8' }] }
}

/** The value of a valid JSON text; its numbers pass through JSON.parse as strings, behind a mark that no client can know. */
function exactNumbers(text: string): unknown {
  const mark = crypto.randomUUID()
  const root: Record<string, unknown> = { value: JSON.parse(quoteNumbers(text, mark)) }
  const objects = [root] // a list and not a recursion, which a deeply nested text would let overflow the stack
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

/** Puts every number of a valid JSON text, outside its strings, into quotes and behind a mark. */
function quoteNumbers(text: string, mark: string): string {
  let quoted = ''
  let copied = 0
  for (let at = 0; at < text.length; at++) {
    if (text.charCodeAt(at) === QUOTE) {
      at = endOfString(text, at)
    } else if (isNumeric(text, at) && text[at] !== 'e') {
      const start = at
      while (isNumeric(text, at + 1)) at++
      quoted += `${text.slice(copied, start)}"${mark}${text.slice(start, at + 1)}"`
      copied = at + 1
    }
  }
  return quoted + text.slice(copied)
}

function endOfString(text: string, start: number): number {
  let at = start + 1
  while (text.charCodeAt(at) !== QUOTE) at += text.charCodeAt(at) === BACKSLASH ? 2 : 1
  return at
}

/** Outside strings only numbers and the words true, false and null hold these; of them, only the words' e stands first. */
function isNumeric(text: string, at: number): boolean {
  return at < text.length && '0123456789+-.eE'.includes(text.charAt(at))
}

/** An integer as number or bigint; NaN for what is not an integer; a number that is not exact for what no int64 can be. */
function exactNumber(source: string): number | bigint {
  const value = Number(source)
  const [, integer = '', fraction = '', exponent] = NUMBER.exec(source) ?? []
  if (fraction === '' && exponent === undefined) {
    return Number.isSafeInteger(value) || integer.length > MAX_INT64_DIGITS ? value : BigInt(source)
  }
  const digits = integer + fraction
  let significant = digits.length
  while (significant > 0 && digits[significant - 1] === '0') significant--
  const trailingZeros = digits.length - significant
  const isInteger = significant === 0 || Number(exponent ?? 0) + trailingZeros >= fraction.length
  return isInteger ? value : Number.NaN
}
