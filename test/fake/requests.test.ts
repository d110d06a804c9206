// Recorded requests: what clients sent, exactly but for the keys, and what became of it.
// recorded.txt has them in full; http/listener.test.ts shows that any other door records alike.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { createPetstore } from '../../src/index.ts'
import type { Fault, Petstore, RecordedRequest } from '../../src/index.ts'
import { KEY, outcomesOf, send } from '../support.ts'
import { start, startLogging, untilInFlight } from '../support.ts'
import { ask, BEARER, get, open, post as postOf, postChunked } from '../http/raw.ts'
import { HOST, postHead, request, REX } from '../http/raw.ts'

/** The requests without durations and keys, which are checked here. */
function requests(petstore: Petstore): Omit<RecordedRequest, 'duration' | 'key'>[] {
  return petstore.requests.map(({ duration, key, ...rest }) => {
    assert.ok(duration >= 0 && Math.round(duration * 1000) / 1000 === duration)
    assert.ok(key === null || key === 0)
    return rest
  })
}

const queries = ({ requests }: Petstore) => requests.map(({ query }) => query)

const TYPE = { 'content-type': 'application/json' }

test('malformed requests are recorded, but no garbage', async (t) => {
  const petstore = await start(t)
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
  assert.ok(petstore.requests.every(({ body }) => body === ''))
  const seen = petstore.requests.map(({ method, path, status }) => `${method} ${path} ${status}`)
  assert.deepEqual(seen, ['GET /v1/pets 400', 'POST /v1/pets 400', 'OPTIONS * 204'])
})

test('the status is null if the client left, its body broke, or the server hung up', async (t) => {
  const { petstore, logStream } = await startLogging(t, 'json')
  const inBody = await ask(t, petstore, postHead(100, 'Expect: 100-continue'), 100)
  await inBody.write('{"name"')
  await send(petstore, 'GET', '/livez')
  // By now the body is read. A reset after unread bytes would look like an end.
  inBody.socket.resetAndDestroy()
  await logStream.until(/createPet/)
  const body = new ReadableStream({ start: (controller) => controller.error(new Error('it left')) })
  const headers = { ...petstore.headers, ...TYPE }
  const broken = { method: 'POST', headers, body, duplex: 'half' } as const
  await assert.rejects(petstore.fetch(`${petstore.url}/pets`, broken))
  petstore.inject({ operation: '*', hangUp: true })
  petstore.inject({ operation: '*', body: 'cut', status: 502 })
  for (let times = 0; times < 2; times++) await assert.rejects(send(petstore, 'GET', '/v1/pets'))
  const creates = ['createPet null', 'createPet null']
  assert.deepEqual(outcomesOf(petstore), [...creates, 'listPets null', 'listPets 502'])
  assert.ok(requests(petstore).every(({ body: recorded }) => recorded === ''))
})

test('waiting requests are in flight, in their place, and recorded; probes are not', async (t) => {
  const petstore = await start(t)
  petstore.inject({ operation: 'listPets', delay: 600_000 })
  const probe = request('HEAD /livez HTTP/1.1', [HOST])
  const client = await open(t, petstore, get('/v1/pets?a') + get('/v1/pets?b') + probe)
  while (petstore.pendingFaults.length > 0) await turn()
  for (const path of ['/v1/pets?c', '/livez', '/readyz']) await send(petstore, 'GET', path)
  const miss = petstore.waitForRequests(2, { timeout: 0 })
  await assert.rejects(miss, /last:\n.*\?a in flight\n.*\?b in flight\n.*\?c 200$/)
  client.socket.destroy()
  petstore.clearFaults() // ends the delay: while requests wait, the socket is not read
  await petstore.waitForRequests(3, { timeout: 600_000 })
  assert.deepEqual(queries(petstore), ['a', 'b', 'c'])
})

test('fake timers, and a clock that stands still, hold up no record, wait or stop', async (t) => {
  const petstore = await start(t)
  petstore.clearRequests()
  t.mock.method(performance, 'now', () => 0)
  for (const name of ['setTimeout', 'setInterval', 'setImmediate'] as const)
    t.mock.method(globalThis, name, () => assert.fail(name))
  await open(t, petstore, get())
  await petstore.waitForRequests(1, { timeout: 600_000 })
  await assert.rejects(petstore.waitForRequests(2, { timeout: 1 }), { code: 'timeout' })
  assert.equal(await petstore.close(1), 0)
})

