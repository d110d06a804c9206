import assert from 'node:assert/strict'
import { afterEach, beforeEach, test } from 'node:test'
import { startPetstore } from 'petstore-server'
import { addPet } from './client.js'

let petstore
beforeEach(async () => {
  petstore = await startPetstore({ pets: [{ name: 'Rex', categoryId: 1 }] })
})
afterEach(() => petstore.close())

test('a pet is added', async () => {
  assert.deepEqual(await addPet(petstore, { name: 'Tom', categoryId: 2 }), { id: 2, name: 'Tom', categoryId: 2 })
  assert.equal(petstore.pets.length, 2)
})

test('a busy store is asked again', async () => {
  petstore.inject({ operation: 'createPet', times: 2, status: 503 })
  await addPet(petstore, { name: 'Tom', categoryId: 2 })
  assert.deepEqual(
    petstore.requests.map(({ status }) => status),
    [503, 503, 201],
  )
})
