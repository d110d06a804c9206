import type { NewPet, Pet } from '../pets/pet.ts'
import { type PetStore, readPet } from '../pets/store.ts'
import type { Faults } from './faults.ts'
import type { Journal } from './journal.ts'

/** What a test does with a petstore beside calling its operations: the same in process and over HTTP. */
export class Controls {
  readonly faults: Faults
  readonly journal: Journal
  readonly #store: PetStore
  readonly #seed: readonly NewPet[]
  readonly #onReset: () => void

  /** @param seed What the store comes back to by a reset. */
  constructor(store: PetStore, seed: readonly NewPet[], faults: Faults, journal: Journal, onReset: () => void) {
    this.#store = store
    this.#onReset = onReset
    this.#seed = seed
    this.faults = faults
    this.journal = journal
  }

  /** JSON of the array of all pets in ascending order of id. */
  get petsJson(): string {
    return `[${[...this.#store.values()].join(',')}]`
  }

  /** All pets in ascending order of id. */
  get pets(): Pet[] {
    return Array.from(this.#store.values(), readPet)
  }

  /** Adds pets until one cannot be added. Rejects then, with an error that names it: a RangeError for want of room. */
  async add(newPets: readonly NewPet[]): Promise<Pet[]> {
    const pets: Pet[] = []
    for (const pet of newPets) {
      const adding = this.#store.add(pet)
      const added = adding instanceof Promise ? await adding : adding // at once where it is done at once
      if (!added.ok) throw cannotAdd(pets.length + 1, newPets.length, added.reason)
      pets.push(readPet(added.json))
    }
    return pets
  }

  /** Begins anew: these pets or the seed, ids from 1 on, no requests, no faults. Rejects, nothing changed, where that cannot be. */
  async reset(newPets: readonly NewPet[] = this.#seed): Promise<void> {
    if (!(await this.#store.reset(newPets)))
      throw new RangeError(`Cannot reset to ${newPets.length} animals: they do not fit into the store`)
    this.#onReset()
    this.faults.clear()
    this.journal.clear()
  }
}

function cannotAdd(at: number, count: number, reason: 'store_full' | 'storage_failed'): Error {
  const what = `Cannot add animal ${at} of ${count}`
  if (reason === 'store_full') return new RangeError(`${what}: the store has no room for it`)
  return new Error(`${what}: it could not be written`)
}
