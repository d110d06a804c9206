// Recorded requests: what clients sent, except keys, and what became of it.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Petstore, RecordedRequest } from '../../src/types.ts'
import { KEY, RawConnection, send, start } from '../support.ts'

const REX = '{"name":"Rex","categoryId":1}'
const HOST = 'HTTP/1.1\r\nHost: a\r\n'
const LATER = { timeout: 600_000 }

const queries = ({ requests }: Pick<Petstore, 'requests'>): string[] =>
  requests.map(({ query }) => query)

/** What a request leaves, without its headers and duration. */
type Row = readonly [
  request: string,
  operation: RecordedRequest['operation'],
  method: string,
  path: string,
  query: string,
  body: string,
  status: number | null,
  code?: string,
  message?: string,
]

const AUTHORIZED = `${HOST}Authorization: Bearer ${KEY}\r\n`
const withBody = (body: string): string =>
  `Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`
const METHODS = 'The method must be one of GET, HEAD, OPTIONS, POST'
const NO_KEY = 'An API key is required: Authorization: Bearer <API_KEY>'

const ROWS: readonly Row[] = [
  [`GET /v1/pets ${AUTHORIZED}\r\n`, 'listPets', 'GET', '/v1/pets', '', '', 200],
  [`HEAD /v1/p%65ts?? ${AUTHORIZED}\r\n`, 'listPets', 'HEAD', '/v1/p%65ts', '?', '', 200],
  [
    `GET http://b/v1/pets/9?a=%20&a=#b ${AUTHORIZED}\r\n`,
    ...(['getPet', 'GET', '/v1/pets/9', 'a=%20&a=#b', '', 404, 'not_found'] as const),
    'There is no pet with this id',
  ],
  [
    `POST /v1/pets ${AUTHORIZED}${withBody('é')}`,
    ...(['createPet', 'POST', '/v1/pets', '', 'é', 400, 'bad_request'] as const),
    'The body must be one JSON object: it is not valid JSON',
  ],
  [`POST /v1/pets ${AUTHORIZED}${withBody(REX)}`, 'createPet', 'POST', '/v1/pets', '', REX, 201],
  [
    `POST /v1/pets ${HOST}${withBody(REX)}`,
    ...(['createPet', 'POST', '/v1/pets', '', '', 401, 'unauthorized', NO_KEY] as const),
  ],
  [
    `PUT /v1/pets ${AUTHORIZED}${withBody(REX)}`,
    ...([null, 'PUT', '/v1/pets', '', '', 405, 'method_not_allowed', METHODS] as const),
  ],
  [`OPTIONS * ${HOST}\r\n`, null, 'OPTIONS', '*', '', '', 204],
  [`GET / ${HOST}\r\n`, null, 'GET', '/', '', '', 200],
  [
    `GET /v1/store/orders ${AUTHORIZED}\r\n`,
    ...([null, 'GET', '/v1/store/orders', '', '', 501, 'not_implemented'] as const),
    'The contract mentions orders but does not specify them',
  ],
]

test('a request is recorded with all that it had, and with its outcome', async (t) => {
  const petstore = await start(t)
  for (const [request, operation, method, path, query, body, status, ...error] of ROWS) {
    petstore.clearRequests()
    const connection = new RawConnection(t, petstore)
    await connection.write(request.replace('\r\n', '\r\nConnection: close\r\n'))
    await connection.rest()
    const [recorded] = await petstore.waitForRequests(1, LATER)
    assert.ok(recorded)
    const { headers, duration, ...rest } = recorded
    const [code = null, message = null] = error
    assert.deepEqual(rest, { operation, method, path, query, body, status, code, message })
    assert.ok(duration >= 0)
    assert.equal(headers['host'], 'a')
  }
})

test('headers have lower-case names, and no key', async (t) => {
  const petstore = await start(t)
  for (const authorization of [`Bearer ${KEY}`, 'Bearer another-key', 'Basic a-secret']) {
    petstore.clearRequests()
    await send(petstore, 'GET', '/v1/pets', { headers: { authorization, 'X-Odd': 'caf\xe9, b' } })
    const { host } = new URL(petstore.url)
    const headers = {
      authorization: '[redacted]',
      'x-odd': 'caf\xe9, b',
      host,
      connection: 'close',
    }
    assert.deepEqual(petstore.requests[0]?.headers, headers)
  }
})

