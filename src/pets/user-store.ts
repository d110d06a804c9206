import { toInt64 } from './pet.ts'
import type { Added, Store } from './store.ts'

const REASONS: readonly string[] = ['store_full', 'storage_failed', 'outcome_unknown']

/** Wraps a user's store, and checks what it returns: types do not stop JavaScript. */
export function userStore(store: Store): Store {
  return {
    // Many databases return null for nothing.
    async page(query) {
      const { json, next } = await store.page(query)
      return { json: checkJson(json), next: next ?? undefined }
    },
    async get(id) {
      const json = (await store.get(id)) ?? undefined
      return json === undefined ? undefined : checkJson(json)
    },
    async add(pet) {
      try {
        return checkAdded(await store.add(pet))
      } catch (cause) {
        return { ok: false, reason: 'outcome_unknown', cause }
      }
    },
    reset: async (pets) => store.reset(pets),
    isWritable: async () => store.isWritable(),
    close: async () => store.close(),
  }
}

function checkJson(json: unknown): string {
  if (typeof json === 'string') return json
  throw new TypeError('the store must return JSON as a string')
}

function checkAdded(added: Added): Added {
  if (!added.ok) {
    if (REASONS.includes(added.reason)) return added
    throw new TypeError(`the store must return one of the reasons ${REASONS.join(', ')}`)
  }
  const id = toInt64(added.id)
  if (id === undefined) throw new TypeError('the store must return an integer id')
  return { ok: true, id, json: checkJson(added.json) }
}
