import { EventEmitter, once } from 'node:events'
import { clearTimeout, now, setTimeout } from '../clock.ts'
import { codedError } from '../errors.ts'
import type { Reply } from '../http/reply.ts'
import type { Request } from '../http/router.ts'
import { check, checkMembers, FUNCTION, integer } from '../rules.ts'
import type { OperationId, ReceivedRequest, RecordedRequest, WaitOptions } from '../types.ts'

const MAX_REQUESTS = 1_000
const SHOWN_REQUESTS = 10
export const OPERATIONS: readonly OperationId[] = ['listPets', 'createPet', 'getPet']

const COUNT = integer(0, MAX_REQUESTS)
const WAIT_RULES = { matching: FUNCTION, timeout: integer(0, 600_000) }

/** A request that is over. */
interface Entry {
  readonly request: Request
  readonly reply: Reply | undefined // undefined if the client got none
  readonly duration: number
}

/** The latest requests. */
export class Requests {
  #entries: Entry[] = [] // in the order of arrival
  #clearedAt = 0
  #isClosed = false
  readonly #changes = new EventEmitter().setMaxListeners(0)

  /** Copies of the requests. */
  get all(): RecordedRequest[] {
    return this.#entries.map(recordOf)
  }

  /** Records a request, unless it came before all were forgotten. */
  add(request: Request, reply: Reply | undefined): void {
    if (request.started < this.#clearedAt) return
    const entry = { request, reply, duration: now() - request.started }
    const before = this.#entries.findLastIndex((one) => one.request.started <= request.started)
    this.#entries.splice(before + 1, 0, entry)
    if (this.#entries.length > MAX_REQUESTS) this.#entries.shift()
    this.#changes.emit('change')
  }

  /** Forgets the requests, and those in flight. */
  clear(): void {
    this.#entries = []
    this.#clearedAt = now()
  }

  close(): void {
    this.#isClosed = true
    this.#changes.emit('change')
  }

  /** See `Petstore.waitForRequests`. */
  async waitFor(count: number, options: WaitOptions = {}): Promise<RecordedRequest[]> {
    check('count', count, COUNT)
    checkMembers('options', options, WAIT_RULES)
    const { matching = () => true, timeout = 4_000 } = options
    let isLate = false
    const timer = setTimeout(() => {
      isLate = true
      this.#changes.emit('change')
    }, timeout)
    try {
      for (;;) {
        const found = this.all.filter(matching)
        if (found.length >= count) return found
        const missing = `${found.length} of ${count} requests came; ${this.#describe()}`
        if (this.#isClosed) throw codedError('closed', `closed: ${missing}`)
        if (isLate) throw codedError('timeout', `timed out after ${timeout} ms: ${missing}`)
        await once(this.#changes, 'change')
      }
    } finally {
      clearTimeout(timer)
    }
  }

  #describe(): string {
    const latest = this.all.slice(-SHOWN_REQUESTS)
    if (latest.length === 0) return 'there were no requests at all'
    const lines = latest.map(({ method, path, status }) => {
      return `\n  ${method} ${path} ${status ?? 'no response'}`
    })
    return `the last ones of any kind:${lines.join('')}`
  }
}

function recordOf({ request, reply, duration }: Entry): RecordedRequest {
  const { code = null, message = null } = reply?.error ?? {}
  const status = reply?.status ?? null
  return { ...receivedRequest(request), status, code, message, duration }
}

export function receivedRequest(request: Request): ReceivedRequest {
  const { operation, method, path, query, body } = request
  const headers: Record<string, string> = {}
  for (const [name, value] of Object.entries(request.headers)) headers[name] = String(value)
  if (headers['authorization'] !== undefined) headers['authorization'] = '[redacted]'
  const known = OPERATIONS.find((name) => name === operation) ?? null
  return { operation: known, method, path, query, headers, body: body.toString() }
}
