// The test controls over HTTP, and the same ones in process: one state, whichever way it is reached.
import assert from 'node:assert/strict'
import { mkdirSync, rmSync } from 'node:fs'
import { test, type TestContext } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { createPetstore, type PetstoreOptions } from '../../src/index.ts'
import { type Answer, assertError, assertNext, folderOf, send, start } from '../support.ts'
import { open, request, REX } from '../http/raw.ts'

/** A petstore, and a way to its test controls. */
async function startControls(t: TestContext, options: PetstoreOptions = {}) {
  const petstore = await start(t, { controlPort: 0, ...options })
  const { controlUrl: url = '' } = petstore
  const call = (method: string, path: string, body?: unknown, headers = {}): Promise<Answer> => {
    const content = body === undefined ? {} : { body: typeof body === 'object' ? JSON.stringify(body) : String(body) }
    return send({ url }, method, path, { headers: { authorization: '', ...headers }, ...content })
  }
  return { petstore, url, call, list: async () => (await send(petstore, 'GET', '/v1/pets')).body }
}

const TOM = { name: 'Tom', categoryId: 2 }
const FAULT = { operation: 'listPets', status: 500 } as const

test('the controls need no key, stand at an address of their own, and end with the petstore', async (t) => {
  const { petstore, url, call } = await startControls(t)
  assert.match(url, /^http:\/\/127\.0\.0\.1:\d+$/)
  for (const path of ['/pets', '/requests', '/faults']) assert.equal((await call('GET', path)).body, '[]')
  for (const path of ['/reset', '/requests', '/faults']) {
    assertError(await send(petstore, 'POST', path, { body: '[]' }), 404, 'not_found')
    assertError(await send(petstore, 'GET', `/v1${path}`), 404, 'not_found')
    assertError(await send(petstore, 'GET', `/v1${path}`, { headers: { authorization: '' } }), 401, 'unauthorized')
  }
  for (const path of ['/', '/v1/pets', '/livez', '/reset/', '/Pets', '/pets/1', '/%zz']) {
    assertError(await call('GET', path), 404, 'not_found')
  }
  await petstore.close()
  await assert.rejects(call('GET', '/pets'), { code: 'ECONNREFUSED' })
})

for (const [path, allow] of [
  ['/reset', 'OPTIONS, POST'],
  ['/pets', 'GET, HEAD, OPTIONS, POST'],
  ['/requests', 'DELETE, GET, HEAD, OPTIONS'],
  ['/faults', 'DELETE, GET, HEAD, OPTIONS, POST'],
] as const) {
  test(`the control ${path} takes ${allow} and no other method`, async (t) => {
    const { call } = await startControls(t)
    for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']) {
      const answer = await call(method, path, method === 'POST' ? (path === '/faults' ? FAULT : []) : undefined)
      const isAllowed = allow.split(', ').includes(method)
      if (method === 'OPTIONS' || !isAllowed) assert.equal(answer.headers.allow, allow)
      if (!isAllowed && method !== 'HEAD') assertError(answer, 405, 'method_not_allowed')
      else assert.ok((isAllowed ? [200, 201, 204] : [405]).includes(answer.status), `${method} ${answer.status}`)
      if (answer.status === 204) continue
      assert.equal(answer.headers['content-type'], 'application/json')
      assert.equal(answer.headers['cache-control'], 'no-store')
    }
  })
}

test('a body that is wrong is told from the beginning or by its item, and changes nothing', async (t) => {
  const { petstore, url } = await startControls(t, { pets: [TOM] })
  for (const [path, body, code, message] of [
    ['/reset', '[', 'bad_request', /^The body must be an array of NewPet: Unexpected end/],
    ['/reset', ' ', 'bad_request', /^The body must be an array of NewPet: /],
    ['/reset', 'null', 'invalid_pet', /^The body must be an array of NewPet: ./],
    ['/reset', '[{}]', 'invalid_pet', /: in item 1, name is required and must be a string; categoryId is required /],
    ['/pets', '', 'bad_request', /^The body must be an array of NewPet: /],
    ['/pets', `[${REX},3]`, 'invalid_pet', /: in item 2, a pet must be an object$/],
    ['/pets', `[${REX.replace('1', '9223372036854775808')}]`, 'invalid_pet', /: in item 1, categoryId must/],
    ['/faults', '', 'bad_request', /^The body must be a fault: Unexpected end/],
    ['/faults', '\xff', 'bad_request', /^The body must be a fault: it is not valid UTF-8$/],
  ] as const) {
    const answer = await send({ url }, 'POST', path, { body: Buffer.from(body, 'latin1') })
    assert.match(assertError(answer, 400, code), message)
    assert.deepEqual([petstore.pets, petstore.pendingFaults], [[{ id: 1, ...TOM }], []])
  }
})

