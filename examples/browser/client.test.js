// To run it: in the clone, run `npm ci` and then `npm pack`. In this folder, run
// `npm install --save-dev ../../petstore-server-1.0.0.tgz` and then `npm test`.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createReadStream } from 'node:fs'
import { createServer } from 'node:http'
import { after, afterEach, before, beforeEach, test } from 'node:test'
import { startPetstore } from 'petstore-server'
import { chromium } from 'playwright-core'

const { CHROME } = process.env // path of a Chrome or Chromium; without it, Google Chrome where it is installed
const FILES = { '/': ['text/html', 'index.html'], '/client.js': ['text/javascript', 'client.js'] }
const site = createServer(({ url }, response) => {
  const [type, file] = FILES[url] ?? []
  if (file === undefined) return response.writeHead(404).end()
  response.setHeader('content-type', type)
  createReadStream(new URL(file, import.meta.url)).pipe(response)
})
let browser, origin, petstore, page

before(async () => {
  await once(site.listen(0, '127.0.0.1'), 'listening')
  origin = `http://127.0.0.1:${site.address().port}`
  browser = await chromium.launch(CHROME ? { executablePath: CHROME } : { channel: 'chrome' })
})
after(async () => {
  await browser?.close()
  site.close()
})

beforeEach(async () => {
  petstore = await startPetstore({ cors: origin, pets: [{ name: 'Rex', categoryId: 1 }] })
  const { url, headers } = petstore
  page = await browser.newPage()
  await page.addInitScript((api) => Object.assign(window, { api }), { url, headers })
  await page.goto(origin)
  await shows('Rex')
})
afterEach(async () => {
  await page.close()
  await petstore.close()
})

const shows = (text) => page.getByText(text, { exact: true }).waitFor()
const statusesOf = (operation) =>
  petstore.requests.filter((request) => request.operation === operation).map(({ status }) => status)

async function addTom() {
  await page.getByLabel('Name').fill('Tom')
  await page.getByText('Add', { exact: true }).click()
}

test('a page of another origin adds a pet', async () => {
  await addTom()
  await shows('Added Tom')
  await shows('Tom')
  const [preflight] = petstore.requests
  assert.deepEqual([preflight.method, preflight.headers.origin], ['OPTIONS', origin])
  assert.deepEqual(petstore.pets.map(({ name }) => name), ['Rex', 'Tom'])
})

test('a busy store is asked again', async () => {
  petstore.inject({ operation: 'createPet', times: 2, status: 503, retryAfter: 0 })
  await addTom()
  await shows('Added Tom')
  assert.deepEqual(statusesOf('createPet'), [503, 503, 201])
})

test('a list is fetched again when its connection breaks', async () => {
  petstore.clearRequests()
  petstore.inject({ operation: 'listPets', times: 2, hangUp: true }) // Chrome itself repeats the first one
  await page.reload()
  await shows('Rex')
  assert.deepEqual(statusesOf('listPets'), [null, null, 200])
})

test('a pet whose response breaks off is not added twice', async () => {
  petstore.inject({ operation: 'createPet', done: true, body: 'cut' })
  await addTom()
  await shows('Tom may have been added')
  await shows('Tom')
  assert.deepEqual(statusesOf('createPet'), [201])
})
