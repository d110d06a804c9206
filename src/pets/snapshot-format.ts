import { parseJsonBytes } from './json.ts'
import { validateStoredPets } from './pet.ts'
import type { Pet } from './store.ts'

const PIECE_LENGTH = 2 ** 16 // characters: between two pieces, requests have their turn

/** A JSON array with one pet a line, in pieces. */
export function* piecesOf(json: Iterable<string>): Generator<string> {
  let piece = '['
  let separator = '\n'
  for (const pet of json) {
    piece += separator + pet
    separator = ',\n'
    if (piece.length < PIECE_LENGTH) continue
    yield piece
    piece = ''
  }
  yield `${piece}\n]\n`
}

const BYTE_ORDER_MARK = Buffer.from('\ufeff')

/** The pets in the bytes of FILE, in any layout. Throws an error that names the first wrong one. */
export function petsIn(path: string, bytes: Buffer): Pet[] {
  const hasMark = bytes.subarray(0, BYTE_ORDER_MARK.length).equals(BYTE_ORDER_MARK)
  const text = hasMark ? bytes.subarray(BYTE_ORDER_MARK.length) : bytes
  const json = parseJsonBytes(text)
  const pets = json.ok ? validateStoredPets(json.value) : json
  if (pets.ok) return pets.value
  const hasPlace = json.ok || json.reason.endsWith('end of JSON input')
  const place = hasPlace ? '' : `line ${lineOf(json.reason, text)}: `
  throw new Error(`${path} must be a JSON array of pets: ${place}${pets.reason}`)
}

/** The line that makes bytes no JSON: V8 does not always name the place. */
function lineOf(reason: string, bytes: Buffer): number {
  const lines = bytes.toString('latin1').split('\n')
  let [low, high] = [1, lines.length]
  while (low < high) {
    const middle = (low + high) >>> 1
    const json = parseJsonBytes(Buffer.from(lines.slice(0, middle).join('\n'), 'latin1'))
    if (!json.ok && json.reason === reason) high = middle
    else low = middle + 1
  }
  return low
}
