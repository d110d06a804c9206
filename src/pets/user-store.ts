import type { Added, Awaitable, Store } from '../types.ts'
import type { Seed } from './pet.ts'

type Fill = () => Promise<void>
type OnFailure = (failure: unknown) => void

const UNKNOWN: Added = { ok: false, reason: 'outcome_unknown' }

/** Wraps a user's store, and fills it on first use. `add` and `isWritable` never reject. */
export function ownStore(store: Store, fillStore: Fill, onFailure: OnFailure): Store {
  let filling: Promise<void> | undefined
  let closing: Promise<void> | undefined

  async function ask<T>(work: () => Awaitable<T>): Promise<T> {
    try {
      filling ??= fillStore().catch((error) => {
        filling = undefined // the next call tries again
        throw error
      })
      await filling
      return await work()
    } catch (error) {
      onFailure(error)
      throw error
    }
  }

  // Types do not stop JavaScript, and many databases return null for no row.
  return {
    page: (query) =>
      ask(async () => {
        const { json, next } = await store.page(query)
        return { json: checkJson(json), next: next ?? undefined }
      }),
    get: (id) =>
      ask(async () => {
        const json = (await store.get(id)) ?? undefined
        return json === undefined ? undefined : checkJson(json)
      }),
    reset: (pets) => ask(() => store.reset(pets)),
    isWritable: () => ask(() => store.isWritable()).catch(() => false),
    add: (pet) => ask(async () => checkAdded(await store.add(pet), onFailure)).catch(() => UNKNOWN),
    close() {
      closing ??= Promise.resolve().then(() => store.close())
      return closing
    },
  }
}

function checkJson(json: unknown): string {
  if (typeof json === 'string') return json
  throw new TypeError('the store must return JSON as a string')
}

function checkAdded(added: Added, onFailure: OnFailure): Added {
  if (added.ok) checkJson(added.json)
  else if (added.cause !== undefined) onFailure(added.cause)
  return added
}

/** Puts the initial pets into a store that is empty; false if they do not fit. */
export async function fill(store: Store, initial: readonly Seed[]): Promise<boolean> {
  if (initial.length === 0) return true
  const { json } = await store.page({ limit: 1, after: 0 })
  return json !== '[]' || store.reset(initial)
}
