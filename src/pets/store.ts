/** A 64-bit signed integer: a number up to ±(2^53-1), a bigint beyond. */
export type Int64 = number | bigint

/** Availability of a pet: the contract's enumeration PetStatus. */
export type PetStatus = 'available' | 'pending' | 'sold'

/** What a client sends to add a pet: the contract's NewPet. */
export interface NewPet {
  /** Any string, even an empty one; kept code unit for code unit. */
  name: string
  /** Identifier of the category the pet belongs to, from -2^63 to 2^63-1. */
  categoryId: Int64
  /** When omitted it stays omitted: the contract gives no initial status. */
  status?: PetStatus | undefined
}

/** A pet as the service returns it: the contract's Animal. */
export interface Pet extends NewPet {
  /** Assigned by the service: 1, 2, 3 …; never reused. */
  id: Int64
}

/** A pet that a store begins with. */
export interface InitialPet extends NewPet {
  /** From 1 to 2^63-1; the store assigns 1, 2, 3 … by default. */
  id?: Int64 | undefined
}

/** A value, or a promise of it. */
export type Awaitable<T> = T | Promise<T>

/** Which pets to list. */
export interface PageQuery {
  /** At most this many, 1 to 100. */
  readonly limit: number
  /** Only ids above this one; 0 or more. */
  readonly after: Int64
  /** Only pets of this status; any by default. */
  readonly status?: PetStatus
}

/** A page of pets. */
export interface Page {
  /** The JSON array of its pets. */
  readonly json: string
  /** The id to continue after; undefined on the last page. */
  readonly next: Int64 | undefined
}

/** The new pet's id and JSON, or why it was not added; with `outcome_unknown` it may have been. */
export type Added =
  | { ok: true; id: Int64; json: string }
  | {
      ok: false
      reason: 'store_full' | 'storage_failed' | 'outcome_unknown'
      /** For the log: an error. */
      cause?: unknown
    }

/**
 * Keeps pets under ascending ids, which it assigns. Each function may return a promise. Where one
 * throws or rejects, the request gets 503 `storage_failed`.
 *
 * Its JSON is sent as it is: the members id, name, categoryId and status in this order, integers
 * exact, without spaces.
 * @example await startPetstore({ store: openStore(process.env.DATABASE_URL) })
 */
export interface Store {
  /** In ascending order of id. An empty page is `[]`. */
  page(query: PageQuery): Awaitable<Page>
  /** The JSON of a pet; undefined if there is none. */
  get(id: Int64): Awaitable<string | undefined>
  /**
   * Adds a pet under an id that was never used and is above all that a page has shown; there may be
   * gaps. If it throws or rejects, the pet may have been added: 503 `outcome_unknown`.
   */
  add(pet: NewPet): Awaitable<Added>
  /** Replaces all pets, ids from 1 if they have none; false, with no change, if they do not fit. */
  reset(pets: readonly InitialPet[]): Awaitable<boolean>
  /** Whether pets can be added. */
  isWritable(): Awaitable<boolean>
  /** Resolves when everything acknowledged is stored. Nothing is asked of it afterwards. */
  close(): Awaitable<void>
}
