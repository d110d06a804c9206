import { expect, test } from '@playwright/test'
import { type Petstore, startPetstore } from 'petstore-server'

// API tests need no browser. What calls the pet store here is Playwright's own `request`.
let petstore: Petstore
test.beforeEach(async () => {
  petstore = await startPetstore({ pets: [{ name: 'Rex', categoryId: 1 }] })
})
test.afterEach(() => petstore.close())

test('a pet is added', async ({ request }) => {
  const data = { name: 'Tom', categoryId: 2 }
  const response = await request.post(`${petstore.url}/pets`, { headers: petstore.headers, data })
  expect(response.status()).toBe(201)
  expect(await response.json()).toEqual({ id: 2, ...data })
  expect(petstore.pets).toHaveLength(2)
})

test('a busy store says when to come back', async ({ request }) => {
  petstore.inject({ operation: 'listPets', status: 503, retryAfter: 1 })
  const response = await request.get(`${petstore.url}/pets`, { headers: petstore.headers })
  expect(response.headers()['retry-after']).toBe('1')
  expect(petstore.requests.map(({ status }) => status)).toEqual([503])
})
