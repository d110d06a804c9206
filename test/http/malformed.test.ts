// Requests that cannot be read, or do not arrive in time: each gets an Error.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { RawConnection, start } from '../support.ts'
import { ask, assertLast, assertNext, BEARER, chunk, CHUNKED, type Expected, get } from './raw.ts'
import { HOST, open, post, postChunked, postHead, request, REX, serverOf } from './raw.ts'

const GET = 'GET /v1/pets HTTP/1.1'
const POST = 'POST /v1/pets HTTP/1.1'
const OLD = 'GET /v1/pets HTTP/1.0'
const LONG = 'x'.repeat(16_384)
const TUNNEL = 'CONNECT pets.example:80 HTTP/1.1'
const line = (first: string): string => request(first, [HOST, BEARER])
const unchunked = (...lines: string[]): string => request(POST, [HOST, BEARER, ...lines], REX)
const framed = (...lines: string[]): string => {
  return request(POST, [HOST, BEARER, ...lines], `${chunk(REX)}0\r\n\r\n`)
}

const BAD_LINES = [
  ...['1.2', '1', '1.1 ', '/1.1'].map((version) => `GET /v1/pets HTTP/${version}`),
  ...['GET /v1/pets HTTPS/1.1', 'BREW /v1/pets HTTP/1.1', 'get /v1/pets HTTP/1.1'],
  ...['v1/pets', '/v1/p\xe9ts', '/ http://a/v1/pets', '/v1/pets?a b', ''].map((target) => {
    return `GET ${target} HTTP/1.1`
  }),
]
const BAD_LENGTHS = ['29, 29', '+29', '-1', '0x1d', '2 9', '29.0', '', '9'.repeat(30)]
const BAD_CODINGS = ['gzip', 'chunked, gzip', 'chunked, chunked', 'xchunked', 'chunked;a=b', ',']

/** What node's parser refuses. */
const UNREADABLE: readonly [bytes: string, expected: Expected][] = [
  ...[
    'garbage\r\n\r\n',
    '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', // the beginning of TLS
    'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', // the preface of HTTP/2
    get().replaceAll('\r', ''),
    ...BAD_LINES.map(line),
    ...['Host : a', 'X: a\r\n b', 'X: a\0b', 'no colon', ': x', 'X\xe9: y'].map((bad) => {
      return request(GET, [HOST, BEARER, bad])
    }),
    ...BAD_LENGTHS.map((length) => unchunked(`Content-Length: ${length}`)),
    unchunked('Content-Length: 29', 'Content-Length: 29'),
    ...BAD_CODINGS.map((coding) => framed(`Transfer-Encoding: ${coding}`)),
    framed('Content-Length: 3', CHUNKED),
    framed(CHUNKED, 'Content-Length: 3'),
    ...['zz', '-1', 'f'.repeat(17), '3'].map((size) => postChunked(`${size}\r\n${REX}\r\n`)),
    postChunked(`1d\n${REX}\r\n0\r\n\r\n`),
    postChunked(`1d;a=${LONG}\r\n${REX}\r\n0\r\n\r\n`),
  ].map((bytes): [string, Expected] => [bytes, '400 bad_request']),
  ...[
    get(`/v1/${LONG}`),
    `${GET}\r\nX: ${LONG}${LONG}`, // before its end
    get('/v1/pets', ...Array<string>(164).fill(`X: ${'x'.repeat(100)}`)),
    postChunked(`${chunk(REX)}0\r\nX: ${LONG}${LONG}\r\n\r\n`),
  ].map((bytes): [string, Expected] => [bytes, '431 headers_too_large']),
  [request(TUNNEL, [HOST]), '405 method_not_allowed'],
  [request(TUNNEL, []), '400 bad_request'],
  [post(REX, 'Expect: 200-ok', 'Connection: close'), '417 expectation_failed'],
]

test('a request that cannot be read gets an Error, and nothing after it is done', async (t) => {
  const petstore = await start(t)
  for (const [bytes, expected] of UNREADABLE) {
    const what = JSON.stringify(bytes.slice(0, 200))
    const connection = await open(t, petstore, bytes + post())
    const { headers } = await assertLast(connection, expected, what)
    assert.ok(headers.date, what)
    assert.equal(headers['x-content-type-options'], 'nosniff', what)
    assert.deepEqual(petstore.pets, [], what)
  }
})

test('it gets its Error after the responses to earlier requests, however slow', async (t) => {
  const petstore = await start(t)
  const some = UNREADABLE.filter(
    ([bytes], at) => (at % 4 === 0 || at > UNREADABLE.length - 4) && !bytes.startsWith('POST'),
  )
  for (const [at, [bytes, expected]] of some.entries()) {
    petstore.inject({ operation: 'listPets', delay: 1 })
    const good = get() + post() + get('/v1/pets/1')
    const connection = await ask(t, petstore, good + bytes + post(), 200, 201, 200)
    await assertLast(connection, expected, JSON.stringify(bytes.slice(0, 200)))
    assert.equal(petstore.pets.length, at + 1)
  }
})

test('it gets its Error after the responses that are ready but not sent yet', async (t) => {
  const petstore = await start(t)
  const connect = request('CONNECT a:1 HTTP/1.1', ['Host: a:1'])
  for (const [bytes, expected] of [
    ['garbage\r\n\r\n', '400 bad_request'],
    [connect, '405 method_not_allowed'],
  ] as const) {
    const good = get() + get('/v1/pets/1') + get()
    const connection = await ask(t, petstore, good + bytes, 200, '404 not_found', 200)
    await assertLast(connection, expected, bytes)
  }
})

