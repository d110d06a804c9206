// How connections end: on close(), when there are too many, and when they are idle for too long.
import { mockTimers } from '../mock-timers.ts'
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, Server } from 'node:net'
import { describe, test, type TestContext } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { Limits } from '../../src/http/limits.ts'
import type { Petstore } from '../../src/types.ts'
import { assertLast, assertNext, type Expected, outcomesOf } from '../support.ts'
import { portOf, RawConnection, start, startLogging } from '../support.ts'
import { ask, get, HOST, LONG, open, post, postHead, request, REX, within } from './raw.ts'

const START = postHead(REX.length, 'Expect: 100-continue')
// A page of 50 MB, more than the system buffers for a client that does not read.
const BIG = Array.from({ length: 100 }, () => ({ name: 'x'.repeat(500_000), categoryId: 1 }))
const PAGE = get('/v1/pets?limit=100')
const REFUSED = request('POST /v1/pets HTTP/1.1', [HOST, 'Content-Length: 20'])

// A worker's: posts that it waits. Once the gate is at 1, ten clients connect, and it sets the
// gate to 2. Then it posts what became of each.
const CLIENTS = `
  const { connect } = require('node:net')
  const { parentPort, workerData } = require('node:worker_threads')
  const [gate, port] = workerData
  parentPort.postMessage('waits')
  Atomics.wait(gate, 0, 0)
  const outcomes = Array.from({ length: 10 }, () => new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1').resume()
    socket.on('error', ({ code }) => resolve(code)).on('end', () => resolve('end'))
  }))
  setImmediate(() => {
    Atomics.store(gate, 0, 2)
    Atomics.notify(gate, 0)
  })
  Promise.all(outcomes).then((codes) => parentPort.postMessage(codes))
`

/** Opens a connection with a request in flight, whose body is not complete. */
async function openInFlight(t: TestContext, petstore: { url: string }): Promise<RawConnection> {
  const connection = await ask(t, petstore, START, 100)
  await connection.write(REX.slice(0, 9))
  return connection
}

function openIdle(t: TestContext, petstore: { url: string }): Promise<RawConnection> {
  return ask(t, petstore, get('/v1/store/orders'), '501 not_implemented')
}

/** Opens a connection that requests the big page, and then more, and does not read. */
async function openStalled(t: TestContext, petstore: Petstore, more = ''): Promise<RawConnection> {
  const connection = await open(t, petstore, PAGE + more, 'unread')
  while (petstore.requests.length === 0) await turn()
  return connection
}

const noReset = { skip: process.platform !== 'linux' && 'a client may be reset' }

/** Ten clients in a thread of their own, which connect while nothing else runs. */
async function clientsOf(petstore: Petstore) {
  const gate = new Int32Array(new SharedArrayBuffer(4))
  const workerData = [gate, portOf(petstore)]
  const worker = new Worker(CLIENTS, { eval: true, execArgv: [], workerData }) // without tsx
  await once(worker, 'message')
  const codes: Promise<string[]> = once(worker, 'message').then(([message]) => message)
  function connectAll(): void {
    Atomics.store(gate, 0, 1)
    Atomics.notify(gate, 0)
    Atomics.wait(gate, 0, 1) // until they have connected
  }
  return { connectAll, codes }
}

function assertNotReset(codes: readonly string[]): void {
  assert.equal(codes.length, 10)
  for (const code of codes) assert.match(code, /^(?:end|ECONNREFUSED)$/)
}

/** Begins to close a petstore, and resolves once it no longer listens. */
async function beginClose(petstore: Petstore): Promise<{ closing: Promise<number> }> {
  const closing = petstore.close(LONG)
  for (;;) {
    const socket = connect(portOf(petstore), '127.0.0.1')
    const [opened] = await Promise.allSettled([once(socket, 'connect')])
    socket.destroy()
    if (opened.status === 'rejected') return { closing }
    for (let turns = 0; turns < 20; turns++) await turn() // the server stops in a quiet turn
  }
}

