// Requests that cannot be read, do not arrive in time, or break off. Each gets an Error as the last
// response on its connection.
import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { assertLast, assertNext, type Expected, outcomesOf } from '../support.ts'
import { RawConnection, start, words } from '../support.ts'
import { ask, BEARER, chunk, CHUNKED, HOST, open, REX } from './raw.ts'
import { get, post, postChunked, postHead, request } from './raw.ts'

const GET = 'GET /v1/pets HTTP/1.1'
const POST = 'POST /v1/pets HTTP/1.1'
const long = 'x'.repeat(16_384)
const line = (first: string) => request(first, [HOST, BEARER])
const framed = (...lines: string[]) =>
  request(POST, [HOST, BEARER, ...lines], `${chunk(REX)}0\r\n\r\n`)
const unchunked = (...lines: string[]) => request(POST, [HOST, BEARER, ...lines], REX)
const timeOut = '408 request_timeout'

const BAD_VERSIONS = words('HTTP/2.0 HTTP/1.2 HTTP/0.9 HTTP/1 HTTPS/1.1 RTSP/1.0')
const BAD_LINES = [
  ...BAD_VERSIONS.map((version) => `GET /v1/pets ${version}`),
  'OPTIONS * RTSP/1.0',
  ...['BREW /v1/pets HTTP/1.1', 'get /v1/pets HTTP/1.1'],
]
const BAD_TARGETS = ['v1/pets', '/v1/p\xe9ts', 'foo http://a/v1/pets', '/ http://a/v1/pets', '']
const BAD_HOSTS = [
  ...['a b', 'a/b', '/a', 'http://a', 'user@a', 'a:b', 'a:80:80', 'a:80x', ':x', 'a,b c'],
  ...['[::1', '::1]', '[::1]x', 'x[::1]', '[]', '[a b]', '\xe9', 'a\xe9', 'a"', 'a\\'],
]
// Of a list that repeats `chunked`, or names a coding after it, node's parser refuses each.
const BAD_CODINGS = [
  ...['', ' ', '\t', ',', ', chunked', 'chunked,', 'gzip', 'identity', 'xchunked', '"chunked"'],
  ...['chunked;a=b', 'chunked, gzip', 'chunked, chunked', 'chunked ,\tchunked', 'gzip, chunked,'],
  ...['gzip, \xa0chunked', 'gzip, chunked\xa0'],
  ...['chunked, gzip, chunked', 'gzip, chunked, gzip', 'gzip, chunked;a=b', 'gzip;a="b, chunked"'],
  ...[`chunked\r\n${CHUNKED}`, 'chunked\r\nTransfer-Encoding: gzip'],
  'chunked\r\nTransfer-Encoding:',
]
const UNKNOWN_CODINGS = [
  ...['gzip, chunked', 'gzip,chunked', 'gzip ,\tChunked', 'gzip, deflate, chunked'],
  ...['identity, chunked', `gzip\r\n${CHUNKED}`],
]
const coded = (coding: string) => `Transfer-Encoding: ${coding}`
const BAD_LENGTHS = ['29, 29', '+29', '-1', '0x1d', '2 9', '29.0', '', '9'.repeat(30)]

const BAD_REQUESTS: readonly string[] = [
  'garbage\r\n\r\n',
  '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', // the beginning of TLS
  'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', // the preface of HTTP/2
  get().replaceAll('\r', ''),
  request(GET, ['Host : pets.example', BEARER]),
  request(GET, [HOST, BEARER, 'X: a', ' b']), // a folded line
  request(GET, [HOST, BEARER, 'X: a\0b']),
  ...BAD_LINES.map(line),
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
  ...BAD_CODINGS.flatMap((coding) => [
    get('/v1/pets', coded(coding)),
    framed(coded(coding)),
    framed(coded(coding)).replace('HTTP/1.1', 'HTTP/1.0'),
  ]),
  framed('Content-Length: 3', CHUNKED),
  framed(CHUNKED, 'Content-Length: 3'),
  framed(CHUNKED).replace('HTTP/1.1', 'HTTP/1.0'),
  ...['zz', '-1', 'f'.repeat(17), '3'].map((size) => postChunked(`${size}\r\n${REX}\r\n0\r\n\r\n`)),
  postChunked(`1d\n${REX}\r\n0\r\n\r\n`),
]

