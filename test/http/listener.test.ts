// The petstore inside a server of its user.
import assert from 'node:assert/strict'
import { Agent, createServer, type RequestListener, type ServerOptions } from 'node:http'
import { Duplex, type DuplexOptions } from 'node:stream'
import { describe, test, type TestContext } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { createPetstore } from '../../src/petstore/launch.ts'
import type { Petstore } from '../../src/types.ts'
import { type Answer, assertLast, assertNext, AUTHORIZATION, check } from '../support.ts'
import { type Expected, FakeStream, KEY, type Sent, start } from '../support.ts'
import { ask, BEARER, chunk, get, listen, open } from './raw.ts'
import { post, postChunked, postHead, REX } from './raw.ts'

const PETS = [{ name: 'Tom', categoryId: 2n ** 62n }]
const PET = '{"id":1,"name":"Tom","categoryId":4611686018427387904}'
const LIST = `[${PET}]`

type Mount = (petstore: Petstore) => RequestListener

async function serve(t: TestContext, options: ServerOptions = {}, mount?: Mount) {
  const petstore = createPetstore({ apiKeys: [KEY], pets: PETS, maxBody: 1_000 })
  const server = createServer(options, mount?.(petstore) ?? petstore.listener)
  t.after(() => server.closeAllConnections())
  return { petstore, url: await listen(t, server) }
}

/** Without the headers of the connection. */
function content({ status, headers, body }: Answer): object {
  const { date: _, connection: __, 'keep-alive': ___, ...rest } = headers
  return { status, headers: rest, body }
}

async function callInProcess(petstore: Petstore, method: string, path: string, sent: Sent = {}) {
  const { headers, body = null } = sent
  const init = { method, headers: { authorization: AUTHORIZATION, ...headers }, body }
  const response = await petstore.fetch(new URL(path, petstore.url), init)
  const { status, headers: received } = response
  return { status, headers: Object.fromEntries(received), body: await response.text() }
}

const SHOP = { origin: 'https://shop.example' }
const PREFLIGHT = { headers: { ...SHOP, 'access-control-request-method': 'POST' } }
const BODY = Buffer.from(REX) // fetch would declare a string as text/plain
const INVALID_UTF_8 = Buffer.from('"\xff"', 'latin1')
const LARGE = Buffer.from(`{"name":"${'x'.repeat(900)}","categoryId":1}`)
const WIDE = Buffer.from('{"name":"Søren 犬 🐶 \\ud800","categoryId":1}')
const asType = (type: string) => ({ body: BODY, headers: { 'content-type': type } })
const asRequest = (id: string) => ({ headers: { 'x-request-id': id } })
type Row = [method: string, path: string, expected: Expected, sent?: Sent]
const ROWS: Record<string, Row> = {
  list: ['GET', '/v1/pets', 200],
  'list with CORS': ['GET', '/v1/p%65ts?limit=1&x=%ff', 200, { headers: SHOP }],
  'wrong key': ['GET', '/v1/pets', '401 unauthorized', { headers: { authorization: 'Bearer x' } }],
  head: ['HEAD', '/v1/pets?limit=1', 200],
  create: ['POST', '/v1/pets', 201, asType('application/json')],
  'create of wide text without a type': ['POST', '/v1/pets', 201, { body: WIDE }],
  'invalid UTF-8': ['POST', '/v1/pets', '400 bad_request', { body: INVALID_UTF_8 }],
  'too large': ['POST', '/v1/pets', '413 content_too_large', { body: Buffer.alloc(1_001) }],
  'wrong type': ['POST', '/v1/pets', '415 unsupported_media_type', asType('text/html')],
  'full store': ['POST', '/v1/pets', '507 store_full', { body: LARGE }],
  'wrong method': ['PUT', '/v1/pets', '405 method_not_allowed', { body: BODY }],
  preflight: ['OPTIONS', '/v1/pets', 204, PREFLIGHT],
  'one pet': ['GET', '/v1/pets/1', 200, asRequest('id-1')],
  'no pet': ['GET', '/v1/pets/9', '404 not_found', asRequest('not an id')],
  'broken escape': ['GET', '/v1/%zz', '404 not_found'],
  page: ['GET', '/', 200],
}

