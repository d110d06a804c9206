import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { Chromium, lacksBrowser, type Page } from '../browser.ts'
import { KEYBOARD, MOUSE } from '../hands.ts'
import { focusOf, giveKey, openPage, shows } from '../page.ts'
import { KEY, send } from '../support.ts'

const MAX_INT64 = '9223372036854775807'
const NAMES = [
  '<img src=x onerror=alert(1)>',
  '</script><script>alert(1)</script><b>',
  `it's "$HOME" \`id\` \\ !! %s -n`,
  'gpj.\u202exe\u2066 \u05e9\u05dc\u05d5\u05dd\u200f a\u0301 \u{1f436}',
  '@/etc/passwd',
  ' ',
  '',
]

const idsOf = (page: Page) => page.locator('#list td:first-child').allTextContents()

test('in Chromium', { skip: lacksBrowser() }, async (t) => {
  const chromium = await Chromium.launch(t)

  for (const [name, hand] of [
    ['the mouse', MOUSE],
    ['the keyboard', KEYBOARD],
  ] as const) {
    await t.test(`${name} does everything that the page offers`, async (t) => {
      const { page } = await openPage(t, chromium)
      assert.equal(await page.locator('#key').inputValue(), '')
      await hand.type(page, '#key', 'key-that-is-wrong')
      await hand.press(page, '#key-form .primary')
      await shows(page, '#key-problem', 'The API key is not valid here')
      assert.equal(await page.locator('#key').getAttribute('aria-invalid'), 'true')
      assert.equal(await page.evaluate('sessionStorage.length'), 0)
      await giveKey(page, hand)
      await shows(page, '#count', '12 animals: all there are')
      assert.equal(await page.locator('#key-problem').innerText(), '')

      await hand.choose(page, 'filter', 'sold')
      await shows(page, '#count', '3 animals')
      assert.deepEqual(await idsOf(page), ['2', '6', '8'])
      await shows(page, '#animals .curl', '?limit=20&status=sold')
      await hand.choose(page, 'filter', '')
      await shows(page, '#count', '12 animals')
      await hand.pick(page, '#limit', '5')
      await shows(page, '#count', '5 animals: page 1, more follow')
      await hand.press(page, '#next')
      await shows(page, '#count', '5 animals: page 2, more follow')
      assert.deepEqual(await idsOf(page), ['6', '7', '8', '9', '10'])
      await shows(page, '#animals dl', '</v1/pets?limit=5&after=10>; rel="next"')
      await hand.press(page, '#next')
      await shows(page, '#count', '2 animals: page 3, the last')
      assert.equal(await page.locator('#next').getAttribute('aria-disabled'), 'true')
      await hand.press(page, '#first')
      await shows(page, '#count', 'page 1')

      await hand.type(page, '#name', 'Rex')
      await hand.type(page, '#categoryId', 'seven')
      await hand.press(page, '#add .primary')
      await shows(page, '#categoryId-problem', 'categoryId must be an integer from -2^63 to 2^63-1')
      assert.equal(await focusOf(page), 'categoryId')
      await shows(page, '#add .console', '400 Bad Request')
      await hand.type(page, '#categoryId', MAX_INT64)
      await hand.choose(page, 'status', 'pending')
      await hand.press(page, '#add .primary')
      await shows(page, '#added', 'Added with the id 13: Rex')
      assert.equal(await page.locator('#categoryId-problem').innerText(), '')
      await shows(page, '#add pre.curl', `--json '{"name":"Rex","categoryId":${MAX_INT64},"status":"pending"}'`)
      await shows(page, '#add dl', 'Location: /v1/pets/13')

      await hand.type(page, '#petId', '13')
      await hand.press(page, '#fetch .primary')
      await shows(page, '#fetched td:nth-child(3)', MAX_INT64)
      await shows(
        page,
        '#fetch .note',
        'Deprecated since 20 November 2026. It goes away on 5 December 2030. Use GET /v1/pets',
      )
      await shows(page, '#fetch dl', 'Sunset: Thu, 05 Dec 2030 00:00:00 GMT')
      await shows(page, '#fetch pre', `"categoryId": ${MAX_INT64}`)
      await hand.type(page, '#petId', MAX_INT64)
      await hand.press(page, '#fetch .primary')
      await shows(page, '#fetched', 'There is no animal with this id')

      await hand.press(page, '#fetch .console button')
      await shows(page, '#fetch .console button', 'Copied')
      const command = await page.evaluate<string>('navigator.clipboard.readText()')
      assert.ok(command.includes(`/v1/pets/${MAX_INT64}'`) && !command.includes(KEY), command)
      await hand.toggle(page, '#reveal')
      await shows(page, '#fetch .curl', `'Authorization: Bearer ${KEY}'`)
      await hand.press(page, 'details:nth-of-type(2) summary')
      await shows(page, 'details[open]', 'invalid_pet')
      await hand.press(page, '#forget')
      await shows(page, '#list', 'Give a key')
      assert.equal(await page.evaluate('sessionStorage.length'), 0)
    })
  }

  await t.test(
    'the key stays in its tab, and in no address and no lasting storage; the field is never filled',
    async (t) => {
      const { page, petstore } = await openPage(t, chromium)
      const sent: [url: string, authorization: string | undefined][] = []
      page.on('request', (request) => sent.push([request.url(), request.headers()['authorization']]))
      await giveKey(page)
      await shows(page, '#count', '12 animals')
      await page.reload()
      await shows(page, '#count', '12 animals')
      assert.equal(await page.locator('#key').inputValue(), '')
      assert.equal(await page.evaluate('JSON.stringify(localStorage) + document.cookie'), '{}')
      assert.ok(!page.url().includes(KEY))
      const isApi = (url: string) => url.startsWith(`${petstore.url}/pets`)
      for (const [url, key] of sent) assert.equal(key, isApi(url) ? `Bearer ${KEY}` : undefined, url)
      assert.ok(sent.filter(([url]) => isApi(url)).length === 2 && !sent.some(([url]) => url.includes(KEY)))
      petstore.replaceKeys(['another-key'])
      await page.locator('#filter button').click()
      await shows(page, '#key-problem', 'The API key is not valid here')
    },
  )

  await t.test('names are text, and the command that is copied sends each as it was typed', async (t) => {
    const { page, petstore } = await openPage(t, chromium, { pets: [] })
    await giveKey(page)
    await shows(page, '#list', 'No animals yet')
    for (const [at, name] of NAMES.entries()) {
      await page.locator('#name').fill(name)
      await page.locator('#categoryId').fill('-9223372036854775808')
      await page.locator('#add .primary').click()
      await shows(page, '#added', `Added with the id ${2 * at + 1}:`)
      await page.locator('#add .console button').click()
      await shows(page, '#add .console button', 'Copied')
      const command = await page.evaluate<string>('navigator.clipboard.readText()')
      assert.doesNotMatch(command, /[\u200b-\u200f\u202a-\u202e\u2066-\u2069]/)
      await promisify(execFile)('sh', ['-c', `${command} -sS --fail`], { env: { ...process.env, API_KEY: KEY } })
    }
    const both = NAMES.flatMap((name) => [name, name])
    const { body } = await send(petstore, 'GET', '/v1/pets')
    assert.deepEqual(
      JSON.parse(body).map((pet: { name: string }) => pet.name),
      both,
    )
    assert.equal(body.split('"categoryId":-9223372036854775808').length - 1, both.length)
    await page.locator('#filter button').click()
    await shows(page, '#count', `${both.length} animals`)
    const shown = both.map((name) => name.trim() || (name === '' ? 'empty name' : 'blank name'))
    assert.deepEqual(await page.locator('#list td:nth-child(2)').allTextContents(), shown)
    assert.equal(await page.locator('main :is(img, script, b b)').count(), 0)
  })

  await t.test('a name of 10,000 characters is clipped, and all of it can be seen', async (t) => {
    const name = 'Ünïcödé '.repeat(1_250)
    const { page } = await openPage(t, chromium, { pets: [{ name, categoryId: 1 }] })
    await giveKey(page)
    await page.locator('#list td .plain', { hasText: 'Show all 10,000 characters' }).click()
    assert.equal(await page.locator('dialog bdi').textContent(), name)
    await chromium.check(page, 'dialog')
    await page.keyboard.press('Escape')
    assert.equal(await page.evaluate('document.activeElement.textContent'), 'Show all 10,000 characters')
  })
})
