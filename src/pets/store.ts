import { type NewPet, type Pet, type PetStatus, petJson, type Result, validateNewPet } from './pet.ts'

/** At most `limit` pets with ids above `after`, of one status if one is given. */
export type PageQuery = { limit: number; after: number; status?: PetStatus }

/** A page: its JSON array, and the id to continue after; undefined on the last page. */
export type Page = { readonly json: string; readonly next: number | undefined }

/** The outcome of an addition: the new pet's id and JSON, or the error code that says why it was not added. */
export type Added = { ok: true; id: number; json: string } | { ok: false; reason: 'store_full' | 'storage_failed' }

export type Report = (level: 'info' | 'warn' | 'error', message: string) => void

export interface StoredPet {
  readonly id: number
  readonly json: string
  readonly bytes: number // of its JSON in UTF-8
  readonly status: PetStatus | undefined
}

/** A pet that may be added next, and the bytes that the store would take with it. */
export type Draft = StoredPet & { readonly total: number }

/** The greatest id that is assigned: 15 digits, which every JSON reader takes exactly. */
export const MAX_ID: number = 10 ** 15 - 1
/** Bytes counted for a pet beyond its JSON: its entry in the Map and the lists. */
const PET_OVERHEAD = 100
// V8 keeps two bytes a character if one is beyond Latin-1, and wastes a third of a page of its heap on long strings.
const LONG = 1_000
const MAX_PAGE_BYTES = 16 * 2 ** 20
const PAGE_OVERHEAD = 500

/** Keeps pets in memory. Pets are immutable, so each is serialized once; a page costs O(page size). */
export class MemoryStore {
  readonly maxBytes: number
  #report: Report | undefined
  #pets = new Map<number, string | Buffer>() // JSON by id; if it is long, as UTF-8 outside V8's heap
  #ids: Record<PetStatus | 'all', number[]> = { all: [], available: [], pending: [], sold: [] } // in ascending order
  #bytes = 0
  #pages = new Map<string, Page>() // those that are not the last one: they never change
  #pageBytes = 0

  /** @param report Takes a warning, once, when four fifths of the bytes are taken. */
  constructor(maxBytes: number, report?: Report) {
    this.maxBytes = maxBytes
    this.#report = report
  }

  get size(): number {
    return this.#pets.size
  }

  get(id: number): string | undefined {
    return this.#pets.get(id)?.toString()
  }

  *values(): IterableIterator<string> {
    for (const json of this.#pets.values()) yield json.toString() // insertion order, which is that of the ids
  }

  page({ limit, after, status }: PageQuery): Page {
    const key = `${limit} ${after} ${status}`
    const kept = this.#pages.get(key)
    if (kept !== undefined) return kept
    const ids = this.#ids[status ?? 'all']
    const first = firstAbove(ids, after)
    const pageIds = ids.slice(first, first + limit)
    const json = `[${pageIds.map((id) => this.#pets.get(id)).join(',')}]`
    if (first + limit >= ids.length) return { json, next: undefined }
    const bytes = 2 * json.length + PAGE_OVERHEAD
    if (this.#pageBytes + bytes > Math.min(MAX_PAGE_BYTES, this.maxBytes / 8)) {
      this.#pages.clear()
      this.#pageBytes = 0
    }
    this.#pageBytes += bytes
    const page = { json, next: pageIds.at(-1) }
    this.#pages.set(key, page)
    return page
  }

  /** Adds a pet under the next id. Never rejects. */
  add(pet: NewPet): Added | Promise<Added> {
    const draft = this.draft(pet)
    if (draft === undefined) return { ok: false, reason: 'store_full' }
    this.keep(draft)
    return { ok: true, id: draft.id, json: draft.json }
  }

  /** Prepares a pet to follow the stored ones or, if given, another draft; undefined if there is no room. */
  draft(pet: NewPet, before?: Draft): Draft | undefined {
    const id = (before?.id ?? this.#ids.all.at(-1) ?? 0) + 1
    const { json, bytes, status } = storedPet(id, pet)
    const total = (before?.total ?? this.#bytes) + bytes + PET_OVERHEAD
    return total > this.maxBytes || id > MAX_ID ? undefined : { id, json, bytes, status, total }
  }

  /** Adds a pet that has its id already, above all others, whether or not there is room. */
  keep({ id, json, status, bytes }: StoredPet): void {
    this.#pets.set(id, json.length > LONG ? Buffer.from(json) : json)
    this.#ids.all.push(id)
    if (status !== undefined) this.#ids[status].push(id)
    this.#bytes += bytes + PET_OVERHEAD
    if (this.#bytes < this.maxBytes * 0.8) return
    this.#report?.('warn', `pets take 80 % of the ${this.maxBytes} bytes of the store, beyond which creates get 507`)
    this.#report = undefined
  }

  /** Replaces all pets, ids from 1 on; false, with nothing changed, if they do not fit. */
  reset(pets: readonly NewPet[]): boolean | Promise<boolean> {
    const fresh = new MemoryStore(this.maxBytes)
    for (const pet of pets) {
      const draft = fresh.draft(pet)
      if (draft === undefined) return false
      fresh.keep(draft)
    }
    this.#pets = fresh.#pets
    this.#ids = fresh.#ids
    this.#bytes = fresh.#bytes
    this.#pages = fresh.#pages
    this.#pageBytes = 0
    return true
  }

  /** Whether pets can be added. Never rejects. */
  isWritable(): boolean | Promise<boolean> {
    return true
  }

  /** Resolves when all that was acknowledged is where it is kept. Nothing can be added afterwards. */
  async close(): Promise<void> {}
}

/** The index of the first of some ascending numbers that is greater than a value; their count if none is. */
function firstAbove(numbers: readonly number[], value: number): number {
  let low = 0
  let high = numbers.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((numbers[middle] ?? 0) > value) high = middle
    else low = middle + 1
  }
  return low
}

function storedPet(id: number, pet: NewPet): StoredPet {
  const json = petJson(id, pet)
  return { id, json, status: pet.status, bytes: Buffer.byteLength(json) }
}

export function readStoredPet(input: Result<unknown>): StoredPet {
  const pet = readPet(input)
  return storedPet(pet.id, pet)
}

/** @throws Error that says what is wrong with the pet. */
export function readPet(input: Result<unknown>): Pet {
  const pet = input.ok ? validateNewPet(input.value) : input
  if (!pet.ok) throw new Error(pet.issues.join('; '))
  const { id }: { id?: unknown } = Object(input.ok && input.value)
  if (typeof id === 'number' && Number.isInteger(id) && id >= 1 && id <= MAX_ID) return { id, ...pet.value }
  throw new Error(`id must be an integer from 1 to ${MAX_ID}`)
}
