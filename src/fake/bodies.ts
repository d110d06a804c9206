import { ReadableStream } from 'node:stream/web'
import { connectionError } from '../http/fetch.ts'
import type { Delays, RunningDelay } from './delays.ts'

const SLOW_PIECES = 10

/** A piece of a body, sent after a delay; without bytes, the response breaks off. */
interface Step {
  readonly ms: number
  readonly bytes?: Uint8Array
}

/** The first half of a body, after which the response breaks off. */
export function cutBody(body: string, delays: Delays): ReadableStream<Uint8Array> {
  return inSteps([{ ms: 0, bytes: halfOf(body) }, { ms: 0 }], delays)
}

/** The first half of a body, after which nothing comes until the client leaves. */
export function stalledBody(body: string, delays: Delays): ReadableStream<Uint8Array> {
  return inSteps([{ ms: 0, bytes: halfOf(body) }, { ms: Infinity }], delays)
}

/** A body in pieces, the last of which comes when the time is over. */
export function slowBody(body: string, ms: number, delays: Delays): ReadableStream<Uint8Array> {
  const bytes = Buffer.from(body)
  const count = Math.min(SLOW_PIECES, bytes.length)
  const steps = Array.from({ length: count }, (_, at): Step => {
    const start = Math.floor((at * bytes.length) / count)
    const end = Math.floor(((at + 1) * bytes.length) / count)
    return { ms: ms / count, bytes: bytes.subarray(start, end) }
  })
  return inSteps(steps, delays)
}

function halfOf(body: string): Uint8Array {
  return Buffer.from(body.slice(0, body.length / 2))
}

function inSteps(steps: readonly Step[], delays: Delays): ReadableStream<Uint8Array> {
  const rest = steps.values()
  let delay: RunningDelay | undefined
  return new ReadableStream(
    {
      async pull(controller) {
        const { value: step } = rest.next()
        if (!step) return controller.close()
        delay = step.ms > 0 ? delays.start(step.ms) : undefined
        const isBroken = delay && (await delay.ended) !== 'over'
        if (step.bytes && !isBroken) controller.enqueue(step.bytes)
        else controller.error(connectionError('terminated'))
      },
      cancel: () => delay?.end('cleared'),
    },
    { highWaterMark: 0 }, // it begins only when it is read: not for HEAD
  )
}
