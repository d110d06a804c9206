// What a test suite relies on that starts petstores in its own process.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startPetstore } from '../../src/index.ts'
import type { InitialPet, NewPet, Pet, Petstore } from '../../src/types.ts'
import { KEY, send, start, temporaryFolder } from '../support.ts'

const REX: NewPet = { name: 'Rex', categoryId: 1, status: 'sold' }
const BODY = JSON.stringify(REX)

const numbered = (pets: readonly NewPet[]): Pet[] => pets.map((pet, at) => ({ id: at + 1, ...pet }))

async function statusWith({ url }: Petstore, key: string): Promise<number> {
  return (await send({ url }, 'GET', '/v1/pets', { headers: { authorization: `Bearer ${key}` } }))
    .status
}

test('without options it is empty, on a free port of loopback, with a key of its own', async () => {
  await using petstore = await startPetstore()
  await using other = await startPetstore({})
  const { url, controlUrl, apiKey, headers, pets, requests, pendingFaults } = petstore
  assert.match(url, /^http:\/\/127\.0\.0\.1:[1-9]\d+\/v1$/)
  assert.match(apiKey, /^[\da-f-]{36}$/)
  assert.notEqual(apiKey, other.apiKey)
  assert.deepEqual(headers, { authorization: `Bearer ${apiKey}` })
  assert.deepEqual([controlUrl, pets, requests, pendingFaults], [undefined, [], [], []])
  assert.equal((await fetch(`${url}/pets`, { headers })).status, 200)
  assert.equal(await statusWith(other, apiKey), 401)
  assert.deepEqual([petstore.requests.length, other.requests.length], [1, 1])
})

test('it serves under its basePath and host, and getPetState: gone is 410', async (t) => {
  const root = await start(t, { basePath: '', host: 'localhost', pets: [REX] })
  assert.match(root.url, /^http:\/\/(?:127\.0\.0\.1|\[::1\]):\d+$/)
  assert.equal((await send(root, 'GET', '/pets/1')).status, 200)
  const shop = await start(t, { basePath: '/shop/eu/v1', getPetState: 'gone', pets: [REX] })
  assert.ok(shop.url.endsWith('/shop/eu/v1'))
  assert.equal((await send(shop, 'GET', '/shop/eu/v1/pets/1')).status, 410)
})

const MEMBERS = [
  ...[
    'url',
    'controlUrl',
    'apiKey',
    'headers',
    'pets',
    'requests',
    'pendingFaults',
    'add',
    'reset',
  ],
  ...['inject', 'clearFaults', 'clearRequests', 'waitForRequests', 'replaceKeys', 'close'],
  Symbol.asyncDispose,
]

test('it shows these members and no other, and its functions can be passed on alone', async () => {
  const petstore = await startPetstore({ apiKeys: [KEY] })
  const found = [petstore, Object.getPrototypeOf(petstore)].flatMap((one) => Reflect.ownKeys(one))
  const members = found.filter((name) => name !== 'constructor')
  assert.deepEqual(new Set(members), new Set(MEMBERS))
  const { add, reset, inject, clearFaults, clearRequests, replaceKeys } = petstore
  const { waitForRequests, close } = petstore
  assert.deepEqual(await add([REX]), numbered([REX]))
  const fault = inject({ operation: 'getPet', status: 503 })
  const { remove } = fault
  remove()
  replaceKeys([KEY])
  assert.deepEqual(await waitForRequests(0), [])
  for (const one of [clearFaults, clearRequests]) assert.equal(one(), undefined)
  assert.equal(await reset(), undefined)
  assert.equal(await close(), 0)
})

test('add() adds all or none, as a client would but without faults and records', async (t) => {
  const pets: InitialPet[] = [REX]
  const petstore = await start(t, { pets, maxStore: 2 * 152 + 151 })
  petstore.inject({ operation: '*', status: 503 })
  pets.pop()
  assert.deepEqual(await petstore.add([]), [])
  assert.deepEqual(await petstore.add([{ ...REX, status: undefined, ...{ age: 9 } }]), [
    { id: 2, name: 'Rex', categoryId: 1 }, // the unknown member is dropped
  ])
  await assert.rejects(petstore.add([REX, { ...REX, categoryId: 0.5 }]), { code: 'invalid_pet' })
  await assert.rejects(petstore.add([{ ...REX, name: 'R' }, REX]), {
    ...{ name: 'Error', code: 'store_full', message: 'pet 2: the store has no room for it' },
  })
  assert.deepEqual(petstore.pets.length, 3)
  petstore.pets.pop()
  Object.assign(petstore.pets[0] ?? {}, { name: 'changed' })
  assert.deepEqual(petstore.pets[0], { id: 1, ...REX })
  assert.deepEqual([petstore.requests, petstore.pendingFaults.length], [[], 1])
})

