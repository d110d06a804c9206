import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import type { TestContext } from 'node:test'
import { pathToFileURL } from 'node:url'
import { folderOf } from './support.ts'
import { isHere } from './system/packages.ts'

const PACKAGES = ['playwright-core@1.64.1', 'axe-core@4.14.1']
const ARGS = ['no-sandbox', 'disable-gpu', 'disable-quic', 'no-first-run', 'disable-background-networking']
const MORE_ARGS = ['disable-component-update', 'disable-sync']

/** As much of playwright-core as the tests use. */
export interface Locator {
  click(): Promise<void>
  fill(text: string): Promise<void>
  selectOption(value: string): Promise<unknown>
  inputValue(): Promise<string>
  waitFor(options?: { state: 'visible' | 'detached' }): Promise<void>
  count(): Promise<number>
  innerText(): Promise<string>
  textContent(): Promise<string | null>
  allTextContents(): Promise<string[]>
  getAttribute(name: string): Promise<string | null>
  first(): Locator
}

export interface Page {
  readonly keyboard: { press(key: string): Promise<void>; insertText(text: string): Promise<void> }
  goto(url: string): Promise<unknown>
  reload(): Promise<unknown>
  url(): string
  locator(selector: string, options?: { hasText: string | RegExp }): Locator
  evaluate<T>(expression: string): Promise<T>
  screenshot(options: { path: string; fullPage: boolean }): Promise<unknown>
  addInitScript(script: string): Promise<unknown>
  on(event: 'console', listener: (message: { type(): string; text(): string }) => void): void
  on(event: 'pageerror', listener: (error: Error) => void): void
  on(event: 'dialog', listener: (dialog: { message(): string; dismiss(): Promise<void> }) => void): void
  on(event: 'request', listener: (request: { url(): string; headers(): Record<string, string> }) => void): void
}

interface PageContext {
  setDefaultTimeout(milliseconds: number): void
  newPage(): Promise<Page>
}

interface Browser {
  newContext(options: object): Promise<PageContext>
  close(): Promise<void>
}

interface Playwright {
  chromium: { launch(options: { executablePath: string; args: string[] }): Promise<Browser> }
}

/** Why no browser can be had here; false where one can. Debian's is installed where it is missing, by one test at a time. */
export function lacksBrowser(): string | false {
  return !isHere('chromium') && 'there is no chromium, and none can be installed'
}

/** A real browser, and the program that finds what keeps people out of a page. */
export class Chromium {
  readonly #browser: Browser
  readonly #axe: string

  constructor(browser: Browser, axe: string) {
    this.#browser = browser
    this.#axe = axe
  }

  /** Starts it; the end of the test closes it. */
  static async launch(t: TestContext): Promise<Chromium> {
    const folder = folderOf(t)
    execFileSync('npm', ['install', '--no-audit', '--no-fund', '--ignore-scripts', '--prefix', folder, ...PACKAGES])
    const modules = `${folder}/node_modules`
    const { chromium }: Playwright = await import(pathToFileURL(`${modules}/playwright-core/index.mjs`).href)
    const executablePath = execFileSync('which', ['chromium'], { encoding: 'utf8' }).trim()
    const args = [...ARGS, ...MORE_ARGS].map((arg) => `--${arg}`)
    const browser = await chromium.launch({ executablePath, args })
    t.after(() => browser.close())
    return new Chromium(browser, readFileSync(`${modules}/axe-core/axe.min.js`, 'utf8'))
  }

  /** Opens a tab with a session of its own, in which whatever is wrong is added to `problems`. */
  async open(origin: string, problems: string[], options: object = {}): Promise<Page> {
    const context = await this.#browser.newContext({ permissions: ['clipboard-read', 'clipboard-write'], ...options })
    context.setDefaultTimeout(15_000)
    const page = await context.newPage()
    await page.addInitScript(
      'addEventListener("securitypolicyviolation", (event) => console.error("policy:", event.violatedDirective))',
    )
    page.on('console', (message) => {
      // Chromium itself reports every answer of 400 and above, and every lost connection.
      const isScripts = !message.text().startsWith('Failed to load resource: ')
      if (isScripts && ['error', 'warning'].includes(message.type())) problems.push(message.text())
    })
    page.on('pageerror', (error) => problems.push(String(error.stack)))
    page.on('dialog', (dialog) => {
      problems.push(`dialog: ${dialog.message()}`)
      void dialog.dismiss()
    })
    page.on('request', (request) => {
      const isOurs = request.url().startsWith(`${origin}/`) || request.url().startsWith('data:')
      if (!isOurs) problems.push(`request to ${request.url()}`)
    })
    return page
  }

  /** Asserts that axe finds nothing, and that nothing stands beyond the right edge. */
  async check(page: Page, what: string): Promise<void> {
    await page.evaluate(this.#axe)
    const violations = await page.evaluate<unknown[]>(
      `axe.run().then(({ violations }) => violations.map(({ id, nodes }) =>
        [id, ...nodes.map(({ html, failureSummary }) => html + ' ' + failureSummary)].join('\\n')))`,
    )
    assert.deepEqual(violations, [], what)
    const beyond = await page.evaluate<number>('document.documentElement.scrollWidth - innerWidth')
    assert.ok(beyond <= 0, `${what}: ${beyond} px beyond the edge`)
  }
}