test('a client that leaves ends its request at once, and its operation goes on', async (t) => {
  const { petstore, logStream } = await startLogging(t, 'json', { delay: 600_000 })
  const client = await open(t, petstore, postOf(REX))
  await untilInFlight(petstore)
  client.socket.destroy()
  await petstore.waitForRequests(1, { status: null, timeout: 600_000 })
  assert.deepEqual([outcomesOf(petstore), petstore.pets], [['createPet null'], []])
  petstore.clearFaults() // ends the delay
  while (petstore.pets.length === 0) await turn()
  assert.equal(petstore.requests.length, 1)
  await petstore.close()
  assert.equal(logStream.text.match(/createPet/g)?.length, 1)
})

test('requests after the last one of a connection get no response; a delay counts', async (t) => {
  const petstore = await start(t)
  petstore.inject({ operation: 'listPets', delay: 20 })
  const noHost = 'GET /v1/pets?b HTTP/1.1\r\n\r\n'
  await open(t, petstore, get('/v1/pets?a') + noHost + get('/v1/pets?c') + get('/v1/pets?d'))
  const requests = await petstore.waitForRequests(4, { timeout: 600_000 })
  const outcomes = requests.map(({ query, status }) => `${query} ${status}`)
  assert.deepEqual(outcomes, ['a 200', 'b 400', 'c null', 'd null'])
  assert.ok((requests[0]?.duration ?? 0) > 18)
})

test('requests that wait while requests are cleared are not in flight for ever', async (t) => {
  const petstore = await start(t)
  petstore.inject({ operation: 'listPets', delay: 100 })
  const client = await open(t, petstore, get() + get('/v1/pets/1'))
  while (petstore.pendingFaults.length > 0) await turn()
  petstore.clearRequests()
  for (let times = 0; times < 3; times++) {
    await assert.rejects(petstore.waitForRequests(1, { timeout: 0 }), /none came$/)
    if (times < 2) await client.read()
  }
})

test('`key` is the place of the key in the list, and null if it is not valid', async () => {
  const keys = ['first-key', 'second-key-that-is-longer', 'third-key']
  const petstore = createPetstore({ apiKeys: keys })
  const keysOf = async (...sent: readonly string[]) => {
    petstore.clearRequests()
    for (const authorization of sent)
      await petstore.fetch(`${petstore.url}/pets`, { headers: { authorization } })
    return petstore.requests.map(({ key }) => key)
  }
  const bearers = keys.map((key) => `Bearer ${key}`)
  assert.deepEqual(await keysOf(...bearers), [0, 1, 2])
  assert.deepEqual(await keysOf('Bearer wrong-key', 'Basic first-key', ''), [null, null, null])
  petstore.replaceKeys(['new-key-1', 'third-key'])
  assert.deepEqual(await keysOf(...bearers, 'bearer  new-key-1'), [null, null, 1, 0])
  await petstore.fetch(petstore.url)
  assert.equal(petstore.requests.at(-1)?.key, null)
})

test('requests and faults are copied on their way in and out', async () => {
  const petstore = createPetstore()
  const headers = { 'x-odd': 'one' }
  const fault: Fault = { operation: 'getPet', status: 500, headers }
  petstore.inject(fault)
  await petstore.fetch(petstore.url)
  const before = [requests(petstore), [{ ...fault, headers: { ...headers }, times: 1, hits: 0 }]]
  headers['x-odd'] = 'two'
  for (const one of [...petstore.requests, ...(await petstore.waitForRequests(1))])
    Object.assign(one, { method: 'X' }).headers['x'] = 'y'
  for (const one of [fault, ...petstore.pendingFaults]) {
    Object.assign(one, { operation: '*' })
    Object.assign(one.headers ?? {}, { 'x-odd': 'three' })
  }
  for (const given of [petstore.requests, petstore.pendingFaults]) given.pop()
  assert.deepEqual([requests(petstore), petstore.pendingFaults], before)
})

