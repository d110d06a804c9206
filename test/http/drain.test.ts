// How connections end: on close(), by the bound on their number, and when they are idle for too long.
import assert from 'node:assert/strict'
import { createHook } from 'node:async_hooks'
import { get as httpGet, type IncomingMessage } from 'node:http'
import { connect } from 'node:net'
import { describe, test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { startPetstore } from '../../src/petstore.ts'
import { AUTHORIZATION, RawConnection, send, start } from '../support.ts'
import { get, LogReader, post, postHead, REX } from './raw.ts'

// Seconds that no test waits for: a close() that took them would be cut off by the tests' own time-out.
const LONG = 600
const within = { timeout: 120_000 }

/** Opens a connection whose request is in flight: its head is read, and its body awaited. */
async function beginPost(connection: RawConnection): Promise<void> {
  await connection.write(postHead(REX.length, 'Expect: 100-continue'))
  assert.equal((await connection.read()).status, 100)
  await connection.write(REX.slice(0, 9))
}

/** A page of 50 MB, more than the system buffers for a client that does not read. */
const BIG = Array.from({ length: 100 }, () => ({ name: 'x'.repeat(500_000), categoryId: 1 }))

/** Begins to fetch the big page, and leaves it unread. */
function beginPage(url: string): Promise<IncomingMessage> {
  const options = { headers: { authorization: AUTHORIZATION }, agent: false }
  return new Promise((resolve, reject) => httpGet(`${url}/pets?limit=100`, options, resolve).on('error', reject))
}

describe('close()', within, () => {
  test('ends idle connections at once', async (t) => {
    const petstore = await start(t)
    const used = new RawConnection(t, petstore)
    await used.write(get())
    assert.equal((await used.read()).headers.connection, 'keep-alive')
    const unused = new RawConnection(t, petstore)
    await new Promise((resolve) => unused.socket.once('connect', resolve))
    assert.equal(await petstore.close(LONG), 0)
    assert.equal(await used.rest(), '')
    assert.equal(await unused.rest(), '')
  })

  test('leaves no timer behind', async (t) => {
    const timers = new Set<number>()
    const hook = createHook({
      init: (id, type) => type === 'Timeout' && timers.add(id),
      destroy: (id) => timers.delete(id),
    }).enable()
    t.after(() => hook.disable())
    await (await startPetstore()).close(LONG)
    await setImmediate() // the hook is told of the end of a timer a little later
    assert.equal(timers.size, 0)
  })

  test('stops to listen', async (t) => {
    const petstore = await start(t)
    await petstore.close()
    const socket = connect(Number(new URL(petstore.url).port), '127.0.0.1')
    const error = await new Promise<NodeJS.ErrnoException>((resolve) => socket.once('error', resolve))
    assert.equal(error.code, 'ECONNREFUSED')
  })

  test('lets a request in flight be finished, and closes its connection', async (t) => {
    const petstore = await start(t)
    const connection = new RawConnection(t, petstore)
    await beginPost(connection)
    const idle = new RawConnection(t, petstore)
    await idle.write(get())
    await idle.read()
    const closing = petstore.close(LONG)
    await idle.closed
    await connection.write(REX.slice(9))
    const answer = await connection.read()
    assert.equal(answer.status, 201)
    assert.equal(answer.headers.connection, 'close')
    assert.equal(await connection.rest(), '')
    assert.equal(await closing, 0)
  })

  test('processes nothing behind the answer that closes', async (t) => {
    const logStream = new LogReader()
    const petstore = await start(t, { log: 'json', logStream })
    const connection = new RawConnection(t, petstore)
    await beginPost(connection)
    const closing = petstore.close(LONG)
    await connection.write(REX.slice(9) + post() + get())
    assert.equal((await connection.read()).status, 201)
    assert.equal(await connection.rest(), '')
    assert.equal(await closing, 0)
    assert.equal((await logStream.next())['status'], 201)
    assert.equal(logStream.unread, 0)
  })

  test('processes nothing that comes on a connection after its end', async (t) => {
    const logStream = new LogReader()
    const petstore = await start(t, { log: 'json', logStream })
    const connections = [new RawConnection(t, petstore), new RawConnection(t, petstore)]
    for (const connection of connections) {
      await connection.write(get())
      await connection.read()
      await logStream.next()
    }
    const closing = petstore.close(LONG)
    for (const [at, connection] of connections.entries()) {
      await connection.closed
      await connection.write(at === 0 ? post() : 'garbage\r\n\r\n')
    }
    assert.equal(await closing, 0)
    assert.equal(logStream.unread, 0)
    for (const connection of connections) assert.equal(await connection.rest(), '')
  })

  test('cuts off after its drain what is never finished, and counts it', async (t) => {
    const petstore = await start(t)
    const [first, second, refused, begun] = [0, 1, 2, 3].map(() => new RawConnection(t, petstore))
    assert.ok(first && second && refused && begun)
    await beginPost(first)
    await beginPost(second)
    // Answered already, and not yet a request: neither counts.
    await refused.write(postHead(50, 'Content-Type: text/plain'))
    assert.equal((await refused.read()).status, 415)
    await begun.write(get() + 'GET /v1/pets HT')
    assert.equal((await begun.read()).status, 200)
    assert.equal(await petstore.close(0.05), 2)
    for (const connection of [first, second, refused, begun]) assert.equal(await connection.rest(), '')
  })

  test('brings a big answer to a slow reader whole', async (t) => {
    const petstore = await start(t, { pets: BIG })
    const page = await beginPage(petstore.url)
    const idle = new RawConnection(t, petstore)
    await idle.write(get('/v1/pets/101'))
    await idle.read()
    let isClosed = false
    const closing = petstore.close(LONG).finally(() => (isClosed = true))
    await idle.closed
    assert.ok(!isClosed)
    let length = 0
    for await (const chunk of page) length += chunk.length
    assert.equal(length, Number(page.headers['content-length']))
    assert.ok(length > 50_000_000)
    assert.equal(await closing, 0)
  })

  test('cuts off a reader that is slower than its drain, and counts it', async (t) => {
    const petstore = await start(t, { pets: BIG })
    const page = await beginPage(petstore.url)
    assert.equal(await petstore.close(0.05), 1)
    await assert.rejects(async () => {
      for await (const _ of page);
    })
  })

  test('called again with 0 cuts off at once what the first call waits for', async (t) => {
    const petstore = await start(t)
    const connection = new RawConnection(t, petstore)
    await beginPost(connection)
    const first = petstore.close(LONG)
    assert.equal(await petstore.close(0), 1)
    assert.equal(await first, 1)
    assert.equal(await connection.rest(), '')
    assert.equal(await petstore.close(), 1)
  })
})

describe('maxConnections', within, () => {
  test('are served, further ones are closed at once, and one that ends makes room', async (t) => {
    const petstore = await start(t, { maxConnections: 2 })
    const [first, second] = [new RawConnection(t, petstore), new RawConnection(t, petstore)]
    for (const connection of [first, second]) {
      await connection.write(get())
      assert.equal((await connection.read()).status, 200)
    }
    for (let count = 0; count < 3; count++) assert.equal(await new RawConnection(t, petstore).rest(), '')
    await second.write(get())
    assert.equal((await second.read()).status, 200)
    first.socket.destroy()
    // The server learns of it when it gets to it.
    let answer
    while (answer === undefined) answer = await send(petstore, 'GET', '/v1/pets').catch(() => undefined)
    assert.equal(answer.status, 200)
  })
})

describe('keepAlive', within, () => {
  test('is how long an idle connection is kept, and it is closed without an answer', async (t) => {
    const petstore = await start(t, { keepAlive: 1 })
    const connection = new RawConnection(t, petstore)
    const started = performance.now()
    await connection.write(get())
    assert.equal((await connection.read()).headers['keep-alive'], 'timeout=1')
    assert.equal(await connection.rest(), '')
    assert.ok(performance.now() - started > 990)
  })
})
