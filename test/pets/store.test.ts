// What holds of a store, whatever keeps it; HTTP's side of it is in decisions.test.ts.
import assert from 'node:assert/strict'
import { randomInt } from 'node:crypto'
import { test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { type NewPet, PET_STATUSES, petJson } from '../../src/pets/pet.ts'
import { openSnapshotStore } from '../../src/pets/snapshot.ts'
import { MemoryStore } from '../../src/pets/store.ts'
import { folderOf, Random } from '../support.ts'

const SEED = Number(process.env['SEED'] ?? randomInt(2 ** 31))
const REX: NewPet = { name: 'Rex', categoryId: 1, status: 'sold' }
const FULL = { ok: false, reason: 'store_full' }

const STORES: Record<string, (maxBytes: number) => MemoryStore | Promise<MemoryStore>> = {
  memory: (maxBytes) => new MemoryStore(maxBytes),
  file: (maxBytes) => openSnapshotStore(`${folderOf()}/pets.json`, maxBytes, () => {}),
}

for (const [kind, open] of Object.entries(STORES)) {
  test(`a store in ${kind} shows a pet once it is added; resets come to their turn among the additions`, async () => {
    const store = await open(1e9)
    const add = (name: string) => store.add({ ...REX, name })
    const before = [add('a'), add('b')]
    if (before[0] instanceof Promise) assert.equal(store.get(1) ?? store.page({ limit: 1, after: 0 }).json, '[]')
    const resets = ['Tom', 'Max'].map((name) => store.reset([{ ...REX, name }]))
    const behind = [add('c'), add('d')]
    const ids = (await Promise.all([...before, ...behind])).map((one) => one.ok && one.id)
    assert.deepEqual(ids, [1, 2, 2, 3])
    assert.deepEqual(await Promise.all(resets), [true, true])
    const kept = ['Max', 'c', 'd'].map((name, at) => petJson(at + 1, { ...REX, name }))
    assert.deepEqual([...store.values()], kept)
    let isReset = false
    const adding = Array.from({ length: 8 }, async () => {
      for (let count = 0; count < 300; count++) if (isReset || !(await add('x')).ok) return count
      return 300
    })
    assert.equal(await store.reset([]), true)
    isReset = true
    if (before[0] instanceof Promise) for (const count of await Promise.all(adding)) assert.ok(count < 300)
    await store.close()
  })

  test(`a store in ${kind} behaves as a plain array does, in random steps (SEED=${SEED})`, async () => {
    const random = new Random(SEED)
    const maxBytes = 200_000
    const store = await open(maxBytes)
    let model: { id: number; json: string; status: string | undefined; bytes: number }[] = []
    const modelOf = (pet: NewPet, at: number) => {
      const json = petJson(at + 1, pet)
      return { id: at + 1, json, status: pet.status, bytes: new TextEncoder().encode(json).length + 100 }
    }
    const fits = (pets: typeof model) => pets.reduce((sum, { bytes }) => sum + bytes, 0) <= maxBytes
    const randomPet = (): NewPet => {
      const pet: NewPet = { name: random.string(), categoryId: random.int64() }
      return random.chance(0.7) ? { ...pet, status: random.pick(PET_STATUSES) } : pet
    }
    for (let [step, refused] = [0, 0]; step < 10_000 || refused === 0; step++) {
      const label = `SEED=${SEED} step=${step}`
      if (random.chance(0.001)) {
        const pets = Array.from({ length: random.pick([0, 50, 500, 2_000]) }, randomPet)
        const next = pets.map(modelOf)
        assert.equal(await store.reset(pets), fits(next), label)
        if (fits(next)) model = next
      } else if (random.chance(0.2)) {
        const pet = randomPet()
        const added = modelOf(pet, model.length)
        const hasRoom = fits([...model, added])
        const { id, json } = added
        assert.deepEqual(await store.add(pet), hasRoom ? { ok: true, id, json } : FULL, label)
        if (hasRoom) model.push(added)
        else refused++
      }
      const limit = random.pick([1, 2, 20, 100])
      const after = Math.max(0, random.chance(0.5) ? model.length - random.integer(-2, 3) : random.integer(0, 9))
      const status = random.pick([undefined, ...PET_STATUSES])
      const isWanted = ({ id, ...pet }: (typeof model)[0]) => id > after && (status ?? pet.status) === pet.status
      const rest = model.filter(isWanted)
      const page = rest.slice(0, limit)
      const next = rest.length > limit ? page.at(-1)?.id : undefined
      const expected = { json: `[${page.map(({ json }) => json)}]`, next }
      assert.deepEqual(store.page({ limit, after, ...(status && { status }) }), expected, label)
      const id = random.integer(0, model.length + 1)
      assert.deepEqual([store.get(id), store.size], [model[id - 1]?.json, model.length], label)
    }
    await store.close()
  })
}

test('pages that were listed take a bounded amount of memory, not 200 MB', () => {
  setFlagsFromString('--expose-gc')
  const gc: () => void = runInNewContext('gc')
  const store = new MemoryStore(Infinity)
  for (let id = 1; id <= 100; id++) store.add({ ...REX, name: 'x'.repeat(10_000) })
  gc()
  const before = process.memoryUsage().heapUsed
  for (let limit = 1; limit < 96; limit++) for (let after = 0; after < 4; after++) store.page({ limit, after })
  gc()
  const taken = process.memoryUsage().heapUsed - before
  assert.ok(taken < 64 * 2 ** 20, `${taken} bytes`)
})

test('a store with gaps between its ids pages over them, and goes on behind the last', () => {
  for (const ids of [[1, 2, 3, 5, 9], [2, 3, 2 ** 32, 2 ** 32 + 1, 2 ** 42 + 1, 999_999_999_999_998], [2 ** 32 + 1]]) {
    const store = new MemoryStore(Infinity)
    for (const id of ids) store.keep({ id, json: petJson(id, REX), status: 'sold', bytes: 99 })
    for (const after of ids.flatMap((id) => [id - 1, id, id + 1])) {
      assert.equal(store.get(after), ids.includes(after) ? petJson(after, REX) : undefined)
      const behind = ids.filter((one) => one > after)
      const json = `[${behind.slice(0, 2).map((id) => petJson(id, REX))}]`
      const page = { json, next: behind.length > 2 ? behind[1] : undefined }
      for (const status of [{}, { status: 'sold' } as const]) {
        assert.deepEqual(store.page({ limit: 2, after, ...status }), page, `after ${after}`)
      }
    }
    const id = (ids.at(-1) ?? 0) + 1
    assert.deepEqual(store.add(REX), { ok: true, id, json: petJson(id, REX) })
  }
})
