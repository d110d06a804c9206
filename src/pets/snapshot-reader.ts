import type { Unread } from './files.ts'
import { parseJsonBytes } from './json.ts'
import { isPetStatus } from './pet.ts'
import { readStoredPet, type StoredPet } from './store.ts'

const NEWLINE = 0x0a
const [TAB, RETURN, SPACE, QUOTE, COMMA, BRACKET, BACKSLASH] = Buffer.from('\t\r ",[\\')
const OLD_FORM = '{"petstore":1,'
const IS_OLD = 'is of an older form; this makes it an array: jq .pets FILE > NEW_FILE'
// A line as this server writes it, without escapes and bigints, is kept as it stands; all others are parsed.
const SIMPLE_PET =
  /^\{"id":([1-9]\d{0,14}),"name":"[^"\\\u0000-\u001f\ufffd]*","categoryId":(?:0|-?[1-9]\d{0,14})(?:,"status":"(available|pending|sold)")?\}$/
const MAX_SIMPLE_BYTES = 1_000

/** Reads a JSON array of pets with ascending ids, however spaced; returns the last id. */
export function readSnapshot(file: Unread, onPet: (pet: StoredPet) => void): number {
  let lastId = 0
  const keep = (pet: StoredPet) => {
    if (pet.id <= lastId) throw new Error(`the id ${pet.id} must be above ${lastId}, the one before`)
    lastId = pet.id
    onPet(pet)
  }
  skipSpace(file)
  if (file.bytes.indexOf(OLD_FORM, file.at) === file.at) throw new Error(IS_OLD)
  if (file.bytes[file.at++] !== BRACKET) throw new Error('must begin an array of pets')
  for (let isOpen = true; isOpen;) {
    for (let pet; (pet = readSimple(file)) !== undefined;) keep(pet)
    skipSpace(file)
    const item = readItem(file)
    isOpen = file.bytes[file.at++] === COMMA
    if (isOpen || item.length > 0 || lastId > 0) keep(readStoredPet(parseJsonBytes(item)))
    file.line += item.toString('latin1').split('\n').length - 1
  }
  skipSpace(file)
  if (file.at < file.bytes.length) throw new Error('must hold nothing behind the array')
  return lastId
}

function skipSpace(file: Unread): void {
  for (; ; file.at++) {
    if (file.at === file.bytes.length) file.readMore()
    const byte = file.bytes[file.at]
    if (byte === NEWLINE) file.line++
    else if (byte !== SPACE && byte !== RETURN && byte !== TAB) return
  }
}

/** Reads a pet on a line of this server, from the newline before it to the comma behind it. */
function readSimple(file: Unread): StoredPet | undefined {
  if (file.bytes.length - file.at <= MAX_SIMPLE_BYTES) file.readMore()
  const { bytes, at } = file
  const end = bytes[at] === NEWLINE ? bytes.indexOf(NEWLINE, at + 1) - 1 : 0
  const isLine = end > at && end - at <= MAX_SIMPLE_BYTES && bytes[end] === COMMA
  const [json, id, status] = (isLine && SIMPLE_PET.exec(bytes.toString('utf8', at + 1, end))) || []
  if (json === undefined) return undefined
  file.at = end + 1
  file.line++
  return { id: Number(id), json, status: isPetStatus(status) ? status : undefined, bytes: end - at - 1 }
}

/** Reads an item of the array, up to the comma or bracket behind it. */
function readItem(file: Unread): Buffer {
  let end = endOfItem(file)
  for (; end === undefined; end = endOfItem(file)) if (!file.readMore()) throw new Error('the array does not end')
  const item = file.bytes.subarray(file.at, end)
  file.at = end
  return item
}

function endOfItem({ bytes, at: start }: Unread): number | undefined {
  for (let at = start, depth = 0; at < bytes.length; at++) {
    const mark = String.fromCharCode(bytes[at] ?? 0)
    if (depth === 0 && (mark === ',' || mark === ']')) return at
    if (mark === '{' || mark === '[') depth++
    if (mark === '}' || mark === ']') depth--
    if (mark === '"') for (at++; at < bytes.length && bytes[at] !== QUOTE; at++) if (bytes[at] === BACKSLASH) at++
  }
  return undefined
}