test('a fault leaves its status and Error, or null where no response was sent', async (t) => {
  const petstore = await start(t)
  const faults = [
    [{ status: 429, code: 'a', message: 'b', done: true }, 429, 'a', 'b'],
    [{ status: 500, body: 'x' }, 500, null, null],
    [{ status: 204 }, 204, null, null],
    [{ hangUp: true, done: true }, null, null, null],
    [{ hangUp: 'reset' }, null, null, null],
    [{ hangUp: 'halfway' }, 200, null, null],
    [{ delay: 1 }, 200, null, null],
  ] as const
  for (const [fault, ...outcome] of faults) {
    petstore.clearRequests()
    petstore.inject({ operation: '*', ...fault })
    await send(petstore, 'GET', '/v1/pets').catch(() => {})
    const seen = petstore.requests.map(({ status, code, message }) => [status, code, message])
    assert.deepEqual(seen, [outcome])
  }
})

test('they stand in the order of arrival, each once it is over', async (t) => {
  const petstore = await start(t)
  petstore.inject({ operation: 'listPets', delay: 600_000, times: 2 })
  const connections = [new RawConnection(t, petstore), new RawConnection(t, petstore)]
  for (const [at, connection] of connections.entries()) {
    await connection.write(`GET /v1/pets?${at} ${AUTHORIZED}\r\n`)
    while (petstore.pendingFaults[0]?.hits === at) await nextTurn()
  }
  await send(petstore, 'GET', '/v1/pets?2')
  assert.deepEqual(queries(petstore), ['2'])
  connections[1]?.socket.destroy() // its client leaves
  const [left] = await petstore.waitForRequests(1, { status: null, ...LATER })
  assert.equal(left?.query, '1')
  petstore.clearFaults()
  await petstore.waitForRequests(3, LATER)
  assert.deepEqual(queries(petstore), ['0', '1', '2'])
})

test('the body is empty if the client left before it was read', async (t) => {
  const petstore = await start(t)
  const connection = new RawConnection(t, petstore)
  await connection.write(
    `POST /v1/pets ${AUTHORIZED}Content-Length: 50\r\nExpect: 100-continue\r\n\r\n`,
  )
  await connection.read() // the 100
  await connection.write(REX)
  await send(petstore, 'GET', '/livez') // by now it is read
  connection.socket.resetAndDestroy()
  const [left] = await petstore.waitForRequests(1, LATER)
  assert.deepEqual([left?.operation, left?.body, left?.status], ['createPet', '', null])
})

test('the latest 1,000 are kept', async (t) => {
  const petstore = await start(t)
  const connection = new RawConnection(t, petstore)
  for (let at = 0; at < 1_002; at += 6) {
    const some = Array.from(
      { length: 6 },
      (_, more) => `GET /v1/pets?${at + more} ${AUTHORIZED}\r\n`,
    )
    await connection.write(some.join(''))
    for (const _ of some) await connection.read()
  }
  assert.deepEqual(
    queries(petstore),
    Array.from({ length: 1_000 }, (_, at) => `${at + 2}`),
  )
})

test('of these, the latest 16 MiB are kept; a wait goes on for those that are not', async (t) => {
  const petstore = await start(t, { maxBody: 9 * 2 ** 20 })
  const sendBytes = (query: string, length: number) => {
    return send(petstore, 'POST', `/v1/pets?${query}`, { body: Buffer.alloc(length, 'x') })
  }
  await sendBytes('forgotten', 8 * 2 ** 20)
  petstore.clearRequests()
  await sendBytes('a', 8 * 2 ** 20)
  const waiting = petstore.waitForRequests(3, { operation: 'createPet', ...LATER })
  await sendBytes('b', 8 * 2 ** 20 - 2_000)
  assert.deepEqual(queries(petstore), ['a', 'b'])
  await sendBytes('c', 2_000)
  assert.deepEqual(queries(petstore), ['b', 'c'])
  await sendBytes('d', 1)
  assert.deepEqual(queries({ requests: await waiting }), ['b', 'c', 'd'])
})

test('clearRequests() forgets those in flight, too', async (t) => {
  const petstore = await start(t)
  petstore.inject({ operation: 'listPets', delay: 600_000 })
  const delayed = send(petstore, 'GET', '/v1/pets?a').catch(() => {})
  while (petstore.pendingFaults.length > 0) await nextTurn()
  await send(petstore, 'GET', '/v1/pets?b')
  const waiting = petstore.waitForRequests(2, LATER) // one of them is forgotten
  petstore.clearRequests()
  await send(petstore, 'GET', '/v1/pets?c')
  petstore.clearFaults()
  await delayed
  await send(petstore, 'GET', '/v1/pets?d')
  assert.deepEqual(queries(petstore), ['c', 'd'])
  assert.deepEqual(await waiting, petstore.requests)
})

test('they are copies, and hold what was sent at the time', async (t) => {
  const petstore = await start(t)
  await send(petstore, 'GET', '/v1/pets')
  const before = petstore.requests
  for (const one of [...petstore.requests, ...(await petstore.waitForRequests(1))])
    Object.assign(one, { method: 'X' }).headers['x'] = 'y'
  petstore.requests.pop()
  assert.deepEqual(petstore.requests, before)
})
