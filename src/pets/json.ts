import { isUtf8 } from 'node:buffer'
import { randomUUID } from 'node:crypto'
import { codedError, messageOf } from '../errors.ts'

// A string, or an integer of 16 digits and more: JSON.parse may round it.
const STRING_OR_LONG = /"(?:[^"\\]+|\\.)*"|(?<![\d.eE+-])-?\d{16,}(?![\d.eE])/g
// Node 20 has neither the source text of a number nor JSON.rawJSON. So a long integer passes
// through JSON.parse and JSON.stringify as a string that begins with this mark.
const MARK = randomUUID()
const MARKED = new RegExp(`"${MARK}(-?\\d+)"`, 'g')
const MAX_INT64_LENGTH = '-9223372036854775808'.length
// The messages of V8 that quote nothing of the text, which may be a secret.
const QUOTES_NOTHING = /^[^"]* (?:at position \d+|end of JSON input)/

/**
 * Reads JSON, integers beyond ±(2^53-1) as a bigint.
 *
 * @throws TypeError `invalid_json`, which quotes nothing of the JSON.
 */
export function readJson(json: Buffer): unknown {
  if (!isUtf8(json)) throw codedError('invalid_json', 'it is not valid UTF-8')
  const text = json.toString()
  try {
    const value: unknown = JSON.parse(text)
    return /\d{16}/.test(text) ? JSON.parse(text.replace(STRING_OR_LONG, mark), unmark) : value
  } catch (error) {
    const [reason = 'it is not valid JSON'] = QUOTES_NOTHING.exec(messageOf(error)) ?? []
    throw codedError('invalid_json', reason)
  }
}

function mark(token: string): string {
  return token.startsWith('"') ? token : `"${MARK}${token}"`
}

function unmark(_: string, value: unknown): unknown {
  if (typeof value !== 'string' || !value.startsWith(MARK)) return value
  const digits = value.slice(MARK.length)
  const number = Number(digits)
  return Number.isSafeInteger(number) || digits.length > MAX_INT64_LENGTH ? number : BigInt(digits)
}

/** Writes JSON, a bigint as an integer. */
export function writeJson(value: unknown): string {
  try {
    return JSON.stringify(value)
  } catch {
    return JSON.stringify(value, markBigint).replace(MARKED, '$1')
  }
}

function markBigint(_: string, value: unknown): unknown {
  return typeof value === 'bigint' ? `${MARK}${value}` : value
}