test('the controls refuse another media type and a body beyond 64 MiB, which maxBody does not change', async (t) => {
  const { call, url } = await startControls(t, { maxBody: 10 })
  for (const path of ['/reset', '/pets', '/faults']) {
    const headers = { 'content-type': 'text/plain' }
    assertError(await call('POST', path, '[]', headers), 415, 'unsupported_media_type')
    for (const [bytes, status] of Object.entries({ [2 ** 26]: 100, [2 ** 26 + 1]: 413 })) {
      const lines = ['Host: x', 'Expect: 100-continue', `Content-Length: ${bytes}`]
      await assertNext(await open(t, { url }, request(`POST ${path} HTTP/1.1`, lines)), status)
    }
  }
  assert.equal((await call('POST', '/pets', `[${REX}]`)).status, 201)
})

test('pets are one state over HTTP and in process, exact over all of int64', async (t) => {
  const { petstore, call, list } = await startControls(t)
  const json = (id: number, categoryId: bigint) => `{"id":${id},"name":"\\ud800","categoryId":${categoryId}}`
  const bounds = [-(2n ** 63n), 2n ** 63n - 1n] as const
  const added = await call('POST', '/pets', `[${bounds.map((one) => json(7, one)).join()}]`)
  const expected = `[${bounds.map((one, at) => json(at + 1, one)).join()}]`
  assert.deepEqual([added.status, added.body], [201, expected])
  const pets = bounds.map((categoryId, at) => ({ id: at + 1, name: '\ud800', categoryId }))
  assert.deepEqual(petstore.pets, pets)
  const pet = { name: '', categoryId: 2n ** 53n }
  assert.deepEqual(await petstore.add(pet), [{ id: 3, ...pet }])
  const more = `${expected.slice(0, -1)},{"id":3,"name":"","categoryId":9007199254740992}]`
  assert.deepEqual([(await call('GET', '/pets')).body, await list()], [more, more])
})

test('requests and faults are one state, and those of the controls are no requests', async (t) => {
  const { petstore, call, list } = await startControls(t)
  await list()
  await petstore.fetch(`${petstore.url}/cats`)
  assert.equal(petstore.requests.length, 2)
  assert.deepEqual(JSON.parse((await call('GET', '/requests')).body), petstore.requests)
  assert.deepEqual((await call('DELETE', '/requests')).status, 204)
  const injected = await call('POST', '/faults', { ...FAULT, status: 503, retryAfter: 2 })
  const fault = { operation: 'listPets', status: 503, retryAfter: 2, times: 1 } as const
  assert.deepEqual([injected.status, JSON.parse(injected.body)], [201, fault])
  petstore.inject({ operation: '*', hangUp: true, times: 3 })
  assert.deepEqual(petstore.pendingFaults, [fault, { operation: '*', hangUp: true, times: 3 }])
  assert.deepEqual(JSON.parse((await call('GET', '/faults')).body), petstore.pendingFaults)
  assertError(await send(petstore, 'GET', '/v1/pets'), 503, 'injected_fault')
  assert.equal((await call('DELETE', '/faults')).status, 204)
  assert.deepEqual([petstore.pendingFaults, petstore.requests.length], [[], 1])
  petstore.inject({ operation: '*', hangUp: true })
  assert.deepEqual(JSON.parse((await call('POST', '/faults', FAULT)).body), { ...FAULT, times: 1 })
  petstore.clearFaults()
  petstore.clearRequests()
  assert.deepEqual([petstore.pendingFaults, petstore.requests], [[], []])
  petstore.inject({ operation: '*', delay: 600_000 })
  const delayed = assert.rejects(list(), { code: 'ECONNRESET' })
  while (petstore.pendingFaults.length > 0) await turn()
  await call('DELETE', '/faults')
  await delayed
  petstore.inject({ operation: '*', delay: 1 })
  assert.equal(await list(), '[]')
})

test('POST /reset begins with the pets given, else with those of the start, without requests and faults', async (t) => {
  const REX = { name: 'Rex', categoryId: 1 }
  for (const [body, pets] of [
    [undefined, [TOM]],
    ['', [TOM]],
    [[], []],
    [
      [{ ...TOM, id: 9 }, REX],
      [TOM, REX],
    ],
  ] as const) {
    const { petstore, call, list } = await startControls(t, { pets: [TOM] })
    await petstore.add(TOM, TOM)
    await list()
    petstore.inject(FAULT)
    const answer = await call('POST', '/reset', body)
    assert.deepEqual([answer.status, answer.body, answer.headers['content-type']], [204, '', undefined])
    const expected = pets.map((pet, at) => ({ id: at + 1, ...pet }))
    assert.deepEqual([petstore.pets, petstore.requests, petstore.pendingFaults], [expected, [], []])
    assert.equal((await petstore.add(TOM))[0]?.id, pets.length + 1)
  }
})

test('a store that is full is 507: what came before is there, and nothing after; a reset changes nothing', async (t) => {
  const { petstore, call } = await startControls(t, { maxStore: 300 })
  const long = { name: 'x'.repeat(300), categoryId: 1 }
  const add = await call('POST', '/pets', [TOM, long, TOM])
  assert.equal(assertError(add, 507, 'store_full'), 'Cannot add pet 2 of 3: the store has no room for it')
  petstore.inject(FAULT)
  const full = 'Cannot reset to 2 pets: they do not fit'
  assert.equal(assertError(await call('POST', '/reset', [long, TOM]), 507, 'store_full'), full)
  await assert.rejects(petstore.reset([long, TOM]), { name: 'RangeError', message: full })
  const message = 'Cannot add pet 1 of 1: the store has no room for it'
  await assert.rejects(petstore.add(long), { name: 'RangeError', message })
  assert.deepEqual([petstore.pets, petstore.pendingFaults.length], [[{ id: 1, ...TOM }], 1])
})

