// The option `store`: a store of one's own, which may take time, and fail.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { startPetstore } from '../../src/index.ts'
import { MemoryStore } from '../../src/pets/memory-store.ts'
import type { Awaitable, NewPet, PageQuery, Petstore, Store } from '../../src/types.ts'
import { KEY, send, start } from '../support.ts'

const REX: NewPet = { name: 'Rex', categoryId: 2n ** 62n, status: 'sold' }
const BODY = '{"name":"Rex","categoryId":4611686018427387904,"status":"sold"}'
const ON_FIRE = new Error('the disk is on fire')
const UNKNOWN =
  'The store failed, and the pet may have been added: list the pets before you repeat it'
const UNUSABLE = 'The store cannot be used: try again'

type Mode = 'answers at once' | 'answers later' | 'throws' | 'rejects'

/** A store that does as its mode says. */
class OwnStore implements Store {
  mode: Mode = 'answers later'
  readonly pets: MemoryStore = new MemoryStore(1e9)
  readonly calls: string[] = []

  page: Store['page'] = (query) => this.#call('page', () => this.pets.page(query))
  get: Store['get'] = (id) => this.#call('get', () => this.pets.get(id))
  add: Store['add'] = (pet) => this.#call('add', () => this.pets.add(pet))
  reset: Store['reset'] = (pets) => this.#call('reset', () => this.pets.reset(pets))
  isWritable: Store['isWritable'] = () => this.#call('isWritable', () => true)
  close: Store['close'] = () => this.#call('close', () => {})

  #call<T>(name: string, work: () => Awaitable<T>): Awaitable<T> {
    this.calls.push(name)
    if (this.mode === 'throws') throw ON_FIRE
    if (this.mode === 'answers at once') return work()
    return nextTurn().then(this.mode === 'rejects' ? () => Promise.reject(ON_FIRE) : work)
  }
}

/** The status, and the code and the message of an Error, or the body. */
async function ask(petstore: Petstore, method: string, path: string): Promise<string> {
  const body = method === 'POST' ? { body: BODY } : {}
  const answer = await send(petstore, method, path, body)
  if (answer.status < 400) return `${answer.status} ${answer.body}`
  const { code, message, status } = JSON.parse(answer.body)
  assert.equal(status, answer.status)
  return `${status} ${code}: ${message}`
}

for (const mode of ['answers at once', 'answers later'] as const) {
  test(`one that ${mode} is served as any other`, async (t) => {
    const store = new OwnStore()
    store.mode = mode
    const petstore = await start(t, { store, pets: [REX, REX] })
    const rex = (id: number) => `{"id":${id},${BODY.slice(1)}`
    assert.equal(await ask(petstore, 'GET', '/readyz'), '200 {"ok":true}')
    assert.equal(await ask(petstore, 'POST', '/v1/pets'), `201 ${rex(3)}`)
    assert.equal(await ask(petstore, 'GET', '/v1/pets/3'), `200 ${rex(3)}`)
    assert.equal(await ask(petstore, 'GET', '/v1/pets?after=1'), `200 [${rex(2)},${rex(3)}]`)
    const { headers } = await send(petstore, 'GET', '/v1/pets?limit=1&status=sold')
    assert.equal(headers['link'], '</v1/pets?limit=1&status=sold&after=1>; rel="next"')
    assert.match(await ask(petstore, 'GET', '/v1/pets/4'), /^404 not_found/)
    assert.deepEqual(
      await petstore.add([REX, REX]),
      [4, 5].map((id) => ({ id, ...REX })),
    )
    await petstore.reset()
    assert.equal(store.pets.pets.size, 2)
  })
}

