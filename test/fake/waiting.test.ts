// Waiting for requests: which count, and what an error says.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { RecordedRequest } from '../../src/types.ts'
import { send, start } from '../support.ts'

const REX = '{"name":"Rex","categoryId":1}'
const LATER = { timeout: 600_000 }

test('waitForRequests() takes earlier requests and later ones, by every filter', async (t) => {
  const petstore = await start(t)
  const { waitForRequests } = petstore
  assert.deepEqual(await waitForRequests(0), [])
  await send(petstore, 'GET', '/v1/pets?a')
  const waits = [
    waitForRequests(2, { ...LATER, operation: 'listPets' }),
    waitForRequests(3, { ...LATER, status: 404 }),
    waitForRequests(2, { ...LATER, matching: ({ query }) => query > 'b' }),
    waitForRequests(1, { ...LATER, operation: 'getPet', status: 404, matching: () => true }),
    waitForRequests(1, { ...LATER, status: null }),
  ]
  await send(petstore, 'GET', '/v1/pets/1?b')
  await send(petstore, 'GET', '/v1/pets?c')
  for (const path of ['/v1/cats?d', '/none?e']) await send(petstore, 'GET', path)
  petstore.inject({ operation: 'createPet', hangUp: true })
  await send(petstore, 'POST', '/v1/pets?f', { body: REX }).catch(() => {})
  const found = (await Promise.all(waits)).map((some) => some.map(({ query }) => query).join(''))
  assert.deepEqual(found, ['ac', 'bde', 'cd', 'b', 'f'])
  assert.deepEqual(await waitForRequests(2, { timeout: 0 }), petstore.requests)
})

test('a time-out lists the latest 20, on one line each', async (t) => {
  const petstore = await start(t)
  const error = { name: 'Error', code: 'timeout' }
  const none = petstore.waitForRequests(1, { timeout: 0 })
  await assert.rejects(none, { ...error, message: 'timeout: waited for 1 request; none came' })
  for (let at = 0; at < 18; at++) await send(petstore, 'GET', '/v1/pets/1')
  petstore.clearRequests()
  for (let at = 0; at < 17; at++) await send(petstore, 'GET', '/v1/pets')
  await send(petstore, 'POST', '/v1/pets', {
    body: REX.replace(',', `,\n"${'x'.repeat(300)}":\n0,`),
  })
  await send(petstore, 'GET', '/v1/pets/9?a=b')
  petstore.inject({ operation: '*', hangUp: true })
  await send(petstore, 'GET', '/v1/pets').catch(() => {})
  const matching = ({ path }: RecordedRequest) => path
  const lines = [
    `timeout: waited for 9 requests, operation getPet, status null, matching ${matching}; ` +
      'these came last:',
    ...Array<string>(17).fill('  GET /v1/pets 200'),
    `  POST /v1/pets 201 {"name":"Rex", "${'x'.repeat(184)}`,
    '  GET /v1/pets/9?a=b 404 not_found: There is no pet with this id',
    '  GET /v1/pets no response',
  ]
  const options = { operation: 'getPet', status: null, timeout: 0, matching }
  const missing: Promise<unknown> = Reflect.apply(petstore.waitForRequests, petstore, [9, options])
  await assert.rejects(missing, { ...error, message: lines.join('\n') })
  await send(petstore, 'GET', '/v1/pets?last')
  const more = petstore.waitForRequests(1_000, { timeout: 0 })
  await assert.rejects(more, /last:(\n {2}GET \/v1\/pets 200){16}\n[^]*\?last 200$/)
})

test('close() ends a wait, and keeps what came', async (t) => {
  const petstore = await start(t)
  await send(petstore, 'GET', '/v1/pets')
  const wait = () => petstore.waitForRequests(2, LATER)
  const error = {
    code: 'closed',
    message: /^closed: waited for 2 requests; these came last:\n {2}GET/,
  }
  const waiting = assert.rejects(wait(), error)
  await petstore.close()
  await waiting
  await assert.rejects(wait(), error)
  assert.equal((await petstore.waitForRequests(1)).length, 1)
})

test('an error that `matching` throws ends its wait alone', async (t) => {
  const petstore = await start(t)
  const cause = new Error('from the test')
  const matching = () => {
    throw cause
  }
  const waits = [petstore.waitForRequests(1, { matching }), petstore.waitForRequests(1)]
  const failing = assert.rejects(waits[0] ?? Promise.resolve(), cause)
  await send(petstore, 'GET', '/v1/pets')
  await failing
  assert.equal((await waits[1])?.length, 1)
  await assert.rejects(petstore.waitForRequests(1, { matching }), cause)
})

const WRONG: [name: 'TypeError' | 'RangeError', message: string, ...args: unknown[]][] = [
  ['TypeError', 'count is required and must be an integer from 0 to 1000'],
  ['TypeError', "count '1' must be an integer from 0 to 1000", '1'],
  ['RangeError', 'count -1 must be an integer from 0 to 1000', -1],
  ['RangeError', 'count 1001 must be an integer from 0 to 1000', 1_001],
  ['RangeError', 'count 0.5 must be an integer from 0 to 1000', 0.5],
  ['TypeError', 'options must be an object', 1, null],
  ['TypeError', 'options must be an object', 1, 5_000],
  [
    'TypeError',
    "options must not have 'method'; known are operation, status, matching, timeout",
    1,
    { method: 'GET' },
  ],
  ['RangeError', "operation '*' must be one of listPets, createPet, getPet", 1, { operation: '*' }],
  [
    'TypeError',
    'operation null must be one of listPets, createPet, getPet',
    1,
    { operation: null },
  ],
  ['RangeError', 'status 99 must be an integer from 100 to 599, or null', 1, { status: 99 }],
  ['TypeError', "status '200' must be an integer from 100 to 599, or null", 1, { status: '200' }],
  ['TypeError', 'matching /a/ must be a function of a request', 1, { matching: /a/ }],
  ['RangeError', 'timeout -1 must be an integer from 0 to 600000 ms', 1, { timeout: -1 }],
  ['RangeError', 'timeout 600001 must be an integer from 0 to 600000 ms', 1, { timeout: 600_001 }],
  ['TypeError', "timeout '1' must be an integer from 0 to 600000 ms", 1, { timeout: '1' }],
]

test('waitForRequests() rejects what it cannot wait for', async (t) => {
  const { waitForRequests } = await start(t)
  for (const [name, message, ...args] of WRONG) {
    const waiting: Promise<unknown> = Reflect.apply(waitForRequests, undefined, args)
    await assert.rejects(waiting, { name, code: 'invalid_option', message })
  }
})
