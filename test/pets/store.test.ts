import assert from 'node:assert/strict'
import { randomInt } from 'node:crypto'
import { test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { type NewPet, PET_STATUSES, petJson } from '../../src/pets/pet.ts'
import { MemoryStore, type PageQuery } from '../../src/pets/store.ts'
import { Random } from '../support.ts'

const SEED = Number(process.env['SEED'] ?? randomInt(2 ** 31))
const REX: NewPet = { name: 'Rex', categoryId: 1 }
// The greatest id: 15 digits.
const MAX_ID = 999_999_999_999_999
const FULL = { ok: false, reason: 'store_full' }

/** A store of so many pets: every third is sold, the ones before those pending, and the others have no status. */
function storeOf(size: number): MemoryStore {
  const store = new MemoryStore(Infinity)
  const statuses = [{}, { status: 'pending' }, { status: 'sold' }] as const
  for (let at = 0; at < size; at++) assert.equal(store.add({ ...REX, ...statuses[at % 3] }).ok, true)
  return store
}

/** The ids on a page, and the id that the next page begins after. */
function shown(store: MemoryStore, query: PageQuery): [ids: number[], next: number | undefined] {
  const { json, next } = store.page(query)
  return [JSON.parse(json).map(({ id }: { id: number }) => id), next]
}

test('add() gives the ids 1, 2, 3 and the JSON of the pet as it was, which get() and values() find again', () => {
  const store = new MemoryStore(Infinity)
  assert.deepEqual(store.page({ limit: 20, after: 0, status: 'sold' }), { json: '[]', next: undefined })
  for (const id of [1, 2, 3]) {
    const pet = { ...REX }
    const json = `{"id":${id},"name":"Rex","categoryId":1}`
    assert.deepEqual(store.add(pet), { ok: true, id, json })
    pet.name = 'Bella'
    assert.equal(store.get(id), json)
    assert.equal(store.size, id)
  }
  for (const id of [0, 4, -1, 1.5, NaN]) assert.equal(store.get(id), undefined)
  assert.deepEqual(
    [...store.values()],
    [1, 2, 3].map((id) => store.get(id)),
  )
  assert.equal(store.page({ limit: 3, after: 0 }).json, `[${[...store.values()]}]`)
})

// Ten pets: 2, 5 and 8 are pending, 3, 6 and 9 sold, and none is available.
const PAGES: [query: PageQuery, ids: number[], next?: number][] = [
  [{ limit: 1, after: 0 }, [1], 1],
  [{ limit: 9, after: 0 }, [1, 2, 3, 4, 5, 6, 7, 8, 9], 9],
  [{ limit: 10, after: 0 }, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]],
  [{ limit: 11, after: 0 }, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]],
  [{ limit: 3, after: 6 }, [7, 8, 9], 9],
  [{ limit: 3, after: 7 }, [8, 9, 10]],
  [{ limit: 3, after: 9 }, [10]],
  [{ limit: 3, after: 10 }, []],
  [{ limit: 3, after: 2 ** 63 }, []],
  [{ limit: 2, after: 0, status: 'sold' }, [3, 6], 6],
  [{ limit: 3, after: 0, status: 'sold' }, [3, 6, 9]],
  [{ limit: 1, after: 2, status: 'sold' }, [3], 3],
  [{ limit: 1, after: 3, status: 'sold' }, [6], 6],
  [{ limit: 1, after: 6, status: 'sold' }, [9]],
  [{ limit: 1, after: 9, status: 'sold' }, []],
  [{ limit: 2, after: 2, status: 'pending' }, [5, 8]],
  [{ limit: 20, after: 0, status: 'available' }, []],
]

test('page() shows pets with greater ids than `after`, of one status if one is given, and where the next page begins', () => {
  const store = storeOf(10)
  // Twice: a page that is not the last is kept.
  for (const [query, ids, next] of [...PAGES, ...PAGES])
    assert.deepEqual(shown(store, query), [ids, next], JSON.stringify(query))
})

test('pages are never stale: a pet that is added is on the last page, or on one behind it', () => {
  const store = storeOf(0)
  for (let size = 1; size <= 5; size++) {
    store.add(REX)
    const pages = [0, 2, 4].map((after) => shown(store, { limit: 2, after }))
    assert.deepEqual(
      pages.flatMap(([ids]) => ids),
      [1, 2, 3, 4, 5].slice(0, size),
    )
    assert.deepEqual(
      pages.map(([, next]) => next),
      [size > 2 ? 2 : undefined, size > 4 ? 4 : undefined, undefined],
    )
  }
})

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

