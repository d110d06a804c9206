import type { Added, Awaitable, NewPet, Store } from '../types.ts'

const REASONS = ['store_full', 'storage_failed', 'outcome_unknown']

type OnFailure = (failure: unknown) => void

/** Wraps a user's store, and fills it on first use. `add` never rejects. */
export function userStore(store: Store, fill: () => Promise<void>, onFailure: OnFailure): Store {
  let filling: Promise<void> | undefined
  let closing: Promise<void> | undefined

  async function whenFilled<T>(work: () => Awaitable<T>): Promise<T> {
    try {
      filling ??= fill().catch((error) => {
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
      whenFilled(async () => {
        const { json, next } = await store.page(query)
        return { json: checkJson(json), next: next ?? undefined }
      }),
    get: (id) =>
      whenFilled(async () => {
        const json = (await store.get(id)) ?? undefined
        return json === undefined ? undefined : checkJson(json)
      }),
    reset: (pets) => whenFilled(() => store.reset(pets)),
    isWritable: () => whenFilled(() => store.isWritable()),
    add: (pet) => whenFilled(() => addTo(store, pet, onFailure)).catch(unknownBecause),
    close() {
      closing ??= Promise.resolve().then(() => store.close())
      return closing
    },
  }
}

const unknownBecause = (cause: unknown): Added => ({ ok: false, reason: 'outcome_unknown', cause })

function checkJson(json: unknown): string {
  if (typeof json === 'string') return json
  throw new TypeError('the store must return JSON as a string')
}

async function addTo(store: Store, pet: NewPet, onFailure: OnFailure): Promise<Added> {
  const added = await store.add(pet)
  if (added.ok) {
    checkJson(added.json)
    if (!Number.isSafeInteger(added.id)) throw new TypeError('the store must return an integer id')
  } else if (added.cause !== undefined) onFailure(added.cause)
  if (added.ok || REASONS.includes(added.reason)) return added
  throw new TypeError(`unknown reason ${added.reason}`)
}
