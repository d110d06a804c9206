// To run it: in the clone, run `npm ci` and then `npm pack`. In this folder, run
// `npm install --save-dev ../../petstore-server-1.0.0.tgz` and then `npm test`.
import { type Petstore, startPetstore } from 'petstore-server'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { addPet } from './client'

const TOM = { name: 'Tom', categoryId: 2 }
const statuses = () => petstore.requests.map(({ status }) => status)

let petstore: Petstore
beforeEach(async () => {
  petstore = await startPetstore({ pets: [{ name: 'Rex', categoryId: 1 }] })
})
afterEach(() => petstore.close())

test('a pet is added', async () => {
  expect(await addPet(petstore, TOM)).toEqual({ id: 2, ...TOM })
  expect(petstore.pets).toHaveLength(2)
})

test('a busy store is asked again', async () => {
  petstore.inject({ operation: 'createPet', times: 2, status: 503 })
  await addPet(petstore, TOM)
  expect(statuses()).toEqual([503, 503, 201])
})

test('a store that stays busy is asked four times', async () => {
  petstore.inject({ operation: 'createPet', times: 'always', status: 503, retryAfter: 0 })
  await expect(addPet(petstore, TOM)).rejects.toThrow('503')
  expect(statuses()).toEqual([503, 503, 503, 503])
})

test('a store that asks for an hour is not asked again', async () => {
  petstore.inject({ operation: 'createPet', status: 429, retryAfter: 3600 })
  await expect(addPet(petstore, TOM)).rejects.toThrow('429')
  expect(statuses()).toEqual([429])
})
