import { startPetstore } from 'petstore-server'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { addPet } from './client.js'

const TOM = { name: 'Tom', categoryId: 2 }

let petstore
beforeEach(async () => {
  petstore = await startPetstore({ pets: [{ name: 'Rex', categoryId: 1 }] })
})
afterEach(() => petstore.close())

test('a busy store is asked again after 30 seconds', async ({ onTestFinished }) => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }) // fetch needs setImmediate
  onTestFinished(() => vi.useRealTimers())
  const setTimeout = vi.spyOn(globalThis, 'setTimeout')
  petstore.inject({ operation: 'createPet', status: 503, headers: { 'Retry-After': 30 } })
  const adding = addPet(petstore, TOM)
  // Until the client waits: `waitForRequests` resolves before the client has the response.
  await vi.waitFor(() => expect(setTimeout).toHaveBeenCalledWith(expect.anything(), 30_000))
  vi.advanceTimersByTime(30_000)
  expect(await adding).toEqual({ id: 2, ...TOM })
})

test('a lost response does not add the pet twice', async () => {
  petstore.inject({ operation: 'createPet', hangUp: true, done: true })
  expect(await addPet(petstore, TOM)).toEqual({ id: 2, ...TOM })
  expect(await petstore.pets()).toHaveLength(2)
})
