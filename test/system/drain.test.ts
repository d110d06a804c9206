import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { AUTHORIZATION, folderOf, KEY, RawConnection, send } from '../support.ts'

const GET = `GET /v1/pets HTTP/1.1\r\nHost: x\r\nAuthorization: ${AUTHORIZATION}\r\n\r\n`
const REX = '{"name":"Rex","categoryId":7}'
const POST = GET.replace('GET', 'POST').replace(
  '\r\n\r\n',
  `\r\nContent-Length: ${REX.length}\r\nExpect: 100-continue\r\n\r\n`,
)
// Seconds that no test waits for.
const LONG = '600'
const within = { timeout: 60_000 }

/** A server that runs as a process, with a log. */
interface Server {
  url: string
  process: ChildProcess
  /** Resolves when it has ended. */
  exited: Promise<Exit>
}

interface Exit {
  status: number | null
  /** Lines of the log. */
  log: Record<string, unknown>[]
  stderr: string
  /** When it was, by performance.now(). */
  at: number
}

async function serve(t: TestContext, flags: readonly string[], nodeFlags: readonly string[] = []): Promise<Server> {
  const args = [...nodeFlags, 'dist/main.js', '--port', '0', '--api-key', KEY, '--log', 'json', ...flags]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'] })
  t.after(() => child.kill('SIGKILL'))
  let stdout = ''
  let stderr = ''
  child.stdout.on('data', (chunk) => (stdout += chunk))
  child.stderr.on('data', (chunk) => (stderr += chunk))
  const ended = once(child, 'exit').then(() => performance.now())
  const exited = once(child, 'close').then(async ([status]): Promise<Exit> => {
    const log = stdout.split('\n').slice(0, -1)
    return { status, log: log.map((line) => JSON.parse(line)), stderr, at: await ended }
  })
  while (!stderr.includes('listens on')) await Promise.race([once(child.stderr, 'data'), exited])
  const [url = ''] = /http:\/\/\S+/.exec(stderr) ?? []
  return { url, process: child, exited }
}

/** Opens a connection that is idle: it was used, or never was. */
async function beIdle(t: TestContext, server: Server, isUsed: boolean): Promise<RawConnection> {
  const connection = new RawConnection(t, server)
  if (isUsed) {
    await connection.write(GET)
    assert.equal((await connection.read()).status, 200)
  } else {
    await once(connection.socket, 'connect')
  }
  return connection
}

/** Opens a connection with a request in flight: its head is read, and its body awaited. */
async function beginPost(t: TestContext, server: Server): Promise<RawConnection> {
  const connection = new RawConnection(t, server)
  await connection.write(POST)
  assert.equal((await connection.read()).status, 100)
  await connection.write(REX.slice(0, 9))
  return connection
}

function petsIn(file: string): unknown[] {
  return JSON.parse(readFileSync(file, 'utf8')).pets
}

test('with idle connections only, the drain takes less than half a second', within, async (t) => {
  const times: number[] = []
  // The best of three: the bound is the server's, and not that of a machine that is busy with something else.
  for (let round = 0; round < 3; round++) {
    const server = await serve(t, ['--drain', LONG])
    for (let count = 0; count < 1_100; count += 50) {
      await Promise.all(Array.from({ length: 50 }, () => beIdle(t, server, count < 1_000)))
    }
    const started = performance.now()
    server.process.kill('SIGTERM')
    const { status, log, at } = await server.exited
    times.push(at - started)
    assert.equal(status, 0)
    assert.equal(log.filter((line) => line['status'] === 200).length, 1_000)
  }
  t.diagnostic(`${times.map(Math.round).join(', ')} ms`)
  assert.ok(Math.min(...times) < 500, `${times} ms`)
})

test('a request in flight is finished, and snapshot and log are complete', within, async (t) => {
  const file = join(folderOf(t), 'pets.json')
  const server = await serve(t, ['--drain', LONG, '--snapshot', file])
  const connection = await beginPost(t, server)
  const idle = await beIdle(t, server, true)
  server.process.kill('SIGTERM')
  await idle.closed
  await connection.write(REX.slice(9))
  const { status: answered, headers, body } = await connection.read()
  assert.equal(answered, 201)
  assert.equal(headers.connection, 'close')
  assert.equal(await connection.rest(), '')
  const { status, log, stderr } = await server.exited
  assert.equal(status, 0, stderr)
  assert.deepEqual(petsIn(file), [JSON.parse(body)])
  assert.deepEqual(
    log.filter((line) => 'status' in line).map((line) => line['status']),
    [200, 201],
  )
})

