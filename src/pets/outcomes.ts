// What a store returns, as what a petstore returns or throws.
import { codedError, hasCode, messageOf } from '../errors.ts'
import { parsePet } from './pet.ts'
import type { Added, Awaitable, InitialPet, Pet, Store } from './store.ts'

const ADD_ERRORS = {
  store_full: 'the store has no room for it',
  storage_failed: 'it was not added',
  outcome_unknown: 'the store failed, and it may have been added',
}

/** The pet that was added. Throws an error that says which one was not. */
export function petOrThrow(added: Added, index: number): Pet {
  if (added.ok) return parsePet(added.json)
  const { reason, cause } = added
  throw codedError(reason, `pet ${index + 1}: ${ADD_ERRORS[reason]}`, cause)
}

export async function resetOrThrow(store: Store, pets: readonly InitialPet[]): Promise<void> {
  if (await orStorageFailed(store.reset(pets))) return
  throw codedError('store_full', `${pets.length} pets do not fit into the store`)
}

/** Waits for the store; if that fails, the error has the code `storage_failed`, or its own. */
export async function orStorageFailed<T>(work: Awaitable<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    const code = hasCode(error, 'outcome_unknown') ? 'outcome_unknown' : 'storage_failed'
    throw codedError(code, messageOf(error), error)
  }
}
