import type { Added, InitialPet, NewPet, Page, PageQuery, PetStatus, Store } from '../types.ts'
import { MAX_ID, PET_STATUSES, petJson } from './pet.ts'

export type Report = (level: 'info' | 'warn' | 'error', message: string) => void

/** A store of this process. `add` and `isWritable` never reject. Once closed, it is only read. */
export interface LocalStore extends Store {
  readonly size: number
  readonly bytes: number
  /** The JSON of all pets, in ascending order of id. */
  values(): Iterable<string>
}

/** Any store. A user's own has no size, bytes or values(). */
export type AnyStore = Store & Partial<LocalStore>

/** A pet with the id that it is to get, before it is kept. */
export type Draft = Readonly<{ id: number; json: string; status: PetStatus | undefined }>

export const FULL: Added = { ok: false, reason: 'store_full' }
/** Bytes counted for a pet beyond its JSON: its entry in the Map and the lists. */
const PET_OVERHEAD = 100
const MARK = ' ' // precedes UTF-8 in a Latin-1 string: the JSON of a pet begins with a brace
const LISTS = ['all', ...PET_STATUSES] as const
const MAX_CACHED_PAGES = 500
/** Characters of a page that is cached. */
const MAX_PAGE_LENGTH = 16 * 2 ** 10

/** Bytes that several stores take together, and their limit. */
export interface Budget {
  readonly maxBytes: number
  bytes: number
}

/**
 * A copy of JSON that takes as many bytes as are counted for it: V8 takes two for each character of
 * a string if one is beyond Latin-1. A small Buffer would take more than it holds.
 */
export function pack(json: string): string {
  const isAscii = Buffer.byteLength(json) === json.length
  return Buffer.from(isAscii ? json : MARK + json).toString('latin1')
}

export function unpack(packed: string): string {
  return packed.startsWith(MARK) ? Buffer.from(packed, 'latin1').toString('utf8', 1) : packed
}

/**
 * A JSON array of packed JSON. Unpacks all together: one by one, a page of large pets would take
 * three times as much memory for a moment.
 */
function unpackAll(packed: readonly string[]): string {
  if (!packed.some((one) => one.startsWith(MARK))) return `[${packed.join(',')}]`
  const utf8 = packed.map((one) => (one.startsWith(MARK) ? one.slice(MARK.length) : one))
  return Buffer.from(`[${utf8.join(',')}]`, 'latin1').toString()
}

interface Pets {
  readonly packed: Map<number, string> // by id
  readonly ids: Record<PetStatus | 'all', number[]> // ascending, as in the Map
  bytes: number // counted for them
}

function noPets(): Pets {
  return { packed: new Map(), ids: { all: [], available: [], pending: [], sold: [] }, bytes: 0 }
}

/** Copies the Map and the lists, and no pet. */
function copyOf({ packed, ids, bytes }: Pets): Pets {
  const copy = noPets()
  for (const name of LISTS) copy.ids[name] = ids[name].slice()
  return { ...copy, packed: new Map(packed), bytes }
}

/** @throws Error if its id is not above all others. */
function append({ packed, ids }: Pets, { id, json, status }: Draft): void {
  const lastId = ids.all.at(-1) ?? 0
  if (id <= lastId) throw new Error(`the id ${id} must be above ${lastId}, the one before`)
  packed.set(id, pack(json))
  ids.all.push(id)
  if (status) ids[status].push(id)
}

// Every store of a key, and every reset, begins with the same array: its pets are packed once.
const initial = new WeakMap<readonly InitialPet[], Pets>()

function packAll(pets: readonly InitialPet[]): Pets {
  const known = initial.get(pets)
  if (known) return known
  const all = noPets()
  for (const pet of pets) {
    const draft = draftOf(pet.id ?? (all.ids.all.at(-1) ?? 0) + 1, pet)
    append(all, draft)
    all.bytes += costOf(draft)
  }
  initial.set(pets, all)
  return all
}

