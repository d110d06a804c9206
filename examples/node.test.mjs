import assert from 'node:assert/strict'
import { afterEach, beforeEach, test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { startPetstore } from 'petstore-server'
import { addPet } from './client.js'

const TOM = { name: 'Tom', categoryId: 2 }

let petstore
beforeEach(async () => {
  petstore = await startPetstore({ pets: [{ name: 'Rex', categoryId: 1 }] })
})
afterEach(() => petstore.close())

test('a busy store is asked again after 30 seconds', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const { mock } = t.mock.method(globalThis, 'setTimeout')
  petstore.inject({ operation: 'createPet', status: 503, headers: { 'Retry-After': 30 } })
  const adding = addPet(petstore, TOM)
  // Until the client waits: `waitForRequests` resolves before the client has the response.
  while (!mock.calls.some((call) => call.arguments[1] === 30_000)) await setImmediate()
  t.mock.timers.tick(30_000)
  assert.deepEqual(await adding, { id: 2, ...TOM })
})

test('a lost response does not add the pet twice', async () => {
  petstore.inject({ operation: 'createPet', hangUp: true, done: true })
  assert.deepEqual(await addPet(petstore, TOM), { id: 2, ...TOM })
  assert.equal((await petstore.pets()).length, 2)
})