const REFUSED: readonly [bytes: string, expected: Expected][] = [
  ...BAD_REQUESTS.map((bytes): [string, Expected] => [bytes, '400 bad_request']),
  ...UNKNOWN_CODINGS.flatMap((coding): [string, Expected][] => [
    [`${get('/v1/pets', coded(coding))}0\r\n\r\n`, '501 not_implemented'],
    [framed(coded(coding)), '501 not_implemented'],
    [framed(coded(coding)).replace('HTTP/1.1', 'HTTP/1.0'), '501 not_implemented'],
  ]),
  [get('/v1/pets', ...Array<string>(99).fill('X: y')), '431 headers_too_large'],
  [get('/v1/pets', ...Array<string>(5_000).fill('X:')), '431 headers_too_large'],
  [get('/v1/pets', ...Array<string>(164).fill(`X: ${'x'.repeat(100)}`)), '431 headers_too_large'],
  [get(`/v1/${long}`), '431 headers_too_large'],
  [`${GET}\r\nX: ${long}${long}`, '431 headers_too_large'], // before its end
  [postChunked(`${chunk(REX)}0\r\nX: ${long}${long}\r\n\r\n`), '431 headers_too_large'],
  [postChunked(`1d;a=${long}\r\n${REX}\r\n0\r\n\r\n`), '413 content_too_large'],
  [request('CONNECT pets.example:80 HTTP/1.1', [HOST, BEARER]), '405 method_not_allowed'],
  [post(REX, 'Expect: 200-ok'), '417 expectation_failed'],
]

// No 100 precedes the 400, because the body is read while the request waits.
const BROKEN_BODIES = [GET, POST, 'POST /v1/pets/0 HTTP/1.1'].map((line): [string, Expected] => {
  const headers = [HOST, BEARER, 'Expect: 100-continue', CHUNKED]
  return [request(line, headers, 'g\r\n'), '400 bad_request']
})

