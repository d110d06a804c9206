import { createHash } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { errorReply } from '../api/errors.ts'
import type { Reply } from '../http/reply.ts'
import type { Call, Handler, Route } from '../http/router.ts'
import { BOOLEAN, checkMembers, DELAY, integer, oneOf, OPERATIONS, type Rule } from '../options.ts'
import { MAX_ID } from '../pets/store.ts'
import type { Fault } from '../types.ts'

const COUNT = integer(1, 1_000_000)
const isNumber = (value: unknown): value is number => typeof value === 'number'
const isTimes = (value: unknown): value is number | 'always' => isNumber(value) || value === 'always'

// prettier-ignore
const RULES: { readonly [K in keyof Fault]-?: Rule<NonNullable<Fault[K]>> } = {
  operation: oneOf([...OPERATIONS, '*']),
  petId: integer(1, MAX_ID),
  after: integer(0, 1_000_000),
  times: { mustBe: `${COUNT.mustBe}, or always`, isType: isTimes, isInRange: (times) => times === 'always' || COUNT.isInRange?.(times) === true },
  rate: { mustBe: 'a number above 0, and at most 1', isType: isNumber, isInRange: (rate) => rate > 0 && rate <= 1 },
  seed: integer(0, 2 ** 32 - 1),
  status: integer(400, 599),
  retryAfter: integer(0, 86_400),
  delay: DELAY,
  hangUp: BOOLEAN,
  body: oneOf(['cut', 'garbled']),
}

function checkFault(input: unknown): asserts input is Fault {
  checkMembers('fault', input, RULES)
  const { operation, petId, rate, seed, status, retryAfter, delay, hangUp, body }: Partial<Fault> = input
  const hasResponse = status !== undefined || body !== undefined
  // prettier-ignore
  const refusals: readonly [isRefused: boolean | undefined, why: string][] = [
    [operation === undefined, `operation is required and must be ${RULES.operation.mustBe}`],
    [petId !== undefined && operation !== 'getPet', 'petId must be with the operation getPet: no other has one'],
    [!hasResponse && delay === undefined && !hangUp, 'fault must have a status, a delay, hangUp or a body'],
    [hasResponse && hangUp, 'hangUp must be without status and body: there is no response'],
    [retryAfter !== undefined && status !== 429 && status !== 503, 'retryAfter must be with status 429 or 503'],
    [seed !== undefined && rate === undefined && !Array.isArray(delay), 'seed must be with a rate or a delay of [min, max]'],
  ]
  const [, why] = refusals.find(([isRefused]) => isRefused) ?? []
  if (why !== undefined) throw new TypeError(why)
}

/** A fault that waits, and how many requests have reached it. */
type Pending = { readonly fault: Fault & { times: number | 'always' }; seen: number }

/** The faults that wait for their requests, and the delay of every operation. */
export class Faults {
  readonly #delay: Fault['delay']
  readonly #routes: Route[]
  #pending: Pending[] = []
  #cleared = new AbortController()
  #count = 0

  /** @param routes Their operations are decorated for a delay or on the first fault: other requests never pass here. */
  constructor(routes: readonly Route[], delay: Fault['delay']) {
    this.#routes = routes.filter((route) => !route.open)
    this.#delay = delay
    if (delay !== 0) this.#decorate()
  }

  inject(input: unknown): void {
    checkFault(input)
    this.#decorate()
    const times = input.times ?? (input.rate === undefined ? 1 : 'always')
    this.#pending.push({ fault: { ...structuredClone(input), times }, seen: 0 })
  }

  /** The faults that wait, in their order, with the times that are left. */
  get pending(): Fault[] {
    return this.#pending.map(({ fault }) => structuredClone(fault))
  }

  /** Removes the faults that wait, and ends the delays that run: those of faults destroy their connections. */
  clear(): void {
    this.#pending = []
    this.#cleared.abort()
    this.#cleared = new AbortController()
  }

  #decorate(): void {
    for (const route of this.#routes.splice(0)) {
      const { handle } = route
      route.handle = (call) => this.#handle(route, handle, call)
    }
  }

  async #handle({ operation, method }: Route, handle: Handler, call: Call): Promise<Reply | undefined> {
    const { fault, seen = 0 } = this.#meet(operation, call.param) ?? {}
    const ms = delayOf(this.#delay, 0, this.#count++) + delayOf(fault?.delay, fault?.seed, seen)
    if (ms > 0) {
      const cleared = this.#cleared.signal
      const signal = call.signal === undefined ? cleared : AbortSignal.any([cleared, call.signal])
      await wait(ms, undefined, { signal }).catch(() => {})
      if (call.signal?.aborted || (fault?.delay !== undefined && cleared.aborted)) return undefined
    }
    return fault === undefined ? handle(call) : failed(fault, method, handle, call)
  }

  /** The first fault that this request meets. */
  #meet(operation: string, param: string): Pending | undefined {
    return this.#pending.find((pending) => {
      const { fault } = pending
      if (fault.operation !== '*' && fault.operation !== operation) return false
      if (fault.petId !== undefined && String(fault.petId) !== param) return false
      const at = pending.seen++ - (fault.after ?? 0)
      if (at < 0 || draw('rate', fault.seed, at) >= (fault.rate ?? 1)) return false
      if (fault.times !== 'always' && --fault.times === 0) this.#pending.splice(this.#pending.indexOf(pending), 1)
      return true
    })
  }
}

/** A number from 0 on and below 1, the same one each time. */
function draw(what: string, seed = 0, at: number): number {
  return createHash('sha256').update(`${what} ${seed} ${at}`).digest().readUInt32BE() / 2 ** 32
}

function delayOf(delay: Fault['delay'] = 0, seed: number | undefined, at: number): number {
  const [min = 0, max = min] = [delay].flat()
  return min === max ? min : min + Math.floor(draw('delay', seed, at) * (max - min + 1))
}

const MESSAGE = 'A test asked for this fault'

async function failed(fault: Fault, method: Route['method'], handle: Handler, call: Call): Promise<Reply | undefined> {
  const { status, retryAfter, hangUp, body } = fault
  if (hangUp) return undefined
  if (status === undefined && body === undefined) return handle(call)
  if (status === undefined && body === 'cut' && method === 'GET') return cut(await handle(call))
  const headers = retryAfter === undefined ? [] : ['Retry-After', String(retryAfter)]
  const error = errorReply(status ?? 500, 'injected_fault', MESSAGE, headers)
  if (body === 'garbled') return { ...error, status: status ?? 200, body: MESSAGE }
  return body === 'cut' ? cut(error) : error
}

/** Half of a reply's body, under the length of all of it. */
function cut(reply: Reply | undefined): Reply | undefined {
  const { body = '' } = reply ?? {}
  return reply && { ...reply, body: body.slice(0, body.length >> 1), contentLength: Buffer.byteLength(body) }
}
