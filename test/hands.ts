import assert from 'node:assert/strict'
import type { Page } from './browser.ts'

/** A way to use a page. */
export interface Hand {
  press(page: Page, selector: string): Promise<void>
  type(page: Page, selector: string, text: string): Promise<void>
  /** Chooses the radio button with this value. */
  choose(page: Page, name: string, value: string): Promise<void>
  /** Picks an option of a select. */
  pick(page: Page, selector: string, value: string): Promise<void>
  toggle(page: Page, selector: string): Promise<void>
}

export const MOUSE: Hand = {
  press: (page, selector) => page.locator(selector).click(),
  type: (page, selector, text) => page.locator(selector).fill(text),
  choose: (page, name, value) => page.locator(`label:has([name=${name}][value="${value}"])`).click(),
  pick: async (page, selector, value) => void (await page.locator(selector).selectOption(value)),
  toggle: (page, selector) => page.locator(selector).click(),
}

/** What has the focus, as an expression. */
const isFocused = (selector: string) => `document.activeElement.matches(${JSON.stringify(selector)})`

/** Goes on by Tab until an element has the focus, and asserts that this can be seen. */
async function reach(page: Page, selector: string): Promise<void> {
  for (let steps = 0; !(await page.evaluate<boolean>(isFocused(selector))); steps++) {
    assert.ok(steps < 150, `Tab does not lead to ${selector}`)
    await page.keyboard.press('Tab')
  }
  const outlines = await page.evaluate<string[]>(
    `[document.activeElement, document.activeElement.closest('label') ?? document.body]
      .map((element) => getComputedStyle(element)).map((style) => style.outlineStyle + style.outlineWidth)`,
  )
  assert.ok(outlines.includes('solid2px'), `${selector} has the focus and does not show it`)
}

export const KEYBOARD: Hand = {
  async press(page, selector) {
    await reach(page, selector)
    await page.keyboard.press('Enter')
  },
  async type(page, selector, text) {
    await reach(page, selector)
    await page.keyboard.press('Control+A')
    await page.keyboard.insertText(text)
  },
  async choose(page, name, value) {
    await reach(page, `[name=${name}]`)
    for (let steps = 0; !(await page.evaluate<boolean>(isFocused(`[value="${value}"]:checked`))); steps++) {
      assert.ok(steps < 10, `the arrow keys do not lead to ${value}`)
      await page.keyboard.press('ArrowRight')
    }
  },
  async pick(page, selector, value) {
    await reach(page, selector)
    for (let steps = 0; (await page.locator(selector).inputValue()) !== value; steps++) {
      assert.ok(steps < 10, `the arrow keys do not lead to ${value}`)
      await page.keyboard.press('ArrowUp')
    }
  },
  async toggle(page, selector) {
    await reach(page, selector)
    await page.keyboard.press('Space')
  },
}
