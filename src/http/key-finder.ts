/**
 * Finds keys in one pass over a text, however many there are and whatever they begin with
 * (Aho-Corasick). A state stands for what some key begins with: the longest such beginning that the
 * text up to here ends with. State 0 is the empty one, and stands for none in the lists.
 */
export class KeyFinder {
  readonly #codes: Uint8Array // by state, as in all lists: its last character
  readonly #firstChildren: Int32Array // a state that is longer by a character
  readonly #siblings: Int32Array // another child of the same state
  readonly #fallbacks: Int32Array // the longest state that this one ends with
  readonly #keyLengths: Uint16Array // of the longest key that it ends with
  #count = 1 // of states

  constructor(keys: readonly string[]) {
    const size = keys.reduce((sum, { length }) => sum + length, 1)
    this.#codes = new Uint8Array(size)
    this.#firstChildren = new Int32Array(size)
    this.#siblings = new Int32Array(size)
    this.#fallbacks = new Int32Array(size)
    this.#keyLengths = new Uint16Array(size)
    for (const key of keys) this.#add(key)
    this.#linkFallbacks()
  }

  /** The places of keys, in ascending order. Those that overlap are one. */
  spansIn(text: string): { start: number; end: number }[] {
    const spans: { start: number; end: number }[] = []
    let state = 0
    for (let at = 0; at < text.length; at++) {
      state = this.#next(state, text.charCodeAt(at))
      const keyLength = this.#keyLengths[state] ?? 0
      if (keyLength === 0) continue
      const end = at + 1
      let start = end - keyLength
      for (let last = spans.at(-1); last && last.end > start; last = spans.at(-1)) {
        start = Math.min(start, last.start)
        spans.pop()
      }
      spans.push({ start, end })
    }
    return spans
  }

  #add(key: string): void {
    let state = 0
    for (let at = 0; at < key.length; at++) {
      const code = key.charCodeAt(at)
      state = this.#childOf(state, code) || this.#addChild(state, code)
    }
    this.#keyLengths[state] = key.length
  }

  #addChild(state: number, code: number): number {
    const child = this.#count++
    this.#codes[child] = code
    this.#siblings[child] = this.#firstChildren[state] ?? 0
    this.#firstChildren[state] = child
    return child
  }

  /** Shorter states first: the fallback of a state is found by that of its parent. */
  #linkFallbacks(): void {
    const states = [0] // grows in the loop
    for (const state of states) {
      let child = this.#firstChildren[state] ?? 0
      while (child !== 0) {
        const code = this.#codes[child] ?? 0
        const fallback = state === 0 ? 0 : this.#next(this.#fallbacks[state] ?? 0, code)
        this.#fallbacks[child] = fallback
        this.#keyLengths[child] ||= this.#keyLengths[fallback] ?? 0
        states.push(child)
        child = this.#siblings[child] ?? 0
      }
    }
  }

  /** The state after another character. Falls back no more often than the text is long. */
  #next(from: number, code: number): number {
    let state = from
    for (;;) {
      const child = this.#childOf(state, code)
      if (child !== 0 || state === 0) return child
      state = this.#fallbacks[state] ?? 0
    }
  }

  /** 0 if there is none. */
  #childOf(state: number, code: number): number {
    let child = this.#firstChildren[state] ?? 0
    while (child !== 0 && this.#codes[child] !== code) child = this.#siblings[child] ?? 0
    return child
  }
}