describe('close()', within, () => {
  test('stops listening, closes idle connections, and serves the others', async (t) => {
    const petstore = await start(t)
    const used = await openIdle(t, petstore)
    const busy = await openInFlight(t, petstore)
    const sending = await ask(t, petstore, REFUSED, '401 unauthorized')
    const unused = new RawConnection(t, petstore)
    await once(unused.socket, 'connect')
    mockTimers(t, 'setInterval')
    const { closing } = await beginClose(petstore)
    await sending.write(`${'x'.repeat(20)}${get()}`)
    await assertLast(sending, 200)
    t.mock.timers.tick(2 * new Limits().idleCheckInterval)
    for (const connection of [used, unused]) assert.equal(await connection.rest(), '')
    await busy.write(REX.slice(9))
    await assertLast(busy, 201)
    assert.equal(await closing, 0)
  })

  test('lets a client that is still sending a refused body read its response', async (t) => {
    const petstore = await start(t, {}, { linger: LONG })
    const idle = await openIdle(t, petstore)
    const sending = await open(t, petstore, REFUSED, 'unread')
    while (petstore.requests.length < 2) await turn()
    mockTimers(t, 'setInterval')
    const { closing } = await beginClose(petstore)
    t.mock.timers.tick(new Limits().idleCheckInterval)
    await idle.rest()
    for (let byte = 0; byte < 20; byte++) await sending.write('x')
    sending.socket.resume()
    await assertNext(sending, '401 unauthorized')
    sending.socket.end()
    assert.equal(await closing, 0)
  })

  test('serves clients that the system has connected before it stops listening', async (t) => {
    const petstore = await start(t)
    const clients = Array.from({ length: 20 }, () => new RawConnection(t, petstore))
    for (const { socket } of clients) socket.write(get())
    await new Promise(process.nextTick) // they are connected, but not accepted yet
    const closing = petstore.close(LONG)
    for (const client of clients) await assertNext(client, 200)
    for (const client of clients) assert.equal(await client.rest(), '')
    assert.equal(await closing, 0)
  })

  test('resets no client that connects in any turn of its stop', noReset, async (t) => {
    const outcomes = [0, 1, 2, 3, 4].map(async (turns) => {
      const petstore = await start(t)
      const { connectAll, codes } = await clientsOf(petstore)
      const closing = petstore.close(LONG)
      for (let before = 0; before < turns; before++) await turn()
      connectAll()
      assert.equal(await closing, 0)
      return await codes
    })
    for (const codes of await Promise.all(outcomes)) assertNotReset(codes)
  })

  test('resets no client that connects when nothing but its close is left', noReset, async (t) => {
    const petstore = await start(t)
    const { connectAll, codes } = await clientsOf(petstore)
    const close = Server.prototype.close
    const held = t.mock.method(Server.prototype, 'close', function (this: Server, ...args: []) {
      held.mock.restore()
      connectAll()
      return close.apply(this, args)
    })
    assert.equal(await petstore.close(LONG), 0)
    assertNotReset(await codes)
  })

  test('waits for pipelined requests, and for a slow reader of a large response', async (t) => {
    const petstore = await start(t, { pets: BIG })
    const connection = await openStalled(t, petstore, get('/v1/pets?limit=1&after=99') + post())
    const { closing } = await beginClose(petstore)
    connection.socket.resume()
    const [page, second] = await assertNext(connection, 200, 200)
    assert.ok((page?.body.length ?? 0) > 50_000_000)
    assert.equal(second?.headers.connection, 'keep-alive')
    await assertLast(connection, 201)
    assert.equal(await closing, 0)
  })

  const LATE: Record<string, [bytes: string, expected: Expected]> = {
    'a create': [post(), 201],
    '/readyz': [get('/readyz'), '503 not_ready'],
    '/livez': [get('/livez'), 200],
  }
  for (const [what, [bytes, expected]] of Object.entries(LATE)) {
    test(`answers ${what} that still comes on an idle connection, as its last`, async (t) => {
      const petstore = await start(t, {}, { idleCheckInterval: 600_000 })
      const connection = await openIdle(t, petstore)
      const { closing } = await beginClose(petstore)
      await connection.write(bytes + post())
      await assertLast(connection, expected)
      assert.equal(await closing, 0)
    })
  }

  for (const [what, bytes] of Object.entries({ 'a request': post(), garbage: 'garbage\r\n\r\n' })) {
    test(`ignores ${what} on a connection that it has closed`, async (t) => {
      const { petstore, logStream } = await startLogging(t, 'json')
      const connection = await openIdle(t, petstore)
      const closing = petstore.close(LONG)
      await connection.closed
      await connection.write(bytes)
      assert.equal(await connection.rest(), '')
      assert.equal(await closing, 0)
      assert.match(logStream.text, /^.*"status":501.*\n$/)
    })
  }

  test('cuts off requests that do not finish in time, counts and records them', async (t) => {
    const petstore = await start(t)
    const inFlight = [await openInFlight(t, petstore), await openInFlight(t, petstore)]
    // Neither counts: one has its response, the other is not a request yet.
    const answered = await open(t, petstore, postHead(50, 'Content-Type: text/plain'))
    await assertNext(answered, '415 unsupported_media_type')
    const begun = await ask(t, petstore, `${get()}GET /v1/pets HT`, 200)
    assert.equal(await petstore.close(50), 2)
    for (const one of [...inFlight, answered, begun]) assert.equal(await one.rest(), '')
    const refused = 'createPet 415'
    const cutOff = 'createPet null'
    assert.deepEqual(outcomesOf(petstore), [cutOff, cutOff, refused, 'listPets 200'])
  })

  test('cuts off a reader that is too slow, and records the requests that wait', async (t) => {
    const petstore = await start(t, { pets: BIG })
    const connection = await openStalled(t, petstore, get('/v1/pets/1') + get('/v1/pets/2'))
    assert.equal(await petstore.close(50), 3)
    connection.socket.resume()
    await assert.rejects(connection.read())
    const recorded = petstore.requests.map(({ path, status }) => `${path} ${status}`)
    assert.deepEqual(recorded, ['/v1/pets 200', '/v1/pets/1 null', '/v1/pets/2 null'])
  })
})

