// What holds of a store, whatever keeps it: in memory and on file.
import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import { type NewPet, type Pet, petJson } from '../../src/pets/pet.ts'
import { openSnapshotStore } from '../../src/pets/snapshot-store.ts'
import { MemoryStore, type PetStore, readPet } from '../../src/pets/store.ts'
import { folderOf } from '../support.ts'

const REX: NewPet = { name: 'Rex', categoryId: 1, status: 'sold' }
const REX_JSON = '{"id":1,"name":"Rex","categoryId":1,"status":"sold"}'

const STORES: Record<string, (t: TestContext, maxBytes?: number) => Promise<PetStore>> = {
  'a store in memory': async (_t, maxBytes = 1e9) => new MemoryStore(maxBytes),
  async 'a store on file'(t, maxBytes = 1e9) {
    const report = (level: string, message: string) => assert.fail(`${level}: ${message}`)
    let store: PetStore | undefined
    t.after(() => store?.close()) // before the folder is removed
    store = await openSnapshotStore({ path: `${folderOf(t)}/pets.json`, maxBytes, report })
    return store
  },
}

for (const [name, open] of Object.entries(STORES)) {
  describe(name, () => {
    test('gives ids 1, 2, 3 … in the order of arrival, and the JSON of what was added', async (t) => {
      const store = await open(t)
      const added = await Promise.all(['a', 'b', 'c'].map((name) => store.add({ name, categoryId: 7 })))
      assert.deepEqual(
        added,
        ['a', 'b', 'c'].map((name, at) => {
          return { ok: true, id: at + 1, json: `{"id":${at + 1},"name":"${name}","categoryId":7}` }
        }),
      )
      assert.equal(store.size, 3)
      assert.equal(store.get(2), '{"id":2,"name":"b","categoryId":7}')
      assert.equal(store.get(4), undefined)
    })

    test('keeps every code unit of a name and every digit of an int64', async (t) => {
      const store = await open(t)
      for (const categoryId of [2n ** 63n - 1n, -(2n ** 63n), 2 ** 53 - 1, 0]) {
        const name = '\ud800"\\\n\u2028Zoë 🐕'
        const added = await store.add({ name, categoryId })
        const rest = `"name":${JSON.stringify(name)},"categoryId":${categoryId}}`
        assert.deepEqual(added, { ok: true, id: store.size, json: `{"id":${store.size},${rest}` })
      }
    })

    test('lists pages in ascending order of id, by status, and tells where the next one begins', async (t) => {
      const store = await open(t)
      for (const status of ['sold', 'pending', 'sold', 'sold'] as const) await store.add({ ...REX, status })
      const ids = (json: string) => JSON.parse(json).map((pet: { id: number }) => pet.id)
      const rows = [
        [{ limit: 20, after: 0 }, [1, 2, 3, 4], undefined],
        [{ limit: 3, after: 0 }, [1, 2, 3], 3],
        [{ limit: 3, after: 1 }, [2, 3, 4], undefined],
        [{ limit: 2, after: 0, status: 'sold' }, [1, 3], 3],
        [{ limit: 2, after: 3, status: 'sold' }, [4], undefined],
        [{ limit: 2, after: 4 }, [], undefined],
        [{ limit: 2, after: 0, status: 'available' }, [], undefined],
      ] as const
      for (const [query, expected, next] of rows) {
        const page = store.page(query)
        assert.deepEqual([ids(page.json), page.next], [expected, next])
      }
    })

    test('refuses what goes beyond its bytes, and uses no id for it', async (t) => {
      const store = await open(t, REX_JSON.length * 2)
      const added = await Promise.all([store.add(REX), store.add({ ...REX, name: 'x'.repeat(100) }), store.add(REX)])
      assert.deepEqual(added, [
        { ok: true, id: 1, json: REX_JSON },
        { ok: false, reason: 'store_full' },
        { ok: true, id: 2, json: REX_JSON.replace('1', '2') },
      ])
      assert.deepEqual(await store.add({ name: '', categoryId: 1 }), { ok: false, reason: 'store_full' })
      assert.equal(store.size, 2)
    })

    test('does not show a pet before its addition is answered', async (t) => {
      const store = await open(t)
      const adding = store.add(REX)
      if (adding instanceof Promise) assert.equal(store.get(1) ?? store.page({ limit: 1, after: 0 }).json, '[]')
      await adding
      assert.equal(store.get(1), REX_JSON)
    })

    test('values() are the JSON of all pets in ascending order of id', async (t) => {
      const store = await open(t)
      assert.deepEqual([...store.values()], [])
      for (const status of ['sold', 'pending', 'sold'] as const) await store.add({ ...REX, status })
      const expected = ['sold', 'pending', 'sold'].map((status, at) => ({ id: at + 1, ...REX, status }))
      assert.deepEqual(Array.from(store.values(), readPet), expected)
    })

    test('reset() keeps these pets and no others, by id and by status, ids from 1 on', async (t) => {
      const store = await open(t)
      for (let count = 0; count < 5; count++) await store.add(REX)
      const tom: NewPet = { name: 'Tom', categoryId: 2n ** 63n - 1n, status: 'pending' }
      assert.equal(await store.reset([tom, REX]), true)
      const json = '{"id":1,"name":"Tom","categoryId":9223372036854775807,"status":"pending"}'
      const rex = REX_JSON.replace('1', '2')
      assert.deepEqual([...store.values()], [json, rex])
      assert.equal(store.size, 2)
      assert.deepEqual([store.get(1), store.get(2), store.get(3)], [json, rex, undefined])
      assert.deepEqual(store.page({ limit: 9, after: 0, status: 'sold' }), { json: `[${rex}]` })
      assert.deepEqual(await store.add(REX), { ok: true, id: 3, json: REX_JSON.replace('1', '3') })
      assert.equal(await store.reset([]), true)
      assert.equal(store.size, 0)
      assert.deepEqual(store.page({ limit: 9, after: 0, status: 'sold' }), { json: '[]' })
      assert.deepEqual(await store.add(REX), { ok: true, id: 1, json: REX_JSON })
    })

    test('reset() to more than there is room for changes nothing; to just as much, it makes room', async (t) => {
      const store = await open(t, REX_JSON.length * 2)
      await store.add({ ...REX, name: 'Tom' })
      assert.equal(await store.reset([REX, REX, REX]), false)
      assert.deepEqual([...store.values()], [REX_JSON.replace('Rex', 'Tom')])
      assert.equal((await store.add(REX)).ok, true)
      assert.equal(await store.reset([REX, REX]), true)
      assert.deepEqual(await store.add(REX), { ok: false, reason: 'store_full' })
      assert.equal(await store.reset([REX]), true)
      assert.equal((await store.add(REX)).ok, true)
      assert.deepEqual(await store.add(REX), { ok: false, reason: 'store_full' })
    })

    test('reset() comes behind the additions before it, and before those behind it', async (t) => {
      const store = await open(t)
      const before = [store.add(REX), store.add(REX)]
      const resetting = store.reset([{ ...REX, name: 'Tom' }])
      const behind = [store.add(REX), store.add(REX)]
      const ids = async (adding: typeof before) =>
        (await Promise.all(adding)).map((added) => (added.ok ? added.id : added.reason))
      assert.deepEqual(await ids(before), [1, 2])
      assert.equal(await resetting, true)
      assert.deepEqual(await ids(behind), [2, 3])
      const names = Array.from(store.values(), (json) => readPet(json).name)
      assert.deepEqual(names, ['Tom', 'Rex', 'Rex'])
    })

    test('reset() comes to its turn although additions go on and on', async (t) => {
      const store = await open(t)
      let added = 0
      let isReset = false
      const adding = Array.from({ length: 8 }, async () => {
        for (let count = 0; count < 300 && !isReset; count++) if ((await store.add(REX)).ok) added++
      })
      assert.equal(await store.reset([]), true)
      isReset = true
      await Promise.all(adding)
      assert.ok(added < 8 * 300, 'it did not wait for all of them')
    })

    test('resets at once come one after the other', async (t) => {
      const store = await open(t)
      const resets = Array.from({ length: 10 }, (_, at) => store.reset(Array(at + 1).fill(REX)))
      assert.deepEqual(await Promise.all(resets), Array(10).fill(true))
      assert.equal(store.size, 10)
    })

    test('isWritable() is true, and adds nothing', async (t) => {
      const store = await open(t)
      assert.equal(await store.isWritable(), true)
      assert.equal(store.size, 0)
      assert.deepEqual(await store.add(REX), { ok: true, id: 1, json: REX_JSON })
      assert.equal(await store.isWritable(), true)
    })
  })
}

for (const json of ['', '{}', '{"id":1,"name":7,"categoryId":1}', '[1]']) {
  test(`readPet() throws for ${JSON.stringify(json)}, which no store gives`, () => {
    assert.throws(() => readPet(json), { message: `Cannot read a pet: ${json}` })
  })
}

test('readPet() reads what petJson() writes, exact', () => {
  const pets: Pet[] = [
    { id: 1, name: '', categoryId: 0 },
    { id: 999_999_999_999_999, name: '\ud800"\\ {"id":7}', categoryId: 2n ** 63n - 1n, status: 'sold' },
    { id: 12, name: 'Zoë', categoryId: -(2n ** 63n), status: 'available' },
    { id: 13, name: 'x', categoryId: 2 ** 53 - 1 },
  ]
  for (const pet of pets) assert.deepEqual(readPet(petJson(pet.id, pet)), pet)
})
