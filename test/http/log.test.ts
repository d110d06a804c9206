// The log of a petstore: what its lines show, and what becomes of them if nobody reads them.
import { mockTimers } from '../mock-timers.ts'
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { Writable } from 'node:stream'
import { test, type TestContext } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { openLog } from '../../src/http/log.ts'
import { createPetstore } from '../../src/petstore/launch.ts'
import type { PetstoreOptions } from '../../src/types.ts'
import { bearer, check, FakeStream, KEY, send, startLogging } from '../support.ts'
import { INDEX } from '../built.ts'
import { get, open, postChunked, REX } from './raw.ts'

const FORWARDED = '203.0.113.9, 198.51.100.7'
const TIME = '20\\d\\d-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z'
const MAX_WAITING_BYTES = 16 * 2 ** 20

/** A petstore in process, and what it logs: text by default. */
function createLogging(options: PetstoreOptions = {}) {
  const logStream = new FakeStream()
  const all = { apiKeys: [KEY], log: 'text', ...options, logStream } as const
  return { logStream, petstore: createPetstore(all) }
}

async function logOf(options: PetstoreOptions, target: string, init: RequestInit = {}) {
  const { logStream, petstore } = createLogging(options)
  await petstore.fetch(`http://any.example${target}`, init)
  await petstore.close()
  return logStream.text
}

test('logs requests but no probes in JSON, without headers, bodies and query values', async (t) => {
  const { petstore, logStream } = await startLogging(t, 'json')
  const headers = { 'x-request-id': 'r-1', 'x-forwarded-for': FORWARDED, cookie: 'secret' }
  await check(petstore, 'GET', '/v1/pets?limit=5&status=sold', 200, { headers })
  await check(petstore, 'POST', '/v1/pets', 201, { body: REX })
  const put = await check(petstore, 'PUT', '/v1/pets', '405 method_not_allowed')
  const noKey = { headers: { authorization: '' } }
  const refused = await check(petstore, 'GET', '/v1/pets/1', '401 unauthorized', noKey)
  await check(petstore, 'HEAD', '/v1/pets', 200, { headers: { 'x-request-id': 'not one' } })
  for (const probe of ['/livez', '/readyz']) await check(petstore, 'GET', probe, 200)
  const failures = [500, 503]
  for (const status of failures) {
    petstore.inject({ operation: 'getPet', status, message: '' })
    await check(petstore, 'GET', '/v1/pets/1', status)
  }
  petstore.inject({ operation: 'createPet', hangUp: true })
  await assert.rejects(send(petstore, 'POST', '/v1/pets', { body: REX }))
  await petstore.log.flush()
  const remote = '127.0.0.1'
  const pets = { path: '/v1/pets', key: 0, remote }
  const list = { ...pets, method: 'GET', operation: 'listPets', status: 200 }
  const post = { ...pets, method: 'POST', operation: 'createPet', status: 201 }
  const one = { method: 'GET', path: '/v1/pets/1', operation: 'getPet', status: 401, remote }
  const code = 'method_not_allowed'
  const path = '/v1/pets?limit=*&status=*'
  assert.deepEqual(entriesOf(logStream), [
    { ...list, path, bytes: 2, requestId: 'r-1', forwardedFor: FORWARDED },
    { ...post, bytes: 36 },
    { ...pets, method: 'PUT', status: 405, code, bytes: put.body.length },
    { ...one, code: 'unauthorized', bytes: refused.body.length },
    { ...list, method: 'HEAD', bytes: 0 },
    ...failures.map((status) => ({ ...one, status, code: 'injected_fault', key: 0, bytes: 51 })),
    { ...post, status: null, bytes: 0 },
  ])
})

/** The lines of a JSON log, without the members that differ each time; those are checked. */
function entriesOf({ text }: FakeStream): unknown[] {
  const lines = text.split('\n').slice(0, -1)
  return lines.map((line) => {
    const { time, level, ms, ...entry } = JSON.parse(line)
    assert.match(time, new RegExp(`^${TIME}$`))
    assert.equal(level, entry.status === 500 ? 'error' : entry.status === 503 ? 'warn' : 'info')
    assert.match(String(ms), /^\d+(\.\d{1,3})?$/) // to the microsecond
    return entry
  })
}

