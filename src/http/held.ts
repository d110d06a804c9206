import type { Exchange } from './exchange.ts'

/** The answers that wait for their clients to read them, and a bound on their bytes. */
export class Held {
  readonly #maxBytes: number
  /** Bytes that the system has not taken, by answer, the oldest first. */
  readonly #answers = new Map<Exchange, number>()
  #bytes = 0

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  /** Counts an answer until it has left. Where there is no room, the one that has waited the longest makes it. */
  add(exchange: Exchange): void {
    const bytes = exchange.req.socket.writableLength
    this.#answers.set(exchange, bytes)
    this.#bytes += bytes
    exchange.res.once('close', () => this.#remove(exchange))
    for (const oldest of this.#answers.keys()) {
      if (this.#bytes <= this.#maxBytes || oldest === exchange) return
      this.#remove(oldest)
      oldest.req.socket.resetAndDestroy()
    }
  }

  #remove(exchange: Exchange): void {
    this.#bytes -= this.#answers.get(exchange) ?? 0
    this.#answers.delete(exchange)
  }
}
