// The petstore served by a server that a test has of its own.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type RequestListener, type Server, type ServerOptions } from 'node:http'
import { connect as connectHttp2, createServer as createHttp2Server } from 'node:http2'
import type { Server as NetServer } from 'node:net'
import { describe, test, type TestContext } from 'node:test'
import { createPetstore, type Petstore } from '../../src/petstore.ts'
import { type Answer, assertError, AUTHORIZATION, KEY, RawConnection, send, start } from '../support.ts'
import { chunk, CHUNKED, get, HOST, LogReader, post, postChunked, postHead, request, REX } from './raw.ts'

const PETS = [{ name: 'Tom', categoryId: 2n ** 62n }]
const LIST = '[{"id":1,"name":"Tom","categoryId":4611686018427387904}]'
const CREATED = REX.replace('{', '{"id":2,')

/** Makes a server listen; the end of the test closes it. Tells its URL. */
async function listen(t: TestContext, server: NetServer): Promise<{ url: string }> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => server.close())
  const address = server.address()
  assert.ok(typeof address === 'object' && address !== null)
  return { url: `http://127.0.0.1:${address.port}` }
}

/** A petstore behind a server of the test's own. */
async function serve(t: TestContext, options: ServerOptions = {}, mount?: (petstore: Petstore) => RequestListener) {
  const petstore = createPetstore({ apiKeys: [KEY], pets: PETS, maxBody: 1_000 })
  const server: Server = createServer(options, mount?.(petstore) ?? petstore.listener)
  const { url } = await listen(t, server)
  t.after(() => server.closeAllConnections())
  return { petstore, server, url, connection: () => new RawConnection(t, { url }) }
}

/** Without the field lines of the connection. */
function content({ status, headers, body }: Answer): object {
  const { date: _, connection: __, 'keep-alive': ___, ...rest } = headers
  return { status, headers: rest, body }
}

const requests: [method: string, path: string, sent: { headers?: Record<string, string>; body?: string }][] = [
  ['GET', '/v1/pets?limit=1', {}],
  ['HEAD', '/v1/pets', {}],
  ['POST', '/v1/pets', { body: REX }],
  ['POST', '/v1/pets', { body: '' }],
  ['POST', '/v1/pets', { body: 'x'.repeat(1_001) }],
  ['POST', '/v1/pets', { body: 'x'.repeat(1_001), headers: { 'transfer-encoding': 'chunked' } }],
  ['POST', '/v1/pets', { body: REX, headers: { 'content-type': 'text/html' } }],
  ['POST', '/v1/pets', { body: REX, headers: { expect: '100-continue' } }],
  ['PUT', '/v1/pets', { body: REX }],
  ['GET', '/v1/pets/1', { headers: { 'x-request-id': 'id-1' } }],
  ['GET', '/v1/pets/2', {}],
  ['GET', '/v1/pets', { headers: { authorization: 'Bearer wrong-key' } }],
  ['GET', 'http://other.example/v1/pets', {}],
  ['OPTIONS', '*', {}],
  ['GET', '/%zz', {}],
  ['GET', '/', {}],
  ['GET', '/readyz', {}],
]

