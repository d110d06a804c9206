// What node has of its own, taken once, when this is loaded. Tests replace globals (jsdom,
// happy-dom), and even the members of node:timers (sinon, node:test) and of node:http (msw, nock).
import http from 'node:http'
import { performance } from 'node:perf_hooks'
import timers from 'node:timers'
import { runInThisContext } from 'node:vm'

export const setTimeout: typeof timers.setTimeout = timers.setTimeout
export const clearTimeout: typeof timers.clearTimeout = timers.clearTimeout
export const setInterval: typeof timers.setInterval = timers.setInterval
export const clearInterval: typeof timers.clearInterval = timers.clearInterval
export const setImmediate: typeof timers.setImmediate = timers.setImmediate

export const request: typeof http.request = http.request

/** Resolves in a later turn of the event loop. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}

/** Milliseconds, by a clock that no test stops. */
export const now: () => number = performance.now.bind(performance)

/** The classes of `fetch`, which no module of node has. */
type FetchClasses = Pick<typeof globalThis, 'Headers' | 'Request' | 'Response'>

let classes: FetchClasses | undefined

/**
 * Those of the test environment, so that `instanceof Response` holds. Jest's jsdom has none, and a
 * polyfill may have no streams: then those of node's main context, which tests leave alone. The
 * package takes them when it is loaded, the executable never: node takes 15 ms to load them.
 */
export function fetchClasses(): FetchClasses {
  classes ??= takeFetchClasses()
  return classes
}

function takeFetchClasses(): FetchClasses {
  const { Request, Response }: Partial<FetchClasses> = globalThis
  const haveStreams = [Request, Response].every((one) => one && 'body' in one.prototype)
  const global: FetchClasses = haveStreams ? globalThis : runInThisContext('globalThis')
  return { Headers: global.Headers, Request: global.Request, Response: global.Response }
}
