// The page in Chromium: what people do with it. npm installs what drives the browser.
import assert from 'node:assert/strict'
import { execFile, execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test, type TestContext } from 'node:test'
import { promisify } from 'node:util'
import { KEY, listen, start } from '../support.ts'
import { missing, must } from './programs.ts'

interface Locator {
  click(): Promise<void>
  dblclick(): Promise<void>
  fill(text: string): Promise<void>
  selectOption(value: string): Promise<unknown>
  waitFor(): Promise<void> // until it is visible
  first(): Locator
}

interface Page {
  goto(url: string): Promise<unknown>
  reload(): Promise<unknown>
  url(): string
  evaluate<T>(expression: string): Promise<T>
  locator(selector: string, options?: { hasText: string }): Locator
  setDefaultTimeout(milliseconds: number): void
  on(event: 'console', listener: (message: { text(): string }) => void): void
  on(event: 'pageerror', listener: (error: Error) => void): void
}

interface Browser {
  newPage(options: object): Promise<Page>
  close(): Promise<void>
}

const PACKAGES = ['playwright-core@1.64.1', 'axe-core@4.14.1']
const BIG = 9007199254740993n // 2^53 and 1
const MAX = '9223372036854775807'
const NAMES = ['<img src=x onerror=alert(1)>', `it's "$HOME" \`id\` \\`, 'c', '', 'e', 'f', 'Søren']
const PETS = NAMES.map((name, at) => {
  const id = at === NAMES.length - 1 ? BIG : at + 1
  return { id, name, categoryId: at, status: at < 2 ? 'sold' : 'available' } as const
})

const skip = missing('chromium')
const folder = mkdtempSync(join(tmpdir(), 'petstore-'))
let browser: Browser | undefined

before(async () => {
  if (skip) return
  const flags = ['--ignore-scripts', '--no-audit', '--no-fund', '--silent']
  execFileSync('npm', ['install', ...flags, '--prefix', folder, ...PACKAGES])
  const { chromium } = require(join(folder, 'node_modules/playwright-core'))
  const executablePath = must('sh', '-c', 'command -v chromium').trim()
  const args = ['--no-sandbox', '--host-resolver-rules=MAP shop.test 127.0.0.1']
  browser = await chromium.launch({ executablePath, args })
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
    if (!message.text().startsWith('Failed to load resource: ')) problems.push(message.text())
  })
  t.after(() => assert.deepEqual(problems, []))
  await page.goto(url)
  return page
}

type Texts = Readonly<Record<string, string>>

/** Waits until each selector has a visible element with the text. */
async function shows(page: Page, texts: Texts): Promise<void> {
  for (const [selector, hasText] of Object.entries(texts)) {
    await page.locator(selector, { hasText }).first().waitFor()
  }
}

async function press(page: Page, selector: string, texts: Texts): Promise<void> {
  await page.locator(selector).click()
  await shows(page, texts)
}

async function addPet(page: Page, name: string, categoryId: string, texts: Texts): Promise<void> {
  await page.locator('#add [name=name]').fill(name)
  await page.locator('#add [name=categoryId]').fill(categoryId)
  await press(page, '#add .primary', texts)
}

