// Requests that cannot be read, do not arrive in time, or break off: each is answered with an Error, the last of its connection.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { assertLast, assertNext, type Expected, RawConnection, start, words } from '../support.ts'
import { BEARER, chunk, CHUNKED, get, HOST, open, post, postChunked, postHead, request, REX } from './raw.ts'

const GET = 'GET /v1/pets HTTP/1.1'
const POST = 'POST /v1/pets HTTP/1.1'
const long = 'x'.repeat(16_384)
const line = (first: string) => request(first, [HOST, BEARER])
const framed = (...lines: string[]) => request(POST, [HOST, BEARER, ...lines], `${chunk(REX)}0\r\n\r\n`)
const unchunked = (...lines: string[]) => request(POST, [HOST, BEARER, ...lines], REX)
const timeOut = '408 request_timeout'

const BAD_VERSIONS = words('GET=HTTP/2.0 GET=HTTP/1.2 GET=HTTP/0.9 GET=HTTP/1 GET=HTTPS/1.1 BREW=HTTP/1.1 get=HTTP/1.1')
const BAD_TARGETS = ['v1/pets', '/v1/p\xe9ts', 'foo http://a/v1/pets', '/ http://a/v1/pets', '']
const BAD_HOSTS =
  'a b|a/b|/a|http://a|user@a|a:b|a:80:80|a:80x|:x|[::1|::1]|[::1]x|x[::1]|[]|[a b]|a,b c|\xe9|a\xe9|a"|a\\'.split('|')
// The repeated ones node refuses by itself, in front of a request.
const UNKNOWN_CODINGS = 'gzip, chunked|gzip|identity|xchunked|chunked;a=b|"chunked"|,'.split('|')
const REPEATED_CODINGS = `chunked, chunked|chunked, gzip|chunked,|chunked\r\n${CHUNKED}|gzip\r\n${CHUNKED}`.split('|')
const coded = (coding: string) => `Transfer-Encoding: ${coding}`
const BAD_LENGTHS = '29, 29|+29|-1|0x1d|2 9|29.0||999999999999999999999999999999'.split('|')

const BAD_REQUESTS: readonly string[] = [
  'garbage\r\n\r\n',
  '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', // the beginning of TLS
  'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', // the preface of HTTP/2
  get().replaceAll('\r', ''),
  request(GET, ['Host : pets.example', BEARER]),
  request(GET, [HOST, BEARER, 'X: a', ' b']), // a folded line
  request(GET, [HOST, BEARER, 'X: a\0b']),
  ...BAD_VERSIONS.map((one) => line(one.replace('=', ' /v1/pets '))),
  ...BAD_TARGETS.map((target) => line(`GET ${target} HTTP/1.1`)),
  request(GET, [BEARER]),
  request(GET, [HOST, HOST, BEARER]),
  request(GET, [HOST, BEARER, 'HOST: other.example']),
  request('GET /v1/pets HTTP/1.0', [HOST, 'hOST: other.example', BEARER]),
  request('GET /v1/pets HTTP/1.0', ['Host: a b', BEARER]),
  request('GET http://pets.example/v1/pets HTTP/1.1', [BEARER]),
  request('CONNECT pets.example:80 HTTP/1.1', []),
  ...BAD_HOSTS.map((host) => request(GET, [`Host: ${host}`, BEARER])),
  ...BAD_LENGTHS.map((length) => unchunked(`Content-Length: ${length}`)),
  unchunked('Content-Length: 29', 'Content-Length: 30'),
  unchunked('Content-Length: 29', 'Content-Length: 29'),
  get('/v1/pets', BEARER),
  get('/v1/pets', 'AUTHORIZATION: Bearer another'),
  request('GET /v1/pets HTTP/1.0', [BEARER, BEARER]),
  ...['', ' '].flatMap((empty) => [get('/v1/pets', coded(empty)), framed(coded(empty))]),
  framed('Content-Length: 3', CHUNKED),
  framed(CHUNKED, 'Content-Length: 3'),
  framed(CHUNKED).replace('HTTP/1.1', 'HTTP/1.0'),
  ...['zz', '-1', 'f'.repeat(17), '3'].map((size) => postChunked(`${size}\r\n${REX}\r\n0\r\n\r\n`)),
  postChunked(`1d\n${REX}\r\n0\r\n\r\n`),
]

