import type { Added, Awaitable, NewPet, Store } from '../types.ts'
import type { Seed } from './pet.ts'
import { FAILED } from './store.ts'

type Report = (failure: unknown) => void

/** A store of the user's, filled on its first use. Its `add` and `isWritable` never reject. */
export function ownStore(store: Store, initial: readonly Seed[], report: Report): Store {
  let filling: Promise<void> | undefined
  let closing: Promise<void> | undefined

  async function ask<T>(work: () => Awaitable<T>): Promise<T> {
    try {
      filling ??= fillIfEmpty(store, initial).catch((error) => {
        filling = undefined // the next one tries again
        throw error
      })
      await filling
      return await work()
    } catch (error) {
      report(error)
      throw error
    }
  }

  return {
    page: (query) => ask(() => store.page(query)),
    get: (id) => ask(() => store.get(id)),
    reset: (pets) => ask(() => store.reset(pets)),
    isWritable: () => ask(() => store.isWritable()).catch(() => false),
    add: (pet) => ask(() => addTo(store, pet, report)).catch(() => FAILED),
    close() {
      closing ??= Promise.resolve().then(() => store.close())
      return closing
    },
  }
}

async function addTo(store: Store, pet: NewPet, report: Report): Promise<Added> {
  try {
    const added = await store.add(pet)
    if (!added.ok && added.cause !== undefined) report(added.cause)
    return added
  } catch (error) {
    report(error)
    return { ok: false, reason: 'outcome_unknown' }
  }
}

async function fillIfEmpty(store: Store, initial: readonly Seed[]): Promise<void> {
  if (initial.length === 0) return
  const { json } = await store.page({ limit: 1, after: 0 })
  const isEmpty = json === '[]'
  if (isEmpty && !(await store.reset(initial))) throw new Error('the initial pets do not fit')
}
