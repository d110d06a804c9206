// Faults: which requests they apply to, what happens to these, and whether they are done.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Fault, Petstore, ReceivedRequest } from '../../src/types.ts'
import { KEY, RawConnection, send, start } from '../support.ts'

const PETS = [{ name: 'Tom', categoryId: 7 }]
const TOM = '[{"id":1,"name":"Tom","categoryId":7}]'
const REX = '{"id":2,"name":"Rex","categoryId":7}'
const BODY = '{"name":"Rex","categoryId":7}'
const TEN_MINUTES = 600_000
const LATER = { timeout: TEN_MINUTES }

const HEAD = `HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${KEY}\r\nContent-Length: `
const GET = `GET /v1/pets ${HEAD}0\r\n\r\n`
const POST = `POST /v1/pets ${HEAD}${BODY.length}\r\n\r\n${BODY}`

const list = async (petstore: Petstore) => (await send(petstore, 'GET', '/v1/pets')).status
const create = (petstore: Petstore) => send(petstore, 'POST', '/v1/pets', { body: BODY })

test('the first injected that is due applies, one to a request, `times` times', async (t) => {
  const petstore = await start(t)
  const faults: Fault[] = [
    { operation: 'getPet', status: 404 },
    { operation: 'listPets', status: 500, times: 2 },
    { operation: '*', status: 599, after: 1 },
    { operation: 'listPets', status: 598, after: 2 },
    { operation: 'listPets', status: 597, times: 'always' },
  ]
  const injected = faults.map((fault) => petstore.inject(fault))
  const pending = faults.map((fault) => ({ times: 1, ...fault, hits: 0 }))
  assert.deepEqual(petstore.pendingFaults, pending)
  assert.equal(await list(petstore), 500)
  assert.deepEqual(petstore.pendingFaults[1], { ...pending[1], times: 1, hits: 1 })
  // Only after the second 500 do later faults begin to count.
  for (const status of [500, 597, 599, 597, 598, 597]) assert.equal(await list(petstore), status)
  assert.deepEqual(
    injected.map(({ hits }) => hits),
    [0, 2, 1, 1, 3],
  )
  assert.deepEqual(petstore.pendingFaults, [pending[0], { ...pending[4], hits: 3 }])
  petstore.clearFaults()
  assert.deepEqual([petstore.pendingFaults, await list(petstore)], [[], 200])
})

test('`matching` sees the request without its outcome; others do not reach the fault', async (t) => {
  const petstore = await start(t)
  const seen: ReceivedRequest[] = []
  const matching = (request: ReceivedRequest): boolean => {
    seen.push(request)
    return request.query === 'a'
  }
  petstore.inject({ operation: 'createPet', matching, after: 1, status: 503 })
  const statuses: number[] = []
  for (const path of ['/v1/pets?b', '/v1/pets?a', '/v1/pets?b', '/v1/pets?a']) {
    statuses.push((await send(petstore, 'POST', path, { body: BODY })).status)
  }
  await list(petstore) // of another operation
  assert.deepEqual([statuses, seen.length], [[201, 201, 201, 503], 4])
  const [recorded] = petstore.requests
  assert.ok(recorded)
  const { status, code, message, duration, ...request } = recorded
  assert.deepEqual(seen[0], request)
})

test('of requests at once, `after` pass and `times` fail', async (t) => {
  const petstore = await start(t)
  petstore.inject({ operation: 'createPet', after: 3, times: 7, status: 503, delay: 1 })
  const answers = await Promise.all(Array.from({ length: 20 }, () => create(petstore)))
  assert.equal(answers.filter(({ status }) => status === 503).length, 7)
  assert.deepEqual([(await petstore.pets()).length, petstore.pendingFaults], [13, []])
})

