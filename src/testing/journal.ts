import type { RequestHead } from '../http/dispatch.ts'
import type { Outcome } from '../http/exchange.ts'
import { readTarget } from '../http/router.ts'

/** A request as it came, and what became of it. Valid keys are blotted out wherever they stand. */
export interface RecordedRequest {
  /** The operationId, or `page` and `openapi` for what stands outside the base path; null where method and path name none. */
  operation: string | null
  method: string
  /** As it was sent: with its percent-escapes. */
  path: string
  /** As it was sent, without the question mark. */
  query: string
  /** By names in lower case. The credentials in `authorization` are blotted out, valid or not. */
  headers: Record<string, string>
  /** The content as text; empty where there was none, or none was wanted. A long one holds its first 1 MiB only. */
  body: string
  /** The status of the answer; null where the connection ended before one. */
  status: number | null
  /** Milliseconds from the head of the request to its answer. */
  duration: number
}

const MAX_SIZE = 16 * 2 ** 20
const MAX_BODY_BYTES = 2 ** 20

/** The latest requests, within a bound on their number and one on their size as JSON: 16 Mi characters. */
export class Journal {
  readonly #maxLength: number
  readonly #redact: (text: string) => string
  #entries: string[] = []
  #size = 0
  #clearedAt = 0

  /** @param redact Blots out the valid keys in a text. */
  constructor(maxLength: number, redact: (text: string) => string) {
    this.#maxLength = maxLength
    this.#redact = redact
  }

  /** JSON of the array of requests, from the oldest to the latest. */
  get json(): string {
    return `[${this.#entries.join(',')}]`
  }

  /** From the oldest to the latest. */
  get requests(): RecordedRequest[] {
    return JSON.parse(this.json)
  }

  clear(): void {
    this.#entries = []
    this.#size = 0
    this.#clearedAt = performance.now()
  }

  /** Adds a request; one that could not be read is none, and one that began before the last `clear` belongs to the past. */
  add({ head, operation, content, status, ms }: Outcome): void {
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
    while (this.#entries.length > this.#maxLength || this.#size > MAX_SIZE)
      this.#size -= this.#entries.shift()?.length ?? 0
  }

  #headersOf({ headers: { authorization, ...rest } }: RequestHead): Record<string, string> {
    const fields = Object.entries(rest).map(([name, value = '']) => [
      this.#redact(name),
      this.#redact(value.toString()),
    ])
    if (authorization !== undefined) fields.push(['authorization', withoutCredentials(authorization)])
    return Object.fromEntries(fields)
  }
}

function withoutCredentials(authorization: string): string {
  const [, scheme] = /^(bearer|basic|digest)(?: |$)/i.exec(authorization) ?? []
  return scheme === undefined ? '[redacted]' : `${scheme} [redacted]`
}
