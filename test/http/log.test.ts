// The log of the executable.
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { test, type TestContext } from 'node:test'
import { serve, type Serving, signal } from '../cli/executable.ts'
import { KEY, RawConnection, send, temporaryFolder } from '../support.ts'
import { ask, assertNext, BEARER, get, open, postChunked, request, REX } from './raw.ts'

const TIME = /^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/

/** Starts the executable, with a log in JSON unless told otherwise. */
async function startMain(t: TestContext, ...args: string[]): Promise<Serving> {
  const keys = ['--api-key', 'another-key', '--api-key', KEY]
  const serving = await serve(t, [...keys, '--log', 'json', ...args])
  const { port } = new URL(serving.url)
  return { ...serving, url: `http://127.0.0.1:${port}/v1` }
}

/** Stops the executable. Returns the lines that its log has of requests. */
async function stop({ status, stdout }: Serving): Promise<string[]> {
  signal('SIGTERM')
  await status
  const isEvent = (line: string): boolean => /"message":|^\S+ (?:info|warn|error): /.test(line)
  const lines = stdout.text.split('\n').filter((line) => /^(?:\{|20\d\d-)/.test(line))
  return lines.filter((line) => !isEvent(line))
}

const STORE = `export default () => ({
  page: () => { throw new Error('the disk is on fire') },
  get: () => undefined, add: () => ({ ok: false, reason: 'store_full' }),
  reset: () => true, isWritable: () => true, close: () => {},
})`

test('a line in JSON has what the decisions say, and no header, body or query', async (t) => {
  const file = `${temporaryFolder(t)}/store.mjs`
  writeFileSync(file, STORE)
  const running = await startMain(t, '--host', '::', '--store', file, '--control-port', '0')
  const [, controls = ''] = await running.stdout.until(/"controlUrl":"([^"]*)"/)
  const proxied = { 'x-request-id': 'r-1', 'x-forwarded-for': '203.0.113.9, 198.51.100.7' }
  const headers = { ...proxied, cookie: 'secret' }
  const created = await send(running, 'POST', '/v1/pets?secret=1', { body: REX, headers })
  const refused = await send(running, 'GET', '/v1/pets/1', { headers: { authorization: 'secret' } })
  await send(running, 'HEAD', '/v1/pets/%31', { headers: { 'x-request-id': 'not one' } })
  const failed = await send(running, 'GET', '/v1/pets')
  for (const path of ['/livez', '/readyz']) await send(running, 'GET', path)
  const probe = await send(running, 'PUT', '/livez')
  for (const fault of [
    '{"operation":"getPet","status":500}',
    '{"operation":"getPet","hangUp":true}',
  ]) {
    const init = { method: 'POST', body: fault, headers: { 'content-type': 'application/json' } }
    assert.equal((await fetch(`${controls}/faults`, init)).status, 201)
  }
  const injected = await send(running, 'GET', '/v1/pets/1')
  await assert.rejects(send(running, 'GET', '/v1/pets/1'))
  const malformed = await ask(t, running, 'garbage\r\n\r\n', '400 bad_request')
  await malformed.rest()
  new RawConnection(t, running).socket.end() // never a byte
  const lines = await stop(running)
  const entries = lines.map((line) => {
    const { time, ms, ...entry } = JSON.parse(line)
    assert.match(time, TIME)
    if (entry.method) assert.match(String(ms), /^\d+(\.\d{1,3})?$/)
    return entry
  })
  const client = { key: 1, remote: '127.0.0.1' }
  const one = { level: 'info', method: 'GET', path: '/v1/pets/1', ...client }
  const { key: _, ...keyless } = one
  assert.deepEqual(entries, [
    {
      ...{ level: 'info', method: 'POST', path: '/v1/pets', status: 507 },
      ...{ bytes: created.body.length, code: 'store_full', ...client },
      ...{ requestId: 'r-1', forwardedFor: proxied['x-forwarded-for'] },
    },
    { ...keyless, status: 401, bytes: refused.body.length, code: 'unauthorized' },
    { ...one, method: 'HEAD', path: '/v1/pets/%31', status: 404, bytes: 0, code: 'not_found' },
    {
      ...{ level: 'warn', method: 'GET', path: '/v1/pets', status: 503, bytes: failed.body.length },
      ...{ code: 'storage_failed', cause: 'the disk is on fire', ...client },
    },
    {
      ...{ ...keyless, method: 'PUT', path: '/livez', status: 405 },
      ...{ bytes: probe.body.length, code: 'method_not_allowed' },
    },
    { ...one, level: 'error', status: 500, bytes: injected.body.length, code: 'injected_fault' },
    { ...one, status: null, bytes: 0 },
    { level: 'info', status: 400, code: 'bad_request', remote: '127.0.0.1' },
  ])
  assert.doesNotMatch(running.stdout.text + running.stderr.text, new RegExp(`secret|${KEY}`))
})

const LONG = 'x'.repeat(2_000)

test('a line of text has the same; no client can forge one, or make it long', async (t) => {
  const running = await startMain(t, '--log', 'text')
  const ids = ['X-Request-Id: r-1', 'X-Forwarded-For: 203.0.113.9']
  const odd = 'X-Forwarded-For: 1.2.3.4 status=200\xe9\t"\\'
  const broken = postChunked('zz\r\n')
  const all = [
    get('/v1/pets?a=1', ...ids),
    get('/v1/none', odd),
    get(`/${LONG}`, `X-Forwarded-For: ${LONG}`),
  ]
  const connection = await open(t, running, all.join(''))
  await assertNext(connection, 200, 404, 404)
  await ask(t, running, broken, 400)
  await ask(t, running, request('GET /v1/pets HTTP/1.1', [BEARER, 'X: a\0']), 400)
  const lines = (await stop(running)).map((line) => line.replace(/^\S+ /, ''))
  const remote = 'remote=127.0.0.1'
  const shortened = `${'x'.repeat(999)}\\u2026`
  const client = '"1.2.3.4 status=200\\u00e9\\t\\"\\\\"'
  const noPath = '404 MS N B code=not_found'
  const expected = [
    `info GET /v1/pets 200 MS 2 B key=1 requestId=r-1 ${remote} forwardedFor=203.0.113.9`,
    `info GET /v1/none ${noPath} key=1 ${remote} forwardedFor=${client}`,
    `info GET "/${shortened.slice(1)}" ${noPath} ${remote} forwardedFor="${shortened}"`,
    `info POST /v1/pets 400 MS N B code=bad_request key=1 ${remote}`,
    `info - - 400 code=bad_request ${remote}`,
  ]
  const plain = lines.map((line) => line.replace(/[\d.]+ ms/, 'MS').replace(/\d{2,} B/, 'N B'))
  assert.deepEqual(plain, expected)
})
