import { codedError } from '../errors.ts'
import { petJson, withIds } from './pet.ts'
import type { InitialPet, Int64, ListQuery, NewPet, Pet, PetStatus, Store } from './store.ts'

const OVERHEAD = 100 // bytes counted for a pet beyond its JSON

/** Keeps pets in memory. They never change. */
export class MemoryStore implements Store {
  readonly #maxBytes: number
  #bytes = 0
  #lastId: Int64 // the greatest that was ever given
  #pets = new Map<Int64, Pet>()
  #lists = emptyLists()

  /**
   * @param maxBytes Each pet counts as its JSON in UTF-8, and 100 more.
   * @param lastId The ids begin above it.
   */
  constructor(maxBytes: number, lastId: Int64 = 0) {
    this.#maxBytes = maxBytes
    this.#lastId = lastId
  }

  /** All pets, by ascending id. */
  get all(): readonly Pet[] {
    return this.#lists.all
  }

  async list({ limit, after, status }: ListQuery): Promise<Pet[]> {
    const list = this.#lists[status ?? 'all']
    const start = firstAbove(list, after)
    return list.slice(start, start + limit)
  }

  async get(id: Int64): Promise<Pet | undefined> {
    return this.#pets.get(id)
  }

  async add(pets: readonly NewPet[]): Promise<Pet[]> {
    const added = withIds(pets, this.#lastId)
    this.checkRoom(bytesOf(added))
    this.append(added)
    return added
  }

  async reset(pets: readonly InitialPet[]): Promise<void> {
    this.restart(this.numbered(pets))
  }

  async close(): Promise<void> {}

  checkRoom(bytes: number): void {
    if (this.#bytes + bytes > this.#maxBytes) throw storeFull()
  }

  /** An empty store that goes on where this one ends: with its next ids, and its room. */
  successor(): MemoryStore {
    return new MemoryStore(this.#maxBytes - this.#bytes, this.#lastId)
  }

  /** Gives pets without ids 1, 2, 3 … Throws if they do not fit. */
  numbered(pets: readonly InitialPet[]): Pet[] {
    const numbered = pets.map(({ id, ...pet }, at) => ({ id: id ?? at + 1, ...pet }))
    if (bytesOf(numbered) > this.#maxBytes) throw storeFull()
    return numbered
  }

  /** Replaces all pets, and numbers from 1 or above them again. Does not check the room. */
  restart(pets: readonly Pet[]): void {
    this.#lastId = 0
    this.replace(pets)
  }

  /** Replaces all pets. Ids that were given stay used. Does not check the room. */
  replace(pets: readonly Pet[]): void {
    this.#bytes = 0
    this.#pets = new Map()
    this.#lists = emptyLists()
    this.append(pets)
  }

  /** Adds pets with ascending ids above its own. Does not check the room. */
  append(pets: readonly Pet[]): void {
    for (const pet of pets) {
      this.#pets.set(pet.id, pet)
      this.#lists.all.push(pet)
      if (pet.status) this.#lists[pet.status].push(pet)
      if (pet.id > this.#lastId) this.#lastId = pet.id
    }
    this.#bytes += bytesOf(pets)
  }
}

export function bytesOf(pets: readonly Pet[]): number {
  return pets.reduce((bytes, pet) => bytes + Buffer.byteLength(petJson(pet)) + OVERHEAD, 0)
}

function storeFull(): Error {
  return codedError('store_full', 'the store has no room for these pets')
}

function emptyLists(): Record<PetStatus | 'all', Pet[]> {
  return { all: [], available: [], pending: [], sold: [] }
}

/** The index of the first pet whose id is greater than a value, or how many there are. */
function firstAbove(list: readonly Pet[], value: Int64): number {
  let low = 0
  let high = list.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((list[middle]?.id ?? 0) > value) high = middle
    else low = middle + 1
  }
  return low
}