type Unreached = [status: number, method: string, path: string, headers?: {}, body?: string]
const REACH_NO_FAULT: readonly Unreached[] = [
  [401, 'GET', '/v1/pets', { authorization: 'Bearer wrong-key' }],
  [404, 'GET', '/v1/cats'],
  [405, 'PUT', '/v1/pets'],
  [415, 'POST', '/v1/pets', { 'content-type': 'text/plain' }, BODY],
  [413, 'POST', '/v1/pets', {}, 'x'.repeat(65_537)],
  [204, 'OPTIONS', '/v1/pets'],
  [200, 'GET', '/'],
  [200, 'GET', '/openapi.json'],
  [200, 'GET', '/readyz'],
]

test('only a request that passed key, path, method, type and size uses up a fault', async (t) => {
  const petstore = await start(t)
  const fault = petstore.inject({ operation: '*', times: 2, status: 599 })
  for (const [status, method, path, headers = {}, body = ''] of REACH_NO_FAULT) {
    const answer = await send(petstore, method, path, { headers, body })
    assert.equal(answer.status, status, `${method} ${path}`)
  }
  assert.equal(fault.hits, 0)
  assert.equal((await send(petstore, 'POST', '/v1/pets', { body: '{' })).status, 599)
  assert.equal((await send(petstore, 'HEAD', '/v1/pets')).status, 599)
})

test('at most 1,000 faults are pending', async (t) => {
  const petstore = await start(t)
  const fault: Fault = { operation: 'listPets', status: 503 }
  for (let count = 0; count < 1_000; count++) petstore.inject(fault)
  assert.throws(() => petstore.inject(fault), { code: 'invalid_option', message: /1000/ })
  await list(petstore)
  petstore.inject(fault)
})

/** What a client sees before the connection ends: a status, and the body as far as it comes. */
async function outcome(t: TestContext, petstore: Petstore, request: string): Promise<string> {
  const connection = new RawConnection(t, petstore)
  await connection.write(request.replace('Host', 'Connection: close\r\nHost'))
  return shown(await connection.rest())
}

function shown(response: string): string {
  if (response === '') return 'nothing'
  const [head = '', body = ''] = response.split('\r\n\r\n')
  const [, length = '0'] = /content-length: (\d+)/i.exec(head) ?? []
  const isCut = Buffer.byteLength(body) < Number(length)
  return `${head.slice(9, 12)} ${body}${isCut ? ` of ${length}` : ''}`
}

const half = (body: string): string => `${body.slice(0, body.length / 2)} of ${body.length}`

const ERROR = '{"code":"injected_fault","message":"A test asked for this fault","status":503}'
const LARGE = 2n ** 63n - 1n
const CUT = '200 éé\ufffd of 10' // half of its bytes: a character may break

type Effect = [fault: Omit<Fault, 'operation'>, list: string, create: string, isDone: boolean]
const EFFECTS: readonly Effect[] = [
  [{ delay: 1 }, `200 ${TOM}`, `201 ${REX}`, true],
  [{ delay: 1, done: true, hangUp: false }, `200 ${TOM}`, `201 ${REX}`, true],
  [{ status: 503 }, `503 ${ERROR}`, `503 ${ERROR}`, false],
  [{ status: 503, done: true, delay: 1 }, `503 ${ERROR}`, `503 ${ERROR}`, true],
  [{ status: 200, body: '<p>é' }, '200 <p>é', '200 <p>é', false],
  [{ status: 599, body: '' }, '599 ', '599 ', false],
  [{ status: 200, body: [{ id: LARGE }] }, `200 [{"id":${LARGE}}]`, `200 [{"id":${LARGE}}]`, false],
  [{ status: 400, body: null }, '400 null', '400 null', false],
  [{ status: 204, body: 'x' }, '204 ', '204 ', false],
  [{ status: 304, done: true }, '304 ', '304 ', true],
  [{ hangUp: true }, 'nothing', 'nothing', false],
  [{ hangUp: true, delay: 1 }, 'nothing', 'nothing', false],
  [{ hangUp: true, done: true }, 'nothing', 'nothing', true],
  [{ hangUp: 'halfway' }, `200 ${half(TOM)}`, `201 ${half(REX)}`, true],
  [{ hangUp: 'halfway', done: true, delay: 1 }, `200 ${half(TOM)}`, `201 ${half(REX)}`, true],
  [{ hangUp: 'halfway', status: 503 }, `503 ${half(ERROR)}`, `503 ${half(ERROR)}`, false],
  [{ hangUp: 'halfway', status: 200, body: 'éé€€' }, CUT, CUT, false],
]

