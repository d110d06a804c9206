// The log: what a line has, and what it must not have.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import type { Petstore, StartOptions } from '../../src/types.ts'
import { launch } from '../process.ts'
import { KEY, logOf, RawConnection, send, start } from '../support.ts'
import { assertLast, assertNext, get, HOST, open, request } from './raw.ts'

/** Starts a petstore that logs, and takes its lines from standard output. */
async function startLogging(
  t: TestContext,
  options: StartOptions,
): Promise<{ petstore: Petstore; lines: () => Promise<string[]> }> {
  const log = logOf(t)
  const petstore = await start(t, options)
  const lines = async (): Promise<string[]> => {
    await petstore.close() // which writes all lines
    const [first = '', ...others] = log.text.trimEnd().split('\n')
    assert.match(first, /listens on/)
    return others
  }
  return { petstore, lines }
}

const FORGED = '2026-01-01T00:00:00.000Z info DELETE /v1/pets 200'
const BROKEN = `the disk is on fire\n${FORGED}`
const STORE = {
  list: () => Promise.reject(new Error(BROKEN)),
  get: () => Promise.resolve(undefined),
  add: () => Promise.reject(Object.assign(new Error('no room'), { code: 'store_full' })),
  reset: () => Promise.resolve(),
  close: () => Promise.resolve(),
}
const LONG = 'x'.repeat(2_000)
const remote = '127.0.0.1'