const BAD_HOSTS = [
  ...['a b', 'a/b', 'http://a', 'user@a', 'a:b', 'a:80:80', ':x', 'a,b c'],
  ...['[::1', '::1]', '[::1]x', 'x[::1]', '[]', '\xe9', 'a"', 'a\\'],
]
const BAD_HEADS = [
  ...BAD_HOSTS.map((host) => request(GET, [`Host: ${host}`, BEARER])),
  request(GET, [BEARER]),
  request(GET, [HOST, HOST, BEARER]),
  request(GET, [HOST, BEARER, 'HOST: other.example']),
  request(OLD, [HOST, 'hOST: other.example', BEARER]),
  request(OLD, ['Host: a b', BEARER]),
  request('GET http://pets.example/v1/pets HTTP/1.1', [BEARER]),
  get('/v1/pets', BEARER),
  get('/v1/pets', 'AUTHORIZATION: Bearer another'),
  request(OLD, [BEARER, BEARER]),
  ...['GET /v1/pets HTTP/2.0', 'GET /v1/pets HTTP/0.9', 'GET /v1/pets'].map(line),
]

test('a head that breaks a rule of HTTP is 400, whatever its path and key', async (t) => {
  const petstore = await start(t)
  for (const head of BAD_HEADS) {
    for (const bytes of [head, head.replace('/v1/pets', '/livez'), head.replace('key-', '')]) {
      const { socket } = await ask(t, petstore, bytes, '400 bad_request')
      socket.destroy()
    }
  }
})

const KEPT = 'Connection: keep-alive'
const GOOD_HOSTS = [
  ...['a', 'A.b-c_d~1', '127.0.0.1:80', '[::1]', '[::1]:80', '[fe80::1%25en0]', 'a:', '', ':80'],
  ...["%41!$&'()*+,;=", 'xn--bcher-kva.example'],
].map((host) => `Host: ${host}`)
const ODD_REQUESTS = [
  ...GOOD_HOSTS.map((host) => request(GET, [host, BEARER])),
  ...GOOD_HOSTS.map((host) => request(OLD, [host, BEARER, KEPT])),
  request(OLD, [BEARER, KEPT, 'Expect: miracles']), // HTTP/1.0 has none
  request('GET http://other.example/v1/pets HTTP/1.1', [HOST, BEARER]),
  get('/v1/pets', 'From: b@c.example', 'From: d@e.example', 'X: Host', 'X-Empty:'),
  `\r\n${get()}`,
  get('/v1/pets', `Content-Length: ${REX.length}`) + REX, // read and ignored
  get('/v1/pets', CHUNKED) + `${chunk(REX)}0\r\nX: y\r\n\r\n`,
  get('/v1/pets', ...Array<string>(2_000).fill('X: y')), // within 16 KiB
]

test('an odd request that HTTP allows is served', async (t) => {
  const petstore = await start(t, { pets: [{ name: 'Rex', categoryId: 1 }] })
  const connection = await open(t, petstore, ODD_REQUESTS.join(''))
  for (const { headers, body } of await assertNext(connection, ...ODD_REQUESTS.map(() => 200))) {
    assert.equal(headers.connection, 'keep-alive')
    assert.equal(body, '[{"id":1,"name":"Rex","categoryId":1}]')
  }
})

test('a header section may have 16 KiB, and not more', async (t) => {
  const petstore = await start(t)
  for (const target of ['/v1/pets', `/v1/pets?x=${'x'.repeat(400)}`]) {
    const filled = (size: number): string => get(target, `X: ${'x'.repeat(size)}`)
    const connection = await ask(t, petstore, filled(15_800) + filled(15_800), 200, 200)
    await connection.write(filled(16_384))
    await assertLast(connection, '431 headers_too_large')
  }
})

test('a request gets one Error, however much garbage follows', async (t) => {
  const petstore = await start(t)
  petstore.inject({ operation: 'listPets', delay: 600_000 })
  const connection = await open(t, petstore, get())
  for (let count = 0; count < 5; count++) {
    await connection.write('garbage\r\n\r\n')
    await turn()
  }
  petstore.clearFaults() // which hangs up
  assert.doesNotMatch(await connection.rest(), /HTTP[^]*HTTP/)
  const broken = await open(t, petstore, `${get('/v1/pets', CHUNKED)}ZZ\r\n`)
  const rest = await broken.rest() // the list was answered before its body had come
  assert.match(rest, /^HTTP\/1\.1 200 OK/)
  assert.doesNotMatch(rest, /HTTP[^]*HTTP/)
})

test('a client that ends its side within a body gets a 400 and adds nothing', async (t) => {
  const petstore = await start(t)
  const connection = new RawConnection(t, petstore)
  connection.socket.end(postHead(REX.length) + REX.slice(0, 9))
  await assertLast(connection, '400 bad_request')
  assert.equal(petstore.requests[0]?.status, 400)
  assert.deepEqual(petstore.pets, [])
})

test('what does not arrive in time gets a 408; a silent connection is closed', async (t) => {
  const petstore = await start(t)
  const server = await serverOf(t, petstore)
  server.headersTimeout = 1
  server.requestTimeout = 1
  const begun = [
    'GET /v1/pets HTTP/1.1\r\nHost: pets',
    postHead(REX.length),
    postChunked(chunk(REX)),
  ]
  const silent = new RawConnection(t, petstore)
  const late = await Promise.all(begun.map((bytes) => open(t, petstore, bytes)))
  for (const connection of late) await assertLast(connection, '408 request_timeout')
  assert.equal(await silent.rest(), '')
  assert.deepEqual(petstore.pets, [])
})
