import { expect, test } from '@playwright/test'
import { startPetstore } from 'petstore-server'

const SHOP = 'http://localhost:5173/'
const pageOf = ({ url, headers }) => `<!doctype html>
  <button>Add Tom</button> <output></output>
  <script>
    const headers = { ...${JSON.stringify(headers)}, 'content-type': 'application/json' }
    const body = JSON.stringify({ name: 'Tom', categoryId: 2 })
    document.querySelector('button').onclick = async () => {
      const { status } = await fetch('${url}/pets', { method: 'POST', headers, body })
      document.querySelector('output').value = status === 201 ? 'Added' : 'Not added'
    }
  </script>`

// The page comes from this file, so Chromium asks before it may call a local server.
test.use({ permissions: ['local-network-access'] })

let petstore
test.beforeEach(async ({ page }) => {
  petstore = await startPetstore({ cors: true })
  await page.route(SHOP, (route) => {
    return route.fulfill({ contentType: 'text/html', body: pageOf(petstore) })
  })
  await page.goto(SHOP)
})
test.afterEach(() => petstore.close())

test('the pet is sent', async ({ page }) => {
  await page.getByRole('button').click()
  await expect(page.getByRole('status')).toHaveText('Added')
  const [request] = await petstore.waitForRequests(1, { matching: ({ body }) => body !== '' })
  expect(JSON.parse(request.body)).toEqual({ name: 'Tom', categoryId: 2 })
})

test('a busy store is reported', async ({ page }) => {
  petstore.inject({ operation: 'createPet', status: 503 })
  await page.getByRole('button').click()
  await expect(page.getByRole('status')).toHaveText('Not added')
})
