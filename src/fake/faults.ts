import { clearTimeout, setTimeout } from '../clock.ts'
import { errorReply } from '../errors.ts'
import type { Asked, Handler, Reply, Route } from '../http/router.ts'
import { misuse } from '../rules.ts'
import type { Fault, InjectedFault, PendingFault } from '../types.ts'
import { copyOf, readFault } from './fault-rules.ts'

const MAX_PENDING = 1_000
const MESSAGE = 'A test asked for this fault'
const NO_CONTENT = [204, 304]

interface Pending {
  readonly fault: Fault
  left: number // how many requests it still applies to
  seen: number // requests that reached it
  hits: number // those that it applied to
}

/** The faults that a test has injected. */
export class Faults {
  #pending: readonly Pending[] = []
  readonly #delayed = new Set<() => void>() // what hangs up on each request that is delayed

  inject(input: unknown): InjectedFault {
    const fault = readFault(input)
    if (this.#pending.length === MAX_PENDING) {
      throw misuse(`there must be at most ${MAX_PENDING} pending faults`)
    }
    const { times = 1 } = fault
    const left = times === 'always' ? Infinity : times
    const pending: Pending = { fault, left, seen: 0, hits: 0 }
    this.#pending = [...this.#pending, pending]
    return {
      get hits() {
        return pending.hits
      },
      remove: () => this.#remove(pending),
    }
  }

  /** Copies of the faults still to come. */
  get pending(): PendingFault[] {
    return this.#pending.map(({ fault, left, hits }) => {
      return { ...copyOf(fault), times: left === Infinity ? 'always' : left, hits }
    })
  }

  /** Drops the faults, and hangs up on the requests that they delay. */
  clear(): void {
    this.#pending = []
    for (const hangUp of this.#delayed) hangUp()
  }

  /** The route with its operation made to fail, where a fault is due. */
  wrap(route: Route): Route {
    const { operation, handle, isSecured } = route
    if (!isSecured) return route
    const failing: Handler = (asked) => {
      if (this.#pending.length === 0) return handle(asked)
      const fault = this.#take(operation)
      return fault ? this.#apply(fault, asked, handle) : handle(asked)
    }
    return { ...route, handle: failing }
  }

  #remove(pending: Pending): void {
    this.#pending = this.#pending.filter((one) => one !== pending)
  }

  /** The first fault that is due. Counts the request for each that it reaches, up to that one. */
  #take(operation: string): Fault | undefined {
    for (const pending of this.#pending) {
      const { operation: wanted, after = 0 } = pending.fault
      if (wanted !== '*' && wanted !== operation) continue
      pending.seen++
      if (pending.seen <= after) continue
      pending.hits++
      pending.left--
      if (pending.left === 0) this.#remove(pending)
      return pending.fault
    }
    return undefined
  }

  async #apply(fault: Fault, asked: Asked, operation: Handler): Promise<Reply> {
    const { delay = 0, status, hangUp, done } = fault
    const outcome = done ? await operation(asked) : undefined
    const isHungUp = delay > 0 && (await this.#delay(delay)) === 'hung up'
    if (isHungUp) return { status: 0, hangUp: true }
    if (hangUp === true || hangUp === 'reset') return { status: 0, hangUp }
    let reply = outcome
    if (status !== undefined) reply = replyOf(status, fault)
    reply ??= await operation(asked)
    return hangUp ? { ...reply, hangUp } : reply
  }

  #delay(ms: number): Promise<'over' | 'hung up'> {
    return new Promise((resolve) => {
      const end = (how: 'over' | 'hung up'): void => {
        clearTimeout(timer)
        this.#delayed.delete(hangUp)
        resolve(how)
      }
      const hangUp = (): void => end('hung up')
      const timer = setTimeout(() => end('over'), ms)
      this.#delayed.add(hangUp)
    })
  }
}

/** The response that a fault with a status asks for. */
function replyOf(status: number, fault: Fault): Reply {
  const { code = 'injected_fault', message = MESSAGE, body, headers: given = {} } = fault
  const isType = ([name]: [string, string]): boolean => name.toLowerCase() === 'content-type'
  const fields = Object.entries(given)
  const [, type] = fields.find(isType) ?? []
  const headers = fields.filter((field) => !isType(field)).flat()
  if (NO_CONTENT.includes(status)) return { status, headers }
  const reply =
    body === undefined ? errorReply(status, code, message, headers) : { status, headers, body }
  return type === undefined ? reply : { ...reply, type }
}
