import { hash } from 'node:crypto'
import { errorReply } from '../api/errors.ts'
import type { HangUp, Reply } from '../http/respond.ts'
import type { Call, Handler, Route } from '../http/router.ts'
import { withCode } from '../rules.ts'
import type { Delay, Fault, InjectedFault, PendingFault } from '../types.ts'
import { cutBody, slowBody, stalledBody } from './bodies.ts'
import { type DelayEnd, Delays } from './delays.ts'
import { checkFault } from './fault-rules.ts'

const MAX_PENDING = 1_000 // of a store
const MAX_PENDING_LENGTH = 2 ** 20 // of all pending faults as JSON, in all stores
const MAX_INJECTED = 1_000 // whose hits can be asked for over HTTP

interface Pending {
  readonly id: string
  readonly fault: Fault & { times: number | 'always' } // `times` counts down
  seen: number // requests that matched it, and that no earlier fault applied to
  readonly met: { hits: number } // those that it applied to; outlives the fault
  readonly length: number // as JSON, when it was injected
}

/** Characters of JSON that the pending faults of all stores take together. */
export interface FaultSum {
  length: number
}

/** Clients of the controls may inject many: all are kept, and a request may draw for each. */
function checkPending(count: number, length: number): void {
  if (count <= MAX_PENDING && length <= MAX_PENDING_LENGTH) return
  const bounds = `${MAX_PENDING} pending faults, of ${MAX_PENDING_LENGTH} characters of JSON`
  throw withCode('invalid_option', new RangeError(`there must be at most ${bounds}`))
}

/** What inject() returns, with the id by which the controls know it. */
export interface IdentifiedFault extends InjectedFault {
  readonly id: string
}

const NO_FAULT: { fault: Partial<Fault>; seen: number } = { fault: {}, seen: 0 }

/** The pending faults, and the delay of every operation. */
export class Faults {
  readonly #plainRoutes: Route[] // which run as they are
  readonly #delay: Delay
  readonly #sum: FaultSum
  readonly #delays = new Delays()
  readonly #hit = new WeakSet<object>() // heads of requests that a fault applied to
  readonly #injected = new Map<string, InjectedFault>() // by id: the latest
  #lastId = 0
  #pending: Pending[] = []
  #count = 0 // requests that #handle() saw; chooses the delay of the next one

  constructor(routes: readonly Route[], delay: Delay, sum: FaultSum) {
    this.#plainRoutes = routes.filter(({ scope }) => scope === 'base')
    this.#delay = delay
    this.#sum = sum
    if (delay !== 0) this.#decorate()
  }

