// The test controls over HTTP: what each does, what it refuses, and whom.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import type { Petstore, StartOptions, Store } from '../../src/types.ts'
import { send, start } from '../support.ts'

const TOM = { name: 'Tom', categoryId: 7 }
const REX = '{"id":9007199254740993,"name":"Rex","categoryId":-9223372036854775808,"status":"sold"}'
const MIB = 2 ** 20

interface Controlled {
  petstore: Petstore
  /** Sends a request without a key. Returns the status and body of its response. */
  ask: (method: string, path: string, body?: string, headers?: {}) => Promise<string>
}

async function control(t: TestContext, options: StartOptions = {}): Promise<Controlled> {
  const petstore = await start(t, { controlPort: 0, ...options })
  const url = String(petstore.controlUrl)
  const ask: Controlled['ask'] = async (method, path, body = '', more = {}) => {
    const headers = { authorization: '', ...more }
    const answer = await send({ url }, method, path, { headers, body })
    return `${answer.status} ${answer.body}`
  }
  return { petstore, ask }
}

/** The status and code of an Error. */
function errorOf(answer: string): string {
  const { code, message, status, ...rest } = JSON.parse(answer.slice(4))
  assert.deepEqual([typeof message, `${status}`, rest], ['string', answer.slice(0, 3), {}])
  return `${status} ${code}`
}

test('there are none without controlPort', async (t) => {
  const petstore = await start(t)
  assert.equal(petstore.controlUrl, undefined)
  assert.equal((await send(petstore, 'GET', '/faults')).status, 404)
})

test('pets: read, added and replaced, with exact integers', async (t) => {
  const { petstore, ask } = await control(t, { pets: [TOM] })
  assert.equal(await ask('GET', '/pets'), '200 [{"id":1,"name":"Tom","categoryId":7}]')
  assert.equal(await ask('POST', '/reset', `[${REX}]`), '204 ')
  assert.equal(await ask('GET', '/pets'), `200 [${REX}]`)
  const max = REX.replace('0993', '0994').replace('Rex', 'Max')
  assert.equal(await ask('POST', '/pets', `[${max.replace(/"id":\d+,/, '')}]`), `201 [${max}]`)
  assert.equal(await ask('POST', '/pets', '[]'), '201 []')
  assert.equal((await petstore.pets()).length, 2)
})

test('faults: injected, shown as they were given with `times` left and `hits`, dropped', async (t) => {
  const { petstore, ask } = await control(t)
  const fault = '{"operation":"listPets","times":2,"status":503,"body":{"id":9007199254740993}'
  assert.equal(await ask('POST', '/faults', `${fault}}`), `201 ${fault},"hits":0}`)
  const { status, body } = await send(petstore, 'GET', '/v1/pets')
  assert.deepEqual([status, body], [503, '{"id":9007199254740993}'])
  const left = fault.replace('"times":2', '"times":1')
  assert.equal(await ask('GET', '/faults'), `200 [${left},"hits":1}]`)
  assert.equal(await ask('DELETE', '/faults'), '204 ')
  assert.equal(await ask('GET', '/faults'), '200 []')
  assert.equal((await send(petstore, 'GET', '/v1/pets')).status, 200)
})

test('requests: as in process, without those to the controls', async (t) => {
  const { petstore, ask } = await control(t)
  await send(petstore, 'GET', '/v1/pets?a=b')
  assert.equal(petstore.requests.length, 1)
  assert.equal(await ask('GET', '/requests'), `200 ${JSON.stringify(petstore.requests)}`)
})

test('POST /reset without a body restores the initial pets, and drops all else', async (t) => {
  const { petstore, ask } = await control(t, { pets: [TOM] })
  await petstore.add([TOM])
  petstore.inject({ operation: 'getPet', status: 503 })
  await send(petstore, 'GET', '/v1/pets')
  assert.equal(await ask('POST', '/reset'), '204 ')
  assert.deepEqual(await petstore.pets(), [{ id: 1, ...TOM }])
  assert.deepEqual([petstore.requests, petstore.pendingFaults], [[], []])
})

