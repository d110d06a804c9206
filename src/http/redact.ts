// All that a key, as it stands or escaped, can consist of.
const RUN = /[\w.~+/=%\\-]+/g
const ESCAPE = /%[0-9a-f]{2}|\\u00[0-9a-f]{2}|\\\//gi
const KEY_CHARACTER = /[\w.~+/=-]/

/** Replaces keys with `[key]`, in any letter case, percent-encoded or with JSON's escapes. */
export function redactor(keys: readonly string[]): (text: string) => string {
  const known = new Set(keys.map((key) => key.toLowerCase()))
  const lengths = [...new Set(keys.map(({ length }) => length))].sort((a, b) => b - a)
  const shortest = lengths.at(-1) ?? Infinity
  // One look-up rules out most places, however many lengths the keys have.
  const starts = new Set(Array.from(known, (key) => key.slice(0, shortest)))

  function redactPlain(text: string): string {
    const lowerCase = text.toLowerCase()
    let redacted = ''
    let end = 0 // of the latest key
    for (let at = 0; at + shortest <= text.length; at++) {
      if (at < end || !starts.has(lowerCase.slice(at, at + shortest))) continue
      const length = lengths.find((one) => known.has(lowerCase.slice(at, at + one))) // the longest
      if (!length) continue
      redacted += `${text.slice(end, at)}[key]`
      end = at + length
    }
    return redacted + text.slice(end)
  }

  function redactRun(run: string): string {
    if (run.length < shortest) return run
    // As it stands first: decoding `%41-my-key` gives `A-my-key`, without the key `41-my-key`.
    const plain = redactPlain(run)
    const decoded = plain.replace(ESCAPE, decode)
    if (decoded === plain) return plain
    const redacted = redactPlain(decoded)
    return redacted === decoded ? plain : redacted // without more keys, escapes stay
  }

  // A shorter text holds no key: escapes only lengthen one.
  return (text) => (text.length < shortest ? text : text.replace(RUN, redactRun))
}

/** The character of an escape, if a key can have it. */
function decode(escape: string): string {
  if (escape === '\\/') return '/'
  const character = String.fromCharCode(Number.parseInt(escape.slice(-2), 16))
  return KEY_CHARACTER.test(character) ? character : escape
}
