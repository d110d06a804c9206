// What a stop does to connections and requests, and that a port can be used again at once.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { Agent } from 'node:http'
import { test } from 'node:test'
import { startPetstore } from '../../src/index.ts'
import { KEY, RawConnection, send, start } from '../support.ts'
import { assertLast, assertNext, get, open, openInFlight, post, REX } from './raw.ts'

const DRAIN = 600_000 // longer than any test waits

test('it refuses connections, closes silent and idle ones, and lets requests finish', async (t) => {
  const petstore = await start(t)
  const silent = new RawConnection(t, petstore)
  await once(silent.socket, 'connect')
  const idle = await open(t, petstore, get())
  const used = await open(t, petstore, get())
  for (const connection of [idle, used]) await assertNext(connection, 200)
  const busy = await openInFlight(t, petstore)
  const closing = petstore.close(DRAIN)
  assert.equal(await silent.rest(), '') // before the idle ones
  await used.write(get())
  await assertLast(used, 200)
  await assert.rejects(send(petstore, 'GET', '/livez'), { code: 'ECONNREFUSED' })
  assert.equal(await idle.rest(), '')
  await busy.write(REX)
  await assertLast(busy, 201)
  assert.equal(await closing, 0)
})

test('a request that still comes on an idle connection is answered, as its last', async (t) => {
  const petstore = await start(t)
  const requests = [
    [get(), 200],
    [post(), 201],
    [get('/livez'), 200],
    [get('/v1/none'), '404 not_found'],
    ['garbage\r\n\r\n', '400 bad_request'],
  ] as const
  const connections = await Promise.all(requests.map(() => open(t, petstore, get())))
  for (const connection of connections) await assertNext(connection, 200)
  const closing = petstore.close(DRAIN)
  for (const [at, [bytes]] of requests.entries()) connections[at]?.socket.write(bytes)
  for (const [at, [, expected]] of requests.entries()) {
    const connection = connections[at]
    assert.ok(connection)
    await assertLast(connection, expected)
  }
  assert.equal(await closing, 0)
})

test('after the drain it cuts off requests, counts and records them', async (t) => {
  const petstore = await start(t)
  await assertNext(await open(t, petstore, get()), 200) // an idle connection has no request
  const inFlight = [await openInFlight(t, petstore), await openInFlight(t, petstore)]
  assert.equal(await petstore.close(1), 2)
  for (const connection of inFlight) assert.equal(await connection.rest(), '')
  const statuses = petstore.requests.map(({ status }) => status)
  assert.deepEqual(statuses, [200, null, null])
})

test('a second close shortens the wait of the first, and counts the same', async (t) => {
  const petstore = await start(t)
  await openInFlight(t, petstore)
  const first = petstore.close(DRAIN)
  assert.equal(await petstore.close(), 1)
  assert.equal(await first, 1)
})

test('a response that its client reads slowly is not cut', async (t) => {
  const pets = Array.from({ length: 100 }, () => ({ name: 'x'.repeat(120_000), categoryId: 1 }))
  const petstore = await start(t, { pets })
  const slow = await open(t, petstore, '')
  slow.socket.pause()
  await slow.write(get('/v1/pets?limit=100')) // 12 MB, more than the system buffers
  await petstore.waitForRequests(1)
  const closing = petstore.close(DRAIN)
  const other = await start(t)
  const idle = await open(t, other, get())
  await assertNext(idle, 200)
  void other.close(DRAIN)
  await idle.closed // by then the first one, too, has looked for idle connections
  slow.socket.resume()
  assert.ok((await slow.rest()).length > 12_000_000)
  assert.equal(await closing, 0)
})

test('after close, the same process can start and ask another on the port', async (t) => {
  const agent = new Agent({ keepAlive: true })
  t.after(() => agent.destroy())
  let port = 0
  for (let round = 0; round < 10; round++) {
    const petstore = await startPetstore({ apiKeys: [KEY], port })
    port = Number(new URL(petstore.url).port)
    const answers = await Promise.all([
      ...[1, 2, 3].map(() => send(petstore, 'GET', '/v1/pets', { agent })),
      ...[1, 2, 3].map(() => fetch(`${petstore.url}/pets`, { headers: petstore.headers })),
    ])
    for (const { status } of answers) assert.equal(status, 200)
    for (const answer of answers) if (answer instanceof Response) await answer.text()
    assert.equal(await petstore.close(), 0)
  }
})
