// The option `store`: pets that something else keeps, which takes time and can fail.
import assert from 'node:assert/strict'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { test, type TestContext } from 'node:test'
import { createPetstore, type NewPet, type Store } from '../../src/index.ts'
import { MemoryStore } from '../../src/pets/store.ts'
import { DEMO_PETS } from '../demo.ts'
import {
  assertError,
  check,
  KEY,
  portOf,
  send,
  start,
  startLogging,
  untilInFlight,
} from '../support.ts'
import { assertConforms } from '../verify.ts'

const REX: NewPet = { name: 'Rex', categoryId: 2n ** 62n, status: 'sold' }
const BODY = '{"name":"Rex","categoryId":1}'
const MAYBE_ADDED =
  'The store failed, and the pet may have been added: list the pets before you repeat it'

/** A store that answers in a later turn of the event loop, unless it fails. */
class SlowStore implements Store {
  readonly pets: MemoryStore = new MemoryStore(1e9)
  failing: 'rejects' | 'throws' | undefined
  calls: string[] = []

  page: Store['page'] = (query) => this.#later('page', () => this.pets.page(query))
  get: Store['get'] = (id) => this.#later('get', () => this.pets.get(id))
  add: Store['add'] = (pet) => this.#later('add', () => this.pets.add(pet))
  reset: Store['reset'] = (pets) => this.#later('reset', () => this.pets.reset(pets))
  isWritable: Store['isWritable'] = () => this.#later('isWritable', () => true)
  close: Store['close'] = () => this.#later('close', () => {})

  #later<T>(name: string, work: () => T): Promise<T> {
    this.calls.push(name)
    const fail = () => assert.fail('the disk is on fire')
    if (this.failing === 'throws') fail()
    return nextTurn().then(this.failing === undefined ? work : fail)
  }
}

const serve = (t: TestContext, store: Store, pets: readonly NewPet[] = []) =>
  startLogging(t, 'text', { store, pets })

test('a store that answers by promises keeps every rule, over a socket', async (t) => {
  const pets = [...DEMO_PETS, ...DEMO_PETS]
  const { petstore } = await serve(t, new SlowStore(), pets)
  assert.deepEqual(await assertConforms(petstore.url), [])
})

test('createPetstore() serves it in process, and says to ask it for its pets', async () => {
  const store = new SlowStore()
  await using petstore = createPetstore({ store, pets: [REX] })
  const response = await petstore.fetch(`${petstore.url}/pets/1`, petstore)
  assert.equal(await response.text(), store.pets.get(1))
  await petstore.fetch(`${petstore.url}/pets/1000000000000000`, petstore) // no pet has 16 digits
  assert.equal(store.calls.filter((name) => name === 'get').length, 1)
  assert.deepEqual(await petstore.add([REX]), [{ id: 2, ...REX }])
  await petstore.reset()
  assert.equal(store.pets.size, 1)
  const message = 'pets must be read from your own store'
  assert.throws(() => petstore.pets, { name: 'TypeError', code: 'invalid_option', message })
})

for (const failing of ['rejects', 'throws'] as const) {
  test(`while it ${failing}, requests get 503 and the log says why; then it works`, async (t) => {
    const store = new SlowStore()
    const { petstore, logStream } = await serve(t, store, [REX])
    store.failing = failing
    for (const path of ['/v1/pets', '/v1/pets/1', '/readyz'])
      assertError(await send(petstore, 'GET', path), 503, 'storage_failed')
    const added = await send(petstore, 'POST', '/v1/pets', { body: BODY })
    assert.equal(assertError(added, 503, 'outcome_unknown'), MAYBE_ADDED)
    await logStream.until(/error: the store failed: the disk is on fire: 1\n/)
    await logStream.until(/warn: \/readyz is 503: the disk is on fire\n/)
    await logStream.until(/ 503 .* operation=createPet .* cause="the disk is on fire" /)
    assert.doesNotMatch(logStream.text, / 500 /)
    const error = { code: 'outcome_unknown', message: `pet 1 of 1: ${MAYBE_ADDED}` }
    await assert.rejects(petstore.add([REX]), error)
    store.failing = undefined
    for (const _ of [1, 2]) await check(petstore, 'GET', '/readyz', 200)
    await logStream.until(/info: \/readyz is 200 again\n/)
    assert.equal(logStream.text.match(/\/readyz/g)?.length, 2)
    await check(petstore, 'GET', '/v1/pets/1', 200)
    await check(petstore, 'POST', '/v1/pets', 201, { body: BODY })
  })
}

