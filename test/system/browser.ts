// A real browser, the problems of a page in it, and two hands to use it: mouse and keyboard.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import type { TestContext } from 'node:test'
import { pathToFileURL } from 'node:url'
import { folderOf } from '../support.ts'
import { must, npmInstall } from './packages.ts'

const PACKAGES = ['playwright-core@1.64.1', 'axe-core@4.14.1']
const ARGS = [
  '--no-sandbox',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--host-resolver-rules=MAP evil.example 127.0.0.1', // another origin
]

export interface Locator {
  click(): Promise<void>
  fill(text: string): Promise<void>
  selectOption(value: string): Promise<unknown>
  inputValue(): Promise<string>
  waitFor(options: { state: 'attached' | 'visible' }): Promise<void>
  count(): Promise<number>
  textContent(): Promise<string | null>
  allTextContents(): Promise<string[]>
  first(): Locator
}

export interface Page {
  readonly keyboard: { press(key: string): Promise<void>; insertText(text: string): Promise<void> }
  setDefaultTimeout(milliseconds: number): void
  goto(url: string): Promise<unknown>
  reload(): Promise<unknown>
  url(): string
  locator(selector: string, options?: { hasText: string | RegExp }): Locator
  evaluate<T>(expression: string): Promise<T>
  addInitScript(script: string): Promise<unknown>
  on(event: 'console', listener: (message: { type(): string; text(): string }) => void): void
  on(event: 'pageerror', listener: (error: Error) => void): void
  on(event: 'dialog', listener: (dialog: { message(): string }) => void): void
  on(event: 'response', listener: (response: { url(): string; status(): number }) => void): void
  on(
    event: 'request',
    listener: (request: { url(): string; headers(): Record<string, string> }) => void,
  ): void
}

interface Browser {
  /** Opens a tab with a session of its own. */
  newPage(options?: object): Promise<Page>
  close(): Promise<void>
}

export interface Chromium {
  /** Opens a tab. Any problem in it fails the test at its end. */
  open(t: TestContext, origin: string, look?: object): Promise<Page>
  /** Opens a tab on any site, and ignores its problems. */
  visit(url: string): Promise<Page>
  /** Asserts that axe finds nothing, and that nothing overflows the right edge. */
  check(page: Page, what: string): Promise<void>
}

export async function launch(t: TestContext): Promise<Chromium> {
  const folder = folderOf()
  npmInstall(folder, ...PACKAGES)
  const modules = `${folder}/node_modules`
  const axe = readFileSync(`${modules}/axe-core/axe.min.js`, 'utf8')
  const { chromium } = await import(pathToFileURL(`${modules}/playwright-core/index.mjs`).href)
  const executablePath = must('which', 'chromium').trim()
  const browser: Browser = await chromium.launch({ executablePath, args: ARGS })
  t.after(() => browser.close())
  return {
    async open(t, origin, look = {}) {
      const permissions = ['clipboard-read', 'clipboard-write']
      const page = await browser.newPage({ permissions, ...look })
      page.setDefaultTimeout(300_000)
      const problems = problemsOf(page, origin)
      t.after(() => assert.deepEqual(problems, []))
      await page.addInitScript(
        `addEventListener('securitypolicyviolation', ({ violatedDirective }) =>
          console.error('policy:', violatedDirective))`,
      )
      await page.goto(`${origin}/`)
      return page
    },
    async visit(url) {
      const page = await browser.newPage()
      await page.goto(url)
      return page
    },
    async check(page, what) {
      await page.evaluate(axe)
      const violations = await page.evaluate<unknown[]>(
        `axe.run().then(({ violations }) => violations.map(({ id, nodes }) =>
          id + nodes.map(({ html, failureSummary }) => '\\n' + html + ' ' + failureSummary)))`,
      )
      assert.deepEqual(violations, [], what)
      const measure = 'document.documentElement.scrollWidth - innerWidth'
      const beyond = await page.evaluate<number>(measure)
      assert.ok(beyond <= 0, `${what}: ${beyond} px beyond the edge`)
    },
  }
}