test('has the trace id where there is no request id', async (t) => {
  const { petstore, logStream } = await startLogging(t, 'json')
  const id = '4bf92f3577b34da6a3ce929d0e0e4736'
  const traceparent = `00-${id}-00f067aa0ba902b7-01`
  const ids: [headers: Record<string, string>, traceId: string | undefined][] = [
    [{ traceparent }, id],
    [{ traceparent, 'x-request-id': 'r-1' }, undefined],
    [{ traceparent: traceparent.replace(id, '0'.repeat(32)) }, undefined],
    [{ traceparent: id }, undefined],
  ]
  for (const [headers] of ids) await send(petstore, 'GET', '/v1/pets', { headers })
  await petstore.log.flush()
  const lines = logStream.text.trim().split('\n')
  assert.deepEqual(
    lines.map((line) => JSON.parse(line).traceId),
    ids.map(([, traceId]) => traceId),
  )
})

test('knows the address, the code and the key of clients that leave at once', async (t) => {
  const { petstore, logStream } = await startLogging(t, 'json')
  for (let count = 0; count < 10; count++) {
    for (const path of ['/v1/none', '/v1/pets']) {
      const { socket } = await open(t, petstore, get(path))
      socket.resetAndDestroy()
    }
  }
  await logStream.until(/(.*\n){20}/)
  const count = (part: string) => logStream.text.split(part).length - 1
  const kinds = ['"operation":"listPets"', '"code":"not_found"']
  const known = kinds.map((kind) => `${kind},"key":0,"remote":"127`)
  assert.deepEqual(['\n', ...known].map(count), [20, 10, 10])
})

test('measures the time from the head of a request to its response', async () => {
  const began = performance.now()
  const line = await logOf({ log: 'json', delay: 20 }, '/v1/pets', { headers: bearer(KEY) })
  const { ms } = JSON.parse(line)
  assert.ok(ms >= 19 && ms <= performance.now() - began, `${ms}`)
})

test('logs the same in text', async (t) => {
  const { petstore, logStream } = await startLogging(t, 'text')
  const headers = { 'x-request-id': 'r-1', 'x-forwarded-for': '203.0.113.9' }
  await check(petstore, 'GET', '/v1/pets?a=1', 200, { headers })
  await (await open(t, petstore, postChunked('zz\r\n'))).read()
  await (await open(t, petstore, 'garbage\r\n\r\n')).read()
  petstore.inject({ operation: 'listPets', hangUp: true })
  const hungUp = await open(t, petstore, `${get()}garbage\r\n\r\n`)
  await hungUp.closed
  await petstore.close()
  const ms = '\\d+(\\.\\d+)? ms'
  const remote = 'remote=127.0.0.1'
  const forwarded = 'forwardedFor=203.0.113.9'
  const list = 'operation=listPets key=0'
  const code = 'code=bad_request'
  const lines = [
    `GET /v1/pets\\?a=\\* 200 ${ms} 2 B ${list} requestId=r-1 ${remote} ${forwarded}`,
    `POST /v1/pets 400 ${ms} \\d+ B operation=createPet ${code} key=0 ${remote}`,
    `- - 400 0 ms \\d+ B ${code} ${remote}`,
    `GET /v1/pets no response ${ms} 0 B ${list} ${remote}`,
  ]
  const pattern = lines.map((line) => `${TIME} ${line}\n`).join('')
  assert.match(logStream.text, new RegExp(`^${pattern}$`))
})

const FORGERIES: Record<string, string> = {
  '1.2.3.4 status=200 remote=10.0.0.1': '"1.2.3.4 status=200 remote=10.0.0.1"',
  '1.2.3.4"': '"1.2.3.4\\""',
  '1.2.3.4\\': '"1.2.3.4\\\\"',
  '\x9b2J\t\xe9': '"\\u009b2J\\t\\u00e9"',
  '1.2.3.4': '1.2.3.4',
}

for (const [sent, text] of Object.entries(FORGERIES)) {
  test(`shows X-Forwarded-For in ASCII, in quotes unless it is one word: ${text}`, async () => {
    const headers = { 'x-forwarded-for': sent }
    const line = await logOf({ log: 'text' }, '/v1/none', { headers })
    assert.ok(line.endsWith(` forwardedFor=${text}\n`), line)
    const json = await logOf({ log: 'json' }, '/v1/none', { headers })
    assert.match(line + json, /^[\n -~]+$/)
    assert.equal(JSON.parse(json).forwardedFor, sent)
  })
}

