import { randomInt } from 'node:crypto'

/** Of all random tests; a failure shows it, and the variable repeats it. */
export const SEED: number = Number(process.env['SEED'] ?? randomInt(2 ** 31))

/** Random values that a seed repeats (mulberry32). */
export class Random {
  #state: number = SEED

  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }

  chance(probability: number): boolean {
    return this.next() < probability
  }

  integer(minimum: number, maximum: number): number {
    return minimum + Math.floor(this.next() * (maximum - minimum + 1))
  }

  pick<T>(first: T, ...others: readonly T[]): T {
    return others[this.integer(-1, others.length - 1)] ?? first
  }

  /** As an Int64: a bigint only beyond ±(2^53-1). */
  int64(): number | bigint {
    const high = BigInt(this.integer(0, 2 ** 32 - 1)) << 32n
    const value = BigInt.asIntN(64, high | BigInt(this.integer(0, 2 ** 32 - 1)))
    const short = value >> BigInt(this.integer(0, 63))
    return Number.isSafeInteger(Number(short)) ? Number(short) : short
  }

  /** Up to 30 code units of any kind, lone surrogates too. */
  string(): string {
    const unit = () => {
      const surrogate = this.integer(0xd800, 0xdfff)
      return this.pick(surrogate, this.integer(0x20, 0x7e), this.integer(0, 0xffff), 0x22, 0x5c)
    }
    return String.fromCharCode(...Array.from({ length: this.integer(0, 30) }, unit))
  }
}
