// The test controls, over HTTP and in process: both act on the same state.
import { stopClock } from '../mock-timers.ts'
import assert from 'node:assert/strict'
import { mkdirSync, rmSync } from 'node:fs'
import { describe, test, type TestContext } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { connectPetstore, createPetstore, type Petstore } from '../../src/index.ts'
import type { StartOptions, WaitOptions } from '../../src/index.ts'
import { parseJson } from '../../src/pets/json.ts'
import { MemoryStore } from '../../src/pets/store.ts'
import { type Answer, assertError, check, FakeStream, folderOf, KEY } from '../support.ts'
import { freePort, listAll, outcomesOf, send, start, temporaryFile, words } from '../support.ts'
import { Client } from '../conformance/client.ts'
import { checkTranscript, decode, readTranscripts } from '../conformance/transcript.ts'
import type { Exchange, Transcript } from '../conformance/transcript.ts'
import { blocksOf } from '../documents.ts'
import { serve } from '../cli/executable.ts'
import { ask, open, request, REX } from '../http/raw.ts'

async function startControls(t: TestContext, options: StartOptions = {}) {
  const petstore = await start(t, { controlPort: 0, ...options })
  const { controlUrl: url = '' } = petstore
  const call = (method: string, path: string, content?: unknown, more = {}): Promise<Answer> => {
    const body = typeof content === 'object' ? JSON.stringify(content) : String(content ?? '')
    return send({ url }, method, path, { headers: { authorization: '', ...more }, body })
  }
  const remote = connectPetstore({ controlUrl: url, apiKey: KEY })
  return {
    petstore,
    url,
    call,
    remote,
    list: async () => (await send(petstore, 'GET', '/v1/pets')).body,
  }
}

const TOM = { name: 'Tom', categoryId: 2 }
const JSON_TYPE = { 'content-type': 'application/json' }
const FAULT = { operation: 'listPets', status: 500 } as const

const WAIT = request('GET /requests?count=1&wait=600 HTTP/1.1', ['Host: localhost'])

const BROKEN = WAIT.replace('\r\n\r\n', '\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n')

test('a wait ends as its client leaves, or proves malformed', async (t) => {
  const { petstore, url, list } = await startControls(t)
  const oldest = petstore.waitForRequests(1, { timeout: 600_000 })
  // More than may wait at once.
  for (let count = 0; count < 202; count++) {
    const { socket, closed } = await open(t, { url }, count % 2 === 0 ? WAIT : BROKEN)
    socket.end()
    await closed
  }
  await list()
  assert.equal((await oldest).length, 1)
})

test('the oldest wait makes room where there are too many connections', async (t) => {
  const { petstore, url, call } = await startControls(t, { maxConnections: 2 })
  const waiting = request('GET / HTTP/1.1', ['Host: localhost']) + WAIT // is never idle
  const first = await ask(t, { url }, waiting, 200)
  const second = await ask(t, { url }, waiting, 200)
  assert.equal((await call('GET', '/pets')).status, 200)
  assert.equal(await first.rest(), '')
  await petstore.fetch(petstore.url)
  assert.equal((await second.read()).status, 200)
})

test('the controls have their own address, need no key, and end with the petstore', async (t) => {
  const controlPort = await freePort()
  const { petstore, url, call } = await startControls(t, { controlPort })
  assert.equal(url, `http://127.0.0.1:${controlPort}`)
  for (const path of ['/pets', '/requests', '/faults'])
    assert.equal((await call('GET', path)).body, '[]')
  for (const path of ['/reset', '/requests', '/faults']) {
    await check(petstore, 'POST', path, '404 not_found', { body: '[]' })
    await check(petstore, 'GET', `/v1${path}`, '404 not_found')
  }
  await petstore.close()
  await assert.rejects(call('GET', '/pets'), { code: 'ECONNREFUSED' })
})

