// Recorded requests: what clients sent, except keys, and what became of it; and waiting for them.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Petstore, RecordedRequest } from '../../src/types.ts'
import { KEY, RawConnection, send, start } from '../support.ts'

const REX = '{"name":"Réx","categoryId":1}'
const LATER = { timeout: 600_000 }

const HOST = 'HTTP/1.1\r\nHost: a\r\nConnection: close\r\n'
const AUTHORIZED = `${HOST}Authorization: Bearer ${KEY}\r\n`
const withBody = (body: string): string =>
  `Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`

const queriesOf = (requests: readonly RecordedRequest[]): string[] =>
  requests.map(({ query }) => query)

/** Sends a request, and waits for its response or the end of its connection. */
async function ask(petstore: Petstore, query: string): Promise<void> {
  await send(petstore, 'GET', `/v1/pets?${query}`).catch(() => {})
}

type Left = Partial<RecordedRequest>
const LIST: Left = { operation: 'listPets', method: 'GET', path: '/v1/pets', status: 200 }
const CREATE: Left = { operation: 'createPet', method: 'POST', path: '/v1/pets' }
const RECORDS: readonly [request: string, record: Left][] = [
  [`GET /v1/pets?limit=1&a=%20? ${AUTHORIZED}\r\n`, { ...LIST, query: 'limit=1&a=%20?' }],
  [`HEAD /v1/pets ${AUTHORIZED}\r\n`, { ...LIST, method: 'HEAD' }],
  [`POST /v1/pets ${AUTHORIZED}${withBody(REX)}`, { ...CREATE, body: REX, status: 201 }],
  [
    `POST /v1/pets ${AUTHORIZED}${withBody('{"é"')}`,
    { ...CREATE, body: '{"é"', status: 400, code: 'bad_request' },
  ],
  [`POST /v1/pets ${HOST}${withBody(REX)}`, { ...CREATE, status: 401, code: 'unauthorized' }],
  [
    `POST /v1/pets ${AUTHORIZED}Content-Type: text/plain\r\n${withBody(REX)}`,
    { ...CREATE, status: 415, code: 'unsupported_media_type' },
  ],
  [
    `GET http://b/v1/pets/9 ${AUTHORIZED}\r\n`,
    { operation: 'getPet', method: 'GET', path: '/v1/pets/9', status: 404, code: 'not_found' },
  ],
  [
    `PUT /v1/pets ${AUTHORIZED}${withBody(REX)}`,
    { method: 'PUT', path: '/v1/pets', status: 405, code: 'method_not_allowed' },
  ],
  [
    `GET /v1/p%65ts ${AUTHORIZED}\r\n`,
    { method: 'GET', path: '/v1/p%65ts', status: 404, code: 'not_found' },
  ],
  [
    `GET /v1/store/orders ${AUTHORIZED}\r\n`,
    { method: 'GET', path: '/v1/store/orders', status: 501, code: 'not_implemented' },
  ],
  [`OPTIONS /v1/pets ${HOST}\r\n`, { method: 'OPTIONS', path: '/v1/pets', status: 204 }],
  [`GET / ${HOST}\r\n`, { method: 'GET', path: '/', status: 200 }],
]

test('a request is recorded with all that it had, and its outcome', async (t) => {
  const petstore = await start(t)
  for (const [request, record] of RECORDS) {
    await petstore.reset()
    const connection = new RawConnection(t, petstore)
    await connection.write(request)
    const response = await connection.rest()
    const [recorded] = petstore.requests
    assert.ok(recorded, request)
    const { headers, duration, ...rest } = recorded
    const [, error = '{}'] = record.code ? response.split('\r\n\r\n') : []
    const { message = null } = JSON.parse(error)
    assert.deepEqual(rest, { operation: null, query: '', body: '', code: null, message, ...record })
    assert.equal(headers['host'], 'a')
    assert.ok(duration >= 0)
  }
})

test('probes, and what is asked of the petstore in its process, are not recorded', async (t) => {
  const petstore = await start(t)
  for (const path of ['/livez', '/readyz']) await send(petstore, 'GET', path)
  await petstore.add([{ name: 'Rex', categoryId: 1 }])
  assert.deepEqual(petstore.requests, [])
})

test('headers have lower-case names, and no key', async (t) => {
  const petstore = await start(t)
  for (const authorization of [`Bearer ${KEY}`, 'Bearer wrong-key', 'Basic a-secret']) {
    await send(petstore, 'GET', '/v1/pets', { headers: { authorization, 'X-Odd': 'a, B' } })
    const { host } = new URL(petstore.url)
    assert.deepEqual(petstore.requests.at(-1)?.headers, {
      authorization: '[redacted]',
      'x-odd': 'a, B',
      host,
      connection: 'close',
    })
  }
})

test('a fault leaves its status and Error, or null where there was no response', async (t) => {
  const petstore = await start(t)
  const faults = [
    [{ status: 429, done: true }, 429, 'injected_fault'],
    [{ status: 500, body: { code: 'a', message: 'b' } }, 500, null],
    [{ hangUp: true, done: true }, null, null],
    [{ hangUp: 'halfway' }, 200, null],
    [{ hangUp: 'halfway', status: 503 }, 503, 'injected_fault'],
  ] as const
  for (const [fault, ...expected] of faults) {
    petstore.inject({ operation: '*', ...fault })
    await ask(petstore, '')
    const { status, code, message } = petstore.requests.at(-1) ?? {}
    assert.deepEqual([status, code], expected)
    assert.equal(typeof message === 'string', code !== null)
  }
})

