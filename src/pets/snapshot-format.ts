import { isUtf8 } from 'node:buffer'
import type { FileHandle } from 'node:fs/promises'
import { crc32 } from 'node:zlib'
import { messageOf } from '../guards.ts'
import { parseJson, parseJsonBytes } from './json.ts'
import { readPet } from './pet.ts'
import { type Draft, draftOf, type MemoryStore } from './store.ts'

const HEAD_BYTES = '["9a3f01bc"'.length
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
  const checked = `,${pets.join(',')}`
  return Buffer.from(`${headOf(checked)}${checked}]\n`)
}

function headOf(checked: string | Buffer): string {
  return `["${crc32(checked).toString(16).padStart(8, '0')}"`
}

/**
 * Adds the pets of a journal to those in memory; returns where its last complete line ends.
 * Skips incomplete lines: a power cut can leave zeros before old lines. Gaps in the ids reveal
 * missing pets.
 */
export async function readJournal(file: FileHandle, memory: MemoryStore): Promise<number> {
  let number = 0
  let at = 0
  let end = 0
  for await (const block of blocksOf(file)) {
    for (const line of block.toString('latin1').split('\n')) {
      number++
      at += line.length + 1
      const bytes = Buffer.from(line, 'latin1')
      const head = headOf(bytes.subarray(HEAD_BYTES, -1))
      if (!line.startsWith(head) || !line.endsWith(']')) continue
      naming(`line ${number}`, () => {
        const [, ...pets] = itemsIn(bytes)
        for (const pet of pets) keepNext(memory, readDraft(pet))
      })
      end = at
    }
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
  const other = await readLines(file, memory)
  if (other === undefined) return
  memory.reset([])
  const bytes = await file.readFile()
  const items = other === 1 ? itemsIn(bytes) : naming(`from line ${other} on`, () => itemsIn(bytes))
  for (const [index, item] of items.entries()) {
    naming(`item ${index + 1}`, () => memory.keep(readDraft(item)))
  }
}

/** Reads pets as this server writes them, one a line; returns the number of any other line. */
async function readLines(file: FileHandle, memory: MemoryStore): Promise<number | undefined> {
  let bytes = 0
  let number = 0
  let before: string | undefined // the last character of the line before
  for await (const block of blocksOf(file)) {
    bytes += block.length + 1
    for (const line of block.toString().split('\n')) {
      number++
      const last = line.at(-1)
      if (line.includes('\ufffd') && !isUtf8(block)) return number // decoded to U+FFFD
      if (before === '[' || before === ',') {
        const input = parseJson(last === ',' ? line.slice(0, -1) : line)
        if (!input.ok) return number
        naming(`line ${number}`, () => memory.keep(readDraft(input.value)))
      } else {
        const isBracket = number === 1 ? line === '[' : line === ']' && before === '}'
        if (!isBracket) return number
      }
      before = last
    }
  }
  const { size } = await file.stat()
  return before === ']' && bytes === size ? undefined : number + 1
}

function readDraft(item: unknown): Draft {
  const pet = readPet(item)
  return draftOf(pet.id, pet)
}

function itemsIn(bytes: Buffer): unknown[] {
  const input = parseJsonBytes(bytes)
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
