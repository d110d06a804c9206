// How a server stops.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { test, type TestContext } from 'node:test'
import { RawConnection, start } from '../support.ts'
import { ask, assertLast, assertNext, type Expected, get, HOST, open, post } from './raw.ts'
import { postHead, request, REX, until } from './raw.ts'

const DRAIN = 600_000 // longer than any test waits

/** A connection with a request whose body is not complete. */
async function openInFlight(t: TestContext, petstore: { url: string }): Promise<RawConnection> {
  const connection = await ask(t, petstore, postHead(REX.length, 'Expect: 100-continue'), 100)
  await connection.write(REX.slice(0, 9))
  return connection
}

test('it stops listening, closes unused and idle connections, and serves the others', async (t) => {
  const petstore = await start(t)
  const unused = new RawConnection(t, petstore)
  await once(unused.socket, 'connect')
  const idle = await ask(t, petstore, get(), 200)
  const busy = await openInFlight(t, petstore)
  const closing = petstore.close(DRAIN)
  assert.equal(await unused.rest(), '')
  const refused = connect(Number(new URL(petstore.url).port), '127.0.0.1')
  const [error] = await once(refused, 'error')
  assert.equal(error.code, 'ECONNREFUSED')
  assert.equal(await idle.rest(), '')
  await busy.write(REX.slice(9))
  await assertLast(busy, 201)
  assert.equal(await closing, 0)
})

const LATE: Record<string, [bytes: string, expected: Expected]> = {
  'a create': [post(), 201],
  '/readyz': [get('/readyz'), '503 not_ready'],
  '/livez': [get('/livez'), 200],
  'a request that cannot be read': [request('GET / HTTP/1.1', []), '400 bad_request'],
  garbage: ['garbage\r\n\r\n', '400 bad_request'],
}
test('what still comes on an idle connection is answered, as its last', async (t) => {
  const petstore = await start(t)
  const connections = await Promise.all(
    Object.values(LATE).map(async ([bytes, expected]) => {
      return { connection: await ask(t, petstore, get(), 200), bytes, expected }
    }),
  )
  const closing = petstore.close(DRAIN)
  for (const { connection, bytes } of connections) connection.socket.write(bytes)
  for (const { connection, expected } of connections) await assertLast(connection, expected)
  assert.equal(await closing, 0)
  assert.equal(petstore.pets.length, 1)
})

test('it waits for pipelined requests, whose last response says Connection: close', async (t) => {
  const petstore = await start(t)
  petstore.inject({ operation: 'createPet', delay: 20 })
  const connection = await open(t, petstore, post() + get('/v1/pets/1') + get())
  await until(() => petstore.pendingFaults.length === 0)
  const closing = petstore.close(DRAIN)
  const [created, fetched] = await assertNext(connection, 201, 200)
  for (const answer of [created, fetched]) assert.equal(answer?.headers.connection, 'keep-alive')
  await assertLast(connection, 200)
  assert.equal(await closing, 0)
})

test('it cuts off what does not finish in time, and counts and records it', async (t) => {
  const petstore = await start(t)
  const inFlight = [await openInFlight(t, petstore), await openInFlight(t, petstore)]
  // Neither counts: one has its response, the other is no request yet.
  const refused = await ask(
    t,
    petstore,
    request('POST /v1/x HTTP/1.1', [HOST, 'Content-Length: 9']),
    401,
  )
  const begun = await ask(t, petstore, `${get()}GET /v1/pets HT`, 200)
  assert.equal(await petstore.close(1), 2)
  for (const one of [...inFlight, refused, begun]) assert.equal(await one.rest(), '')
  const statuses = petstore.requests.map(({ status }) => status)
  assert.deepEqual(statuses, [null, null, 401, 200])
})

test('a second call shortens the wait, and counts the same', async (t) => {
  const petstore = await start(t)
  await openInFlight(t, petstore)
  const first = petstore.close(DRAIN)
  assert.equal(await petstore.close(), 1)
  assert.equal(await first, 1)
})

test('a response that its client reads slowly is not cut', async (t) => {
  const pets = Array.from({ length: 100 }, () => ({ name: 'x'.repeat(120_000), categoryId: 1 }))
  const petstore = await start(t, { pets })
  const idle = await ask(t, petstore, get('/livez'), 200)
  const slow = connect(Number(new URL(petstore.url).port), '127.0.0.1')
  slow.write(get('/v1/pets?limit=100')) // 12 MB, more than the system buffers
  await petstore.waitForRequests(1)
  const closing = petstore.close(DRAIN)
  assert.equal(await idle.rest(), '') // by then the server has looked for idle connections
  let length = 0
  for await (const chunk of slow) length += chunk.length
  assert.ok(length > 12_000_000, `${length} bytes`)
  assert.equal(await closing, 0)
})
