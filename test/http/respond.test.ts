// The two ways to send a reply, byte for byte.
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { test, type TestContext } from 'node:test'
import type { Reply } from '../../src/http/reply.ts'
import { respond } from '../../src/http/respond.ts'
import { get, HOST, listen, open, request } from './raw.ts'

const KEEP_ALIVE = 75

/** What a client receives for one reply: by the fast way, where that can send it, or by the documented one. */
async function received(t: TestContext, way: 'fast' | 'plain', [reply, isFast, headers = [], asked = get()]: Row) {
  const plainly: boolean[] = []
  const server = createServer({ keepAliveTimeout: KEEP_ALIVE * 1000 }, (_req, res) => {
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
const REPLIES: Record<string, Row> = {
  'a short body': [{ status: 200, body: '{"ok":true}' }, true],
  'an empty body': [{ status: 200, body: '' }, true],
  'no body': [{ status: 204, headers: ['Allow', 'GET'] }, false],
  'a body beyond ASCII, lone surrogates included': [{ status: 200, body: 'Søren 犬 🐶 \ud800' }, true],
  'the longest body that goes out at once': [{ status: 200, body: 'x'.repeat(16 * 1024) }, true],
  'a longer one': [{ status: 200, body: 'x'.repeat(16 * 1024 + 1) }, false],
  'the last response': [{ status: 200, body: '{}' }, false, [], get('/', 'Connection: close')],
  'a response to HEAD': [{ status: 200, body: '{}' }, false, [], request('HEAD / HTTP/1.1', [HOST])],
  'another type': [{ status: 200, body: '<p>', type: 'text/html; charset=utf-8' }, true],
  'headers of its own and of the request': [
    { status: 201, body: '{}', headers: ['Location', '/v1/pets/1', 'Link', '</>; rel="next"'] },
    true,
    ['X-Request-Id', 'a.b-c_1', 'Vary', 'Origin'],
  ],
  'an error': [{ status: 507, body: '{"code":"store_full"}' }, true],
}

for (const [name, row] of Object.entries(REPLIES)) {
  test(`both ways send the same bytes, the fast one only what it can: ${name}`, async (t) => {
    assert.equal(await received(t, 'fast', row), await received(t, 'plain', row))
  })
}
