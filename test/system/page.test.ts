// The page in Chromium: what people do with it. npm installs what drives the browser.
import assert from 'node:assert/strict'
import { execFile, execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test, type TestContext } from 'node:test'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { KEY, send, start } from '../support.ts'

interface Locator {
  click(): Promise<void>
  fill(text: string): Promise<void>
  selectOption(value: string): Promise<unknown>
  waitFor(options: { state: 'attached' | 'visible' }): Promise<void>
  first(): Locator
}

interface Page {
  goto(url: string): Promise<unknown>
  url(): string
  evaluate<T>(expression: string): Promise<T>
  locator(selector: string, options?: { hasText: string | RegExp }): Locator
  setDefaultTimeout(milliseconds: number): void
  on(event: 'console', listener: (message: { type(): string; text(): string }) => void): void
  on(event: 'pageerror', listener: (error: Error) => void): void
}

interface Browser {
  newPage(options: object): Promise<Page>
  close(): Promise<void>
}

const PACKAGES = ['playwright-core@1.64.1', 'axe-core@4.14.1']
const BIG = 9007199254740993n // 2^53 and 1
const MAX = '9223372036854775807'
const NAMES = ['<img src=x onerror=alert(1)>', `it's "$HOME" \`id\` \\`, ...'abcdefghi', 'Søren']
const PETS = NAMES.map((name, at) => {
  const id = at === NAMES.length - 1 ? BIG : at + 1
  return { id, name, categoryId: at, status: at % 4 === 0 ? 'sold' : 'available' } as const
})

const executablePath = ['chromium', 'chromium-browser', 'google-chrome']
  .map((name) => spawnSync('sh', ['-c', `command -v ${name}`], { encoding: 'utf8' }).stdout.trim())
  .find((path) => path !== '')
const skip = executablePath === undefined && 'there is no Chromium'
const folder = mkdtempSync(join(tmpdir(), 'petstore-'))
let browser: Browser | undefined

before(async () => {
  if (skip) return
  const flags = ['--ignore-scripts', '--no-audit', '--no-fund', '--silent']
  execFileSync('npm', ['install', ...flags, '--prefix', folder, ...PACKAGES])
  const module = join(folder, 'node_modules/playwright-core/index.mjs')
  const { chromium } = await import(pathToFileURL(module).href)
  browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] })
})

after(async () => {
  await browser?.close()
  rmSync(folder, { recursive: true, force: true })
})

/** Opens a tab. At the end of the test, nothing in it went wrong. */
async function open(t: TestContext, url: string, look: object = {}): Promise<Page> {
  assert.ok(browser)
  const permissions = ['clipboard-read', 'clipboard-write']
  const page = await browser.newPage({ permissions, ...look })
  page.setDefaultTimeout(120_000)
  const problems: string[] = []
  page.on('pageerror', (error) => problems.push(String(error.stack)))
  page.on('console', (message) => {
    // Chromium itself reports each response of 400 and above, and each lost connection.
    const isOurs = !message.text().startsWith('Failed to load resource: ')
    if (isOurs) problems.push(`${message.type()}: ${message.text()}`)
  })
  t.after(() => assert.deepEqual(problems, []))
  await page.goto(new URL('/', url).href)
  return page
}

type Seen = Readonly<Record<string, string | RegExp>>

async function shows(page: Page, seen: Seen): Promise<void> {
  for (const [selector, hasText] of Object.entries(seen)) {
    const state = hasText === '' ? 'attached' : 'visible'
    await page.locator(selector, { hasText }).first().waitFor({ state })
  }
}

async function press(page: Page, selector: string, seen: Seen): Promise<void> {
  await page.locator(selector).first().click()
  await shows(page, seen)
}

async function addPet(page: Page, name: string, categoryId: string, seen: Seen): Promise<void> {
  await page.locator('#name').fill(name)
  await page.locator('#categoryId').fill(categoryId)
  await press(page, '#add .primary', seen)
}

async function fetchPet(page: Page, id: string, seen: Seen): Promise<void> {
  await page.locator('#petId').fill(id)
  await press(page, '#fetch .primary', seen)
}

/** Asserts that axe finds nothing, and that nothing is beyond the right edge. */
async function checkLook(page: Page): Promise<void> {
  await page.evaluate(readFileSync(join(folder, 'node_modules/axe-core/axe.min.js'), 'utf8'))
  const violations = await page.evaluate(
    `axe.run().then(({ violations }) => violations.map(({ id, nodes }) =>
      id + nodes.map(({ html, failureSummary }) => '\\n' + html + ' ' + failureSummary)))`,
  )
  assert.deepEqual(violations, [])
  assert.ok(await page.evaluate('document.documentElement.scrollWidth <= innerWidth'))
}

