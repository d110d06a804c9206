/** A 64-bit signed integer: a number where that is exact, a bigint beyond ±(2^53-1). */
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

/** A pet as the service returns it: the contract's Animal (Pet). */
export interface Pet extends NewPet {
  /** Assigned by the service: 1, 2, 3 …; never reused. */
  id: number
}

/** A value, or a promise of it. */
export type Awaitable<T> = T | Promise<T>

/** Which pets to list: at most `limit`, 1 to 100, with ids above `after`, of at most 15 digits. */
export interface PageQuery {
  readonly limit: number
  readonly after: number
  /** Only pets of this status; any by default. */
  readonly status?: PetStatus
}

/** A page: its JSON array, and the id to continue after; undefined on the last page. */
export type Page = Readonly<{ json: string; next: number | undefined }>

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
 * `storage_failed`: it must fail soon. Its JSON is sent as it is: the members
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
   * It is in every page from then on. If it rejects, the pet may have been added.
   */
  add(pet: NewPet): Awaitable<Added>
  /** Replaces all pets, ids from 1 if they have none; false, with no change, if they do not fit. */
  reset(pets: readonly NewPet[] | readonly Pet[]): Awaitable<boolean>
  /** Whether pets can be added. */
  isWritable(): Awaitable<boolean>
  /** Resolves when everything acknowledged is stored. Nothing can be added afterwards. */
  close(): Awaitable<void>
}
