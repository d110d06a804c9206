// How the times that two functions take compare.
import assert from 'node:assert/strict'

const MIN_ROUNDS = 5
/** Milliseconds of further rounds before a check fails. */
const PATIENCE = 10_000
/** Milliseconds that a measurement should take, so that the clock's resolution does not matter. */
const SAMPLE = 0.5

/**
 * Asserts that the second function takes at most `maxRatio` times as long as the first. Collecting
 * garbage and compiling only ever slow a run down, so the shortest run of each counts.
 */
export function assertRatio(maxRatio: number, first: () => unknown, second: () => unknown): void {
  const repeats = repeatsFor(first)
  const start = performance.now()
  let firstTime = Infinity
  let secondTime = Infinity
  for (let round = 1; round <= MIN_ROUNDS || performance.now() - start < PATIENCE; round++) {
    firstTime = Math.min(firstTime, timeOf(first, repeats))
    secondTime = Math.min(secondTime, timeOf(second, repeats))
    if (round >= MIN_ROUNDS && secondTime <= maxRatio * firstTime) return
  }
  assert.fail(`${secondTime / repeats} ms is more than ${maxRatio} times ${firstTime / repeats} ms`)
}

/** How often to run a function in a measurement. Compiles it, too. */
function repeatsFor(run: () => unknown): number {
  let least = Infinity
  for (let round = 0; round < 10; round++) least = Math.min(least, timeOf(run, 1))
  return Math.min(Math.ceil(SAMPLE / Math.max(least, 0.0005)), 1_000)
}

/** The processor time that it takes, in milliseconds: other processes have no part in it. */
function timeOf(run: () => unknown, repeats: number): number {
  const start = process.cpuUsage()
  for (let repeat = 0; repeat < repeats; repeat++) run()
  const { user, system } = process.cpuUsage(start)
  return (user + system) / 1_000
}
