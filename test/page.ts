import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import type { PetstoreOptions } from '../src/options.ts'
import { DEMO_PETS } from '../src/pets/demo.ts'
import type { Petstore } from '../src/petstore.ts'
import type { Chromium, Page } from './browser.ts'
import { type Hand, MOUSE } from './hands.ts'
import { KEY, start } from './support.ts'

/** Starts a server with these animals and opens its page, where everything that goes wrong fails the test at its end. */
export async function openPage(
  t: TestContext,
  chromium: Chromium,
  options: PetstoreOptions = {},
  look: object = {},
): Promise<{ petstore: Petstore; page: Page }> {
  const petstore = await start(t, { pets: [...DEMO_PETS], ...options })
  const { origin } = new URL(petstore.url)
  const problems: string[] = []
  const page = await chromium.open(origin, problems, look)
  t.after(() => assert.deepEqual(problems, []))
  await page.goto(`${origin}/`)
  await shows(page, '#list', 'Give a key')
  return { petstore, page }
}

export async function giveKey(page: Page, hand: Hand = MOUSE): Promise<void> {
  await hand.type(page, '#key', KEY)
  await hand.press(page, '#key-form .primary')
}

/** Resolves when an element like this shows this text. */
export function shows(page: Page, selector: string, text: string | RegExp): Promise<void> {
  return page.locator(selector, { hasText: text }).first().waitFor()
}

/** The id of the element that has the focus. */
export function focusOf(page: Page): Promise<string> {
  return page.evaluate('document.activeElement.id')
}
