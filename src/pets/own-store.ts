import type { Added, Awaitable, Store } from '../types.ts'
import type { Seed } from './pet.ts'

const UNKNOWN: Added = { ok: false, reason: 'outcome_unknown' }

/** A store of the user's, filled on its first use. Only its reads, `reset` and `close` reject. */
export function ownStore(
  store: Store,
  initial: readonly Seed[],
  report: (failure: unknown) => void,
): Store {
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
    async add(pet) {
      const added = await ask(() => store.add(pet)).catch(() => UNKNOWN)
      if (!added.ok && added.cause !== undefined) report(added.cause)
      return added
    },
    close() {
      closing ??= Promise.resolve().then(() => store.close())
      return closing
    },
  }
}

async function fillIfEmpty(store: Store, initial: readonly Seed[]): Promise<void> {
  if (initial.length === 0) return
  const { json } = await store.page({ limit: 1, after: 0 })
  const isEmpty = json === '[]'
  if (isEmpty && !(await store.reset(initial))) throw new Error('the initial pets do not fit')
}
