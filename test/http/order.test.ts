// The order of the checks, and what a client that is still sending gets to read.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { MemoryStore } from '../../src/pets/memory-store.ts'
import { KEY, RawConnection, start } from '../support.ts'
import { ask, assertLast, assertNext, BEARER, chunk, CHUNKED, type Expected, get } from './raw.ts'
import { HOST, open, post, postChunked, postHead, request, REX } from './raw.ts'

const LONG = 'Content-Length: 65537'
const TEXT = 'Content-Type: text/plain'
const GZIP = 'Content-Encoding: gzip'
const WAITS = 'Expect: 100-continue'

type Check = [line: string, lines: string[], expected: Expected]
const ORDER: Record<string, Check> = {
  'HTTP first': ['POST /v1/x', ['Host: a b', TEXT, LONG], '400 bad_request'],
  'Expect as a part of HTTP': [
    'POST /v1/x',
    [HOST, TEXT, LONG, 'Expect: x'],
    '417 expectation_failed',
  ],
  'the key before the path': ['POST /v1/x', [HOST, TEXT, LONG], '401 unauthorized'],
  'the key before the method': ['PUT /v1/pets', [HOST, TEXT, LONG], '401 unauthorized'],
  'the path before the method': ['PUT /v1/x', [HOST, BEARER, TEXT, LONG], '404 not_found'],
  'the method before the type': [
    'PUT /v1/pets',
    [HOST, BEARER, TEXT, LONG],
    '405 method_not_allowed',
  ],
  'the type before the size': [
    'POST /v1/pets',
    [HOST, BEARER, TEXT, LONG],
    '415 unsupported_media_type',
  ],
  'the coding before the size': [
    'POST /v1/pets',
    [HOST, BEARER, GZIP, LONG],
    '415 unsupported_media_type',
  ],
  'the size before the body': ['POST /v1/pets', [HOST, BEARER, LONG], '413 content_too_large'],
  'no body where none is wanted': ['GET /v1/pets', [HOST, BEARER, TEXT, LONG], 200],
}
for (const [rule, [line, lines, expected]] of Object.entries(ORDER)) {
  test(`checks ${rule}, and neither sends 100 nor waits for the body`, async (t) => {
    const petstore = await start(t)
    await ask(t, petstore, request(`${line} HTTP/1.1`, lines), expected)
    if (lines.includes('Expect: x')) return
    const waiting = await open(t, petstore, request(`${line} HTTP/1.1`, [...lines, WAITS]))
    await assertLast(waiting, expected) // nobody knows whether its body follows
  })
}

test('checks the fields before the room in the store, and that before the storage', async (t) => {
  let added = 0
  const store = {
    page: () => ({ json: '[]', next: undefined }),
    get: () => undefined,
    add: () => {
      added++
      return { ok: false, reason: 'store_full' } as const
    },
    reset: () => true,
    isWritable: () => true,
    close: () => {},
  }
  const petstore = await start(t, { store })
  await ask(t, petstore, post('{') + post('{}'), '400 bad_request', '400 invalid_pet')
  assert.equal(added, 0)
  await ask(t, petstore, post(), '507 store_full')
})

test('sends 100-continue once all checks have passed, whatever its letter case', async (t) => {
  const petstore = await start(t, { maxBody: REX.length })
  for (const expect of [WAITS, 'expect: 100-Continue']) {
    const sized = await ask(t, petstore, postHead(REX.length, expect), 100)
    await sized.write(REX + get())
    await assertNext(sized, 201, 200)
    const head = request('POST /v1/pets HTTP/1.1', [HOST, BEARER, CHUNKED, expect])
    const chunked = await ask(t, petstore, head, 100)
    await chunked.write(`${chunk(REX)}0\r\n\r\n${get()}`)
    await assertNext(chunked, 201, 200)
  }
})