test('a reset that cannot be written is 503 and changes nothing, and the next one that can is done', async (t) => {
  const folder = `${folderOf(t)}/pets`
  mkdirSync(folder)
  const { petstore, call } = await startControls(t, { snapshot: `${folder}/pets.json`, pets: [TOM] })
  petstore.inject(FAULT)
  rmSync(folder, { recursive: true })
  assertError(await call('POST', '/reset', []), 503, 'storage_failed')
  await assert.rejects(petstore.reset([]))
  assert.deepEqual([petstore.pets.length, petstore.pendingFaults.length], [1, 1])
  mkdirSync(folder)
  assert.equal((await call('POST', '/reset', [TOM, TOM])).status, 204)
  assert.deepEqual([petstore.pets.length, petstore.pendingFaults.length], [2, 0])
})

const OPERATIONS = 'must be one of listPets, createPet, getPet, listOrders, *'
const NONE = 'fault must have a status, a delay, hangUp or a body'
const KNOWN = 'known are operation, times, status, retryAfter, delay, hangUp, body'
const NO_RETRY = 'retryAfter must be with status 429 or 503'
const NO_ANSWER = 'hangUp must be without status and body: there is no response'
const ANY = { operation: '*' }
const BAD_FAULTS: [name: 'TypeError' | 'RangeError', message: string, ...faults: unknown[]][] = [
  ['TypeError', 'fault null must be an object', null],
  ['TypeError', "fault 'x' must be an object", 'x'],
  ['TypeError', `operation is required and ${OPERATIONS}`, [], {}, { status: 500 }],
  ['TypeError', `operation 1 ${OPERATIONS}`, { ...FAULT, operation: 1 }],
  ['TypeError', `operation null ${OPERATIONS}`, { ...FAULT, operation: null }],
  ['RangeError', `operation 'livez' ${OPERATIONS}`, { ...FAULT, operation: 'livez' }],
  ['RangeError', `operation '' ${OPERATIONS}`, { ...FAULT, operation: '' }],
  ['TypeError', `fault must not have 'code'; ${KNOWN}`, { ...FAULT, code: 5 }],
  ['TypeError', `fault must not have '__proto__'; ${KNOWN}`, JSON.parse('{"__proto__":{}}')],
  ['TypeError', NONE, ANY, { ...ANY, times: 2 }, { ...ANY, hangUp: false }],
  ['TypeError', NO_RETRY, { ...FAULT, retryAfter: 1 }, { ...ANY, delay: 1, retryAfter: 1 }],
  ['TypeError', NO_ANSWER, { ...FAULT, hangUp: true }, { ...ANY, hangUp: true, body: 'cut' }],
  ['TypeError', 'hangUp 1 must be true or false', { ...ANY, hangUp: 1 }],
  ['RangeError', "body 'whole' must be one of cut", { ...FAULT, body: 'whole' }],
  ['TypeError', 'body true must be one of cut', { ...FAULT, body: true }],
]
for (const [member, min, max] of [
  ['status', 400, 599],
  ['times', 1, 1_000_000],
  ['retryAfter', 0, 86_400],
  ['delay', 0, 600_000],
] as const) {
  const mustBe = `must be an integer from ${min} to ${max}`
  const withMember = (value: unknown) => ({ ...FAULT, status: 503, [member]: value })
  for (const value of [min - 1, max + 1, min + 0.5]) {
    BAD_FAULTS.push(['RangeError', `${member} ${value} ${mustBe}`, withMember(value)])
  }
  for (const value of [true, null]) BAD_FAULTS.push(['TypeError', `${member} ${value} ${mustBe}`, withMember(value)])
  BAD_FAULTS.push(['TypeError', `${member} '1' ${mustBe}`, withMember('1')])
}

test('a fault that is wrong is refused in the same words in process and over HTTP', async (t) => {
  const { petstore, call } = await startControls(t)
  for (const [name, message, ...faults] of BAD_FAULTS) {
    for (const fault of faults) {
      assert.throws(() => Reflect.apply(petstore.inject, undefined, [fault]), { name, message })
      assert.equal(assertError(await call('POST', '/faults', JSON.stringify(fault)), 400, 'bad_request'), message)
    }
  }
  assert.deepEqual(petstore.pendingFaults, [])
})

test('a fault may have the least and the most of every member', () => {
  const petstore = createPetstore()
  for (const status of [400, 599]) petstore.inject({ operation: '*', status, times: 1_000_000, delay: 600_000 })
  for (const retryAfter of [0, 86_400]) petstore.inject({ operation: '*', status: 429, retryAfter, times: 1, delay: 0 })
  assert.equal(petstore.pendingFaults.length, 4)
})
