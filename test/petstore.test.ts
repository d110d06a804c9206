// The petstore that a test suite starts in its own process.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { startPetstore } from '../src/index.ts'
import type { NewPet, Pet, Petstore, Store } from '../src/types.ts'
import { KEY, send, start } from './support.ts'

const REX: NewPet = { name: 'Rex', categoryId: 1, status: 'sold' }
const TEN_MINUTES = 600_000

const numbered = (count: number): Pet[] =>
  Array.from({ length: count }, (_, at) => ({ id: at + 1, ...REX }))

async function statusWith(petstore: Petstore, key: string): Promise<number> {
  const headers = { authorization: `Bearer ${key}` }
  return (await send(petstore, 'GET', '/v1/pets', { headers })).status
}

test('it listens, and its address and headers are what fetch needs', async () => {
  await using petstore = await startPetstore({ pets: [REX], controlPort: 0 })
  const { url, controlUrl, apiKey, headers } = petstore
  assert.match(url, /^http:\/\/127\.0\.0\.1:[1-9]\d*\/v1$/)
  assert.match(String(controlUrl), /^http:\/\/127\.0\.0\.1:[1-9]\d*$/)
  assert.deepEqual(headers, { authorization: `Bearer ${apiKey}` })
  const response = await fetch(`${url}/pets`, { headers })
  assert.deepEqual(await response.json(), numbered(1))
})

const MEMBERS = [
  ...['url', 'controlUrl', 'apiKey', 'headers', 'requests', 'pendingFaults', 'pets', 'add'],
  ...['reset', 'inject', 'clearFaults', 'waitForRequests', 'replaceKeys', 'close'],
  Symbol.asyncDispose,
]

test('it has these members and no other; its functions can be passed on alone', async () => {
  const petstore = await startPetstore({ apiKeys: [KEY] })
  assert.deepEqual(new Set(Reflect.ownKeys(petstore)), new Set(MEMBERS))
  const { pets, add, reset, inject, clearFaults, waitForRequests, replaceKeys, close } = petstore
  assert.deepEqual(await add([REX]), await pets())
  assert.equal(inject({ operation: 'getPet', status: 503 }).hits, 0)
  assert.equal(clearFaults(), undefined)
  assert.equal(replaceKeys([KEY]), undefined)
  assert.deepEqual(await waitForRequests(0), [])
  assert.equal(await reset(), undefined)
  assert.equal(await close(), 0)
})

test('pets() resolves to all pets, also of a store of your own', async (t) => {
  const all = numbered(200)
  const store: Store = {
    list: async ({ limit, after }) => all.filter(({ id }) => id > after).slice(0, limit),
    get: async () => undefined,
    add: async () => [],
    reset: async () => {},
    close: async () => {},
  }
  for (const options of [{ pets: all }, { store }]) {
    assert.deepEqual(await (await start(t, options)).pets(), all)
  }
})

test('add() adds all or none, without faults and records', async (t) => {
  const petstore = await start(t, { maxStore: 400 })
  petstore.inject({ operation: '*', status: 503 })
  assert.deepEqual(await petstore.add([]), [])
  assert.deepEqual(await petstore.add([REX]), numbered(1))
  const wrong = petstore.add([REX, { ...REX, categoryId: 0.5 }])
  const message = /pet 2.*categoryId/
  await assert.rejects(wrong, { name: 'TypeError', code: 'invalid_pet', message })
  await assert.rejects(petstore.add([REX, REX, REX]), { name: 'Error', code: 'store_full' })
  assert.deepEqual(await petstore.pets(), numbered(1))
  assert.deepEqual([petstore.requests, petstore.pendingFaults.length], [[], 1])
})