describe('the listener in a server of node:http', () => {
  test('answers as a petstore that listens by itself', async (t) => {
    for (const [method, path, sent] of requests) {
      const alone = await start(t, { pets: PETS, maxBody: 1_000 })
      const { petstore, url } = await serve(t)
      const answer = await send({ url }, method, path, sent)
      assert.deepEqual(content(answer), content(await send(alone, method, path, sent)), `${method} ${path}`)
      assert.deepEqual(petstore.pets, alone.pets)
      const seen = ({ requests }: Petstore) =>
        requests.map(({ duration: _, headers: { host, ...headers }, ...rest }) => ({
          ...rest,
          headers,
          host: typeof host,
        }))
      assert.deepEqual(seen(petstore), seen(alone))
    }
  })

  test('leaves the keep-alive to the server', async (t) => {
    const { connection } = await serve(t, { keepAliveTimeout: 7_000 })
    const kept = connection()
    for (const body of [LIST, LIST]) {
      await kept.write(get())
      const answer = await kept.read()
      assert.deepEqual(
        [answer.headers.connection, answer.headers['keep-alive'], answer.body],
        ['keep-alive', 'timeout=7', body],
      )
    }
    await kept.write(get('/v1/pets', 'Connection: close'))
    assert.equal((await kept.read()).headers.connection, 'close')
    assert.equal(await kept.rest(), '')
  })

  test('answers pipelined requests in their order, one that is delayed among them', async (t) => {
    const { petstore, connection } = await serve(t)
    petstore.inject({ operation: 'listPets', delay: 20 })
    const pipelined = connection()
    await pipelined.write(get() + get('/v1/pets/1').replace('GET', 'HEAD') + post() + get('/v1/pets/9'))
    assert.equal((await pipelined.read()).status, 200)
    assert.deepEqual([(await pipelined.read(true)).status, (await pipelined.read()).body], [200, CREATED])
    assertError(await pipelined.read(), 404, 'not_found')
  })

  test('honours Expect: 100-continue', async (t) => {
    const { connection } = await serve(t)
    const expecting = connection()
    await expecting.write(postHead(REX.length, 'Expect: 100-continue'))
    assert.equal((await expecting.read()).status, 100)
    await expecting.write(REX)
    assert.equal((await expecting.read()).body, CREATED)
  })

  for (const [name, bytes] of [
    ['by its Content-Length', postHead(10_000_000) + 'x'.repeat(10_000_000)],
    ['in chunks', postChunked(chunk('x'.repeat(1_000)).repeat(10_000) + '0\r\n\r\n')],
  ] as const) {
    test(`refuses a body that is too large ${name} before its end, and the connection goes on`, async (t) => {
      const { petstore, connection } = await serve(t)
      const uploading = connection()
      const written = uploading.write(bytes.slice(0, 5_000))
      assertError(await uploading.read(), 413, 'content_too_large')
      await written
      await uploading.write(bytes.slice(5_000) + get())
      assert.equal((await uploading.read()).body, LIST)
      assert.deepEqual(
        petstore.requests.map(({ status, body }) => [status, body]),
        [
          [413, ''],
          [200, ''],
        ],
      )
    })
  }

  test('adds nothing for a client that leaves in mid-body, and records it', async (t) => {
    const logStream = new LogReader()
    const petstore = createPetstore({ apiKeys: [KEY], log: 'json', logStream })
    const { url } = await listen(t, createServer(petstore.listener))
    for (const framing of [
      postHead(100),
      request('POST /v1/pets HTTP/1.1', [HOST, `Authorization: ${AUTHORIZATION}`, CHUNKED]),
    ]) {
      const leaving = new RawConnection(t, { url })
      await leaving.write(framing)
      await send({ url }, 'GET', '/livez') // by now the server has begun to read it
      leaving.socket.resetAndDestroy()
      assert.equal((await logStream.next())['status'], null)
    }
    assert.deepEqual(
      petstore.requests.map(({ operation, status }) => [operation, status]),
      [
        ['createPet', null],
        ['createPet', null],
      ],
    )
    assert.deepEqual(petstore.pets, [])
  })

  test('meets faults as a petstore that listens by itself', async (t) => {
    const { petstore, url, connection } = await serve(t)
    petstore.inject({ operation: 'listPets', status: 503, retryAfter: 1 })
    petstore.inject({ operation: 'listPets', hangUp: true })
    petstore.inject({ operation: 'listPets', body: 'cut' })
    const answer = await send({ url }, 'GET', '/v1/pets')
    assertError(answer, 503, 'injected_fault')
    assert.equal(answer.headers['retry-after'], '1')
    const [hungUp, cut] = [connection(), connection()]
    await hungUp.write(get())
    assert.equal(await hungUp.rest(), '')
    await cut.write(get())
    assert.equal((await cut.rest()).split('\r\n\r\n')[1], LIST.slice(0, LIST.length / 2))
    petstore.inject({ operation: 'listPets', delay: 600_000 })
    const delayed = connection()
    await delayed.write(get())
    while (petstore.pendingFaults.length > 0) await new Promise(setImmediate)
    await petstore.close()
    assert.equal(await delayed.rest(), '')
  })

  test('goes on in the server when the petstore is closed, which the server is for its owner', async (t) => {
    const { petstore, url } = await serve(t)
    await petstore.close()
    assertError(await send({ url }, 'GET', '/readyz'), 503, 'not_ready')
    assert.equal((await send({ url }, 'GET', '/v1/pets')).body, LIST)
  })
})

test('the listener works under a mount that strips its prefix, beside others', async (t) => {
  const { petstore, url } = await serve(t, {}, ({ listener }) => (req, res) => {
    if (!req.url?.startsWith('/shop/')) return void res.writeHead(418).end()
    req.url = req.url.slice('/shop'.length)
    listener(req, res)
  })
  assert.equal((await send({ url }, 'GET', '/shop/v1/pets?limit=1')).body, LIST)
  assert.equal((await send({ url }, 'POST', '/shop/v1/pets', { body: REX })).body, CREATED)
  assertError(await send({ url }, 'GET', '/shop/v1/cats'), 404, 'not_found')
  assert.equal((await send({ url }, 'GET', '/v1/pets')).status, 418)
  assert.deepEqual(
    petstore.requests.map(({ path, query }) => [path, query]),
    [
      ['/v1/pets', 'limit=1'],
      ['/v1/pets', ''],
      ['/v1/cats', ''],
    ],
  )
})