const chunked = (body: string): string => {
  return postChunked(`${chunk(body.slice(0, 50))}${chunk(body.slice(50))}0\r\n\r\n`)
}
const FRAMINGS: Record<string, (body: string) => string> = {
  'with Content-Length': (body) => post(body),
  'in chunks': chunked,
  'in chunks with extensions and trailers': (body) => {
    return chunked(body).replace('\r\n{', ';a="b"\r\n{').replace(/\r\n$/, 'X: y\r\n\r\n')
  },
}
for (const [how, frame] of Object.entries(FRAMINGS)) {
  test(`takes a body of maxBody ${how}, refuses a larger one, and goes on`, async (t) => {
    const petstore = await start(t, { maxBody: 100 })
    const bodies = [99, 100, 101].map((length) => frame(REX.padEnd(length)))
    const connection = await open(t, petstore, bodies.join('') + get())
    const [, , large] = await assertNext(connection, 201, 201, '413 content_too_large', 200)
    assert.match(large?.body ?? '', /at most 100 bytes/)
    assert.equal(petstore.pets.length, 2)
  })
}

const UPLOAD = Buffer.alloc(4_000_000, 'x')
const LENGTH = `Content-Length: ${UPLOAD.length}`
const SIZE = `${UPLOAD.length.toString(16)}\r\n`
const END = '\r\n0\r\n\r\n'
const head = (...lines: string[]): string => request('POST /v1/pets HTTP/1.1', lines)

type Upload = [before: string, expected: Expected, after?: string]
const UPLOADS: Record<string, Upload> = {
  'without a key': [head(HOST, LENGTH), '401 unauthorized'],
  'in chunks without a key': [head(HOST, CHUNKED) + SIZE, '401 unauthorized', END],
  'of text': [head(HOST, BEARER, LENGTH, TEXT), '415 unsupported_media_type'],
  'beyond maxBody': [postHead(UPLOAD.length), '413 content_too_large'],
  'beyond maxBody in chunks': [postChunked(SIZE), '413 content_too_large', END],
  'by a GET': [get('/v1/pets', LENGTH), 200],
}
for (const [what, [before, expected, after = '']] of Object.entries(UPLOADS)) {
  test(`an upload of 4 MB ${what} is answered before its end, and the next, too`, async (t) => {
    const petstore = await start(t)
    const connection = await upload(t, petstore, before)
    await connection.write(after + get())
    await assertNext(connection, expected, 200)
  })
}

const LAST_UPLOADS: Record<string, Upload> = {
  'after garbage': ['garbage\r\n\r\n', '400 bad_request'],
  'inside a header': ['GET / HTTP/1.1\r\nX: ', '431 headers_too_large'],
  'into a tunnel': [request('CONNECT a:80 HTTP/1.1', [HOST]), '405 method_not_allowed'],
}
for (const [what, [before, expected]] of Object.entries(LAST_UPLOADS)) {
  test(`an upload of 4 MB ${what} gets its Error before the connection closes`, async (t) => {
    await assertLast(await upload(t, await start(t), before), expected)
  })
}

/** Sends all of a large upload before it reads anything. */
async function upload(
  t: TestContext,
  petstore: { url: string },
  before: string,
): Promise<RawConnection> {
  const connection = await open(t, petstore, before, 'unread')
  await connection.write(UPLOAD)
  connection.socket.resume()
  return connection
}

const LAST: Record<string, [bytes: string, expected: Expected]> = {
  'Connection: close': [get('/v1/pets', 'Connection: close'), 200],
  'Connection: close with an Error': [post('{}', 'Connection: close'), '400 invalid_pet'],
  'HTTP/1.0': [request('GET /v1/pets HTTP/1.0', [BEARER]), 200],
  'a refused Expect: 100-continue': [
    request('POST /v1/pets HTTP/1.1', [HOST, 'Content-Length: 2', WAITS], '{}'),
    '401 unauthorized',
  ],
  Upgrade: [get('/v1/pets', 'Connection: Upgrade, HTTP2-Settings', 'Upgrade: h2c'), 200],
  'Upgrade without the connection option': [get('/v1/pets', 'Upgrade: h2c'), 200],
  'Upgrade with a body': [post(REX, 'Connection: Upgrade', 'Upgrade: websocket'), 201],
}
for (const [what, [bytes, expected]] of Object.entries(LAST)) {
  test(`closes after the response to ${what}, and does nothing of what follows`, async (t) => {
    const petstore = await start(t)
    for (const next of [post('{"name":"Tom","categoryId":1}'), 'garbage\r\n\r\n']) {
      await assertLast(await open(t, petstore, bytes + next), expected)
    }
    assert.ok(petstore.pets.every(({ name }) => name === 'Rex'))
    await ask(t, petstore, get(), 200)
  })
}

