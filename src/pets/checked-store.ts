import { withStorageCode } from '../errors.ts'
import { checkPet, checkPets } from './pet.ts'
import type { Store } from './store.ts'

/** A store of somebody else: what it returns are pets, and its errors have a code. */
export function checkedStore(store: Store): Store {
  return {
    list: (query) => withStorageCode(async () => checkPets(await store.list(query), query.after)),
    get: (id) =>
      withStorageCode(async () => {
        const pet: unknown = await store.get(id)
        return pet === undefined || pet === null ? undefined : checkPet(pet)
      }),
    add: (pets) =>
      withStorageCode(async () => {
        const added = checkPets(await store.add(pets), 0)
        if (added.length === pets.length) return added
        throw new Error(`the store added ${added.length} pets in place of ${pets.length}`)
      }),
    reset: (pets) => withStorageCode(() => store.reset(pets)),
    close: () => withStorageCode(() => store.close()),
  }
}
