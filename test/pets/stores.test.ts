// What holds of a store, whatever keeps it.
import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import { type NewPet, type Pet, petJson } from '../../src/pets/pet.ts'
import { openSnapshotStore } from '../../src/pets/snapshot.ts'
import { MemoryStore, PET_OVERHEAD, type PetStore, readPet } from '../../src/pets/store.ts'
import { folderOf } from '../support.ts'

const REX: NewPet = { name: 'Rex', categoryId: 1, status: 'sold' }
const REX_JSON = '{"id":1,"name":"Rex","categoryId":1,"status":"sold"}'
const ROOM = REX_JSON.length + PET_OVERHEAD
const FULL = { ok: false, reason: 'store_full' }

const STORES: Record<string, (t: TestContext, maxBytes?: number) => Promise<PetStore>> = {
  'a store in memory': async (_t, maxBytes = 1e9) => new MemoryStore(maxBytes),
  async 'a store on file'(t, maxBytes = 1e9) {
    const report = (level: string, message: string) => assert.fail(`${level}: ${message}`)
    let close = () => Promise.resolve()
    t.after(() => close()) // before the folder is removed
    const store = await openSnapshotStore({ path: `${folderOf(t)}/pets.json`, maxBytes, report })
    close = () => store.close()
    return store
  },
}

const names = (store: PetStore) => Array.from(store.values(), (json) => readPet(json).name)

for (const [name, open] of Object.entries(STORES)) {
  describe(name, () => {
    test('gives ids in the order of arrival, keeps every code unit and digit, and shows a pet once it is added', async (t) => {
      const store = await open(t)
      const odd = { name: '\ud800"\\\n\u2028Zoë 🐕', categoryId: -(2n ** 63n) }
      const pets: NewPet[] = [REX, odd, { name: '', categoryId: 0 }]
      const adding = pets.map((pet) => store.add(pet))
      if (adding[0] instanceof Promise) assert.equal(store.get(1) ?? store.page({ limit: 1, after: 0 }).json, '[]')
      const json = pets.map((pet, at) => petJson(at + 1, pet))
      for (const [at, one] of adding.entries()) assert.deepEqual(await one, { ok: true, id: at + 1, json: json[at] })
      assert.deepEqual([...store.values()], json)
      assert.deepEqual([store.get(3), store.get(4), store.size], [json[2], undefined, 3])
      assert.deepEqual(store.page({ limit: 1, after: 0, status: 'sold' }), { json: `[${REX_JSON}]`, next: undefined })
      assert.equal(store.page({ limit: 1, after: 1 }).next, 2)
    })

    test('refuses what goes beyond its bytes, and uses no id for it', async (t) => {
      const store = await open(t, 2 * ROOM)
      const added = await Promise.all([store.add(REX), store.add({ ...REX, name: 'x'.repeat(200) }), store.add(REX)])
      const second = { ok: true, id: 2, json: REX_JSON.replace('1', '2') }
      assert.deepEqual(added, [{ ok: true, id: 1, json: REX_JSON }, FULL, second])
      assert.deepEqual(await store.add({ name: '', categoryId: 1 }), FULL)
    })

    test('reset() keeps these pets and no others, ids from 1 on, or changes nothing if they do not fit', async (t) => {
      const store = await open(t, 2 * ROOM)
      await store.add({ ...REX, name: 'Tom' })
      assert.equal(await store.reset([REX, REX, REX]), false)
      assert.deepEqual(names(store), ['Tom'])
      assert.equal(await store.reset([REX, { ...REX, name: 'Max' }]), true)
      assert.deepEqual(names(store), ['Rex', 'Max'])
      assert.deepEqual(await store.add(REX), FULL)
      assert.equal(await store.reset([]), true)
      assert.deepEqual(store.page({ limit: 9, after: 0, status: 'sold' }), { json: '[]', next: undefined })
      assert.deepEqual(await store.add(REX), { ok: true, id: 1, json: REX_JSON })
    })

    test('resets come to their turn, behind the additions before them and before those behind', async (t) => {
      const store = await open(t)
      const add = (name: string) => store.add({ ...REX, name })
      const before = [add('a'), add('b')]
      const resets = ['Tom', 'Max'].map((name) => store.reset([{ ...REX, name }]))
      const behind = [add('c'), add('d')]
      const added = await Promise.all([...before, ...behind])
      const ids = added.map((one) => one.ok && one.id)
      assert.deepEqual(ids, [1, 2, 2, 3])
      assert.deepEqual(await Promise.all(resets), [true, true])
      assert.deepEqual(names(store), ['Max', 'c', 'd'])
      let isReset = false
      const adding = Array.from({ length: 8 }, async () => {
        for (let count = 0; count < 300; count++) if (isReset || !(await add('x')).ok) return count
        return 300
      })
      assert.equal(await store.reset([]), true)
      isReset = true
      if (before[0] instanceof Promise) for (const count of await Promise.all(adding)) assert.ok(count < 300)
    })

    test('isWritable() is true, and adds nothing', async (t) => {
      const store = await open(t)
      assert.deepEqual([await store.isWritable(), store.size], [true, 0])
    })
  })
}

test('readPet() reads what petJson() writes, exact, and throws for anything else', () => {
  const pets: Pet[] = [
    { id: 1, name: '', categoryId: 0 },
    { id: 999_999_999_999_999, name: '\ud800"\\ {"id":7}', categoryId: 2n ** 63n - 1n, status: 'sold' },
    { id: 13, name: 'Zoë', categoryId: -(2n ** 63n), status: 'available' },
  ]
  for (const pet of pets) assert.deepEqual(readPet(petJson(pet.id, pet)), pet)
  for (const json of ['', '{}', '{"id":1,"name":7,"categoryId":1}', '[1]'])
    assert.throws(() => readPet(json), { message: `Cannot read a pet: ${json}` })
})
