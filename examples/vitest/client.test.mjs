// To run it: `npm ci` and `npm pack` in the clone, then `npm install` and `npm test` here.
import { startPetstore } from 'petstore-server'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { addPet } from '../client.mjs'

const TOM = { name: 'Tom', categoryId: 2 }

let petstore
beforeEach(async () => {
  petstore = await startPetstore({ pets: [{ name: 'Rex', categoryId: 1 }] })
})
afterEach(() => petstore.close())

test('a busy store is asked again', async () => {
  const fault = petstore.inject({ operation: 'createPet', status: 503 })
  expect(await addPet(petstore, TOM)).toEqual({ id: 2, ...TOM })
  expect(fault.hits).toBe(1)
})

test('a lost response does not add the pet twice', async () => {
  petstore.inject({ operation: 'createPet', hangUp: true, done: true })
  expect(await addPet(petstore, TOM)).toEqual({ id: 2, ...TOM })
  expect(petstore.pets).toHaveLength(2)
})

test('a pet is added in the background', async () => {
  const adding = addPet(petstore, TOM)
  const [request] = await petstore.waitForRequests(1, { operation: 'createPet' })
  expect(JSON.parse(request.body)).toEqual(TOM)
  await adding
})