const PERCENT_ENCODED = Buffer.from(KEY).toString('hex').toUpperCase().replace(/../g, '%$&')

const TARGETS: Record<string, [sent: string, shown: string]> = {
  'its path': ['/v1/%70ets/a=b&c', '/v1/%70ets/a=b&c'],
  'names with a "="': ['/v1/pets?a=1&b=&d==2=3', '/v1/pets?a=*&b=*&d=*'],
  'nothing that has no "="': ['/v1/pets?some-secret&a=1&&', '/v1/pets?*&a=*&&'],
  'no second question mark': ['/v1/pets?a=1?b=2', '/v1/pets?a=*'],
  'a "=" in the path': ['/v1/a=b?c=d', '/v1/a=b?c=*'],
  'no key': [`/v1/${KEY}/x${KEY}x`, '/v1/[key]/x[key]x'],
  'no key as a name': [`/v1/pets?${KEY}=1&a=${KEY}`, '/v1/pets?[key]=*&a=*'],
  'no key in another letter case': [`/v1/${KEY.toUpperCase()}`, '/v1/[key]'],
  'no key that is percent-encoded': [`/v1/${PERCENT_ENCODED}`, '/v1/[key]'],
  'no key encoded in part': [`/v1/%6b%65%79${KEY.slice(3)}/%20`, '/v1/[key]/%20'],
  'no key after a percent sign': ['/v1/%41-my-key/%34%31-my-key', '/v1/%[key]/[key]'],
  'a part of a key': [`/v1/${KEY.slice(1)}`, `/v1/${KEY.slice(1)}`],
  'no key with other characters': ['/a+b/c.d==/a%2Bb%2Fc.d%3D%3D', '/[key]/[key]'],
  'what is like a key': ['/aab/cxd==/the-key-of-b/the-key', '/aab/cxd==/the-key-of-b/the-key'],
  'no longest key of those that begin alike': [
    '/the-key-of-me/the-key-of-me-to/the-key-of-me-too/the-key-of-me-todays',
    '/[key]/[key]-to/[key]/[key]s',
  ],
}
test('shows no user, password and host of a target', async (t) => {
  const { petstore, logStream } = await startLogging(t, 'json')
  await open(t, petstore, get('http://ann:secret@x/v1/pets?a=1'))
  await logStream.until(/"path":"\/v1\/pets\?a=\*"/)
  assert.doesNotMatch(logStream.text, /secret/)
})

const ALIKE = ['the-key-of-me', 'the-key-of-me-too', 'the-key-of-me-today', 'of-me-too']
const YOU = 'the-key-of-you'

for (const [what, [target, shown]] of Object.entries(TARGETS)) {
  test(`shows of a target ${what}`, async () => {
    const apiKeys = [KEY, 'a+b/c.d==', '41-my-key', ...ALIKE, YOU]
    const json = await logOf({ apiKeys, log: 'json' }, target)
    const text = await logOf({ apiKeys, log: 'text' }, target)
    assert.deepEqual([JSON.parse(json).path, text.split(' ')[2]], [shown, shown])
  })
}

for (const log of ['json', 'text'] as const) {
  test(`redacts a key wherever a client can put it, in faults and in events (${log})`, async () => {
    const { logStream, petstore } = createLogging({ log })
    const headers = { 'x-request-id': `a-${KEY}`, 'x-forwarded-for': `${KEY}, ${KEY}` }
    await petstore.fetch(`${petstore.url}/${KEY}`, { method: KEY, headers })
    petstore.inject({ operation: '*', status: 500, code: KEY })
    await petstore.fetch(`${petstore.url}/pets`, petstore)
    petstore.log.event('error', `Error: no ${KEY}\n    at ${KEY}`)
    await petstore.close()
    assert.doesNotMatch(logStream.text, new RegExp(KEY))
    const lines = logStream.text.trim().split(/\n(?! )/)
    const counts = lines.map((line) => line.split('[key]').length - 1)
    assert.deepEqual(counts, [5, 1, 2])
  })
}

