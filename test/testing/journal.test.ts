// The journal: what clients sent, exactly, but for the keys; and what became of it.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { createPetstore, type Petstore } from '../../src/petstore.ts'
import type { RecordedRequest } from '../../src/testing/journal.ts'
import { AUTHORIZATION, KEY, RawConnection, send, start } from '../support.ts'
import { BEARER, chunk, get, HOST, LogReader, post, postChunked, postHead, request, REX } from '../http/raw.ts'

/** The requests without their durations, which are checked to be some. */
function requests(petstore: Petstore): Omit<RecordedRequest, 'duration'>[] {
  return petstore.requests.map(({ duration, ...rest }) => {
    assert.ok(duration >= 0 && Math.round(duration * 1000) / 1000 === duration)
    return rest
  })
}

const JSON_TYPE = { 'content-type': 'application/json' }
type Typical = [method: string, target: string, headers: Record<string, string>, body: string, recorded: object]
const typical: Typical[] = [
  ['GET', '/v1/pets?limit=5&status=sold', {}, '', { operation: 'listPets', query: 'limit=5&status=sold', status: 200 }],
  [
    'HEAD',
    '/v1/p%65ts?a=%20+b?',
    {},
    '',
    { operation: 'listPets', path: '/v1/p%65ts', query: 'a=%20+b?', status: 200 },
  ],
  ['POST', '/v1/pets', JSON_TYPE, REX, { operation: 'createPet', body: REX, status: 201 }],
  [
    'POST',
    '/v1/pets?x',
    JSON_TYPE,
    ' {"ü":"😀\\u0000\n',
    { operation: 'createPet', body: ' {"ü":"😀\\u0000\n', query: 'x', status: 400 },
  ],
  ['POST', '/v1/pets', JSON_TYPE, '', { operation: 'createPet', status: 400 }],
  ['POST', '/v1/pets', { 'content-type': 'text/plain' }, REX, { operation: 'createPet', status: 415 }],
  ['POST', '/v1/pets', JSON_TYPE, 'x'.repeat(200), { operation: 'createPet', status: 413 }],
  [
    'POST',
    '/v1/pets',
    { ...JSON_TYPE, authorization: 'Bearer wrong-key' },
    REX,
    { operation: 'createPet', status: 401 },
  ],
  ['PUT', '/v1/pets/1', JSON_TYPE, REX, { operation: null, status: 405 }],
  ['GET', '/v1/pets/7', { 'x-request-id': 'id-7', 'x-more': 'a, b' }, '', { operation: 'getPet', status: 404 }],
  ['GET', '/v1/store/orders', {}, '', { operation: 'listOrders', status: 501 }],
  ['GET', '/nothing//here%zz', {}, '', { operation: null, status: 404 }],
  ['OPTIONS', '/v1/pets', {}, '', { operation: null, status: 204 }],
  ['GET', '/', {}, '', { operation: 'page', status: 200 }],
]

