// The petstore served by a server that a test has of its own.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type RequestListener, type ServerOptions } from 'node:http'
import { connect, createServer as createHttp2Server } from 'node:http2'
import { describe, test, type TestContext } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { createPetstore } from '../../src/petstore.ts'
import type { Petstore } from '../../src/types.ts'
import type { Answer, Expected, Sent } from '../support.ts'
import { assertLast, assertNext, AUTHORIZATION, check, KEY, start } from '../support.ts'
import { BEARER, chunk, get, listen, open, post, postChunked, postHead, REX } from './raw.ts'

const PETS = [{ name: 'Tom', categoryId: 2n ** 62n }]
const LIST = '[{"id":1,"name":"Tom","categoryId":4611686018427387904}]'
const CREATED = REX.replace('{', '{"id":2,')

async function serve(t: TestContext, options: ServerOptions = {}, mount?: (petstore: Petstore) => RequestListener) {
  const petstore = createPetstore({ apiKeys: [KEY], pets: PETS, maxBody: 1_000 })
  const server = createServer(options, mount?.(petstore) ?? petstore.listener)
  t.after(() => server.closeAllConnections())
  return { petstore, url: await listen(t, server) }
}

async function connectHttp2(t: TestContext, petstore: Petstore) {
  const server = createHttp2Server((req, res) => void Reflect.apply(petstore.listener, undefined, [req, res]))
  const session = connect(await listen(t, server))
  session.on('error', () => {}) // a fault may end it
  t.after(() => session.destroy())
  return async (method: string, path: string, { headers: more = {}, body }: Sent = {}): Promise<Answer> => {
    const headers = { ':method': method, ':path': path, authorization: AUTHORIZATION, ...more }
    const stream = session.request(headers, { endStream: body === undefined })
    if (body !== undefined) stream.end(body)
    const chunks: Buffer[] = []
    stream.on('data', (chunk) => chunks.push(chunk)).on('error', () => {}) // of a response that is cut short
    const closed = new Promise<[object]>((resolve) => stream.on('close', () => resolve([{}])))
    const [received] = await Promise.race([once(stream, 'response'), closed])
    await closed
    const { ':status': status = 0, ...rest } = received
    return { status, headers: Object.fromEntries(Object.entries(rest)), body: Buffer.concat(chunks).toString() }
  }
}

/** Without the headers of the connection. */
function content({ status, headers, body }: Answer): object {
  const { date: _, connection: __, 'keep-alive': ___, ...rest } = headers
  return { status, headers: rest, body }
}

async function callInProcess(petstore: Petstore, method: string, path: string, { headers = {}, body }: Sent = {}) {
  const init = { method, headers: { authorization: AUTHORIZATION, ...headers }, ...(body !== undefined && { body }) }
  const response = await petstore.fetch(new URL(path, petstore.url), init)
  return { status: response.status, headers: Object.fromEntries(response.headers), body: await response.text() }
}

const SHOP = { origin: 'https://shop.example' }
const BODY = Buffer.from(REX) // a text would be text/plain to fetch
const TABLE: [method: string, path: string, expected: Expected, sent?: Sent][] = [
  ['GET', '/v1/pets', 200],
  ['GET', '/v1/p%65ts?limit=1&x=%ff', 200, { headers: SHOP }],
  ['GET', '/v1/pets', '401 unauthorized', { headers: { authorization: 'Bearer wrong-key' } }],
  ['HEAD', '/v1/pets?limit=1', 200],
  ['POST', '/v1/pets', 201, { body: BODY, headers: { 'content-type': 'application/json' } }],
  ['POST', '/v1/pets', 201, { body: BODY }],
  ['POST', '/v1/pets', '400 bad_request', { body: Buffer.from([0x22, 0xff, 0x22]) }],
  ['POST', '/v1/pets', '413 content_too_large', { body: Buffer.alloc(1_001) }],
  ['POST', '/v1/pets', '415 unsupported_media_type', { body: BODY, headers: { 'content-type': 'text/html' } }],
  ['POST', '/v1/pets', '507 store_full', { body: Buffer.from(`{"name":"${'x'.repeat(900)}","categoryId":1}`) }],
  ['PUT', '/v1/pets', '405 method_not_allowed', { body: BODY }],
  ['OPTIONS', '/v1/pets', 204, { headers: { ...SHOP, 'access-control-request-method': 'POST' } }],
  ['GET', '/v1/pets/1', 200, { headers: { 'x-request-id': 'id-1' } }],
  ['GET', '/v1/pets/9', '404 not_found', { headers: { 'x-request-id': 'not one' } }],
  ['GET', '/v1/%zz', '404 not_found'],
  ['GET', '/', 200],
]

