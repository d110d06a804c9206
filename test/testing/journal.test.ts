// The journal: what clients sent, exactly, but for the keys; and what became of it.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createPetstore, type Fault, type Petstore, type RecordedRequest } from '../../src/index.ts'
import { assertNext, AUTHORIZATION, FakeStream, KEY, send, start } from '../support.ts'
import { BEARER, get, open, postChunked, postHead, request, REX } from '../http/raw.ts'

/** The requests without their durations, which are checked to be some, and keys. */
function requests(petstore: Petstore): Omit<RecordedRequest, 'duration' | 'key'>[] {
  return petstore.requests.map(({ duration, key, ...rest }) => {
    assert.ok(duration >= 0 && Math.round(duration * 1000) / 1000 === duration)
    assert.ok(key === null || key === 0)
    return rest
  })
}

const queries = ({ requests }: Petstore) => requests.map(({ query }) => query)
const outcomes = ({ requests }: Petstore) => requests.map(({ operation, status }) => `${operation} ${status}`)
const call = (petstore: Petstore, path: string, headers = {}) =>
  petstore.fetch(new URL(path, petstore.url), { headers: { authorization: AUTHORIZATION, ...headers } })

const TYPE = { 'content-type': 'application/json' }
const JSON_TEXT = ' {"ü":"😀\\u0000\n'
for (const [operation, status, method, target, headers, body, recorded] of [
  ['listPets', 200, 'GET', '/v1/pets?limit=5&status=sold', {}, '', { query: 'limit=5&status=sold' }],
  ['listPets', 200, 'HEAD', '/v1/p%65ts?a=%20+b?', {}, '', { path: '/v1/p%65ts', query: 'a=%20+b?' }],
  ['createPet', 201, 'POST', '/v1/pets', TYPE, REX, { body: REX }],
  ['createPet', 400, 'POST', '/v1/pets?x', TYPE, JSON_TEXT, { body: JSON_TEXT, query: 'x' }],
  ['createPet', 415, 'POST', '/v1/pets', { 'content-type': 'text/plain' }, REX, {}],
  ['createPet', 413, 'POST', '/v1/pets', TYPE, 'x'.repeat(200), {}],
  ['createPet', 401, 'POST', '/v1/pets', { ...TYPE, authorization: 'Bearer wrong-key' }, REX, {}],
  [null, 405, 'PUT', '/v1/pets/1', TYPE, REX, {}],
  ['getPet', 404, 'GET', '/v1/pets/7', { 'x-request-id': 'id-7', 'x-more': 'a, b' }, '', {}],
  ['listOrders', 501, 'GET', '/v1/store/orders', {}, '', {}],
  [null, 404, 'GET', '/nothing//here%zz', {}, '', {}],
  [null, 204, 'OPTIONS', '/v1/pets', {}, '', {}],
  ['page', 200, 'GET', '/', {}, '', {}],
  ['listPets', 200, 'GET', 'http://any.example/v1/pets?limit=1', {}, '', { path: '/v1/pets', query: 'limit=1' }],
] as const) {
  test(`the journal holds ${method} ${target} (${status}) as it was sent, over a socket as in process`, async (t) => {
    const petstore = await start(t, { maxBody: 100 })
    const sent = { authorization: AUTHORIZATION, ...headers }
    const [path] = target.split('?')
    const entry = { operation, status, method, path, query: '', body: '', ...recorded }
    const redacted = { ...sent, authorization: 'Bearer [redacted]' }
    await petstore.fetch(new URL(target, petstore.url), { method, headers: sent, ...(body !== '' && { body }) })
    assert.deepEqual(requests(petstore), [{ ...entry, headers: redacted }])
    await petstore.reset()
    const length = { 'content-length': String(Buffer.byteLength(body)) }
    await send(petstore, method, target, { headers: body === '' ? sent : { ...sent, ...length }, body })
    const [overSocket, ...more] = requests(petstore)
    const { host, connection, 'transfer-encoding': _, 'content-length': __, ...rest } = overSocket?.headers ?? {}
    assert.deepEqual([more, host, connection], [[], new URL(petstore.url).host, 'close'])
    assert.deepEqual({ ...overSocket, headers: rest }, { ...entry, headers: redacted })
  })
}