/** Keeps pets in memory. They are immutable, so each is serialized once. */
export class MemoryStore implements LocalStore {
  #report: Report | undefined
  #pets: Pets = noPets()
  readonly #pages = new Map<string, Page>() // by query. Not the last page: it can change
  readonly #cachesPages: boolean
  readonly #budget: Budget

  /**
   * @param report Takes one warning when most of the bytes are taken.
   * @param shared A budget with other stores. It does not count pages, so none are cached.
   */
  constructor(maxBytes: number, report?: Report, shared?: Budget) {
    this.#report = report
    this.#cachesPages = shared === undefined
    this.#budget = shared ?? { maxBytes, bytes: 0 }
  }

  get size(): number {
    return this.#pets.packed.size
  }

  get bytes(): number {
    return this.#pets.bytes
  }

  get maxBytes(): number {
    return this.#budget.maxBytes
  }

  /** The greatest id so far; 0 if there is none. */
  get lastId(): number {
    return this.#pets.ids.all.at(-1) ?? 0
  }

  get(id: number): string | undefined {
    const packed = this.#pets.packed.get(id)
    return packed && unpack(packed)
  }

  *values(): Generator<string> {
    for (const packed of this.#pets.packed.values()) yield unpack(packed)
  }

  page(query: PageQuery): Page {
    const { limit, after, status = 'all' } = query
    const key = `${status} ${limit} ${after}`
    const cached = this.#pages.get(key)
    if (cached) return cached
    const { packed, ids: lists } = this.#pets
    const ids = lists[status]
    const first = firstAbove(ids, after)
    const pageIds = ids.slice(first, first + limit)
    const json = unpackAll(pageIds.map((id) => packed.get(id) ?? ''))
    if (first + limit >= ids.length) return { json, next: undefined }
    const page = { json, next: pageIds.at(-1) }
    if (this.#cachesPages && json.length <= MAX_PAGE_LENGTH) this.#cache(key, page)
    return page
  }

  #cache(key: string, page: Page): void {
    if (this.#pages.size === MAX_CACHED_PAGES) this.#pages.clear()
    this.#pages.set(key, page)
  }

  add(pet: NewPet): Added {
    const draft = draftOf(this.lastId + 1, pet)
    return this.hasRoom(draft) ? this.keep(draft) : FULL
  }

  /** Whether a pet fits in addition to others of `bytesBefore`, which are not kept yet. */
  hasRoom(draft: Draft, bytesBefore = 0): boolean {
    const bytes = this.#budget.bytes + bytesBefore + costOf(draft)
    return bytes <= this.maxBytes && draft.id <= MAX_ID
  }

  /**
   * Appends a pet; does not check the limit.
   *
   * @throws Error if its id is not above all others.
   */
  keep(draft: Draft): Added {
    append(this.#pets, draft)
    this.#grow(costOf(draft))
    return { ok: true, id: draft.id, json: draft.json }
  }

  reset(pets: readonly InitialPet[]): boolean {
    const fresh = packAll(pets)
    const withoutOld = this.#budget.bytes - this.bytes
    if (withoutOld + fresh.bytes > this.maxBytes) return false
    this.#grow(fresh.bytes - this.bytes)
    this.#pets = copyOf(fresh)
    this.#pages.clear()
    return true
  }

  isWritable(): boolean {
    return true
  }

  /** Gives its bytes back to a shared budget. Its pets can still be read. */
  close(): void {
    this.#grow(-this.bytes)
  }

  #grow(bytes: number): void {
    this.#pets.bytes += bytes
    this.#budget.bytes += bytes
    if (this.#budget.bytes < this.maxBytes * 0.8) return
    const limit = `80 % or more of the ${this.maxBytes} bytes of the store`
    this.#report?.('warn', `pets take ${limit}, beyond which creates get 507`)
    this.#report = undefined
  }
}

export function draftOf(id: number, pet: NewPet): Draft {
  return { id, json: petJson(id, pet), status: pet.status }
}

export function costOf({ json }: Draft): number {
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
