// The option `store`: a store of one's own.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startPetstore } from '../../src/index.ts'
import type { InitialPet, Int64, ListQuery, NewPet, Pet, Petstore } from '../../src/types.ts'
import { KEY, logOf, send, start } from '../support.ts'

const REX: NewPet = { name: 'Rex', categoryId: 2n ** 62n, status: 'sold' }
const BODY = '{"name":"Rex","categoryId":4611686018427387904,"status":"sold"}'
const FULL = Object.assign(new Error('no room'), { code: 'store_full' })
const rex = (id: Int64): string => `{"id":${id},${BODY.slice(1)}`

/** A store that leaves a gap after each id, and writes down what it is asked for. */
class OwnStore {
  pets: Pet[] = []
  lastId: Int64 = 0
  readonly asked: unknown[] = []

  async list(query: ListQuery): Promise<Pet[]> {
    this.asked.push(['list', query])
    const { limit, after, status } = query
    const found = this.pets.filter((pet) => pet.id > after && (status ?? pet.status) === pet.status)
    return found.slice(0, limit)
  }

  async get(id: Int64): Promise<Pet | null> {
    this.asked.push(['get', id])
    return this.pets.find((pet) => pet.id === id) ?? null
  }

  async add(pets: readonly NewPet[]): Promise<Pet[]> {
    this.asked.push(['add', pets])
    const added = pets.map((pet) => {
      const id = BigInt(this.lastId) + 2n
      this.lastId = Number.isSafeInteger(Number(id)) ? Number(id) : id
      return { ...pet, id: this.lastId }
    })
    this.pets.push(...added)
    return added
  }

  async reset(pets: readonly InitialPet[]): Promise<void> {
    this.asked.push(['reset', pets])
    this.pets = pets.map((pet, at) => ({ ...pet, id: pet.id ?? at + 1 }))
    this.lastId = this.pets.at(-1)?.id ?? 0
  }

  async close(): Promise<void> {
    this.asked.push(['close'])
  }
}

/** The status, and the body, or the code of the error. */
async function ask(petstore: Petstore, method: string, path: string): Promise<string> {
  const answer = await send(petstore, method, path, method === 'POST' ? { body: BODY } : {})
  return `${answer.status} ${answer.status < 400 ? answer.body : JSON.parse(answer.body).code}`
}

test('it is served as any other', async (t) => {
  const store = new OwnStore()
  const petstore = await start(t, { store })
  assert.equal(await ask(petstore, 'POST', '/v1/pets'), `201 ${rex(2)}`)
  assert.deepEqual(await petstore.add([REX, { ...REX, status: undefined }]), [
    { id: 4, ...REX },
    { id: 6, name: 'Rex', categoryId: 2n ** 62n },
  ])
  assert.equal(await ask(petstore, 'GET', '/v1/pets/2'), `200 ${rex(2)}`)
  assert.equal(await ask(petstore, 'GET', '/v1/pets/3'), '404 not_found')
  assert.equal(await ask(petstore, 'GET', '/v1/pets?status=sold'), `200 [${rex(2)},${rex(4)}]`)
  assert.deepEqual(store.asked, [
    ['add', [REX]],
    ['add', [REX, { name: 'Rex', categoryId: 2n ** 62n }]],
    ['get', 2],
    ['get', 3],
    ['list', { limit: 21, after: 0, status: 'sold' }],
  ])
  assert.deepEqual(await petstore.pets(), store.pets)
  await petstore.reset([{ id: 3, ...REX }])
  assert.deepEqual(await petstore.pets(), [{ id: 3, ...REX }])
  await petstore.reset()
  assert.deepEqual(store.pets, [])
})

test('its ids are exact beyond 2^53', async (t) => {
  const store = new OwnStore()
  const petstore = await start(t, { store })
  store.lastId = 2 ** 53 - 3
  const ids = [2n ** 53n - 1n, 2n ** 53n + 1n, 2n ** 53n + 3n]
  for (const id of ids) {
    const { headers, body } = await send(petstore, 'POST', '/v1/pets', { body: BODY })
    assert.deepEqual([headers.location, body], [`/v1/pets/${id}`, rex(id)])
    assert.equal(await ask(petstore, 'GET', `/v1/pets/${id}`), `200 ${rex(id)}`)
  }
  const page = await send(petstore, 'GET', '/v1/pets?limit=1&after=9007199254740992')
  assert.equal(page.headers['link'], '</v1/pets?limit=1&after=9007199254740993>; rel="next"')
  assert.deepEqual(store.asked.slice(-3), [
    ['add', [REX]],
    ['get', 9007199254740995n],
    ['list', { limit: 2, after: 9007199254740992n, status: undefined }],
  ])
})

test('JSON is the server’s: members in their order, and no others', async (t) => {
  const store = new OwnStore()
  const petstore = await start(t, { store })
  const row = { status: 'sold', owner: 'Ann', name: 'Rex', categoryId: 2n ** 62n, id: 7 } as const
  store.pets.push(row)
  store.add = async () => [row]
  assert.equal(await ask(petstore, 'GET', '/v1/pets/7'), `200 ${rex(7)}`)
  assert.equal(await ask(petstore, 'GET', '/v1/pets'), `200 [${rex(7)}]`)
  assert.equal(await ask(petstore, 'POST', '/v1/pets'), `201 ${rex(7)}`)
})

