// Connections: pipelines, and their bounds.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { RawConnection, start, temporaryFolder } from '../support.ts'
import { ask, assertNext, chunk, get, open, post, postChunked, postHead, REX } from './raw.ts'
import { until } from './raw.ts'

const pet = (id: number): string => REX.replace('{', `{"id":${id},`)
const HOUR = 600_000 // longer than any test waits

for (const kind of ['memory', 'a snapshot']) {
  test(`a pipelined request sees the pets of slow ones before it, in ${kind}`, async (t) => {
    const options = kind === 'memory' ? {} : { snapshot: `${temporaryFolder(t)}/pets.json` }
    const petstore = await start(t, options)
    petstore.inject({ operation: 'createPet', delay: 20 })
    const chunked = postChunked(`${chunk(REX)}0\r\n\r\n`)
    const bytes = get() + post() + get() + chunked + get('/v1/pets?after=1')
    const answers = await assertNext(await open(t, petstore, bytes), 200, 201, 200, 201, 200)
    const bodies = answers.map(({ body }) => body)
    assert.deepEqual(bodies, ['[]', pet(1), `[${pet(1)}]`, pet(2), `[${pet(2)}]`])
  })
}

test('ten requests may wait for the one in progress; one more closes the connection', async (t) => {
  const petstore = await start(t, { pets: [{ name: 'Rex', categoryId: 1 }] })
  const connection = await open(t, petstore, post() + get('/v1/pets/1').repeat(10))
  await assertNext(connection, 201, ...Array<number>(10).fill(200))
  petstore.inject({ operation: 'createPet', delay: HOUR })
  petstore.clearRequests()
  await connection.write(post() + get('/v1/pets/1').repeat(11))
  assert.equal(await connection.rest(), '')
  const requests = await petstore.waitForRequests(12, { status: null })
  assert.equal(requests.length, 12)
  petstore.clearFaults()
})

test('a connection that is answered at once takes any number of requests', async (t) => {
  const petstore = await start(t)
  const connection = await open(t, petstore, get().repeat(300))
  await assertNext(connection, ...Array<number>(300).fill(200))
})

test('a new connection beyond maxConnections is closed', async (t) => {
  const petstore = await start(t, { maxConnections: 1 })
  const first = await ask(t, petstore, get(), 200)
  assert.equal(await new RawConnection(t, petstore).rest(), '')
  await first.write(get())
  await assertNext(first, 200)
  first.socket.destroy()
})

test('an idle connection is closed after keepAlive, without a response', async (t) => {
  const petstore = await start(t, { keepAlive: 1 })
  const connection = await open(t, petstore, get().repeat(2))
  await assertNext(connection, 200, 200)
  assert.equal(await connection.rest(), '')
})

test('a client that leaves is recorded without a response, and its pet is added', async (t) => {
  const petstore = await start(t)
  petstore.inject({ operation: 'createPet', delay: 20 })
  const { socket } = await open(t, petstore, post())
  await until(() => petstore.pendingFaults.length === 0)
  socket.resetAndDestroy()
  const [left] = await petstore.waitForRequests(1, { operation: 'createPet' })
  assert.equal(left?.status, null)
  await until(() => petstore.pets.length === 1)
})

test('a connection that is reset anywhere harms nobody', async (t) => {
  const petstore = await start(t)
  const all = [
    '',
    'GET',
    get(),
    postHead(100),
    `${get()}garbage\r\n\r\n`,
    'CONNECT a:80 HTTP/1.1\r\n\r\n',
  ]
  for (const bytes of all) {
    const { socket } = await open(t, petstore, bytes)
    socket.resetAndDestroy()
  }
  await ask(t, petstore, get(), 200)
})
