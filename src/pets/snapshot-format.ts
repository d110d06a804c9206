import { readSync } from 'node:fs'
import { crc32 } from 'node:zlib'
import { parseJsonBytes } from './json.ts'
import { PET_STATUSES } from './pet.ts'
import { type MemoryStore, readStoredPet, type StoredPet } from './store.ts'

const [NEWLINE = 0, ZERO = 0, TAB, RETURN, SPACE, QUOTE, COMMA, OPEN, BACKSLASH, CLOSE] = Buffer.from('\n0\t\r ",[\\]')
const OLD_FORM = '{"petstore":1,'
const IS_OLD = 'is of an older form; this makes it an array: jq .pets FILE > NEW_FILE'
// A line as this server writes it, without escapes and bigints, is kept as it stands; all others are parsed.
const SIMPLE_PET =
  /^\{"id":[1-9]\d{0,14},"name":"[^"\\\u0000-\u001f\ufffd]*","categoryId":(?:0|-?[1-9]\d{0,14})(?:,"status":"(?:available|pending|sold)")?\}$/
const HEAD_BYTES = '["9a3f01bc"'.length
// Small enough that a piece is garbage before the collector moves it to where objects live long.
const PIECE_CHARACTERS = 2 ** 16

/** An open file, bytes that were read from it, and where the first is that was not used yet, on which line. */
export type Unread = { readonly fd: number; bytes: Buffer; at: number; line: number }

/** A snapshot with these pets, in pieces. */
export function* snapshotPieces(pets: Iterable<string>): Generator<string> {
  let [piece, separator] = ['[', '\n']
  for (const pet of pets) {
    piece += separator + pet
    separator = ',\n'
    if (piece.length < PIECE_CHARACTERS) continue
    yield piece
    piece = ''
  }
  yield `${piece}\n]\n`
}

const headOf = (checked: string | Buffer) => `["${crc32(checked).toString(16).padStart(8, '0')}"`

/** A line of a journal: `["<crc32>",{…},{…}]`. */
export function journalLine(pets: readonly string[]): Buffer {
  const checked = `,${pets.join(',')}`
  return Buffer.from(`${headOf(checked)}${checked}]\n`)
}

// Adds the pets of a journal to those in memory; returns where its last whole line ends. A line that is not whole is
// passed over wherever it stands, as a power cut may leave zeros before old lines: the ids tell whether any is missing.
export function readJournal(file: Unread, memory: MemoryStore, lastId: number): number {
  let end = 0
  const keep = (pet: StoredPet) => {
    if (pet.id > lastId + 1) throw new Error(`pet ${lastId + 1} must come before pet ${pet.id}, and is missing`)
    if (pet.id > lastId) memory.keep(pet)
    else if (memory.get(pet.id) !== pet.json) throw new Error(`pet ${pet.id} is another one than before`)
    lastId = Math.max(lastId, pet.id)
  }
  for (let start = 0; readMore(file); start += file.at)
    for (let next = 0; (next = file.bytes.indexOf(NEWLINE, file.at)) >= 0; file.line++) {
      const pets = petsOf(file.bytes.subarray(file.at, next))
      pets?.forEach(keep)
      file.at = next + 1
      if (pets !== undefined) end = start + file.at
    }
  return end
}

/** The pets of a line of a journal; undefined if it is not whole. */
function petsOf(line: Buffer): StoredPet[] | undefined {
  const head = headOf(line.subarray(HEAD_BYTES, -1))
  if (line.toString('latin1', 0, HEAD_BYTES) !== head || line.at(-1) !== CLOSE) return undefined
  const input = parseJsonBytes(line)
  const pets: unknown[] = input.ok && Array.isArray(input.value) ? input.value.slice(1) : [undefined]
  return pets.map((value) => readStoredPet({ ok: true, value }))
}

/** Adds the pets of a JSON array, however spaced, to those in memory; returns the last id. */
export function readSnapshot(file: Unread, memory: MemoryStore): number {
  let lastId = 0
  const keep = (pet: StoredPet) => {
    if (pet.id <= lastId) throw new Error(`the id ${pet.id} must be above ${lastId}, the one before`)
    lastId = pet.id
    memory.keep(pet)
  }
  skipSpace(file)
  if (file.bytes.toString('latin1', file.at, file.at + OLD_FORM.length) === OLD_FORM) throw new Error(IS_OLD)
  if (file.bytes[file.at++] !== OPEN) throw new Error('must begin an array of pets')
  for (let isOpen = true; isOpen;) {
    for (let pet; (pet = readSimple(file)) !== undefined;) keep(pet)
    skipSpace(file)
    const item = nextItem(file)
    file.at += item.length
    isOpen = file.bytes[file.at++] === COMMA
    if (isOpen || item.length > 0 || lastId > 0) keep(readStoredPet(parseJsonBytes(item)))
    file.line += item.toString('latin1').split('\n').length - 1
  }
  skipSpace(file)
  if (file.at < file.bytes.length) throw new Error('must hold nothing behind the array')
  return lastId
}

/** Reads a pet on a line of this server, from the newline before it to the comma behind it. */
function readSimple(file: Unread): StoredPet | undefined {
  const { bytes, at } = file
  const end = bytes[at] === NEWLINE ? bytes.indexOf(NEWLINE, at + 1) - 1 : 0
  const json = bytes[end] === COMMA ? bytes.toString('utf8', at + 1, end) : ''
  if (!SIMPLE_PET.test(json)) return undefined
  let id = 0 // digit by digit, because substrings cost more
  for (let digit = at + '\n{"id":'.length; bytes[digit] !== COMMA; digit++) id = 10 * id + (bytes[digit] ?? 0) - ZERO
  file.at = end + 1
  file.line++
  const status = PET_STATUSES.find((one) => json.endsWith(one, json.length - '"}'.length))
  return { id, json, status, bytes: end - at - 1 }
}

function skipSpace(file: Unread): void {
  for (; file.at < file.bytes.length || readMore(file); file.at++) {
    const byte = file.bytes[file.at]
    if (byte === NEWLINE) file.line++
    else if (byte !== SPACE && byte !== RETURN && byte !== TAB) return
  }
}

/** The next item of the array, up to the comma or bracket behind it. */
function nextItem(file: Unread): Buffer {
  const { bytes, at: start } = file
  for (let at = start, depth = 0; at < bytes.length; at++) {
    const mark = String.fromCharCode(bytes[at] ?? 0)
    if (depth === 0 && (mark === ',' || mark === ']')) return bytes.subarray(start, at)
    if (mark === '{' || mark === '[') depth++
    if (mark === '}' || mark === ']') depth--
    if (mark === '"') for (at++; at < bytes.length && bytes[at] !== QUOTE; at++) if (bytes[at] === BACKSLASH) at++
  }
  if (readMore(file)) return nextItem(file)
  throw new Error('the array does not end')
}

/** Reads on; false at the end of the file. */
function readMore(file: Unread): boolean {
  const unused = file.bytes.subarray(file.at)
  const bytes = Buffer.allocUnsafe(2 * unused.length + 2 ** 20)
  unused.copy(bytes)
  const count = readSync(file.fd, bytes, { offset: unused.length })
  file.bytes = bytes.subarray(0, unused.length + count)
  file.at = 0
  return count > 0
}
