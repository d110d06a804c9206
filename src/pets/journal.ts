import { crc32 } from 'node:zlib'
import { readDurably } from './files.ts'
import { parseJsonBytes } from './json.ts'
import { type MemoryStore, readStoredPet, type StoredPet } from './store.ts'

const [NEWLINE, BRACKET] = [0x0a, 0x5d]
const HEAD = /^\["([0-9a-f]{8})",\{/
/** Where the bytes begin that the checksum covers. */
const CHECKED = '["9a3f01bc"'.length

/** A line of a journal: `["<crc32>",{…},{…}]`. */
export function journalLine(pets: readonly string[]): Buffer {
  const checked = `,${pets.join(',')}`
  return Buffer.from(`["${crc32(checked).toString(16).padStart(8, '0')}"${checked}]\n`)
}

/**
 * Adds the pets of a journal to those in memory; returns where its last whole line ends. A line that is not whole is passed
 * over wherever it stands, as a power cut may leave zeros before old lines: the ids tell whether anything is missing.
 */
export async function readJournal(path: string, memory: MemoryStore, lastId: number): Promise<number> {
  let [start, end] = [0, 0]
  const keep = (pet: StoredPet) => {
    if (pet.id > lastId + 1) throw new Error(`pet ${lastId + 1} must come before pet ${pet.id}, and is missing`)
    if (pet.id > lastId) memory.keep(pet)
    else if (memory.get(pet.id) !== pet.json) throw new Error(`pet ${pet.id} is another one than before`)
    lastId = Math.max(lastId, pet.id)
  }
  await readDurably(path, (file) => {
    for (; file.readMore(); start += file.at) {
      for (let next = 0; (next = file.bytes.indexOf(NEWLINE, file.at)) >= 0; file.at = next + 1) {
        const pets = petsOf(file.bytes.subarray(file.at, next))
        pets?.forEach(keep)
        if (pets !== undefined) end = start + next + 1
        file.line++
      }
    }
  })
  return end
}

/** The pets of a line; undefined if it is not whole. */
function petsOf(line: Buffer): StoredPet[] | undefined {
  const [, checksum = ''] = HEAD.exec(line.toString('latin1', 0, CHECKED + 2)) ?? []
  const isWhole = line.at(-1) === BRACKET && crc32(line.subarray(CHECKED, -1)) === Number.parseInt(checksum, 16)
  if (!isWhole) return undefined
  const input = parseJsonBytes(line)
  const pets: unknown[] = input.ok && Array.isArray(input.value) ? input.value.slice(1) : [undefined]
  return pets.map((value) => readStoredPet({ ok: true, value }))
}