test('a fault delays, replaces or loses a response; only then is the operation done', async (t) => {
  const petstore = await start(t, { pets: PETS })
  for (const [fault, listed, created, isDone] of EFFECTS) {
    const label = JSON.stringify(fault, (_, value) => (value === LARGE ? `${value}` : value))
    await petstore.reset()
    petstore.inject({ operation: '*', times: 2, ...fault })
    assert.equal(await outcome(t, petstore, GET), listed, label)
    assert.equal(await outcome(t, petstore, POST), created, label)
    assert.equal((await petstore.pets()).length, isDone ? 2 : 1, label)
    assert.equal(await list(petstore), 200, label) // the fault is gone
  }
})

test('stalled sends the head and half of the body, then nothing', async (t) => {
  const petstore = await start(t, { pets: PETS })
  const stalls: [fault: Partial<Fault>, seen: string][] = [
    [{}, `201 ${half(REX)}`],
    [{ status: 503 }, `503 ${half(ERROR)}`],
  ]
  for (const [fault, seen] of stalls) {
    await petstore.reset()
    petstore.inject({ operation: 'createPet', hangUp: 'stalled', ...fault })
    const connection = new RawConnection(t, petstore)
    await connection.write(POST)
    await petstore.waitForRequests(1, LATER)
    assert.equal(await Promise.race([connection.closed, list(petstore)]), 200)
    connection.socket.end()
    assert.equal(shown(await connection.rest()), seen)
    assert.equal((await petstore.pets()).length, fault.status ? 1 : 2)
  }
})

test('the headers of a fault replace those of the same name', async (t) => {
  const petstore = await start(t)
  const headers = {
    'Retry-After': 1,
    'Set-Cookie': ['a=1', 'b=2'],
    'CONTENT-type': 'text/html',
    'Cache-Control': 'public',
  }
  for (const status of [200, 304]) {
    petstore.inject({ operation: '*', status, headers, body: '<p>' })
    const answer = await send(petstore, 'GET', '/v1/pets')
    assert.equal(answer.headers['retry-after'], '1')
    assert.deepEqual(answer.headers['set-cookie'], ['a=1', 'b=2'])
    assert.equal(answer.headers['content-type'], 'text/html')
    assert.equal(answer.headers['cache-control'], 'public')
    assert.equal(answer.headers['x-content-type-options'], 'nosniff')
    assert.equal(answer.headers['content-length'], status === 304 ? undefined : '3')
  }
})

test('a delay comes before the operation, and with `done` after it', async (t) => {
  for (const done of [false, true]) {
    const petstore = await start(t)
    const fault = petstore.inject({ operation: 'createPet', delay: TEN_MINUTES, done })
    const created = outcome(t, petstore, POST)
    while (fault.hits === 0 || (done && (await petstore.pets()).length === 0)) await nextTurn()
    petstore.clearFaults()
    assert.deepEqual([await created, (await petstore.pets()).length], ['nothing', done ? 1 : 0])
  }
})

test('reset() and clearFaults() hang up on delayed requests, and carry none out', async (t) => {
  for (const end of ['reset', 'clearFaults'] as const) {
    const petstore = await start(t)
    petstore.inject({ operation: '*', delay: TEN_MINUTES, times: 2 })
    const outcomes = Promise.all([POST, GET].map((request) => outcome(t, petstore, request)))
    while (petstore.pendingFaults.length > 0) await nextTurn()
    await petstore[end]()
    assert.deepEqual([await outcomes, await petstore.pets()], [['nothing', 'nothing'], []])
  }
})

