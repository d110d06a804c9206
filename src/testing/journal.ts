import type { Keyring } from '../http/bearer.ts'
import type { RequestRecord } from '../http/dispatch.ts'
import { readTarget } from '../http/router.ts'
import { check, checkMembers, integer, oneOf, OPERATIONS } from '../options.ts'
import type { RecordedRequest, WaitOptions } from '../types.ts'

const MAX_SIZE = 16 * 2 ** 20
const MAX_BODY_BYTES = 2 ** 20
const WAIT_RULES = { operation: oneOf(OPERATIONS), status: integer(100, 599), timeout: integer(0, 600_000) }
const CREDENTIALS = /^((?:bearer|basic|digest) )?.*$/is

/** The latest requests, within a limit on their number and one on their size as JSON: 16 Mi characters. */
export class Journal {
  readonly #maxLength: number
  readonly #keyring: Keyring
  #requests: RecordedRequest[] = [] // from the oldest to the latest
  #size = 0
  #clearedAt = 0
  readonly #waits = new Set<(isOver: boolean) => void>() // each looks for its requests, and gives up if told so

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
    for (const look of this.#waits) look(true)
  }

  async waitFor(count: number, options: WaitOptions = {}): Promise<RecordedRequest[]> {
    check('count', count, integer(0, this.#maxLength, ', the option journal'))
    checkMembers('options', options, WAIT_RULES)
    const { operation, status, timeout = 4_000 } = options
    const isMatch = (one: RecordedRequest) =>
      (operation ?? one.operation) === one.operation && (status ?? one.status) === one.status
    return new Promise((resolve, reject) => {
      const look = (isOver: boolean) => {
        const found = this.#requests.filter(isMatch)
        if (found.length < count && !isOver) return
        clearTimeout(timer)
        this.#waits.delete(look)
        if (found.length >= count) return resolve(structuredClone(found))
        const came = this.#requests.slice(-20).map((one) => `${one.operation ?? 'none'} ${one.status ?? 'cut off'}`)
        const wanted = `${count} ${operation ?? 'requests'} ${status ?? ''}`.trimEnd()
        reject(new Error(`Waited for ${wanted}; the requests were: ${came.join(', ') || 'none'}`))
      }
      const timer = setTimeout(look, timeout, true)
      this.#waits.add(look)
      look(false)
    })
  }

  /** Adds a request, unless it could not be read, or began before the last `clear`. */
  add({ head, operation, content, status, ms }: RequestRecord): void {
    if (head === undefined || performance.now() - ms < this.#clearedAt) return
    const { path, query } = readTarget(head.target)
    const redact = (text: string) => this.#keyring.redact(text)
    const shown = (name: string, value: unknown) =>
      name === 'authorization' ? `${value} `.replace(CREDENTIALS, '$1[redacted]') : redact(`${value}`)
    const request: RecordedRequest = {
      operation: operation ?? null,
      method: head.method,
      path: redact(path),
      query: redact(query),
      key: this.#keyring.placeOf(head.headers.authorization),
      headers: Object.fromEntries(
        Object.entries(head.headers).map(([name, value]) => [redact(name), shown(name, value)]),
      ),
      body: redact(Buffer.from(content ?? []).toString('utf8', 0, MAX_BODY_BYTES)),
      status: status ?? null,
      duration: Math.round(ms * 1000) / 1000,
    }
    this.#requests.push(request)
    this.#size += sizeOf(request)
    while (this.#requests.length > this.#maxLength || this.#size > MAX_SIZE) {
      this.#size -= sizeOf(this.#requests.shift())
    }
    for (const look of this.#waits) look(false)
  }
}

function sizeOf(request: RecordedRequest | undefined): number {
  return JSON.stringify(request ?? '').length
}
