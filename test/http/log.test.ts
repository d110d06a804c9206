// The log of a petstore: what stands in it, and what becomes of it where its reader is slow or gone.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { createPetstore, startPetstore } from '../../src/petstore.ts'
import { check, FakeStream, KEY, send, start } from '../support.ts'
import { get, open, postChunked, REX } from './raw.ts'

const FORWARDED = '203.0.113.9, 198.51.100.7'
const TIME = '20\\d\\d-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z'
const MAX_WAITING_BYTES = 16 * 2 ** 20

async function linesOf(log: 'json' | 'text', targets: readonly string[], headers = {}): Promise<string[]> {
  const logStream = new FakeStream()
  const petstore = createPetstore({ apiKeys: [KEY], log, logStream })
  for (const target of targets) await petstore.fetch(`http://any.example${target}`, { headers })
  await petstore.close()
  return logStream.text.split('\n').slice(0, -1)
}

test('in JSON, a line tells all of a request but header, body and query values; a probe has none', async (t) => {
  const logStream = new FakeStream()
  const petstore = await start(t, { log: 'json', logStream })
  petstore.inject({ operation: 'createPet', delay: 1 }) // as long as a disk may take
  const started = performance.now()
  const headers = { 'x-request-id': 'r-1', 'x-forwarded-for': FORWARDED, cookie: 'secret' }
  await check(petstore, 'GET', '/v1/pets?limit=5&status=sold', 200, { headers })
  await check(petstore, 'POST', '/v1/pets', 201, { body: REX })
  for (const probe of ['/livez', '/readyz']) await check(petstore, 'GET', probe, 200)
  const coded = await check(petstore, 'POST', '/v1/pets', 415, { headers: { 'content-encoding': 'gzip' }, body: REX })
  const { body } = await check(petstore, 'PUT', '/v1/pets', '405 method_not_allowed')
  const refused = await check(petstore, 'GET', '/v1/pets/1', '401 unauthorized', { headers: { authorization: '' } })
  await check(petstore, 'HEAD', '/v1/pets', 200, { headers: { 'x-request-id': 'not one' } })
  for (const status of [500, 503]) {
    petstore.inject({ operation: 'getPet', status })
    await check(petstore, 'GET', '/v1/pets/1', status)
  }
  petstore.inject({ operation: 'getPet', hangUp: true })
  await assert.rejects(send(petstore, 'GET', '/v1/pets/1'))
  await logStream.until(/null.*\n/)
  const lines = logStream.text.split('\n').slice(0, -1)
  const entries = lines.map((line) => {
    const { time, level, ms, ...entry } = JSON.parse(line)
    assert.equal(level, entry.status === 500 ? 'error' : 'info')
    assert.match(time, new RegExp(`^${TIME}$`))
    assert.ok(/^\d+(\.\d{1,3})?$/.test(String(ms)), line) // to the microsecond
    assert.ok(ms <= performance.now() - started, line)
    return entry
  })
  const remote = '127.0.0.1'
  const list = { method: 'GET', path: '/v1/pets', operation: 'listPets', status: 200, remote }
  const post = { method: 'POST', path: '/v1/pets', operation: 'createPet', remote }
  const one = { method: 'GET', path: '/v1/pets/1', operation: 'getPet', remote }
  assert.deepEqual(entries, [
    { ...list, path: '/v1/pets?limit=…&status=…', bytes: 2, requestId: 'r-1', forwardedFor: FORWARDED },
    { ...post, status: 201, bytes: 36 },
    { ...post, status: 415, bytes: coded.body.length },
    { method: 'PUT', path: '/v1/pets', status: 405, bytes: body.length, remote },
    { ...one, status: 401, bytes: refused.body.length },
    { ...list, method: 'HEAD', bytes: 0 },
    { ...one, status: 500, bytes: 78 },
    { ...one, status: 503, bytes: 78 },
    { method: 'GET', path: '/v1/pets/1', operation: 'getPet', status: null, bytes: 0 }, // its client left
  ])
})

test('in text, a line tells the same, with a question mark for what could command a terminal', async (t) => {
  const logStream = new FakeStream()
  const petstore = await start(t, { log: 'text', logStream })
  const headers = { 'x-request-id': 'r-1', 'x-forwarded-for': FORWARDED }
  await check(petstore, 'GET', '/v1/pets?a=1', 200, { headers })
  await open(t, petstore, get('/v1/none', 'X-Forwarded-For: \x9b2J\t\xe9'))
  await logStream.until(/none.*\n/)
  await open(t, petstore, postChunked('zz\r\n'))
  await logStream.until(/POST.*\n/)
  await open(t, petstore, 'garbage\r\n\r\n')
  await logStream.until(/ - - .*\n/)
  petstore.inject({ operation: 'listPets', hangUp: true })
  await open(t, petstore, get())
  const ms = '\\d+(\\.\\d+)? ms'
  const lines = [
    `${TIME} GET /v1/pets\\?a=… 200 ${ms} 2 B operation=listPets requestId=r-1 remote=127.0.0.1 forwardedFor=${FORWARDED}`,
    `${TIME} GET /v1/none 404 ${ms} \\d+ B remote=127.0.0.1 forwardedFor=\\?2J\\?é`,
    `${TIME} POST /v1/pets 400 ${ms} \\d+ B operation=createPet remote=127.0.0.1`,
    `${TIME} - - 400 0 ms \\d+ B remote=127.0.0.1`,
    `${TIME} GET /v1/pets client left ${ms} 0 B operation=listPets`,
  ]
  await logStream.until(new RegExp(`^${lines.join('\n')}\n$`))
})

