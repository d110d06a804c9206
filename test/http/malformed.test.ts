// Requests that node's parser refuses, and those whose HTTP is odd but allowed.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { RawConnection, send, start } from '../support.ts'
import { assertLast, assertNext, BEARER, CHUNKED, get, HOST, open, post } from './raw.ts'
import { request, REX } from './raw.ts'

const CREATE = 'POST /v1/pets'
const LONG = 'x'.repeat(16_384)

const UNREADABLE: readonly [what: string, bytes: string, expected: string][] = [
  ['garbage', 'garbage\r\n\r\n', '400 bad_request'],
  ['the beginning of TLS', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', '400 bad_request'],
  ['the preface of HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', '400 bad_request'],
  ['an unknown method', request('BREW /v1/pets', [HOST, BEARER]), '400 bad_request'],
  ['a space in the target', get('/v1/pets?a b'), '400 bad_request'],
  ['a header without a colon', get('/v1/pets', 'no colon'), '400 bad_request'],
  ['a header with a NUL', get('/v1/pets', 'X: a\0b'), '400 bad_request'],
  [
    'a negative length',
    request(CREATE, [HOST, BEARER, 'Content-Length: -1'], REX),
    '400 bad_request',
  ],
  ['a length and chunks', post(REX, CHUNKED), '400 bad_request'],
  ['a bad size of a chunk', request(CREATE, [HOST, BEARER, CHUNKED], 'zz\r\n'), '400 bad_request'],
  ['a long target', get(`/v1/${LONG}`), '431 headers_too_large'],
  ['a long header, before its end', `GET / HTTP/1.1\r\nX: ${LONG}`, '431 headers_too_large'],
  [
    'many headers',
    get('/v1/pets', ...Array<string>(164).fill(`X: ${LONG.slice(-100)}`)),
    '431 headers_too_large',
  ],
]
for (const [what, bytes, expected] of UNREADABLE) {
  test(`${what} gets ${expected}, the last response of its connection`, async (t) => {
    const petstore = await start(t)
    await assertLast(await open(t, petstore, bytes + post()), expected)
    const later = await open(t, petstore, get() + get('/v1/pets/1'))
    await assertNext(later, 200, 404)
    await later.write(Buffer.from(bytes + post(), 'latin1'))
    await assertLast(later, expected)
    assert.deepEqual(await petstore.pets(), [])
  })
}

test('the response to garbage has the headers of every error, and no other', async (t) => {
  const connection = await open(t, await start(t), 'garbage\r\n\r\n')
  const { headers } = await connection.read()
  const common = ['cache-control', 'content-length', 'content-type', 'x-content-type-options']
  assert.deepEqual(new Set(Object.keys(headers)), new Set([...common, 'connection', 'date']))
})

test('a request that cannot be read waits for the slow ones before it', async (t) => {
  const petstore = await start(t)
  petstore.inject({ operation: 'createPet', delay: 20 })
  const connection = await open(t, petstore, `${post()}${get()}garbage\r\n\r\n`)
  await assertNext(connection, 201, 200)
  await assertLast(connection, '400 bad_request')
})

test('a garbled body is recorded as its 400, and adds nothing', async (t) => {
  const petstore = await start(t)
  const head = request(CREATE, [HOST, BEARER, CHUNKED])
  await assertLast(await open(t, petstore, `${head}1\r\n{\r\nzz\r\n`), '400 bad_request')
  const records = petstore.requests.map(({ operation, status, code }) => [operation, status, code])
  assert.deepEqual(records, [['createPet', 400, 'bad_request']])
  assert.deepEqual(await petstore.pets(), [])
})

test('a response says only once that its connection closes', async (t) => {
  const headers = [HOST, BEARER, CHUNKED, 'Expect: 100-continue', 'Upgrade: h2c']
  const connection = await open(t, await start(t), request(CREATE, headers))
  await assertNext(connection, 100)
  await connection.write('zz\r\n')
  const closes = (await connection.rest()).match(/^connection: close\r$/gim)
  assert.equal(closes?.length, 1)
})

test('a body that is refused, and garbled after that, ends the connection', async (t) => {
  const connection = new RawConnection(t, await start(t))
  await connection.write(request(CREATE, [HOST, BEARER, CHUNKED]))
  await connection.write(`11000\r\n${'x'.repeat(0x11000)}\r\n`)
  await assertNext(connection, '413 content_too_large')
  await connection.write('zz\r\n')
  assert.equal(await connection.rest(), '')
})

test('HTTP/1.1 without Host is 400, at every path and with every key', async (t) => {
  const petstore = await start(t)
  for (const target of ['GET /v1/pets', 'POST /v1/none', 'GET /', 'OPTIONS /livez']) {
    await assertNext(await open(t, petstore, request(target, [BEARER])), '400 bad_request')
    await assertNext(await open(t, petstore, request(target, [])), '400 bad_request')
  }
})

test('a header section may have nearly 16 KiB', async (t) => {
  const large = get('/v1/pets', `X: ${'x'.repeat(16_000)}`)
  await assertNext(await open(t, await start(t), large + large), 200, 200)
})

const OLD = `GET /v1/pets HTTP/1.0\r\n${BEARER}\r\n`
const UPGRADE = ['Connection: Upgrade, HTTP2-Settings', 'Upgrade: h2c']
for (const [what, bytes, expected] of [
  ['HTTP/1.0', `${OLD}\r\n`, 200],
  ['Connection: close', get('/v1/pets', 'Connection: close'), 200],
  ['an Upgrade, which is ignored', get('/v1/pets', ...UPGRADE), 200],
  ['an Upgrade with a body', post(REX, ...UPGRADE), 201],
] as const) {
  test(`the response to ${what} is the last of its connection`, async (t) => {
    const petstore = await start(t)
    await assertLast(await open(t, petstore, bytes + post('{"name":"","categoryId":1}')), expected)
    const pets = await petstore.pets()
    assert.ok(pets.every(({ name }) => name === 'Rex'))
  })
}

test('HTTP/1.0 may ask to keep its connection', async (t) => {
  const kept = `${OLD}Connection: keep-alive\r\n\r\n`
  await assertNext(await open(t, await start(t), kept + kept), 200, 200)
})

test('CONNECT closes the connection, and harms nobody', async (t) => {
  const petstore = await start(t)
  const connection = await open(t, petstore, request('CONNECT a:80', [HOST, BEARER]))
  await connection.closed
  assert.equal((await send(petstore, 'GET', '/v1/pets')).status, 200)
})