test('two petstores in one server answer each for itself, and one that listens lends its listener too', async (t) => {
  const other = await start(t, { basePath: '/other' })
  const { petstore, url } = await serve(
    t,
    {},
    ({ listener }) =>
      (req, res) =>
        (req.url?.startsWith('/other/') ? other.listener : listener)(req, res),
  )
  await send({ url }, 'POST', '/other/pets', { body: REX })
  assert.deepEqual(petstore.pets, [{ id: 1, ...PETS[0] }])
  assert.equal((await send(other, 'GET', '/other/pets')).body, `[${REX.replace('{', '{"id":1,')}]`)
  assert.deepEqual([petstore.requests.length, other.requests.length], [0, 2])
})

describe('the listener in a server of node:http2', () => {
  /** A client of a petstore behind HTTP/2. */
  async function open(t: TestContext) {
    const petstore = createPetstore({ apiKeys: [KEY], pets: PETS, maxBody: 1_000, cors: 'https://shop.example' })
    const server = createHttp2Server((req, res) => void Reflect.apply(petstore.listener, undefined, [req, res]))
    const { url } = await listen(t, server)
    const session = connectHttp2(url)
    session.on('error', () => {}) // a fault may end it
    t.after(() => session.destroy())
    async function call(method: string, path: string, body?: string, fields: Record<string, string> = {}) {
      const stream = session.request(
        { ':method': method, ':path': path, authorization: AUTHORIZATION, ...fields },
        { endStream: body === undefined },
      )
      if (body !== undefined) stream.end(body)
      const closed = once(stream, 'close').then(() => [{}])
      const [headers] = await Promise.race([once(stream, 'response'), closed])
      const chunks: Buffer[] = []
      for await (const chunk of stream) chunks.push(chunk)
      return { status: headers[':status'], headers, body: Buffer.concat(chunks).toString() }
    }
    return { petstore, call }
  }

  test('answers as over HTTP/1.1', async (t) => {
    const warnings: Error[] = []
    const onWarning = (warning: Error) => void warnings.push(warning)
    process.on('warning', onWarning)
    t.after(() => process.off('warning', onWarning))
    const { petstore, call } = await open(t)
    assert.equal((await call('GET', '/v1/pets')).body, LIST)
    const created = await call('POST', '/v1/pets', REX, { 'x-request-id': 'id-2', origin: 'https://shop.example' })
    assert.deepEqual([created.status, created.body, created.headers.location], [201, CREATED, '/v1/pets/2'])
    assert.deepEqual(
      [created.headers['x-request-id'], created.headers['access-control-allow-origin']],
      ['id-2', 'https://shop.example'],
    )
    const page = await call('GET', '/v1/pets?limit=1')
    assert.equal(page.headers.link, '</v1/pets?limit=1&after=1>; rel="next"')
    const head = await call('HEAD', '/v1/pets')
    assert.deepEqual(
      [head.status, head.body, head.headers['content-length']],
      [200, '', String(LIST.length + CREATED.length + 1)],
    )
    assertError(await call('GET', '/v1/pets', undefined, { authorization: 'Bearer wrong-key' }), 401, 'unauthorized')
    assertError(await call('POST', '/v1/pets', 'x'.repeat(1_001)), 413, 'content_too_large')
    assert.equal((await call('OPTIONS', '/v1/pets')).status, 204)
    assert.equal(petstore.requests.length, 7)
    assert.ok(
      petstore.requests.every(
        ({ method, path, headers }) =>
          method !== '' && path === '/v1/pets' && headers['authorization'] !== AUTHORIZATION,
      ),
    )
    assert.deepEqual(warnings, [])
  })

  test('meets faults', { timeout: 20_000 }, async (t) => {
    const { petstore, call } = await open(t)
    petstore.inject({ operation: '*', status: 503, retryAfter: 3 })
    petstore.inject({ operation: '*', hangUp: true })
    assert.equal((await call('POST', '/v1/pets', REX)).headers['retry-after'], '3')
    assert.equal((await call('POST', '/v1/pets', REX)).status, undefined)
    assert.equal((await call('GET', '/v1/pets')).body, LIST)
    petstore.inject({ operation: '*', body: 'cut' })
    const { status, headers, body } = await call('GET', '/v1/pets')
    assert.deepEqual([status, headers['content-length']], [200, String(LIST.length)])
    assert.ok(body.length < LIST.length && LIST.startsWith(body))
  })
})
