// How connections end: on close(), by the bound on their number, and when they are idle for too long.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, Server } from 'node:net'
import { describe, test, type TestContext } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import type { Petstore } from '../../src/types.ts'
import { assertLast, assertNext, type Expected, FakeStream, RawConnection, start } from '../support.ts'
import { get, open, post, postHead, REX } from './raw.ts'

// Seconds that no test waits for: a close() that took them would be cut off by the tests' own time-out.
const LONG = 600
const within = { timeout: 120_000 }
const [START, REST] = [postHead(REX.length, 'Expect: 100-continue'), REX.slice(9)]
// A page of 50 MB, more than the system buffers for a client that does not read.
const BIG = Array.from({ length: 100 }, () => ({ name: 'x'.repeat(500_000), categoryId: 1 }))
const PAGE = get('/v1/pets?limit=100')

async function openInFlight(t: TestContext, petstore: { url: string }): Promise<RawConnection> {
  const connection = await open(t, petstore, START)
  await assertNext(connection, 100)
  await connection.write(REX.slice(0, 9))
  return connection
}

async function openIdle(t: TestContext, petstore: { url: string }): Promise<RawConnection> {
  const connection = await open(t, petstore, get('/v1/store/orders'))
  await assertNext(connection, '501 not_implemented')
  return connection
}

/** Opens a connection that has asked for the big page and these requests behind it, and does not read. */
async function openStalled(t: TestContext, petstore: Petstore, behind = ''): Promise<RawConnection> {
  const connection = await open(t, petstore, PAGE + behind, 'unread')
  while (petstore.requests.length === 0) await turn()
  return connection
}

/** Resolves once nobody listens any more. */
async function refused({ url }: { url: string }): Promise<void> {
  for (;;) {
    const socket = connect(Number(new URL(url).port), '127.0.0.1')
    const [opened] = await Promise.allSettled([once(socket, 'connect')])
    socket.destroy()
    if (opened.status === 'rejected') return
    for (let turns = 0; turns < 20; turns++) await turn() // what comes all the time, the server takes first
  }
}

describe('close()', within, () => {
  test('stops to listen and ends idle connections', async (t) => {
    const petstore = await start(t)
    const [used, unused] = [await openIdle(t, petstore), new RawConnection(t, petstore)]
    await once(unused.socket, 'connect')
    assert.equal(await petstore.close(LONG), 0)
    for (const connection of [used, unused]) assert.equal(await connection.rest(), '')
    await refused(petstore)
  })

  test('lets requests in flight be answered, the last on a connection says so, and nothing behind is processed', async (t) => {
    const logStream = new FakeStream()
    const petstore = await start(t, { log: 'json', logStream })
    const connection = await openInFlight(t, petstore)
    const closing = petstore.close(LONG)
    await refused(petstore)
    await connection.write(REST + post() + get())
    await assertLast(connection, 201)
    assert.equal(await closing, 0)
    assert.match(logStream.text, /^.*"status":201.*\n$/)
  })

  test('lets all pipelined requests in flight be answered, and brings a big answer to a slow reader whole', async (t) => {
    const petstore = await start(t, { pets: BIG })
    const connection = await openStalled(t, petstore, get('/v1/pets?limit=1&after=99') + post())
    const closing = petstore.close(LONG)
    await refused(petstore)
    connection.socket.resume()
    const [page, second] = await assertNext(connection, 200, 200)
    assert.ok((page?.body.length ?? 0) > 50_000_000)
    assert.deepEqual([page?.headers.connection, second?.headers.connection], ['keep-alive', 'keep-alive'])
    await assertLast(connection, 201)
    assert.equal(await closing, 0)
  })

  test('answers what still comes on an idle connection, as its last, so that no proxy loses a request', async (t) => {
    const petstore = await start(t, {}, { drainInterval: 600_000 })
    const rows: Record<string, Expected> = { [post()]: 201, [get('/readyz')]: '503 not_ready', [get('/livez')]: 200 }
    const connections = await Promise.all(Object.keys(rows).map(() => openIdle(t, petstore)))
    const closing = petstore.close(LONG)
    assert.equal((await petstore.fetch(new URL('/readyz', petstore.url))).status, 503)
    await refused(petstore)
    for (const [bytes, expected] of Object.entries(rows)) {
      const connection = connections.pop() ?? assert.fail()
      await connection.write(bytes + post())
      await assertLast(connection, expected)
    }
    assert.equal(await closing, 0)
  })

  test('processes nothing that comes on a connection after its end', async (t) => {
    const logStream = new FakeStream()
    const petstore = await start(t, { log: 'json', logStream })
    const connections = [await openIdle(t, petstore), await openIdle(t, petstore)]
    const closing = petstore.close(LONG)
    for (const [at, connection] of connections.entries()) {
      await connection.closed
      await connection.write(at === 0 ? post() : 'garbage\r\n\r\n')
      assert.equal(await connection.rest(), '')
    }
    assert.equal(await closing, 0)
    assert.match(logStream.text, /^(.*"status":501.*\n){2}$/)
  })

  test('cuts off after its drain what is never finished, and counts it', async (t) => {
    const petstore = await start(t)
    const inFlight = [await openInFlight(t, petstore), await openInFlight(t, petstore)]
    // Answered already, and not yet a request: neither counts.
    const answered = await open(t, petstore, postHead(50, 'Content-Type: text/plain'))
    await assertNext(answered, '415 unsupported_media_type')
    const begun = await open(t, petstore, `${get()}GET /v1/pets HT`)
    await assertNext(begun, 200)
    assert.equal(await petstore.close(0.05), 2)
    for (const connection of [...inFlight, answered, begun]) assert.equal(await connection.rest(), '')
  })

  test('cuts off a reader that is slower than its drain, and counts it with what waits behind', async (t) => {
    const petstore = await start(t, { pets: BIG })
    const connection = await openStalled(t, petstore, get().repeat(2))
    assert.equal(await petstore.close(0.05), 3)
    connection.socket.resume()
    await assert.rejects(connection.read())
  })

  test('called again with 0 cuts off at once what the first call waits for', async (t) => {
    const petstore = await start(t)
    const connection = await openInFlight(t, petstore)
    const first = petstore.close(LONG)
    assert.deepEqual([await petstore.close(0), await first, await petstore.close()], [1, 1, 1])
    assert.equal(await connection.rest(), '')
  })
})

