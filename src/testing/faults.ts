import { timers } from '../builtins.ts'
import { errorReply, type Reply } from '../http/reply.ts'
import type { Answer, Call, Route } from '../http/router.ts'
import { BOOLEAN, checkMembers, integer, oneOf, type Rule } from '../rules.ts'

const { setTimeout: after } = timers // taken at once: a test's fake timers come later

/** The contract's operations, by their operationId. */
export type OperationId = 'listPets' | 'createPet' | 'getPet' | 'listOrders'

/**
 * What goes wrong on purpose: with a request that would have reached this operation, instead of it. The store is not
 * touched, and the answer, if there is one, is an Error with the code `injected_fault`. A `delay` alone only delays.
 */
export interface Fault {
  /** The operation that fails; `*` for any. */
  operation: OperationId | '*'
  /** How many requests fail, after which the fault is gone; 1 unless given. */
  times?: number
  /** HTTP status of the answer, 400 to 599; 500 unless given. */
  status?: number
  /** Seconds that `Retry-After` names (RFC 9110 §10.2.3); with status 429 or 503. */
  retryAfter?: number
  /** Milliseconds before the answer. */
  delay?: number
  /** The connection is destroyed before any answer. */
  hangUp?: boolean
  /** `cut`: the answer breaks off half-way; without `status` that of an operation which only reads is its own. */
  body?: 'cut'
}

const RULES: { readonly [K in keyof Fault]-?: Rule<NonNullable<Fault[K]>> } = {
  operation: oneOf(['listPets', 'createPet', 'getPet', 'listOrders', '*']),
  times: integer(1, 1_000_000),
  status: integer(400, 599),
  retryAfter: integer(0, 86_400),
  delay: integer(0, 600_000),
  hangUp: BOOLEAN,
  body: oneOf(['cut']),
}

/**
 * Checks a fault.
 *
 * @throws TypeError or RangeError that names the member, the value and what it must be.
 */
export function checkFault(input: unknown): asserts input is Fault {
  checkMembers('fault', input, RULES)
  const { operation, status, retryAfter, delay, hangUp, body }: Partial<Fault> = input
  if (operation === undefined) throw new TypeError(`operation is required and must be ${RULES.operation.mustBe}`)
  if (status === undefined && delay === undefined && !hangUp && body === undefined) {
    throw new TypeError('fault must have a status, a delay, hangUp or a body')
  }
  if (hangUp && (status !== undefined || body !== undefined)) {
    throw new TypeError('hangUp must be without status and body: there is no answer')
  }
  if (retryAfter !== undefined && status !== 429 && status !== 503) {
    throw new TypeError('retryAfter must be with status 429 or 503')
  }
}

/** The faults that wait for their requests. */
export class Faults {
  #pending: (Fault & { times: number })[] = []
  #stop = new AbortController()

  /** Adds a fault behind those that wait. */
  inject(fault: Fault): void {
    this.#pending.push({ ...fault, times: fault.times ?? 1 })
  }

  /** What waits, in its order, with the times that are left. */
  get pending(): Fault[] {
    return this.#pending.map((fault) => ({ ...fault }))
  }

  /** Forgets what waits, and ends the delays that run: their connections are destroyed. */
  clear(): void {
    this.#pending = []
    this.#stop.abort()
    this.#stop = new AbortController()
  }

  /** Answers a request to an operation: by the first fault that is for it, or else by the operation. */
  answer(route: Route, call: Call): Answer {
    if (this.#pending.length === 0) return route.handle(call)
    const fault = this.#take(route)
    if (fault === undefined) return route.handle(call)
    return fault.delay === undefined
      ? fail(fault, route, call)
      : this.#later(fault.delay, call, () => fail(fault, route, call))
  }

  async #later(delay: number, call: Call, answer: () => Answer): Promise<Reply> {
    const stop = this.#stop.signal
    const signal = call.signal === undefined ? stop : AbortSignal.any([stop, call.signal])
    await after(delay, undefined, { signal }).catch(() => {})
    return signal.aborted ? HUNG_UP : answer()
  }

  #take(route: Route): Fault | undefined {
    if (route.open) return undefined // outside the base path stands no operation of the contract
    const fault = this.#pending.find(({ operation }) => operation === '*' || operation === route.operation)
    if (fault !== undefined && --fault.times === 0) this.#pending.splice(this.#pending.indexOf(fault), 1)
    return fault
  }
}

const HUNG_UP: Reply = { status: 0, breaksOff: 'before' }

function fail({ status, retryAfter, hangUp, body }: Fault, route: Route, call: Call): Answer {
  if (hangUp) return HUNG_UP
  if (status === undefined && body === undefined) return route.handle(call)
  const fields = retryAfter === undefined ? [] : ['Retry-After', String(retryAfter)]
  const injected = errorReply('injected_fault', 'A test asked for this fault', fields, status)
  if (body === undefined) return injected
  if (status === undefined && route.method === 'GET') return Promise.resolve(route.handle(call)).then(cut)
  return cut(injected)
}

function cut(reply: Reply): Reply {
  return { ...reply, breaksOff: 'within' }
}
