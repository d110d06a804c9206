// To run it: in the clone, run `npm ci` and then `npm pack`. In this folder, run
// `npm install --save-dev ../../petstore-server-1.0.0.tgz` and then `npm test`.
import { expect, test } from '@playwright/test'
import { type Petstore, startPetstore } from 'petstore-server'
import { addPet } from './client'

const TOM = { name: 'Tom', categoryId: 2 }

// API tests need no browser: the client uses Playwright's own `request`. ../browser tests a page.
let petstore: Petstore
test.beforeEach(async () => {
  petstore = await startPetstore({ pets: [{ name: 'Rex', categoryId: 1 }] })
})
test.afterEach(async () => {
  await petstore.close()
  petstore.verify()
})

test('a pet is added', async ({ request }) => {
  expect(await addPet(request, petstore, TOM)).toEqual({ id: 2, ...TOM })
  expect(petstore.pets).toHaveLength(2)
})

test('a busy store is asked again', async ({ request }) => {
  const fault = petstore.inject({ operation: 'createPet', times: 2, status: 503 })
  await addPet(request, petstore, TOM)
  expect(fault.hits).toBe(2)
  expect(petstore.pets).toHaveLength(2)
})

test('a store that stays busy is asked four times', async ({ request }) => {
  const fault = petstore.inject({ operation: 'createPet', times: 'always', status: 503, retryAfter: 0 })
  await expect(addPet(request, petstore, TOM)).rejects.toThrow('503')
  expect(fault.hits).toBe(4)
})

test('a store that asks for an hour is not asked again', async ({ request }) => {
  petstore.inject({ operation: 'createPet', status: 429, retryAfter: 3600 })
  await expect(addPet(request, petstore, TOM)).rejects.toThrow('429')
  expect(petstore.requests).toHaveLength(1)
})
