// What happens on one connection: many requests, pipelined ones, bodies cut anywhere, clients that do not read or do not stop.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import type { Expected } from '../support.ts'
import { assertLast, assertNext, check, folderOf, Random, RawConnection, send, start } from '../support.ts'
import { chunk, get, open, post, postChunked, postHead, request } from './raw.ts'
import { BEARER, CHUNKED, HOST, REX } from './raw.ts'

const pet = (id: number) => REX.replace('{', `{"id":${id},`)
const TWO_PETS = ['Rex', 'Tom'].map((name) => ({ name, categoryId: 1 }))

describe('one connection', () => {
  test('answers 1,000 pipelined requests in their order, again and again', async (t) => {
    const petstore = await start(t, { pets: Array(1_000).fill(TWO_PETS[0]) })
    const ids = Array.from({ length: 1_000 }, (_, at) => 1_000 - at)
    const connection = new RawConnection(t, petstore)
    for (let times = 0; times < 2; times++) {
      await connection.write(ids.map((id) => get(`/v1/pets/${id}`)).join(''))
      for (const id of ids) assert.equal((await connection.read()).body, pet(id))
    }
  })

  test('gives a pipelined request what the ones before it have changed, however long those take', async (t) => {
    for (const options of [{}, { snapshot: `${folderOf(t)}/pets.json` }]) {
      const petstore = await start(t, options)
      petstore.inject({ operation: 'createPet', delay: 20 })
      const requests = [get(), post(), get(), postChunked(`${chunk(REX)}0\r\n\r\n`), get('/v1/pets?after=1')]
      const answers = await assertNext(await open(t, petstore, requests.join('')), 200, 201, 200, 201, 200)
      const bodies = answers.map(({ body }) => body)
      assert.deepEqual(bodies, ['[]', pet(1), `[${pet(1)}]`, pet(2), `[${pet(2)}]`])
    }
  })

  test('gives the same answers wherever the bytes are cut', async (t) => {
    const seed = Number(process.env['SEED'] ?? Date.now() % 2 ** 31)
    t.diagnostic(`SEED=${seed}`)
    const random = new Random(seed)
    const petstore = await start(t, { pets: TWO_PETS })
    const chunked = postChunked(`1\r\n{\r\n2;a=b\r\n}}\r\n0\r\n\r\n`)
    const bytes = Buffer.from(get() + get('/v1/pets/2') + get('/nowhere') + post('{"name":"né"}') + chunked)
    for (let round = 0; round < 20; round++) {
      const connection = new RawConnection(t, petstore)
      connection.socket.setNoDelay(true)
      for (let at = 0, end = 0; at < bytes.length; at = end) {
        end = at + (round === 0 ? 1 : random.integer(1, 200)) // the first round sends a byte at a time
        await connection.write(bytes.subarray(at, end))
        await turn()
      }
      await assertNext(connection, 200, 200, '404 not_found', '400 invalid_pet', '400 bad_request')
      assert.equal(petstore.requests.at(-2)?.body, '{"name":"né"}')
      connection.socket.destroy()
    }
  })

  test('is closed behind the answer to a request that asks for it, and nothing behind that is processed', async (t) => {
    const petstore = await start(t)
    const lines = ['Content-Length: 2', 'Expect: 100-continue']
    const closing: [bytes: string, expected: Expected][] = [
      [get('/v1/pets', 'Connection: close'), 200],
      [post('{}', 'Connection: close'), '400 invalid_pet'],
      [request('GET /v1/pets HTTP/1.0', [BEARER]), 200],
      [request('POST /v1/pets HTTP/1.0', [BEARER, ...lines], '{}'), '400 invalid_pet'], // 1.0 knows no 100
      // The next request could be the body that its client has kept back.
      [request('POST /v1/pets HTTP/1.1', [HOST, ...lines], '{}'), '401 unauthorized'],
    ]
    for (const [bytes, expected] of closing) await assertLast(await open(t, petstore, bytes + post()), expected, bytes)
    assert.deepEqual(petstore.pets, [])
    const kept = await open(t, petstore, request('GET /v1/pets HTTP/1.0', [BEARER, 'Connection: keep-alive']).repeat(2))
    for (const { headers } of await assertNext(kept, 200, 200)) assert.equal(headers.connection, 'keep-alive')
  })

  test('takes bodies up to maxBody, however framed, and serves on behind one that is too large', async (t) => {
    const petstore = await start(t, { maxBody: 100 })
    const inHalves = (body: string) => chunk(body.slice(0, 50)) + chunk(body.slice(50))
    const chunked = (body: string) => postChunked(`${inHalves(body)}0\r\n\r\n`)
    const extended = (body: string) => chunked(body).replace('\r\n{', ';a="b"\r\n{').replace(/\r\n$/, 'X: y\r\n\r\n')
    for (const frame of [(body: string) => post(body), chunked, extended]) {
      const bytes = [99, 100, 101].map((length) => frame(REX.padEnd(length, ' '))).join('')
      const connection = await open(t, petstore, bytes + get())
      const [, , large] = await assertNext(connection, 201, 201, '413 content_too_large', 200)
      assert.match(large?.body ?? '', /at most 100 bytes/)
    }
    assert.equal(petstore.pets.length, 6)
  })
})

