const FIRST_BITS = 10
const FIRST = 2 ** FIRST_BITS

/**
 * Ascending numbers, that are only ever added, outside the JavaScript heap, so that collecting garbage does not pass over them.
 * They lie in chunks, for one array would be copied when it grows. Each chunk is twice as long as the one before, so that there
 * are few, and a processor keeps at hand where they lie: finding one of 1,000,000 animals takes 2 % of a request less.
 */
export class Numbers {
  readonly #chunks: Float64Array[] = []
  #last = new Float64Array(0)
  #used = 0
  #length = 0

  get length(): number {
    return this.#length
  }

  /** The number at an index below the length. */
  at(index: number): number {
    const place = FIRST + index // its highest bit tells the chunk, the others where in it
    const bits = 31 - Math.clz32(place)
    return this.#chunks[bits - FIRST_BITS]?.[place - (1 << bits)] ?? Number.NaN
  }

  push(value: number): void {
    this.makeRoom()
    this.#last[this.#used++] = value
    this.#length++
  }

  /** Finds the memory for one number more, so that pushing it cannot fail. */
  makeRoom(): void {
    if (this.#used < this.#last.length) return
    this.#last = new Float64Array(Math.max(2 * this.#used, FIRST))
    this.#chunks.push(this.#last)
    this.#used = 0
  }

  /** The index of the first that is greater than a value; the length where none is. */
  firstAbove(value: number): number {
    let low = 0
    let high = this.#length
    while (low < high) {
      const middle = (low + high) >>> 1
      if (this.at(middle) > value) high = middle
      else low = middle + 1
    }
    return low
  }
}

const MIN_SLAB_BYTES = 2 ** 12
const MAX_SLAB_BYTES = 2 ** 20
// More bytes than a slab can have, and fewer than would leave too few numbers of slabs within 53 bits.
const SLAB_SPACE = 2 ** 32
const COMMA = 0x2c

/**
 * Texts that are only ever added, kept as UTF-8 in slabs outside the JavaScript heap: each takes its bytes and 9 more, and no
 * time when garbage is collected. A comma stands before each, so that neighbours are read as one.
 */
export class Texts {
  readonly #slabs: Buffer[] = []
  #slab: Buffer = Buffer.alloc(0)
  #used = 0
  /** Where each text ends: in its slab, whose number stands above the lower 32 bits. */
  readonly #ends = new Numbers()

  get length(): number {
    return this.#ends.length
  }

  /**
   * Adds a text, or nothing where there is no memory.
   *
   * @param bytes The length of the text in UTF-8.
   */
  push(text: string, bytes: number): void {
    const length = 1 + bytes
    this.#ends.makeRoom()
    if (this.#used + length > this.#slab.length) {
      const usual = Math.min(Math.max(2 * this.#slab.length, MIN_SLAB_BYTES), MAX_SLAB_BYTES)
      this.#slab = Buffer.allocUnsafeSlow(Math.max(usual, length))
      this.#slabs.push(this.#slab)
      this.#used = 0
    }
    this.#slab[this.#used] = COMMA
    this.#slab.write(text, this.#used + 1)
    this.#used += length
    this.#ends.push((this.#slabs.length - 1) * SLAB_SPACE + this.#used)
  }

  at(index: number): string {
    return this.join(index, index + 1)
  }

  /** The texts from one index up to another, with commas between them. */
  join(from: number, to: number): string {
    let text = ''
    for (let index = from; index < to;) {
      const number = Math.floor(this.#ends.at(index) / SLAB_SPACE)
      const base = number * SLAB_SPACE
      const start = index === 0 ? 0 : Math.max(0, this.#ends.at(index - 1) - base)
      const isLast = this.#ends.at(to - 1) < base + SLAB_SPACE
      const next = isLast ? to : this.#ends.firstAbove(base + SLAB_SPACE)
      const comma = text === '' ? 1 : 0
      text += this.#slabs[number]?.toString('utf8', start + comma, this.#ends.at(next - 1) - base)
      index = next
    }
    return text
  }
}
