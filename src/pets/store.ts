import { MAX_ID, type NewPet, type PetStatus, petJson, type Seed } from './pet.ts'

export type Awaitable<T> = T | Promise<T>

/** At most `limit` pets with ids above `after`, of one status if one is given. */
export type PageQuery = Readonly<{ limit: number; after: number; status?: PetStatus }>

/** A page: its JSON array, and the id to continue after; undefined on the last page. */
export type Page = Readonly<{ json: string; next: number | undefined }>

/** The new pet's id and JSON, or the code of the error. */
export type Added =
  { ok: true; id: number; json: string } | { ok: false; reason: 'store_full' | 'storage_failed' }

export type Report = (level: 'info' | 'warn' | 'error', message: string) => void

/** Keeps pets under ascending ids, which it assigns. */
export interface Store {
  readonly size: number
  readonly bytes: number
  page(query: PageQuery): Page
  /** The JSON of a pet. */
  get(id: number): string | undefined
  /** The JSON of all pets, in ascending order of id. */
  values(): Iterable<string>
  /** Adds a pet under the next id. Never rejects. */
  add(pet: NewPet): Awaitable<Added>
  /** Replaces all pets, ids from 1 if they have none; false, with no change, if they do not fit. */
  reset(pets: readonly Seed[]): Awaitable<boolean>
  /** Whether pets can be added. Never rejects. */
  isWritable(): Awaitable<boolean>
  /** Resolves when everything acknowledged is stored. Nothing can be added afterwards. */
  close(): Awaitable<void>
}

/** A pet that may be kept under its id. */
export type Draft = Readonly<{ id: number; json: string; status: PetStatus | undefined }>

export const FULL: Added = { ok: false, reason: 'store_full' }
/** Bytes counted for a pet beyond its JSON: its entry in the Map and the lists. */
const PET_OVERHEAD = 100
// V8 keeps two bytes a character if one is beyond Latin-1. Long strings waste space on its heap.
const LONG = 1_000
const MAX_PAGE_BYTES = 16 * 2 ** 20
const PAGE_OVERHEAD = 500
const WARN_AT = 0.8

/** Keeps pets in memory. They are immutable, so each is serialized once. */
export class MemoryStore implements Store {
  readonly maxBytes: number
  #report: Report | undefined
  #ids: Record<PetStatus | 'all', number[]> = { all: [], available: [], pending: [], sold: [] }
  // The JSON of each of #ids.all; if it is long, as UTF-8 outside V8's heap. A Map takes twice the
  // time to fill.
  #pets: (string | Buffer)[] = []
  #bytes = 0
  #pages = new Map<PageQuery, Page>() // not the last one, so they never change
  #pageBytes = 0

  /** @param report Takes one warning when most of the bytes are taken. */
  constructor(maxBytes: number, report?: Report) {
    this.maxBytes = maxBytes
    this.#report = report
  }

  get size(): number {
    return this.#pets.length
  }

  get bytes(): number {
    return this.#bytes
  }

  /** The greatest id so far; 0 if there is none. */
  get lastId(): number {
    return this.#ids.all.at(-1) ?? 0
  }

  get(id: number): string | undefined {
    const { all } = this.#ids
    const at = all[id - 1] === id ? id - 1 : firstAbove(all, id - 1) // often there are no gaps
    return all[at] === id ? this.#pets[at]?.toString() : undefined
  }

  *values(): Generator<string> {
    for (const json of this.#pets) yield json.toString()
  }

  /** The same query must be the same object. */
  page(query: PageQuery): Page {
    const kept = this.#pages.get(query)
    if (kept !== undefined) return kept
    const { limit, after, status = 'all' } = query
    const ids = this.#ids[status]
    const first = firstAbove(ids, after)
    const pageIds = ids.slice(first, first + limit)
    const json = `[${pageIds.map((id) => this.get(id)).join(',')}]`
    if (first + limit >= ids.length) return { json, next: undefined }
    const page = { json, next: pageIds.at(-1) }
    this.#keepPage(query, page)
    return page
  }

  add(pet: NewPet): Added {
    const [draft] = this.draft([pet])
    return draft === undefined ? FULL : this.keep(draft)
  }

  /** Prepares pets to be kept; undefined for each that finds no room. */
  draft(pets: readonly Seed[]): (Draft | undefined)[] {
    const drafts: (Draft | undefined)[] = []
    let { lastId } = this
    let bytes = this.#bytes
    for (const pet of pets) {
      const draft = draftOf(pet.id ?? lastId + 1, pet)
      const total = bytes + bytesOf(draft)
      if (total > this.maxBytes || draft.id > MAX_ID) drafts.push(undefined)
      else {
        drafts.push(draft)
        lastId = draft.id
        bytes = total
      }
    }
    return drafts
  }

  /**
   * Appends a pet; does not check the limit.
   *
   * @throws Error if its id is not above all others.
   */
  keep(draft: Draft): Added {
    const { id, json, status } = draft
    const { lastId } = this
    if (id <= lastId) throw new Error(`the id ${id} must be above ${lastId}, the one before`)
    this.#pets.push(json.length > LONG ? Buffer.from(json) : json)
    this.#ids.all.push(id)
    if (status !== undefined) this.#ids[status].push(id)
    this.#bytes += bytesOf(draft)
    if (this.#bytes >= this.maxBytes * WARN_AT) this.#warn()
    return { ok: true, id, json }
  }

  reset(pets: readonly Seed[]): boolean {
    const fresh = new MemoryStore(this.maxBytes)
    for (const pet of pets) {
      if (!fresh.add(pet).ok) return false
    }
    this.#pets = fresh.#pets
    this.#ids = fresh.#ids
    this.#bytes = fresh.#bytes
    this.#pages = fresh.#pages
    this.#pageBytes = 0
    return true
  }

  isWritable(): boolean {
    return true
  }

  close(): void {}

  #keepPage(query: PageQuery, page: Page): void {
    const bytes = 2 * page.json.length + PAGE_OVERHEAD
    if (this.#pageBytes + bytes > Math.min(MAX_PAGE_BYTES, this.maxBytes / 8)) {
      this.#pages.clear()
      this.#pageBytes = 0
    }
    this.#pages.set(query, page)
    this.#pageBytes += bytes
  }

  #warn(): void {
    const limit = `${this.maxBytes} bytes of the store`
    this.#report?.('warn', `pets take 80 % of the ${limit}, beyond which creates get 507`)
    this.#report = undefined
  }
}

export function draftOf(id: number, pet: NewPet): Draft {
  return { id, json: petJson(id, pet), status: pet.status }
}

function bytesOf({ json }: Draft): number {
  return Buffer.byteLength(json) + PET_OVERHEAD
}

/** The index of the first of ascending numbers that is greater than a value, or their count. */
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