describe('requests', () => {
  for (const [method, target, fields, body, recorded] of typical) {
    test(`holds ${method} ${target} ${JSON.stringify(fields)} as it was sent, over a socket as in process`, async (t) => {
      const petstore = await start(t, { maxBody: 100 })
      const headers: Record<string, string> = { authorization: AUTHORIZATION, ...fields }
      const entry = { method, path: target.split('?')[0], query: '', body: '', ...recorded }
      const redacted = { ...headers, authorization: 'Bearer [redacted]' }
      await petstore.fetch(new URL(target, petstore.url), { method, headers, ...(body !== '' && { body }) })
      assert.deepEqual(requests(petstore), [{ ...entry, headers: redacted }])
      await petstore.reset()
      const length = { 'content-length': String(Buffer.byteLength(body)) }
      const sent = body === '' ? headers : { ...headers, ...length }
      await send(petstore, method, target, { headers: sent, body })
      const [overSocket, ...more] = requests(petstore)
      assert.deepEqual(more, [])
      const { host, connection, 'transfer-encoding': _, 'content-length': __, ...rest } = overSocket?.headers ?? {}
      assert.deepEqual([host, connection], [new URL(petstore.url).host, 'close'])
      assert.deepEqual({ ...overSocket, headers: rest }, { ...entry, headers: redacted })
    })
  }

  test('holds neither probes nor what node cannot read as a request', async (t) => {
    const logStream = new LogReader()
    const petstore = await start(t, { log: 'json', logStream })
    for (const path of ['/livez', '/readyz']) await send(petstore, 'GET', path)
    for (const bytes of [
      'garbage\r\n\r\n',
      'GET /v1/pets HTTP/1.1\r\nHost: x\r\nX: \0\r\n\r\n',
      'CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\n\r\n',
    ]) {
      const connection = new RawConnection(t, petstore)
      await connection.write(bytes)
      await connection.rest()
      await logStream.next()
    }
    assert.deepEqual(petstore.requests, [])
  })

  test('holds what node can read and HTTP does not allow', async (t) => {
    const petstore = await start(t)
    for (const bytes of [
      request('GET /v1/pets HTTP/1.1', [BEARER]),
      postChunked('zz\r\n'),
      'OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n',
    ]) {
      const connection = new RawConnection(t, petstore)
      await connection.write(bytes)
      await connection.read()
    }
    const seen = requests(petstore).map(({ method, path, status, body }) => [method, path, status, body])
    assert.deepEqual(seen, [
      ['GET', '/v1/pets', 400, ''],
      ['POST', '/v1/pets', 400, ''],
      ['OPTIONS', '*', 204, ''],
    ])
  })

  test('holds the path of an absolute-form target', async (t) => {
    const petstore = await start(t)
    await send(petstore, 'GET', 'http://any.example/v1/pets?limit=1')
    assert.deepEqual(
      petstore.requests.map(({ path, query }) => [path, query]),
      [['/v1/pets', 'limit=1']],
    )
  })

  test('tells null of a client that left before its answer', async (t) => {
    const logStream = new LogReader()
    const petstore = await start(t, { log: 'json', logStream })
    const inBody = new RawConnection(t, petstore)
    await inBody.write(postHead(100, 'Expect: 100-continue'))
    await inBody.read()
    await inBody.write('{"name"')
    await send(petstore, 'GET', '/livez') // by now it is read: behind unread bytes the reset would look like an end
    inBody.socket.resetAndDestroy()
    await logStream.next()
    petstore.inject({ operation: 'listPets', delay: 500 })
    const inDelay = new RawConnection(t, petstore)
    await inDelay.write(get())
    while (petstore.pendingFaults.length > 0) await new Promise(setImmediate)
    inDelay.socket.resetAndDestroy()
    await logStream.next()
    const seen = requests(petstore).map(({ operation, body, status }) => ({ operation, body, status }))
    const left = { body: '', status: null }
    assert.deepEqual(seen, [
      { operation: 'createPet', ...left },
      { operation: 'listPets', ...left },
    ])
  })

  test('tells null of a client in process whose body breaks', async () => {
    const petstore = createPetstore({ apiKeys: [KEY] })
    const body = new ReadableStream({ start: (controller) => controller.error(new Error('it left')) })
    const init = {
      method: 'POST',
      headers: { ...JSON_TYPE, authorization: AUTHORIZATION },
      body,
      duplex: 'half',
    } as const
    await assert.rejects(petstore.fetch(`${petstore.url}/pets`, init))
    assert.deepEqual(
      requests(petstore).map(({ operation, status }) => [operation, status]),
      [['createPet', null]],
    )
  })

  test('tells null of a request that was hung up, and the status of one that was cut', async (t) => {
    const petstore = await start(t)
    petstore.inject({ operation: '*', hangUp: true, times: 2 })
    petstore.inject({ operation: '*', body: 'cut', status: 502, times: 2 })
    for (let times = 0; times < 2; times++) {
      await assert.rejects(send(petstore, 'GET', '/v1/pets'))
      await assert.rejects(async () =>
        (await petstore.fetch(`${petstore.url}/pets`, { headers: { authorization: AUTHORIZATION } })).text(),
      )
    }
    assert.deepEqual(
      petstore.requests.map(({ operation, status }) => [operation, status]),
      [null, null, 502, 502].map((status) => ['listPets', status]),
    )
  })

  test('are in the order of their answers, and of one connection as they were sent', async (t) => {
    const petstore = await start(t)
    petstore.inject({ operation: 'listPets', delay: 200 })
    const [slow, fast] = [new RawConnection(t, petstore), new RawConnection(t, petstore)]
    await slow.write(get('/v1/pets?slow') + get('/v1/pets?behind') + post())
    while (petstore.pendingFaults.length > 0) await new Promise(setImmediate)
    await fast.write(get('/v1/pets?fast'))
    await fast.read()
    assert.deepEqual(
      petstore.requests.map(({ query }) => query),
      ['fast'],
    )
    for (let times = 0; times < 3; times++) await slow.read()
    assert.deepEqual(
      petstore.requests.map(({ query }) => query),
      ['fast', 'slow', 'behind', ''],
    )
    assert.ok((petstore.requests[1]?.duration ?? 0) > 198)
  })

  test('is a copy', async () => {
    const petstore = createPetstore({ apiKeys: [KEY] })
    await petstore.fetch(petstore.url)
    const [first] = petstore.requests
    assert.ok(first !== undefined)
    Object.assign(first, { method: 'X' }).headers['x'] = 'y'
    petstore.requests.pop()
    assert.deepEqual(
      requests(petstore),
      [{ ...first, method: 'GET', headers: {}, duration: undefined }].map(({ duration: _, ...rest }) => rest),
    )
  })

  test('is empty after reset(), whatever was under way', async (t) => {
    const petstore = await start(t)
    petstore.inject({ operation: '*', delay: 600_000, times: 2 })
    await send(petstore, 'GET', '/')
    const init = { headers: { authorization: AUTHORIZATION } }
    const underWay = [petstore.fetch(`${petstore.url}/pets`, init), fetch(`${petstore.url}/pets`, init)]
    while (petstore.pendingFaults.length > 0) await new Promise(setImmediate)
    await petstore.reset()
    for (const one of underWay) await assert.rejects(one)
    assert.deepEqual(petstore.requests, [])
  })
})

