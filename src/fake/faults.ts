import { validateHeaderName, validateHeaderValue } from 'node:http'
import { clearTimeout, setTimeout } from '../clock.ts'
import { codedError } from '../errors.ts'
import { failureReply, type Headers, type Reply } from '../http/reply.ts'
import type { Handler, Request, Route } from '../http/router.ts'
import { writeJson } from '../pets/json.ts'
import {
  BOOLEAN,
  check,
  checkMembers,
  FUNCTION,
  integer,
  isRecord,
  oneOf,
  type Rule,
} from '../rules.ts'
import type { Fault, PendingFault } from '../types.ts'
import { OPERATIONS, receivedRequest } from './requests.ts'

const MAX_PENDING = 1_000
const ERROR = { code: 'injected_fault', message: 'A test asked for this fault' }
const REFUSED_HEADERS = ['content-length', 'transfer-encoding']

const RULES: Readonly<Record<keyof Fault, Rule>> = {
  operation: oneOf(...OPERATIONS, '*'),
  matching: FUNCTION,
  after: integer(0, 1_000_000),
  times: {
    mustBe: 'an integer from 1 to 1000000, or always',
    accepts: (value) => value === 'always' || integer(1, 1_000_000).accepts(value),
  },
  delay: integer(0, 600_000),
  status: integer(200, 599),
  body: { mustBe: 'a string, or a value that JSON can represent', accepts: isBody },
  headers: {
    mustBe: 'an object of valid headers, without Content-Length and Transfer-Encoding',
    accepts: (value) => isRecord(value) && Object.entries(value).every(isHeader),
  },
  hangUp: oneOf(true, false, 'halfway', 'stalled'),
  done: BOOLEAN,
}

/** A fault and its counts. */
interface Injected {
  readonly fault: Fault
  reached: number // how many requests have reached it
  hits: number // how many of these it has applied to
}

/** The faults that a test has injected. */
export class Faults {
  #pending: readonly Injected[] = []
  readonly #delayed = new Map<NodeJS.Timeout, (isHungUp: boolean) => void>()

  inject(input: unknown): { readonly hits: number } {
    const fault = readFault(input)
    if (this.#pending.length === MAX_PENDING) {
      throw codedError('invalid_option', `there must be at most ${MAX_PENDING} pending faults`)
    }
    const injected: Injected = { fault, reached: 0, hits: 0 }
    this.#pending = [...this.#pending, injected]
    return {
      get hits() {
        return injected.hits
      },
    }
  }

  /** Copies of the faults still to come. */
  get pending(): PendingFault[] {
    return this.#pending.map(({ fault, hits }) => {
      const { times = 1 } = fault
      return { ...fault, times: times === 'always' ? times : times - hits, hits }
    })
  }

  /** Drops the faults, and hangs up on the requests that they delay. */
  clear(): void {
    this.#pending = []
    for (const [timer, resolve] of this.#delayed) {
      clearTimeout(timer)
      resolve(true)
    }
    this.#delayed.clear()
  }

  /** Wraps each operation, so that a fault that is due applies. */
  wrap(routes: readonly Route[]): Route[] {
    return routes.map((route) => {
      const handle: Handler = (request) => {
        const fault = this.#dueFor(request)
        return fault ? this.#apply(fault, request, route.handle) : route.handle(request)
      }
      return route.isSecured ? { ...route, handle } : route
    })
  }

  /** The first fault that is due. Counts the request for each that it reaches, up to that one. */
  #dueFor(request: Request): Fault | undefined {
    for (const injected of this.#pending) {
      const { operation, matching, after = 0, times = 1 } = injected.fault
      if (operation !== '*' && operation !== request.operation) continue
      if (matching && !matching(receivedRequest(request))) continue
      injected.reached++
      if (injected.reached <= after) continue
      injected.hits++
      if (injected.hits === times) this.#pending = this.#pending.filter((one) => one !== injected)
      return injected.fault
    }
    return undefined
  }

  async #apply(fault: Fault, request: Request, operation: Handler): ReturnType<Handler> {
    const { delay = 0, status, hangUp = false, done = false } = fault
    const carryOut = (): ReturnType<Handler> => operation(request).catch(failureReply)
    let reply = done ? await carryOut() : undefined
    const isHungUp = delay > 0 && (await this.#delay(delay))
    if (isHungUp || hangUp === true) return undefined
    if (status !== undefined) reply = replyOf(status, fault)
    reply ??= await carryOut()
    return reply && hangUp ? { ...reply, hangUp } : reply
  }

  /** Resolves to false after a time; to true, at once, if the faults are cleared. */
  #delay(ms: number): Promise<boolean> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => {
        this.#delayed.delete(timer)
        resolve(false)
      }, ms)
      this.#delayed.set(timer, resolve)
    })
  }
}

/** Checks types, too: faults also come from JavaScript and over HTTP. */
function readFault(input: unknown): Fault {
  const members = checkMembers('fault', input, RULES)
  check('operation', members['operation'], RULES.operation) // the only required member
  const { status, delay, hangUp, body, headers } = members
  if (status === undefined && delay === undefined && !hangUp) {
    throw codedError('invalid_option', 'a fault must have a delay, a status or hangUp')
  }
  if (status === undefined && (body !== undefined || headers !== undefined)) {
    throw codedError('invalid_option', 'body and headers need a status')
  }
  if (status !== undefined && hangUp === true) {
    throw codedError('invalid_option', 'hangUp true cannot have a status')
  }
  return { ...members } as unknown as Fault // as the rules say
}

function isBody(value: unknown): boolean {
  try {
    return writeJson(value) !== undefined
  } catch {
    return false // it contains itself
  }
}

function isHeader([name, value]: readonly [string, unknown]): boolean {
  if (REFUSED_HEADERS.includes(name.toLowerCase())) return false
  try {
    validateHeaderName(name)
    for (const one of [value].flat()) {
      if (typeof one !== 'string' && typeof one !== 'number') return false
      validateHeaderValue(name, `${one}`)
    }
    return true
  } catch {
    return false
  }
}

/** The response that a fault with a status asks for. */
function replyOf(status: number, { body, headers: given = {} }: Fault): Reply {
  const fields = Object.entries(given).map(([name, value]) => [name.toLowerCase(), value])
  const headers: Headers = Object.fromEntries(fields)
  if (status === 204 || status === 304) return { status, headers }
  if (body === undefined) {
    return { status, headers, body: JSON.stringify({ ...ERROR, status }), error: ERROR }
  }
  return { status, headers, body: typeof body === 'string' ? body : writeJson(body) }
}
