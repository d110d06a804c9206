import { type NewPet, type PetStatus, petJson } from './pet.ts'

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
export type Added = { ok: true; id: number; json: string } | { ok: false; reason: 'store_full' }

// V8 holds no more entries in one Map.
const MAX_PETS = 2 ** 24 - 1

/**
 * Keeps pets in memory, by id and in ascending order of it. A pet never changes and never goes: its JSON is written once,
 * when it is added, and a page only joins what is written, so that a page costs its own length and not the store's.
 */
export class PetStore {
  readonly #maxBytes: number
  readonly #pets = new Map<number, string>()
  readonly #ids: number[] = []
  readonly #idsByStatus: Record<PetStatus, number[]> = { available: [], pending: [], sold: [] }
  #bytes = 0
  #lastId = 0

  /** @param maxBytes How many bytes of pets' JSON (UTF-8) are kept; a pet beyond them is not added. */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  /** How many pets there are. */
  get size(): number {
    return this.#pets.size
  }

  /** The JSON of one pet. */
  get(id: number): string | undefined {
    return this.#pets.get(id)
  }

  /** One page of pets in ascending order of id. */
  page({ limit, after, status }: PageQuery): Page {
    const ids = status === undefined ? this.#ids : this.#idsByStatus[status]
    const start = firstAbove(ids, after)
    const shown = ids.slice(start, start + limit)
    const json = `[${shown.map((id) => this.#pets.get(id)).join(',')}]`
    const last = shown.at(-1)
    return last === undefined || start + limit >= ids.length ? { json } : { json, next: last }
  }

  /** Adds a pet under the next id, unless there is no room for it. */
  add(pet: NewPet): Added {
    const id = this.#lastId + 1
    const json = petJson(id, pet)
    const bytes = Buffer.byteLength(json)
    if (this.#bytes + bytes > this.#maxBytes || this.#pets.size >= MAX_PETS) return { ok: false, reason: 'store_full' }
    this.#pets.set(id, json)
    this.#ids.push(id)
    if (pet.status !== undefined) this.#idsByStatus[pet.status].push(id)
    this.#bytes += bytes
    this.#lastId = id
    return { ok: true, id, json }
  }
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
