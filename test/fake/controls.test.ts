// The test controls over HTTP: what each does, what it refuses, and whom.
import assert from 'node:assert/strict'
import { request } from 'node:http'
import { once } from 'node:events'
import { test, type TestContext } from 'node:test'
import { MemoryStore } from '../../src/pets/memory-store.ts'
import type { Petstore, StartOptions, Store } from '../../src/types.ts'
import { send, start } from '../support.ts'

const TOM = { name: 'Tom', categoryId: 7 }
const LARGE = '{"id":9007199254740993,"name":"Rex","categoryId":-9223372036854775808}'

interface Controlled {
  petstore: Petstore
  controls: { url: string }
  /** Sends a request, and returns its status and body. */
  ask: (method: string, path: string, body?: string, headers?: object) => Promise<string>
}

async function control(t: TestContext, options: StartOptions = {}): Promise<Controlled> {
  const petstore = await start(t, { pets: [TOM], controlPort: 0, ...options })
  const controls = { url: String(petstore.controlUrl) }
  const ask: Controlled['ask'] = async (method, path, body = '', more = {}) => {
    const answer = await send(controls, method, path, {
      headers: { authorization: '', ...more },
      body,
    })
    return `${answer.status} ${answer.body}`
  }
  return { petstore, controls, ask }
}

/** An answer's status and code, and its message, which must have no other members beside it. */
function errorOf(answer: string): string {
  const { code, message, status, ...rest } = JSON.parse(answer.slice(4))
  assert.deepEqual([rest, `${status}`], [{}, answer.slice(0, 3)])
  return `${status} ${code}: ${message}`
}

test('each control does what the petstore does in process, without a key', async (t) => {
  const { petstore, ask } = await control(t)
  assert.equal(await ask('GET', '/pets'), '200 [{"id":1,"name":"Tom","categoryId":7}]')
  assert.equal(
    await ask('POST', '/pets', '[{"name":"Max","categoryId":1.0,"status":"sold"}]'),
    '201 [{"id":2,"name":"Max","categoryId":1,"status":"sold"}]',
  )
  assert.equal(await ask('POST', '/pets', '[]'), '201 []')
  assert.equal(await ask('POST', '/reset', `[${LARGE}]`), '204 ')
  assert.equal(await ask('GET', '/pets'), `200 [${LARGE}]`) // integers stay exact

  const fault = { operation: 'listPets', times: 2, status: 503, headers: { 'Retry-After': '1' } }
  const pending = { ...fault, hits: 0 }
  assert.equal(
    await ask('POST', '/faults', JSON.stringify(fault)),
    `201 ${JSON.stringify(pending)}`,
  )
  assert.equal((await send(petstore, 'GET', '/v1/pets?a=b')).status, 503)
  const left = await ask('GET', '/faults')
  assert.deepEqual(JSON.parse(left.slice(4)), [{ ...pending, times: 1, hits: 1 }])
  assert.deepEqual(petstore.pendingFaults, JSON.parse(left.slice(4)))
  assert.equal(await ask('DELETE', '/faults'), '204 ')
  assert.deepEqual(petstore.pendingFaults, [])

  assert.equal(await ask('GET', '/requests'), `200 ${JSON.stringify(petstore.requests)}`)
  assert.equal(petstore.requests.length, 1) // those to the controls are not recorded
  assert.equal(await ask('DELETE', '/requests'), '204 ')
  assert.equal(await ask('GET', '/requests'), '200 []')
})

test('POST /reset restores the initial pets, whatever a client says of no body', async (t) => {
  const { petstore, ask } = await control(t)
  for (const headers of [{}, { 'content-type': 'text/plain', 'content-length': '0' }]) {
    await petstore.add([TOM])
    petstore.inject({ operation: 'getPet', status: 503 })
    await send(petstore, 'GET', '/v1/pets')
    assert.equal(await ask('POST', '/reset', '', headers), '204 ')
    assert.deepEqual(petstore.pets, [{ id: 1, ...TOM }])
    assert.deepEqual([petstore.requests, petstore.pendingFaults], [[], []])
  }
})

test('HEAD and OPTIONS are answered; other paths and methods are not there', async (t) => {
  const { ask } = await control(t)
  assert.equal(await ask('HEAD', '/pets'), '200 ')
  assert.equal(await ask('OPTIONS', '/requests'), '204 ')
  for (const path of ['/', '/livez', '/v1/pets', '/pets/', '/pets/1', '/Pets', '/%zz'])
    assert.match(errorOf(await ask('GET', path)), /^404 not_found: .* under \/$/)
  const refused = errorOf(await ask('PUT', '/faults'))
  assert.equal(
    refused,
    '405 method_not_allowed: The method must be one of DELETE, GET, HEAD, OPTIONS, POST',
  )
  assert.match(errorOf(await ask('GET', '/reset')), /^405 method_not_allowed: .* OPTIONS, POST$/)
})

