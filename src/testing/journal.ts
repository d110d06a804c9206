import type { RequestHead, RequestRecord } from '../http/dispatch.ts'
import { readTarget } from '../http/router.ts'
import type { RecordedRequest } from '../types.ts'

const MAX_SIZE = 16 * 2 ** 20
const MAX_BODY_BYTES = 2 ** 20

/** The latest requests, within a limit on their number and one on their size as JSON: 16 Mi characters. */
export class Journal {
  readonly #maxLength: number
  readonly #redact: (text: string) => string
  #entries: string[] = []
  #size = 0
  #clearedAt = 0

  /** @param redact Replaces the valid keys in a text. */
  constructor(maxLength: number, redact: (text: string) => string) {
    this.#maxLength = maxLength
    this.#redact = redact
  }

  /** From the oldest to the latest. */
  get requests(): RecordedRequest[] {
    return JSON.parse(`[${this.#entries.join(',')}]`)
  }

  clear(): void {
    this.#entries = []
    this.#size = 0
    this.#clearedAt = performance.now()
  }

  /** Adds a request, unless it could not be read, or began before the last `clear`. */
  add({ head, operation, content, status, ms }: RequestRecord): void {
    if (head === undefined || performance.now() - ms < this.#clearedAt) return
    const { path, query } = readTarget(head.target) ?? { path: head.target, query: '' }
    const request: RecordedRequest = {
      operation: operation ?? null,
      method: head.method,
      path: this.#redact(path),
      query: this.#redact(query),
      headers: this.#headersOf(head),
      body: this.#redact(Buffer.from(content ?? []).toString('utf8', 0, MAX_BODY_BYTES)),
      status: status ?? null,
      duration: Math.round(ms * 1000) / 1000,
    }
    const entry = JSON.stringify(request)
    this.#entries.push(entry)
    this.#size += entry.length
    while (this.#entries.length > this.#maxLength || this.#size > MAX_SIZE) {
      this.#size -= this.#entries.shift()?.length ?? 0
    }
  }

  #headersOf({ headers: { authorization, ...rest } }: RequestHead): Record<string, string> {
    const headers = Object.entries(rest).map(([name, value = '']) => [
      this.#redact(name),
      this.#redact(value.toString()),
    ])
    if (authorization !== undefined) headers.push(['authorization', withoutCredentials(authorization)])
    return Object.fromEntries(headers)
  }
}

function withoutCredentials(authorization: string): string {
  const [, scheme] = /^(bearer|basic|digest)(?: |$)/i.exec(authorization) ?? []
  return scheme === undefined ? '[redacted]' : `${scheme} [redacted]`
}
