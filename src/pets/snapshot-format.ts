import { isUtf8 } from 'node:buffer'
import type { FileHandle } from 'node:fs/promises'
import { crc32 } from 'node:zlib'
import { messageOf } from '../guards.ts'
import { type Parsed, parseJson, parseJsonBytes } from './json.ts'
import { isPetStatus, readPet } from './pet.ts'
import { type Draft, draftOf, type MemoryStore } from './store.ts'

const HEAD_LENGTH = '["9a3f01bc"'.length
const NEWLINE = 10
const COMMA = 44
// A pet exactly as petJson() writes it: its line is kept as it stands, without parsing. The parser
// takes the rest: escapes in a name, integers near 2^63, any other layout.
const NAME = String.raw`"name":"[^"\\\0-\x1f]*"`
const CATEGORY_ID = String.raw`"categoryId":(?:0|-?(?:[1-8]\d{0,18}|9\d{0,17}))`
const OWN_PET = new RegExp(
  String.raw`^\{"id":([1-9]\d{0,14}),${NAME},${CATEGORY_ID}(?:,"status":"(\w+)")?\}$`,
)
const BLOCK_BYTES = 2 ** 20
// Small enough that a piece is garbage before the collector moves it to where objects live long.
const PIECE_CHARACTERS = 2 ** 16

/** A snapshot with these pets, in pieces: an array with a pet a line. */
export function* snapshotPieces(pets: Iterable<string>): Generator<string> {
  let piece = '['
  let separator = '\n'
  for (const pet of pets) {
    piece += separator + pet
    separator = ',\n'
    if (piece.length < PIECE_CHARACTERS) continue
    yield piece
    piece = ''
  }
  yield `${piece}\n]\n`
}

/** A line of a journal: `["<crc32>",{…},{…}]`. */
export function journalLine(pets: readonly string[]): Buffer {
  return Buffer.from(`${withChecksum(`,${pets.join(',')}`)}\n`)
}

function withChecksum(checked: string): string {
  return `["${crc32(checked).toString(16).padStart(8, '0')}"${checked}]`
}

/**
 * Adds the pets of a journal to those in memory; returns where its last complete line ends.
 * Skips incomplete lines: a power cut can leave zeros before old lines. Gaps in the ids reveal
 * missing pets.
 */
export async function readJournal(file: FileHandle, memory: MemoryStore): Promise<number> {
  let number = 0
  let start = 0 // of the block
  let end = 0
  for await (const block of blocksOf(file)) {
    for (const line of linesOf(block)) {
      number++
      if (line.text !== withChecksum(line.text.slice(HEAD_LENGTH, -1))) continue
      naming(`line ${number}`, () => {
        const [, ...pets] = itemsIn(parseJson(line.text))
        for (const pet of pets) keepNext(memory, readDraft(pet))
      })
      end = start + line.end + 1
    }
    start += block.length + 1
  }
  return end
}

function keepNext(memory: MemoryStore, pet: Draft): void {
  const next = memory.lastId + 1
  if (pet.id > next) throw new Error(`pet ${next} must come before pet ${pet.id}, and is missing`)
  if (pet.id === next) memory.keep(pet)
  else if (memory.get(pet.id) !== pet.json) throw new Error(`pet ${pet.id} differs from before`)
}

/** Adds the pets of a JSON array, in whatever layout, to an empty store. */
export async function readSnapshot(file: FileHandle, memory: MemoryStore): Promise<void> {
  const { lines, isAll } = await readOwnLines(file, memory)
  if (isAll) return
  memory.reset([])
  const bytes = await file.readFile()
  const items = naming(`from line ${lines + 1} on`, () => itemsIn(parseJsonBytes(bytes)))
  for (const [index, item] of items.entries()) {
    naming(`item ${index + 1}`, () => memory.keep(readDraft(item)))
  }
}

/** Adds pets while each is on a line of its own, as this server writes them. */
async function readOwnLines(
  file: FileHandle,
  memory: MemoryStore,
): Promise<{ lines: number; isAll: boolean }> {
  let lines = 0
  let bytes = 0
  let expected: '[' | 'pet' | ']' | '' = '['
  for await (const block of blocksOf(file)) {
    bytes += block.length + 1
    const isText = isUtf8(block) // if not, which line is damaged?
    for (const { text, hasComma } of linesOf(block)) {
      if (!isText && text.includes('\ufffd')) return { lines, isAll: false }
      if (expected === 'pet') {
        const isJson = naming(`line ${lines + 1}`, () => keepLine(memory, text))
        if (!isJson) return { lines, isAll: false }
        expected = hasComma ? 'pet' : ']'
      } else {
        if (hasComma || text !== expected) return { lines, isAll: false }
        expected = expected === '[' ? 'pet' : ''
      }
      lines++
    }
  }
  const { size } = await file.stat()
  return { lines, isAll: expected === '' && bytes === size }
}

/** The lines of a block, decoded one by one: a slice of the whole text would keep it in memory. */
function* linesOf(block: Buffer): Generator<{ text: string; hasComma: boolean; end: number }> {
  let start = 0
  while (start <= block.length) {
    const newline = block.indexOf(NEWLINE, start)
    const end = newline < 0 ? block.length : newline
    const hasComma = block[end - 1] === COMMA
    yield { text: block.toString('utf8', start, hasComma ? end - 1 : end), hasComma, end }
    start = end + 1
  }
}

/** Adds the pet on a line; false if the line is not JSON. */
function keepLine(memory: MemoryStore, line: string): boolean {
  const [, id, status] = OWN_PET.exec(line) ?? []
  if (id !== undefined && (status === undefined || isPetStatus(status))) {
    memory.keep({ id: Number(id), json: line, status })
    return true
  }
  const input = parseJson(line)
  if (input.ok) memory.keep(readDraft(input.value))
  return input.ok
}

function readDraft(item: unknown): Draft {
  const pet = readPet(item)
  return draftOf(pet.id, pet)
}

function itemsIn(input: Parsed<unknown>): unknown[] {
  if (!input.ok) throw new Error(input.reason)
  if (!Array.isArray(input.value)) throw new Error('it must be a JSON array of pets')
  return input.value
}

/** Runs a task; its error names the place. */
function naming<T>(place: string, task: () => T): T {
  try {
    return task()
  } catch (error) {
    throw new Error(`${place}: ${messageOf(error)}`)
  }
}

/** A file in blocks of complete lines, without the last newline of each and what follows it. */
async function* blocksOf(file: FileHandle): AsyncGenerator<Buffer> {
  let at = 0
  let length = BLOCK_BYTES
  let isEnd = false
  while (!isEnd) {
    const { buffer, bytesRead } = await file.read(Buffer.allocUnsafe(length), 0, length, at)
    const end = buffer.subarray(0, bytesRead).lastIndexOf('\n')
    if (end >= 0) yield buffer.subarray(0, end)
    isEnd = end < 0 && bytesRead < length
    length = end < 0 ? 2 * length : BLOCK_BYTES // a line longer than a block
    at += end + 1
  }
}
