// To run it: in the clone, run `npm ci` and then `npm pack`. In this folder, run
// `npm install --save-dev ../../petstore-server-1.0.0.tgz` and then `npm test`.
import { connectPetstore } from 'petstore-server'
import { afterEach, beforeEach, expect, inject, test } from 'vitest'
import { addPet } from './client'

const TOM = { name: 'Tom', categoryId: 2 }

// Each worker has a key, and so a store of its own.
const apiKey = `worker-${process.env.VITEST_POOL_ID}`
const petstore = connectPetstore({ ...inject('petstore'), apiKey })
beforeEach(() => petstore.reset())
afterEach(() => petstore.verify())

test('a pet is added', async () => {
  expect(await addPet(petstore, TOM)).toEqual({ id: 2, ...TOM })
  expect(await petstore.pets).toHaveLength(2)
})

test('a busy store is asked again', async () => {
  const fault = await petstore.inject({ operation: 'createPet', times: 2, status: 503 })
  await addPet(petstore, TOM)
  expect(await fault.hits).toBe(2)
  expect(await petstore.pets).toHaveLength(2)
})

test('a store that stays busy is asked four times', async () => {
  const busy = { operation: 'createPet', times: 'always', status: 503, retryAfter: 0 } as const
  const fault = await petstore.inject(busy)
  await expect(addPet(petstore, TOM)).rejects.toThrow('503')
  expect(await fault.hits).toBe(4)
})

test('a store that asks for an hour is not asked again', async () => {
  await petstore.inject({ operation: 'createPet', status: 429, retryAfter: 3600 })
  await expect(addPet(petstore, TOM)).rejects.toThrow('429')
  expect(await petstore.requests).toHaveLength(1)
})