test('gives the same responses wherever the bytes are split', async (t) => {
  const petstore = await start(t, { pets: [{ name: 'Rex', categoryId: 1 }] })
  const chunks = postChunked(`1\r\n{\r\n2;a=b\r\n}}\r\n0\r\n\r\n`)
  const good = get() + get('/v1/pets/1') + get('/nowhere')
  const bytes = Buffer.from(good + post('{"name":"né"}') + chunks)
  for (const size of [1, 7, 190]) {
    const connection = new RawConnection(t, petstore)
    connection.socket.setNoDelay(true)
    for (let sent = 0; sent < bytes.length; sent += size) {
      await connection.write(bytes.subarray(sent, sent + size))
      await turn()
    }
    await assertNext(connection, 200, 200, '404 not_found', '400 invalid_pet', '400 bad_request')
    assert.equal(petstore.requests.at(-2)?.body, '{"name":"né"}')
  }
})

test('the Authorization header is not recorded', async (t) => {
  const petstore = await start(t)
  await ask(t, petstore, get(), 200)
  assert.doesNotMatch(JSON.stringify(petstore.requests), new RegExp(KEY))
})

const BODIES: Record<string, [bytes: string, reason: RegExp]> = {
  'invalid UTF-8': ['{"name":"\xff","categoryId":1}', /not valid UTF-8/],
  'half of a letter': ['{"name":"\xc3', /not valid UTF-8/],
  'a byte order mark': [`\xef\xbb\xbf${REX}`, /byte order mark/],
  UTF16: ['\xff\xfe{\0}\0', /not valid UTF-8/],
}
test('a body that is not JSON in UTF-8 is 400, and the message says why', async (t) => {
  const petstore = await start(t)
  for (const [bytes, reason] of Object.values(BODIES)) {
    const connection = await open(t, petstore, postHead(bytes.length) + bytes)
    const [answer] = await assertNext(connection, '400 bad_request')
    assert.match(answer?.body ?? '', reason)
  }
})

test('a body of the greatest size is read in a moment, however deep or odd', async (t) => {
  const petstore = await start(t)
  const size = 65_536
  const bodies = ['[', '{"a":', '1', '9.', '0e', '"\\', '-', '{"name":"x","categoryId":1.'].map(
    (part) => {
      return part.repeat(size).slice(0, size)
    },
  )
  const nested = `{"name":${'['.repeat(30_000)}9007199254740993${']'.repeat(30_000)}}`
  const zeros = `{"name":"x","categoryId":1.${'0'.repeat(60_000)}}`
  const digits = `{"name":"x","categoryId":${'9'.repeat(60_000)}}`
  const connection = new RawConnection(t, petstore)
  for (const body of [...bodies, nested, digits]) {
    await connection.write(post(body))
    await assertNext(connection, 400)
  }
  await connection.write(post(zeros))
  await assertNext(connection, 201)
})

test('a bug is a 500, and only standard error, or the log, says why', async (t) => {
  const petstore = await start(t)
  const { mock } = t.mock.method(console, 'error', () => {})
  const bug = t.mock.method(MemoryStore.prototype, 'page', () => {
    throw new Error('the secret')
  })
  for (const delay of [undefined, 1]) {
    if (delay) petstore.inject({ operation: 'listPets', delay })
    const connection = await open(t, petstore, get() + get('/v1/pets/1'))
    const [failed] = await assertNext(connection, '500 internal_error', 404)
    assert.doesNotMatch(failed?.body ?? '', /secret/)
  }
  assert.match(String(mock.calls[1]?.arguments[0]), /^petstore-server: Error: the secret\n +at /)
  bug.mock.restore()
  await ask(t, petstore, get(), 200)
})
