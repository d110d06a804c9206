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

/** A pet as the service returns it: the contract's Pet. */
export interface Pet extends NewPet {
  /** Assigned by the service: 1, 2, 3 …; never reused. */
  id: number
}

/** A pet that a store begins with: all of them have ids, in ascending order, or none. */
export interface InitialPet extends NewPet {
  id?: number | undefined
}

/** A value, or a promise of it. */
export type Awaitable<T> = T | Promise<T>

/** Which pets to list. */
export interface PageQuery {
  /** At most this many, 1 to 100. */
  readonly limit: number
  /** Only ids above this one, which has at most 15 digits. */
  readonly after: number
  /** Only pets of this status; any by default. */
  readonly status?: PetStatus
}

/** A page of pets. */
export interface Page {
  /** The JSON array of its pets. */
  readonly json: string
  /** The id to continue after; undefined on the last page. */
  readonly next: number | undefined
}

/** The new pet's id and JSON, or why it was not added; with `outcome_unknown` it may have been. */
export type Added =
  | { ok: true; id: number; json: string }
  | {
      ok: false
      reason: 'store_full' | 'storage_failed' | 'outcome_unknown'
      /** For the log: an error. */
      cause?: unknown
    }

/**
 * Keeps pets under ascending ids, which it assigns. If it throws or rejects, requests get 503
 * `storage_failed`; they wait until it settles. Its JSON is sent as it is: the members
 * id, name, categoryId and status in this order, integers exact, no spaces.
 * @example await startPetstore({ store: openStore(process.env.DATABASE_URL) })
 */
export interface Store {
  /** In ascending order of id. An empty page is `[]`. */
  page(query: PageQuery): Awaitable<Page>
  /** The JSON of a pet; undefined if there is none. */
  get(id: number): Awaitable<string | undefined>
  /**
   * Adds a pet under an id of at most 15 digits, never used and above all that a page has shown.
   * Every later page that covers the id has it. If it rejects, the pet may have been added.
   */
  add(pet: NewPet): Awaitable<Added>
  /** Replaces all pets, ids from 1 if they have none; false, with no change, if they do not fit. */
  reset(pets: readonly InitialPet[]): Awaitable<boolean>
  /** Whether pets can be added. */
  isWritable(): Awaitable<boolean>
  /** Resolves when everything acknowledged is stored. Nothing can be added afterwards. */
  close(): Awaitable<void>
}
