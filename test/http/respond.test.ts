// The two ways to send a reply, byte for byte.
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { test, type TestContext } from 'node:test'
import { type Reply, respond } from '../../src/http/respond.ts'
import { get, HOST, listen, open, request } from './raw.ts'

const KEEP_ALIVE = 75_000

/** What a client receives for one reply, by the fast way if it can send that, or the documented. */
async function received(
  t: TestContext,
  way: 'fast' | 'plain',
  [reply, isFast, headers = [], asked = get()]: Row,
) {
  const plainly: boolean[] = []
  const server = createServer({ keepAliveTimeout: KEEP_ALIVE }, (_req, res) => {
    const { socket } = res
    res.on('close', () => socket?.end())
    const { mock } = t.mock.method(res, 'writeHead')
    respond(res, reply, headers, way === 'fast' ? KEEP_ALIVE : undefined)
    plainly.push(mock.callCount() > 0)
  })
  const connection = await open(t, { url: await listen(t, server) }, asked)
  const bytes = (await connection.rest()).replace(/Date: .{29}\r\n/, 'Date: now\r\n')
  assert.deepEqual(plainly, [way === 'plain' || !isFast])
  return bytes
}

type Row = [reply: Reply, isFast: boolean, headers?: readonly string[], asked?: string]
const close = get('/', 'Connection: close')
const head = request('HEAD / HTTP/1.1', [HOST])
const ownHeaders = ['Location', '/v1/pets/1', 'Link', '</>; rel="next"']
const echoed = ['X-Request-Id', 'a.b-c_1', 'Vary', 'Origin']
const most = 'x'.repeat(16 * 1024)

const REPLIES: Record<string, Row> = {
  'a short body': [{ status: 200, body: '{"ok":true}' }, true],
  'an empty body': [{ status: 200, body: '' }, true],
  'no body': [{ status: 204, headers: ['Allow', 'GET'] }, false],
  'a body with a lone surrogate': [{ status: 200, body: 'Søren 犬 🐶 \ud800' }, true],
  'the longest body that goes out at once': [{ status: 200, body: most }, true],
  'a longer one': [{ status: 200, body: `${most}x` }, false],
  'the last response': [{ status: 200, body: '{}' }, false, [], close],
  'a response to HEAD': [{ status: 200, body: '{}' }, false, [], head],
  'another type': [{ status: 200, body: '<p>', type: 'text/html; charset=utf-8' }, true],
  'more headers': [{ status: 201, body: '{}', headers: ownHeaders }, true, echoed],
  'an error': [{ status: 507, body: '{"code":"store_full"}' }, true],
}

for (const [name, row] of Object.entries(REPLIES)) {
  test(`sends the same bytes in both ways, the fast one if it can: ${name}`, async (t) => {
    assert.equal(await received(t, 'fast', row), await received(t, 'plain', row))
  })
}

test('keeps no response for an idle connection', async (t) => {
  const body = 'x'.repeat(10_000)
  let response: object = {}
  const server = createServer((_req, res) => {
    respond(res, { status: 200, body }, [], KEEP_ALIVE)
    response = res
  })
  const connection = await open(t, { url: await listen(t, server) }, get())
  assert.equal((await connection.read()).body, body)
  for (const value of Object.values(response))
    assert.ok(typeof value !== 'string' || !value.includes(body))
})
