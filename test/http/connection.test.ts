// One connection: pipelines, split bytes, large bodies, and clients that do not read.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { describe, test, type TestContext } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { isRecord } from '../../src/guards.ts'
import type { Petstore } from '../../src/types.ts'
import { assertLast, assertNext, check, collectGarbage, type Expected } from '../support.ts'
import { folderOf, Random, RawConnection, SEED, start, startLogging } from '../support.ts'
import { ask, BEARER, chunk, CHUNKED, get, HOST, LONG } from './raw.ts'
import { open, post, postChunked, postHead, request, REX, within } from './raw.ts'

const NO_HOST = 'GET / HTTP/1.1\r\n\r\n'
const TUNNEL = request('CONNECT pets.example:80 HTTP/1.1', [HOST])
const pet = (id: number) => REX.replace('{', `{"id":${id},`)
const PIPELINE = get('/v1/pets?limit=1').repeat(101)
const TWO_PETS = ['Rex', 'Tom'].map((name) => ({ name, categoryId: 1 }))

describe('one connection', within, () => {
  for (const kind of ['memory', 'a snapshot']) {
    test(`shows a pipelined request the pets of slow ones before it, in ${kind}`, async (t) => {
      const options = kind === 'memory' ? {} : { snapshot: `${folderOf()}/pets.json` }
      const petstore = await start(t, options)
      petstore.inject({ operation: 'createPet', delay: 20 })
      const chunked = postChunked(`${chunk(REX)}0\r\n\r\n`)
      const bytes = get() + post() + get() + chunked + get('/v1/pets?after=1')
      const answers = await assertNext(await open(t, petstore, bytes), 200, 201, 200, 201, 200)
      const bodies = answers.map(({ body }) => body)
      assert.deepEqual(bodies, ['[]', pet(1), `[${pet(1)}]`, pet(2), `[${pet(2)}]`])
    })
  }

  test(`gives the same responses wherever the bytes are split (SEED=${SEED})`, async (t) => {
    const random = new Random(SEED)
    const petstore = await start(t, { pets: TWO_PETS })
    const chunked = postChunked(`1\r\n{\r\n2;a=b\r\n}}\r\n0\r\n\r\n`)
    const good = get() + get('/v1/pets/2') + get('/nowhere')
    const bytes = Buffer.from(good + post('{"name":"né"}') + chunked)
    for (let round = 0; round < 20; round++) {
      const connection = new RawConnection(t, petstore)
      connection.socket.setNoDelay(true)
      const longest = round === 0 ? 1 : 200 // the first round sends single bytes
      let sent = 0
      while (sent < bytes.length) {
        const end = sent + random.integer(1, longest)
        await connection.write(bytes.subarray(sent, end))
        await turn()
        sent = end
      }
      await assertNext(connection, 200, 200, '404 not_found', '400 invalid_pet', '400 bad_request')
      assert.equal(petstore.requests.at(-2)?.body, '{"name":"né"}')
      connection.socket.destroy()
    }
  })

  const expecting = (version: string, line: string) => {
    const lines = [line, 'Content-Length: 2', 'Expect: 100-continue']
    return request(`POST /v1/pets HTTP/${version}`, lines, '{}')
  }
  const LAST: Record<string, [bytes: string, expected: Expected]> = {
    'Connection: close': [get('/v1/pets', 'Connection: close'), 200],
    'Connection: close with an Error': [post('{}', 'Connection: close'), '400 invalid_pet'],
    'HTTP/1.0': [request('GET /v1/pets HTTP/1.0', [BEARER]), 200],
    'HTTP/1.0 with an Expect that it does not know': [expecting('1.0', BEARER), '400 invalid_pet'],
    // Its client may send the body or the next request.
    'a rejected Expect: 100-continue': [expecting('1.1', HOST), '401 unauthorized'],
    Upgrade: [get('/v1/pets', 'Connection: Upgrade, HTTP2-Settings', 'Upgrade: h2c'), 200],
    'Upgrade without the connection option': [get('/v1/pets', 'Upgrade: h2c'), 200],
    'Upgrade with a body': [post(REX, 'Connection: Upgrade', 'Upgrade: websocket'), 201],
  }
  for (const [what, [bytes, expected]] of Object.entries(LAST)) {
    test(`closes after the response to ${what}, and ignores what follows`, async (t) => {
      const petstore = await start(t)
      for (const next of [post('{"name":"Tom","categoryId":1}'), 'garbage\r\n\r\n'])
        await assertLast(await open(t, petstore, bytes + next), expected)
      assert.ok(petstore.pets.every(({ name }) => name === 'Rex'))
    })
  }

  const chunked = (body: string) =>
    postChunked(`${chunk(body.slice(0, 50))}${chunk(body.slice(50))}0\r\n\r\n`)
  const FRAMINGS: Record<string, (body: string) => string> = {
    'with Content-Length': (body) => post(body),
    'in chunks': chunked,
    'in chunks with extensions and trailers': (body) =>
      chunked(body).replace('\r\n{', ';a="b"\r\n{').replace(/\r\n$/, 'X: y\r\n\r\n'),
  }
  for (const [how, frame] of Object.entries(FRAMINGS)) {
    test(`accepts a body of maxBody ${how}, rejects a larger one, and stays open`, async (t) => {
      const petstore = await start(t, { maxBody: 100 })
      const bodies = [99, 100, 101].map((length) => frame(REX.padEnd(length)))
      const connection = await open(t, petstore, bodies.join('') + get())
      const [, , large] = await assertNext(connection, 201, 201, '413 content_too_large', 200)
      assert.match(large?.body ?? '', /at most 100 bytes/)
      assert.equal(petstore.pets.length, 2)
    })
  }
})

