// Must be the first import of a test: src/ takes timers and clock of node once, as it is loaded.
import type { TestContext } from 'node:test'
import timers from 'node:timers'

for (const name of ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'] as const) {
  const callGlobal = (...args: unknown[]) => Reflect.apply(globalThis[name], undefined, args)
  Object.assign(timers, { [name]: callGlobal })
}

const realClock = performance.now.bind(performance)
let clock = realClock
performance.now = () => clock()

/** Mocks the clock, that of src/ too. It is in milliseconds. */
export function mockClock(t: TestContext, read: () => number): void {
  clock = read
  t.after(() => (clock = realClock))
}

export function stopClock(t: TestContext): void {
  mockClock(t, () => 0)
}

/** Mocks timers, those of src/ too. */
export function mockTimers(t: TestContext, ...apis: ('setInterval' | 'setTimeout')[]): void {
  t.mock.timers.enable({ apis })
  t.after(() => t.mock.timers.reset())
}