test('a line of JSON has the members that it should, and no secret', async (t) => {
  const apiKeys = ['another-key', KEY]
  const options = { log: 'json', host: '::', store: STORE, apiKeys } as const
  const { petstore, lines } = await startLogging(t, options)
  const mistake = (): never => {
    throw new Error('a mistake')
  }
  petstore.inject({ operation: 'getPet', matching: mistake, status: 200 })
  const proxied = { 'x-request-id': 'r-1', 'x-forwarded-for': '203.0.113.9, 198.51.100.7' }
  const body = '{"name":"secret","categoryId":1}'
  const answers = [
    await send(petstore, 'POST', '/v1/pets?secret=1', { headers: proxied, body }),
    await send(petstore, 'GET', '/v1/no', { headers: { authorization: 'secret' } }),
    await send(petstore, 'HEAD', '/v1/pets', { headers: { 'x-request-id': 'not one' } }),
    await send(petstore, 'GET', '/v1/pets/1'),
    await send(petstore, 'PUT', '/livez'),
    await send(petstore, 'GET', `/${LONG}`, { headers: { 'x-forwarded-for': LONG } }),
  ]
  const ids = answers.map(({ headers }) => headers['x-request-id'])
  assert.deepEqual(ids, ['r-1', ...Array<undefined>(5)])
  for (const path of ['/livez', '/readyz']) await send(petstore, 'GET', path) // leave no line
  petstore.clearFaults()
  petstore.inject({ operation: 'getPet', hangUp: true })
  await assert.rejects(send(petstore, 'GET', '/v1/pets/1'))
  await assertLast(await open(t, petstore, 'garbage\r\n\r\n'), '400 bad_request')
  const silent = new RawConnection(t, petstore)
  silent.socket.end()
  await silent.closed
  const text = await lines()
  assert.doesNotMatch(text.join(), new RegExp(`secret|another-key|${KEY}`))
  const entries = text.map((line) => {
    const { time, ms = 0, message: _, ...entry } = JSON.parse(line)
    assert.match(time, /^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
    assert.ok(ms >= 0)
    return entry
  })
  const [, , , { cause: stack }, , { path, forwardedFor }] = entries
  assert.match(stack, /a mistake\n +at /)
  for (const cut of [path, forwardedFor]) assert.match(cut, /^.{990,999}…$/)
  const lengths = answers.map((answer) => answer.body.length)
  const expected: Record<string, unknown>[] = [
    { method: 'POST', path: '/v1/pets', status: 507, code: 'store_full', cause: 'no room', key: 1 },
    { method: 'GET', path: '/v1/no', status: 401, code: 'unauthorized' },
    {
      method: 'HEAD',
      path: '/v1/pets',
      status: 503,
      code: 'storage_failed',
      cause: BROKEN,
      key: 1,
    },
    {
      method: 'GET',
      path: '/v1/pets/1',
      status: 500,
      code: 'internal_error',
      cause: stack,
      key: 1,
    },
    { method: 'PUT', path: '/livez', status: 405, code: 'method_not_allowed' },
    { method: 'GET', path, status: 404, code: 'not_found', forwardedFor },
  ].map((entry, at) => ({ level: 'info', ...entry, bytes: lengths[at], remote }))
  Object.assign(expected[0] ?? {}, { requestId: 'r-1', forwardedFor: proxied['x-forwarded-for'] })
  Object.assign(expected[2] ?? {}, { level: 'warn' })
  Object.assign(expected[3] ?? {}, { level: 'error' })
  assert.deepEqual(entries, [
    ...expected,
    { level: 'info', method: 'GET', path: '/v1/pets/1', status: null, bytes: 0, key: 1, remote },
    { level: 'info', status: 400, code: 'bad_request', remote },
  ])
})

test('a line of text has the same, and neither a cause nor a client can forge one', async (t) => {
  const { petstore, lines } = await startLogging(t, { log: 'text', store: STORE })
  const odd = get('/v1/pets/1?a=b', 'X-Request-Id: r-1', 'X-Forwarded-For: \x85\xe9')
  await assertNext(await open(t, petstore, odd + get()), 404, 503)
  await assertLast(await open(t, petstore, 'garbage\r\n\r\n'), '400 bad_request')
  const text = (await lines()).map((line) => line.replace(/[\d.]+ ms \d+ B/, 'MS B'))
  const [found = '', failed = '', more = '', refused = '', ...others] = text
  const client = /requestId=r-1 remote=127\.0\.0\.1 forwardedFor=[ -~]+$/
  assert.match(found, /^20\S+Z info GET \/v1\/pets\/1 404 MS B code=not_found key=0 /)
  assert.match(found, client)
  assert.match(failed, /^20\S+Z warn GET \/v1\/pets 503 MS B code=storage_failed cause=the disk/)
  assert.match(more, /^ +20/) // the rest of the cause
  assert.match(refused, /^20\S+Z info .* code=bad_request remote=127\.0\.0\.1$/)
  assert.deepEqual(others, [])
})

test('a slow reader loses lines, which are counted; a closed pipe ends only the log', async (t) => {
  const server = await launch(t, ['--api-key', KEY])
  const { child, stdout } = server
  child.stdout?.pause()
  const [count, quotes] = [2_400, '"'.repeat(1_000)] // which make 10 MB of JSON
  const bytes = request(`GET /${quotes}`, [HOST, `X-Forwarded-For: ${quotes}`])
  const connection = new RawConnection(t, server)
  for (let sent = 0; sent < count; sent += 100) {
    await connection.write(bytes.repeat(100))
    await assertNext(connection, ...Array<number>(100).fill(404))
  }
  child.stdout?.resume()
  const said = /lost before this one: (\d+)/
  let more = 0 // requests, whose lines may be lost, too
  while (!said.test(stdout.text)) {
    await send(server, 'GET', '/v1/pets')
    more++
  }
  const shown = stdout.text.match(/"status":404/g)?.length ?? 0
  const lost = Number(said.exec(stdout.text)?.[1])
  assert.ok(lost > 0 && shown + lost >= count && shown + lost < count + more, `${shown}, ${lost}`)
  child.stdout?.destroy()
  for (const _ of [1, 2, 3]) assert.equal((await send(server, 'GET', '/v1/pets')).status, 200)
  child.kill('SIGTERM')
  assert.equal(await server.status, 0)
})