test('every door gives the same responses, pets and recorded requests as a socket', async (t) => {
  const { mock } = t.mock.method(process, 'emitWarning')
  const options = { apiKeys: [KEY], pets: PETS, maxBody: 1_000, maxStore: 1_000, cors: SHOP.origin }
  const alone = await start(t, options)
  const agent = new Agent({ keepAlive: true }) // without one, there is only the documented way
  t.after(() => agent.destroy())
  const mounted = createPetstore(options)
  const inProcess = createPetstore(options)
  const url = await listen(t, createServer(mounted.listener))
  for (const [label, [method, path, expected, sent]] of Object.entries(ROWS)) {
    const answer = content(await check(alone, method, path, expected, { ...sent, agent }))
    assert.deepEqual(content(await check({ url }, method, path, expected, sent)), answer, label)
    assert.deepEqual(content(await callInProcess(inProcess, method, path, sent)), answer, label)
  }
  const recorded = ({ requests }: Petstore) =>
    requests.map(({ headers: _, duration: __, ...request }) => request)
  for (const petstore of [mounted, inProcess]) {
    assert.deepEqual(petstore.pets, alone.pets)
    assert.deepEqual(recorded(petstore), recorded(alone))
    assert.ok(!JSON.stringify(petstore.requests).includes(KEY))
  }
  assert.equal(mock.callCount(), 0)
})

