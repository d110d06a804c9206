import { closeSync, openSync } from 'node:fs'
import { devNull } from 'node:os'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { hasCode, messageOf } from '../guards.ts'
import { clearInterval, setInterval } from '../runtime.ts'
import type { Launched } from '../petstore/launch.ts'

const MINUTE = 60_000
const RESOLUTION = 50 // milliseconds between two samples of the event loop's delay
const LONG_DELAY = 100 // milliseconds, of the event loop

/** Logs a line a minute, unless nothing came and all is well. Returns what ends that. */
export function logEachMinute(launched: Launched): () => void {
  if (launched.options.log === 'off') return () => {}
  const delays = monitorEventLoopDelay({ resolution: RESOLUTION })
  delays.enable()
  const timer = setInterval(() => {
    // Each sample has the time between two of them in it.
    const delay = Math.max(0, Math.round(delays.percentile(99) / 1e6) - RESOLUTION)
    delays.reset()
    logMinute(launched, delay)
    warnOfNoFiles(launched)
  }, MINUTE).unref()
  return () => {
    clearInterval(timer)
    delays.disable()
  }
}

/** @param delay How late the event loop was, in milliseconds, in all but 1 % of the minute. */
function logMinute({ log, load, core, keyCores }: Launched, delay: number): void {
  const ended = log.takeCounts()
  const { connections = 0, requests = 0 } = load?.() ?? {}
  if (ended.size === 0 && requests === 0 && delay < LONG_DELAY) return
  const { bytes } = keyCores ?? core.context.store
  const heap = process.memoryUsage().heapUsed
  const members = {
    connections,
    inFlight: requests,
    loopDelayMs: delay,
    heapBytes: heap,
    petBytes: bytes,
    ...Object.fromEntries([...ended].sort()),
  }
  const shown = Object.entries(members).map(([name, value]) => `${name}=${value ?? '?'}`)
  log.event('info', `the last minute: ${shown.join(' ')}`, members)
}

/** Nothing else tells that the system closes connections, for which there is no descriptor. */
function warnOfNoFiles({ log }: Launched): void {
  try {
    closeSync(openSync(devNull, 'r'))
  } catch (error) {
    if (!hasCode(error, 'EMFILE', 'ENFILE')) return
    log.event('warn', `no file can be opened, so new connections are closed: ${messageOf(error)}`)
  }
}