const REFUSED: Readonly<Record<string, readonly string[]>> = {
  origin: ['https://evil.example', 'null', '', 'http://127.0.0.1'],
  'sec-fetch-site': ['cross-site', 'same-site', 'other', 'none, cross-site'],
  host: words(`evil.example evil.example:8081 127.0.0.1.evil.example localhost.evil.example
    evil.localhost`),
}

for (const [name, values] of Object.entries(REFUSED)) {
  for (const value of values) {
    test(`the controls refuse ${name} "${value}" on every path, and change nothing`, async (t) => {
      const { petstore, call } = await startControls(t, { pets: [TOM], cors: '*' })
      await petstore.fetch(petstore.url)
      const before = [petstore.pets, petstore.requests, petstore.pendingFaults]
      for (const [method, path, body] of [
        ['GET', '/nothing'],
        ['GET', '/requests'],
        ['OPTIONS', '/reset'],
        ['POST', '/reset'],
        ['POST', '/faults', FAULT], // as from an untyped Blob
        ['POST', '/pets', [TOM]],
        ['PUT', '/get-pet', '"gone"'],
        ['DELETE', '/requests'],
      ] as const) {
        const answer = await call(method, path, body, { [name]: value })
        assertError(answer, 403, 'forbidden')
        assert.equal(answer.headers['access-control-allow-origin'], undefined)
      }
      assert.deepEqual([petstore.pets, petstore.requests, petstore.pendingFaults], before)
      assert.equal(petstore.getPetState, 'deprecated')
    })
  }
}

test('the controls serve every local Host, and a browser without a page', async (t) => {
  const { url, call } = await startControls(t)
  const served = {
    host: words('localhost: LOCALHOST:8081 127.0.0.1:8081 192.0.2.1:8081 [::1]:8081 [::1]'),
    'sec-fetch-site': ['none', 'same-origin'],
  }
  for (const [name, values] of Object.entries(served)) {
    for (const value of values)
      assert.equal((await call('GET', '/pets', '', { [name]: value })).status, 200, value)
  }
  await ask(t, { url }, 'GET /pets HTTP/1.0\r\n\r\n', 200)
  for (const init of [{}, { method: 'POST' }, { method: 'POST', body: '[]', headers: JSON_TYPE }]) {
    assert.ok((await fetch(`${url}/${init.method ? 'reset' : 'pets'}`, init)).ok)
  }
})

test('beyond loopback, the controls serve any Host, but no web page', async (t) => {
  const { call } = await startControls(t, { controlHost: '0.0.0.0' })
  const get = (headers: object) => call('GET', '/pets', '', headers)
  assert.equal((await get({ host: 'host.docker.internal:8081' })).status, 200)
  assertError(await get({ origin: 'https://evil.example' }), 403, 'forbidden')
  assertError(await get({ 'sec-fetch-site': 'cross-site' }), 403, 'forbidden')
})

test('GET / lists the controls: each takes its methods and no other', async (t) => {
  const { call } = await startControls(t)
  const { body, headers } = await call('GET', '/')
  assert.equal(headers['cache-control'], 'no-store')
  const listed: { method: string; path: string }[] = JSON.parse(body)
  const all = `GET / GET /stores POST /reset GET /pets POST /pets GET /requests DELETE /requests
    GET /faults POST /faults DELETE /faults GET /faults/{id} DELETE /faults/{id}
    GET /verify GET /get-pet PUT /get-pet`
  assert.deepEqual(listed.flatMap(Object.values), words(all))
  for (const { path } of listed) {
    const methods = listed.filter((one) => one.path === path).map(({ method }) => method)
    if (methods.includes('GET')) methods.push('HEAD')
    const allow = [...methods, 'OPTIONS'].sort().join(', ')
    for (const [method, status] of Object.entries({ OPTIONS: 204, PATCH: 405 })) {
      const answer = await call(method, path)
      assert.deepEqual([answer.status, answer.headers.allow], [status, allow])
    }
  }
})