test('it holds what HTTP does not allow, but neither probes nor what is no request', async (t) => {
  const petstore = await start(t)
  for (const path of ['/livez', '/readyz']) await send(petstore, 'GET', path)
  for (const bytes of [
    'garbage\r\n\r\n',
    'GET /v1/pets HTTP/1.1\r\nHost: x\r\nX: \0\r\n\r\n',
    'CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\n\r\n',
    request('GET /v1/pets HTTP/1.1', [BEARER]),
    postChunked('zz\r\n'),
    'OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n',
  ]) {
    await (await open(t, petstore, bytes)).read()
  }
  const seen = petstore.requests.map(({ method, path, status, body }) => `${method} ${path} ${status} ${body}`)
  assert.deepEqual(seen, ['GET /v1/pets 400 ', 'POST /v1/pets 400 ', 'OPTIONS * 204 '])
})

test('the status is null where the client left, its body broke or it was hung up, else that of the response', async (t) => {
  const logStream = new FakeStream()
  const petstore = await start(t, { log: 'json', logStream })
  const inBody = await open(t, petstore, postHead(100, 'Expect: 100-continue'))
  await assertNext(inBody, 100)
  await inBody.write('{"name"')
  await send(petstore, 'GET', '/livez') // by now it is read: behind unread bytes the reset would look like an end
  inBody.socket.resetAndDestroy()
  await logStream.until(/createPet/)
  const body = new ReadableStream({ start: (controller) => controller.error(new Error('it left')) })
  const broken = { method: 'POST', headers: { ...TYPE, authorization: AUTHORIZATION }, body, duplex: 'half' } as const
  await assert.rejects(petstore.fetch(`${petstore.url}/pets`, broken))
  petstore.inject({ operation: '*', hangUp: true, times: 2 })
  petstore.inject({ operation: '*', body: 'cut', status: 502, times: 2 })
  for (let times = 0; times < 2; times++) {
    await assert.rejects(send(petstore, 'GET', '/v1/pets'))
    await assert.rejects(async () => (await call(petstore, '/v1/pets')).text())
  }
  const lists = ['listPets null', 'listPets null', 'listPets 502', 'listPets 502']
  assert.deepEqual(outcomes(petstore), ['createPet null', 'createPet null', ...lists])
  assert.ok(requests(petstore).every(({ body: recorded }) => recorded === ''))
})

test('the order is that of the responses, on one connection that of the requests, and a delay counts', async (t) => {
  const petstore = await start(t)
  const slow = await open(t, petstore, postHead(REX.length, 'Expect: 100-continue'))
  await assertNext(slow, 100)
  await send(petstore, 'GET', '/v1/pets?fast')
  petstore.inject({ operation: 'listPets', delay: 20 })
  await slow.write(REX + get('/v1/pets?behind') + get('/v1/pets?last'))
  for (let times = 0; times < 3; times++) await slow.read()
  assert.deepEqual(queries(petstore), ['fast', '', 'behind', 'last'])
  assert.ok((petstore.requests[2]?.duration ?? 0) > 18)
})

test('it tells which key was sent by its place in the list, or that none was valid', async () => {
  const keys = ['first-key', 'second-key-that-is-longer', 'third-key']
  const petstore = createPetstore({ apiKeys: keys })
  const keysOf = async (...sent: readonly string[]) => {
    petstore.clearRequests()
    for (const authorization of sent) await call(petstore, '/v1/pets', { authorization })
    return petstore.requests.map(({ key }) => key)
  }
  const bearers = keys.map((key) => `Bearer ${key}`)
  assert.deepEqual(await keysOf(...bearers, 'Bearer wrong-key', 'Basic first-key', ''), [0, 1, 2, null, null, null])
  petstore.replaceKeys(['new-key-1', 'third-key'])
  assert.deepEqual(await keysOf(...bearers, 'bearer  new-key-1'), [null, null, 1, 0])
  await petstore.fetch(petstore.url)
  assert.equal(petstore.requests.at(-1)?.key, null)
})

test('it is a copy, and so are faults, on their way in and out', async () => {
  const petstore = createPetstore()
  const fault: Fault = { operation: 'getPet', status: 500 }
  petstore.inject(fault)
  await petstore.fetch(petstore.url)
  const before = [requests(petstore), [{ ...fault, times: 1 }]]
  for (const one of petstore.requests) Object.assign(one, { method: 'X' }).headers['x'] = 'y'
  for (const one of [fault, ...petstore.pendingFaults]) one.operation = '*'
  for (const given of [petstore.requests, petstore.pendingFaults]) given.pop()
  assert.deepEqual([requests(petstore), petstore.pendingFaults], before)
})

