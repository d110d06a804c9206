// What holds of a store, whatever keeps it: it behaves like a plain array.
import assert from 'node:assert/strict'
import { PET_STATUSES, petJson } from '../../src/pets/pet.ts'
import type { LocalStore } from '../../src/pets/store.ts'
import type { NewPet, Page, PageQuery, PetStatus, Store } from '../../src/types.ts'
import { Random, SEED } from '../support.ts'

export interface Model {
  id: number
  json: string
  status: PetStatus | undefined
  bytes: number
}

function modelOf(pet: NewPet, at: number): Model {
  const id = at + 1
  const json = petJson(id, pet)
  return { id, json, status: pet.status, bytes: Buffer.byteLength(json) + 100 }
}

function pageOf(model: readonly Model[], { limit, after, status }: PageQuery): Page {
  const rest = model.filter((pet) => pet.id > after && (status ?? pet.status) === pet.status)
  const page = rest.slice(0, limit)
  const next = rest.length > limit ? page.at(-1)?.id : undefined
  return { json: `[${page.map(({ json }) => json)}]`, next }
}

function randomPet(random: Random): NewPet {
  const pet: NewPet = { name: random.string(), categoryId: random.int64() }
  return random.chance(0.7) ? { ...pet, status: random.pick(PET_STATUSES) } : pet
}

/** Queries across a store and around its end. Each is reused as one object, as in the server. */
function queriesFor(random: Random, size: number): PageQuery[] {
  return Array.from({ length: 100 }, () => {
    const limit = random.pick([1, 2, 20, 100])
    const after = random.pick([random.integer(0, 9), Math.max(0, size - random.integer(-2, 3))])
    const status = random.pick([undefined, ...PET_STATUSES])
    return status === undefined ? { limit, after } : { limit, after, status }
  })
}

const FULL = { ok: false, reason: 'store_full' }

/** Takes random steps, at least until an addition finds no room in a bounded store. */
export async function assertLikeAnArray(
  store: Store & Partial<LocalStore>,
  { steps, maxBytes }: { steps: number; maxBytes: number },
): Promise<void> {
  const random = new Random(SEED)
  let model: Model[] = []
  let queries = queriesFor(random, 0)
  const fits = (pets: Model[]) => pets.reduce((sum, { bytes }) => sum + bytes, 0) <= maxBytes
  let refused = 0
  for (let step = 0; step < steps || (refused === 0 && maxBytes < Infinity); step++) {
    const label = `SEED=${SEED} step=${step}`
    if (random.chance(0.001)) {
      const pets = Array.from({ length: random.pick([0, 50, 500, 2_000]) }, () => randomPet(random))
      const next = pets.map(modelOf)
      assert.equal(await store.reset(pets), fits(next), label)
      if (fits(next)) model = next
    } else if (random.chance(0.2)) {
      const pet = randomPet(random)
      const added = modelOf(pet, model.length)
      const hasRoom = fits([...model, added])
      const { id, json } = added
      assert.deepEqual(await store.add(pet), hasRoom ? { ok: true, id, json } : FULL, label)
      if (hasRoom) model.push(added)
      else refused++
    }
    if (random.chance(0.01)) queries = queriesFor(random, model.length)
    const query = random.pick(queries)
    assert.deepEqual(await store.page(query), pageOf(model, query), label)
    const id = random.integer(0, model.length + 1)
    assert.deepEqual(await store.get(id), model[id - 1]?.json, label)
    if (store.size !== undefined) assert.equal(store.size, model.length, label)
  }
}