test('the controls refuse a body over 4 MiB, whatever maxBody', async (t) => {
  const { call, url } = await startControls(t, { maxBody: 10 })
  for (const path of ['/reset', '/pets', '/faults']) {
    for (const [bytes, status] of Object.entries({ [2 ** 22]: 100, [2 ** 22 + 1]: 413 })) {
      const lines = ['Host: localhost', 'Expect: 100-continue', `Content-Length: ${bytes}`]
      await ask(t, { url }, request(`POST ${path} HTTP/1.1`, lines), status)
    }
  }
  assert.equal((await call('POST', '/pets', `[${REX}]`)).status, 201)
})

test('pets are the same over HTTP and in process, and every int64 is exact', async (t) => {
  const { petstore, call, list } = await startControls(t)
  const bounds = [-(2n ** 63n), 2n ** 63n - 1n] as const
  const [least, most] = bounds.map((categoryId) => `"name":"\\ud800","categoryId":${categoryId}}`)
  const added = await call('POST', '/pets', `[{${least},{${most}]`)
  const expected = `[{"id":1,${least},{"id":2,${most}]`
  assert.deepEqual([added.status, added.body], [201, expected])
  const pets = bounds.map((categoryId, at) => ({ id: at + 1, name: '\ud800', categoryId }))
  assert.deepEqual([petstore.pets, petstore.requests], [pets, []])
  assert.deepEqual([(await call('GET', '/pets')).body, await list()], [expected, expected])
})

test('requests and faults are the same over HTTP and in process', async (t) => {
  const { petstore, call, remote, list } = await startControls(t)
  await list()
  await petstore.fetch(`${petstore.url}/cats`)
  assert.equal(petstore.requests.length, 2)
  assert.deepEqual(await remote.requests, petstore.requests)
  const fault = { ...FAULT, times: 1, hits: 0 }
  const first = { operation: 'getPet', hangUp: true, times: 3, hits: 0 } as const
  petstore.inject({ operation: 'getPet', hangUp: true, times: 3 })
  const injected = await call('POST', '/faults', FAULT)
  assert.deepEqual([injected.status, JSON.parse(injected.body)], [201, fault])
  assert.deepEqual(petstore.pendingFaults, [first, fault])
  assert.deepEqual(await remote.pendingFaults, petstore.pendingFaults)
  assertError(await send(petstore, 'GET', '/v1/pets'), 500, 'injected_fault')
  await remote.clearRequests()
  await remote.clearFaults()
  assert.deepEqual([petstore.pendingFaults, petstore.requests], [[], []])
})

test('a fault has an address for its hits and its end, also when it is over', async (t) => {
  const { petstore, call, list } = await startControls(t)
  const addressOf = async (fault: object) => (await call('POST', '/faults', fault)).headers.location
  const once = (await addressOf(FAULT)) ?? ''
  const always = (await addressOf({ ...FAULT, times: 'always' })) ?? ''
  assert.deepEqual([once, always], ['/faults/1', '/faults/2'])
  for (let times = 0; times < 3; times++) await list()
  const hits = async (path: string) => JSON.parse((await call('GET', path)).body)
  assert.deepEqual([await hits(once), await hits(always)], [{ hits: 1 }, { hits: 2 }])
  for (const path of [once, always, always])
    assert.equal((await call('DELETE', path)).status, 204, path)
  assert.deepEqual([petstore.pendingFaults, await list()], [[], '[]'])
  await petstore.reset()
  assert.deepEqual(await hits(always), { hits: 2 })
  for (const path of ['/faults/0', '/faults/01', '/faults/3', '/faults/x']) {
    for (const method of ['GET', 'DELETE'])
      assertError(await call(method, path), 404, 'not_found', path)
  }
})