describe('keys', () => {
  const keys = [KEY, 'n-key+with/all~of._it==', KEY.toUpperCase(), `${KEY}-longer`, 'duration', 'operation']
  const escaped = (key: string) => key.replace(/[^]/g, (one) => `%${one.charCodeAt(0).toString(16)}`)

  test('are nowhere in it, encoded or not', async (t) => {
    const petstore = await start(t, { apiKeys: keys })
    for (const key of keys) {
      const segment = key.replace('/', '%2F')
      for (const text of [segment, escaped(key), `x${segment}y`, segment.replace('e', '%65')]) {
        const headers = {
          authorization: `bearer ${key}`,
          'x-key': `my ${text}`,
          cookie: `key=${key}; a=${key}`,
          [`x-${key.replace(/[/=]/g, '')}`]: '',
        }
        await send(petstore, 'POST', `/v1/${text}?key=${text}&a=${key}`, { headers, body: REX })
        await send(petstore, 'POST', `/v1/pets`, {
          headers,
          body: JSON.stringify({ name: `\n${key}`, categoryId: text }),
        })
      }
    }
    assert.equal(petstore.requests.length, 8 * keys.length)
    for (const { duration: _, operation: __, ...rest } of petstore.requests) {
      const json = decodeURIComponent(JSON.stringify(rest).replace(/%(?![0-9a-f]{2})/g, '%25')).toLowerCase()
      for (const key of keys) assert.ok(!json.includes(key.toLowerCase()), `${key} in ${json}`)
    }
  })

  test('do not harm it where they are a part of its own JSON', async () => {
    const own = ['duration', 'operation', 'listPets', 'nabcdefgh', 'u0000abc']
    const petstore = createPetstore({ apiKeys: own })
    const headers = { authorization: 'Bearer listPets', ...JSON_TYPE }
    await petstore.fetch(`${petstore.url}/pets`, { method: 'POST', headers, body: '"\nabcdefgh\0abc listPets' })
    const body = '"\nabcdefgh\0abc [key]'
    const recorded = { operation: 'createPet', method: 'POST', path: '/v1/pets', query: '', body, status: 400 }
    assert.deepEqual(requests(petstore), [{ ...recorded, headers: { ...headers, authorization: 'Bearer [redacted]' } }])
  })

  for (const [authorization, recorded] of [
    [`Bearer ${KEY}`, 'Bearer [redacted]'],
    [`BEARER  ${KEY}`, 'BEARER [redacted]'],
    ['Bearer wrong-key', 'Bearer [redacted]'],
    ['Basic dXNlcjpwYXNz', 'Basic [redacted]'],
    ['Digest username="a", response="b"', 'Digest [redacted]'],
    ['Bearer\twrong-key', '[redacted]'],
    ['wrong-key', '[redacted]'],
    [KEY, '[redacted]'],
  ] as const) {
    test(`of Authorization: ${authorization} nothing but the scheme stays`, async (t) => {
      const petstore = await start(t)
      await send(petstore, 'GET', '/v1/pets', { headers: { authorization } })
      await petstore.fetch(`${petstore.url}/pets`, { headers: { authorization } })
      assert.deepEqual(
        petstore.requests.map(({ headers }) => headers['authorization']),
        [recorded, recorded],
      )
    })
  }

  test('that are rotated in are blotted out too', async () => {
    const petstore = createPetstore()
    petstore.replaceKeys(['the-new-key'])
    await petstore.fetch(`${petstore.url}/the-new-key`)
    assert.equal(petstore.requests[0]?.path, '/v1/[key]')
  })
})

