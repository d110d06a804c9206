import assert from 'node:assert/strict'
import { randomInt } from 'node:crypto'
import { test, type TestContext } from 'node:test'
import { type NewPet, PET_STATUSES, petJson } from '../../src/pets/pet.ts'
import { type PageQuery, MemoryStore } from '../../src/pets/store.ts'
import { Random } from '../support.ts'

const SEED = Number(process.env['SEED'] ?? randomInt(2 ** 31))
const REX: NewPet = { name: 'Rex', categoryId: 1 }

function storeOf(...pets: readonly NewPet[]): MemoryStore {
  const store = new MemoryStore(Infinity)
  for (const pet of pets) assert.equal(store.add(pet).ok, true)
  return store
}

/** A store of so many pets: every third is sold, every third pending, and the others have no status. */
function mixedStore(size: number): MemoryStore {
  const statuses = [{}, { status: 'pending' }, { status: 'sold' }] as const
  return storeOf(...Array.from({ length: size }, (_, index) => ({ ...REX, ...statuses[index % 3] })))
}

/** The ids on a page, and the id that the next page begins after. */
function shown(store: MemoryStore, query: PageQuery): { ids: number[]; next: number | undefined } {
  const { json, next } = store.page(query)
  const pets: { id: number }[] = JSON.parse(json)
  return { ids: pets.map(({ id }) => id), next }
}

test('a new store is empty', () => {
  const store = storeOf()
  assert.equal(store.size, 0)
  assert.equal(store.get(1), undefined)
  assert.deepEqual(store.page({ limit: 20, after: 0 }), { json: '[]' })
  assert.deepEqual(store.page({ limit: 20, after: 0, status: 'sold' }), { json: '[]' })
})

test('add() gives the ids 1, 2, 3 and the JSON that get() finds again', () => {
  const store = storeOf()
  for (const id of [1, 2, 3]) {
    const json = `{"id":${id},"name":"Rex","categoryId":1}`
    assert.deepEqual(store.add(REX), { ok: true, id, json })
    assert.equal(store.get(id), json)
    assert.equal(store.size, id)
  }
  for (const id of [0, 4, -1, 1.5, NaN]) assert.equal(store.get(id), undefined)
})

test('add() keeps the pet as it was: later changes of the object do not reach the store', () => {
  const pet = { ...REX }
  const store = storeOf(pet)
  pet.name = 'Bella'
  assert.equal(store.get(1), '{"id":1,"name":"Rex","categoryId":1}')
})

test('page() joins the JSON of its pets to one array', () => {
  const store = storeOf(REX, { name: 'Bella', categoryId: 2n ** 63n - 1n, status: 'sold' })
  assert.deepEqual(store.page({ limit: 20, after: 0 }), {
    json: '[{"id":1,"name":"Rex","categoryId":1},{"id":2,"name":"Bella","categoryId":9223372036854775807,"status":"sold"}]',
  })
})

// Ten pets: pending are 2, 5, 8; sold are 3, 6, 9; none is available.
const PAGES: [query: PageQuery, ids: number[], next?: number][] = [
  [{ limit: 1, after: 0 }, [1], 1],
  [{ limit: 3, after: 0 }, [1, 2, 3], 3],
  [{ limit: 9, after: 0 }, [1, 2, 3, 4, 5, 6, 7, 8, 9], 9],
  [{ limit: 10, after: 0 }, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]],
  [{ limit: 11, after: 0 }, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]],
  [{ limit: 100, after: 0 }, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]],
  [{ limit: 3, after: 3 }, [4, 5, 6], 6],
  [{ limit: 3, after: 6 }, [7, 8, 9], 9],
  [{ limit: 3, after: 7 }, [8, 9, 10]],
  [{ limit: 3, after: 8 }, [9, 10]],
  [{ limit: 3, after: 9 }, [10]],
  [{ limit: 3, after: 10 }, []],
  [{ limit: 3, after: 11 }, []],
  [{ limit: 3, after: 2 ** 63 }, []],
  [{ limit: 1, after: 0, status: 'sold' }, [3], 3],
  [{ limit: 2, after: 0, status: 'sold' }, [3, 6], 6],
  [{ limit: 3, after: 0, status: 'sold' }, [3, 6, 9]],
  [{ limit: 4, after: 0, status: 'sold' }, [3, 6, 9]],
  [{ limit: 1, after: 2, status: 'sold' }, [3], 3],
  [{ limit: 1, after: 3, status: 'sold' }, [6], 6],
  [{ limit: 1, after: 4, status: 'sold' }, [6], 6],
  [{ limit: 1, after: 6, status: 'sold' }, [9]],
  [{ limit: 1, after: 9, status: 'sold' }, []],
  [{ limit: 2, after: 2, status: 'pending' }, [5, 8]],
  [{ limit: 20, after: 0, status: 'available' }, []],
]

