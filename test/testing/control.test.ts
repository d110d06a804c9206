// The test controls over HTTP, and the same ones in process: one state, whichever way it is reached.
import assert from 'node:assert/strict'
import { mkdirSync, rmSync } from 'node:fs'
import { test, type TestContext } from 'node:test'
import type { PetstoreOptions } from '../../src/index.ts'
import { type Answer, assertError, assertNext, folderOf, send, start } from '../support.ts'
import { open, request, REX } from '../http/raw.ts'

async function startControls(t: TestContext, options: PetstoreOptions = {}) {
  const petstore = await start(t, { controlPort: 0, ...options })
  const { controlUrl: url = '' } = petstore
  const call = (method: string, path: string, body?: unknown, headers = {}): Promise<Answer> => {
    const content = typeof body === 'object' ? JSON.stringify(body) : String(body ?? '')
    return send({ url }, method, path, { headers: { authorization: '', ...headers }, body: content })
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

test('each control takes its methods and no other', async (t) => {
  const { call } = await startControls(t)
  for (const [path, allow] of [
    ['/get-pet', 'OPTIONS, PUT'],
    ['/reset', 'OPTIONS, POST'],
    ['/pets', 'GET, HEAD, OPTIONS, POST'],
    ['/requests', 'DELETE, GET, HEAD, OPTIONS'],
    ['/faults', 'DELETE, GET, HEAD, OPTIONS, POST'],
  ] as const) {
    for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']) {
      const answer = await call(method, path, { POST: path === '/faults' ? FAULT : [], PUT: '"gone"' }[method])
      const isAllowed = allow.split(', ').includes(method)
      if (method === 'OPTIONS' || !isAllowed) assert.equal(answer.headers.allow, allow)
      if (!isAllowed && method !== 'HEAD') assertError(answer, 405, 'method_not_allowed')
      else assert.ok((isAllowed ? [200, 201, 204] : [405]).includes(answer.status), `${method} ${answer.status}`)
      if (answer.status !== 204) assert.equal(answer.headers['cache-control'], 'no-store')
    }
  }
})

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
    ['/pets', '[{"id":1,"name":"Rex","categoryId":1}]', 'invalid_pet', /: in item 1, id must be left out: the store/],
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
    assertError(await call('POST', path, '[]', { 'content-type': 'text/plain' }), 415, 'unsupported_media_type')
    for (const [bytes, status] of Object.entries({ [2 ** 26]: 100, [2 ** 26 + 1]: 413 })) {
      const lines = ['Host: x', 'Expect: 100-continue', `Content-Length: ${bytes}`]
      await assertNext(await open(t, { url }, request(`POST ${path} HTTP/1.1`, lines)), status)
    }
  }
  assert.equal((await call('POST', '/pets', `[${REX}]`)).status, 201)
})

test('pets are one state over HTTP and in process, exact over all of int64', async (t) => {
  const { petstore, call, list } = await startControls(t)
  const bounds = [-(2n ** 63n), 2n ** 63n - 1n] as const
  const [least, most] = bounds.map((categoryId) => `"name":"\\ud800","categoryId":${categoryId}}`)
  const added = await call('POST', '/pets', `[{${least},{${most}]`)
  const expected = `[{"id":1,${least},{"id":2,${most}]`
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
  const fault = { ...FAULT, times: 1 }
  petstore.inject({ operation: 'getPet', hangUp: true, times: 3 })
  const injected = await call('POST', '/faults', FAULT)
  assert.deepEqual([injected.status, JSON.parse(injected.body)], [201, fault])
  assert.deepEqual(petstore.pendingFaults, [{ operation: 'getPet', hangUp: true, times: 3 }, fault])
  assert.deepEqual(JSON.parse((await call('GET', '/faults')).body), petstore.pendingFaults)
  assertError(await send(petstore, 'GET', '/v1/pets'), 500, 'injected_fault')
  for (const path of ['/requests', '/faults']) assert.equal((await call('DELETE', path)).status, 204)
  assert.deepEqual([petstore.pendingFaults, petstore.requests], [[], []])
})