describe('the listener in a server of node:http', () => {
  test('leaves the connection to the server, keeps the order, and sends 100', async (t) => {
    const { petstore, url } = await serve(t, { keepAliveTimeout: 7_000 })
    petstore.inject({ operation: 'listPets', delay: 20 })
    const expecting = postHead(REX.length, 'Expect: 100-continue', 'Connection: close')
    const connection = await open(t, { url }, get() + post() + get('/v1/pets/9') + expecting)
    const [listed, created] = await assertNext(connection, 200, 201, '404 not_found', 100)
    assert.equal(listed?.headers.connection, 'keep-alive')
    assert.equal(listed.headers['keep-alive'], 'timeout=7')
    assert.equal(created?.body, REX.replace('{', '{"id":2,'))
    await connection.write(REX)
    await assertLast(connection, 201)
  })

  const MALFORMED: Record<string, [expected: Expected, lines: readonly string[]]> = {
    'two Authorization headers': ['400 bad_request', [BEARER]],
    '101 headers': ['431 headers_too_large', Array<string>(99).fill('X: y')],
    'an unknown coding': ['501 not_implemented', ['Transfer-Encoding: gzip, chunked']],
  }
  for (const [what, [expected, lines]] of Object.entries(MALFORMED)) {
    test(`rejects a request with ${what}, records it, and closes the connection`, async (t) => {
      const { petstore, url } = await serve(t)
      await assertLast(await open(t, { url }, `${get('/v1/pets', ...lines)}0\r\n\r\n`), expected)
      assert.ok(expected.toString().startsWith(`${petstore.requests.at(-1)?.status} `))
    })
  }

  const UPLOADS = {
    'with Content-Length': postHead(10_000_000) + 'x'.repeat(10_000_000),
    'in chunks': postChunked(`${chunk('x'.repeat(1_000)).repeat(10_000)}0\r\n\r\n`),
  }
  for (const [how, bytes] of Object.entries(UPLOADS)) {
    test(`rejects a large body ${how} before its end, and keeps the connection`, async (t) => {
      const { petstore, url } = await serve(t)
      const connection = await ask(t, { url }, bytes.slice(0, 5_000), '413 content_too_large')
      await connection.write(bytes.slice(5_000) + get())
      assert.equal((await connection.read()).body, LIST)
      const recorded = petstore.requests.map(({ status, body }) => `${status} '${body}'`)
      assert.deepEqual(recorded, ["413 ''", "200 ''"])
    })
  }

  test('injects faults, and still serves after close()', async (t) => {
    const { petstore, url } = await serve(t)
    petstore.inject({ operation: 'listPets', status: 503, retryAfter: 1 })
    petstore.inject({ operation: 'listPets', hangUp: true })
    petstore.inject({ operation: 'listPets', body: 'cut' })
    petstore.inject({ operation: 'listPets', delay: 600_000 })
    const failed = await check({ url }, 'GET', '/v1/pets', '503 injected_fault')
    assert.equal(failed.headers['retry-after'], '1')
    assert.equal(await (await open(t, { url }, get())).rest(), '')
    const cut = await (await open(t, { url }, get())).rest()
    assert.equal(cut.split('\r\n\r\n')[1], LIST.slice(0, LIST.length / 2))
    const delayed = await open(t, { url }, get())
    while (petstore.pendingFaults.length > 0) await turn()
    await petstore.close()
    assert.equal(await delayed.rest(), '')
    await check({ url }, 'GET', '/readyz', '503 not_ready')
    assert.equal((await check({ url }, 'GET', '/v1/pets', 200)).body, LIST)
  })

  test('says that the body was read before, and respects a response that was sent', async (t) => {
    const logStream = new FakeStream()
    const petstore = createPetstore({ apiKeys: [KEY], log: 'text', logStream })
    const EMPTY = { 'Content-Length': 0 }
    const server = createServer(async (req, res) => {
      for await (const _ of req); // like a parser of bodies
      if (req.url === '/v1/pets/9') res.writeHead(503, EMPTY).end() // a limit of requests
      petstore.listener(req, res)
      if (req.url === '/v1/pets?limit=1') res.writeHead(504, EMPTY).end() // a time-out
    })
    const url = await listen(t, server)
    petstore.inject({ operation: 'listPets', delay: 20 })
    const connection = await open(t, { url }, post() + get('/v1/pets?limit=1'))
    const [refused] = await assertNext(connection, '500 internal_error', 504)
    assert.match(refused?.body ?? '', /mount the listener before express\.json\(\)/)
    await connection.write(get('/v1/pets/9'))
    await assertNext(connection, 503)
    await petstore.log.flush()
    assert.match(logStream.text, /POST \/v1\/pets 500 .* code=internal_error/)
    const statuses = petstore.requests.map(({ status }) => status)
    assert.deepEqual(statuses.sort(), [500, null, null])
  })

  test('works after a mount that strips its prefix, and next to another petstore', async (t) => {
    const other = await start(t, { basePath: '/other' })
    const { petstore, url } = await serve(t, {}, ({ listener }) => (req, res) => {
      if (req.url?.startsWith('/other/')) return other.listener(req, res)
      if (!req.url?.startsWith('/shop')) return void res.writeHead(204).end()
      req.url = req.url.slice('/shop'.length)
      listener(req, res)
    })
    const targets: Record<string, Expected> = {
      '/shop/v1/pets?limit=1': 200,
      '/shop/v1/cats': '404 not_found',
      '/shopxhttp://a/v1/pets': '404 not_found',
      '/v1/pets': 204,
      '/other/pets': 200,
    }
    const bytes = Object.keys(targets).map((target) => get(target))
    const create = post().replace('/v1/', '/other/')
    const connection = await open(t, { url }, bytes.join('') + create)
    await assertNext(connection, ...Object.values(targets), 201)
    const recorded = petstore.requests.map(({ path, query }) => `${path} ${query}`)
    assert.deepEqual(recorded.slice(0, 2), ['/v1/pets limit=1', '/v1/cats '])
    assert.equal(other.requests.length, 2)
    const { body } = await check(other, 'GET', '/other/pets', 200)
    assert.equal(body, `[${REX.replace('{', '{"id":1,')}]`)
  })

  test('cuts a response on a stream that is not a socket', async () => {
    const petstore = createPetstore({ apiKeys: [KEY], pets: PETS })
    petstore.inject({ operation: 'listPets', body: 'cut' })
    let text = ''
    await new Promise<void>((resolve) => {
      const write: DuplexOptions['write'] = (bytes, _, done) => {
        text += bytes
        if (text.endsWith(PET)) resolve() // the response after it
        done()
      }
      const stream = new Duplex({ read() {}, write })
      createServer(petstore.listener).emit('connection', stream)
      stream.push(get() + get('/v1/pets/1'))
    })
    assert.ok(text.includes(`\r\n\r\n${LIST.slice(0, LIST.length / 2)}HTTP/1.1 200 `), text)
  })
})