test('a client that never finishes is cut off after --drain, and counted', within, async (t) => {
  const server = await serve(t, ['--drain', '1'])
  const connections = [await beginPost(t, server), await beginPost(t, server)]
  await beIdle(t, server, true)
  const started = performance.now()
  server.process.kill('SIGTERM')
  const { status, stderr, at } = await server.exited
  assert.equal(status, 1)
  assert.match(stderr, /\bcut off: 2$/m)
  for (const connection of connections) assert.equal(await connection.rest(), '')
  assert.ok(at - started > 990, `${at - started} ms`)
  assert.ok(at - started < 3_000, `${at - started} ms`)
})

for (const [first, second] of [
  ['SIGTERM', 'SIGTERM'],
  ['SIGTERM', 'SIGINT'],
  ['SIGINT', 'SIGTERM'],
] as const) {
  test(`${second} behind ${first} stops at once`, within, async (t) => {
    const server = await serve(t, ['--drain', LONG])
    await beginPost(t, server)
    const idle = await beIdle(t, server, true)
    server.process.kill(first)
    await idle.closed
    assert.equal(server.process.exitCode, null)
    server.process.kill(second)
    const { status, stderr } = await server.exited
    assert.equal(status, 1)
    assert.match(stderr, /\bcut off: 1$/m)
  })
}

test('/readyz turns 503 with the drain, and says why', within, async (t) => {
  const server = await serve(t, ['--drain', LONG])
  const connections = await Promise.all(Array.from({ length: 8 }, () => beIdle(t, server, true)))
  assert.equal((await send(server, 'GET', '/readyz')).status, 200)
  await beginPost(t, server) // the drain lasts for as long as this
  server.process.kill('SIGTERM')
  // Each asks until it is told that it was the last time, or finds itself closed.
  const last = connections.map(async (connection) => {
    for (let isReady = true; ;) {
      await connection.write(GET.replace('/v1/pets', '/readyz'))
      const answer = await connection.read().catch(() => undefined)
      if (answer === undefined || answer.headers.connection === 'close') return answer
      isReady &&= answer.status === 200
      assert.equal(answer.status, isReady ? 200 : 503) // it does not turn back
    }
  })
  const answers = (await Promise.all(last)).filter((answer) => answer?.status === 503)
  assert.ok(answers.length > 0)
  for (const answer of answers) {
    assert.equal(answer?.headers.connection, 'close')
    assert.match(answer?.body ?? '', /drain|stop/)
  }
})

for (const [name, fails] of Object.entries({
  'an uncaught exception': 'throw new Error("of the test")',
  'an unhandled rejection': 'Promise.reject(new Error("of the test"))',
})) {
  test(`${name} is logged, ends the process, and loses nothing that was acknowledged`, within, async (t) => {
    const file = join(folderOf(t), 'pets.json')
    const preloaded = `data:text/javascript,process.on("SIGUSR2", () => { ${fails} })`
    const server = await serve(t, ['--snapshot', file], ['--import', preloaded])
    let acknowledged = 0
    const clients = Array.from({ length: 8 }, async () => {
      for (;;) {
        const answer = await send(server, 'POST', '/v1/pets', { body: REX }).catch(() => undefined)
        if (answer?.status !== 201) return
        if (++acknowledged === 100) server.process.kill('SIGUSR2')
      }
    })
    await Promise.all(clients)
    const { status, log } = await server.exited
    assert.equal(status, 1)
    const errors = log.filter(({ level }) => level === 'error').map(({ message }) => message)
    assert.equal(errors.length, 1, `${errors}`)
    assert.match(String(errors[0]), /of the test/)
    const kept = petsIn(file).length
    assert.ok(kept >= acknowledged, `${kept} of ${acknowledged}`)
  })
}