test('the latest 1,000 faults have an address', async (t) => {
  const { petstore, call } = await startControls(t)
  for (let count = 0; count < 1_001; count++) petstore.inject(FAULT).remove()
  assertError(await call('GET', '/faults/1'), 404, 'not_found')
  for (const id of [2, 1_001]) assert.equal((await call('GET', `/faults/${id}`)).status, 200)
})

test('a wait for requests ends once there are `count`, earlier ones included', async (t) => {
  const { petstore, call, remote, list } = await startControls(t)
  const seen = (requests: typeof petstore.requests) => outcomesOf({ requests }).join()
  const wait = (...given: Parameters<typeof petstore.waitForRequests>) =>
    petstore.waitForRequests(...given).then(seen)
  const waitRemotely = (...given: Parameters<typeof petstore.waitForRequests>) =>
    remote.waitForRequests(...given).then(seen)
  const find = async (query: string) =>
    seen(JSON.parse((await call('GET', `/requests?${query}`)).body))
  assert.deepEqual([await wait(0), await find('')], ['', ''])
  const failed = { operation: 'listPets', status: 503, timeout: 600_000 } as const
  const waits = [wait(2, failed), waitRemotely(2, failed), wait(3), waitRemotely(3)]
  petstore.inject({ operation: 'listPets', status: 503, times: 2, after: 1 })
  for (let times = 0; times < 3; times++) await list()
  const lists = 'listPets 503,listPets 503'
  const all = `listPets 200,${lists}`
  assert.deepEqual(await Promise.all(waits), [lists, lists, all, all])
  await petstore.fetch(petstore.url)
  assert.equal(await wait(1, { status: 503 }), lists)
  assert.equal(await find('status=503&count=2&wait=0'), lists)
  assert.deepEqual([await wait(2), await find('operation=createPet')], [`${all},null 401`, ''])
})

test('a wait for requests that do not come ends in 408, with a list of what came', async (t) => {
  const { petstore, call, remote, list } = await startControls(t)
  const none = 'timeout: waited for 1 request; none came'
  const code = 'timeout'
  const error = { code, message: none, stack: /control-routes\.test\.ts/ }
  await assert.rejects(petstore.waitForRequests(1, { timeout: 0 }), error)
  await list()
  await petstore.fetch(`${petstore.url}/cats?all`)
  const body = `{\n "name": "${KEY}",\t"categoryId": 1, "x": "${'y'.repeat(200)}" }`
  await send(petstore, 'POST', '/v1/pets', { headers: JSON_TYPE, body: '{"name":""}' })
  await send(petstore, 'POST', '/v1/pets', { headers: JSON_TYPE, body })
  petstore.inject({ operation: 'listPets', hangUp: true })
  await assert.rejects(send(petstore, 'GET', `/v1/pets?q=${KEY}`))
  const message = `timeout: waited for 2 requests, operation createPet, status 503; these came last:
  GET /v1/pets 200
  GET /v1/cats?all 401 unauthorized: An API key is required: Authorization: Bearer <API_KEY>
  POST /v1/pets 400 invalid_pet: categoryId is required and must be an integer
  POST /v1/pets 201 { "name": "[key]", "categoryId": 1, "x": "${'y'.repeat(158)}
  GET /v1/pets?q=[key] no response`
  const waiting = petstore.waitForRequests(2, { operation: 'createPet', status: 503, timeout: 0 })
  await assert.rejects(waiting, { code, message })
  const answer = await call('GET', '/requests?operation=createPet&status=503&count=2&wait=0.001')
  assert.equal(assertError(answer, 408, 'request_timeout'), message)
  const failed = { operation: 'createPet', status: 503, timeout: 1 } as const
  await assert.rejects(remote.waitForRequests(2, failed), { code, message })
})

