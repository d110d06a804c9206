import { KeyFinder } from './key-finder.ts'

// All that a key, as it stands or escaped, can consist of.
const RUN = /[\w.~+/=%\\-]+/g
const ESCAPE = /%[0-9a-f]{2}|\\u00[0-9a-f]{2}|\\\//gi
const KEY_CHARACTER = /[\w.~+/=-]/

/** Replaces keys with `[key]`, in any letter case, percent-encoded or with JSON's escapes. */
export function redactor(keys: readonly string[]): (text: string) => string {
  const shortest = keys.reduce((least, { length }) => Math.min(least, length), Infinity)
  const finder = new KeyFinder(keys.map((key) => key.toLowerCase()))

  function redactPlain(text: string): string {
    let redacted = ''
    let end = 0 // of the latest key
    for (const span of finder.spansIn(text.toLowerCase())) {
      redacted += `${text.slice(end, span.start)}[key]`
      end = span.end
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
