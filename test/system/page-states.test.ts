import assert from 'node:assert/strict'
import { mkdirSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { DEMO_PETS } from '../../src/pets/demo.ts'
import { Chromium, lacksBrowser } from '../browser.ts'
import { MOUSE } from '../hands.ts'
import { focusOf, giveKey, openPage, shows } from '../page.ts'
import { run } from '../process.ts'
import { send, start } from '../support.ts'

const SCREENSHOTS = new URL('../../screenshots/', import.meta.url).pathname

test('in Chromium', { skip: lacksBrowser() }, async (t) => {
  const chromium = await Chromium.launch(t)

  await t.test(
    'a server that stops is told of, what was typed stays, and a retry goes on when it is back',
    async (t) => {
      const { page, petstore } = await openPage(t, chromium)
      await giveKey(page)
      await shows(page, '#count', '12 animals')
      const port = Number(new URL(petstore.url).port)
      await petstore.close()
      await page.locator('#filter button').click()
      await shows(page, '#list', 'The server does not answer')
      await page.locator('#name').fill('Rex')
      await page.locator('#categoryId').fill('1')
      await page.locator('#add .primary').click()
      await shows(page, '#added', 'The server does not answer')
      await page.locator('#petId').fill('1')
      await page.locator('#fetch .primary').click()
      await shows(page, '#fetched', 'The server does not answer')
      await page.locator('#list button').click()
      await shows(page, '#animals .console', 'No answer')
      await start(t, { port, pets: [...DEMO_PETS] })
      await page.locator('#list button').click()
      await shows(page, '#count', '12 animals')
      assert.equal(await focusOf(page), 'list')
      await page.locator('#added button').click()
      await shows(page, '#added', 'Added with the id 13: Rex')
      await page.locator('#fetched button').click()
      await shows(page, '#fetched td', 'Rex')
    },
  )

  await t.test('loading, failing, filtered to nothing and removed are told of, too', async (t) => {
    const { page, petstore } = await openPage(t, chromium, { pets: [{ name: 'Rex', categoryId: 1 }], getPet: 'gone' })
    petstore.inject({ operation: 'listPets', delay: 600_000 })
    petstore.inject({ operation: 'listPets', status: 503 })
    await giveKey(page)
    await page.locator('#list[aria-busy=true] i').first().waitFor()
    await page.locator('#filter button').click()
    await shows(page, '#list', 'The animals cannot be shown')
    await page.locator('#list button').click()
    await shows(page, '#count', '1 animal:')
    await MOUSE.choose(page, 'filter', 'sold')
    await shows(page, '#list', 'No animal is sold')
    await page.locator('#list button').click()
    await shows(page, '#count', '1 animal:')
    await page.locator('#petId').fill('1')
    await page.locator('#fetch .primary').click()
    await shows(page, '#fetch .pill', 'Removed')
    await shows(page, '#fetch .note', 'This operation is removed')
    await chromium.check(page, 'gone')
  })

  await t.test('the reference has every operation, parameter and error code of /openapi.json', async (t) => {
    const { page, petstore } = await openPage(t, chromium, { basePath: '/shop/v2' })
    const { body } = await send(petstore, 'GET', '/openapi.json')
    const api = JSON.parse(body)
    const text = await page.locator('#documents').textContent()
    const parameters = Object.keys(api.components.parameters)
    const codes = [...body.matchAll(/"code":"(\w+)"/g)].map(([, code = '']) => code)
    const operations = Object.values<object>(api.paths).flatMap((item) => Object.values(item))
    const summaries = operations.flatMap((operation) => operation.summary ?? [])
    assert.ok(parameters.length >= 4 && codes.length >= 15 && summaries.length >= 3)
    const expected = [...parameters, ...codes, ...summaries, 'GET /shop/v2/pets/{petId}', 'HTTP bearer']
    for (const each of expected) assert.ok(text?.includes(each), `${each} is not in the reference`)
    const listed = await page.locator('#documents > table td > code').allTextContents()
    assert.deepEqual(listed.sort(), [...new Set(codes)].sort())
  })

  for (const width of [360, 1280]) {
    for (const colorScheme of ['light', 'dark']) {
      await t.test(
        `axe finds nothing at ${width} px in the ${colorScheme}, and nothing moves for who wants that`,
        async (t) => {
          const pets = [...DEMO_PETS, { name: 'x'.repeat(10_000), categoryId: -1 }]
          const look = { viewport: { width, height: 800 }, colorScheme, reducedMotion: 'reduce' }
          const { page, petstore } = await openPage(t, chromium, { pets }, look)
          const see = async (what: string) => {
            await chromium.check(page, what)
            mkdirSync(SCREENSHOTS, { recursive: true })
            await page.screenshot({ path: `${SCREENSHOTS}/${what}-${width}-${colorScheme}.png`, fullPage: true })
          }
          await see('start')
          petstore.inject({ operation: 'listPets', delay: 600_000 })
          await giveKey(page)
          await page.locator('#list i').first().waitFor()
          assert.equal(await page.evaluate('document.getAnimations().length'), 0)
          await page.locator('#filter button').click()
          await shows(page, '#count', '13 animals')
          await page.locator('#name').fill('<b>Rex</b>')
          await page.locator('#categoryId').fill('seven')
          await page.locator('#add .primary').click()
          await shows(page, '#categoryId-problem', 'categoryId')
          await page.locator('#petId').fill('3')
          await page.locator('#fetch .primary').click()
          await shows(page, '#fetched', 'Waldi')
          await page.locator('summary').first().click()
          await see('used')
          await petstore.close()
          await page.locator('#filter button').click()
          await shows(page, '#list', 'The server does not answer')
          await page.locator('#fetch .primary').click()
          await shows(page, '#fetched', 'The server does not answer')
          await see('stopped')
        },
      )
    }
  }
})

test('the built server has the page, as it stands in src', async (t) => {
  const server = await run([process.execPath, 'dist/main.js'])
  t.after(() => server.process.kill('SIGKILL'))
  const html = readFileSync(new URL('../../src/api/page.html', import.meta.url), 'utf8')
  assert.equal((await send(server, 'GET', '/')).body, html)
})
