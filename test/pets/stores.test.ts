// What holds of a store, whatever keeps it: in memory and on file.
import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import type { NewPet } from '../../src/pets/pet.ts'
import { openSnapshotStore } from '../../src/pets/snapshot-store.ts'
import { MemoryStore, type PetStore } from '../../src/pets/store.ts'
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
  })
}