const IN_PETS = '400 invalid_pet: pets are wrong: in item 1, '
const NO_COUNT = 'must be an integer from 0 to 1000'
const NO_WAIT = 'must be seconds from 0 to 600, such as 5 or 0.25'
const NO_STATUS = 'must be an integer from 100 to 599, or null'
const KNOWN = 'known are operation, status, count, wait'
const REFUSED: [error: string, method: string, path: string, body?: string, headers?: object][] = [
  ['415 unsupported_media_type: ', 'POST', '/pets', '[]', { 'content-type': 'text/plain' }],
  ['400 bad_request: the body must be JSON: Unexpected end of JSON input', 'POST', '/pets', ''],
  ['400 bad_request: the body must be JSON: it is not valid JSON', 'POST', '/reset', 'a-key'],
  ['400 bad_request: the body must be JSON: ', 'POST', '/faults', '{"operation":'],
  ['400 bad_request: fault must be an object', 'POST', '/faults', '[]'],
  ['400 invalid_pet: pets are wrong: it must be an array of pets', 'POST', '/reset', 'null'],
  ['400 invalid_pet: pets are wrong: it must be an array of pets', 'POST', '/pets', '{}'],
  [`${IN_PETS}name is required and must be a string; categoryId `, 'POST', '/pets', '[{}]'],
  [`${IN_PETS}id must be left out`, 'POST', '/pets', '[{"id":1,"name":"","categoryId":1}]'],
  [
    `${IN_PETS}id must be an integer above 0`,
    'POST',
    '/reset',
    '[{"id":0,"name":"","categoryId":1}]',
  ],
  [`400 bad_request: count 1001 ${NO_COUNT}`, 'GET', '/requests?count=1001'],
  [`400 bad_request: count '' ${NO_COUNT}`, 'GET', '/requests?count='],
  [`400 bad_request: count '-1' ${NO_COUNT}`, 'GET', '/requests?count=-1'],
  [`400 bad_request: wait 600.001 ${NO_WAIT}`, 'GET', '/requests?wait=600.001'],
  [`400 bad_request: wait '1s' ${NO_WAIT}`, 'GET', '/requests?wait=1s'],
  [`400 bad_request: wait null ${NO_WAIT}`, 'GET', '/requests?wait=null'],
  [`400 bad_request: status 600 ${NO_STATUS}`, 'GET', '/requests?status=600'],
  [`400 bad_request: status 'Null' ${NO_STATUS}`, 'GET', '/requests?status=Null'],
  ["400 bad_request: operation '*' must be one of ", 'GET', '/requests?operation=*'],
  [`400 bad_request: query must not have '__proto__'; ${KNOWN}`, 'GET', '/requests?__proto__=1'],
  [`400 bad_request: query must not have 'timeout'; ${KNOWN}`, 'GET', '/requests?timeout=5'],
  ['400 bad_request: query must name each parameter once', 'GET', '/requests?wait=1&wait=2'],
  ['400 bad_request: there must be no query', 'DELETE', '/faults?a'],
]

test('what the petstore would refuse is refused in its words, and changes nothing', async (t) => {
  const { petstore, ask } = await control(t)
  petstore.inject({ operation: 'getPet', status: 503 })
  for (const [error, method, path, body, headers] of REFUSED) {
    const answer = errorOf(await ask(method, path, body, headers))
    assert.ok(answer.startsWith(error), `${answer} for ${method} ${path} ${body}`)
  }
  assert.deepEqual([petstore.pets.length, petstore.pendingFaults.length], [1, 1])
})

test('a store that is full is 507; one that fails is 503', async (t) => {
  const small = await control(t, { maxStore: 150 })
  const body = JSON.stringify([TOM])
  assert.match(errorOf(await small.ask('POST', '/pets', body)), /^507 store_full: pet 1: /)
  const pets = JSON.stringify([TOM, TOM])
  assert.match(
    errorOf(await small.ask('POST', '/reset', pets)),
    /^507 store_full: 2 pets do not fit/,
  )

  const fail = () => Promise.reject(new Error('the disk is on fire'))
  const store: Store = Object.assign(new MemoryStore(1e9), { add: fail, reset: fail })
  const { petstore, ask } = await control(t, { store, pets: [] })
  const add = () => ask('POST', '/pets', body)
  assert.match(errorOf(await add()), /^503 outcome_unknown: pet 1: .*may have been added$/)
  assert.equal(errorOf(await ask('POST', '/reset')), '503 storage_failed: the disk is on fire')
  store.add = () => ({ ok: false, reason: 'storage_failed' })
  assert.match(errorOf(await add()), /^503 storage_failed: pet 1: .*not added$/)
  const own = errorOf(await ask('GET', '/pets'))
  assert.equal(own, '400 bad_request: pets must be read from your own store')
  assert.deepEqual(petstore.pendingFaults, [])
})