test('beyond maxConnections the longest idle makes room; a new one is closed if none is idle', within, async (t) => {
  const listening = t.mock.method(Server.prototype, 'listen')
  const logStream = new FakeStream()
  const petstore = await start(t, { maxConnections: 4, log: 'json', logStream, pets: BIG })
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const [stalled, used] = [await openStalled(t, petstore), await openIdle(t, petstore)]
  const [unused, begun] = [new RawConnection(t, petstore), await openIdle(t, petstore)]
  await begun.write('GET /v1/pets?limit=1 HT')
  await used.write(get('/v1/store/orders'))
  await assertNext(used, '501 not_implemented') // by now, the beginning before it is read too
  for (const idle of [unused, used]) {
    await openInFlight(t, petstore)
    assert.equal(await idle.rest(), '')
  }
  const refusals = Array.from({ length: 3 }, () => new RawConnection(t, petstore).rest())
  assert.deepEqual(await Promise.all(refusals), ['', '', ''])
  for (const connection of [stalled, begun]) {
    connection.socket.resume()
    if (connection === begun) await begun.write(get().slice('GET /v1/pets HT'.length))
    await assertNext(connection, 200)
  }
  await Promise.all([openInFlight(t, petstore), openInFlight(t, petstore)])
  for (const connection of [stalled, begun]) assert.equal(await connection.rest(), '')
  assert.equal(await new RawConnection(t, petstore).rest(), '')
  Object(listening.mock.calls[0]?.this).emit('error', new Error('accept EMFILE'))
  t.mock.timers.tick(10_000)
  t.mock.timers.reset()
  await petstore.close()
  const warnings = logStream.text.match(/(?<="level":"warn","message":").*(?=")/g)
  assert.deepEqual(warnings, [
    'idle connections closed to make room, for 4 are open: 1',
    'idle connections closed to make room, for 4 are open: 3',
    'new connections closed, for all 4 are in use: 4',
    'connections that the system refused (accept EMFILE): 1',
  ])
})

test('keepAlive is how long an idle connection is kept, and it is closed without an answer', within, async (t) => {
  const connection = await open(t, await start(t, { keepAlive: 1 }), get().repeat(2))
  for (const { headers } of await assertNext(connection, 200, 200)) assert.equal(headers['keep-alive'], 'timeout=1')
  assert.equal(await connection.rest(), '')
})