test('through a listener, in process and over HTTP/2 requests are answered as over a socket, and change as much', async (t) => {
  const warnings: Error[] = []
  const onWarning = (warning: Error) => void warnings.push(warning)
  process.on('warning', onWarning)
  t.after(() => process.off('warning', onWarning))
  const options = { apiKeys: [KEY], pets: PETS, maxBody: 1_000, maxStore: 1_000, cors: SHOP.origin }
  const alone = await start(t, options)
  const [mounted, inProcess, behindHttp2] = [0, 1, 2].map(() => createPetstore(options))
  assert.ok(mounted !== undefined && inProcess !== undefined && behindHttp2 !== undefined)
  const url = await listen(t, createServer(mounted.listener))
  const call = await connectHttp2(t, behindHttp2)
  for (const [method, path, expected, sent] of TABLE) {
    const answer = content(await check(alone, method, path, expected, sent))
    assert.deepEqual(content(await check({ url }, method, path, expected, sent)), answer)
    assert.deepEqual(content(await callInProcess(inProcess, method, path, sent)), answer, path)
    assert.deepEqual(content(await call(method, path, sent)), answer, path)
  }
  const recorded = ({ requests }: Petstore) =>
    requests.map(({ method, path, query, body, operation, status }) => [method, path, query, body, operation, status])
  for (const petstore of [mounted, inProcess, behindHttp2]) {
    assert.deepEqual([petstore.pets, recorded(petstore)], [alone.pets, recorded(alone)])
    assert.ok(!JSON.stringify(petstore.requests).includes(KEY))
  }
  assert.deepEqual(warnings, [])
})