test('a create that surely failed says that the pet was not added, and the log why', async (t) => {
  const store = new SlowStore()
  store.add = () => ({ ok: false, reason: 'storage_failed', cause: new Error('no connection') })
  const { petstore, logStream } = await serve(t, store)
  const answer = await send(petstore, 'POST', '/v1/pets', { body: BODY })
  const message = assertError(answer, 503, 'storage_failed')
  assert.equal(message, 'The pet was not added: try again')
  await logStream.until(/the store failed: no connection: 1\n/)
  store.add = () => ({ ok: false, reason: 'store_full' })
  await check(petstore, 'POST', '/v1/pets', '507 store_full', { body: BODY })
})

test('it is asked for ids of at most 15 digits, by an object that it cannot change', async () => {
  const store = new SlowStore()
  const asked: unknown[] = []
  store.page = (query) => {
    asked.push(query)
    assert.throws(() => Object.assign(query, { limit: 1 }), TypeError)
    return { json: '[]', next: undefined }
  }
  await using petstore = createPetstore({ store })
  for (let times = 0; times < 2; times++)
    await petstore.fetch(`${petstore.url}/pets?after=9223372036854775807`, petstore)
  const query = { limit: 20, after: 999_999_999_999_999 }
  assert.deepEqual(asked, [query, query])
})