async function fetchPet(page: Page, id: string, texts: Texts): Promise<void> {
  await page.locator('#fetch [name=petId]').fill(id)
  await press(page, '#fetch .primary', texts)
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

for (const [basePath, width, colorScheme] of [
  ['/v1', 1280, 'light'],
  ['/shop/v1', 1280, 'dark'],
  ['', 390, 'light'],
] as const) {
  const title = `base path '${basePath}', ${width} pixels, ${colorScheme}`
  test(`people list, add and fetch pets: ${title}`, { skip }, async (t) => {
    const petstore = await start(t, { pets: PETS, basePath })
    const root = new URL('/', petstore.url).href
    const look = { colorScheme, viewport: { width, height: 800 } }
    const page = await open(t, `${root}#key=${KEY}`, look)
    const first = { '#list [role=status]': 'Pets on this page: 7', '#list tbody': NAMES[1] ?? '' }
    await shows(page, { ...first, '#key-state': 'A key is set', '#base': petstore.url })
    assert.equal(page.url(), root) // without the key
    await page.reload()
    await shows(page, { ...first, '#key-state': 'A key is set' })

    await page.locator('#list [name=status]').selectOption('available')
    await page.locator('#list [name=limit]').selectOption('5')
    await shows(page, { '#list + * pre': `${basePath}/pets?limit=5&status=available'` })
    await shows(page, { '#next:disabled': '', '#list tbody': `${BIG}` })
    await page.locator('#list [name=status]').selectOption('')
    await press(page, '#next:enabled', { '#list + * pre': '?limit=5&after=5' })
    await shows(page, { '#next:disabled': '', '#list tbody': `${BIG}`, '#list + *': '200 OK' })

    await addPet(page, "O'Rex", MAX, { '#add [role=status]': `Added with the id ${BIG + 1n}` })
    const location = `location: ${basePath}/pets/${BIG + 1n}`
    const body = `{"id":${BIG + 1n},"name":"O'Rex","categoryId":${MAX}}`
    await shows(page, { '#add tbody': MAX, '#add + *': body, '#add + * pre.soft': location })

    // What is copied adds the same pet again, in a shell that has the key.
    await press(page, '#add + * button', { '#add + * button': 'Copied' })
    const command = await page.evaluate<string>('navigator.clipboard.readText()')
    await promisify(execFile)('sh', ['-c', command], { env: { ...process.env, KEY } })
    const [added, again] = (await petstore.pets()).slice(-2)
    assert.deepEqual(again, { ...added, id: BIG + 2n })

    const sunset = 'sunset: Thu, 05 Dec 2030'
    await fetchPet(page, `${BIG}`, { '#fetch tbody': 'Søren', '#fetch + * pre.soft': sunset })
    await checkLook(page)
  })
}

test('people see what went wrong', { skip }, async (t) => {
  const petstore = await start(t, { pets: PETS })
  const page = await open(t, new URL('/', petstore.url).href)
  await shows(page, { '#key-state': 'No key is set', '#list + *': 'Not sent yet' })
  await addPet(page, 'Rex', 'seven', { '#key:focus': '' })
  await page.locator('#key').fill('key-that-is-wrong')
  await press(page, '#key-form .primary', { '#key-state': 'The API key is not valid' })
  await page.locator('#key').fill(KEY)
  await press(page, '#key-form .primary', { '#key-state': 'A key is set' })
  await page.reload()
  await shows(page, { '#key-state': 'A key is set' })
  await addPet(page, 'Rex', 'seven', { '#add .bad': 'categoryId must be an integer' })
  await fetchPet(page, '99', { '#fetch .bad': 'There is no pet with this id' })
  await checkLook(page)

  petstore.inject({ operation: 'createPet', delay: 500, times: 2 })
  await page.locator('#add [name=categoryId]').fill('7')
  await page.locator('#add .primary').dblclick()
  await shows(page, { '#add .ok': 'Added' })
  assert.equal((await petstore.pets()).length, PETS.length + 1, 'two clicks, one pet')
  petstore.clearFaults()

  petstore.inject({ operation: 'getPet', status: 502, body: '<h1>Bad Gateway</h1>' })
  const notJson = { '#fetch .bad': 'not JSON', '#fetch + * pre': '<h1>Bad Gateway</h1>' }
  await press(page, '#fetch .primary', notJson)
  petstore.inject({ operation: 'createPet', done: true, hangUp: 'halfway' })
  await addPet(page, 'Tom', '1', { '#add .bad': 'cut off. The pet may have been added' })
  await petstore.close()
  await press(page, '#list button:not(#next)', { '#list .bad': 'The server does not respond' })
})

test('where the browser refuses to copy, the command is selected', { skip }, async (t) => {
  const { url } = await start(t)
  const { port } = new URL(url)
  const page = await open(t, `http://shop.test:${port}/`) // not HTTPS, and not this machine
  await press(page, '#add + * button', {})
  const selected = await page.evaluate<string>('String(getSelection())')
  assert.ok(selected.includes(`curl -i 'http://shop.test:${port}/v1/pets'`), selected)
  await shows(page, { '#add + * button': 'Copy' })
  assert.equal(await page.evaluate(`document.body.innerText.includes('Copied')`), false)
})

test('a proxy may serve the page below a path of its own', { skip }, async (t) => {
  const petstore = await start(t, { pets: PETS })
  const { port } = new URL(petstore.url)
  const proxy = createServer(({ method, url = '', headers }, res) => {
    const path = url.startsWith('/moved/') ? url.slice('/moved'.length) : '/elsewhere'
    const passed = request({ port, path, method, headers, agent: false }, (response) => {
      res.writeHead(response.statusCode ?? 500, response.headers)
      response.pipe(res)
    })
    passed.end()
  })
  const page = await open(t, `http://127.0.0.1:${await listen(t, proxy)}/moved/#key=${KEY}`)
  await page.locator('#list [name=limit]').selectOption('5')
  await press(page, '#next:enabled', { '#list tbody': `${BIG}` })
})