test('an event cannot look like two, nor command a terminal', async () => {
  const message = 'no pet "\u001b[2J\u202e\t\v\x7fx\n2026-11-22T00:00:00.000Z info: forged"'
  for (const log of ['json', 'text'] as const) {
    const { logStream, petstore } = createLogging({ log })
    petstore.log.event('error', message)
    await petstore.close()
    assert.match(logStream.text, /^[\n -~]+$/)
    assert.doesNotMatch(logStream.text, /^2026-11-22T00/m)
    if (log === 'json') assert.equal(JSON.parse(logStream.text).message, message)
  }
})

test('redacts the keys that are valid now, and none that was replaced', async () => {
  const { logStream, petstore } = createLogging({ apiKeys: ['An-Old-Key'] })
  const fetchBoth = async () => {
    for (const path of ['An-Old-Key', 'another-key'])
      await petstore.fetch(`http://any.example/${path}`)
  }
  await fetchBoth()
  petstore.replaceKeys(['another-key'])
  await fetchBoth()
  await petstore.close()
  const shown = [...logStream.text.matchAll(/GET \/(\S+)/g)].map(([, path]) => path)
  assert.deepEqual(shown, ['[key]', 'another-key', 'An-Old-Key', '[key]'])
})

test('redacts a key in a recorded body, with the escapes of JSON', async () => {
  const petstore = createPetstore({ apiKeys: ['review/key+1'] })
  const escaped = ['review\\/key+1', 'review\\u002fkey\\u002B1', '\\u0072eview\\/KEY%2b1']
  const body = ['review/key+1', ...escaped, '\\review/key+1'].join(' ')
  const headers = { ...petstore.headers, 'content-type': 'application/json' }
  await petstore.fetch(`${petstore.url}/pets`, { method: 'POST', headers, body })
  assert.equal(petstore.requests[0]?.body, '[key] [key] [key] [key] \\[key]')
})

test('writes the lines of five milliseconds at once', async (t) => {
  mockTimers(t, 'setTimeout')
  const { logStream, petstore } = createLogging()
  const { mock } = t.mock.method(logStream, 'write')
  for (let count = 0; count < 3; count++) {
    petstore.log.event('info', 'a line')
    await turn()
  }
  assert.equal(mock.callCount(), 0)
  t.mock.timers.tick(5)
  assert.equal(mock.callCount(), 1)
  assert.match(logStream.text, /^(.*a line\n){3}$/)
})

const EXITS = {
  'ends by itself': '',
  'calls process.exit()': 'process.exit()',
  throws: 'throw new Error("a crash")',
}

for (const [how, code] of Object.entries(EXITS)) {
  test(`loses no line when the process ${how}`, () => {
    const script = `import { createPetstore } from '${INDEX}'
createPetstore({ log: 'text' }).log.event('info', 'the last'); ${code}`
    const args = ['--input-type=module', '--eval', script]
    const { stdout } = spawnSync(process.execPath, args, { encoding: 'utf8' })
    assert.match(stdout, /info: the last\n$/)
  })
}