describe('an upload of 50 MB, sent before the client reads,', within, () => {
  const UPLOAD = Buffer.alloc(50_000_000, 'x')
  const head = (...lines: string[]) => request('POST /v1/pets HTTP/1.1', lines)
  const LENGTH = `Content-Length: ${UPLOAD.length}`
  const SIZE = `${UPLOAD.length.toString(16)}\r\n`
  const END = '\r\n0\r\n\r\n'

  async function upload(t: TestContext, before: string, after = ''): Promise<RawConnection> {
    // However long a busy machine takes for it.
    const petstore = await start(t, {}, { requestTimeout: LONG, linger: LONG })
    const connection = await open(t, petstore, before, 'unread')
    for (const bytes of [UPLOAD, after]) await connection.write(bytes)
    connection.socket.resume()
    return connection
  }

  test('by a GET whose operation takes its time, is dropped as it comes', async (t) => {
    const petstore = await start(t, {}, { requestTimeout: LONG })
    petstore.inject({ operation: 'listPets', delay: LONG })
    const connection = await open(t, petstore, get('/v1/pets', LENGTH))
    await connection.write(UPLOAD)
    petstore.clearFaults()
    assert.equal(await connection.rest(), '')
  })

  const NO_IMAGE = '415 unsupported_media_type'
  type Row = [before: string, expected: Expected, after?: string]
  const KEPT: Record<string, Row> = {
    'without a key': [head(HOST, LENGTH), '401 unauthorized'],
    'of an image': [head(HOST, BEARER, LENGTH, 'Content-Type: image/png'), NO_IMAGE],
    'beyond maxBody': [postHead(UPLOAD.length), '413 content_too_large'],
    'beyond maxBody in chunks': [postChunked(SIZE), '413 content_too_large', END],
    'in chunks without a key': [head(HOST, CHUNKED) + SIZE, '401 unauthorized', END],
  }
  for (const [what, [before, expected, after = '']] of Object.entries(KEPT)) {
    test(`${what} gets its response, and so does the next request`, async (t) => {
      const connection = await upload(t, before, after + get())
      await assertNext(connection, expected, 200)
    })
  }

  const CLOSED: Record<string, Row> = {
    'after a broken chunk': [postChunked(`${chunk(REX)}zz\r\n`), '400 bad_request'],
    'after garbage': ['garbage\r\n\r\n', '400 bad_request'],
    'without Host': [head(BEARER, LENGTH), '400 bad_request'],
    'inside a header': ['GET / HTTP/1.1\r\nX: ', '431 headers_too_large'],
    'with a bad Expect': [postHead(UPLOAD.length, 'Expect: 200-ok'), '417 expectation_failed'],
    'that does not wait for 100': [head(HOST, LENGTH, 'Expect: 100-continue'), '401 unauthorized'],
    'with Connection: close': [head(HOST, LENGTH, 'Connection: close'), '401 unauthorized'],
    'into a tunnel': [TUNNEL, '405 method_not_allowed'],
    'after one without Host': [NO_HOST + postHead(UPLOAD.length), '400 bad_request'],
  }
  for (const [what, [before, expected]] of Object.entries(CLOSED)) {
    test(`${what} gets its response before the connection closes`, async (t) => {
      await assertLast(await upload(t, before), expected)
    })
  }

  test('after three beyond the last response is drained; a stop does not count them', async (t) => {
    const petstore = await start(t, {}, { requestTimeout: LONG, linger: LONG })
    petstore.inject({ operation: 'listPets', delay: 20 })
    const behind = get('/v1/pets?c') + get('/v1/pets?d') + postHead(UPLOAD.length)
    const connection = await open(t, petstore, get() + NO_HOST + behind, 'unread')
    await connection.write(UPLOAD)
    connection.socket.resume()
    await assertNext(connection, 200)
    await assertLast(connection, '400 bad_request')
    assert.equal(await petstore.close(LONG), 0)
  })

  test('that never ends is read no longer than `linger` after the last response', async (t) => {
    const petstore = await start(t, {}, { linger: 50 })
    const connection = await ask(t, petstore, 'garbage\r\n\r\n', '400 bad_request')
    while (!connection.socket.destroyed) {
      await connection.write(UPLOAD.subarray(0, 65_536))
      await turn()
    }
    await check(petstore, 'GET', '/v1/pets', 200)
  })
})

