// To run it: `npm ci` and `npm pack` in the clone, then `npm install`, `npx playwright install
// chromium` and `npm test` here.
import { expect, test } from '@playwright/test'
import { startPetstore } from 'petstore-server'

const SHOP = 'http://localhost:5173'
// The page comes from this folder, so Chromium asks before it may call a local server.
test.use({ permissions: ['local-network-access'] })

let petstore
test.beforeEach(async ({ page }) => {
  petstore = await startPetstore({ cors: SHOP, pets: [{ name: 'Rex', categoryId: 1 }] })
  const { url, headers } = petstore
  await page.addInitScript(`globalThis.api = ${JSON.stringify({ url, headers })}`)
  await page.route(`${SHOP}/page.html`, (route) => route.fulfill({ path: 'page.html' }))
  await page.route(`${SHOP}/client.mjs`, (route) => route.fulfill({ path: '../client.mjs' }))
  await page.goto(`${SHOP}/page.html`)
})
test.afterEach(() => petstore.close())

test('a store that stays busy is reported', async ({ page }) => {
  petstore.inject({ operation: '*', times: 'always', status: 503 })
  await page.getByRole('button').click()
  await expect(page.getByRole('status')).toHaveText('Not added: status 503')
})

test('a lost response does not add the pet twice', async ({ page }) => {
  // Not `true`: a browser itself repeats a request that got no response on a kept connection.
  petstore.inject({ operation: 'createPet', hangUp: 'halfway' })
  await page.getByRole('button').click()
  await expect(page.getByRole('status')).toHaveText('Added: 2')
  expect(petstore.pets).toHaveLength(2)
})

test('the pet is sent', async ({ page }) => {
  await page.getByRole('button').click()
  const [request] = await petstore.waitForRequests(1, { operation: 'createPet' })
  expect(JSON.parse(request.body)).toEqual({ name: 'Tom', categoryId: 2 })
})