  /** From the first fault on, the operations come here. Until then, each runs as it is. */
  #decorate(): void {
    for (const route of this.#plainRoutes.splice(0)) {
      const { handle } = route
      route.handle = (call) => this.#handle(route, handle, call)
    }
  }

  inject(input: unknown): IdentifiedFault {
    checkFault(input)
    const times = input.times ?? (input.rate === undefined ? 1 : 'always')
    const id = String(this.#lastId + 1)
    const met = { hits: 0 }
    const fault = { ...copyOf(input), times }
    const { length } = JSON.stringify([fault])
    checkPending(this.#pending.length + 1, this.#sum.length + length)
    this.#keep([...this.#pending, { id, fault, seen: 0, met, length }])
    this.#decorate()
    this.#lastId++
    const injected = {
      id,
      get hits() {
        return met.hits
      },
      remove: () => this.#remove(id),
    }
    this.#injected.set(id, injected).delete(String(this.#lastId - MAX_INJECTED))
    return injected
  }

  /** One of the latest faults, also when it is no longer pending. */
  injected(id: string): InjectedFault | undefined {
    return this.#injected.get(id)
  }

  #remove(id: string): void {
    this.#keep(this.#pending.filter((one) => one.id !== id))
  }

  #keep(pending: Pending[]): void {
    for (const { length } of this.#pending) this.#sum.length -= length
    for (const { length } of pending) this.#sum.length += length
    this.#pending = pending
  }

  /** Copies of the pending faults, with the times that are left. */
  get pending(): PendingFault[] {
    return this.#pending.map(({ fault, met }) => ({ ...copyOf(fault), ...met }))
  }

  appliedTo(head: object): boolean {
    return this.#hit.has(head)
  }

  /** Drops the pending faults. Ends all delays, and hangs up on the requests that faults delay. */
  clear(): void {
    this.#keep([])
    this.endDelays()
  }

  /** Ends all delays, and hangs up on the requests that faults delay. Keeps the pending faults. */
  endDelays(): void {
    this.#delays.endAll('cleared')
  }

  /** Hangs up on every delayed request. */
  hangUp(): void {
    this.#delays.endAll('hangUp')
  }

  /** Resolves after a time, or when its delay is ended. */
  #startDelay(ms: number, call: Call): Promise<DelayEnd> {
    const { ended, end } = this.#delays.start(ms)
    call.endDelay = () => end('over')
    return ended.finally(() => (call.endDelay = undefined))
  }

  async #handle(route: Route, handle: Handler, call: Call): Promise<Reply | HangUp> {
    const pending = this.#faultFor(route.operation, call.param)
    if (pending) this.#hit.add(call.head)
    const { fault, seen } = pending ?? NO_FAULT
    const faultDelay = drawDelay(fault.delay, fault.seed, seen)
    const ownDelay = fault.body === 'slow' ? 0 : faultDelay // else it is the body's
    const ms = drawDelay(this.#delay, 0, this.#count) + ownDelay
    this.#count++
    const delay = ms > 0 ? this.#startDelay(ms, call) : undefined
    const outcome = fault.done ? await handle(call) : undefined
    const end = await delay
    // After clear(), a request that a fault delayed gets no response.
    if (end === 'hangUp' || (end === 'cleared' && ownDelay > 0)) return 'end'
    if (fault.hangUp) return fault.hangUp === 'reset' ? 'reset' : 'end'
    const reply = replacementOf(fault, route.method) ?? outcome ?? (await handle(call))
    return typeof reply === 'string' ? reply : this.#spoil(reply, fault, faultDelay)
  }

  /** Garbles the body of a reply, or sends it in pieces. Its length stays that of the whole. */
  #spoil(reply: Reply, fault: Partial<Fault>, ms: number): Reply {
    const { body = '' } = reply
    const delays = this.#delays
    if (fault.body === 'garbled') return garble(reply, fault.message)
    if (fault.body === 'cut') return { ...reply, stream: cutBody(body, delays) }
    if (fault.body === 'stalled') return { ...reply, stream: stalledBody(body, delays) }
    if (fault.body === 'slow') return { ...reply, stream: slowBody(body, ms, delays) }
    return reply
  }

  /** The first fault that applies. Counts the request for each matching fault up to that one. */
  #faultFor(operation: string, petId: string): Pending | undefined {
    for (const pending of this.#pending) {
      const { fault } = pending
      if (fault.operation !== '*' && fault.operation !== operation) continue
      if (fault.petId !== undefined && String(fault.petId) !== petId) continue
      const at = pending.seen - (fault.after ?? 0)
      pending.seen++
      if (at < 0 || draw('rate', fault.seed, at) >= (fault.rate ?? 1)) continue
      pending.met.hits++
      if (fault.times !== 'always') fault.times--
      if (fault.times === 0) this.#remove(pending.id)
      return pending
    }
    return undefined
  }
}

/** A copy, which shares nothing with the fault. All that a fault has is JSON. */
function copyOf(fault: Fault): Fault {
  return JSON.parse(JSON.stringify(fault))
}

/** A body that is not JSON, and so no Error. */
function garble({ code: _, message: __, ...reply }: Reply, text: string = MESSAGE): Reply {
  return { ...reply, body: text }
}

/** A number from 0 to below 1, the same in each run. */
function draw(purpose: string, seed: number | undefined, at: number): number {
  const digits = hash('sha256', `${purpose} ${seed ?? 0} ${at}`).slice(0, 8)
  return Number(`0x${digits}`) / 2 ** 32
}

function drawDelay(delay: Delay = 0, seed: number | undefined, at: number): number {
  const [min = 0, max = min] = [delay].flat()
  return min + Math.floor(draw('delay', seed, at) * (max - min + 1))
}

const MESSAGE = 'A test asked for this fault'

/** What replaces the operation's response, if anything does. */
function replacementOf(fault: Partial<Fault>, method: Route['method']): Reply | undefined {
  const { status, code = 'injected_fault', message = MESSAGE, retryAfter, body, done } = fault
  // `done`: the operation has run. Otherwise a garbled response needs none, and one that is lost
  // halfway must not write; a GET runs, because its own body is the one to lose.
  const isLost = body === 'cut' || body === 'stalled'
  const skipsOperation = !done && (body === 'garbled' || (isLost && method !== 'GET'))
  if (status === undefined && !skipsOperation) return undefined
  const headers = Object.entries(fault.headers ?? {}).flat()
  if (retryAfter !== undefined) headers.push('Retry-After', String(retryAfter))
  const standIn = isLost ? 500 : 200 // #spoil() then cuts this Error, or garbles the 200
  return errorReply(status ?? standIn, code, message, headers)
}
