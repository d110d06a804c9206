// Requests that cannot be read, do not arrive in time, or break off: each is answered with an Error, the last of its connection.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Limits } from '../../src/http/limits.ts'
import { AUTHORIZATION, RawConnection, send, start } from '../support.ts'
import {
  assertLastError,
  assertWholeError,
  BEARER,
  chunk,
  CHUNKED,
  get,
  HOST,
  LogReader,
  post,
  postChunked,
  postHead,
  request,
  REX,
} from './raw.ts'

const GET = 'GET /v1/pets HTTP/1.1'
const POST = 'POST /v1/pets HTTP/1.1'
const framed = (...fields: string[]) => request(POST, [HOST, BEARER, ...fields], `${chunk(REX)}0\r\n\r\n`)
const unchunked = (...fields: string[]) => request(POST, [HOST, BEARER, ...fields], REX)
const long = 'x'.repeat(16_384)

const BAD_REQUESTS: [name: string, bytes: string][] = [
  ['garbage', 'garbage\r\n\r\n'],
  ['the beginning of TLS', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03'],
  ['the preface of HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
  ['HTTP/2.0', request('GET /v1/pets HTTP/2.0', [HOST, BEARER])],
  ['HTTP/1.2', request('GET /v1/pets HTTP/1.2', [HOST, BEARER])],
  ['HTTP/0.9', request('GET /v1/pets HTTP/0.9', [HOST, BEARER])],
  ['an unknown method', request('BREW /v1/pets HTTP/1.1', [HOST, BEARER])],
  ['a method in lower case', request('get /v1/pets HTTP/1.1', [HOST, BEARER])],
  ['a target that does not begin with a slash', request('GET v1/pets HTTP/1.1', [HOST, BEARER])],
  ['a target with bytes beyond ASCII', request('GET /v1/p\xe9ts HTTP/1.1', [HOST, BEARER])],
  ['lines without CR', get().replaceAll('\r', '')],
  ['a space before the colon', request(GET, ['Host : pets.example', BEARER])],
  ['a folded line', request(GET, [HOST, BEARER, 'X: a', ' b'])],
  ['a NUL in a field', request(GET, [HOST, BEARER, 'X: a\0b'])],
  ['no Host', request(GET, [BEARER])],
  ['two Hosts', request(GET, [HOST, HOST, BEARER])],
  ['two Hosts in HTTP/1.0', request('GET /v1/pets HTTP/1.0', [HOST, 'HOST: other.example', BEARER])],
  ['a bad Host in HTTP/1.0', request('GET /v1/pets HTTP/1.0', ['Host: a b', BEARER])],
  ...['a b', 'a/b', 'http://a', 'user@a', 'a:b', 'a:80:80', '[::1', 'a,b c', 'é'].map((host): [string, string] => [
    `the Host ${host}`,
    request(GET, [`Host: ${host}`, BEARER]),
  ]),
  ['no Host in absolute-form', request('GET http://pets.example/v1/pets HTTP/1.1', [BEARER])],
  ['CONNECT without Host', request('CONNECT pets.example:80 HTTP/1.1', [])],
  ['Content-Length and Transfer-Encoding', framed('Content-Length: 3', CHUNKED)],
  ['Transfer-Encoding and Content-Length', framed(CHUNKED, 'Content-Length: 3')],
  ['two Content-Lengths', unchunked('Content-Length: 29', 'Content-Length: 30')],
  ['the same Content-Length twice', unchunked('Content-Length: 29', 'Content-Length: 29')],
  ...['29, 29', '+29', '-1', '0x1d', '2 9', '29.0', '', '9'.repeat(30)].map((length): [string, string] => [
    `the Content-Length ${length}`,
    unchunked(`Content-Length: ${length}`),
  ]),
  ['a last coding other than chunked', framed('Transfer-Encoding: gzip')],
  ['chunked and another coding behind', framed('Transfer-Encoding: chunked, identity')],
  ['chunked twice', framed(CHUNKED, CHUNKED)],
  ['a coding that only ends in chunked', framed('Transfer-Encoding: xchunked')],
  ['chunks in HTTP/1.0', framed(CHUNKED).replace('HTTP/1.1', 'HTTP/1.0')],
  ['a chunk size that is no number', postChunked(`zz\r\n${REX}\r\n0\r\n\r\n`)],
  ['a chunk size below zero', postChunked(`-1\r\n${REX}\r\n0\r\n\r\n`)],
  ['a chunk size beyond 64 bits', postChunked(`${'f'.repeat(17)}\r\n${REX}\r\n0\r\n\r\n`)],
  ['a chunk longer than its size', postChunked(`3\r\n${REX}\r\n0\r\n\r\n`)],
  ['a chunk size without CR', postChunked(`1d\n${REX}\r\n0\r\n\r\n`)],
]

const TOO_LARGE: [name: string, bytes: string, status: number, code: string][] = [
  ['a field of 16 KiB', get('/v1/pets', `X: ${long}`), 431, 'headers_too_large'],
  [
    'fields of 16 KiB together',
    get('/v1/pets', ...Array.from({ length: 164 }, () => `X: ${'x'.repeat(100)}`)),
    431,
    'headers_too_large',
  ],
  ['a target of 16 KiB', get(`/v1/${long}`), 431, 'headers_too_large'],
  ['fields of 16 KiB that do not end', `${GET}\r\nX: ${long}`, 431, 'headers_too_large'],
  ['trailers of 16 KiB', postChunked(`${chunk(REX)}0\r\nX: ${long}\r\n\r\n`), 431, 'headers_too_large'],
  ['chunk extensions of 16 KiB', postChunked(`1d;a=${long}\r\n${REX}\r\n0\r\n\r\n`), 413, 'content_too_large'],
]

describe('a request that cannot be read', () => {
  const table: [string, string, number, string][] = BAD_REQUESTS.map((row) => [...row, 400, 'bad_request'])
  for (const [name, bytes, status, code] of [...table, ...TOO_LARGE]) {
    test(`for ${name} is answered ${status}, and nothing behind it is processed`, async (t) => {
      const petstore = await start(t)
      const connection = new RawConnection(t, petstore)
      await connection.write(Buffer.from(bytes + post(), 'latin1'))
      await assertLastError(connection, status, code)
      assert.equal((await send(petstore, 'GET', '/v1/pets')).body, '[]')
    })
  }

  test('for CONNECT is answered 405, and nothing behind it is processed', async (t) => {
    const petstore = await start(t)
    const connection = new RawConnection(t, petstore)
    await connection.write(request('CONNECT pets.example:80 HTTP/1.1', [HOST, BEARER]) + post())
    await assertLastError(connection, 405, 'method_not_allowed')
    assert.equal((await send(petstore, 'GET', '/v1/pets')).body, '[]')
  })

  const last: [name: string, bytes: string, status: number, code: string][] = [
    ['garbage', 'garbage\r\n\r\n', 400, 'bad_request'],
    ['a request without Host', request(GET, [BEARER]), 400, 'bad_request'],
    ['a bad chunk', postChunked('zz\r\n'), 400, 'bad_request'],
    ['another expectation', post(REX, 'Expect: 200-ok'), 417, 'expectation_failed'],
    ['a header section too large', get('/v1/pets', `X: ${long}`), 431, 'headers_too_large'],
    ['CONNECT', request('CONNECT pets.example:80 HTTP/1.1', [HOST]), 405, 'method_not_allowed'],
  ]
  for (const [name, bytes, status, code] of last) {
    test(`has its ${status} for ${name} behind the answers to the good ones before it`, async (t) => {
      const petstore = await start(t)
      const connection = new RawConnection(t, petstore)
      await connection.write(get() + post() + get('/v1/pets/1') + bytes + post())
      const statuses = [await connection.read(), await connection.read(), await connection.read()]
      assert.deepEqual(
        statuses.map((answer) => answer.status),
        [200, 201, 200],
      )
      await assertLastError(connection, status, code)
      assert.equal((await send(petstore, 'GET', '/v1/pets')).body, '[{"id":1,"name":"Rex","categoryId":1}]')
    })
  }

  test('is logged with what could be read of it', async (t) => {
    const logStream = new LogReader()
    const petstore = await start(t, { log: 'json', logStream })
    for (const bytes of ['garbage\r\n\r\n', postChunked('zz\r\n')]) {
      const connection = new RawConnection(t, petstore)
      await connection.write(bytes)
      await assertLastError(connection, 400, 'bad_request')
    }
    const [unread, read] = [await logStream.next(), await logStream.next()]
    assert.deepEqual([unread['method'], unread['path'], unread['status']], [undefined, undefined, 400])
    assert.deepEqual([read['method'], read['path'], read['status']], ['POST', '/v1/pets', 400])
    for (const { bytes, remote } of [unread, read]) assert.ok(Number(bytes) > 0 && remote === '127.0.0.1')
  })
})

describe('a request that does not arrive in time', { concurrency: true }, () => {
  const soon: Partial<Limits> = { headersTimeout: 50, requestTimeout: 50, checkInterval: 10 }
  const slow: [name: string, bytes: string][] = [
    ['its head', `${GET}\r\nHost: pets`],
    ['its body', postHead(REX.length) + REX.slice(0, 9)],
    ['its chunks', postChunked(chunk(REX))],
    ['its first byte', ''],
  ]
  for (const [name, bytes] of slow) {
    test(`for want of ${name} is answered 408`, async (t) => {
      const connection = new RawConnection(t, await start(t, { limits: soon }))
      if (bytes !== '') await connection.write(bytes)
      await assertLastError(connection, 408, 'request_timeout')
    })
  }

  // Long enough for what must be read before it, on a busy machine too.
  const later: Partial<Limits> = { headersTimeout: 2_000, requestTimeout: 2_000, checkInterval: 10 }

  test('behind good ones is answered 408 after their answers', async (t) => {
    const connection = new RawConnection(t, await start(t, { limits: later }))
    await connection.write(post() + get('/v1/pets/1') + GET)
    assert.equal((await connection.read()).status, 201)
    assert.equal((await connection.read()).status, 200)
    await assertLastError(connection, 408, 'request_timeout')
  })

  for (const [why, bytes, status, code] of [
    ['no key', request(POST, [HOST, 'Content-Length: 50'], REX), 401, 'unauthorized'],
    ['a wrong type', postHead(50, 'Content-Type: text/plain') + REX, 415, 'unsupported_media_type'],
    ['a body too large', postHead(70_000), 413, 'content_too_large'],
    [
      'a body too large, as it turns out,',
      postChunked(chunk(REX.padEnd(65_537)) + chunk(REX)),
      413,
      'content_too_large',
    ],
  ] as const) {
    test(`and is refused for ${why} is answered at once, and closed in the end without a second answer`, async (t) => {
      const connection = new RawConnection(t, await start(t, { limits: later }))
      await connection.write(bytes)
      assertWholeError(await connection.read(), status, code)
      assert.equal(await connection.rest(), '')
    })
  }
})

describe('a client that hangs up in mid-body', () => {
  test('by ending its side is answered 400 and logged, and the server lives', async (t) => {
    const logStream = new LogReader()
    const petstore = await start(t, { log: 'json', logStream })
    const connection = new RawConnection(t, petstore)
    connection.socket.end(postHead(REX.length, 'X-Request-Id: left') + REX.slice(0, 9))
    await assertLastError(connection, 400, 'bad_request')
    const { method, operation, status, requestId } = await logStream.next()
    assert.deepEqual([method, operation, status, requestId], ['POST', 'createPet', 400, 'left'])
    assert.equal((await send(petstore, 'GET', '/v1/pets')).body, '[]')
  })

  test('by a reset is logged without a status, and the server lives', async (t) => {
    const logStream = new LogReader()
    const petstore = await start(t, { log: 'json', logStream })
    const connection = new RawConnection(t, petstore)
    await connection.write(postHead(REX.length, 'X-Request-Id: left', 'Expect: 100-continue'))
    assert.equal((await connection.read()).status, 100) // the server waits for the body
    connection.socket.resetAndDestroy()
    const { method, operation, status, requestId, bytes } = await logStream.next()
    assert.deepEqual([method, operation, status, requestId, bytes], ['POST', 'createPet', null, 'left', 0])
    assert.equal((await send(petstore, 'GET', '/v1/pets')).body, '[]')
    assert.equal((await logStream.next())['status'], 200)
  })

  test('after its refusal, or before its head is whole, does not harm the server', async (t) => {
    const petstore = await start(t)
    for (const bytes of [
      request(POST, [HOST, 'Content-Length: 50'], REX),
      `${GET}\r\nAuthorization: ${AUTHORIZATION}`,
    ]) {
      for (const hangUp of ['end', 'resetAndDestroy'] as const) {
        const connection = new RawConnection(t, petstore)
        await connection.write(bytes)
        if (bytes.startsWith('POST')) assertWholeError(await connection.read(), 401, 'unauthorized')
        connection.socket[hangUp]()
        await connection.closed
        assert.equal((await send(petstore, 'GET', '/v1/pets')).status, 200)
      }
    }
  })
})