test('they are in the order of arrival, each once it has a response or its client left', async (t) => {
  const petstore = await start(t)
  const fault = petstore.inject({ operation: 'listPets', delay: 600_000, times: 2 })
  const connections = [new RawConnection(t, petstore), new RawConnection(t, petstore)]
  for (const [at, connection] of connections.entries()) {
    await connection.write(`GET /v1/pets?${at} ${AUTHORIZED}\r\n`)
    while (fault.hits === at) await nextTurn()
  }
  await ask(petstore, '2')
  assert.deepEqual(queriesOf(petstore.requests), ['2'])
  connections[1]?.socket.destroy()
  await petstore.waitForRequests(2, LATER)
  const seen = petstore.requests.map(({ query, status }) => [query, status])
  assert.deepEqual(seen, [
    ['1', null],
    ['2', 200],
  ])
  petstore.clearFaults() // hangs up on the first one
  await petstore.waitForRequests(3, LATER)
  assert.deepEqual(queriesOf(petstore.requests), ['0', '1', '2'])
})

test('the latest 1,000 are kept', async (t) => {
  const petstore = await start(t)
  const connection = new RawConnection(t, petstore)
  const head = `HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${KEY}\r\n\r\n`
  const sent = Array.from({ length: 1_002 }, (_, at) => `GET /v1/pets?${at} ${head}`)
  await connection.write(sent.join(''))
  for (const _ of sent) await connection.read()
  const queries = queriesOf(petstore.requests)
  assert.deepEqual([queries.length, queries[0], queries.at(-1)], [1_000, '2', '1001'])
})

test('reset() forgets all, those in flight too', async (t) => {
  const petstore = await start(t)
  petstore.inject({ operation: 'listPets', delay: 600_000 })
  const delayed = ask(petstore, 'a')
  while (petstore.pendingFaults.length > 0) await nextTurn()
  await ask(petstore, 'b')
  await petstore.reset()
  await delayed
  await ask(petstore, 'c')
  assert.deepEqual(queriesOf(petstore.requests), ['c'])
})

test('waitForRequests() resolves with all that match, earlier ones too', async (t) => {
  const petstore = await start(t)
  const { waitForRequests } = petstore
  assert.deepEqual(await waitForRequests(0), [])
  await ask(petstore, 'a')
  const waits = Promise.all([
    waitForRequests(2, { ...LATER, matching: ({ status }) => status === 200 }),
    waitForRequests(1, { ...LATER, matching: ({ status }) => status === null }),
    waitForRequests(3, LATER),
  ])
  petstore.inject({ operation: '*', hangUp: true })
  await ask(petstore, 'b')
  await ask(petstore, 'c')
  const found = (await waits).map((requests) => queriesOf(requests).join(''))
  assert.deepEqual(found, ['ac', 'b', 'abc'])
  assert.deepEqual(await waitForRequests(1, { timeout: 0 }), petstore.requests)
})

test('the error of a time-out says how many came, and shows the last ten', async (t) => {
  const petstore = await start(t)
  const { waitForRequests } = petstore
  const error = { name: 'Error', code: 'timeout' }
  await assert.rejects(waitForRequests(1, { timeout: 1 }), { ...error, message: /\b0 of 1\b/ })
  await send(petstore, 'GET', '/v1/pets/1')
  for (let count = 0; count < 8; count++) await ask(petstore, '')
  await send(petstore, 'POST', '/v1/pets', { body: REX })
  petstore.inject({ operation: '*', hangUp: true })
  await ask(petstore, '')
  const matching = ({ status }: RecordedRequest): boolean => status === 200
  await assert.rejects(waitForRequests(9, { timeout: 1, matching }), ({ code, message }) => {
    assert.equal(code, 'timeout')
    assert.match(message, /\b8 of 9\b/)
    const lines = message.split('\n').slice(1)
    const shown = [...Array(8).fill('GET /v1/pets 200'), 'POST /v1/pets 201', /GET \/v1\/pets \D+$/]
    assert.equal(lines.length, shown.length)
    for (const [at, line] of shown.entries()) assert.match(lines[at] ?? '', new RegExp(line))
    return true
  })
})

test('an error that `matching` throws ends its wait alone', async (t) => {
  const petstore = await start(t)
  const cause = new Error('from the test')
  const matching = (): boolean => {
    throw cause
  }
  const failing = assert.rejects(petstore.waitForRequests(1, { ...LATER, matching }), cause)
  const waiting = petstore.waitForRequests(1, LATER)
  await ask(petstore, '')
  await failing
  assert.equal((await waiting).length, 1)
})

test('close() ends a wait', async (t) => {
  const petstore = await start(t)
  const waiting = assert.rejects(petstore.waitForRequests(1, LATER), { code: 'closed' })
  await petstore.close()
  await waiting
})

const WRONG: readonly (readonly [word: string, ...args: unknown[]])[] = [
  ...[undefined, '1', -1, 0.5, 1_001].map((count) => ['count', count] as const),
  ...[-1, 600_001, 0.5, '1', null].map((timeout) => ['timeout', 1, { timeout }] as const),
  ['matching', 1, { matching: /a/ }],
  ['status', 1, { status: 200 }],
  ['options', 1, 5_000],
]

test('waitForRequests() refuses what it cannot wait for', async (t) => {
  const { waitForRequests } = await start(t)
  for (const [word, ...args] of WRONG) {
    const waiting: Promise<unknown> = Reflect.apply(waitForRequests, undefined, args)
    const error = { name: 'TypeError', code: 'invalid_option', message: new RegExp(word) }
    await assert.rejects(waiting, error)
  }
  await assert.doesNotReject(waitForRequests(0, { timeout: 600_000, matching: undefined }))
})
