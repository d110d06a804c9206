import type { Added, Awaitable, NewPet, Store } from '../types.ts'
import type { Seed } from './pet.ts'

const UNKNOWN: Added = { ok: false, reason: 'outcome_unknown' }

/** A store of the user's, filled on its first use. Only its reads, and `reset`, reject. */
export class OwnStore implements Store {
  readonly #store: Store
  readonly #initial: readonly Seed[]
  readonly #report: (failure: unknown) => void
  #isFilled: boolean
  #filling: Promise<void> | undefined
  #closing: Promise<void> | undefined

  readonly page: Store['page'] = (query) => this.#ask(() => this.#store.page(query))
  readonly get: Store['get'] = (id) => this.#ask(() => this.#store.get(id))
  readonly reset: Store['reset'] = (pets) => this.#ask(() => this.#store.reset(pets))

  constructor(store: Store, initial: readonly Seed[], report: (failure: unknown) => void) {
    this.#store = store
    this.#initial = initial
    this.#report = report
    this.#isFilled = initial.length === 0
  }

  async add(pet: NewPet): Promise<Added> {
    const added = await this.#ask(() => this.#store.add(pet)).catch(() => UNKNOWN)
    if (!added.ok && added.cause !== undefined) this.#report(added.cause)
    return added
  }

  isWritable(): Promise<boolean> {
    return this.#ask(() => this.#store.isWritable()).catch(() => false)
  }

  close(): Promise<void> {
    this.#closing ??= Promise.resolve().then(() => this.#store.close())
    return this.#closing
  }

  async #ask<T>(work: () => Awaitable<T>): Promise<T> {
    try {
      if (!this.#isFilled) await this.#fill()
      return await work()
    } catch (error) {
      this.#report(error)
      throw error
    }
  }

  /** Fills it if it is empty; only once at a time, and again after a failure. */
  #fill(): Promise<void> {
    this.#filling ??= this.#fillIfEmpty().finally(() => {
      this.#filling = undefined
    })
    return this.#filling
  }

  async #fillIfEmpty(): Promise<void> {
    const { json } = await this.#store.page({ limit: 1, after: 0 })
    const isEmpty = json === '[]'
    if (isEmpty && !(await this.#store.reset(this.#initial)))
      throw new Error('the initial pets do not fit')
    this.#isFilled = true
  }
}