const NO_PETS: readonly unknown[] = [
  ...[
    '',
    new Set(),
    undefined,
    null,
    7,
    'text',
    {},
    [null],
    [{}],
    [{ ...REX, id: 1, name: 5 }],
    [{ ...REX }],
  ],
  ...[
    [{ id: '1', ...REX }],
    [{ id: 0, ...REX }],
    [{ id: 1.5, ...REX }],
    [{ id: 2n ** 63n, ...REX }],
  ],
  [{ id: 1, ...REX, status: 'gone' }],
  [{ id: 1, name: 'Rex', categoryId: 2n ** 63n }],
]

/** Each function, how it is reached, and what it must not resolve to. */
const CALLS = {
  list: [
    ['GET', '/v1/pets?after=1'],
    [
      ...NO_PETS,
      [
        { id: 3, ...REX },
        { id: 2, ...REX },
      ],
      [{ id: 1, ...REX }],
    ],
  ],
  get: [
    ['GET', '/v1/pets/1'],
    [7, 'text', {}, [], { ...REX }, { id: '1', ...REX }],
  ],
  add: [
    ['POST', '/v1/pets'],
    [
      ...NO_PETS,
      [],
      [
        { id: 1, ...REX },
        { id: 2, ...REX },
      ],
    ],
  ],
} as const

/** What may be thrown. */
const THROWN: readonly unknown[] = [
  ...[new Error('on fire'), undefined, null, 'on fire', 7n, Symbol('on fire'), {}, []],
  Object.create(null),
  Object.assign(new Error('on fire'), { code: 5 }),
  new AggregateError([new Error('on fire')]),
]

for (const name of ['list', 'get', 'add'] as const) {
  test(`${name}: what it throws or returns wrongly is 503, and ends nothing`, async (t) => {
    const [[method, path], wrong] = CALLS[name]
    const store = new OwnStore()
    const petstore = await start(t, { store })
    const failures: (() => unknown)[] = [
      ...wrong.map((value) => async () => value),
      ...THROWN.map((value) => () => Promise.reject(value)),
      ...THROWN.map((value) => () => {
        throw value
      }),
    ]
    for (const failure of failures) {
      Object.assign(store, { [name]: failure })
      assert.equal(await ask(petstore, method, path), '503 storage_failed', String(failure))
      assert.equal(await ask(petstore, 'GET', '/readyz'), '200 {"ok":true}')
    }
    Reflect.deleteProperty(store, name)
    await store.reset([REX])
    assert.match(await ask(petstore, method, path), /^20[01] /)
  })
}

test('a promise among the pets that rejects is 503, and ends nothing', async (t) => {
  const store = new OwnStore()
  const petstore = await start(t, { store })
  const forgetful = async (): Promise<unknown[]> => [Promise.reject(new Error('on fire'))]
  Object.assign(store, { list: forgetful, add: forgetful })
  assert.equal(await ask(petstore, 'GET', '/v1/pets'), '503 storage_failed')
  assert.equal(await ask(petstore, 'POST', '/v1/pets'), '503 storage_failed')
})

test('the log has the cause, and callers get it', async (t) => {
  const store = new OwnStore()
  const petstore = await start(t, { store, log: 'json' })
  const log = logOf(t)
  const cause = new Error('the database is on fire')
  const fail = (): Promise<never> => Promise.reject(cause)
  Object.assign(store, { list: fail, get: fail, add: fail, reset: fail })
  for (const request of ['GET /v1/pets', 'GET /v1/pets/1', 'POST /v1/pets']) {
    const [method = '', path = ''] = request.split(' ')
    log.text = ''
    assert.equal(await ask(petstore, method, path), '503 storage_failed')
    assert.match(log.text, /"level":"warn".*"cause":"[^"]*the database is on fire/)
  }
  const expected = { code: 'storage_failed', message: /the database is on fire/ }
  await assert.rejects(petstore.pets(), expected)
  await assert.rejects(petstore.add([REX]), expected)
  await assert.rejects(petstore.reset(), expected)
  for (const thrown of THROWN) {
    store.reset = () => Promise.reject(thrown)
    await assert.rejects(petstore.reset(), { code: 'storage_failed' })
  }
})

test('a store without room rejects with store_full, which is 507', async (t) => {
  const store = new OwnStore()
  const petstore = await start(t, { store })
  store.add = () => Promise.reject(FULL)
  store.reset = () => Promise.reject(FULL)
  assert.equal(await ask(petstore, 'POST', '/v1/pets'), '507 store_full')
  await assert.rejects(petstore.add([REX]), { code: 'store_full' })
  await assert.rejects(petstore.reset([REX]), { code: 'store_full' })
})

test('add() adds all in one call', async (t) => {
  const store = new OwnStore()
  const petstore = await start(t, { store })
  await petstore.add([REX, REX, REX])
  assert.deepEqual(store.asked, [['add', [REX, REX, REX]]])
})

test('it is closed once; if that fails, so does close()', async (t) => {
  const store = new OwnStore()
  const petstore = await startPetstore({ store })
  await Promise.all([petstore.close(), petstore.close()])
  assert.deepEqual(store.asked, [['close']])
  for (const thrown of THROWN) {
    store.close = () => Promise.reject(thrown)
    const failing = await startPetstore({ store, apiKeys: [KEY] })
    await assert.rejects(failing.close(), { code: 'storage_failed' })
  }
  // It does not hide why a start failed.
  const port = Number(new URL((await start(t)).url).port)
  await assert.rejects(startPetstore({ store, port }), { code: 'EADDRINUSE' })
})