for (const [width, colorScheme] of [
  [1280, 'light'],
  [390, 'dark'],
] as const) {
  test(`people do what the page offers, ${width} pixels, ${colorScheme}`, { skip }, async (t) => {
    const petstore = await start(t, { pets: PETS })
    const page = await open(t, petstore.url, { colorScheme, viewport: { width, height: 800 } })
    await shows(page, { '#list': 'Enter a key' })
    await page.locator('#key').fill('key-that-is-wrong')
    await press(page, '#key-form .primary', { '#key-problem': 'The API key is not valid here' })

    // The key goes from the address into the tab.
    await page.goto(`${page.url()}#key=${KEY}`)
    await shows(page, { '#count': /^12 pets$/, '#list tr:nth-child(2)': NAMES[1] ?? '' })
    assert.equal(page.url(), new URL('/', petstore.url).href)

    await press(page, 'label:has([value=sold])', {
      '#count': /^3 pets$/,
      '#pets .curl': '&status=sold',
    })
    await press(page, 'label:has([name=filter])', { '#count': /^12 pets$/ })
    await page.locator('#limit').selectOption('5')
    await shows(page, { '#count': /^Page 1: 5 pets$/, '#previous:disabled': '' })
    await press(page, '#next', { '#count': 'Page 2:', '#pets dl': '&after=10>; rel="next"' })
    await press(page, '#next', { '#count': 'Page 3, the last: 2 pets', '#list': `${BIG}` })
    await press(page, '#previous', { '#count': 'Page 2:' })
    await press(page, '#first', { '#count': 'Page 1:' })

    await addPet(page, 'Rex', 'seven', {
      '#added': 'categoryId must be an integer',
      '#categoryId[aria-invalid=true]': '',
      '#add .outcome': '400 Bad Request',
    })
    await page.locator('label:has([name=status][value=pending])').click()
    await addPet(page, "O'Rex", MAX, {
      '#added': `Added with the id ${BIG + 1n}`,
      '#add pre': `"categoryId":${MAX},"status":"pending"`,
      '#add dl': `/v1/pets/${BIG + 1n}`,
      '#count': 'Page 2, the last: 1 pet', // the list goes on from the new one
      '#list': MAX,
    })

    // What is copied adds the same pet again, in a shell that has the key.
    await press(page, '#add .console button', { '#add .console button': 'Copied' })
    const command = await page.evaluate<string>('navigator.clipboard.readText()')
    assert.ok(!command.includes(KEY))
    await promisify(execFile)('sh', ['-c', command], { env: { ...process.env, KEY } })
    const [first, second] = petstore.pets.slice(-2)
    assert.deepEqual(second, { ...first, id: BIG + 2n })
    await press(page, '#reveal', { '#add .curl': `'Authorization: Bearer ${KEY}'` })

    await fetchPet(page, `${BIG + 1n}`, {
      '#fetched': "O'Rex",
      '#lifetime': 'It will be removed on 5 December 2030',
      '#fetch dl': 'Sunset: Thu, 05 Dec 2030 00:00:00 GMT',
    })
    await fetchPet(page, '99', { '#fetched': 'There is no pet with this id' })
    await press(page, 'details summary', { 'details[open]': 'Returns pets in ascending order' })
    await checkLook(page)

    petstore.inject({ operation: 'createPet', done: true, hangUp: 'halfway' })
    await addPet(page, 'Tom', '1', { '#added': 'The pet may have been added' })
    await petstore.close()
    await press(page, '#filter button', { '#list': 'No complete response came' })
    await press(page, '#forget', {})
  })
}

test('an operation that is gone is shown as removed', { skip }, async (t) => {
  const petstore = await start(t, { getPetState: 'gone', basePath: '/shop/v2' })
  const page = await open(t, petstore.url)
  await page.goto(`${page.url()}#key=${KEY}`)
  await shows(page, { '#list': 'There are no pets yet' })
  await fetchPet(page, '1', {
    '#fetch .pill': 'Removed',
    '#lifetime': 'This operation has been removed. List the pets instead.',
    '#fetched': 'use GET /pets with the status filter',
  })
  await checkLook(page)
})

test('the reference has each operation, parameter and error code', { skip }, async (t) => {
  const petstore = await start(t, { basePath: '/shop/v2' })
  const page = await open(t, petstore.url)
  await shows(page, { '#documents': 'GET /shop/v2/pets/{petId}' })
  const text = await page.evaluate<string>(`document.querySelector('#documents').textContent`)
  const { body } = await send(petstore, 'GET', '/openapi.json')
  const named = Array.from(body.matchAll(/"(?:code|summary)": "(.+?)"/g), ([, name = '']) => name)
  const parameters = Object.keys(JSON.parse(body).components.parameters)
  assert.ok(named.length > 20 && parameters.length === 4)
  for (const name of [...named, ...parameters, MAX]) assert.ok(text.includes(name), name)
})