const FAULT = '"operation":"*","status":503'
const REFUSED: readonly [error: string, method: string, path: string, body?: string][] = [
  ['404 not_found', 'GET', '/'],
  ['404 not_found', 'GET', '/v1/pets'],
  ['405 method_not_allowed', 'PUT', '/faults'],
  ['405 method_not_allowed', 'GET', '/reset'],
  ['400 bad_request', 'POST', '/pets'],
  ['400 bad_request', 'POST', '/reset', '[{]'],
  ['400 bad_request', 'POST', '/faults', `{${FAULT}`],
  ['400 bad_request', 'POST', '/faults', '[]'],
  ['400 bad_request', 'POST', '/faults', `{${FAULT},"times":0}`],
  ['400 bad_request', 'POST', '/faults', `{${FAULT},"matching":"getPet"}`],
  ['400 bad_request', 'POST', '/faults', `{${FAULT},"toString":1}`],
  ['400 bad_request', 'POST', '/faults', `{${FAULT},"__proto__":{}}`],
  ['400 bad_request', 'POST', '/faults', '{"operation":"toString","status":503}'],
  ['400 invalid_pet', 'POST', '/pets', '{}'],
  ['400 invalid_pet', 'POST', '/pets', '[{"name":"Max","categoryId":1},{}]'],
  ['400 invalid_pet', 'POST', '/pets', `[${REX}]`], // the store assigns ids
  ['400 invalid_pet', 'POST', '/reset', '[{"name":"Max","categoryId":1,"status":"toString"}]'],
  ['400 invalid_pet', 'POST', '/reset', `[${REX},${REX}]`], // the ids must ascend
]

test('what the petstore would refuse is an Error, and changes nothing', async (t) => {
  const { petstore, ask } = await control(t, { pets: [TOM] })
  petstore.inject({ operation: 'getPet', status: 503 })
  for (const [error, method, path, body] of REFUSED) {
    assert.equal(errorOf(await ask(method, path, body)), error, `${method} ${path} ${body}`)
  }
  const message = /times 0 must be an integer from 1/ // the words of inject()
  assert.match(await ask('POST', '/faults', `{${FAULT},"times":0}`), message)
  assert.deepEqual([(await petstore.pets()).length, petstore.pendingFaults.length], [1, 1])
})

test('a store that is full is 507; one that fails is 503', async (t) => {
  const small = await control(t, { maxStore: 150 })
  const pets = JSON.stringify([TOM, TOM])
  for (const path of ['/pets', '/reset']) {
    assert.equal(errorOf(await small.ask('POST', path, pets)), '507 store_full')
  }
  const fail = () => Promise.reject(new Error('the disk is on fire'))
  const close = () => Promise.resolve()
  const store: Store = { list: fail, get: fail, add: fail, reset: fail, close }
  const failing = await control(t, { store })
  for (const [method, path] of [
    ['GET', '/pets'],
    ['POST', '/pets'],
    ['POST', '/reset'],
  ] as const) {
    const body = method === 'POST' ? pets : ''
    assert.equal(errorOf(await failing.ask(method, path, body)), '503 storage_failed')
  }
})

test('a body may have 64 MiB', async (t) => {
  const { ask } = await control(t)
  assert.equal(await ask('POST', '/pets', `[${' '.repeat(64 * MIB - 2)}]`), '201 []')
  const tooLarge = await ask('POST', '/pets', '', { 'content-length': `${64 * MIB + 1}` })
  assert.equal(errorOf(tooLarge), '413 content_too_large')
})

test('a web page is refused everywhere, its preflight too, and changes nothing', async (t) => {
  const { petstore, ask } = await control(t, { cors: true })
  petstore.inject({ operation: 'getPet', status: 503 })
  const routes = ['GET /pets', 'POST /reset', 'DELETE /faults', 'OPTIONS /faults', 'GET /none']
  for (const route of routes) {
    const [method = '', path = ''] = route.split(' ')
    for (const origin of [petstore.url, 'null']) {
      const headers = { origin, 'access-control-request-method': 'DELETE' }
      assert.equal(errorOf(await ask(method, path, '', headers)), '403 forbidden', route)
    }
  }
  assert.equal(petstore.pendingFaults.length, 1)
})

test('close() closes them, too', async (t) => {
  const { petstore, ask } = await control(t)
  await ask('GET', '/pets')
  await petstore.close()
  await assert.rejects(ask('GET', '/pets'), { code: 'ECONNREFUSED' })
})