test('the wait for requests ends as soon as so many are there, also when they were before', async (t) => {
  const { petstore, call, list } = await startControls(t)
  const seen = (requests: { operation: string | null; status: number | null }[]) =>
    requests.map(({ operation, status }) => `${operation} ${status}`).join()
  const wait = (...given: Parameters<typeof petstore.waitForRequests>) => petstore.waitForRequests(...given).then(seen)
  const ask = async (query: string) => seen(JSON.parse((await call('GET', `/requests?${query}`)).body))
  assert.deepEqual([await wait(0), await ask('')], ['', ''])
  const failed = { operation: 'listPets', status: 503, timeout: 600_000 } as const
  const waits = [wait(2, failed), ask('operation=listPets&status=503&count=2&wait=600'), wait(3), ask('count=3')]
  petstore.inject({ operation: 'listPets', status: 503, times: 2, after: 1 })
  for (let times = 0; times < 3; times++) await list()
  const [lists, all] = ['listPets 503,listPets 503', 'listPets 200,listPets 503,listPets 503']
  assert.deepEqual(await Promise.all(waits), [lists, lists, all, all])
  await petstore.fetch(petstore.url)
  assert.deepEqual([await wait(1, { status: 503 }), await ask('status=503&count=2&wait=0')], [lists, lists])
  assert.deepEqual([await wait(2), await ask('operation=createPet')], [`${all},null 401`, ''])
})

test('the wait for requests that do not come is 408, and lists those that came', async (t) => {
  const { petstore, call, list } = await startControls(t)
  const none = 'Waited for 1 requests; the requests were: none'
  await assert.rejects(petstore.waitForRequests(1, { timeout: 0 }), { message: none })
  await list()
  await petstore.fetch(petstore.url)
  const message = 'Waited for 2 createPet 503; the requests were: listPets 200, none 401'
  await assert.rejects(petstore.waitForRequests(2, { operation: 'createPet', status: 503, timeout: 0 }), { message })
  const answer = await call('GET', '/requests?operation=createPet&status=503&count=2&wait=0.001')
  assert.equal(assertError(answer, 408, 'request_timeout'), message)
  const long = { timeout: 600_000 }
  const waits = [petstore.waitForRequests(3, long), petstore.waitForRequests(1, { ...long, status: 500 })]
  const closing = waits.map((waiting) =>
    assert.rejects(waiting, { message: /^Waited for (3 requests|1 requests 500); the requests were: listPets 200, / }),
  )
  await petstore.close()
  await Promise.all(closing)
})

test('a wait that is wrong is refused in the same words in process and over HTTP', async (t) => {
  const { petstore, call } = await startControls(t, { journal: 5 })
  for (const [name, message, query, count, options] of [
    ['RangeError', 'count 6 must be an integer from 0 to 5, the option journal', 'count=6', 6, {}],
    ['RangeError', 'count NaN must be an integer from 0 to 5, the option journal', 'count=x', NaN, undefined],
    ['RangeError', 'status 99 must be an integer from 100 to 599', 'status=99', 0, { status: 99 }],
    ['RangeError', 'timeout 600001 must be an integer from 0 to 600000', 'wait=600.001', 0, { timeout: 600_001 }],
    ['RangeError', /^operation 'page' must be one of listPets, /, 'operation=page', 0, { operation: 'page' }],
    ['TypeError', /^options must not have 'path'; known are operation, status, timeout$/, 'path=/', 0, { path: '/' }],
  ] as const) {
    const waiting: Promise<unknown> = Reflect.apply(petstore.waitForRequests, undefined, [count, options])
    await assert.rejects(waiting, { name, message })
    const answer = assertError(await call('GET', `/requests?${query}`), 400, 'bad_request')
    if (message instanceof RegExp) assert.match(answer, message)
    else assert.equal(answer, message)
  }
})

test('getPet goes and comes back while clients run, in process and over HTTP, and its document with it', async (t) => {
  const { petstore, call } = await startControls(t, { pets: [TOM] })
  const seen = async () => {
    const { paths } = JSON.parse((await send(petstore, 'GET', '/openapi.json')).body)
    const documented = '410' in paths['/pets/{petId}'].get.responses
    return [petstore.getPet, (await send(petstore, 'GET', '/v1/pets/1')).status, documented]
  }
  const [there, gone] = [['deprecated', 200, false], ['gone', 410, true]] // prettier-ignore
  assert.deepEqual(await seen(), there)
  petstore.getPet = 'gone'
  assert.deepEqual(await seen(), gone)
  assert.equal((await call('PUT', '/get-pet', '"deprecated"')).status, 204)
  assert.deepEqual(await seen(), there)
  assert.equal((await call('PUT', '/get-pet', '"gone"')).status, 204)
  for (const body of ['', 'gone', '"Gone"', '{}', 'null', '1']) {
    const message = assertError(await call('PUT', '/get-pet', body), 400, 'bad_request')
    assert.match(message, /^(getPet .* must be one of deprecated, gone|The body must be .deprecated. or .gone.: .*)$/)
  }
  assert.throws(() => Object.assign(petstore, { getPet: 'Gone' }), /^RangeError: getPet 'Gone' must/)
  assert.deepEqual(await seen(), gone)
  await petstore.reset()
  assert.deepEqual(await seen(), there)
})

