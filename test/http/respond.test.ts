// The two ways to send a reply, byte for byte.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { test, type TestContext } from 'node:test'
import { contentLengthOf, type Reply } from '../../src/http/reply.ts'
import { respondAtOnce, respondPlainly } from '../../src/http/respond.ts'

const KEEP_ALIVE = 75
const KEPT: Reply = { status: 200, body: '{"ok":true}' }

/** What a client receives for one reply: by the fast way, if `isFast`, or else by the documented one. */
async function received(t: TestContext, isFast: boolean, reply: Reply, headers: readonly string[]): Promise<string> {
  const server = createServer({ keepAliveTimeout: KEEP_ALIVE * 1000 }, (_req, res) => {
    const { socket } = res
    res.on('close', () => socket?.end())
    const length = contentLengthOf(reply)
    if (isFast) assert.ok(respondAtOnce(res, reply, length, headers, KEEP_ALIVE), 'the fast way was not taken')
    else respondPlainly(res, reply, length, headers)
  })
  t.after(() => server.close())
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  const socket = connect(port, '127.0.0.1')
  socket.write('GET / HTTP/1.1\r\nHost: pets.example\r\n\r\n')
  return (await text(socket)).replace(/Date: .{29}\r\n/, 'Date: now\r\n')
}

const REPLIES: Record<string, [Reply, readonly string[]]> = {
  'a short body': [KEPT, []],
  'an empty body': [{ status: 200, body: '' }, []],
  'a body beyond ASCII, lone surrogates included': [{ status: 200, body: 'Søren 犬 🐶 \ud800' }, []],
  'the longest body that goes out at once': [{ status: 200, body: 'x'.repeat(16 * 1024) }, []],
  'another type': [{ status: 200, body: '<p>', type: 'text/html; charset=utf-8' }, []],
  'headers of its own and of the request': [
    { status: 201, body: '{}', headers: ['Location', '/v1/pets/1', 'Link', '</>; rel="next"'] },
    ['X-Request-Id', 'a.b-c_1', 'Vary', 'Origin'],
  ],
  'an error': [{ status: 507, body: '{"code":"store_full"}' }, []],
}

for (const [name, [reply, headers]] of Object.entries(REPLIES)) {
  test(`both ways send the same bytes: ${name}`, async (t) => {
    assert.equal(await received(t, true, reply, headers), await received(t, false, reply, headers))
  })
}

test('the fast way leaves alone what it cannot send', () => {
  const kept = { shouldKeepAlive: true, req: { method: 'GET' } }
  const refused: [Reply, object, keepAlive?: number][] = [
    [KEPT, { ...kept, shouldKeepAlive: false }, KEEP_ALIVE],
    [KEPT, { ...kept, req: { method: 'HEAD' } }, KEEP_ALIVE],
    [KEPT, kept],
    [{ status: 204 }, kept, KEEP_ALIVE],
    [{ ...KEPT, breaksOff: 'within' }, kept, KEEP_ALIVE],
    [{ status: 200, body: 'x'.repeat(16 * 1024 + 1) }, kept, KEEP_ALIVE],
  ]
  for (const [reply, known, keepAlive] of refused) {
    const untouched = new Proxy(known, {
      has: () => true,
      get: (_known, name) => Reflect.get(known, name) ?? assert.fail(`read ${String(name)}`),
      set: () => assert.fail('set'),
    }) as ServerResponse
    assert.equal(respondAtOnce(untouched, reply, contentLengthOf(reply), [], keepAlive), false)
  }
})