describe('a request that cannot be read', () => {
  test('gets an Error, and nothing after it is processed', async (t) => {
    const petstore = await start(t)
    for (const [bytes, expected] of REFUSED) {
      const connection = await open(t, petstore, bytes + post())
      const answer = await assertLast(connection, expected, JSON.stringify(bytes.slice(0, 200)))
      assert.ok(answer.headers.date)
      assert.deepEqual(petstore.pets, [])
    }
  })

  test('gets its Error after the responses to earlier requests, however slow', async (t) => {
    const petstore = await start(t)
    const some = REFUSED.filter((_, at) => at % 5 === 0 || at > REFUSED.length - 4)
    for (const [at, [bytes, expected]] of [...some, ...BROKEN_BODIES].entries()) {
      for (const delay of [0, 1, 20]) petstore.inject({ operation: '*', delay })
      const good = get() + post() + get('/v1/pets/1')
      const connection = await ask(t, petstore, good + bytes + post(), 200, 201, 200)
      await assertLast(connection, expected, JSON.stringify(bytes.slice(0, 200)))
      assert.equal(petstore.pets.length, at + 1)
    }
  })

  test('gets one Error, even if its operation has begun or more garbage follows', async (t) => {
    const petstore = await start(t)
    petstore.inject({ operation: 'listPets', delay: 600_000 })
    const broken = await open(t, petstore, `${get('/v1/pets', CHUNKED)}ZZ\r\n`)
    await assertLast(broken, '400 bad_request')
    petstore.clearFaults()
    await setImmediate()
    assert.equal(petstore.requests.length, 1)
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

const OLD = 'GET /v1/pets HTTP/1.0'
const KEPT = 'Connection: keep-alive'
const GOOD_HOSTS = [
  ...['a', 'A.b-c_d~1', '127.0.0.1:80', '[::1]', '[::1]:80', '[fe80::1%25en0]', 'a:', '', ':80'],
  ...["%41!$&'()*+,;=", 'xn--bcher-kva.example'],
].map((host) => `Host: ${host}`)
const ODD_REQUESTS = [
  ...GOOD_HOSTS.map((host) => request(GET, [host, BEARER])),
  ...GOOD_HOSTS.map((host) => request(OLD, [host, BEARER, KEPT])),
  request(OLD, [BEARER, KEPT, 'Expect: miracles']),
  get('/v1/pets', 'From: b@c.example', 'From: d@e.example', 'Age: 1', 'Age: 2'),
  get('/v1/pets', 'X: Host'),
  get('/v1/pets', 'X-Empty:', 'x-unucode: \xfc', 'X-Tab:\ta\tb'),
  `\r\n${get()}`,
  get('/v1/pets', `Content-Length: ${REX.length}`) + REX, // read and ignored
  ...['chunked', 'Chunked', ' \tchunked  '].map((coding) => {
    return `${get('/v1/pets', coded(coding))}0\r\n\r\n`
  }),
  get('/v1/pets', ...Array<string>(98).fill('X: y')), // 100 with Host and Authorization
]

test('an odd request that HTTP allows is served', async (t) => {
  const petstore = await start(t, { pets: [{ name: 'Rex', categoryId: 1 }] })
  const connection = await open(t, petstore, ODD_REQUESTS.join(''))
  for (const { headers, body } of await assertNext(connection, ...ODD_REQUESTS.map(() => 200))) {
    assert.equal(headers.connection, 'keep-alive')
    assert.equal(body, '[{"id":1,"name":"Rex","categoryId":1}]')
  }
})

test('a request of HTTP/1.0 may hold the request line of another protocol', async (t) => {
  const petstore = await start(t)
  const body = '{"name":"POST /v1/pets RTSP/1.0","categoryId":1}'
  const head = [HOST, BEARER, `Content-Length: ${body.length}`]
  await assertLast(await open(t, petstore, request('POST /v1/pets HTTP/1.0', head, body)), 201)
})

describe('a request that does not arrive in time', () => {
  function startWithTimeout(t: TestContext, ms: number) {
    return start(t, {}, { headersTimeout: ms, requestTimeout: ms, connectionsCheckingInterval: 10 })
  }

  test('gets a 408, whether its first byte, head, body or a chunk is missing', async (t) => {
    const petstore = await startWithTimeout(t, 50)
    const inBody = postHead(REX.length) + REX.slice(0, 9)
    const begun = ['', `${GET}\r\nHost: pets`, inBody, postChunked(chunk(REX))]
    const connections = await Promise.all(begun.map((bytes) => open(t, petstore, bytes)))
    for (const connection of connections) await assertLast(connection, timeOut)
  })

  test('gets a 408 after the responses to good ones, but none if refused already', async (t) => {
    // Long enough for what must be read before it, on a busy machine too.
    const petstore = await startWithTimeout(t, 2_000)
    const late = await open(t, petstore, post() + get('/v1/pets/1') + GET)
    const refused = Object.entries<Expected>({
      [request(POST, [HOST, 'Content-Length: 50'], REX)]: '401 unauthorized',
      [postHead(50, 'Content-Type: text/plain') + REX]: '415 unsupported_media_type',
      [postHead(70_000)]: '413 content_too_large',
      [postChunked(chunk(REX.padEnd(65_537)) + chunk(REX))]: '413 content_too_large',
    }).map(async ([bytes, expected]) => {
      const connection = await ask(t, petstore, bytes, expected)
      assert.equal(await connection.rest(), '')
    })
    await Promise.all(refused)
    await assertNext(late, 201, 200)
    await assertLast(late, timeOut)
  })
})

test('a client that ends its side within a body gets a 400 and adds nothing', async (t) => {
  const petstore = await start(t)
  const connection = new RawConnection(t, petstore)
  connection.socket.end(postHead(REX.length) + REX.slice(0, 9))
  await assertLast(connection, '400 bad_request')
  assert.deepEqual([outcomesOf(petstore), petstore.pets], [['createPet 400'], []])
})