test('the error of a wait is as docs/faults.md shows it', async () => {
  const petstore = createPetstore()
  const create = { method: 'POST', headers: { ...petstore.headers, ...JSON_TYPE }, body: REX }
  await petstore.fetch(`${petstore.url}/pets?statsu=sold`, petstore)
  petstore.inject({ operation: 'createPet', status: 503 })
  await petstore.fetch(`${petstore.url}/pets`, create)
  petstore.inject({ operation: 'createPet', delay: 600_000 })
  const delayed = assert.rejects(petstore.fetch(`${petstore.url}/pets`, create))
  while (petstore.pendingFaults.length > 0) await turn()
  const [shown] = blocksOf('docs/faults.md', 'How do I wait for a request?')
  const wait = petstore.waitForRequests(1, { operation: 'createPet', status: 201, timeout: 0 })
  await assert.rejects(wait, { message: shown?.code })
  await petstore.close()
  await delayed
})

test('the error of verify() is as docs/faults.md shows it', async () => {
  const petstore = createPetstore()
  petstore.inject({ operation: 'getPet', status: 503 })
  petstore.inject({ operation: 'createPet', times: 2, hangUp: true })
  const create = { method: 'POST', headers: { ...petstore.headers, ...JSON_TYPE }, body: REX }
  await assert.rejects(petstore.fetch(`${petstore.url}/pets`, create))
  await petstore.fetch(`${petstore.url}/pets?statsu=sold`, petstore)
  const [shown] = blocksOf('docs/faults.md', 'What does the error of verify() say?')
  const error = { code: 'verify_failed', message: shown?.code }
  assert.throws(petstore.verify, error)
  await petstore.close()
  assert.throws(petstore.verify, error)
})

test('the faults and the request in docs/http-controls.md are as shown', async (t) => {
  const { petstore, call } = await startControls(t)
  const blocks = blocksOf('docs/http-controls.md').filter(({ language }) => language === 'json')
  const [lost, limit, recorded] = blocks.map(({ code }) => JSON.parse(code))
  for (const fault of [lost, limit])
    assert.equal((await call('POST', '/faults', fault)).status, 201)
  const create = { headers: JSON_TYPE, body: JSON.stringify(TOM) }
  await assert.rejects(send(petstore, 'POST', '/v1/pets', create))
  assert.equal(petstore.pets.length, 1)
  await check(petstore, 'GET', '/v1/pets', '429 rate_limited')
  await petstore.reset()
  await send(petstore, 'GET', '/v1/pets?statsu=sold')
  const { headers, duration } = recorded
  const [request] = JSON.parse((await call('GET', '/requests')).body)
  assert.deepEqual(Object.keys(request), Object.keys(recorded))
  assert.deepEqual({ ...request, headers, duration }, recorded)
})

test('a wait for requests ends with the petstore, and at once after its end', async (t) => {
  const petstore = await start(t)
  await petstore.fetch(`${petstore.url}/pets`, petstore)
  const long = { timeout: 600_000 }
  const message =
    /^closed: waited for (3 requests|1 request, status 500); .*:\n {2}GET \/v1\/pets 200$/
  const error = { code: 'closed', message }
  const wait = (count: number, status?: number) =>
    assert.rejects(petstore.waitForRequests(count, { ...long, status }), error)
  const waits = [wait(3), wait(1, 500)]
  await petstore.close()
  await Promise.all([...waits, wait(3)])
  assert.equal((await petstore.waitForRequests(1, long)).length, 1)
})

