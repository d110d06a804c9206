import { nextId, petJson } from './pet.ts'
import type { Added, Awaitable, InitialPet, Int64, NewPet } from './store.ts'
import type { Page, PageQuery, PetStatus, Store } from './store.ts'

export const FULL: Added = { ok: false, reason: 'store_full' }
const OVERHEAD = 100 // bytes counted for a pet beyond its JSON

/** Keeps pets in memory. */
export class MemoryStore implements Store {
  readonly maxBytes: number
  pets: PetMap = new PetMap()

  /** @param maxBytes See {@link bytesOf}. */
  constructor(maxBytes: number) {
    this.maxBytes = maxBytes
  }

  get(id: Int64): string | undefined {
    return this.pets.get(id)
  }

  page(query: PageQuery): Page {
    return this.pets.page(query)
  }

  add(pet: NewPet): Awaitable<Added> {
    const id = nextId(this.pets.lastId)
    if (id === undefined) return FULL
    const json = petJson(id, pet)
    if (this.pets.bytes + bytesOf(json) > this.maxBytes) return FULL
    this.pets.keep(id, json, pet.status)
    return { ok: true, id, json }
  }

  reset(pets: readonly InitialPet[]): Awaitable<boolean> {
    const fresh = PetMap.of(pets)
    if (fresh.bytes > this.maxBytes) return false
    this.pets = fresh
    return true
  }

  isWritable(): Awaitable<boolean> {
    return true
  }

  close(): Awaitable<void> {}
}

/** The bytes that are counted for a pet. */
export function bytesOf(json: string): number {
  return Buffer.byteLength(json) + OVERHEAD
}

/** Pets of a status, in ascending order of id. */
interface List {
  readonly ids: Int64[]
  readonly json: string[]
}

/** Pets by id. They never change, so each is serialized once. */
export class PetMap {
  bytes = 0
  lastId: Int64 = 0 // the greatest that was ever given
  readonly #byId = new Map<Int64, string>()
  readonly #lists = {
    all: emptyList(),
    available: emptyList(),
    pending: emptyList(),
    sold: emptyList(),
  }

  /** @param floor The least value for `lastId`. */
  static of(pets: readonly InitialPet[], floor: Int64 = 0): PetMap {
    const map = new PetMap()
    for (const pet of pets) {
      const id = pet.id ?? Number(map.lastId) + 1
      map.keep(id, petJson(id, pet), pet.status)
    }
    if (map.lastId < floor) map.lastId = floor
    return map
  }

  get size(): number {
    return this.#byId.size
  }

  /** The JSON of all pets, in ascending order of id. */
  values(): Iterable<string> {
    return this.#byId.values()
  }

  get(id: Int64): string | undefined {
    return this.#byId.get(id)
  }

  page({ limit, after, status }: PageQuery): Page {
    const { ids, json } = this.#lists[status ?? 'all']
    const start = firstAbove(ids, after)
    const end = start + limit
    const next = end < ids.length ? ids[end - 1] : undefined
    return { json: `[${json.slice(start, end).join(',')}]`, next }
  }

  /** @param id Above all that were kept before. */
  keep(id: Int64, json: string, status: PetStatus | undefined): void {
    this.#byId.set(id, json)
    append(this.#lists.all, id, json)
    if (status) append(this.#lists[status], id, json)
    this.bytes += bytesOf(json)
    this.lastId = id
  }
}

function emptyList(): List {
  return { ids: [], json: [] }
}

function append(list: List, id: Int64, json: string): void {
  list.ids.push(id)
  list.json.push(json)
}

/** The index of the first of ascending ids that is greater than a value, or their count. */
function firstAbove(ids: readonly Int64[], value: Int64): number {
  let low = 0
  let high = ids.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((ids[middle] ?? 0) > value) high = middle
    else low = middle + 1
  }
  return low
}
