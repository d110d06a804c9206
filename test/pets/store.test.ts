// What holds of a store, whatever keeps it; HTTP's side of it is in decisions.test.ts.
import assert from 'node:assert/strict'
import { randomInt } from 'node:crypto'
import { test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { type NewPet, PET_STATUSES, type PetStatus, petJson } from '../../src/pets/pet.ts'
import { openSnapshotStore } from '../../src/pets/snapshot-store.ts'
import { MemoryStore, type Page, type PageQuery, type Store } from '../../src/pets/store.ts'
import { folderOf, Random } from '../support.ts'

const SEED = Number(process.env['SEED'] ?? randomInt(2 ** 31))
const REX: NewPet = { name: 'Rex', categoryId: 1, status: 'sold' }
const FULL = { ok: false, reason: 'store_full' }

const STORES: Record<string, (maxBytes: number) => Store | Promise<Store>> = {
  memory: (maxBytes) => new MemoryStore(maxBytes),
  file: (maxBytes) => openSnapshotStore(`${folderOf()}/pets.json`, maxBytes, () => {}),
}

interface Model {
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

for (const [kind, open] of Object.entries(STORES)) {
  test(`a store in ${kind} shows pets once added, and resets in turn with additions`, async () => {
    const store = await open(1e9)
    const add = (name: string) => store.add({ ...REX, name })
    const before = [add('a'), add('b')]
    const isDurable = before[0] instanceof Promise
    if (isDurable) assert.equal(store.get(1) ?? store.page({ limit: 1, after: 0 }).json, '[]')
    const resets = ['Tom', 'Max'].map((name) => store.reset([{ ...REX, name }]))
    const after = [add('c'), add('d')]
    const ids = (await Promise.all([...before, ...after])).map((added) => added.ok && added.id)
    assert.deepEqual(ids, [1, 2, 2, 3])
    assert.deepEqual(await Promise.all(resets), [true, true])
    const kept = ['Max', 'c', 'd'].map((name, at) => petJson(at + 1, { ...REX, name }))
    assert.deepEqual([...store.values()], kept)
    await store.close()
  })

  test(`a store in ${kind} behaves like a plain array in random steps (SEED=${SEED})`, async () => {
    const random = new Random(SEED)
    const maxBytes = 200_000
    const store = await open(maxBytes)
    let model: Model[] = []
    let queries = queriesFor(random, 0)
    const fits = (pets: Model[]) => pets.reduce((sum, { bytes }) => sum + bytes, 0) <= maxBytes
    let refused = 0
    for (let step = 0; step < 10_000 || refused === 0; step++) {
      const label = `SEED=${SEED} step=${step}`
      if (random.chance(0.001)) {
        const pets = Array.from({ length: random.pick([0, 50, 500, 2_000]) }, () =>
          randomPet(random),
        )
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
      assert.deepEqual(store.page(query), pageOf(model, query), label)
      const id = random.integer(0, model.length + 1)
      assert.deepEqual([store.get(id), store.size], [model[id - 1]?.json, model.length], label)
    }
    await store.close()
  })
}

test('additions during a reset do not hold it up', async () => {
  const store = await openSnapshotStore(`${folderOf()}/pets.json`, 1e9, () => {})
  let isReset = false
  const adding = Array.from({ length: 8 }, async () => {
    let count = 0
    while (!isReset && count < 300) {
      await store.add(REX)
      count++
    }
    return count
  })
  assert.equal(await store.reset([]), true)
  isReset = true
  for (const count of await Promise.all(adding)) assert.ok(count < 300)
  await store.close()
})

test('a store keeps most pages, also once it has dropped the first for want of room', () => {
  const store = new MemoryStore(80_000)
  for (let id = 1; id <= 100; id++) store.add(REX)
  let last: { query: PageQuery; page: Page } | undefined
  let kept = 0
  for (let after = 0; after < 80; after++) {
    const query = { limit: 10, after }
    const page = store.page(query)
    if (last !== undefined && store.page(last.query) === last.page) kept++
    last = { query, page }
  }
  assert.ok(kept > 40, `${kept} of 79 pages were kept until the next one`)
})

test('pages that were listed take a bounded amount of memory, not 200 MB', () => {
  setFlagsFromString('--expose-gc')
  const gc: () => void = runInNewContext('gc')
  const store = new MemoryStore(Infinity)
  for (let id = 1; id <= 100; id++) store.add({ ...REX, name: 'x'.repeat(10_000) })
  gc()
  const before = process.memoryUsage().heapUsed
  for (let limit = 1; limit < 96; limit++)
    for (let after = 0; after < 4; after++) store.page({ limit, after })
  gc()
  const taken = process.memoryUsage().heapUsed - before
  assert.ok(taken < 64 * 2 ** 20, `${taken} bytes`)
})

test('a store with gaps between its ids pages over them, and goes on after the last', () => {
  for (const ids of [
    [1, 2, 3, 5, 9],
    [2, 3, 2 ** 32, 2 ** 32 + 1, 2 ** 42 + 1, 999_999_999_999_998],
    [2 ** 32 + 1],
  ]) {
    const store = new MemoryStore(Infinity)
    for (const id of ids) store.keep({ id, json: petJson(id, REX), status: 'sold' })
    for (const after of ids.flatMap((id) => [id - 1, id, id + 1])) {
      assert.equal(store.get(after), ids.includes(after) ? petJson(after, REX) : undefined)
      const rest = ids.filter((id) => id > after)
      const json = `[${rest.slice(0, 2).map((id) => petJson(id, REX))}]`
      const page = { json, next: rest.length > 2 ? rest[1] : undefined }
      for (const status of [{}, { status: 'sold' } as const]) {
        assert.deepEqual(store.page({ limit: 2, after, ...status }), page, `after ${after}`)
      }
    }
    const id = (ids.at(-1) ?? 0) + 1
    assert.deepEqual(store.add(REX), { ok: true, id, json: petJson(id, REX) })
  }
})