test('a wait filters by operation, status, pet and key, in process and over HTTP', async (t) => {
  const { petstore, remote } = await startControls(t, { apiKeys: [KEY, 'second-key'] })
  const second = { headers: { authorization: 'Bearer second-key' } }
  for (const path of words('/pets/1 /pets/11 /pets/1?a /pets/%31 /pets/x%2F1 /pets /cats/1'))
    await send(petstore, 'GET', `/v1${path}`, path === '/pets/11' ? second : {})
  await send(petstore, 'PUT', '/v1/pets/1') // no getPet
  petstore.inject({ operation: 'getPet', petId: 1, hangUp: true })
  await assert.rejects(send(petstore, 'GET', '/v1/pets/1?lost'))
  const filters: readonly [WaitOptions, ...paths: string[]][] = [
    [{ petId: 1 }, '/pets/1', '/pets/1?a', '/pets/%31', '/pets/1?lost'],
    [{ petId: 1, status: 404 }, '/pets/1', '/pets/1?a', '/pets/%31'],
    [{ petId: 1, operation: 'listPets', key: null }],
    [{ petId: 2 }],
    [{ key: 1 }, '/pets/11'],
    [{ key: 0, operation: 'listPets' }, '/pets'],
    [{ status: null }, '/pets/1?lost'],
  ]
  for (const [filter, ...paths] of filters) {
    const found = await petstore.waitForRequests(paths.length, filter)
    const shown = found.map(({ path, query: given }) => path.slice(3) + (given && `?${given}`))
    assert.deepEqual(shown, paths)
    assert.deepEqual(await remote.waitForRequests(paths.length, filter), found)
  }
})

const COUNT = 'must be an integer from 0 to 5, the option maxRequests'
const STATUS = 'must be an integer from 100 to 599, or null'

test('waitForRequests() names the argument that is wrong', async () => {
  const petstore = createPetstore({ maxRequests: 5 })
  const known = 'known are operation, status, petId, key, matching, timeout'
  for (const [name, given, message] of [
    ['RangeError', [6], `count 6 ${COUNT}`],
    ['RangeError', [Number.NaN], `count NaN ${COUNT}`],
    ['TypeError', ['1'], `count '1' ${COUNT}`],
    ['RangeError', [0, { status: 99 }], `status 99 ${STATUS}`],
    ['RangeError', [0, { timeout: 600_001 }], /^timeout 600001 must be an .* from 0 to 600000$/],
    ['RangeError', [0, { operation: 'livez' }], /^operation 'livez' must be .*, page, openapi$/],
    ['RangeError', [0, { petId: 0 }], 'petId 0 must be an integer from 1 to 999999999999999'],
    ['RangeError', [0, { key: -1 }], 'key -1 must be an integer from 0 to 1000000, or null'],
    ['TypeError', [0, { path: '/' }], `options must not have 'path'; ${known}`],
    ['TypeError', [0, [1]], 'options must be an object (got Array)'],
  ] as const) {
    const waiting: Promise<unknown> = Reflect.apply(petstore.waitForRequests, undefined, given)
    await assert.rejects(waiting, { name, code: 'invalid_option', message })
  }
})

test('getPet can be removed and brought back at any time, and its document follows', async (t) => {
  const { petstore, call, remote } = await startControls(t, { pets: [TOM] })
  const seen = async () => {
    const { paths } = JSON.parse((await send(petstore, 'GET', '/openapi.json')).body)
    const documented = '410' in paths['/pets/{petId}'].get.responses
    return [petstore.getPetState, (await send(petstore, 'GET', '/v1/pets/1')).status, documented]
  }
  const there = ['deprecated', 200, false]
  const gone = ['gone', 410, true]
  assert.deepEqual(await seen(), there)
  petstore.getPetState = 'gone'
  assert.deepEqual(await seen(), gone)
  assert.equal((await call('PUT', '/get-pet', '"deprecated"')).status, 204)
  assert.deepEqual(await seen(), there)
  assert.equal((await call('GET', '/get-pet')).body, '"deprecated"')
  await remote.setGetPetState('gone')
  assert.equal((await call('GET', '/get-pet')).body, '"gone"')
  const assign = () => Object.assign(petstore, { getPetState: 'Gone' })
  assert.throws(assign, /^RangeError: getPetState 'Gone' must/)
  assert.deepEqual(await seen(), gone)
  await petstore.reset()
  assert.deepEqual(await seen(), there)
})

