import type { Keyring } from '../http/bearer.ts'
import type { RequestRecord } from '../http/dispatch.ts'
import { readTarget } from '../http/router.ts'
import { check, checkMembers, integer, oneOf, withCode } from '../options.ts'
import type { OperationId, RecordedOperation, RecordedRequest, WaitOptions } from '../types.ts'

export const OPERATIONS: readonly OperationId[] = ['listPets', 'createPet', 'getPet', 'listOrders']
export const RECORDED: readonly RecordedOperation[] = [...OPERATIONS, 'page', 'openapi']

const MAX_SIZE = 16 * 2 ** 20 // characters of all requests as JSON
const MAX_BODY_BYTES = 2 ** 20
const WAIT_RULES = {
  operation: oneOf(RECORDED),
  status: integer(100, 599),
  timeout: integer(0, 600_000),
}
// Any other scheme may be a secret.
const CREDENTIALS = /^(bearer |basic |digest |).*/is

/** Settles once the requests are there; with a reason, in any case. */
type Wait = (reason?: 'timeout' | 'closed') => void

/** The latest requests, limited in number and in size. */
export class RequestLog {
  readonly #maxLength: number
  readonly #keyring: Keyring
  readonly #waits = new Set<Wait>()
  #requests: RecordedRequest[] = [] // oldest first
  #size = 0
  #clearedAt = 0
  #isClosed = false

  constructor(maxLength: number, keyring: Keyring) {
    this.#maxLength = maxLength
    this.#keyring = keyring
  }

  get requests(): RecordedRequest[] {
    return structuredClone(this.#requests)
  }

  clear(): void {
    this.#requests = []
    this.#size = 0
    this.#clearedAt = performance.now()
  }

  close(): void {
    this.#isClosed = true
    for (const wait of this.#waits) wait('closed')
  }

  async waitFor(count: number, options: WaitOptions = {}): Promise<RecordedRequest[]> {
    check('count', count, integer(0, this.#maxLength, ', the option journal'))
    checkMembers('options', options, WAIT_RULES)
    return new Promise((resolve, reject) => {
      const wait: Wait = (reason) => {
        const found = this.#find(options)
        if (found.length >= count) resolve(structuredClone(found))
        else if (reason === undefined) return
        else reject(withCode(reason, new Error(this.#describeMiss(count, options))))
        clearTimeout(timer)
        this.#waits.delete(wait)
      }
      const timer = setTimeout(wait, options.timeout ?? 4_000, 'timeout')
      this.#waits.add(wait)
      wait(this.#isClosed ? 'closed' : undefined)
    })
  }

  #find(options: WaitOptions): RecordedRequest[] {
    return this.#requests.filter((one) => {
      const { operation = one.operation, status = one.status } = options
      return one.operation === operation && one.status === status
    })
  }

  #describeMiss(count: number, { operation, status }: WaitOptions): string {
    const latest = this.#requests.slice(-20)
    const came = latest.map((one) => `${one.operation ?? 'none'} ${one.status ?? 'cut off'}`)
    const wanted = `${count} ${operation ?? 'requests'} ${status ?? ''}`.trimEnd()
    return `Waited for ${wanted}; the requests were: ${came.join(', ') || 'none'}`
  }

  /** Adds a request, unless it could not be read or began before the last `clear`. */
  add({ head, operation, key, content, reply, ms }: RequestRecord): void {
    if (head === undefined || performance.now() - ms < this.#clearedAt) return
    const redact = (text: string) => this.#keyring.redact(text)
    const { path, query } = readTarget(head.target)
    const headers = Object.entries(head.headers).map(([name, value]) => [
      redact(name),
      name === 'authorization'
        ? `${value} `.replace(CREDENTIALS, '$1[redacted]')
        : redact(`${value}`),
    ])
    const request: RecordedRequest = {
      operation: RECORDED.find((name) => name === operation) ?? null,
      method: head.method,
      path: redact(path),
      query: redact(query),
      key: key ?? null,
      headers: Object.fromEntries(headers),
      body: redact(Buffer.from(content ?? []).toString('utf8', 0, MAX_BODY_BYTES)),
      status: reply?.status ?? null,
      duration: ms,
    }
    this.#requests.push(request)
    this.#size += sizeOf(request)
    while (this.#requests.length > this.#maxLength || this.#size > MAX_SIZE) {
      const oldest = this.#requests.shift()
      this.#size -= sizeOf(oldest)
    }
    for (const wait of this.#waits) wait()
  }
}

function sizeOf(request?: RecordedRequest): number {
  return JSON.stringify(request).length
}
