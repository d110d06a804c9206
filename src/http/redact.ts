// All that a key, as it stands or escaped, can consist of.
const RUN = /[\w.~+/=%\\-]+/g
const ESCAPE = /%[0-9a-f]{2}|\\u00[0-9a-f]{2}|\\\//gi
const ESCAPE_OR_CHARACTER = new RegExp(`${ESCAPE.source}|[^]`, 'gi')

/** Replaces keys by `[key]`, in any letter case, percent-encoded or with JSON's escapes. */
export class Redactor {
  readonly #keys: ReadonlySet<string> // in lower case
  readonly #lengths: readonly number[] // of the keys, longest first
  readonly #shortest: number
  readonly #starts: ReadonlySet<string> // as much of each key as the shortest one has

  constructor(keys: readonly string[]) {
    const lowerCase = keys.map((key) => key.toLowerCase())
    this.#keys = new Set(lowerCase)
    this.#lengths = [...new Set(keys.map(({ length }) => length))].sort((a, b) => b - a)
    this.#shortest = this.#lengths.at(-1) ?? Infinity
    this.#starts = new Set(lowerCase.map((key) => key.slice(0, this.#shortest)))
  }

  redact(text: string): string {
    if (text.length < this.#shortest) return text // escapes only lengthen a key
    return text.replace(RUN, (run) => (run.length < this.#shortest ? run : this.#redactRun(run)))
  }

  #redactRun(run: string): string {
    // Before decoding, which could take a percent sign and the start of a key for an escape.
    const plain = this.#hasKey(run) ? this.#redactUnits(run.split('')) : run
    const decoded = plain.replace(ESCAPE, characterOf)
    if (decoded === plain || !this.#hasKey(decoded)) return plain
    return this.#redactUnits(plain.match(ESCAPE_OR_CHARACTER) ?? [])
  }

  #hasKey(run: string): boolean {
    const text = run.toLowerCase()
    for (let at = 0; at + this.#shortest <= text.length; at++) {
      if (this.#keyLengthAt(text, at) > 0) return true
    }
    return false
  }

  /** @param units Characters, some of them escaped. */
  #redactUnits(units: readonly string[]): string {
    const text = units.map(characterOf).join('').toLowerCase()
    let redacted = ''
    let at = 0
    while (at < units.length) {
      const length = this.#keyLengthAt(text, at)
      redacted += length > 0 ? '[key]' : units[at]
      at += Math.max(length, 1)
    }
    return redacted
  }

  /** The length of the longest key that begins at a place; 0 if there is none. */
  #keyLengthAt(text: string, at: number): number {
    if (!this.#starts.has(text.slice(at, at + this.#shortest))) return 0
    return this.#lengths.find((length) => this.#keys.has(text.slice(at, at + length))) ?? 0
  }
}

function characterOf(unit: string): string {
  if (unit.length === 1) return unit
  return unit === '\\/' ? '/' : String.fromCharCode(Number.parseInt(unit.slice(-2), 16))
}
