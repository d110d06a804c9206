import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { AUTHORIZATION, folderOf, RawConnection } from '../support.ts'
import { type Server, serve } from './server.ts'

const HEADERS = `Host: x\r\nAuthorization: ${AUTHORIZATION}\r\n`
const REX = '{"name":"Rex","categoryId":7}'
// Seconds that no test waits for.
const LONG = '86400'

/** Opens a connection that is idle, and was used. */
async function beIdle(t: TestContext, server: Server): Promise<RawConnection> {
  const connection = new RawConnection(t, server)
  await connection.write(`GET /v1/pets HTTP/1.1\r\n${HEADERS}\r\n`)
  assert.equal((await connection.read()).status, 200)
  return connection
}

/** Opens a connection with a request in flight: the server has read its head and half of its body. */
async function beginPost(t: TestContext, server: Server): Promise<RawConnection> {
  const connection = new RawConnection(t, server)
  const length = `Content-Length: ${REX.length}\r\nExpect: 100-continue\r\n`
  await connection.write(`POST /v1/pets HTTP/1.1\r\n${HEADERS}${length}\r\n`)
  assert.equal((await connection.read()).status, 100)
  await connection.write(REX.slice(0, 9))
  return connection
}

test('with idle connections only, used or never used, the drain does not wait', async (t) => {
  const server = await serve(t, ['--drain', LONG])
  const unused = Array.from({ length: 100 }, () => new RawConnection(t, server))
  await Promise.all(unused.map(({ socket }) => once(socket, 'connect')))
  for (let count = 0; count < 1_000; count += 50) {
    await Promise.all(Array.from({ length: 50 }, () => beIdle(t, server)))
  }
  server.process.kill('SIGTERM')
  assert.equal((await server.exited).status, 0)
})

test('a request in flight is finished, and snapshot and log are complete', async (t) => {
  const file = join(folderOf(t), 'pets.json')
  const server = await serve(t, ['--drain', LONG, '--snapshot', file], { log: 'json' })
  const connection = await beginPost(t, server)
  const idle = await beIdle(t, server)
  server.process.kill('SIGTERM')
  await idle.closed
  await connection.write(REX.slice(9))
  const { status: answered, headers, body } = await connection.read()
  assert.equal(answered, 201)
  assert.equal(headers.connection, 'close')
  assert.equal(await connection.rest(), '')
  const { status, stdout, stderr } = await server.exited
  assert.equal(status, 0, stderr)
  const snapshot = JSON.parse(readFileSync(file, 'utf8'))
  assert.deepEqual(snapshot.pets ?? snapshot, [JSON.parse(body)])
  const lines = stdout
    .trim()
    .split('\n')
    .map((line): { status?: number } => JSON.parse(line))
  assert.deepEqual(
    lines.flatMap(({ status }) => status ?? []),
    [200, 201],
  )
})

for (const [name, drain, signals] of [
  ['--drain seconds behind SIGTERM', '1', ['SIGTERM']],
  ['SIGINT behind SIGTERM, at once', LONG, ['SIGTERM', 'SIGINT']],
  ['SIGTERM behind SIGINT, at once', LONG, ['SIGINT', 'SIGTERM']],
] as const) {
  test(`requests that never end are cut off and counted: ${name}`, async (t) => {
    const server = await serve(t, ['--drain', drain])
    const connections = [await beginPost(t, server), await beginPost(t, server)]
    const idle = await beIdle(t, server)
    for (const signal of signals) {
      server.process.kill(signal)
      await idle.closed
    }
    const { status, stderr } = await server.exited
    assert.equal(status, 1)
    assert.match(stderr, /\bcut off: 2$/m)
    for (const connection of connections) assert.equal(await connection.rest(), '')
  })
}