test('GET /requests waits for as many as it is asked for; 408 lists what came', async (t) => {
  const { petstore, ask } = await control(t)
  const waiting = ask('GET', '/requests?count=2&wait=600&operation=listPets&status=200')
  for (const path of ['/v1/pets', '/v1/pets/1', '/v1/pets?b']) await send(petstore, 'GET', path)
  const found: Petstore['requests'] = JSON.parse((await waiting).slice(4))
  assert.deepEqual(
    found.map(({ query }) => query),
    ['', 'b'],
  )
  const late = errorOf(await ask('GET', '/requests?count=3&wait=0.001&operation=listPets'))
  assert.match(
    late,
    /^408 request_timeout: timeout: waited for 3 requests, operation listPets; .*\n/,
  )
  assert.ok(late.endsWith('\n  GET /v1/pets/1 200\n  GET /v1/pets?b 200'), late)
  petstore.inject({ operation: '*', hangUp: true })
  await send(petstore, 'GET', '/v1/pets').catch(() => {})
  assert.match(await ask('GET', '/requests?count=1&status=null'), /^200 \[.*"status":null.*\]$/)
  assert.match(await ask('GET', '/requests?wait=0'), /^200 \[(?:.*"operation"){4}/)
})

test('close() ends a wait, and the controls', async (t) => {
  const { petstore, controls, ask } = await control(t)
  const waiting = assert.rejects(ask('GET', '/requests?count=1'), { code: 'ECONNRESET' })
  await ask('GET', '/faults') // by now the server has the other request, too
  await petstore.close()
  await waiting
  await assert.rejects(send(controls, 'GET', '/pets'), { code: 'ECONNREFUSED' })
})

/** Sends GET /pets with these headers, and no others, to 127.0.0.1. */
async function withHeaders(petstore: Petstore, headers: Record<string, string>): Promise<number> {
  const { port } = new URL(String(petstore.controlUrl))
  const asked = request({ host: '127.0.0.1', port, path: '/pets', headers, agent: false })
  const [response] = await once(asked.end(), 'response')
  response.resume()
  return response.statusCode
}

const PAGES: Record<string, string>[] = [
  { origin: 'http://127.0.0.1' },
  { origin: 'null' },
  { origin: '' },
  ...['cross-site', 'same-site', ''].map((site) => ({ 'sec-fetch-site': site })),
]
const NO_PAGES = [{}, { 'sec-fetch-site': 'none' }, { 'sec-fetch-site': 'same-origin' }]
const NAMES = [
  'localhost.',
  'a.localhost',
  'shop.example',
  '127.0.0.1.example:80',
  '1.2.3',
  '127.1',
]
const HOSTS = ['LocalHost', 'localhost:1', '10.0.0.1', '127.0.0.1:80', '[::1]', '[fe80::1]:80']

test('a web page is refused, and on loopback every name but localhost', async (t) => {
  const { petstore } = await control(t)
  for (const headers of PAGES) assert.equal(await withHeaders(petstore, headers), 403)
  for (const headers of NO_PAGES) assert.equal(await withHeaders(petstore, headers), 200)
  for (const host of NAMES) assert.equal(await withHeaders(petstore, { host }), 403, host)
  for (const host of HOSTS) assert.equal(await withHeaders(petstore, { host }), 200, host)
  const anywhere = await start(t, { host: '0.0.0.0', controlPort: 0, cors: '*' })
  for (const host of NAMES) assert.equal(await withHeaders(anywhere, { host }), 200, host)
  for (const headers of PAGES) assert.equal(await withHeaders(anywhere, headers), 403)
})

test('a web page is refused at every route, its preflight too, and changes nothing', async (t) => {
  const { petstore, ask } = await control(t, { cors: 'http://a.example' })
  petstore.inject({ operation: 'getPet', status: 503 })
  const headers = { origin: 'http://a.example', 'access-control-request-method': 'DELETE' }
  const routes = ['POST /reset', 'POST /pets', 'DELETE /faults', 'OPTIONS /faults', 'GET /none']
  for (const route of routes) {
    const [method = '', path = ''] = route.split(' ')
    const message = errorOf(await ask(method, path, '', headers))
    assert.match(message, /^403 forbidden: Web pages must not use the test controls/, route)
  }
  assert.equal(petstore.pendingFaults.length, 1)
})

test('there are none without controlPort', async (t) => {
  const petstore = await start(t)
  assert.equal(petstore.controlUrl, undefined)
})
