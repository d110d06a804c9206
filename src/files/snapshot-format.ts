import { isUtf8 } from 'node:buffer'
import type { FileHandle } from 'node:fs/promises'
import { crc32 } from 'node:zlib'
import { messageOf } from '../guards.ts'
import { type Parsed, parseJson, parseJsonBytes, valueOrThrow } from '../pets/json.ts'
import { isPetStatus, petOrThrow } from '../pets/pet.ts'
import { type Draft, draftOf, type MemoryStore } from '../pets/store.ts'

const CHECKSUM_LENGTH = '["9a3f01bc"'.length
const NEWLINE = 10
const COMMA = 44
// A pet exactly as petJson() writes it: its line is kept as it stands, without parsing. The parser
// takes the rest: escapes in a name, integers of 19 digits, any other layout.
const NAME = String.raw`"name":"[^"\\\0-\x1f]*"`
const CATEGORY_ID = String.raw`"categoryId":(?:0|-?[1-9]\d{0,17})`
const CANONICAL_PET = new RegExp(
  String.raw`^\{"id":([1-9]\d{0,14}),${NAME},${CATEGORY_ID}(?:,"status":"(\w+)")?\}$`,
)
const DAMAGED =
  'it is damaged, and not by a power cut, which can only tear the last one: restore the journal'
// Small enough that a piece dies in V8's young generation.
const PIECE_CHARACTERS = 2 ** 16

/** A JSON array with one pet per line, in pieces. */
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

/** Whether a write to the journal is one that a restart would read. */
export function endsLine(bytes: Buffer): boolean {
  return bytes.at(-1) === NEWLINE
}

/**
 * Adds the pets of a journal to those in memory. Returns where its last complete line ends, and
 * what follows it: the last write may be torn. A write is one line, so any other line that is not
 * as it was written is damaged.
 */
export async function readJournal(
  file: FileHandle,
  memory: MemoryStore,
): Promise<{ end: number; torn: Buffer }> {
  let number = 0
  let end = 0
  let torn: Buffer = Buffer.alloc(0)
  for await (const block of blocksOf(file)) {
    let start = 0 // of the line
    for (const line of linesOf(block)) {
      if (torn.length > 0) throw new Error(`line ${number}: ${DAMAGED}`)
      number++
      const bytes = block.subarray(start, line.end + 1)
      start += bytes.length
      if (!endsLine(bytes) || line.text !== withChecksum(line.text.slice(CHECKSUM_LENGTH, -1))) {
        torn = bytes
        continue
      }
      withPlace(`line ${number}`, () => {
        const [, ...pets] = itemsIn(parseJson(line.text))
        for (const pet of pets) keepNext(memory, readDraft(pet))
      })
      end += bytes.length
    }
  }
  return { end, torn }
}

function keepNext(memory: MemoryStore, pet: Draft): void {
  const next = memory.lastId + 1
  if (pet.id > next) throw new Error(`pet ${next} must come before pet ${pet.id}, and is missing`)
  if (pet.id === next) memory.keep(pet)
  else if (memory.get(pet.id) !== pet.json) throw new Error(`pet ${pet.id} differs from before`)
}

/** Adds the pets of a JSON array, in whatever layout, to an empty store. */
export async function readSnapshot(file: FileHandle, memory: MemoryStore): Promise<void> {
  const foreignLine = await readCanonical(file, memory)
  if (!foreignLine) return
  memory.reset([])
  const bytes = await file.readFile()
  withPlace(`from line ${foreignLine} on`, () => {
    for (const item of itemsIn(parseJsonBytes(bytes))) {
      withPlace(`in item ${memory.size + 1}`, () => memory.keep(readDraft(item)))
    }
  })
}

/** Adds pets up to a line that this server would not write, and returns its number, if any. */
async function readCanonical(file: FileHandle, memory: MemoryStore): Promise<number | undefined> {
  let number = 1
  let expected: '[' | 'pet' | ']' | undefined = '[' // undefined after the array
  for await (const block of blocksOf(file)) {
    const isText = isUtf8(block) // if not, each line is checked for the damage
    for (const { text, hasComma } of linesOf(block)) {
      if (!isText && text.includes('\ufffd')) return number
      if (expected === 'pet') {
        const isJson = withPlace(`line ${number}`, () => keepLine(memory, text))
        if (!isJson) return number
        expected = hasComma ? 'pet' : ']'
      } else {
        if (hasComma || text !== expected) return number
        expected = expected === '[' ? 'pet' : undefined
      }
      number++
    }
  }
  return expected === undefined ? undefined : number
}

/** The lines of a block, decoded one by one: a slice of the whole text would keep it in memory. */
function* linesOf(block: Buffer): Generator<{ text: string; hasComma: boolean; end: number }> {
  let start = 0
  while (start < block.length) {
    const newline = block.indexOf(NEWLINE, start)
    const end = newline < 0 ? block.length : newline
    const hasComma = block[end - 1] === COMMA
    yield { text: block.toString('utf8', start, hasComma ? end - 1 : end), hasComma, end }
    start = end + 1
  }
}

/** Adds the pet on a line; false if the line is not JSON. */
function keepLine(memory: MemoryStore, line: string): boolean {
  const [, id, status] = CANONICAL_PET.exec(line) ?? []
  if (id !== undefined && (status === undefined || isPetStatus(status))) {
    memory.keep({ id: Number(id), json: line, status })
    return true
  }
  const input = parseJson(line)
  if (input.ok) memory.keep(readDraft(input.value))
  return input.ok
}

function readDraft(item: unknown): Draft {
  const pet = petOrThrow(item)
  return draftOf(pet.id, pet)
}

function itemsIn(input: Parsed<unknown>): unknown[] {
  const items = valueOrThrow(input)
  if (!Array.isArray(items)) throw new Error('it must be a JSON array of pets')
  return items
}

/** Runs a task; its error names the place. */
function withPlace<T>(place: string, task: () => T): T {
  try {
    return task()
  } catch (error) {
    throw new Error(`${place}: ${messageOf(error)}`)
  }
}

/** A file in blocks of complete lines; what follows the last newline is a block, too. */
async function* blocksOf(file: FileHandle): AsyncGenerator<Buffer> {
  let parts: Buffer[] = []
  // A caller may stop early and read the file itself: this leaves it open, and its position at 0.
  const stream = file.createReadStream({ start: 0, autoClose: false })
  const chunks: AsyncIterable<Buffer> = stream.iterator({ destroyOnReturn: false })
  for await (const chunk of chunks) {
    const end = chunk.lastIndexOf(NEWLINE) + 1
    if (end > 0) {
      yield Buffer.concat([...parts, chunk.subarray(0, end)])
      parts = []
    }
    parts.push(chunk.subarray(end))
  }
  yield Buffer.concat(parts)
}