for (const mode of ['throws', 'rejects'] as const) {
  test(`while it ${mode}, requests get 503; then it works again`, async (t) => {
    const store = new OwnStore()
    const petstore = await start(t, { store, pets: [REX] })
    store.mode = mode
    for (const path of ['/v1/pets', '/v1/pets/1', '/readyz'])
      assert.equal(await ask(petstore, 'GET', path), `503 storage_failed: ${UNUSABLE}`)
    assert.equal(await ask(petstore, 'POST', '/v1/pets'), `503 outcome_unknown: ${UNKNOWN}`)
    await assert.rejects(petstore.add([REX]), {
      code: 'outcome_unknown',
      message: 'pet 1: the store failed, and it may have been added',
      cause: ON_FIRE,
    })
    const failed = { code: 'storage_failed', message: ON_FIRE.message, cause: ON_FIRE }
    await assert.rejects(petstore.reset(), failed)
    await assert.rejects(startPetstore({ store, pets: [REX] }), failed)
    store.mode = 'answers later'
    assert.match(await ask(petstore, 'GET', '/readyz'), /^200/)
    assert.match(await ask(petstore, 'GET', '/v1/pets/1'), /^200/)
    assert.match(await ask(petstore, 'POST', '/v1/pets'), /^201/)
  })
}

test('it is asked for ids and categories as numbers, or as bigints beyond 2^53-1', async (t) => {
  const store = new OwnStore()
  const queries: PageQuery[] = []
  const ids: unknown[] = []
  store.page = (query) => {
    queries.push(query)
    return { json: '[]', next: 2n ** 63n - 1n }
  }
  store.get = (id) => {
    ids.push(id)
    return undefined
  }
  store.add = (pet) => {
    assert.deepEqual(pet, REX)
    return { ok: true, id: 2n ** 53n, json: '{}' }
  }
  const petstore = await start(t, { store })
  const { headers } = await send(petstore, 'GET', '/v1/pets?after=9007199254740993&limit=7')
  assert.equal(headers['link'], '</v1/pets?limit=7&after=9223372036854775807>; rel="next"')
  await send(petstore, 'GET', '/v1/pets?status=sold')
  for (const id of ['9007199254740991', '9007199254740992', '9223372036854775808'])
    await send(petstore, 'GET', `/v1/pets/${id}`)
  assert.deepEqual(queries, [
    { limit: 7, after: 9007199254740993n },
    { limit: 20, after: 0, status: 'sold' },
  ])
  assert.deepEqual(ids, [9007199254740991, 9007199254740992n])
  const created = await send(petstore, 'POST', '/v1/pets', { body: BODY })
  assert.deepEqual([created.status, created.headers.location], [201, '/v1/pets/9007199254740992'])
  const noPet = { code: 'outcome_unknown', message: /^a store must return the JSON of a pet: name/ }
  await assert.rejects(petstore.add([REX]), noPet)
})

test('what no store may return is 503; null stands for nothing', async (t) => {
  const store = new OwnStore()
  const petstore = await start(t, { store })
  const failed = `503 storage_failed: ${UNUSABLE}`
  const unknown = `503 outcome_unknown: ${UNKNOWN}`
  for (const [request, given, answer] of [
    ['GET /v1/pets', { page: () => ({ json: null }) }, failed],
    ['GET /v1/pets', { page: () => undefined }, failed],
    ['GET /v1/pets', { page: () => ({ json: '[]', next: null }) }, '200 []'],
    ['GET /v1/pets/1', { get: () => ({ id: 1 }) }, failed],
    ['GET /v1/pets/1', { get: () => null }, '404 not_found: There is no pet with this id'],
    ['POST /v1/pets', { add: () => undefined }, unknown],
    ['POST /v1/pets', { add: () => ({ ok: false }) }, unknown],
    ['POST /v1/pets', { add: () => ({ ok: false, reason: 'full' }) }, unknown],
    ['POST /v1/pets', { add: () => ({ ok: true, id: 1, json: null }) }, unknown],
    ['POST /v1/pets', { add: () => ({ ok: true, id: '1', json: '{}' }) }, unknown],
    ['POST /v1/pets', { add: () => ({ ok: true, id: 2n ** 63n, json: '{}' }) }, unknown],
    ['GET /readyz', { isWritable: () => false }, failed],
    ['GET /readyz', { isWritable: () => undefined }, failed],
  ] as const) {
    Object.assign(store, given)
    const [method = '', path = ''] = request.split(' ')
    assert.equal(await ask(petstore, method, path), answer, String(Object.values(given)))
  }
  Object.assign(store, { page: () => ({ json: '[]', next: null }) })
  assert.equal((await send(petstore, 'GET', '/v1/pets')).headers['link'], undefined)
})