test('reset() begins again with the initial pets, or with others; the keys stay', async (t) => {
  const petstore = await start(t, { pets: [REX], maxStore: 500 })
  petstore.replaceKeys([KEY, 'second-key'])
  const resets: [given: Pet[] | undefined, left: Pet[]][] = [
    [undefined, numbered(1)],
    [[{ id: 7, ...REX }], [{ id: 7, ...REX }]],
    [[], []],
    [undefined, numbered(1)],
  ]
  for (const [given, left] of resets) {
    await petstore.add([REX])
    petstore.inject({ operation: 'getPet', status: 503 })
    await send(petstore, 'GET', '/v1/pets')
    await petstore.reset(given)
    assert.deepEqual(await petstore.pets(), left)
    assert.deepEqual([petstore.requests, petstore.pendingFaults], [[], []])
    const [added] = await petstore.add([REX])
    assert.equal(added?.id, Number(left.at(-1)?.id ?? 0) + 1)
  }
  const before = await petstore.pets()
  const unnamed: Promise<void> = Reflect.apply(petstore.reset, undefined, [[{}]])
  await assert.rejects(unnamed, { code: 'invalid_pet' })
  await assert.rejects(petstore.reset(numbered(9)), { code: 'store_full' })
  assert.deepEqual(await petstore.pets(), before)
  assert.equal(await statusWith(petstore, 'second-key'), 200)
})

test('replaceKeys() replaces all keys, or none if one is wrong', async (t) => {
  const petstore = await start(t, { apiKeys: ['first-key', 'second-key'] })
  petstore.replaceKeys(['second-key', 'third-key'])
  for (const keys of [[], ['fourth-key', 'short'], 'fourth-key', undefined]) {
    const error = { name: 'TypeError', code: 'invalid_option', message: /^apiKeys must be [^']*$/ }
    assert.throws(() => Reflect.apply(petstore.replaceKeys, undefined, [keys]), error)
  }
  const keys = ['first-key', 'second-key', 'third-key', 'fourth-key']
  const statuses = await Promise.all(keys.map((key) => statusWith(petstore, key)))
  assert.deepEqual(statuses, [401, 200, 200, 401])
  assert.equal(petstore.apiKey, 'second-key')
  assert.equal(petstore.headers.authorization, 'Bearer second-key')
})

test('close(drain) lets a request finish that a fault delays', async (t) => {
  const petstore = await start(t)
  petstore.inject({ operation: 'listPets', delay: 5 })
  const request = statusWith(petstore, KEY)
  while (petstore.pendingFaults.length > 0) await nextTurn()
  assert.equal(await petstore.close(TEN_MINUTES), 0)
  assert.equal(await request, 200)
})

test('close() refuses a drain that is not milliseconds up to a day, and closes nothing', async (t) => {
  const petstore = await start(t)
  for (const drain of [null, '5', -1, 0.5, 86_400_001]) {
    const closing: Promise<unknown> = Reflect.apply(petstore.close, undefined, [drain])
    const error = { name: 'TypeError', code: 'invalid_option', message: /^drain .* must be/ }
    await assert.rejects(closing, error)
  }
  assert.equal(await statusWith(petstore, KEY), 200)
  assert.equal(await petstore.close(86_400_000), 0)
})

test('a closed petstore says so', async () => {
  const petstore = await startPetstore()
  await petstore[Symbol.asyncDispose]()
  const closed = { name: 'Error', code: 'closed' }
  await assert.rejects(petstore.pets(), closed)
  await assert.rejects(petstore.add([REX]), closed)
  await assert.rejects(petstore.reset(), closed)
  await assert.rejects(petstore.waitForRequests(1), closed)
  assert.throws(() => petstore.inject({ operation: '*', status: 503 }), closed)
  await assert.rejects(send(petstore, 'GET', '/v1/pets'), { code: 'ECONNREFUSED' })
})

test('a port in use is an error of the system, and nothing stays open', async (t) => {
  const port = Number(new URL((await start(t)).url).port)
  await using petstore = await startPetstore()
  const free = Number(new URL(petstore.url).port)
  await petstore.close()
  const error = { code: 'EADDRINUSE' }
  await assert.rejects(startPetstore({ port, controlPort: free }), error)
  await assert.rejects(startPetstore({ port: free, controlPort: port }), error)
  assert.ok((await start(t, { port: free })).url)
})