describe('the listener in a server of node:http', () => {
  test('leaves the connection to the server, answers in order, and honours Expect', async (t) => {
    const { petstore, url } = await serve(t, { keepAliveTimeout: 7_000 })
    petstore.inject({ operation: 'listPets', delay: 20 })
    const expecting = postHead(REX.length, 'Expect: 100-continue', 'Connection: close')
    const connection = await open(t, { url }, get() + post() + get('/v1/pets/9') + expecting)
    const [listed, created] = await assertNext(connection, 200, 201, '404 not_found', 100)
    assert.deepEqual([listed?.headers.connection, listed?.headers['keep-alive']], ['keep-alive', 'timeout=7'])
    assert.equal(created?.body, CREATED)
    await connection.write(REX)
    await assertLast(connection, 201)
  })

  test('refuses what is malformed, and closes the connection', async (t) => {
    const { petstore, url } = await serve(t)
    for (const [expected, ...lines] of [
      ['400 bad_request', BEARER],
      ['431 headers_too_large', ...Array<string>(99).fill('X: y')],
      ['501 not_implemented', 'Transfer-Encoding: gzip, chunked'],
    ] as const) {
      await assertLast(await open(t, { url }, get('/v1/pets', ...lines) + '0\r\n\r\n'), expected)
      assert.ok(expected.startsWith(`${petstore.requests.at(-1)?.status} `))
    }
  })

  test('refuses a body that is too large before its end, and the connection goes on', async (t) => {
    const { petstore, url } = await serve(t)
    const chunked = postChunked(`${chunk('x'.repeat(1_000)).repeat(10_000)}0\r\n\r\n`)
    for (const bytes of [postHead(10_000_000) + 'x'.repeat(10_000_000), chunked]) {
      const connection = await open(t, { url }, bytes.slice(0, 5_000))
      await assertNext(connection, '413 content_too_large')
      await connection.write(bytes.slice(5_000) + get())
      assert.equal((await connection.read()).body, LIST)
    }
    const recorded = petstore.requests.map(({ status, body }) => status + body)
    assert.deepEqual(recorded, ['413', '200', '413', '200'])
  })

  test('meets faults as a petstore that listens by itself, and serves on when the petstore is closed', async (t) => {
    const { petstore, url } = await serve(t)
    const faults = [{ status: 503, retryAfter: 1 }, { hangUp: true }, { body: 'cut' }, { delay: 600_000 }] as const
    for (const fault of faults) petstore.inject({ operation: 'listPets', ...fault })
    assert.equal((await check({ url }, 'GET', '/v1/pets', '503 injected_fault')).headers['retry-after'], '1')
    assert.equal(await (await open(t, { url }, get())).rest(), '')
    assert.equal((await (await open(t, { url }, get())).rest()).split('\r\n\r\n')[1], LIST.slice(0, LIST.length / 2))
    const delayed = await open(t, { url }, get())
    while (petstore.pendingFaults.length > 0) await turn()
    await petstore.close()
    assert.equal(await delayed.rest(), '')
    await check({ url }, 'GET', '/readyz', '503 not_ready')
    assert.equal((await check({ url }, 'GET', '/v1/pets', 200)).body, LIST)
  })

  test('works under mounts, one that strips its prefix and one of a petstore that listens by itself', async (t) => {
    const other = await start(t, { basePath: '/other' })
    const { petstore, url } = await serve(t, {}, ({ listener }) => (req, res) => {
      if (req.url?.startsWith('/other/')) return other.listener(req, res)
      if (!req.url?.startsWith('/shop')) return void res.writeHead(204).end()
      req.url = req.url.slice('/shop'.length)
      listener(req, res)
    })
    const targets = ['/shop/v1/pets?limit=1', '/shop/v1/cats', '/shopxhttp://a/v1/pets', '/v1/pets', '/other/pets']
    const bytes = targets.map((target) => get(target)).join('') + post().replace('/v1/', '/other/')
    await assertNext(await open(t, { url }, bytes), 200, '404 not_found', '400 bad_request', 204, 200, 201)
    const recorded = petstore.requests.slice(0, 2).map(({ path, query }) => path + query)
    assert.deepEqual([recorded, other.requests.length], [['/v1/petslimit=1', '/v1/cats'], 2])
    assert.equal((await check(other, 'GET', '/other/pets', 200)).body, `[${REX.replace('{', '{"id":1,')}]`)
  })
})

test('the listener in a server of node:http2 meets faults', { timeout: 60_000 }, async (t) => {
  const petstore = createPetstore({ apiKeys: [KEY], pets: PETS })
  const call = await connectHttp2(t, petstore)
  petstore.inject({ operation: '*', status: 503, retryAfter: 3 })
  petstore.inject({ operation: '*', hangUp: true })
  assert.equal((await call('POST', '/v1/pets', { body: REX })).headers['retry-after'], '3')
  assert.equal((await call('POST', '/v1/pets', { body: REX })).status, 0)
  assert.equal((await call('GET', '/v1/pets')).body, LIST)
  petstore.inject({ operation: '*', body: 'cut' })
  const { status, headers, body } = await call('GET', '/v1/pets')
  assert.deepEqual([status, headers['content-length']], [200, String(LIST.length)])
  assert.ok(body.length < LIST.length && LIST.startsWith(body))
})