test('reset() begins anew with the initial pets, or with others; the keys stay', async (t) => {
  const petstore = await start(t, { pets: [REX], maxStore: 460 })
  const dirty = async () => {
    await petstore.add([REX])
    petstore.inject({ operation: 'getPet', status: 503 })
    await send(petstore, 'GET', '/v1/pets')
  }
  petstore.replaceKeys([KEY, 'second-key'])
  for (const [pets, kept] of [
    [undefined, numbered([REX])],
    [[{ ...REX, id: 7n }], [{ ...REX, id: 7 }]],
    [[], []],
    [undefined, numbered([REX])],
  ] as const) {
    await dirty()
    await petstore.reset(pets)
    assert.deepEqual(petstore.pets, kept)
    assert.deepEqual([petstore.requests, petstore.pendingFaults], [[], []])
    const [added] = await petstore.add([REX])
    assert.equal(added?.id, Number(kept.at(-1)?.id ?? 0) + 1)
  }
  const tooMany = { code: 'store_full', message: '4 pets do not fit into the store' }
  await assert.rejects(petstore.reset([REX, REX, REX, REX]), tooMany)
  assert.deepEqual(petstore.pets, numbered([REX, REX]))
  assert.equal(await statusWith(petstore, 'second-key'), 200)
})

test('maxStore counts a pet as its JSON in UTF-8 and 100 bytes more', async (t) => {
  for (const name of ['', 'Rex', 'é€\u{1f436}"\n', '\ud800']) {
    const pet = { name, categoryId: -(2n ** 63n) }
    const json = `{"id":1,"name":${JSON.stringify(name)},"categoryId":${pet.categoryId}}`
    const bytes = Buffer.byteLength(json) + 100
    const petstore = await start(t, { pets: [pet], maxStore: 2 * bytes })
    await assert.rejects(startPetstore({ pets: [pet], maxStore: bytes - 1 }), {
      ...{ name: 'Error', code: 'store_full', message: '1 pets do not fit into the store' },
    })
    const create = () => send(petstore, 'POST', '/v1/pets', { body: json })
    assert.deepEqual([(await create()).status, (await create()).status], [201, 507])
    await assert.rejects(petstore.add([pet]), { code: 'store_full' })
  }
})

test('ids go on from the greatest, exactly, up to 2^63-1', async (t) => {
  for (const [last, next] of [
    [2n ** 53n - 2n, 2 ** 53 - 1],
    [2 ** 53 - 1, 2n ** 53n],
    [2n ** 63n - 2n, 2n ** 63n - 1n],
    [2n ** 63n - 1n, undefined],
  ] as const) {
    const petstore = await start(t, {
      pets: [
        { id: 3, ...REX },
        { id: last, ...REX },
      ],
    })
    const { status, body, headers } = await send(petstore, 'POST', '/v1/pets', { body: BODY })
    if (next === undefined) {
      assert.equal(status, 507)
      await assert.rejects(petstore.add([REX]), { code: 'store_full' })
      continue
    }
    assert.ok(body.startsWith(`{"id":${next},`), body)
    assert.equal(headers.location, `/v1/pets/${next}`)
    assert.equal((await send(petstore, 'GET', `/v1/pets/${next}`)).body, body)
    assert.equal(petstore.pets[2]?.id, next)
  }
})

test('replaceKeys() replaces all keys, or none if one is wrong', async (t) => {
  const petstore = await start(t, { apiKeys: ['first-key', 'second-key'] })
  const keys = ['second-key', 'third-key']
  petstore.replaceKeys(keys)
  keys[0] = 'fourth-key'
  for (const [name, given] of [
    ['RangeError', []],
    ['RangeError', ['fourth-key', 'short']],
    ['TypeError', 'fourth-key'],
    ['TypeError', undefined],
  ] as const) {
    const message = /^apiKeys must be a list of keys, each 8 to 256 characters of [^,]*$/
    const replace = () => Reflect.apply(petstore.replaceKeys, undefined, [given])
    assert.throws(replace, { name, code: 'invalid_option', message })
  }
  const all = ['first-key', 'second-key', 'third-key', 'fourth-key']
  const statuses = await Promise.all(all.map((key) => statusWith(petstore, key)))
  assert.deepEqual(statuses, [401, 200, 200, 401])
  assert.deepEqual(
    [petstore.apiKey, petstore.headers.authorization],
    ['second-key', 'Bearer second-key'],
  )
})

test('a snapshot that cannot be opened is storage_failed', async (t) => {
  const snapshot = `${temporaryFolder(t)}/none/pets.json`
  await assert.rejects(startPetstore({ snapshot }), { name: 'Error', code: 'storage_failed' })
})
