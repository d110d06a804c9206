import { clearTimeout, setTimeout } from '../runtime.ts'
import type { RecordedRequest } from '../types.ts'

export type Matches = (request: RecordedRequest) => boolean
type Outcome = RecordedRequest[] | 'timeout' | 'closed'

/** A caller who waits for requests. */
export class Wait {
  readonly outcome: Promise<Outcome>
  readonly #matches: Matches
  readonly #count: number
  readonly #find: (matches: Matches) => RecordedRequest[]
  #missing = 0 // at least; a recount at each request would take quadratic time
  #settle: (outcome: Outcome | Promise<never>) => void = () => {}

  /** @param find Copies of all requests that match. */
  constructor(
    count: number,
    matches: Matches,
    timeout: number,
    find: (matches: Matches) => RecordedRequest[],
  ) {
    this.#matches = matches
    this.#count = count
    this.#find = find
    this.outcome = new Promise((resolve) => {
      const timer = setTimeout(() => this.end('timeout'), timeout)
      this.#settle = (outcome) => {
        clearTimeout(timer)
        resolve(outcome)
      }
    })
    this.#try(() => this.#recount())
  }

  onRequest(request: RecordedRequest): void {
    this.#try(() => {
      if (this.#matches(request)) this.#missing--
      if (this.#missing <= 0) this.#recount()
    })
  }

  end(reason: 'timeout' | 'closed'): void {
    this.#settle(reason)
  }

  /** What the caller's `matching` throws rejects the wait. */
  #try(look: () => void): void {
    try {
      look()
    } catch (error) {
      this.#settle(Promise.reject(error))
    }
  }

  #recount(): void {
    const found = this.#find(this.#matches)
    this.#missing = this.#count - found.length
    if (this.#missing <= 0) this.#settle(found)
  }
}
