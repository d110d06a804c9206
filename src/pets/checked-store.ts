import { withStorageCode } from '../errors.ts'
import { checkPet, checkPets } from './pet.ts'
import type { Int64, Pet, Store } from './store.ts'

/** Wraps a user's store: checks that it returns pets, and gives its errors a code. */
export function checkedStore(store: Store): Store {
  return {
    list: (query) => withStorageCode(async () => petsOf(await store.list(query), query.after)),
    get: (id) =>
      withStorageCode(async () => {
        const pet: unknown = await store.get(id)
        return pet === undefined || pet === null ? undefined : checkPet(pet)
      }),
    add: (pets) =>
      withStorageCode(async () => {
        const added = await petsOf(await store.add(pets), 0)
        if (added.length === pets.length) return added
        throw new Error(`the store added ${added.length} pets in place of ${pets.length}`)
      }),
    reset: (pets) => withStorageCode(() => store.reset(pets)),
    close: () => withStorageCode(() => store.close()),
  }
}

/** Checks what a store has returned as its pets. */
async function petsOf(found: unknown, after: Int64): Promise<Pet[]> {
  // A store may forget Promise.all. Nobody else waits for a promise that rejects: it would end us.
  const pets: unknown = Array.isArray(found) ? await Promise.all(found) : found
  return checkPets(pets, after)
}
