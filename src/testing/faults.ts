import { setTimeout as wait } from 'node:timers/promises'
import { errorReply } from '../api/errors.ts'
import type { Awaitable, Reply } from '../http/reply.ts'
import type { Call, Handler, Route } from '../http/router.ts'
import { BOOLEAN, checkMembers, integer, oneOf, type Rule } from '../options.ts'
import type { Fault } from '../types.ts'

const RULES: { readonly [K in keyof Fault]-?: Rule<NonNullable<Fault[K]>> } = {
  operation: oneOf(['listPets', 'createPet', 'getPet', 'listOrders', '*']),
  times: integer(1, 1_000_000),
  status: integer(400, 599),
  retryAfter: integer(0, 86_400),
  delay: integer(0, 600_000),
  hangUp: BOOLEAN,
  body: oneOf(['cut']),
}

function checkFault(input: unknown): asserts input is Fault {
  checkMembers('fault', input, RULES)
  const { operation, status, retryAfter, delay, hangUp, body }: Partial<Fault> = input
  if (operation === undefined) throw new TypeError(`operation is required and must be ${RULES.operation.mustBe}`)
  if (status === undefined && delay === undefined && !hangUp && body === undefined) {
    throw new TypeError('fault must have a status, a delay, hangUp or a body')
  }
  if (hangUp && (status !== undefined || body !== undefined)) {
    throw new TypeError('hangUp must be without status and body: there is no response')
  }
  if (retryAfter !== undefined && status !== 429 && status !== 503) {
    throw new TypeError('retryAfter must be with status 429 or 503')
  }
}

/** The faults that wait for their requests. */
export class Faults {
  readonly #routes: Route[]
  #pending: (Fault & { times: number })[] = []
  #cleared = new AbortController()

  /** @param routes Their operations are decorated on the first fault, so that requests without faults never pass here. */
  constructor(routes: readonly Route[]) {
    this.#routes = routes.filter((route) => !route.open)
  }

  /**
   * Adds a fault behind those that wait.
   *
   * @throws TypeError or RangeError that names the member, the value and what it must be.
   */
  inject(fault: unknown): void {
    checkFault(fault)
    for (const route of this.#routes.splice(0)) {
      const { handle } = route
      route.handle = (call) => this.#handle(route, handle, call)
    }
    this.#pending.push({ ...fault, times: fault.times ?? 1 })
  }

  /** The faults that wait, in their order, with the times that are left. */
  get pending(): Fault[] {
    return this.#pending.map((fault) => ({ ...fault }))
  }

  /** Removes the faults that wait, and ends the delays that run: their connections are destroyed. */
  clear(): void {
    this.#pending = []
    this.#cleared.abort()
    this.#cleared = new AbortController()
  }

  #handle({ operation, method }: Route, handle: Handler, call: Call): Awaitable<Reply> {
    const fault = this.#pending.find((one) => one.operation === '*' || one.operation === operation)
    if (fault === undefined) return handle(call)
    if (--fault.times === 0) this.#pending.splice(this.#pending.indexOf(fault), 1)
    const reply = () => failed(fault, method, handle, call)
    return fault.delay === undefined ? reply() : this.#delay(fault.delay, call, reply)
  }

  async #delay(ms: number, call: Call, reply: () => Awaitable<Reply>): Promise<Reply> {
    const cleared = this.#cleared.signal
    const signal = call.signal === undefined ? cleared : AbortSignal.any([cleared, call.signal])
    await wait(ms, undefined, { signal }).catch(() => {})
    return signal.aborted ? HUNG_UP : reply()
  }
}

const HUNG_UP: Reply = { status: 0, breaksOff: 'before' }

function failed(fault: Fault, method: Route['method'], handle: Handler, call: Call): Awaitable<Reply> {
  const { status, retryAfter, hangUp, body } = fault
  if (hangUp) return HUNG_UP
  if (status === undefined && body === undefined) return handle(call)
  const cut = (reply: Reply): Reply => ({ ...reply, breaksOff: 'within' })
  if (status === undefined && method === 'GET') return Promise.resolve(handle(call)).then(cut)
  const headers = retryAfter === undefined ? [] : ['Retry-After', String(retryAfter)]
  const error = errorReply(status ?? 500, 'injected_fault', 'A test asked for this fault', headers)
  return body === undefined ? error : cut(error)
}