for (const [query, ids, next] of PAGES) {
  const what = next === undefined ? 'and is the last page' : `and goes on after ${next}`
  test(`page() of ${JSON.stringify(query)} shows ${JSON.stringify(ids)} ${what}`, () => {
    const store = mixedStore(10)
    assert.deepEqual(shown(store, query), { ids, next })
    assert.equal('next' in store.page(query), next !== undefined)
  })
}

test('a walk along next shows every pet once, in ascending order of id, whatever the limit', () => {
  const store = mixedStore(10)
  for (let limit = 1; limit <= 11; limit++) {
    const seen: number[] = []
    for (let after: number | undefined = 0; after !== undefined;) {
      const page = shown(store, { limit, after })
      assert.ok(page.ids.length > 0, 'no walk ends on an empty page')
      seen.push(...page.ids)
      after = page.next
    }
    assert.deepEqual(seen, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10], `limit ${limit}`)
  }
})

test('a pet that is added during a walk is on its later pages', () => {
  const store = mixedStore(3)
  assert.deepEqual(shown(store, { limit: 2, after: 0 }), { ids: [1, 2], next: 2 })
  assert.equal(store.add(REX).ok, true)
  assert.deepEqual(shown(store, { limit: 2, after: 2 }), { ids: [3, 4], next: undefined })
})

// One byte a letter, two, three, four; a control and a lone surrogate are escapes of six.
for (const name of ['Rex', 'é', '漢字', '🐕', '\u0000', '\ud83d', '"\\', '']) {
  test(`a store has room for the bytes of a pet named ${JSON.stringify(name)}, and for not one more`, () => {
    const pet: NewPet = { name, categoryId: 1, status: 'sold' }
    const first = new TextEncoder().encode(petJson(1, pet)).length
    const both = first + new TextEncoder().encode(petJson(2, pet)).length
    const full = { ok: false, reason: 'store_full' }
    assert.deepEqual(new MemoryStore(first - 1).add(pet), full)
    for (const [maxBytes, room] of [
      [first, 1],
      [both - 1, 1],
      [both, 2],
      [both + 1, 2],
    ] as const) {
      const store = new MemoryStore(maxBytes)
      for (let id = 1; id <= room; id++) assert.equal(store.add(pet).ok, true)
      assert.deepEqual(store.add(pet), full)
      assert.equal(store.size, room)
      assert.equal(store.get(room + 1), undefined)
      assert.equal(shown(store, { limit: 20, after: 0 }).ids.length, room)
      assert.equal(shown(store, { limit: 20, after: 0, status: 'sold' }).ids.length, room)
    }
  })
}

for (const ids of [
  [1, 2, 3],
  [1, 2, 3, 5, 9],
  [2, 3, 2 ** 32, 2 ** 32 + 1, 2 ** 42 + 1, 999_999_999_999_999],
  [2 ** 32 + 1],
]) {
  test(`get() and page() find the ids ${ids.join(', ')}, and none of those between`, () => {
    const store = new MemoryStore(Infinity)
    for (const id of ids) store.keep({ id, json: petJson(id, REX), bytes: petJson(id, REX).length, status: 'sold' })
    for (const id of ids) assert.equal(store.get(id), petJson(id, REX))
    for (const id of ids.flatMap((id) => [id - 1, id + 1]))
      assert.equal(store.get(id) === undefined, !ids.includes(id), `${id}`)
    for (const after of [0, ...ids.flatMap((id) => [id - 1, id, id + 1])]) {
      const behind = ids.filter((id) => id > after)
      const page = { ids: behind.slice(0, 2), next: behind.length > 2 ? behind[1] : undefined }
      assert.deepEqual(shown(store, { limit: 2, after }), page, `after ${after}`)
      assert.deepEqual(shown(store, { limit: 2, after, status: 'sold' }), page, `after ${after}, sold`)
    }
  })
}