test('close() waits until the last line is taken', async (t) => {
  const { logStream, petstore } = createLogging()
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

test('drops the lines beyond 16 MiB that wait for a slow reader, and counts them', async () => {
  const { logStream, petstore } = createLogging()
  const write = async (text: string, waiting: number) => {
    Object.defineProperty(logStream, 'writableLength', { value: waiting, configurable: true })
    petstore.log.event('info', text)
    await petstore.fetch(`${petstore.url}/pets`)
    await petstore.log.flush()
  }
  await write('still kept', MAX_WAITING_BYTES)
  for (let count = 0; count < 3; count++) await write('dropped', MAX_WAITING_BYTES + 1)
  await write('kept again', 0)
  await write('and counted once', 0)
  const counted = "warn: 6 lines were dropped: the log's reader is too slow"
  const events = [...logStream.text.matchAll(/^\S+ (?!GET )(.*)$/gm)].map(([, event]) => event)
  const after = ['info: kept again', 'info: and counted once']
  assert.deepEqual(events, ['info: still kept', counted, ...after])
})

test('keeps 16 MiB at most of the lines of one turn of the event loop', async () => {
  const logStream = new Writable({ write() {} }) // takes nothing
  const petstore = createPetstore({ log: 'text', logStream })
  const line = 'x'.repeat(2 ** 20)
  for (let count = 0; count < 40; count++) petstore.log.event('info', line)
  await petstore.log.flush()
  const waiting = logStream.writableLength
  assert.ok(waiting <= MAX_WAITING_BYTES + 1.1 * line.length, `${waiting} bytes wait`)
})

/** Logs a line in each of two writes, which then fail together, and another line. */
async function failWrites(t: TestContext, code: string): Promise<string> {
  const { logStream, petstore } = createLogging()
  const held: ((error: Error | null) => void)[] = []
  t.mock.method(logStream, 'write', (text: string, done: (error: Error | null) => void) => {
    logStream.text += text
    if (text !== '') held.push(done)
    else done(null)
    return true
  })
  const log = async (line: string) => {
    petstore.log.event('info', line)
    await petstore.log.flush()
  }
  for (const line of ['one', 'two']) await log(line)
  for (const fail of held) fail(Object.assign(new Error(`it is ${code}`), { code }))
  await log('three')
  return logStream.text
}

test('counts the lines of every write that failed while others were on their way', async (t) => {
  const text = await failWrites(t, 'ENOSPC')
  assert.match(text, /\n\n.* warn: 2 lines were dropped: it is ENOSPC\n.* info: three\n$/)
})

test('ends the log for a stream whose reader is gone, and says so once', async (t) => {
  const { mock } = t.mock.method(console, 'error', () => {})
  assert.doesNotMatch(await failWrites(t, 'EPIPE'), /three/)
  const said = mock.calls.map(({ arguments: [text] }) => text)
  assert.deepEqual(said, ['petstore-server: the log has ended: it is EPIPE'])
})

test('logs only the bytes that were sent of a body that is cut, and none of a HEAD', async (t) => {
  const { logStream, petstore } = await startLogging(t, 'json')
  for (const door of [fetch, petstore.fetch]) {
    petstore.inject({ operation: 'listPets', status: 500, message: '', body: 'cut' })
    const response = await door(`${petstore.url}/pets`, petstore)
    await assert.rejects(response.text())
    await door(`${petstore.url}/pets`, { method: 'HEAD', headers: petstore.headers })
  }
  await petstore.log.flush()
  const half = JSON.stringify({ code: 'injected_fault', message: '', status: 500 }).length >> 1
  const bytes = Array.from(logStream.text.matchAll(/"bytes":(\d+)/g), ([, one]) => Number(one))
  assert.deepEqual(bytes, [half, 0, half, 0])
})

test('ends the log for a stream that was destroyed, and says so once', async (t) => {
  const { mock } = t.mock.method(console, 'error', () => {})
  const { logStream, petstore } = createLogging()
  logStream.destroy()
  for (const line of ['one', 'two']) {
    petstore.log.event('info', line)
    await petstore.log.flush()
  }
  assert.equal(mock.callCount(), 1)
})

test('the first event of a kind is logged at once, and its repeats after ten seconds', (t) => {
  mockTimers(t, 'setTimeout')
  const logStream = new FakeStream()
  const log = openLog('text', logStream, (text) => text)
  const pass = (ms: number) => [ms, 10].forEach((some) => t.mock.timers.tick(some))
  const shown = () => Array.from(logStream.text.matchAll(/ warn: (.*)/g), ([, line]) => line)
  for (const what of ['one', 'two', 'one', 'one', 'two']) log.count('warn', what)
  pass(9_000)
  assert.deepEqual(shown(), ['one: 1', 'two: 1'])
  pass(1_000)
  assert.deepEqual(shown(), ['one: 1', 'two: 1', 'one: 2', 'two: 1'])
  log.count('warn', 'one')
  void log.flush() // reports all counts, and starts the ten seconds again
  assert.deepEqual(shown().slice(4), ['one: 1'])
  log.count('warn', 'one')
  pass(9_000)
  assert.equal(shown().length, 5)
  pass(1_000)
  assert.deepEqual(shown().slice(5), ['one: 1'])
  pass(10_000)
  log.count('warn', 'two')
  pass(0)
  assert.deepEqual(shown().slice(6), ['two: 1'])
})