describe('the journal is bounded', () => {
  for (const [journal, sent, held] of [
    [undefined, 1_002, 1_000],
    [1, 3, 1],
    [3, 2, 2],
    [0, 3, 0],
  ] as const) {
    test(`to ${journal ?? '1,000, unless told otherwise,'} of the latest requests`, async () => {
      const petstore = createPetstore({ ...(journal !== undefined && { journal }) })
      for (let at = 1; at <= sent; at++) await petstore.fetch(`${petstore.url}/?${at}`)
      const queries = Array.from({ length: held }, (_, at) => String(sent - held + at + 1))
      assert.deepEqual(
        petstore.requests.map(({ query }) => query),
        queries,
      )
    })
  }

  test('to the first 1 MiB of a body, and to 16 Mi characters', { timeout: 60_000 }, async (t) => {
    const petstore = await start(t, { maxBody: 8 * 2 ** 20 })
    const bodies = [
      '\0'.repeat(2 ** 20),
      'ü'.repeat(2 ** 20),
      'x'.repeat(2 ** 20 + 1),
      ...Array.from({ length: 20 }, (_, at) => `${at}`.padEnd(2 ** 20, 'y')),
    ]
    const recorded = () => petstore.requests.map(({ body }) => body)
    for (const body of bodies.slice(0, 3)) await send(petstore, 'POST', '/v1/pets', { body })
    const first = bodies.slice(0, 3).map((body) => Buffer.from(body).toString('utf8', 0, 2 ** 20))
    assert.ok(JSON.stringify(recorded()) === JSON.stringify(first))
    for (const body of bodies.slice(3)) await send(petstore, 'POST', '/v1/pets', { body })
    const numbers = recorded().map((body) => Number.parseInt(body, 10))
    assert.deepEqual(
      numbers,
      Array.from({ length: 15 }, (_, at) => at + 5),
    )
    assert.ok(JSON.stringify(petstore.requests).length <= 16 * 2 ** 20 + 2_000)
  })

  test('to nothing of a request that is larger than all of it', async () => {
    const petstore = createPetstore()
    await petstore.fetch(petstore.url)
    await petstore.fetch(`${petstore.url}/?${'x'.repeat(16 * 2 ** 20)}`)
    assert.deepEqual(petstore.requests, [])
  })
})

test('a body that comes in chunks is recorded as one text, across a character that is split', async (t) => {
  const petstore = await start(t)
  const connection = new RawConnection(t, petstore)
  const body = '{"name":"ü","categoryId":1}'
  const bytes = Buffer.from(body)
  await connection.write(request('POST /v1/pets HTTP/1.1', [HOST, BEARER, 'Transfer-Encoding: chunked']))
  for (const part of [bytes.subarray(0, 10), bytes.subarray(10)]) {
    await connection.write(Buffer.concat([Buffer.from(`${part.length.toString(16)}\r\n`), part, Buffer.from('\r\n')]))
  }
  await connection.write(chunk('').replace('\r\n\r\n', '\r\n') + '\r\n')
  assert.equal((await connection.read()).status, 201)
  assert.equal(petstore.requests[0]?.body, body)
})