test('the reasons of an addition that failed are its error', async (t) => {
  const store = new OwnStore()
  const petstore = await start(t, { store })
  const cause = ON_FIRE
  for (const [reason, answer, message] of [
    [
      'store_full',
      '507 store_full: The store has no room for this pet',
      'the store has no room for it',
    ],
    ['storage_failed', '503 storage_failed: The pet was not added: try again', 'it was not added'],
    [
      'outcome_unknown',
      `503 outcome_unknown: ${UNKNOWN}`,
      'the store failed, and it may have been added',
    ],
  ] as const) {
    store.add = () => ({ ok: false, reason, cause })
    assert.equal(await ask(petstore, 'POST', '/v1/pets'), answer)
    await assert.rejects(petstore.add([REX]), { code: reason, message: `pet 1: ${message}`, cause })
  }
})

test('add() adds one after the other, and stops at the first failure', async (t) => {
  const store = new OwnStore()
  const petstore = await start(t, { store })
  let left = 2
  store.add = async (pet) => {
    left--
    await nextTurn()
    return left < 0 ? { ok: false, reason: 'store_full' } : store.pets.add(pet)
  }
  const error = { code: 'store_full', message: 'pet 3: the store has no room for it' }
  await assert.rejects(petstore.add([REX, REX, REX, REX]), error)
  assert.deepEqual([store.pets.pets.size, left], [2, -1])
})

test('pets fill it only if it is empty; its pets must be read from itself', async (t) => {
  const store = new OwnStore()
  const first = await startPetstore({ store, pets: [{ id: 7, ...REX }] })
  const message = 'pets must be read from your own store'
  assert.throws(() => first.pets, { name: 'TypeError', code: 'invalid_option', message })
  await first.close()
  const second = await start(t, { store, pets: [REX, REX] })
  assert.deepEqual([...store.pets.pets.values()].length, 1)
  await second.reset()
  assert.deepEqual([...store.pets.pets.values()].length, 2)
  store.reset = () => false
  const tooMany = { code: 'store_full', message: '2 pets do not fit into the store' }
  await assert.rejects(second.reset(), tooMany)
  const unknown = { code: 'outcome_unknown', message: 'the commit failed' }
  store.reset = () => Promise.reject(Object.assign(new Error(unknown.message), unknown))
  await assert.rejects(second.reset(), unknown)
})

test('a delayed create is hung up before a reset that takes time', async (t) => {
  const store = new OwnStore()
  const petstore = await start(t, { store })
  petstore.inject({ operation: 'createPet', delay: 600_000 })
  const creating = assert.rejects(send(petstore, 'POST', '/v1/pets', { body: BODY }))
  while (petstore.pendingFaults.length > 0) await nextTurn()
  store.reset = async (pets) => {
    await creating
    return store.pets.reset(pets)
  }
  await petstore.reset()
  assert.deepEqual(store.calls, [])
})

test('it is closed once, last; if that fails, so does close()', async (t) => {
  const store = new OwnStore()
  const petstore = await startPetstore({ store, apiKeys: [KEY] })
  const failed = { code: 'storage_failed', message: ON_FIRE.message }
  await ask(petstore, 'GET', '/v1/pets')
  await Promise.all([petstore.close(), petstore.close()])
  await petstore.close()
  assert.deepEqual(store.calls, ['page', 'close'])
  store.mode = 'throws'
  const failing = await startPetstore({ store })
  await assert.rejects(failing.close(), failed)
  // A store that cannot be closed does not hide why the start failed.
  const port = Number(new URL((await start(t)).url).port)
  await assert.rejects(startPetstore({ store, port }), { code: 'EADDRINUSE' })
})
