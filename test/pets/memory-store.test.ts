// The store in memory behaves like a plain array of pets.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MemoryStore } from '../../src/pets/memory-store.ts'
import { PET_STATUSES, petJson } from '../../src/pets/pet.ts'
import type { InitialPet, Int64, NewPet, Page, PageQuery, Pet } from '../../src/pets/store.ts'
import { Random, SEED } from '../random.ts'

const MAX_BYTES = 20_000
const FULL = { ok: false, reason: 'store_full' }
const jsonOf = (pet: Pet): string => petJson(pet.id, pet)

const bytesOf = (pets: readonly Pet[]): number =>
  pets.reduce((sum, pet) => sum + Buffer.byteLength(jsonOf(pet)) + 100, 0)

function pageOf(pets: readonly Pet[], { limit, after, status }: PageQuery): Page {
  const rest = pets.filter((pet) => pet.id > after && (status ?? pet.status) === pet.status)
  const page = rest.slice(0, limit)
  const next = rest.length > limit ? page.at(-1)?.id : undefined
  return { json: `[${page.map(jsonOf)}]`, next }
}

function toInt64(value: bigint): Int64 {
  return Number.isSafeInteger(Number(value)) ? Number(value) : value
}

function randomPet(random: Random): NewPet {
  const pet: NewPet = { name: random.string(), categoryId: random.int64() }
  return random.chance(0.7) ? { ...pet, status: random.pick('available', 'pending', 'sold') } : pet
}

/** Up to 90 pets, without ids, or with ids around a number. */
function randomPets(random: Random): InitialPet[] {
  const pets = Array.from({ length: random.integer(0, 90) }, () => randomPet(random))
  const start = random.pick<bigint | undefined>(undefined, 1n, 2n ** 53n - 50n, 2n ** 63n - 200n)
  let id = start ?? 0n
  const next = (): Int64 => {
    id += BigInt(random.integer(1, 3))
    return toInt64(id)
  }
  return start === undefined ? pets : pets.map((pet) => ({ ...pet, id: next() }))
}

/** An id around a pet's, and around the ends. */
function randomId(random: Random, pets: readonly Pet[]): Int64 {
  const near = pets[random.integer(0, pets.length)]?.id ?? pets.at(-1)?.id ?? 0
  const id = BigInt(near) + BigInt(random.integer(-1, 2))
  return toInt64(id < 0n ? 0n : id)
}

test(`its pets, pages, limits and ids are those of an array (SEED=${SEED})`, async () => {
  const random = new Random()
  const store = new MemoryStore(MAX_BYTES)
  let pets: Pet[] = []
  let refused = 0
  for (let step = 0; step < 2_000 || refused < 10; step++) {
    const label = `SEED=${SEED} step=${step}`
    if (random.chance(0.02)) {
      const initial = randomPets(random)
      const fresh = initial.map((pet, at) => ({ ...pet, id: pet.id ?? at + 1 }))
      const isFitting = bytesOf(fresh) <= MAX_BYTES
      assert.equal(await store.reset(initial), isFitting, label)
      if (isFitting) pets = fresh
    } else if (random.chance(0.3)) {
      const id = toInt64(BigInt(pets.at(-1)?.id ?? 0) + 1n)
      const pet: Pet = { ...randomPet(random), id }
      const hasRoom = bytesOf([...pets, pet]) <= MAX_BYTES && id < 2n ** 63n
      const added = hasRoom ? { ok: true, id, json: jsonOf(pet) } : FULL
      assert.deepEqual(await store.add(pet), added, label)
      if (hasRoom) pets.push(pet)
      else refused++
    }
    const limit = random.pick(1, 2, 20, 100)
    const after = randomId(random, pets)
    const status = random.pick(undefined, ...PET_STATUSES)
    const query: PageQuery = status ? { limit, after, status } : { limit, after }
    assert.deepEqual(store.page(query), pageOf(pets, query), label)
    const found = pets.find(({ id }) => id === after)
    assert.equal(store.get(after), found && jsonOf(found), label)
    assert.equal(store.pets.size, pets.length, label)
  }
  assert.deepEqual([...store.pets.values()], pets.map(jsonOf))
  assert.equal(await store.isWritable(), true)
})

test('the last id is 2^63-1, after which there is no room', async () => {
  const store = new MemoryStore(MAX_BYTES)
  const pet: NewPet = { name: 'Rex', categoryId: 1 }
  await store.reset([{ ...pet, id: 2n ** 63n - 2n }])
  const id = 2n ** 63n - 1n
  assert.deepEqual(await store.add(pet), { ok: true, id, json: petJson(id, pet) })
  assert.deepEqual(await store.add(pet), FULL)
  assert.equal(store.get(id), petJson(id, pet))
  assert.deepEqual(store.page({ limit: 1, after: id }), { json: '[]', next: undefined })
})
