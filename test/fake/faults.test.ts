// Faults: which requests fail. fault-effects.test.ts has how.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Fault } from '../../src/types.ts'
import { send, start } from '../support.ts'

const BODY = '{"name":"Rex","categoryId":7}'

test('the first injected that is due applies, one to a request, `times` times', async (t) => {
  const petstore = await start(t)
  const list = async () => (await send(petstore, 'GET', '/v1/pets')).status
  const faults: Fault[] = [
    { operation: 'getPet', status: 404 },
    { operation: 'listPets', status: 500, times: 2, after: undefined },
    { operation: '*', status: 599, after: 1 },
    { operation: 'listPets', status: 598, after: 2 },
    { operation: 'listPets', status: 597, times: 'always' },
  ]
  const [none, twice, , , always] = faults.map((fault) => petstore.inject(fault))
  const pending = faults.map((fault) => ({ ...fault, times: fault.times ?? 1, hits: 0 }))
  assert.deepEqual(petstore.pendingFaults, pending)
  assert.equal(await list(), 500)
  assert.deepEqual(petstore.pendingFaults[1], { ...pending[1], times: 1, hits: 1 })
  // Those that an earlier fault took do not count: only now the others begin to count.
  const statuses = [await list(), await list(), await list(), await list(), await list()]
  assert.deepEqual(statuses, [500, 597, 599, 597, 598])
  const orders = await send(petstore, 'GET', '/v1/store/orders')
  assert.deepEqual([orders.status, await list()], [501, 597])
  assert.deepEqual([none?.hits, twice?.hits, always?.hits], [0, 2, 3])
  assert.deepEqual(petstore.pendingFaults, [pending[0], { ...pending[4], hits: 3 }])
  always?.remove()
  twice?.remove() // it is gone already
  assert.deepEqual([await list(), petstore.pendingFaults], [200, [pending[0]]])
  petstore.clearFaults()
  assert.deepEqual(petstore.pendingFaults, [])
})

test('of requests at once, `after` of them pass and `times` fail', async (t) => {
  const petstore = await start(t)
  petstore.inject({ operation: 'createPet', after: 3, times: 7, status: 503, delay: 1 })
  const creates = Array.from({ length: 20 }, () =>
    send(petstore, 'POST', '/v1/pets', { body: BODY }),
  )
  const statuses = (await Promise.all(creates)).map(({ status }) => status)
  assert.equal(statuses.filter((status) => status === 503).length, 7)
  assert.deepEqual([petstore.pets.length, petstore.pendingFaults], [13, []])
})

type Unreached = [status: number, method: string, path: string, headers?: object, body?: string]
const REACH_NO_OPERATION: readonly Unreached[] = [
  [401, 'GET', '/v1/pets', { authorization: 'Bearer wrong-key' }],
  [415, 'POST', '/v1/pets', { 'content-type': 'text/plain' }, BODY],
  [413, 'POST', '/v1/pets', {}, 'x'.repeat(41)],
  [413, 'POST', '/v1/pets', { 'transfer-encoding': 'chunked' }, 'x'.repeat(41)],
  [417, 'GET', '/v1/pets', { expect: 'a' }],
  [404, 'GET', '/v1/cats'],
  [405, 'PUT', '/v1/pets'],
  [204, 'OPTIONS', '/v1/pets'],
  [200, 'GET', '/'],
  [200, 'GET', '/openapi.json'],
  [200, 'HEAD', '/readyz'],
]

test('a request that passes not all checks, or names no operation, uses up no fault', async (t) => {
  const petstore = await start(t, { maxBody: 40 })
  const fault = petstore.inject({ operation: '*', hangUp: true })
  for (const [status, method, path, more, body = ''] of REACH_NO_OPERATION) {
    const answer = await send(petstore, method, path, { headers: { ...more }, body })
    assert.equal(answer.status, status, `${method} ${path}`)
  }
  assert.equal(fault.hits, 0)
  // What the operation would refuse itself has passed them.
  await assert.rejects(send(petstore, 'POST', '/v1/pets', { body: '{' }), { code: 'ECONNRESET' })
})

test('at most 1,000 faults are pending', async (t) => {
  const petstore = await start(t)
  const fault = { operation: 'getPet', hangUp: true } as const
  const [first] = Array.from({ length: 1_000 }, () => petstore.inject(fault))
  const message = 'there must be at most 1000 pending faults'
  const error = { name: 'TypeError', code: 'invalid_option', message }
  assert.throws(() => petstore.inject(fault), error)
  first?.remove()
  petstore.inject(fault)
  assert.throws(() => petstore.inject(fault), error)
})

test('a fault is copied on its way in and out', async (t) => {
  const petstore = await start(t)
  const fault = { operation: 'getPet', status: 500, headers: { a: '1' } } as const
  const given = structuredClone(fault)
  petstore.inject(given)
  for (const one of [given, ...petstore.pendingFaults]) {
    Object.assign(one, { operation: '*' })
    Object.assign(one.headers ?? {}, { a: '2' })
  }
  petstore.pendingFaults.pop()
  assert.deepEqual(petstore.pendingFaults, [{ ...fault, times: 1, hits: 0 }])
})
