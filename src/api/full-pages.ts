import { LONG_BYTES } from '../http/exchange.ts'
import type { Reply } from '../http/reply.ts'

const MAX_BYTES = 16 * 2 ** 20
const OVERHEAD = 500

/**
 * Answers to listPets by query string. A pet never changes and never goes, so a page that is not the last one never changes
 * either: asked for again, it is sent without being read, looked up, joined or encoded. Within a bound on their bytes.
 */
export class FullPages {
  readonly #pages = new Map<string, Reply>()
  #bytes = 0

  get(query: string): Reply | undefined {
    return this.#pages.get(query)
  }

  /** Keeps a page that is not the last one, and returns its answer. */
  keep(query: string, json: string, fields: readonly string[]): Reply {
    const length = Buffer.byteLength(json)
    const body = length === json.length && length <= LONG_BYTES ? json : ownBuffer(json, length)
    const reply = { status: 200, body, fields }
    this.#bytes += length + query.length + OVERHEAD
    if (this.#bytes > MAX_BYTES) this.clear()
    else this.#pages.set(query, reply)
    return reply
  }

  clear(): void {
    this.#pages.clear()
    this.#bytes = 0
  }
}

/** A text as bytes that are no part of node's pool: that would be kept with them. */
function ownBuffer(text: string, length: number): Buffer {
  const buffer = Buffer.allocUnsafeSlow(length)
  buffer.write(text)
  return buffer
}
