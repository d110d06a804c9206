// To run it: in the clone, run `npm ci` and then `npm pack`. In this folder, run
// `npm install --save-dev ../../petstore-server-1.0.0.tgz` and then `npm test`.
import assert from 'node:assert/strict'
import { afterEach, beforeEach, test } from 'node:test'
import { startPetstore } from 'petstore-server'
import { addPet } from './client.js'

const TOM = { name: 'Tom', categoryId: 2 }

let petstore
beforeEach(async () => {
  petstore = await startPetstore({ pets: [{ name: 'Rex', categoryId: 1 }] })
})
afterEach(async () => {
  await petstore.close()
  petstore.verify()
})

test('a pet is added', async () => {
  assert.deepEqual(await addPet(petstore, TOM), { id: 2, ...TOM })
  assert.equal(petstore.pets.length, 2)
})

test('a busy store is asked again', async () => {
  const fault = petstore.inject({ operation: 'createPet', times: 2, status: 503 })
  await addPet(petstore, TOM)
  assert.equal(fault.hits, 2)
  assert.equal(petstore.pets.length, 2)
})

test('a store that stays busy is asked four times', async () => {
  const fault = petstore.inject({ operation: 'createPet', times: 'always', status: 503, retryAfter: 0 })
  await assert.rejects(addPet(petstore, TOM), /503/)
  assert.equal(fault.hits, 4)
})

test('a store that asks for an hour is not asked again', async () => {
  petstore.inject({ operation: 'createPet', status: 429, retryAfter: 3600 })
  await assert.rejects(addPet(petstore, TOM), /429/)
  assert.equal(petstore.requests.length, 1)
})