/** Lets the nth time that memory is asked for fail. */
function failAllocation(t: TestContext, nth: number): void {
  const { Float64Array: Real } = globalThis
  const { allocUnsafeSlow } = Buffer
  let count = 0
  const allocate = () => {
    if (++count === nth) throw new RangeError('Array buffer allocation failed')
  }
  t.mock.method(Buffer, 'allocUnsafeSlow', (size: number) => {
    allocate()
    return allocUnsafeSlow(size)
  })
  class Failing extends Real {
    constructor(length: number) {
      if (length > 0) allocate()
      super(length)
    }
  }
  Object.assign(globalThis, { Float64Array: Failing })
  t.after(() => Object.assign(globalThis, { Float64Array: Real }))
}

// Slabs, ends, places of each status and, where ids do not begin at 1, ids.
for (const [first, allocations] of [
  [1, 7],
  [7, 9],
] as const) {
  for (let nth = 1; nth <= allocations; nth++) {
    test(`a pet for which there is no memory is not added, and all others are (allocation ${nth}, from id ${first})`, (t) => {
      const store = new MemoryStore(Infinity)
      const model: { id: number; json: string; status: string | undefined }[] = []
      let failed = 0
      failAllocation(t, nth)
      for (let count = 0; count < 2_000; count++) {
        const id = (model.at(-1)?.id ?? first - 1) + 1
        const status = (['sold', 'pending', undefined] as const)[count % 3]
        const json = `{"id":${id}}`
        try {
          store.keep({ id, json, bytes: json.length, status })
          model.push({ id, json, status })
        } catch {
          failed++
        }
      }
      assert.equal(failed, 1)
      assert.equal(store.size, model.length)
      for (const { id, json } of model) assert.equal(store.get(id), json)
      for (const status of ['sold', 'pending'] as const) {
        const pets = model.filter((pet) => pet.status === status)
        const { json } = store.page({ limit: 2_000, after: 0, status })
        assert.equal(json, `[${pets.map(({ json }) => json).join(',')}]`)
      }
    })
  }
}

test('a pet that is refused uses neither an id nor room', () => {
  const large: NewPet = { name: 'x'.repeat(100), categoryId: 1 }
  const store = new MemoryStore(petJson(1, REX).length * 2)
  assert.equal(store.add(large).ok, false)
  assert.deepEqual(store.add(REX), { ok: true, id: 1, json: petJson(1, REX) })
  assert.equal(store.add(large).ok, false)
  assert.deepEqual(store.add(REX), { ok: true, id: 2, json: petJson(2, REX) })
  assert.equal(store.add(REX).ok, false)
})

test('a store without any room takes nothing', () => assert.equal(new MemoryStore(0).add(REX).ok, false))

test(`a store behaves as a plain array does, in 20,000 random steps (SEED=${SEED})`, () => {
  const random = new Random(SEED)
  const maxBytes = 100_000
  const store = new MemoryStore(maxBytes)
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
      const added = store.add(pet)
      if (bytes + new TextEncoder().encode(json).length <= maxBytes) {
        assert.deepEqual(added, { ok: true, id, json }, label)
        bytes += new TextEncoder().encode(json).length
        model.push({ id, json, status: pet.status })
      } else {
        assert.deepEqual(added, { ok: false, reason: 'store_full' }, label)
        refused++
      }
    } else {
      const limit = random.integer(1, 100)
      const after = random.integer(0, model.length + 2)
      const status = random.pick([undefined, ...PET_STATUSES])
      const rest = model.filter((pet) => pet.id > after && (status === undefined || pet.status === status))
      const page = rest.slice(0, limit)
      const last = page.at(-1)
      const json = `[${page.map((pet) => pet.json).join(',')}]`
      assert.deepEqual(
        store.page(status === undefined ? { limit, after } : { limit, after, status }),
        rest.length > limit && last !== undefined ? { json, next: last.id } : { json },
        label,
      )
    }
    const id = random.integer(0, model.length + 1)
    assert.equal(store.get(id), model[id - 1]?.json, label)
    assert.equal(store.size, model.length, label)
  }
  assert.ok(refused > 0, 'the store was filled')
})