test('initial pets fill it only if it is empty, and before anything else', async () => {
  const store = new SlowStore()
  await using first = createPetstore({ store, pets: [{ ...REX, id: 7 }] })
  const asks = [1, 2].map(() => first.fetch(`${first.url}/pets`, first))
  for (const response of await Promise.all(asks)) assert.match(await response.text(), /^\[\{"id":7/)
  assert.equal(store.calls.filter((name) => name === 'reset').length, 1)
  await first.add([REX])
  await using second = createPetstore({ store, pets: [REX] })
  await second.add([REX])
  assert.equal(store.pets.size, 3)
})

test('add() adds one after the other, stops at the first failure, and names it', async () => {
  const store = new SlowStore()
  let left = 2
  store.add = async (pet) => {
    left--
    return left < 0 ? { ok: false, reason: 'store_full' } : store.pets.add(pet)
  }
  await using petstore = createPetstore({ store })
  const message = `pet 3 of ${DEMO_PETS.length}: The store has no room for this pet`
  await assert.rejects(petstore.add(DEMO_PETS), { code: 'store_full', message })
  assert.deepEqual([store.pets.size, left], [2, -1])
})

test('filling it is tried again after a failure', async () => {
  const store = new SlowStore()
  store.failing = 'rejects'
  await using petstore = createPetstore({ store, pets: [REX] })
  const list = () => petstore.fetch(`${petstore.url}/pets`, petstore)
  assert.deepEqual([(await list()).status, (await list()).status], [503, 503])
  await assert.rejects(petstore.add([REX]), { message: `pet 1 of 1: ${MAYBE_ADDED}` })
  store.failing = undefined
  assert.match(await (await list()).text(), /^\[\{"id":1/)
})

test('startPetstore() fills it before it resolves, and rejects if it cannot', async (t) => {
  const store = new SlowStore()
  await serve(t, store, [REX])
  assert.equal(store.pets.size, 1)
  const broken = new SlowStore()
  broken.failing = 'rejects'
  const message = 'the disk is on fire'
  await assert.rejects(serve(t, broken, [REX]), { code: 'storage_failed', message })
  const small = new SlowStore()
  small.reset = () => false
  await assert.rejects(serve(t, small, [REX]), { code: 'store_full', message: /do not fit/ })
  small.reset = () => Promise.reject(Object.assign(new Error(message), { code: 'store_full' }))
  await assert.rejects(serve(t, small, [REX]), { code: 'storage_failed', message })
})

test('a store that cannot be closed does not hide why the start failed', async (t) => {
  const store = new SlowStore()
  store.close = () => assert.fail('the disk is on fire')
  const port = portOf(await start(t))
  await assert.rejects(start(t, { store, port }), { code: 'EADDRINUSE' })
})

const NO_STRING = /error: the store failed: the store must return JSON as a string: 1\n/
const UNDEFINED = /error: the store failed: .*undefined/
for (const [what, method, path, given, logged] of [
  ['a page', 'GET', '/v1/pets', { page: () => ({ json: null }) }, NO_STRING],
  ['a pet', 'GET', '/v1/pets/1', { get: () => ({ id: 1 }) }, NO_STRING],
  ['a new pet', 'POST', '/v1/pets', { add: () => ({ ok: true, id: 1, json: null }) }, NO_STRING],
  [
    'an id',
    'POST',
    '/v1/pets',
    { add: () => ({ ok: true, id: '1', json: '{}' }) },
    /integer id: 1\n/,
  ],
  ['an outcome', 'POST', '/v1/pets', { add: () => undefined }, UNDEFINED],
  ['a reason', 'POST', '/v1/pets', { add: () => ({ reason: 'full' }) }, /reason full: 1\n/],
] as const) {
  test(`${what} that no Store may return gets 503, and the log says why`, async (t) => {
    const { petstore, logStream } = await serve(t, Object.assign(new SlowStore(), given))
    const answer = await send(petstore, method, path, { body: BODY })
    const isRead = method === 'GET'
    const message = assertError(answer, 503, isRead ? 'storage_failed' : 'outcome_unknown')
    assert.equal(message, isRead ? 'The store cannot be used: try again' : MAYBE_ADDED)
    await logStream.until(logged)
  })
}

test('null stands for no pet and for no next page, as in many databases', async (t) => {
  const nulls = { get: () => null, page: () => ({ json: '[]', next: null }) }
  const { petstore } = await serve(t, Object.assign(new SlowStore(), nulls))
  await check(petstore, 'GET', '/v1/pets/1', '404 not_found')
  assert.equal((await check(petstore, 'GET', '/v1/pets', 200)).headers['link'], undefined)
})

test('a delayed create is hung up before a reset that is slow, and even if it fails', async (t) => {
  const store = new SlowStore()
  const { petstore } = await serve(t, store)
  for (const isDone of [true, false]) {
    petstore.inject({ operation: 'createPet', delay: 600_000 })
    const creating = send(petstore, 'POST', '/v1/pets', { body: BODY })
    while (petstore.pendingFaults.length > 0) await nextTurn()
    petstore.inject({ operation: 'getPet', status: 503 })
    store.reset = async () => {
      await assert.rejects(creating)
      await check(petstore, 'GET', '/v1/pets', 200) // it is not delayed, so nothing holds it up
      return isDone
    }
    const resetting = petstore.reset()
    if (isDone) await resetting
    else await assert.rejects(resetting, { message: '0 pets do not fit into the store' })
    assert.deepEqual([store.pets.size, petstore.pendingFaults.length], [0, isDone ? 0 : 1])
  }
})

test('it is closed once, after the last request', async () => {
  const store = new SlowStore()
  const petstore = createPetstore({ store, apiKeys: [KEY] })
  await Promise.all([petstore.close(), petstore.close()])
  await petstore.close()
  assert.deepEqual(store.calls, ['close'])
  store.close = () => assert.fail('the disk is on fire')
  const closing = createPetstore({ store }).close()
  await assert.rejects(closing, { code: 'storage_failed', message: 'the disk is on fire' })
})

test('a reset does not hang up on a request that waits for the store alone', async () => {
  await using petstore = createPetstore({ store: new SlowStore() })
  petstore.inject({ operation: '*', done: true, delay: 0, status: 503 })
  const list = petstore.fetch(`${petstore.url}/pets`, petstore)
  while (petstore.pendingFaults.length > 0) await nextTurn()
  await petstore.reset()
  assert.equal((await list).status, 503)
})

test('a reset hangs up on delayed requests that come while the store takes its time', async () => {
  const store = new SlowStore()
  await using petstore = createPetstore({ store, delay: 600_000 })
  const list = () => petstore.fetch(`${petstore.url}/pets`, petstore)
  const lates: Promise<Response>[] = []
  const early = list()
  await untilInFlight(petstore)
  await assert.rejects(petstore.reset([{ name: '', categoryId: 0.5 }]), { code: 'invalid_pet' })
  petstore.clearFaults() // ends the delay, which the refused reset has left
  assert.equal((await early).status, 200)
  store.reset = async (pets) => {
    const late = list()
    await untilInFlight(petstore)
    late.catch(() => {})
    lates.push(late)
    return store.pets.reset(pets)
  }
  await petstore.reset()
  await assert.rejects(Promise.all(lates), { message: 'fetch failed' })
})

test('a reset leaves the response of a fault that is done and has no delay', async () => {
  await using petstore = createPetstore({ store: new SlowStore() })
  petstore.inject({ operation: 'createPet', done: true, status: 503 })
  const headers = { ...petstore.headers, 'content-type': 'application/json' }
  const reply = petstore.fetch(`${petstore.url}/pets`, { method: 'POST', headers, body: BODY })
  while (petstore.pendingFaults.length > 0) await nextTurn()
  await petstore.reset()
  assert.equal((await reply).status, 503)
})

test('the error of a failed reset has the error of the store as its cause', async () => {
  const cause = new Error('the disk is on fire')
  const store = Object.assign(new SlowStore(), { reset: () => Promise.reject(cause) })
  await using petstore = createPetstore({ store })
  await assert.rejects(petstore.reset(), { code: 'storage_failed', message: cause.message, cause })
})