describe('a client that does not read', within, () => {
  const pets = Array.from({ length: 100 }, () => ({ name: 'x'.repeat(60_000), categoryId: 1 }))
  const PAGE = get('/v1/pets?limit=100') // 6 MB

  for (const next of ['', PAGE.repeat(49), TUNNEL]) {
    test(`is reset when it stalls, whatever bytes it sends: ${next.slice(0, 7)}`, async (t) => {
      const petstore = await start(t, { pets }, { stallTimeout: 200 })
      const { socket, closed } = await open(t, petstore, PAGE + next, 'unread')
      const drip = setInterval(() => socket.write('\r\n'), 20)
      t.after(() => clearInterval(drip))
      await closed
      const answered = petstore.requests.filter(({ status }) => status !== null)
      assert.equal(answered.length, 1)
    })
  }

  test('makes room for another, even if more of its requests wait', async (t) => {
    for (const bytes of [PAGE, PAGE.repeat(49)]) {
      const petstore = await start(t, { pets, maxConnections: 1 }, { stallTimeout: LONG })
      await open(t, petstore, bytes, 'unread')
      while (petstore.requests.length === 0) await turn() // until then, it is idle
      await ask(t, petstore, get('/livez'), 200)
    }
  })

  test('makes room for another, also while a fault stalls its response', async (t) => {
    const petstore = await start(t, { pets, maxConnections: 1 })
    petstore.inject({ operation: 'listPets', body: 'stalled' })
    const { socket } = await open(t, petstore, PAGE)
    await once(socket, 'data')
    await ask(t, petstore, get('/livez'), 200)
  })

  test('is reset if it holds the most when all together exceed the bound', async (t) => {
    const petstore = await start(t, { pets }, { maxHeldBytes: 5_000_000 })
    const greedy = await open(t, petstore, PAGE, 'unread')
    const modest = await open(t, petstore, get('/v1/pets?limit=10'), 'unread')
    while (petstore.requests.length < 2) await turn()
    for (const { socket } of [greedy, modest]) socket.resume()
    assert.equal(JSON.parse((await modest.read()).body).length, 10)
    await assert.rejects(greedy.read(), /the connection ended/)
  })

  test('of the API and one of the controls hold no more than the bound together', async (t) => {
    const options = { pets, controlPort: 0 }
    const petstore = await start(t, options, { maxHeldBytes: 11_000_000, stallTimeout: LONG })
    const controls = { url: String(petstore.controlUrl) }
    const list = request('GET /pets HTTP/1.1', ['Host: localhost']) // 6 MB, too
    const clients = [
      await open(t, petstore, PAGE, 'unread'),
      await open(t, controls, list, 'unread'),
    ]
    while (petstore.requests.length === 0) await turn()
    await ask(t, controls, request('GET / HTTP/1.1', ['Host: localhost']), 200)
    for (const { socket } of clients) socket.resume()
    const read = await Promise.allSettled(clients.map((client) => client.read()))
    assert.ok(read.some(({ status }) => status === 'rejected'))
  })

  test('is not reset for what other clients have read, or left', async (t) => {
    const petstore = await start(t, { pets }, { maxHeldBytes: 15_000_000 })
    const slow = await open(t, petstore, PAGE, 'unread')
    for (let count = 0; count < 8; count++) {
      const { socket } = await ask(t, petstore, PAGE, 200)
      if (count >= 4) socket.destroy()
    }
    slow.socket.resume()
    await assertNext(slow, 200)
  })
})