function problemsOf(page: Page, origin: string): string[] {
  const problems: string[] = []
  page.on('console', (message) => {
    // Chromium itself reports every response of 400 and above, and every lost connection.
    const isScripts = !message.text().startsWith('Failed to load resource: ')
    if (isScripts && ['error', 'warning'].includes(message.type())) problems.push(message.text())
  })
  page.on('pageerror', (error) => problems.push(String(error.stack)))
  page.on('dialog', (dialog) => problems.push(`dialog: ${dialog.message()}`))
  page.on('request', (request) => {
    const isOurs = request.url().startsWith(`${origin}/`) || request.url().startsWith('data:')
    if (!isOurs) problems.push(`request to ${request.url()}`)
  })
  return problems
}

export type Seen = Readonly<Record<string, string | RegExp>>

export async function shows(page: Page, seen: Seen): Promise<void> {
  for (const [selector, hasText] of Object.entries(seen)) {
    const state = selector.endsWith(':empty') ? 'attached' : 'visible'
    await page.locator(selector, { hasText }).first().waitFor({ state })
  }
}

/** An action on an element, with a value, and what the page then shows. */
export type Step = [act: keyof Hand, selector: string, value: string, seen?: Seen]

export async function does(page: Page, hand: Hand, ...steps: readonly Step[]): Promise<void> {
  for (const [act, selector, value, seen = {}] of steps) {
    await hand[act](page, selector, value)
    await shows(page, seen)
  }
}

/** Presses a button or box, types a text, chooses a radio button, picks an option of a select. */
export type Hand = Record<
  'press' | 'type' | 'choose' | 'pick',
  (page: Page, selector: string, value: string) => Promise<void>
>

export const MOUSE: Hand = {
  press: (page, selector) => page.locator(selector).click(),
  type: (page, selector, text) => page.locator(selector).fill(text),
  choose: (page, selector, value) =>
    page.locator(`label:has(${selector}[value="${value}"])`).click(),
  pick: async (page, selector, value) => void (await page.locator(selector).selectOption(value)),
}

const isFocused = (page: Page, selector: string) =>
  page.evaluate<boolean>(`document.activeElement.matches(${JSON.stringify(selector)})`)

/** Presses a key until something is true. */
async function pressUntil(page: Page, key: string, isSo: () => Promise<boolean>): Promise<void> {
  for (let presses = 0; !(await isSo()); presses++) {
    assert.ok(presses < 150, `${key} does not lead to it: ${isSo}`)
    await page.keyboard.press(key)
  }
}

/** Presses Tab until an element has the focus, and asserts that it has an outline. */
async function reach(page: Page, selector: string): Promise<void> {
  await pressUntil(page, 'Tab', () => isFocused(page, selector))
  const outlines = await page.evaluate<string[]>(
    `[document.activeElement, document.activeElement.closest('label') ?? document.body]
      .map((element) => getComputedStyle(element))
      .map(({ outlineStyle, outlineWidth }) => outlineStyle + outlineWidth)`,
  )
  assert.ok(outlines.includes('solid2px'), `${selector} has the focus and does not show it`)
}

export const KEYBOARD: Hand = {
  async press(page, selector) {
    await reach(page, selector)
    await page.keyboard.press((await isFocused(page, '[type=checkbox]')) ? 'Space' : 'Enter')
  },
  async type(page, selector, text) {
    await reach(page, selector)
    await page.keyboard.press('Control+A')
    await page.keyboard.insertText(text)
  },
  async choose(page, selector, value) {
    await reach(page, selector)
    await pressUntil(page, 'ArrowRight', () => isFocused(page, `[value="${value}"]:checked`))
  },
  async pick(page, selector, value) {
    await reach(page, selector)
    const isPicked = async () => (await page.locator(selector).inputValue()) === value
    await pressUntil(page, 'ArrowUp', isPicked)
  },
}
