// The end of a petstore: what becomes of requests, and of its port.
import assert from 'node:assert/strict'
import { Agent } from 'node:http'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { startPetstore } from '../../src/index.ts'
import type { Petstore } from '../../src/types.ts'
import { KEY, RawConnection, send, start } from '../support.ts'

const REX = { name: 'Rex', categoryId: 1, status: 'sold' } as const
const GET = `GET /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${KEY}\r\n\r\n`

/** Sends requests that a fault delays, and waits until it does. */
async function delay(petstore: Petstore, ms: number): Promise<Promise<number | string>[]> {
  petstore.inject({ operation: '*', delay: ms, times: 2 })
  const sent = [1, 2].map(() =>
    send(petstore, 'GET', '/v1/pets').then(
      ({ status }) => status,
      ({ code }) => code,
    ),
  )
  while (petstore.pendingFaults.length > 0) await nextTurn()
  return sent
}

test('close() cuts off what is in flight, and tells how many requests that were', async (t) => {
  const petstore = await start(t)
  const idle = new RawConnection(t, petstore)
  await idle.write(GET)
  await idle.read()
  const delayed = await delay(petstore, 600_000)
  assert.equal(await petstore.close(), 2)
  assert.deepEqual(await Promise.all(delayed), ['ECONNRESET', 'ECONNRESET'])
  assert.equal(await idle.rest(), '')
  assert.equal(await petstore.close(), 2)
})

test('close(drain) lets requests finish meanwhile; a second call can shorten it', async (t) => {
  const first = await start(t)
  const served = await delay(first, 5)
  assert.equal(await first.close(600_000), 0)
  assert.deepEqual(await Promise.all(served), [200, 200])
  const second = await start(t)
  const delayed = await delay(second, 600_000)
  const closing = second.close(600_000)
  await assert.rejects(send(second, 'GET', '/v1/pets'), { code: 'ECONNREFUSED' })
  assert.deepEqual([await second.close(1), await closing], [2, 2])
  assert.deepEqual(await Promise.all(delayed), ['ECONNRESET', 'ECONNRESET'])
})

test('close() refuses a drain that is not milliseconds, and closes nothing', async (t) => {
  const petstore = await start(t)
  for (const drain of [null, '5', -1, 0.5, Number.NaN, 86_400_001]) {
    const name = typeof drain === 'number' ? 'RangeError' : 'TypeError'
    const closing: Promise<unknown> = Reflect.apply(petstore.close, undefined, [drain])
    const message = /^drain .* must be an integer from 0 to 86400000 ms$/
    await assert.rejects(closing, { name, code: 'invalid_option', message })
  }
  assert.equal((await send(petstore, 'GET', '/v1/pets')).status, 200)
})

test('a closed petstore says so, and keeps what a test may still look at', async () => {
  const petstore = await startPetstore({ apiKeys: [KEY], pets: [REX] })
  await send(petstore, 'GET', '/v1/pets')
  await petstore[Symbol.asyncDispose]()
  const closed = { name: 'Error', code: 'closed' }
  await assert.rejects(petstore.add([REX]), closed)
  await assert.rejects(petstore.reset(), closed)
  await assert.rejects(petstore.waitForRequests(2), closed)
  assert.throws(() => petstore.inject({ operation: '*', status: 503 }), closed)
  assert.deepEqual([petstore.pets, petstore.requests.length], [[{ id: 1, ...REX }], 1])
  await assert.rejects(send(petstore, 'GET', '/v1/pets'), { code: 'ECONNREFUSED' })
})

test('a port in use is the error of the system, and nothing stays open', async (t) => {
  const { url } = await start(t)
  const port = Number(new URL(url).port)
  const error = { code: 'EADDRINUSE' }
  await assert.rejects(startPetstore({ port, controlPort: 0 }), error)
  const free = await startPetstore()
  await free.close()
  const ports = { port: Number(new URL(free.url).port) }
  await assert.rejects(startPetstore({ ...ports, controlPort: port }), error)
  await assert.rejects(startPetstore({ ...ports, controlPort: ports.port }), error)
  assert.ok((await start(t, ports)).url)
})

test('once closed, another one on its port serves the first request', async (t) => {
  const agent = new Agent({ keepAlive: true })
  t.after(() => agent.destroy())
  let port = 0
  for (let round = 0; round < 10; round++) {
    const petstore = await startPetstore({ port, apiKeys: [KEY], controlPort: 0 })
    port = Number(new URL(petstore.url).port)
    for (let times = 0; times < 2; times++) {
      assert.equal((await send(petstore, 'GET', '/v1/pets', { agent })).status, 200)
      assert.equal((await fetch(`${petstore.url}/pets`, petstore)).status, 200)
    }
    const left = assert.rejects(petstore.waitForRequests(100), { code: 'closed' })
    await petstore.close()
    await left
  }
  // The test's own clients need some turns to see that their connections have ended.
  while (process.getActiveResourcesInfo().some((name) => /^TCP/.test(name))) await nextTurn()
})