const REFUSED: readonly [bytes: string, expected: Expected][] = [
  ...BAD_REQUESTS.map((bytes): [string, Expected] => [bytes, '400 bad_request']),
  ...[...UNKNOWN_CODINGS, ...REPEATED_CODINGS].flatMap((coding): [string, Expected][] => [
    [get('/v1/pets', coded(coding)), '501 not_implemented'],
    [framed(coded(coding)), '501 not_implemented'],
    [framed(coded(coding)).replace('HTTP/1.1', 'HTTP/1.0'), '501 not_implemented'],
  ]),
  [get('/v1/pets', ...Array<string>(99).fill('X: y')), '431 headers_too_large'],
  [get('/v1/pets', ...Array<string>(5_000).fill('X:')), '431 headers_too_large'],
  [get('/v1/pets', ...Array<string>(164).fill(`X: ${'x'.repeat(100)}`)), '431 headers_too_large'],
  [get(`/v1/${long}`), '431 headers_too_large'],
  [`${GET}\r\nX: ${long}`, '431 headers_too_large'], // before its end
  [postChunked(`${chunk(REX)}0\r\nX: ${long}\r\n\r\n`), '431 headers_too_large'],
  [postChunked(`1d;a=${long}\r\n${REX}\r\n0\r\n\r\n`), '413 content_too_large'],
  [request('CONNECT pets.example:80 HTTP/1.1', [HOST, BEARER]), '405 method_not_allowed'],
  [post(REX, 'Expect: 200-ok'), '417 expectation_failed'],
]

describe('a request that cannot be read', () => {
  test('is answered with an Error, and nothing behind it is processed', async (t) => {
    const petstore = await start(t)
    for (const [bytes, expected] of REFUSED) {
      const connection = await open(t, petstore, bytes + post())
      const answer = await assertLast(connection, expected, JSON.stringify(bytes.slice(0, 200)))
      assert.ok(answer.headers.date)
      assert.deepEqual(petstore.pets, [])
    }
  })

  test('has its Error behind the answers to those before it, however long they take', async (t) => {
    const petstore = await start(t)
    const some = REFUSED.filter((_, at) => at % 5 === 0 || at > REFUSED.length - 4)
    for (const [at, [bytes, expected]] of some.entries()) {
      for (const delay of [0, 1, 20]) petstore.inject({ operation: '*', delay })
      const connection = await open(t, petstore, get() + post() + get('/v1/pets/1') + bytes + post())
      await assertNext(connection, 200, 201, 200)
      await assertLast(connection, expected, JSON.stringify(bytes.slice(0, 200)))
      assert.equal(petstore.pets.length, at + 1)
    }
  })

  test('is answered once, though its operation has begun, or it goes on and on behind one that is not answered yet', async (t) => {
    const petstore = await start(t)
    petstore.inject({ operation: 'listPets', delay: 20 })
    await assertLast(await open(t, petstore, `${get('/v1/pets', CHUNKED)}ZZ\r\n`), '400 bad_request')
    petstore.inject({ operation: 'listPets', delay: 20 })
    const { mock } = t.mock.method(process, 'emitWarning') // of listeners that pile up
    const connection = await open(t, petstore, get())
    for (let count = 0; count < 50; count++) {
      await connection.write('garbage\r\n\r\n')
      await setImmediate()
    }
    await assertNext(connection, 200)
    await assertLast(connection, '400 bad_request')
    assert.equal(mock.callCount(), 0)
  })
})

