// The server with operations that take their time: no answer overtakes another, and none is lost.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import type { Reply } from '../../src/http/reply.ts'
import type { RequestHead, Verdict } from '../../src/http/dispatch.ts'
import { LIMITS } from '../../src/http/limits.ts'
import { HttpServer } from '../../src/http/server.ts'
import { RawConnection } from '../support.ts'
import { assertLastError, CHUNKED, get, post, postChunked } from './raw.ts'

interface SlowServer {
  server: HttpServer
  url: string
  /** The targets of the operations that have begun, and not been told to answer. */
  begun: () => string[]
  /** Waits until one operation has begun, and no other, and lets it answer with its target, which it returns. */
  answerNext: () => Promise<string>
}

/** A server whose every operation waits to be told to answer. */
async function startSlow(t: TestContext): Promise<SlowServer> {
  const begun: { target: string; answer: (reply: Reply) => void }[] = []
  let wake = () => {}
  const dispatch = ({ method, target }: RequestHead): Verdict => ({
    ...(method === 'POST' && { wantsBody: true }),
    answer: () =>
      new Promise((answer) => {
        begun.push({ target, answer })
        wake()
      }),
  })
  const server = new HttpServer({
    service: { dispatch, echo: () => [], maxBody: 1_000, record: undefined },
    allow: 'GET, POST',
    maxConnections: 10,
    keepAlive: 75_000,
    limits: LIMITS,
  })
  t.after(() => server.stop(0))
  const url = await server.listen(0, '127.0.0.1')
  async function answerNext(): Promise<string> {
    while (begun.length === 0) await new Promise<void>((resolve) => (wake = resolve))
    const [only, ...more] = begun.splice(0)
    assert.ok(only !== undefined && more.length === 0)
    only.answer({ status: 200, body: only.target })
    return only.target
  }
  return { server, url, begun: () => begun.map(({ target }) => target), answerNext }
}

test('a request that proves broken while its operation runs is answered once', async (t) => {
  const { url, answerNext } = await startSlow(t)
  const connection = new RawConnection(t, { url })
  await connection.write(`${get('/1', CHUNKED)}ZZ\r\n`)
  await assertLastError(connection, 400, 'bad_request')
  assert.equal(await answerNext(), '/1')
  const other = new RawConnection(t, { url })
  await other.write(get('/2'))
  assert.equal(await answerNext(), '/2')
  assert.equal((await other.read()).status, 200)
})

test('pipelined requests are processed one after the other', async (t) => {
  const { url, answerNext } = await startSlow(t)
  const connection = new RawConnection(t, { url })
  await connection.write(get('/1') + post() + get('/3') + get('/4'))
  for (const target of ['/1', '/v1/pets', '/3', '/4']) {
    assert.equal(await answerNext(), target)
    assert.equal((await connection.read()).body, target)
  }
})

for (const [name, bytes] of [
  ['garbage', 'garbage\r\n\r\n'],
  ['a request with a bad chunk', postChunked('zz\r\n')],
  ['a GET with a bad chunk', get('/4', CHUNKED) + 'zz\r\n'],
  ['a request without Host', 'GET /4 HTTP/1.1\r\n\r\n'],
  ['CONNECT without Host', 'CONNECT a:1 HTTP/1.1\r\n\r\n'],
] as const) {
  test(`${name} behind requests that are not answered yet is answered after them`, async (t) => {
    const { url, begun, answerNext } = await startSlow(t)
    const connection = new RawConnection(t, { url })
    await connection.write(get('/1') + get('/2') + get('/3') + bytes)
    for (const target of ['/1', '/2', '/3']) {
      assert.equal(await answerNext(), target)
      assert.equal((await connection.read()).body, target)
    }
    await assertLastError(connection, 400, 'bad_request')
    assert.deepEqual(begun(), [])
  })
}

test('garbage that goes on and on behind a request that is not answered yet is answered once', async (t) => {
  const warnings: Error[] = []
  const onWarning = (warning: Error) => void warnings.push(warning)
  process.on('warning', onWarning)
  t.after(() => process.off('warning', onWarning))
  const { url, answerNext } = await startSlow(t)
  const connection = new RawConnection(t, { url })
  connection.socket.setNoDelay(true)
  await connection.write(get('/1'))
  for (let count = 0; count < 50; count++) {
    await connection.write('garbage\r\n\r\n')
    await setImmediate()
  }
  assert.equal(await answerNext(), '/1')
  assert.equal((await connection.read()).body, '/1')
  await assertLastError(connection, 400, 'bad_request')
  assert.deepEqual(warnings, []) // too many listeners, say
})

test('stop() waits for the answers in flight, of which the last one on a connection says so', async (t) => {
  const { server, url, answerNext } = await startSlow(t)
  const connection = new RawConnection(t, { url })
  await connection.write(get('/1') + get('/2'))
  assert.equal(await answerNext(), '/1')
  assert.equal((await connection.read()).headers.connection, 'keep-alive')
  await connection.write(get('/3'))
  const idle = new RawConnection(t, { url })
  const stopped = server.stop(600_000)
  await idle.closed // so the listener is too
  for (const [target, says] of [
    ['/2', 'keep-alive'],
    ['/3', 'close'],
  ]) {
    assert.equal(await answerNext(), target)
    const answer = await connection.read()
    assert.equal(answer.body, target)
    assert.equal(answer.headers.connection, says)
  }
  assert.equal(await connection.rest(), '')
  assert.equal(await stopped, 0)
})

test('what is pipelined while stop() waits for the answer in flight is not processed', async (t) => {
  const { server, url, answerNext } = await startSlow(t)
  const connection = new RawConnection(t, { url })
  const idle = new RawConnection(t, { url })
  await connection.write(get('/1'))
  const stopped = server.stop(600_000)
  await idle.closed // so the listener is too
  await connection.write(get('/2'))
  assert.equal(await answerNext(), '/1')
  const answer = await connection.read()
  assert.equal(answer.body, '/1')
  assert.equal(answer.headers.connection, 'close')
  assert.equal(await connection.rest(), '')
  assert.equal(await stopped, 0)
})