test('POST /reset sets the pets in its body, or restores the initial ones', async (t) => {
  const { petstore, call, list } = await startControls(t, { pets: [TOM] })
  for (const [given, count] of [
    [[TOM, { ...TOM, age: 9 }], 2],
    [[], 0],
    [undefined, 1],
  ] as const) {
    await list()
    petstore.inject(FAULT)
    const { status, headers, body } = await call('POST', '/reset', given)
    assert.deepEqual([status, body, headers['content-type']], [204, '', undefined])
    const pets = [1, 2].slice(0, count).map((id) => ({ id, ...TOM }))
    assert.deepEqual([petstore.pets, petstore.requests, petstore.pendingFaults], [pets, [], []])
  }
})

test('saved pets are restored under their ids, in process, over HTTP and at a start', async (t) => {
  const { petstore, call, remote } = await startControls(t)
  const large = { id: 3, ...TOM, categoryId: 2n ** 62n }
  await petstore.reset([large, { id: 7, ...TOM, status: 'sold' }])
  await petstore.add([TOM])
  const saved = petstore.pets
  assert.equal(saved.map(({ id }) => id).join(), '3,7,8')
  const { body } = await call('GET', '/pets')
  for (const restore of [
    () => petstore.reset(saved),
    () => call('POST', '/reset', body),
    () => remote.reset(saved),
  ]) {
    await petstore.reset()
    assert.deepEqual(petstore.pets, [])
    await restore()
    assert.deepEqual(petstore.pets, saved, String(restore))
    assert.equal((await petstore.add([TOM]))[0]?.id, 9)
  }
  const snapshot = `${folderOf()}/pets.json`
  const args = ['--api-key', KEY, '--seed', temporaryFile(body), '--snapshot', snapshot]
  assert.equal(`[${await listAll(await serve(t, args))}]`, body)
  for (const given of [{ pets: saved }, { pets: saved, snapshot: `${snapshot}-2` }]) {
    const next = await start(t, given)
    await next.add([TOM])
    await next.reset()
    assert.deepEqual(next.pets, saved)
  }
})

test('pets that do not fit are 507; the error names the first', async (t) => {
  const { petstore, call } = await startControls(t, { maxStore: 300 })
  const long = { name: 'x'.repeat(300), categoryId: 1 }
  const noRoom = (pet: string) => `pet ${pet}: The store has no room for this pet`
  const add = await call('POST', '/pets', [TOM, long])
  assert.equal(assertError(add, 507, 'store_full'), noRoom('2 of 2'))
  assert.deepEqual(petstore.pets, [{ id: 1, ...TOM }])
  petstore.inject(FAULT)
  const full = '2 pets do not fit into the 300 bytes of maxStore (--max-store)'
  assert.equal(assertError(await call('POST', '/reset', [long, TOM]), 507, 'store_full'), full)
  const error = { name: 'RangeError', code: 'store_full' }
  await assert.rejects(petstore.reset([long, TOM]), { ...error, message: full })
  await assert.rejects(petstore.add([long]), { ...error, message: noRoom('1 of 1') })
  assert.deepEqual([petstore.pets, petstore.pendingFaults.length], [[{ id: 1, ...TOM }], 1])
})

test('a reset that cannot be written is 503, changes nothing, and can be retried', async (t) => {
  const folder = `${folderOf()}/pets`
  mkdirSync(folder)
  const snapshot = `${folder}/pets.json`
  const { petstore, call, remote } = await startControls(t, { snapshot, pets: [TOM] })
  petstore.inject(FAULT)
  rmSync(folder, { recursive: true })
  assertError(await call('POST', '/reset', []), 503, 'storage_failed')
  for (const { reset } of [petstore, remote])
    await assert.rejects(reset([]), { name: 'Error', code: 'storage_failed' })
  assert.deepEqual([petstore.pets.length, petstore.pendingFaults.length], [1, 1])
  mkdirSync(folder)
  assert.equal((await call('POST', '/reset', [TOM, TOM])).status, 204)
  assert.deepEqual([petstore.pets.length, petstore.pendingFaults.length], [2, 0])
})

