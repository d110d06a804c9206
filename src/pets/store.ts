import { parseJson } from './json.ts'
import { type NewPet, type Pet, type PetStatus, petJson, validateNewPet } from './pet.ts'

/** Which pets a page shows: at most `limit`, with ids above `after`, of one status if one is named. */
export interface PageQuery {
  limit: number
  after: number
  status?: PetStatus
}

/** A page: its JSON array, and the id after which the next page begins, absent on the last page. */
export interface Page {
  json: string
  next?: number
}

/** What became of an addition: the new pet's id and JSON, or why it was not added. */
export type Added = { ok: true; id: number; json: string } | { ok: false; reason: 'store_full' | 'storage_failed' }

/** Keeps pets; they are only ever added. */
export interface PetStore {
  /** How many pets there are. */
  readonly size: number
  /** The JSON of one pet. */
  get(id: number): string | undefined
  /** One page of pets in ascending order of id. */
  page(query: PageQuery): Page
  /** The JSON of all pets in ascending order of id. */
  values(): IterableIterator<string>
  /** Adds a pet under the next id. Never rejects. */
  add(pet: NewPet): Added | Promise<Added>
  /** Keeps these pets and no others, ids from 1 on; false, with nothing changed, where they do not all fit. */
  reset(pets: readonly NewPet[]): boolean | Promise<boolean>
  /** Whether pets can be added; a store that could not write tries whether it can again. Never rejects. */
  isWritable(): boolean | Promise<boolean>
  /** Resolves when all that was acknowledged is where it is kept. Nothing is added after that. */
  close(): Promise<void>
}

/** A pet as a store keeps it. */
export interface StoredPet {
  readonly id: number
  readonly json: string
  /** The length of the JSON in UTF-8. */
  readonly bytes: number
  readonly status: PetStatus | undefined
}

/** A pet that is to be added. */
export interface Draft extends StoredPet {
  /** Bytes of JSON (UTF-8) that the store would hold with it. */
  readonly total: number
}

/** The greatest id that is given: 15 digits, which every JSON reader takes exactly. */
export const MAX_ID: number = 10 ** 15 - 1

// V8 holds no more entries in one Map.
const MAX_PETS = 2 ** 24 - 1

/**
 * Keeps pets in memory, by id and in ascending order of it. A pet never changes and never goes: its JSON is written once,
 * when it is added, and a page only joins what is written, so that a page costs its own length and not the store's.
 */
export class MemoryStore implements PetStore {
  readonly #maxBytes: number
  #pets = new Map<number, string>()
  #ids: number[] = []
  #idsByStatus: Record<PetStatus, number[]> = { available: [], pending: [], sold: [] }
  #bytes = 0
  #lastId = 0

  /** @param maxBytes How many bytes of pets' JSON (UTF-8) are kept; a pet beyond them is not added. */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  get size(): number {
    return this.#pets.size
  }

  values(): IterableIterator<string> {
    return this.#pets.values()
  }

  get(id: number): string | undefined {
    return this.#pets.get(id)
  }

  page({ limit, after, status }: PageQuery): Page {
    const ids = status === undefined ? this.#ids : this.#idsByStatus[status]
    const start = firstAbove(ids, after)
    const shown = ids.slice(start, start + limit)
    const json = `[${shown.map((id) => this.#pets.get(id)).join(',')}]`
    const last = shown.at(-1)
    return last === undefined || start + limit >= ids.length ? { json } : { json, next: last }
  }

  add(pet: NewPet): Added {
    const draft = this.draft(pet)
    if (draft === undefined) return { ok: false, reason: 'store_full' }
    this.keep(draft)
    return { ok: true, id: draft.id, json: draft.json }
  }

  /** Drafts a pet behind all that are here and, where one is given, behind another draft; undefined where there is no room. */
  draft(pet: NewPet, before?: Draft): Draft | undefined {
    const id = (before?.id ?? this.#lastId) + 1
    const json = petJson(id, pet)
    const bytes = Buffer.byteLength(json)
    const total = (before?.total ?? this.#bytes) + bytes
    const size = this.#pets.size + id - this.#lastId
    if (total > this.#maxBytes || size > MAX_PETS || id > MAX_ID) return undefined
    return { id, json, bytes, status: pet.status, total }
  }

  /** Adds a pet that has its id already, above all that are here, whether or not there is room. */
  keep({ id, json, bytes, status }: StoredPet): void {
    this.#pets.set(id, json)
    this.#ids.push(id)
    if (status !== undefined) this.#idsByStatus[status].push(id)
    this.#bytes += bytes
    this.#lastId = id
  }

  reset(pets: readonly NewPet[]): boolean {
    const fresh = new MemoryStore(this.#maxBytes)
    if (!pets.every((pet) => fresh.add(pet).ok)) return false
    this.#pets = fresh.#pets
    this.#ids = fresh.#ids
    this.#idsByStatus = fresh.#idsByStatus
    this.#bytes = fresh.#bytes
    this.#lastId = fresh.#lastId
    return true
  }

  isWritable(): boolean {
    return true
  }

  async close(): Promise<void> {}
}

/** The pet of a JSON that a store gave. */
export function readPet(json: string): Pet {
  const input = parseJson(json)
  const pet = input.ok ? validateNewPet(input.value) : input
  if (!pet.ok) throw new Error(`Cannot read a pet: ${json}`)
  return { id: Number.parseInt(json.slice('{"id":'.length), 10), ...pet.value }
}

/** The index of the first of the ascending ids that is greater than `after`. */
function firstAbove(ids: readonly number[], after: number): number {
  let low = 0
  let high = ids.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((ids[middle] ?? 0) > after) high = middle
    else low = middle + 1
  }
  return low
}