test('no key is anywhere in it, encoded or not, rotated in or not', async (t) => {
  const keys = [KEY, 'n-key+with/all~of._it==', KEY.toUpperCase(), `${KEY}-longer`, 'duration', 'operation']
  const petstore = await start(t)
  petstore.replaceKeys(keys)
  for (const key of keys) {
    const segment = key.replace('/', '%2F')
    const escaped = key.replace(/[^]/g, (one) => `%${one.charCodeAt(0).toString(16)}`)
    for (const text of [segment, escaped, `x${segment}y`, segment.replace('e', '%65')]) {
      const more = { 'x-key': `my ${text}`, cookie: `key=${key}; a=${key}`, [`x-${key.replace(/[/=]/g, '')}`]: '' }
      const headers = { authorization: `bearer ${key}`, ...more }
      await send(petstore, 'POST', `/v1/${text}?key=${text}&a=${key}`, { headers, body: REX })
      const body = JSON.stringify({ name: `\n${key}`, categoryId: text })
      await send(petstore, 'POST', `/v1/pets`, { headers, body })
    }
  }
  assert.equal(petstore.requests.length, 8 * keys.length)
  for (const { duration: _, operation: __, ...rest } of petstore.requests) {
    const json = decodeURIComponent(JSON.stringify(rest).replace(/%(?![0-9a-f]{2})/g, '%25')).toLowerCase()
    for (const key of keys) assert.ok(!json.includes(key.toLowerCase()), `${key} in ${json}`)
  }
})

test('keys do not harm it where they are a part of its own JSON', async () => {
  const petstore = createPetstore({ apiKeys: ['listPets', 'duration', 'operation', 'nabcdefgh', 'u0000abc'] })
  const headers = { authorization: 'Bearer listPets', ...TYPE }
  await petstore.fetch(`${petstore.url}/pets`, { method: 'POST', headers, body: '"\nabcdefgh\0abc listPets' })
  const entry = { operation: 'createPet', method: 'POST', path: '/v1/pets', query: '', status: 400 }
  const redacted = { ...headers, authorization: 'Bearer [redacted]' }
  assert.deepEqual(requests(petstore), [{ ...entry, body: '"\nabcdefgh\0abc [key]', headers: redacted }])
})

test('of an Authorization nothing but the scheme stays', async (t) => {
  const petstore = await start(t)
  for (const [authorization, recorded] of Object.entries({
    [`BEARER  ${KEY}`]: 'BEARER [redacted]',
    'Bearer wrong-key': 'Bearer [redacted]',
    Bearer: 'Bearer [redacted]',
    'Digest username="a", response="b"': 'Digest [redacted]',
    'Bearer\twrong-key': '[redacted]',
    'my Bearer wrong-key': '[redacted]',
    [KEY]: '[redacted]',
  })) {
    petstore.clearRequests()
    await send(petstore, 'GET', '/v1/pets', { headers: { authorization } })
    await call(petstore, '/v1/pets', { authorization })
    const seen = petstore.requests.map(({ headers }) => headers['authorization'])
    assert.deepEqual(seen, [recorded, recorded], authorization)
  }
})

test('it holds as many of the latest requests as it is told, else 1,000', async () => {
  const rows = [[undefined, 1_002, 1_000], [1, 3, 1], [3, 2, 2], [0, 3, 0]] as const // prettier-ignore
  for (const [journal, sent, held] of rows) {
    const petstore = createPetstore({ journal })
    for (let at = 1; at <= sent; at++) await petstore.fetch(`${petstore.url}/?${at}`)
    const expected = Array.from({ length: sent }, (_, at) => `${at + 1}`).slice(sent - held)
    assert.deepEqual(queries(petstore), expected)
  }
})

test('it holds the first 1 MiB of a body, and 16 Mi characters of requests', async (t) => {
  const petstore = await start(t, { maxBody: 8 * 2 ** 20 })
  const bodies = ['\0'.repeat(2 ** 20), 'ü'.repeat(2 ** 20), 'x'.repeat(2 ** 20 + 1)]
  for (const body of bodies) await send(petstore, 'POST', '/v1/pets', { body })
  const cut = bodies.map((body) => Buffer.from(body).toString('utf8', 0, 2 ** 20))
  assert.ok(petstore.requests.every(({ body }, at) => body === cut[at]))
  for (let at = 0; at < 20; at++) await send(petstore, 'POST', '/v1/pets', { body: `${at}`.padEnd(2 ** 20, 'y') })
  const numbers = petstore.requests.map(({ body }) => Number.parseInt(body, 10))
  assert.deepEqual(numbers, [...Array(20).keys()].slice(5))
  petstore.clearRequests()
  for (let at = 0; at < 2; at++) await send(petstore, 'POST', '/v1/pets', { body: 'y'.repeat(2 ** 20) })
  assert.equal(petstore.requests.length, 2)
  await petstore.fetch(`${petstore.url}/?${'x'.repeat(16 * 2 ** 20)}`)
  assert.deepEqual(petstore.requests, [])
})