test('a client that leaves during a delay changes nothing', async (t) => {
  const petstore = await start(t)
  const fault = petstore.inject({ operation: 'createPet', delay: 30 })
  const connection = new RawConnection(t, petstore)
  await connection.write(POST)
  while (fault.hits === 0) await nextTurn()
  connection.socket.destroy()
  while ((await petstore.pets()).length === 0) await nextTurn()
})

const wrongIntegers = (low: number, high: number) => [low - 1, high + 1, low + 0.5, `${low}`, null]
const circular: unknown[] = []
circular.push(circular)

/** A fault that is valid without these, and the word by which the error names what is wrong. */
const WRONG: readonly [word: string, base: Partial<Fault>, member: string, values: unknown[]][] = [
  ['operation', { status: 503 }, 'operation', [undefined, null, '', 'listOrders', ['getPet']]],
  ['after', { delay: 1 }, 'after', [...wrongIntegers(0, 1_000_000), 'always']],
  ['times', { delay: 1 }, 'times', [...wrongIntegers(1, 1_000_000), Infinity, 'Always']],
  ['delay', {}, 'delay', [...wrongIntegers(0, TEN_MINUTES), Number.NaN, 1n]],
  ['status', {}, 'status', wrongIntegers(200, 599)],
  ['hangUp', {}, 'hangUp', ['', 'true', 'reset', 1, null, ['halfway']]],
  ['done', { delay: 1 }, 'done', ['yes', 0, null]],
  ['matching', { delay: 1 }, 'matching', ['getPet', /a/, null]],
  ['body', { status: 503 }, 'body', [circular, () => '', Symbol('a')]],
  ['headers', { status: 503 }, 'headers', ['a: b', [], null, { a: null }, { a: [1, true] }]],
  ['headers', { status: 503 }, 'headers', [{ 'a b': '1' }, { a: '1\r\nb: 2' }, { a: '€' }]],
  ['Content-Length', { status: 503 }, 'headers', [{ 'content-length': 1 }]],
  ['Transfer-Encoding', { status: 503 }, 'headers', [{ 'Transfer-Encoding': 'chunked' }]],
  ['body', { delay: 1 }, 'body', ['']],
  ['headers', { hangUp: 'halfway' }, 'headers', [{}]],
  ['hangUp', { status: 503 }, 'hangUp', [true]],
  ['hangUp', { done: true }, 'hangUp', [undefined, false]], // nothing happens
  ['petId', { status: 503 }, 'petId', [1]],
  ['toString', { status: 503 }, 'toString', [1]],
  ['__proto__', JSON.parse('{"status":503,"__proto__":{}}'), 'done', [true]],
]

test('a fault that cannot be is refused by an error that names what is wrong', async (t) => {
  const petstore = await start(t)
  const refuse = (fault: unknown, word: string): void => {
    const error = { name: 'TypeError', code: 'invalid_option', message: new RegExp(word) }
    assert.throws(() => Reflect.apply(petstore.inject, undefined, [fault]), error, word)
  }
  for (const [word, base, member, values] of WRONG) {
    for (const value of values) refuse({ operation: 'getPet', ...base, [member]: value }, word)
  }
  for (const fault of [undefined, null, [], 503, 'getPet']) refuse(fault, 'object')
  assert.deepEqual(petstore.pendingFaults, [])
})

test('the bounds are inclusive, and undefined is as if it were left out', async (t) => {
  const petstore = await start(t)
  const faults: Fault[] = [
    { operation: 'getPet', delay: 0, after: 0, times: 1, status: undefined, hangUp: undefined },
    { operation: 'getPet', delay: TEN_MINUTES, after: 1_000_000, times: 1_000_000 },
    { operation: 'getPet', status: 200, hangUp: false, headers: {}, body: undefined },
    { operation: 'getPet', status: 599, hangUp: 'stalled', done: false, times: 'always' },
  ]
  for (const fault of faults) {
    petstore.inject(fault)
    assert.deepEqual(petstore.pendingFaults.at(-1), { times: 1, ...fault, hits: 0 })
  }
})
