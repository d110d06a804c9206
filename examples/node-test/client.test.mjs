// To run it: `npm ci` and `npm pack` in the clone, then `npm install` and `npm test` here.
import assert from 'node:assert/strict'
import { afterEach, beforeEach, test } from 'node:test'
import { startPetstore } from 'petstore-server'
import { addPet } from '../client.mjs'

const TOM = { name: 'Tom', categoryId: 2 }

let petstore
beforeEach(async () => {
  petstore = await startPetstore({ pets: [{ name: 'Rex', categoryId: 1 }] })
})
afterEach(() => petstore.close())

test('a busy store is asked again', async () => {
  const fault = petstore.inject({ operation: 'createPet', status: 503 })
  assert.deepEqual(await addPet(petstore, TOM), { id: 2, ...TOM })
  assert.equal(fault.hits, 1)
})

test('a lost response does not add the pet twice', async () => {
  petstore.inject({ operation: 'createPet', hangUp: true, done: true })
  assert.deepEqual(await addPet(petstore, TOM), { id: 2, ...TOM })
  assert.equal(petstore.pets.length, 2)
})

test('a pet is added in the background', async () => {
  const adding = addPet(petstore, TOM)
  const [request] = await petstore.waitForRequests(1, { operation: 'createPet' })
  assert.deepEqual(JSON.parse(request.body), TOM)
  await adding
})