describe('pipelined requests', within, () => {
  test('are answered in order while at most 100 wait, or else the connection closes', async (t) => {
    const snapshot = `${folderOf()}/pets.json`
    const { petstore, logStream } = await startLogging(t, 'text', { snapshot })
    await petstore.add(Array(100).fill(TWO_PETS[0]))
    const connection = new RawConnection(t, petstore)
    for (const count of [99, 100]) {
      const ids = Array.from({ length: count }, (_, at) => count - at)
      await connection.write(post() + ids.map((id) => get(`/v1/pets/${id}`)).join(''))
      await assertNext(connection, 201)
      for (const id of ids) assert.equal((await connection.read()).body, pet(id))
    }
    petstore.inject({ operation: 'createPet', delay: LONG })
    await connection.write(post() + get().repeat(101))
    assert.equal(await connection.rest(), '')
    petstore.clearFaults()
    const why = 'connections closed, because more than 100 requests waited on one: 1'
    await logStream.until(new RegExp(`warn: ${why}`))
  })

  test('are read no faster than they are answered, also with bodies', async (t) => {
    const petstore = await start(t)
    const body = JSON.stringify({ name: 'x'.repeat(600), categoryId: 1 })
    await ask(t, petstore, post(body).repeat(300), ...Array<201>(300).fill(201))
  })

  test('get no 408 for a body that the server did not read while they waited', async (t) => {
    const petstore = await start(t, {}, { stallTimeout: 100, requestTimeout: LONG })
    petstore.inject({ operation: 'listPets', delay: 400 })
    const connection = await open(t, petstore, get() + postHead(REX.length))
    while (petstore.pendingFaults.length > 0) await turn()
    await connection.write(REX)
    await assertNext(connection, 200, 201)
  })

  test('hold up no other connection', async (t) => {
    const petstore = await start(t)
    const pipelining = new RawConnection(t, petstore)
    const other = new RawConnection(t, petstore)
    for (const connection of [pipelining, other]) {
      await connection.write(get())
      await assertNext(connection, 200)
    }
    petstore.clearRequests()
    await Promise.all([pipelining.write(PIPELINE), other.write(get('/v1/pets?status=sold'))])
    await assertNext(other, 200)
    assert.ok(petstore.requests.length < 50)
  })
})

