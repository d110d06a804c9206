const ESCAPE = /%[0-9a-f]{2}|\\u00[0-9a-f]{2}|\\\//i
const ESCAPE_OR_CHARACTER = new RegExp(`${ESCAPE.source}|[^]`, 'gi')

/** Replaces keys by `[key]`, in any letter case, percent-encoded or with JSON's escapes. */
export class Redactor {
  readonly #keys: ReadonlySet<string> // in lower case
  readonly #lengths: readonly number[] // of the keys, longest first
  readonly #shortest: number
  readonly #starts: ReadonlySet<string> // as much of each key as the shortest one has

  constructor(keys: readonly string[]) {
    const lowerCase = keys.map(toLowerCase)
    this.#keys = new Set(lowerCase)
    this.#lengths = [...new Set(keys.map(({ length }) => length))].sort((a, b) => b - a)
    this.#shortest = this.#lengths.at(-1) ?? Infinity
    this.#starts = new Set(lowerCase.map((key) => key.slice(0, this.#shortest)))
  }

  redact(text: string): string {
    if (text.length < this.#shortest) return text // escapes only lengthen a key
    // As it stands first: a percent sign before a key is not always the start of an escape.
    const plain = this.#replace(text, text)
    if (!ESCAPE.test(plain)) return plain
    const units = plain.match(ESCAPE_OR_CHARACTER) ?? []
    return this.#replace(units, units.map(characterOf).join(''))
  }

  /** @param units The characters of the text, some of them escaped. */
  #replace(units: ArrayLike<string>, text: string): string {
    const lowerCase = toLowerCase(text)
    let redacted = ''
    let at = 0
    while (at < units.length) {
      const length = this.#keyLengthAt(lowerCase, at)
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

/** Other letters than those of a key may change the length of a text. */
function toLowerCase(text: string): string {
  return text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase())
}

function characterOf(unit: string): string {
  if (unit.length === 1) return unit
  return unit === '\\/' ? '/' : String.fromCharCode(Number.parseInt(unit.slice(-2), 16))
}
