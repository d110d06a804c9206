// Must be the first import of a test: src/ takes timers and clock of node once, as it is loaded.
import type { TestContext } from 'node:test'
import timers from 'node:timers'

for (const name of ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'] as const) {
  const callGlobal = (...args: unknown[]) => Reflect.apply(globalThis[name], undefined, args)
  Object.assign(timers, { [name]: callGlobal })
}

const readClock = performance.now.bind(performance)
let isStopped = false
performance.now = () => (isStopped ? 0 : readClock())

/** Stops the clock, that of src/ too. */
export function stopClock(t: TestContext): void {
  isStopped = true
  t.after(() => (isStopped = false))
}

/** Mocks timers, those of src/ too. */
export function mockTimers(t: TestContext, ...apis: ('setInterval' | 'setTimeout')[]): void {
  t.mock.timers.enable({ apis })
  t.after(() => t.mock.timers.reset())
}