describe('a request that HTTP allows', () => {
  test('is read, however odd', async (t) => {
    const petstore = await start(t, { pets: [{ name: 'Rex', categoryId: 1 }] })
    const hosts =
      "a|A.b-c_d~1|127.0.0.1:80|[::1]|[::1]:80|[fe80::1%25en0]|a:||:80|%41!$&'()*+,;=|xn--bcher-kva.example".split('|')
    const requests = [
      ...hosts.map((host) => request(GET, [`Host: ${host}`, BEARER])),
      ...hosts.map((host) => request('GET /v1/pets HTTP/1.0', [`Host: ${host}`, BEARER, 'Connection: keep-alive'])),
      request('GET /v1/pets HTTP/1.0', [BEARER, 'Connection: keep-alive']),
      request('GET /v1/pets HTTP/1.0', [BEARER, 'Connection: keep-alive', 'Expect: miracles']), // which 1.0 knows nothing of
      get('/v1/pets', 'From: b@c.example', 'From: d@e.example', 'Age: 1', 'Age: 2'), // names as long as Host's
      get('/v1/pets', 'X: Host'),
      get('/v1/pets', 'X-Empty:', 'x-ünïcode: \xfc'.replaceAll(/[üï]/g, 'u'), 'X-Tab:\ta\tb'),
      `\r\n${get()}`,
      get('/v1/pets', `Content-Length: ${REX.length}`) + REX, // read and ignored
      ...['chunked', 'Chunked', 'CHUNKED', ' \tchunked '].map((coding) => get('/v1/pets', coded(coding)) + '0\r\n\r\n'),
      get('/v1/pets', ...Array<string>(98).fill('X: y')), // 100 with Host and Authorization
      get('/v1/pets', 'Connection: Upgrade, HTTP2-Settings', 'Upgrade: h2c', 'HTTP2-Settings: AAMAAABk'),
    ]
    const connection = await open(t, petstore, requests.join(''))
    for (const { body } of await assertNext(connection, ...requests.map(() => 200))) {
      assert.equal(body, '[{"id":1,"name":"Rex","categoryId":1}]')
    }
  })
})

describe('a request that does not arrive in time', () => {
  test('for want of its first byte, its head, its body or its chunks is answered 408', async (t) => {
    const petstore = await start(t, {}, { headersTimeout: 50, requestTimeout: 50, checkInterval: 10 })
    const begun = ['', `${GET}\r\nHost: pets`, postHead(REX.length) + REX.slice(0, 9), postChunked(chunk(REX))]
    await Promise.all(begun.map(async (bytes) => assertLast(await open(t, petstore, bytes), timeOut, bytes)))
  })

  test('is answered 408 behind good ones; one that is refused already is closed without a second answer', async (t) => {
    // Long enough for what must be read before it, on a busy machine too.
    const petstore = await start(t, {}, { headersTimeout: 2_000, requestTimeout: 2_000, checkInterval: 10 })
    const late = await open(t, petstore, post() + get('/v1/pets/1') + GET)
    const refused = Object.entries<Expected>({
      [request(POST, [HOST, 'Content-Length: 50'], REX)]: '401 unauthorized',
      [postHead(50, 'Content-Type: text/plain') + REX]: '415 unsupported_media_type',
      [postHead(70_000)]: '413 content_too_large',
      [postChunked(chunk(REX.padEnd(65_537)) + chunk(REX))]: '413 content_too_large',
    }).map(async ([bytes, expected]) => {
      const connection = await open(t, petstore, bytes)
      await assertNext(connection, expected)
      assert.equal(await connection.rest(), '')
    })
    await Promise.all(refused)
    await assertNext(late, 201, 200)
    await assertLast(late, timeOut)
  })
})

test('a client that ends its side within a body is answered 400, and adds nothing', async (t) => {
  const petstore = await start(t)
  const connection = new RawConnection(t, petstore)
  connection.socket.end(postHead(REX.length) + REX.slice(0, 9))
  await assertLast(connection, '400 bad_request')
  const seen = petstore.requests.map(({ operation, status }) => [operation, status])
  assert.deepEqual([seen, petstore.pets], [[['createPet', 400]], []])
})