describe('beyond maxConnections', within, () => {
  test('the longest idle connection makes room, whatever stray bytes it sent', async (t) => {
    const petstore = await start(t, { maxConnections: 4, pets: BIG })
    const stalled = await openStalled(t, petstore)
    const used = await openIdle(t, petstore)
    const unused = new RawConnection(t, petstore)
    const begun = await openIdle(t, petstore)
    await begun.write('\r\nGET /v1/pets?limit=1 HT')
    await used.write(get('/v1/store/orders'))
    await assertNext(used, '501 not_implemented')
    for (const idle of [unused, begun, used]) {
      await openInFlight(t, petstore)
      assert.equal(await idle.rest(), '')
    }
    await openInFlight(t, petstore) // none is idle: one that is not read makes room
    stalled.socket.resume()
    await assert.rejects(stalled.read(), /the connection ended/)
    assert.equal(await new RawConnection(t, petstore).rest(), '') // all wait for an operation
  })

  test('the log says how many connections were dropped, once in ten seconds', async (t) => {
    const { mock } = t.mock.method(Server.prototype, 'listen')
    const { petstore, logStream } = await startLogging(t, 'json', { maxConnections: 2 })
    mockTimers(t, 'setTimeout')
    for (let count = 0; count < 2; count++) await openIdle(t, petstore)
    for (let count = 0; count < 2; count++) await openInFlight(t, petstore)
    const refusals = Array.from({ length: 3 }, () => new RawConnection(t, petstore).rest())
    assert.deepEqual(await Promise.all(refusals), ['', '', ''])
    const server = mock.calls[0]?.this
    assert.ok(server instanceof Server)
    server.emit('error', new Error('accept EMFILE'))
    t.mock.timers.tick(10_000)
    t.mock.timers.reset()
    await petstore.close()
    const warnings = logStream.text.match(/(?<="level":"warn","message":").*(?=")/g)
    assert.deepEqual(warnings, [
      'idle connections closed to make room, because 2 are open: 1',
      'new connections closed, because all 2 are in use: 1',
      'connections that the system refused (accept EMFILE): 1',
      'idle connections closed to make room, because 2 are open: 1',
      'new connections closed, because all 2 are in use: 2',
    ])
  })
})

test('an idle connection closes after keepAlive, without a response', within, async (t) => {
  const connection = await open(t, await start(t, { keepAlive: 1_001 }), get().repeat(2))
  for (const { headers } of await assertNext(connection, 200, 200))
    assert.equal(headers['keep-alive'], 'timeout=1')
  assert.equal(await connection.rest(), '')
})

test('a late request is answered, and keeps idle connections open for more', within, async (t) => {
  const petstore = await start(t)
  const first = await openIdle(t, petstore)
  const second = await openIdle(t, petstore)
  const third = await openIdle(t, petstore)
  mockTimers(t, 'setInterval')
  const { closing } = await beginClose(petstore)
  const checkIdle = () => {
    first.socket.write(get()) // which the server has not read yet
    t.mock.timers.tick(new Limits().idleCheckInterval)
  }
  setTimeout(checkIdle)
  await assertLast(first, 200)
  await second.write(get())
  await assertLast(second, 200)
  t.mock.timers.tick(2 * new Limits().idleCheckInterval)
  assert.equal(await third.rest(), '')
  assert.equal(await closing, 0)
})