test('no valid key is in a recorded request, encoded or not, rotated in or not', async (t) => {
  const odd = ['n-key+with/all~of._it==', 'duration', 'operation']
  const keys = [KEY, KEY.toUpperCase(), `${KEY}-longer`, ...odd]
  const petstore = await start(t)
  petstore.replaceKeys(keys)
  for (const key of keys) {
    const segment = key.replace('/', '%2F')
    const escaped = key.replace(/[^]/g, (one) => `%${one.charCodeAt(0).toString(16)}`)
    for (const text of [segment, escaped, `x${segment}y`, segment.replace('e', '%65')]) {
      const cookie = `key=${key}; a=${key}`
      const more = { 'x-key': `my ${text}`, cookie, [`x-${key.replace(/[/=]/g, '')}`]: '' }
      const headers = { authorization: `bearer ${key}`, ...more }
      await send(petstore, 'POST', `/v1/${text}?key=${text}&a=${key}`, { headers, body: REX })
      const body = JSON.stringify({ name: `\n${key}`, categoryId: text, [key]: 1 })
      await send(petstore, 'POST', `/v1/pets?${text}`, { headers, body })
    }
  }
  assert.equal(petstore.requests.length, 8 * keys.length)
  const violations = 'unknown parameter "[key]"; unknown member "[key]"'
  assert.equal(petstore.requests[1]?.violations.join('; '), violations)
  for (const { duration: _, operation: __, ...rest } of petstore.requests) {
    const escaped = JSON.stringify(rest).replace(/%(?![0-9a-f]{2})/g, '%25')
    const shown = decodeURIComponent(escaped).toLowerCase()
    for (const key of keys) assert.ok(!shown.includes(key.toLowerCase()), `${key} in ${shown}`)
  }
  await petstore.fetch(petstore.url, { method: KEY }) // no method over a socket
  assert.equal(petstore.requests.at(-1)?.method, '[key]')
})

test('the error of a wait shows what is in flight, the latest 20 others, and no key', async (t) => {
  const petstore = await start(t)
  const list = (query = '') => send(petstore, 'GET', `/v1/pets${query}`)
  await list(`?x=${KEY}`)
  petstore.replaceKeys(['another-key'])
  const miss = (count: number) => petstore.waitForRequests(count, { timeout: 0 }).catch(String)
  assert.match(String(await miss(2)), /\n {2}GET \/v1\/pets\?x=\[key\] 200$/m)
  petstore.replaceKeys([KEY])
  petstore.inject({ operation: 'getPet', delay: 600_000 })
  await open(t, petstore, get(`/v1/pets/${KEY}`))
  await untilInFlight(petstore)
  for (let at = 1; at <= 25; at++) await list(`?${at}`)
  const latest = Array.from({ length: 20 }, (_, at) => `  GET /v1/pets?${at + 6} 200`)
  const [, ...shown] = String(await miss(100)).split('\n')
  assert.deepEqual(shown, ['  GET /v1/pets/[key] in flight', ...latest])
})

test('of more than 100 waits at once, the oldest ends as if its time were up', async () => {
  const petstore = createPetstore({ apiKeys: [KEY] })
  const ended: number[] = []
  const waits = Array.from({ length: 102 }, async (_, at) => {
    const error = await petstore.waitForRequests(1, { timeout: 600_000 }).catch(String)
    ended.push(at)
    return String(error).slice(0, 14)
  })
  await Promise.all(waits.slice(0, 2))
  assert.deepEqual(ended, [0, 1])
  await petstore.fetch(`${petstore.url}/pets`, petstore)
  const timeouts = ['Error: timeout', 'Error: timeout']
  assert.deepEqual(await Promise.all(waits), [...timeouts, ...Array(100).fill('[object Object')])
})

test('the error of a wait shows the latest 20 in flight', async (t) => {
  const petstore = createPetstore({ apiKeys: [KEY] })
  t.after(() => petstore.close())
  petstore.inject({ operation: 'getPet', times: 25, delay: 600_000 })
  const delayed = Array.from({ length: 25 }, (_, at) =>
    petstore.fetch(`${petstore.url}/pets/${at + 1}`, petstore).catch(() => {}),
  )
  while (petstore.pendingFaults.length > 0) await turn()
  const error = await petstore.waitForRequests(1, { timeout: 0 }).catch(String)
  const [, ...shown] = String(error).split('\n')
  const latest = Array.from({ length: 20 }, (_, at) => `  GET /v1/pets/${at + 6} in flight`)
  assert.deepEqual(shown, latest)
  petstore.clearFaults()
  await Promise.all(delayed)
})

test('keys that are words of its own JSON do not spoil a recorded request', async () => {
  const apiKeys = ['listPets', 'duration', 'operation', 'nabcdefgh', 'u0000abc']
  const petstore = createPetstore({ apiKeys })
  await post(petstore, '"\nabcdefgh\0abc listPets')
  const [{ operation, headers, body } = assert.fail()] = requests(petstore)
  assert.deepEqual([operation, headers['content-type']], ['createPet', 'application/json'])
  assert.equal(body, '"\nabcdefgh\0abc [key]')
})