/** What a page costs, counted and not timed. */
interface Cost {
  /** Characters that are read from what the store keeps. */
  read: number
  /** Elements of the arrays and Maps that are walked, and of the copies that are made. */
  walked: number
  /** Comparisons with `after`. */
  comparisons: number
}

const NO_WALKS = new Set<unknown>(['constructor', 'length', 'at', 'push', 'slice', 'get', 'has', 'size'])

function costOf(store: MemoryStore, query: PageQuery): Cost & { json: string } {
  const cost = { read: 0, walked: 0, comparisons: 0 }
  const restore = [
    spy(Buffer.prototype, 'toString', (_, text) => (cost.read += String(text).length)),
    spy(Array.prototype, 'slice', (_, copy) => (cost.walked += sizeOf(copy))),
  ]
  for (const prototype of [Array.prototype, Map.prototype]) {
    const walks = Reflect.ownKeys(prototype).filter((name) => !NO_WALKS.has(name))
    for (const name of walks) restore.push(spy(prototype, name, (walked) => (cost.walked += sizeOf(walked))))
  }
  cost.walked = 0
  const after = {
    [Symbol.toPrimitive]() {
      cost.comparisons++
      return query.after
    },
  }
  // The store only compares with it, and JavaScript compares an object as the number that it turns into.
  const { json } = store.page({ ...query, after: after as unknown as number })
  const counted = { ...cost }
  for (const undo of restore) undo()
  return { json, ...counted }
}

/** Lets a method of a built-in tell of its calls; the function returned puts the method back. */
function spy(prototype: object, name: string | symbol, tell: (receiver: unknown, result: unknown) => void): () => void {
  const descriptor = Object.getOwnPropertyDescriptor(prototype, name) ?? {}
  const method: unknown = descriptor.value
  if (typeof method !== 'function') return () => {}
  function told(this: unknown, ...args: unknown[]): unknown {
    const result: unknown = Reflect.apply(method as () => unknown, this, args)
    tell(this, result)
    return result
  }
  Object.defineProperty(prototype, name, { ...descriptor, value: told })
  return () => Object.defineProperty(prototype, name, descriptor)
}

function sizeOf(walked: unknown): number {
  if (walked instanceof Map) return walked.size
  return Array.isArray(walked) ? walked.length : 0
}

/** A store of which the last but one pet is sold, and all others are available. */
function storeWithOneSold(size: number): MemoryStore {
  const pet = (index: number): NewPet => ({ ...REX, status: index === size - 2 ? 'sold' : 'available' })
  return storeOf(...Array.from({ length: size }, (_, index) => pet(index)))
}

// Pages change nothing, so that the tests can share them.
const SMALL = storeWithOneSold(1_000)
const LARGE = storeWithOneSold(100_000)

for (const [what, query, length] of [
  ['of the one that is sold', () => ({ limit: 20, after: 0, status: 'sold' }), 1],
  ['of default length', () => ({ limit: 20, after: 0 }), 20],
  ['of full length', () => ({ limit: 100, after: 0 }), 100],
  ['after the middle', (size) => ({ limit: 20, after: size / 2 }), 20],
  ['of one status after the middle', (size) => ({ limit: 20, after: size / 2, status: 'available' }), 20],
  ['of the one that is sold, after the middle', (size) => ({ limit: 20, after: size / 2, status: 'sold' }), 1],
  ['at the end', (size) => ({ limit: 20, after: size - 3 }), 3],
  ['behind the end', (size) => ({ limit: 20, after: size }), 0],
] satisfies [what: string, query: (size: number) => PageQuery, length: number][]) {
  test(`a page ${what} costs its own length, with 1,000 pets and with 100,000`, () => {
    for (const store of [SMALL, LARGE]) {
      const { size } = store
      const { json, read, walked, comparisons } = costOf(store, query(size))
      assert.equal(JSON.parse(json).length, length)
      assert.ok(read > 0 === length > 0 && read < json.length, 'what is on the page is read, and nothing else')
      assert.ok(walked <= 3 * length, `${walked} elements are walked`)
      assert.ok(comparisons <= Math.ceil(Math.log2(size)) + 1, `${comparisons} ids are compared`)
    }
  })
}