test('observers of node:http see the status of each response', async (t) => {
  const petstore = await start(t)
  const statuses: unknown[] = []
  const observe = (message: unknown) => {
    assert.ok(isRecord(message) && isRecord(message['response']))
    statuses.push(message['response']['statusCode'])
  }
  subscribe('http.server.response.finish', observe)
  t.after(() => unsubscribe('http.server.response.finish', observe))
  await assertNext(await open(t, petstore, get() + get('/v1/pets/9') + post()), 200, 404, 201)
  assert.deepEqual(statuses, [200, 404, 201])
})

test('a tunnel that its client resets harms nobody', async (t) => {
  const petstore = await start(t)
  const tunnel = await ask(t, petstore, TUNNEL, '405 method_not_allowed')
  tunnel.socket.resetAndDestroy()
  await check(petstore, 'GET', '/livez', 200)
})

const LONG_HEADER = `X: ${'x'.repeat(15_000)}`
const NAMES = Array.from({ length: 97 }, (_, at) => `${'X'.repeat(150)}${at}:`)
const REFUSED = request('POST /v1/pets HTTP/1.1', [HOST, 'Content-Length: 2', LONG_HEADER])
const LONG_BODY = JSON.stringify({ name: 'x'.repeat(60_000), categoryId: 1 })
for (const [what, count, bytes, maxHeldBytes] of [
  ['requests in flight', 10, get(), 40_000],
  ['requests in flight with long headers', 10, get('/v1/pets', LONG_HEADER), 120_000],
  [
    'requests in flight with long names, which are kept twice',
    10,
    get('/v1/pets', ...NAMES),
    400_000,
  ],
  ['refused requests whose bodies are incomplete', 10, `${REFUSED}{`, 120_000],
  ['bodies of delayed requests while others wait', 2, post(LONG_BODY) + get(), 115_000],
  ['requests that wait in pipelines', 2, PIPELINE, 800_000], // each holds about 0.5 MB
] as const) {
  test(`${what} are reset if they exceed the bound`, within, async (t) => {
    // Nothing else closes them.
    const limits = { maxHeldBytes, requestTimeout: LONG, stallTimeout: LONG }
    const petstore = await start(t, { delay: LONG, keepAlive: LONG }, limits)
    const idle = await ask(t, petstore, get('/livez'), 200)
    const large = Array.from({ length: count }, () => open(t, petstore, bytes))
    await Promise.race((await Promise.all(large)).map(({ closed }) => closed))
    await idle.write(get('/livez'))
    await assertNext(idle, 200)
  })
}

/** Sends a request to each, and waits until as many faults delay them. */
async function delayEach(t: TestContext, petstore: Petstore, all: readonly string[]) {
  petstore.inject({ operation: 'createPet', delay: LONG, times: all.length })
  const connections = await Promise.all(all.map((bytes) => open(t, petstore, bytes)))
  while (petstore.pendingFaults.length > 0) await turn()
  return connections
}

test(
  'a delay ends early if its client left and made the server hold too much',
  within,
  async (t) => {
    const maxHeldBytes = 300_000
    const petstore = await start(t, {}, { maxHeldBytes })
    const [waiting] = await delayEach(t, petstore, [post()])
    for (let sent = 1; sent <= 10; sent++) {
      const [leaving] = await delayEach(t, petstore, [post(LONG_BODY)])
      leaving?.socket.destroy()
      await petstore.waitForRequests(sent, { status: null, timeout: LONG })
    }
    const delayed = 10 - petstore.pets.length
    assert.ok(delayed * LONG_BODY.length < maxHeldBytes, `${delayed} are delayed`)
    assert.ok(petstore.pets.every(({ name }) => name !== 'Rex')) // its client has not left
    assert.equal(waiting?.socket.readableEnded, false)
  },
)