test('a wait may match by a function, which gets copies', async () => {
  const petstore = createPetstore({ apiKeys: [KEY] })
  const matching = (request: RecordedRequest) => {
    request.headers['x'] = 'changed'
    return request.body.includes('Rex')
  }
  const waiting = petstore.waitForRequests(1, { operation: 'createPet', matching })
  await post(petstore, '"Tom"')
  await post(petstore, '"Rex"')
  const [found] = await waiting
  assert.equal(found?.body, '"Rex"')
  const seen = petstore.requests.map(({ headers }) => headers['x'])
  assert.deepEqual(seen, [undefined, undefined])
  const isA = ({ query }: RecordedRequest) => query === 'a'
  const none = petstore.waitForRequests(2, { matching: isA, timeout: 0 })
  await assert.rejects(none, /for 2 requests, matching \(\{ ?query ?\}\).*; these came last/)
  const broken = petstore.waitForRequests(3, { matching: () => assert.fail('a bug of the test') })
  await assert.rejects(broken, { message: 'a bug of the test' })
})

test('a request has code and message of its Error, and whether a fault applied', async () => {
  const petstore = createPetstore({ apiKeys: [KEY] })
  await post(petstore, '{"name":"Rex"}')
  petstore.inject({ operation: 'createPet', status: 429, code: KEY, message: `not ${KEY}` })
  petstore.inject({ operation: 'createPet', status: 500, body: 'garbled' })
  petstore.inject({ operation: 'createPet', delay: 1 })
  for (let times = 0; times < 4; times++) await post(petstore, REX)
  const seen = petstore.requests.map(({ status, code, message, fault }) => [
    ...[status, code, message, fault],
  ])
  assert.deepEqual(seen, [
    [400, 'invalid_pet', 'categoryId is required and must be an integer', false],
    [429, '[key]', 'not [key]', true],
    [500, null, null, true],
    [201, null, null, true],
    [201, null, null, false],
  ])
  const wait = petstore.waitForRequests(9, { timeout: 0 })
  await assert.rejects(wait, /POST \/v1\/pets 400 invalid_pet: categoryId is required/)
})

test('the option maxRequests limits the recorded requests, 1,000 by default', async () => {
  for (const { maxRequests, sent, recorded } of [
    { maxRequests: undefined, sent: 1_002, recorded: 1_000 },
    { maxRequests: 1, sent: 3, recorded: 1 },
    { maxRequests: 3, sent: 2, recorded: 2 },
    { maxRequests: 0, sent: 3, recorded: 0 },
  ]) {
    const petstore = createPetstore({ maxRequests })
    petstore.inject({ operation: 'listPets', delay: 600_000 })
    const inFlight = assert.rejects(petstore.fetch(`${petstore.url}/pets`, petstore))
    for (let at = 1; at <= sent; at++) await petstore.fetch(`${petstore.url}/?${at}`)
    const expected = Array.from({ length: sent }, (_, at) => `${at + 1}`).slice(sent - recorded)
    assert.deepEqual(queries(petstore), expected)
    const miss = petstore.waitForRequests(recorded, { status: null, timeout: 0 }).catch(String)
    assert.equal(/ in flight/.test(`${await miss}`), recorded > 0)
    petstore.clearFaults()
    await inFlight
    petstore.clearRequests()
    await petstore.fetch(`${petstore.url}/?last`)
    assert.deepEqual(queries(petstore), recorded > 0 ? ['last'] : [])
  }
})

/** Sends a body without the checks of `send`, which take long for large ones. */
function post(petstore: Petstore, body: string): Promise<Response> {
  const headers = { ...petstore.headers, ...TYPE }
  return petstore.fetch(`${petstore.url}/pets`, { method: 'POST', headers, body })
}

test('only the first 1 MiB of a body is recorded', async () => {
  const petstore = createPetstore({ apiKeys: [KEY], maxBody: 8 * 2 ** 20 })
  const bodies = ['x'.repeat(2 ** 20), 'x'.repeat(2 ** 20 + 1), 'ü'.repeat(2 ** 19 + 1)]
  for (const body of bodies) await post(petstore, body)
  const recorded = petstore.requests.map(({ body }) => body)
  assert.ok(recorded[0] === bodies[0])
  assert.ok(recorded[1] === bodies[0])
  assert.ok(recorded[2] === 'ü'.repeat(2 ** 19))
})

test('a request of more than 16 Mi characters is not recorded, nor any before it', async () => {
  const petstore = createPetstore({ apiKeys: [KEY] })
  await post(petstore, 'a')
  const quotes = '"'.repeat(2 ** 23) // two characters each in JSON
  await petstore.fetch(`${petstore.url}/pets`, { headers: { ...petstore.headers, x: quotes } })
  assert.deepEqual(petstore.requests, [])
  await post(petstore, 'b')
  assert.equal(petstore.requests.length, 1)
})
