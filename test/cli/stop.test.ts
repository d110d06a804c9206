// Signals: stops that lose nothing, and keys that change while the server runs.
import assert from 'node:assert/strict'
import { renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { KEY, RawConnection, send, temporaryFolder } from '../support.ts'
import { serve, type Serving, signal } from './executable.ts'

const HEAD = `HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${KEY}\r\n`
const LIST = `GET /v1/pets ${HEAD}\r\n`
const REX = '{"name":"Rex","categoryId":1}'
const CREATE = `POST /v1/pets ${HEAD}Expect: 100-continue\r\nContent-Length: ${REX.length}\r\n\r\n`

/** A request whose head the server has read, and whose body is still to come. */
async function openRequest(t: TestContext, server: Serving): Promise<RawConnection> {
  const connection = new RawConnection(t, server)
  await connection.write(CREATE)
  assert.equal((await connection.read()).status, 100)
  return connection
}

for (const name of ['SIGINT', 'SIGTERM'] as const) {
  test(`${name} ends what is silent or idle, and answers what is in flight`, async (t) => {
    // The delay is for SIGTERM only.
    const delay = name === 'SIGINT' ? ['--drain-delay', '86400'] : []
    const server = await serve(t, ['--api-key', KEY, '--drain', '86400', ...delay])
    const silent = new RawConnection(t, server)
    const idle = new RawConnection(t, server)
    await idle.write(LIST)
    assert.equal((await idle.read()).headers.connection, 'keep-alive')
    const sending = await openRequest(t, server)
    signal(name)
    const waits = 'waits up to 86400 s; another signal stops at once'
    const line = `"info","message":"${name} received: ${waits}`
    await server.stdout.until(new RegExp(`${line}; requests in flight: 1, open connections: 3"`))
    assert.equal(await silent.rest(), '')
    await assert.rejects(send(server, 'GET', '/livez'), { code: 'ECONNREFUSED' })
    assert.equal(await idle.rest(), '')
    await sending.write(REX + LIST)
    assert.equal((await sending.read()).status, 201)
    const { status, headers } = await sending.read()
    assert.deepEqual([status, headers.connection], [200, 'close'])
    sending.socket.end()
    assert.equal(await server.status, 0)
    await server.stdout.until(/"info","message":"stopped after \d+\.\d s"/)
    assert.doesNotMatch(server.stderr.text, /^petstore-server: /m)
  })
}

for (const [title, drain] of [
  ['after --drain seconds', '0'],
  ['at a second signal', '86400'],
] as const) {
  test(`${title} requests in flight are cut off, and it exits 1`, async (t) => {
    const server = await serve(t, ['--api-key', KEY, '--drain', drain])
    const sending = await openRequest(t, server)
    signal('SIGTERM')
    if (drain !== '0') signal('SIGINT')
    assert.equal(await sending.rest(), '')
    assert.equal(await server.status, 1)
    const line = 'requests in flight that were cut off: 1'
    assert.ok(server.stderr.text.endsWith(`petstore-server: ${line}\n`), server.stderr.text)
    await server.stdout.until(new RegExp(`"level":"error","message":"${line}"`))
  })
}

test('a response that its client has not read to its end counts as cut off', async (t) => {
  const seed = join(temporaryFolder(t), 'seed')
  const pet = { name: 'x'.repeat(60_000), categoryId: 1 }
  writeFileSync(seed, JSON.stringify(Array(100).fill(pet)))
  const server = await serve(t, ['--api-key', KEY, '--drain', '0', '--seed', seed])
  const slow = new RawConnection(t, server)
  slow.socket.pause()
  // More than the system buffers.
  await slow.write(`GET /v1/pets?limit=100 ${HEAD}\r\n`.repeat(4))
  await server.stdout.until(/("path":"\/v1\/pets"[^]*){4}/)
  signal('SIGTERM')
  assert.equal(await server.status, 1)
  await server.stdout.until(/"requests in flight that were cut off: 1"/)
})

test('SIGHUP reads the file of keys again; a bad file changes nothing, and says so', async (t) => {
  const file = join(temporaryFolder(t), 'keys')
  const put = (content: string): void => {
    writeFileSync(`${file}.new`, content)
    renameSync(`${file}.new`, file)
  }
  put('first-key')
  const server = await serve(t, ['--api-key', KEY, '--api-keys-file', file])
  const valid = async (): Promise<string[]> => {
    const keys = ['first-key', 'second-key', KEY]
    const answers = keys.map(async (key) => {
      const headers = { authorization: `Bearer ${key}` }
      return (await send(server, 'GET', '/v1/pets', { headers })).status === 200
    })
    const isValid = await Promise.all(answers)
    return keys.filter((_, at) => isValid[at])
  }
  assert.deepEqual(await valid(), ['first-key', KEY])
  for (const [content, said] of [
    ['first-key\nsecond-key', /"info",.* read again; valid keys: 3"/],
    ['second-key', /"info",.* read again; valid keys: 2"/],
    ['short', /"error","message":"the API keys stay as they were: .* line 1 must be 8 to 256 /],
  ] as const) {
    put(content)
    signal('SIGHUP')
    await server.stdout.until(said)
    const isBoth = content.includes('\n')
    assert.deepEqual(await valid(), [...(isBoth ? ['first-key'] : []), 'second-key', KEY])
  }
  assert.doesNotMatch(server.stdout.text, /first-key|second-key|short/)
})

test('without a file of keys, SIGHUP says so; on a terminal it is a stop', async (t) => {
  const server = await serve(t, ['--api-key', KEY])
  signal('SIGHUP')
  await server.stdout.until(/"info","message":"SIGHUP received: there is no file of API keys"/)
  signal('SIGTERM')
  await server.status
  const onTerminal = await serve(t, ['--api-key', KEY], { isTTY: true })
  signal('SIGHUP')
  assert.equal(await onTerminal.status, 0)
  await onTerminal.stdout.until(/ info: SIGHUP received: waits up to 8 s/)
})
