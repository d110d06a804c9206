import { parseJsonBytes } from './json.ts'
import { PET_STATUSES } from './pet.ts'
import { readStoredPet, type StoredPet } from './store.ts'

const [NEWLINE, QUOTE, COMMA, BACKSLASH] = [0x0a, 0x22, 0x2c, 0x5c]
const OLD_FORM = '{"petstore":1,'
// A line as this server writes it, without escapes and bigints, is kept as it stands; all others are parsed.
const SIMPLE_PET =
  /^\{"id":[1-9]\d{0,14},"name":"[^"\\\u0000-\u001f\ufffd]*","categoryId":(?:0|-?[1-9]\d{0,14})(?:,"status":"(?:available|pending|sold)")?\}$/
const SIMPLE_ID = '{"id":'.length
const SIMPLE_ENDS = PET_STATUSES.map((status) => ({ status, end: `,"status":"${status}"}` }))
const MAX_SIMPLE_BYTES = 1_000

/**
 * Reads a JSON array of pets with ascending ids, however spaced; returns the last id.
 *
 * @throws Error with file, line and reason.
 */
export function readSnapshot(path: string, content: Buffer, onPet: (pet: StoredPet) => void): number {
  let at = skipSpace(content, 0)
  let lastId = 0
  const damage = (reason: string) => {
    const line = content.toString('latin1', 0, at).split('\n').length
    return new Error(`${path}: line ${line}: ${reason}`)
  }
  const keep = (pet: StoredPet | string) => {
    if (typeof pet === 'string') throw damage(pet)
    if (pet.id <= lastId) throw damage(`the id ${pet.id} must be above ${lastId}, the one before`)
    lastId = pet.id
    onPet(pet)
  }
  if (content.toString('latin1', at, at + OLD_FORM.length) === OLD_FORM) {
    throw damage(`is of an older form; this makes it an array: jq .pets '${path}' > new.json`)
  }
  if (content.toString('latin1', at, at + 1) !== '[') throw damage('must begin an array of pets')
  at++
  for (let isOpen = true; isOpen;) {
    const lineEnd = content.indexOf(NEWLINE, at + 1)
    const simple = readSimple(content, at, lineEnd)
    if (simple !== undefined) {
      at++ // the line of the pet
      keep(simple)
      at = lineEnd
      continue
    }
    at = skipSpace(content, at)
    const end = endOfItem(content, at)
    if (end === undefined) throw damage('the array does not end')
    isOpen = content[end] === COMMA
    if (isOpen || end > at || lastId > 0) keep(readStoredPet(parseJsonBytes(content.subarray(at, end))))
    at = end + 1
  }
  at = skipSpace(content, at)
  if (at < content.length) throw damage('must hold nothing behind the array')
  return lastId
}

/** The pet on a line of this server, between its newline and the next one. */
function readSimple(content: Buffer, at: number, lineEnd: number): StoredPet | undefined {
  const isLine = content[at] === NEWLINE && content[lineEnd - 1] === COMMA && lineEnd - at < MAX_SIMPLE_BYTES
  const json = isLine ? content.toString('utf8', at + 1, lineEnd - 1) : ''
  if (!SIMPLE_PET.test(json)) return undefined
  const status = SIMPLE_ENDS.find(({ end }) => json.endsWith(end))?.status
  return { id: Number.parseInt(json.slice(SIMPLE_ID), 10), json, status }
}

function skipSpace(content: Buffer, start: number): number {
  let at = start
  while (at < content.length && ' \t\r\n'.includes(String.fromCharCode(content[at] ?? 0))) at++
  return at
}

/** Where the comma or bracket behind an item is. */
function endOfItem(content: Buffer, start: number): number | undefined {
  for (let at = start, depth = 0; at < content.length; at++) {
    const mark = String.fromCharCode(content[at] ?? 0)
    if (depth === 0 && (mark === ',' || mark === ']')) return at
    if (mark === '{' || mark === '[') depth++
    if (mark === '}' || mark === ']') depth--
    if (mark === '"') for (at++; at < content.length && content[at] !== QUOTE; at++) if (content[at] === BACKSLASH) at++
  }
  return undefined
}
