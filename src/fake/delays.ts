import { clearTimeout, setTimeout } from '../runtime.ts'

/** How a delay ended: its time was over, or its request is answered now or hung up on. */
export type DelayEnd = 'over' | 'cleared' | 'hangUp'

export interface RunningDelay {
  readonly ended: Promise<DelayEnd>
  end(how: DelayEnd): void
}

/** The delays of all requests. */
export class Delays {
  readonly #running = new Set<RunningDelay>()

  /** @param ms Infinity for one that ends only when it is told to. */
  start(ms: number): RunningDelay {
    let settle: (how: DelayEnd) => void = () => {}
    const ended = new Promise<DelayEnd>((resolve) => (settle = resolve))
    const end = (how: DelayEnd) => {
      clearTimeout(timer)
      this.#running.delete(delay)
      settle(how)
    }
    const timer = ms === Infinity ? undefined : setTimeout(end, ms, 'over')
    const delay = { ended, end }
    this.#running.add(delay)
    return delay
  }

  endAll(how: DelayEnd): void {
    for (const delay of this.#running) delay.end(how)
  }
}