test('a bug in a control is a 500 that tells nothing; the log gets the error', async (t) => {
  const logStream = new FakeStream()
  const { call } = await startControls(t, { log: 'json', logStream })
  t.mock.method(MemoryStore.prototype, 'values', () => {
    throw new TypeError('a secret')
  })
  const message = assertError(await call('GET', '/pets'), 500, 'internal_error')
  assert.doesNotMatch(message, /secret/)
  await logStream.until(/"error","message":"TypeError: a secret\\n/)
})

test('a body that is not UTF-8, and headers that are no plain object, are refused', async (t) => {
  const { petstore, url } = await startControls(t)
  const answer = await send({ url }, 'POST', '/faults', { body: Buffer.from([0xff]) })
  const why = 'The body must be JSON (strings in double quotes): it is not valid UTF-8'
  assert.equal(assertError(answer, 400, 'bad_request'), why)
  for (const headers of [new Headers({ x: 'y' }), new Map([['x', 'y']])]) {
    const inject = () => Reflect.apply(petstore.inject, undefined, [{ ...FAULT, headers }])
    assert.throws(inject, TypeError) // over HTTP, both are objects
  }
  assert.deepEqual(petstore.pendingFaults, [])
})

async function startTranscripts(t: TestContext, options: StartOptions) {
  const { petstore, url } = await startControls(t, options)
  const clientOf = (url: string) => new Client({ url, key: KEY, create: true, isOwn: true })
  const [client, controls] = [clientOf(petstore.url), clientOf(url)]
  return { petstore, check: (rule: Transcript) => checkTranscript(rule, client, 'Rex', controls) }
}

/** Asserts that a fault or a reset is refused in process as it was over HTTP, in the same words. */
async function assertRefused(petstore: Petstore, exchange: Exchange, name: string): Promise<void> {
  const { requests, expected } = exchange
  const [, code, message] = /^400 (\w+): (.*)$/.exec(decode(expected[0] ?? '')) ?? []
  if (message === undefined) return
  const error = { name, code: code === 'bad_request' ? 'invalid_option' : code, message }
  for (const { ask, body = '' } of requests) {
    const call = { 'POST @/faults': petstore.inject, 'POST @/reset': petstore.reset }[ask]
    const given = parseJson(decode(body))
    if (call === undefined || !given.ok) continue
    await assert.rejects(async () => Reflect.apply(call, undefined, [given.value]), error)
  }
}

for (const [file, options] of Object.entries({
  controls: { pets: [TOM], maxRequests: 5 },
  faults: { pets: [TOM] },
})) {
  describe(`The rules of ${file}.txt`, () => {
    for (const rule of readTranscripts(new URL(`${file}.txt`, import.meta.url))) {
      test(rule.name, async (t) => {
        const { petstore, check } = await startTranscripts(t, options)
        await petstore.fetch(petstore.url)
        petstore.inject(FAULT)
        const stateOf = ({ pets, requests, pendingFaults, getPetState }: Petstore) =>
          structuredClone({ pets, requests, pendingFaults, getPetState })
        const before = stateOf(petstore)
        await check(rule)
        const [, name = 'TypeError'] = /^(\w+Error): /.exec(rule.name) ?? []
        for (const exchange of rule.exchanges) await assertRefused(petstore, exchange, name)
        if (!rule.name.startsWith('Accepted: ')) assert.deepEqual(stateOf(petstore), before)
      })
    }
  })
}

describe('The rules of recorded.txt', () => {
  for (const rule of readTranscripts(new URL('recorded.txt', import.meta.url))) {
    test(rule.name, async (t) => {
      stopClock(t)
      const { check } = await startTranscripts(t, { maxBody: 100 })
      await check(rule)
    })
  }
})