describe('an upload of 50 MB, written before anything is read,', () => {
  const UPLOAD = Buffer.alloc(50_000_000, 'x')

  test('is refused with an answer that its client gets to read, and its connection serves on or is closed', async (t) => {
    // However long a busy machine takes for the upload.
    const petstore = await start(t, {}, { requestTimeout: 600_000, linger: 600_000 })
    const POST = 'POST /v1/pets HTTP/1.1'
    const LENGTH = `Content-Length: ${UPLOAD.length}`
    const SIZE = `${UPLOAD.length.toString(16)}\r\n`
    const END = '\r\n0\r\n\r\n'
    const rows: [before: string, expected: Expected, behind?: string][] = [
      [request(POST, [HOST, LENGTH]), '401 unauthorized', get()],
      [postHead(UPLOAD.length, 'Content-Type: image/png'), '415 unsupported_media_type', get()],
      [postHead(UPLOAD.length), '413 content_too_large', get()],
      [postChunked(SIZE), '413 content_too_large', END + get()],
      [request(POST, [HOST, CHUNKED], SIZE), '401 unauthorized', END + get()],
      [postChunked(`${chunk(REX)}zz\r\n`), '400 bad_request'],
      ['garbage\r\n\r\n', '400 bad_request'],
      [request(POST, [BEARER, LENGTH]), '400 bad_request'],
      ['GET / HTTP/1.1\r\nX: ', '431 headers_too_large'],
      [postHead(UPLOAD.length, 'Expect: 200-ok'), '417 expectation_failed'],
      [request(POST, [HOST, LENGTH, 'Expect: 100-continue']), '401 unauthorized'],
      [request(POST, [HOST, LENGTH, 'Connection: close']), '401 unauthorized'],
      [request('CONNECT pets.example:80 HTTP/1.1', [HOST]), '405 method_not_allowed'],
    ]
    for (const [before, expected, behind] of rows) {
      const connection = new RawConnection(t, petstore)
      connection.socket.pause()
      for (const bytes of [before, UPLOAD, behind ?? '']) await connection.write(bytes)
      connection.socket.resume()
      if (behind === undefined) await assertLast(connection, expected, before)
      else await assertNext(connection, expected, 200)
    }
  })

  test('that never ends is read no longer than `linger` after the last answer', async (t) => {
    const petstore = await start(t, {}, { linger: 50 })
    const connection = await open(t, petstore, 'garbage\r\n\r\n')
    await assertNext(connection, '400 bad_request')
    while (!connection.socket.destroyed) {
      await connection.write(UPLOAD.subarray(0, 65_536))
      await turn()
    }
    await check(petstore, 'GET', '/v1/pets', 200)
  })
})

describe('a client that does not read', () => {
  const pets = Array.from({ length: 100 }, () => ({ name: 'x'.repeat(60_000), categoryId: 1 }))
  const PAGE = get('/v1/pets?limit=100') // 6 MB

  test('is cut off, and the pages that it has asked for are not made', async (t) => {
    const petstore = await start(t, { pets, maxConnections: 1 }, { stallTimeout: 200, checkInterval: 10 })
    const { rss } = process.memoryUsage()
    await open(t, petstore, PAGE.repeat(500), 'unread') // 3 GB of pages
    let answer
    while (answer === undefined) answer = await send(petstore, 'GET', '/v1/pets?limit=1').catch(() => undefined)
    assert.equal(answer.status, 200)
    assert.ok(process.memoryUsage().rss - rss < 500 * 2 ** 20)
  })

  test('the longest is cut off where all together leave more unread than may be', async (t) => {
    const petstore = await start(t, { pets }, { unreadBytes: 1_000_000 })
    const stalled: RawConnection[] = []
    for (let count = 1; count <= 2; count++) {
      stalled.push(await open(t, petstore, PAGE, 'unread'))
      while (petstore.requests.length < count) await turn()
    }
    for (const { socket } of stalled) socket.resume()
    const [first, second] = stalled
    assert.equal(JSON.parse((await second?.read())?.body ?? '').length, 100)
    await assert.rejects(async () => first?.read(), /the connection ended/)
  })

  test('is not cut off for what a client beside it reads', async (t) => {
    const petstore = await start(t, { pets }, { unreadBytes: 15_000_000 })
    const slow = await open(t, petstore, PAGE, 'unread')
    const quick = new RawConnection(t, petstore)
    for (let count = 0; count < 4; count++) {
      await quick.write(PAGE)
      await assertNext(quick, 200)
    }
    slow.socket.resume()
    await assertNext(slow, 200)
  })

  test('and pipelines more behind a create than may wait is cut off; one that stays below is answered', async (t) => {
    const petstore = await start(t, { snapshot: `${folderOf(t)}/pets.json` }, { pipelined: 3 })
    await assertNext(await open(t, petstore, post() + get().repeat(3)), 201, 200, 200, 200)
    const greedy = await open(t, petstore, post() + get().repeat(4))
    assert.equal(await greedy.rest(), '')
  })
})

test('a connection that stalls in a body is cut off, and one whose answer takes its time is not', async (t) => {
  const petstore = await start(t, {}, { stallTimeout: 50, checkInterval: 10 })
  petstore.inject({ operation: 'listPets', delay: 500 })
  const waiting = await open(t, petstore, get())
  const silent = await open(t, petstore, postHead(REX.length) + REX.slice(0, 9))
  assert.equal(await silent.rest(), '')
  await assertNext(waiting, 200)
})
