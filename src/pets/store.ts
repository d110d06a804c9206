import { parseJson } from './json.ts'
import { Numbers, Texts } from './lists.ts'
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

type Indexes = Record<PetStatus, Numbers>

/**
 * Keeps pets in memory, in ascending order of id. A pet never changes and never goes: its JSON is written once, when it is added,
 * and a page only joins what is written, so that a page costs its own length and not the store's.
 */
export class MemoryStore implements PetStore {
  readonly #maxBytes: number
  /** How many pets have the ids from 1 on: all, unless a file was edited. The ids of the others are listed. */
  #counted = 0
  #listed = new Numbers()
  #texts = new Texts()
  /** The indexes of the pets of each status. */
  #indexes: Indexes = { available: new Numbers(), pending: new Numbers(), sold: new Numbers() }
  #bytes = 0

  /** @param maxBytes How many bytes of pets' JSON (UTF-8) are kept; a pet beyond them is not added. */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  get size(): number {
    return this.#texts.length
  }

  *values(): IterableIterator<string> {
    for (let index = 0; index < this.size; index++) yield this.#texts.at(index)
  }

  get(id: number): string | undefined {
    const index = this.#firstAbove(id - 1)
    return index < this.size && this.#idAt(index) === id ? this.#texts.at(index) : undefined
  }

  page({ limit, after, status }: PageQuery): Page {
    const first = this.#firstAbove(after)
    return status === undefined ? this.#pageOfAll(first, limit) : this.#pageOf(this.#indexes[status], first, limit)
  }

  #pageOfAll(first: number, limit: number): Page {
    const end = Math.min(first + limit, this.size)
    const json = `[${this.#texts.join(first, end)}]`
    return end === this.size ? { json } : { json, next: this.#idAt(end - 1) }
  }

  #pageOf(indexes: Numbers, first: number, limit: number): Page {
    const start = indexes.firstAbove(first - 1)
    const end = Math.min(start + limit, indexes.length)
    const texts: string[] = []
    for (let at = start; at < end; at++) texts.push(this.#texts.at(indexes.at(at)))
    const json = `[${texts.join(',')}]`
    return end === indexes.length ? { json } : { json, next: this.#idAt(indexes.at(end - 1)) }
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
    if (total > this.#maxBytes || id > MAX_ID) return undefined
    return { id, json, bytes, status: pet.status, total }
  }

  /** Adds a pet that has its id already, above all that are here, whether or not there is room. */
  keep({ id, json, bytes, status }: StoredPet): void {
    const indexes = status && this.#indexes[status]
    const isCounted = id === this.size + 1
    indexes?.makeRoom() // whatever finds no memory does so before anything has changed
    if (!isCounted) this.#listed.makeRoom()
    this.#texts.push(json, bytes)
    indexes?.push(this.size - 1)
    if (isCounted) this.#counted = id
    else this.#listed.push(id)
    this.#bytes += bytes
  }

  reset(pets: readonly NewPet[]): boolean {
    const fresh = new MemoryStore(this.#maxBytes)
    if (!pets.every((pet) => fresh.add(pet).ok)) return false
    this.#counted = fresh.#counted
    this.#listed = fresh.#listed
    this.#texts = fresh.#texts
    this.#indexes = fresh.#indexes
    this.#bytes = fresh.#bytes
    return true
  }

  get #lastId(): number {
    return this.size === 0 ? 0 : this.#idAt(this.size - 1)
  }

  #idAt(index: number): number {
    return index < this.#counted ? index + 1 : this.#listed.at(index - this.#counted)
  }

  /** The index of the first pet whose id is greater; the size where none is. */
  #firstAbove(id: number): number {
    return id < this.#counted ? Math.max(Math.floor(id), 0) : this.#counted + this.#listed.firstAbove(id)
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
