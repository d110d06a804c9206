import type { Keyring } from '../http/bearer.ts'
import type { RequestRecord } from '../http/dispatch.ts'
import { readTarget } from '../http/router.ts'
import { check, checkMembers, integer, oneOf, OPERATIONS } from '../options.ts'
import type { RecordedRequest, WaitOptions } from '../types.ts'

const MAX_SIZE = 16 * 2 ** 20
const MAX_BODY_BYTES = 2 ** 20
const WAIT_RULES = { operation: oneOf(OPERATIONS), status: integer(100, 599), timeout: integer(0, 600_000) }
const LISTED = 20
const CREDENTIALS = /^((?:bearer|basic|digest) )?.*$/is

interface Entry extends Pick<RecordedRequest, 'operation' | 'status'> {
  readonly json: string
}

/** The latest requests, within a limit on their number and one on their size as JSON: 16 Mi characters. */
export class Journal {
  readonly #maxLength: number
  readonly #keyring: Keyring
  #entries: Entry[] = []
  #size = 0
  #clearedAt = 0
  /** Each looks whether its requests are there, and gives up if told so. */
  readonly #waits = new Set<(isOver: boolean) => void>()

  constructor(maxLength: number, keyring: Keyring) {
    this.#maxLength = maxLength
    this.#keyring = keyring
  }

  /** From the oldest to the latest. */
  get requests(): RecordedRequest[] {
    return parse(this.#entries)
  }

  clear(): void {
    this.#entries = []
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
    const isMatch = (one: Entry) =>
      (operation ?? one.operation) === one.operation && (status ?? one.status) === one.status
    return new Promise((resolve, reject) => {
      const look = (isOver: boolean) => {
        const found = this.#entries.filter(isMatch)
        if (found.length < count && !isOver) return
        clearTimeout(timer)
        this.#waits.delete(look)
        if (found.length >= count) return resolve(parse(found))
        const came = this.#entries.slice(-LISTED).map((one) => `${one.operation ?? 'none'} ${one.status ?? 'cut off'}`)
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
    const { path, query } = readTarget(head.target) ?? { path: head.target, query: '' }
    const redact = (text: string) => this.#keyring.redact(text)
    const request: RecordedRequest = {
      operation: operation ?? null,
      method: head.method,
      path: redact(path),
      query: redact(query),
      key: this.#keyring.placeOf(head.headers.authorization),
      headers: Object.fromEntries(
        Object.entries(head.headers).map(([name, value = '']) => [
          redact(name),
          name === 'authorization' ? `${value} `.replace(CREDENTIALS, '$1[redacted]') : redact(String(value)),
        ]),
      ),
      body: redact(Buffer.from(content ?? []).toString('utf8', 0, MAX_BODY_BYTES)),
      status: status ?? null,
      duration: Math.round(ms * 1000) / 1000,
    }
    const json = JSON.stringify(request)
    this.#entries.push({ operation: request.operation, status: request.status, json })
    this.#size += json.length
    while (this.#entries.length > this.#maxLength || this.#size > MAX_SIZE) {
      this.#size -= this.#entries.shift()?.json.length ?? 0
    }
    for (const look of this.#waits) look(false)
  }
}

function parse(entries: readonly Entry[]): RecordedRequest[] {
  return JSON.parse(`[${entries.map(({ json }) => json).join(',')}]`)
}