test('reset() begins anew from id 1, in every page too, and changes nothing where there is no room', () => {
  const sold: NewPet = { ...REX, status: 'sold' }
  const store = new MemoryStore(2 * (petJson(1, sold).length + 100))
  let expected: string[] = []
  for (const pets of [[sold, sold], [REX], [REX, sold, REX], [], [{ ...REX, name: 'Tom' }, sold]]) {
    const hasRoom = pets.length <= 2
    assert.equal(store.reset(pets), hasRoom)
    if (hasRoom) expected = pets.map((pet, at) => petJson(at + 1, pet))
    assert.deepEqual([store.size, ...store.values()], [expected.length, ...expected])
    assert.equal(store.page({ limit: 1, after: 0 }).json, `[${expected.slice(0, 1)}]`)
    const ofSold = expected.filter((json) => json.includes('sold'))
    assert.equal(store.page({ limit: 1, after: 0, status: 'sold' }).json, `[${ofSold.slice(0, 1)}]`)
  }
  assert.deepEqual(store.add(REX), FULL)
})

// In UTF-8 one byte a letter, two, three, four; a control and a lone surrogate are escapes of six.
for (const name of ['Rex', 'é', '漢字', '🐕', '\u0000', '\ud83d', '"\\', '']) {
  test(`a pet named ${JSON.stringify(name)} takes the bytes of its JSON and 100 more; one that is refused takes nothing`, () => {
    const pet: NewPet = { name, categoryId: 1, status: 'sold' }
    const bytes = new TextEncoder().encode(petJson(1, pet)).length + 100
    for (const maxBytes of [0, bytes - 1, bytes, 2 * bytes - 1, 2 * bytes, 2 * bytes + 1]) {
      const room = Math.floor(maxBytes / bytes)
      const store = new MemoryStore(maxBytes)
      assert.deepEqual(store.add({ ...pet, name: 'x'.repeat(maxBytes) }), FULL)
      for (let id = 1; id <= room; id++) assert.deepEqual(store.add(pet), { ok: true, id, json: petJson(id, pet) })
      assert.deepEqual(store.add(pet), FULL)
      assert.deepEqual([store.size, store.get(room + 1)], [room, undefined])
      assert.equal(shown(store, { limit: 20, after: 0, status: 'sold' })[0].length, room)
    }
  })
}

for (const ids of [[1, 2, 3, 5, 9], [2, 3, 2 ** 32, 2 ** 32 + 1, 2 ** 42 + 1, MAX_ID - 1], [2 ** 32 + 1]]) {
  test(`a store that keeps the ids ${ids.join(', ')} has gaps between them, and goes on behind the last`, () => {
    const store = new MemoryStore(Infinity)
    for (const id of ids) store.keep({ id, json: petJson(id, REX), status: 'sold' })
    for (const id of ids.flatMap((id) => [id - 1, id, id + 1])) {
      assert.equal(store.get(id), ids.includes(id) ? petJson(id, REX) : undefined)
      const behind = ids.filter((one) => one > id)
      const page = [behind.slice(0, 2), behind.length > 2 ? behind[1] : undefined]
      assert.deepEqual(shown(store, { limit: 2, after: id }), page, `after ${id}`)
      assert.deepEqual(shown(store, { limit: 2, after: id, status: 'sold' }), page, `after ${id}, sold`)
    }
    const next = (ids.at(-1) ?? 0) + 1
    assert.deepEqual(store.add(REX), { ok: true, id: next, json: petJson(next, REX) })
    if (next === MAX_ID) assert.deepEqual(store.add(REX), FULL)
  })
}

test(`a store behaves as a plain array does, in 20,000 random steps (SEED=${SEED})`, () => {
  const random = new Random(SEED)
  const store = new MemoryStore(200_000)
  const model: { id: number; json: string; status: string | undefined }[] = []
  let bytes = 0
  let refused = 0
  for (let step = 0; step < 20_000; step++) {
    const label = `SEED=${SEED} step=${step}`
    if (random.chance(0.1)) {
      const pet: NewPet = { name: random.string(), categoryId: random.int64() }
      if (random.chance(0.7)) pet.status = random.pick(PET_STATUSES)
      const id = model.length + 1
      const json = petJson(id, pet)
      const size = new TextEncoder().encode(json).length + 100
      const hasRoom = bytes + size <= 200_000
      assert.deepEqual(store.add(pet), hasRoom ? { ok: true, id, json } : FULL, label)
      if (hasRoom) model.push({ id, json, status: pet.status })
      if (hasRoom) bytes += size
      else refused++
    } else {
      const limit = random.integer(1, 100)
      const after = random.integer(0, model.length + 2)
      const status = random.pick([undefined, ...PET_STATUSES])
      const rest = model.filter((pet) => pet.id > after && (status === undefined || pet.status === status))
      const page = rest.slice(0, limit)
      const expected = {
        json: `[${page.map(({ json }) => json)}]`,
        next: rest.length > limit ? page.at(-1)?.id : undefined,
      }
      assert.deepEqual(store.page({ limit, after, ...(status && { status }) }), expected, label)
    }
    const id = random.integer(0, model.length + 1)
    assert.equal(store.get(id), model[id - 1]?.json, label)
    assert.equal(store.size, model.length, label)
  }
  assert.ok(refused > 0, 'the store was filled')
})