test('a request that waits keeps no trailers', within, async (t) => {
  const petstore = await start(t)
  const trailers = 'Name: '.padEnd(150, 'x').concat('\r\n').repeat(100)
  const growth = async (end: string, count: number) => {
    const bytes = postChunked(`${chunk(REX)}0\r\n${end}\r\n`)
    const before = heapUsed()
    await delayEach(t, petstore, Array<string>(count).fill(bytes))
    return heapUsed() - before
  }
  await growth(trailers, 5) // warms up
  let more = Infinity
  for (let tries = 0; tries < 10 && more > (50 * trailers.length) / 2; tries++) {
    const without = await growth('', 50)
    more = (await growth(trailers, 50)) - without // now and then the compiler adds some
  }
  assert.ok(more < (50 * trailers.length) / 2, `${more} bytes more for 50 requests`)
})

function heapUsed(): number {
  collectGarbage()
  return process.memoryUsage().heapUsed
}

test('an idle connection keeps no request, headers or response, even after a wait', async (t) => {
  const petstore = await start(t)
  const seen: WeakRef<object>[] = []
  const see = (message: unknown) => {
    assert.ok(isRecord(message))
    const { request, response } = message
    assert.ok(isRecord(request) && isRecord(response) && isRecord(request['headers']))
    seen.push(new WeakRef(request), new WeakRef(request['headers']), new WeakRef(response))
  }
  subscribe('http.server.request.start', see)
  const refused = request('POST /v1/pets HTTP/1.1', [HOST, 'Content-Length: 2'], '{}')
  const connection = await ask(t, petstore, get() + post() + refused, 200, 201, 401)
  await turn()
  collectGarbage()
  unsubscribe('http.server.request.start', see)
  assert.equal(seen.length, 9)
  for (const reference of seen) assert.equal(reference.deref(), undefined)
  await connection.write(get())
  await assertNext(connection, 200)
})

test('close() ends although each connection brings another one', within, async (t) => {
  const petstore = await start(t)
  const connectAgain = () => {
    const { socket } = new RawConnection(t, petstore)
    socket.on('connect', () => socket.destroy())
  }
  subscribe('net.server.socket', connectAgain)
  t.after(() => unsubscribe('net.server.socket', connectAgain))
  connectAgain()
  await petstore.close()
})

describe('an incomplete body', within, () => {
  test('is not reset below the bound, whatever idle connections held', async (t) => {
    const petstore = await start(t, {}, { maxHeldBytes: 78_000 })
    const large = await ask(t, petstore, postHead(60_001, 'Expect: 100-continue'), 100)
    await large.write('x'.repeat(60_000))
    for (let count = 0; count < 5; count++) await ask(t, petstore, get(), 200)
    await large.write('x')
    await assertNext(large, '400 bad_request')
  })

  test('is reset if it holds the most when all together exceed the bound', async (t) => {
    const petstore = await start(t, {}, { maxHeldBytes: 115_000 })
    const openWith = async (size: number) => {
      const connection = await ask(t, petstore, postHead(60_500, 'Expect: 100-continue'), 100)
      await connection.write('x'.repeat(size))
      return connection
    }
    const largest = openWith(60_000)
    const others = [openWith(20_000), openWith(30_000)]
    assert.equal(await (await largest).rest(), '')
    for (const connection of await Promise.all(others)) {
      await connection.write('x'.repeat(60_500))
      await assertNext(connection, '400 bad_request')
    }
  })

  test('gets 408 if it stalls, even if its rest follows; a slow response does not', async (t) => {
    const limits = { stallTimeout: 50, headersTimeout: 1_000, requestTimeout: 1_000 }
    const petstore = await start(t, {}, limits)
    petstore.inject({ operation: 'listPets', delay: 500 })
    const waiting = await open(t, petstore, get())
    const silent = await ask(t, petstore, postHead(REX.length), '408 request_timeout')
    await silent.write(REX)
    assert.equal(await silent.rest(), '')
    await assertNext(waiting, 200)
    await check(petstore, 'GET', '/livez', 200) // by then, the rest is read
    assert.deepEqual(petstore.pets, [])
  })
})
