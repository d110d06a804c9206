// What holds of a store, whatever keeps it; HTTP's side of it is in decisions.test.ts.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { petJson } from '../../src/pets/pet.ts'
import { openSnapshotStore } from '../../src/files/snapshot-store.ts'
import { type LocalStore, MemoryStore } from '../../src/pets/store.ts'
import type { NewPet } from '../../src/types.ts'
import { createPetstore } from '../../src/index.ts'
import { collectGarbage, folderOf, SEED } from '../support.ts'
import { assertLikeAnArray } from './model.ts'

const REX: NewPet = { name: 'Rex', categoryId: 1, status: 'sold' }

const STORES: Record<string, (maxBytes: number) => LocalStore | Promise<LocalStore>> = {
  memory: (maxBytes) => new MemoryStore(maxBytes),
  file: (maxBytes) => openSnapshotStore(`${folderOf()}/pets.json`, maxBytes, () => {}),
}

for (const [kind, open] of Object.entries(STORES)) {
  test(`a store in ${kind} shows pets once added, and resets in turn with additions`, async () => {
    const store = await open(1e9)
    const add = (name: string) => store.add({ ...REX, name })
    const before = [add('a'), add('b')]
    const isDurable = before[0] instanceof Promise
    if (isDurable) {
      assert.equal(store.get(1), undefined)
      assert.deepEqual(store.page({ limit: 1, after: 0 }), { json: '[]', next: undefined })
    }
    const resets = ['Tom', 'Max'].map((name) => store.reset([{ ...REX, name }]))
    const after = [add('c'), add('d')]
    const ids = (await Promise.all([...before, ...after])).map((added) => added.ok && added.id)
    assert.deepEqual(ids, [1, 2, 2, 3])
    assert.deepEqual(await Promise.all(resets), [true, true])
    const kept = ['Max', 'c', 'd'].map((name, at) => petJson(at + 1, { ...REX, name }))
    assert.deepEqual([...store.values()], kept)
    await store.close()
  })

  test(`a store in ${kind} keeps its limit when pets are added at once`, async () => {
    const bytes = 100 + petJson(1, REX).length
    const store = await open(2 * bytes + 1)
    const added = await Promise.all([REX, REX, REX].map((pet) => store.add(pet)))
    assert.equal(added.map(({ ok }) => ok).join(), 'true,true,false')
    await store.close()
  })

  test(`a store in ${kind} behaves like a plain array in random steps (SEED=${SEED})`, async () => {
    const maxBytes = 200_000
    const store = await open(maxBytes)
    await assertLikeAnArray(store, { steps: 4_000, maxBytes })
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

test('a client of many different queries makes the server keep few of their pages', async () => {
  const pets = Array.from({ length: 1_500 }, () => ({ ...REX, name: 'x'.repeat(100) }))
  await using petstore = createPetstore({ pets, maxRequests: 0 })
  const before = heapUsed()
  for (let after = 0; after < 1_200; after++) {
    const query = `limit=100&after=${after}&x=${'x'.repeat(14_000)}`
    await petstore.fetch(`${petstore.url}/pets?${query}`, petstore)
  }
  const growth = heapUsed() - before
  assert.ok(growth < 20e6, `${growth} bytes`) // all queries or all pages would take 24 MB
})

function heapUsed(): number {
  collectGarbage()
  return process.memoryUsage().heapUsed
}

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

test('a store takes no more memory than it counts, whatever the names', () => {
  // The least of some collections: one alone may leave garbage.
  const used = () => {
    const sizes = [1, 2, 3, 4].map(() => {
      collectGarbage()
      const { heapUsed, arrayBuffers } = process.memoryUsage()
      return heapUsed + arrayBuffers
    })
    return Math.min(...sizes)
  }
  for (const first of ['a', '\xe9', '\u0100', '\u{1f436}']) {
    for (const length of [1, 10, 100, 500, 900, 1_000, 5_000]) {
      const before = used()
      const store = new MemoryStore(8 * 2 ** 20)
      // As a body has it: in a text of two bytes a character.
      const parse = () => JSON.parse(`{"name":"${first}${'a'.repeat(length - 1)}","x":"\u0100"}`)
      while (store.add({ ...parse(), categoryId: 1, status: 'sold' }).ok);
      const grown = used() - before
      assert.ok(grown < store.bytes, `${grown} of ${store.bytes} bytes: ${length} of ${first}`)
    }
  }
})