test('in JSON, what is not ASCII is escaped, so that a line stays a line', async (t) => {
  const logStream = new FakeStream()
  await open(t, await start(t, { log: 'json', logStream }), get('/v1/"', 'X-Forwarded-For: \x9b2J\t"\xe9'))
  await logStream.until(/"path":"\/v1\/\\"".*"forwardedFor":"\\u009b2J\\t\\"\\u00e9"\}\n$/)
})

test('a target keeps its path and the names of its query; values are hidden, and keys wherever they are', async () => {
  const encoded = [...Buffer.from(KEY)].map((byte) => `%${byte.toString(16).toUpperCase()}`).join('')
  const rows = {
    '/v1/%70ets/a=b&c': '/v1/%70ets/a=b&c',
    '/v1/pets?a=1&b=&c&d==2=3': '/v1/pets?a=…&b=…&c&d=…',
    '/v1/pets?a=1?b=2': '/v1/pets?a=…',
    '/v1/a=b?c=d': '/v1/a=b?c=…',
    [`/v1/${KEY}/x${KEY}x?${KEY}&a=${KEY}`]: '/v1/[key]/x[key]x?[key]&a=…',
    [`/v1/${KEY.toUpperCase()}`]: '/v1/[key]', // it may be half of the key
    [`/v1/%6b%65%79${KEY.slice(3)}/%20`]: '/v1/[key]/%20',
    [`/v1/${encoded}`]: '/v1/[key]',
    [`/v1/${KEY.slice(1)}`]: `/v1/${KEY.slice(1)}`,
  }
  for (const log of ['json', 'text'] as const) {
    const lines = await linesOf(log, Object.keys(rows))
    const paths = lines.map((line) => (log === 'json' ? JSON.parse(line).path : line.split(' ')[2]))
    assert.deepEqual(paths, Object.values(rows))
    const headers = { 'x-request-id': `a-${KEY}`, 'x-forwarded-for': `${KEY}, ${KEY}` }
    const [line = ''] = await linesOf(log, [`/v1/pets?${KEY}`], headers)
    assert.doesNotMatch(line, new RegExp(KEY))
    assert.equal(line.split('[key]').length, 5)
  }
})

test('keys that are rotated in are hidden, though their paths were logged before; of two the longer is hidden whole', async () => {
  const logStream = new FakeStream()
  const petstore = createPetstore({ apiKeys: ['An-Old-Key'], log: 'json', logStream })
  const paths = ['/v1/a+b/c.d==', '/v1/a%2Bb%2Fc.d%3D%3D', '/v1/aab/cxd==', '/v1/An-Old-Key-and-more', '/v1/$&$&$&$&']
  for (const keys of [['An-Old-Key'], ['a+b/c.d==', 'An-Old-Key', 'An-Old-Key-and-more'], ['another-key']]) {
    petstore.replaceKeys(keys)
    for (const path of paths) await petstore.fetch(`http://any.example${path}`)
  }
  await petstore.close()
  const shown = [...logStream.text.matchAll(/"path":"(.*?)"/g)].map(([, path]) => path)
  const hidden = ['/v1/[key]', '/v1/[key]', paths[2], '/v1/[key]', paths[4]]
  assert.deepEqual(shown, [...paths.with(3, '/v1/[key]-and-more'), ...hidden, ...paths])
})

test('close() waits until the last line is taken', async (t) => {
  const logStream = new FakeStream()
  const petstore = createPetstore({ log: 'text', logStream })
  let taken = () => {}
  let isClosed = false
  t.mock.method(logStream, 'write', (_text: string, done: () => void) => (taken = done))
  petstore.log.event('info', 'the last')
  const closing = petstore.close().then(() => (isClosed = true))
  await turn()
  assert.equal(isClosed, false)
  taken()
  await closing
})

test('close() ends where the reader of the log has stalled for good', async () => {
  const logStream = Object.assign(new FakeStream(), { write: () => true })
  const petstore = await startPetstore({ log: 'text', logStream })
  petstore.log.event('info', 'nobody takes this')
  await petstore.close()
})

test('16 MiB wait for a slow reader; the lines beyond are dropped, and counted once there is room', async () => {
  const logStream = new FakeStream()
  const petstore = createPetstore({ log: 'text', logStream })
  const write = async (text: string, waiting: number) => {
    Object.defineProperty(logStream, 'writableLength', { value: waiting, configurable: true })
    petstore.log.event('info', text)
    await petstore.fetch(`${petstore.url}/pets`)
    await turn()
  }
  await write('still kept', MAX_WAITING_BYTES)
  for (let count = 0; count < 3; count++) await write('dropped', MAX_WAITING_BYTES + 1)
  await write('kept again', 0)
  await write('and counted once', 0)
  const shown = [...logStream.text.matchAll(/^\S+ (?!GET )(.*)$/gm)].map(([, line]) => line)
  const counted = "warn: 6 lines were dropped: the log's reader is too slow"
  assert.deepEqual(shown, ['info: still kept', 'info: kept again', counted, 'info: and counted once'])
})
