import { withStorageCode } from '../errors.ts'
import { checkPet, checkPets } from './pet.ts'
import type { Store } from './store.ts'

/** Wraps a user's store: checks that it returns pets, and gives its errors a code. */
export function checkedStore(store: Store): Store {
  return {
    list: (query) =>
      withStorageCode(async () => {
        const pets = await Promise.all(await store.list(query)) // one that rejects ends nothing
        return checkPets(pets, query.after)
      }),
    get: (id) =>
      withStorageCode(async () => {
        const pet: unknown = await store.get(id)
        return pet === undefined || pet === null ? undefined : checkPet(pet)
      }),
    add: (pets) =>
      withStorageCode(async () => {
        const added = checkPets(await Promise.all(await store.add(pets)), 0)
        if (added.length === pets.length) return added
        throw new Error(`the store added ${added.length} pets in place of ${pets.length}`)
      }),
    reset: (pets) => withStorageCode(() => store.reset(pets)),
    close: () => withStorageCode(() => store.close()),
  }
}