test('POST /reset begins with the pets given, else with those of the start, without requests and faults', async (t) => {
  const OLD = { ...TOM, age: 9 }
  const rows = [[undefined, [TOM]], ['', [TOM]], [[], []], [[OLD, TOM], [TOM, TOM]]] as const // prettier-ignore
  for (const [body, pets] of rows) {
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
  await assert.rejects(petstore.add(long), /^RangeError: Cannot add pet 1 of 1: the store has no room for it$/)
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
const DELAYS = 'must be an integer from 0 to 600000, or a range of that: [MIN, MAX], as a flag MIN-MAX'
const NO_SEED = 'seed must be with a rate or a delay of [min, max]'
const NO_PET = 'petId must be with the operation getPet: no other has one'
const NONE = 'fault must have a status, a delay, hangUp or a body'
const KNOWN = 'known are operation, petId, after, times, rate, seed, status, retryAfter, delay, hangUp, body'
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
  ['TypeError', NONE, ANY, { ...ANY, rate: 0.5, times: 'always', after: 1 }, { ...ANY, hangUp: false }],
  ['TypeError', NO_RETRY, { ...FAULT, retryAfter: 1 }, { ...ANY, delay: 1, retryAfter: 1 }],
  ['TypeError', NO_ANSWER, { ...FAULT, hangUp: true }, { ...ANY, hangUp: true, body: 'cut' }],
  ['TypeError', 'hangUp 1 must be true or false', { ...ANY, hangUp: 1 }],
  ['RangeError', "body 'whole' must be one of cut, garbled", { ...FAULT, body: 'whole' }],
  ['TypeError', 'body true must be one of cut, garbled', { ...FAULT, body: true }],
  ['TypeError', NO_SEED, { ...FAULT, seed: 1 }, { ...FAULT, seed: 1, delay: 5 }],
  ['TypeError', NO_PET, { ...FAULT, petId: 1 }, { ...ANY, petId: 1, status: 500 }],
  ['RangeError', 'rate 0 must be a number above 0, and at most 1', { ...FAULT, rate: 0 }],
  ['RangeError', 'rate 1.01 must be a number above 0, and at most 1', { ...FAULT, rate: 1.01 }],
  ['TypeError', "times 'never' must be an integer from 1 to 1000000, or always", { ...FAULT, times: 'never' }],
  ['RangeError', `delay [ 5, 4 ] ${DELAYS}`, { ...ANY, delay: [5, 4] }],
]
const GOOD_FAULTS: object[] = [
  { ...ANY, delay: [0, 600_000] },
  { ...ANY, body: 'garbled', rate: 1, seed: 0 },
]
for (const [member, min, max] of [
  ['status', 400, 599],
  ['times', 1, 1_000_000],
  ['retryAfter', 0, 86_400],
  ['delay', 0, 600_000],
  ['after', 0, 1_000_000],
  ['petId', 1, 999_999_999_999_999],
  ['seed', 0, 2 ** 32 - 1],
] as const) {
  const more = { times: ', or always', delay: DELAYS.slice(DELAYS.indexOf(',')) }[String(member)] ?? ''
  const mustBe = `must be an integer from ${min} to ${max}${more}`
  const base = member === 'status' ? FAULT : { status: 503 }
  const withMember = (value: unknown) => ({ ...base, operation: 'getPet', rate: 1, [member]: value })
  for (const value of [min - 1, max + 1, min + 0.5]) {
    BAD_FAULTS.push(['RangeError', `${member} ${value} ${mustBe}`, withMember(value)])
  }
  for (const value of [true, null]) BAD_FAULTS.push(['TypeError', `${member} ${value} ${mustBe}`, withMember(value)])
  BAD_FAULTS.push(['TypeError', `${member} '1' ${mustBe}`, withMember('1')])
  GOOD_FAULTS.push(withMember(min), withMember(max))
}

test('a fault that is wrong is refused in the same words in process and over HTTP; its bounds are not', async (t) => {
  const { petstore, call } = await startControls(t)
  for (const [name, message, ...faults] of BAD_FAULTS) {
    for (const fault of faults) {
      assert.throws(() => Reflect.apply(petstore.inject, undefined, [fault]), { name, message })
      assert.equal(assertError(await call('POST', '/faults', JSON.stringify(fault)), 400, 'bad_request'), message)
    }
  }
  assert.deepEqual(petstore.pendingFaults, [])
  for (const fault of GOOD_FAULTS)
    assert.equal((await call('POST', '/faults', fault)).status, 201, JSON.stringify(fault))
})
