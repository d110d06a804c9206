import { crypto } from '../builtins.ts'
import { errorReply, type Reply } from './reply.ts'

const MAX_KEY_LENGTH = 256
const MAX_REDACTED = 1_000
const MAX_REDACTED_LENGTH = 200
const KEY = /^[A-Za-z0-9._~+/-]+=*$/

// RFC 6750 §3: a request without credentials is told the scheme and no error code.
const NO_CREDENTIALS = errorReply('unauthorized', 'An API key is required: Authorization: Bearer <API_KEY>', [
  'WWW-Authenticate',
  'Bearer realm="petstore"',
])
const INVALID_TOKEN = errorReply('unauthorized', 'The API key is not valid here', [
  'WWW-Authenticate',
  'Bearer realm="petstore", error="invalid_token"',
])

/** What an API key must be, for messages. */
export const KEY_MUST_BE = '8 to 256 characters of A-Z a-z 0-9 - . _ ~ + / with = only at the end'

/** Tells whether a text can be an API key: RFC 6750 §2.1's token form, long enough not to be guessed at once. */
export function isApiKey(text: string): boolean {
  return text.length >= 8 && text.length <= MAX_KEY_LENGTH && KEY.test(text)
}

/** The API keys that are valid now, and the check of an `Authorization` field against them. */
export class Keyring {
  #known: readonly { key: string; lower: string }[] = []
  // Most texts come again: the targets of requests, the addresses of proxies.
  readonly #redacted = new Map<string, string>()
  #padded: readonly Buffer[] = []
  #candidate = Buffer.alloc(0)

  constructor(keys: readonly string[]) {
    this.replace(keys)
  }

  /** Makes these keys, and no others, the valid ones from the next request on. */
  replace(keys: readonly string[]): void {
    this.#redacted.clear()
    // The longest first, so that no key's rest stays behind where another is a part of it.
    const longestFirst = keys.toSorted((a, b) => b.length - a.length)
    this.#known = longestFirst.map((key) => ({ key, lower: key.toLowerCase() }))
    const length = longestFirst[0]?.length ?? 0
    this.#padded = keys.map((key) => Buffer.from(key.padEnd(length, '\0'), 'latin1'))
    this.#candidate = Buffer.alloc(length)
  }

  /** The 401 for this `Authorization` field, or undefined when it carries a valid key. */
  refuse(authorization: string | undefined): Reply | undefined {
    if (authorization === undefined || !/^bearer(?: |$)/i.test(authorization)) return NO_CREDENTIALS
    const token = authorization.slice('bearer'.length).trimStart()
    if (token === '') return NO_CREDENTIALS
    return this.#has(token) ? undefined : INVALID_TOKEN
  }

  /** The text with every key in it blotted out, percent-encoded ones too. */
  redact(text: string): string {
    const known = this.#redacted.get(text)
    if (known !== undefined) return known
    const redacted = this.#redact(text)
    if (this.#redacted.size === MAX_REDACTED) this.#redacted.clear()
    if (text.length <= MAX_REDACTED_LENGTH) this.#redacted.set(text, redacted)
    return redacted
  }

  #redact(text: string): string {
    const decoded = text.replace(/%[0-9a-f]{2}/gi, (escape) => String.fromCharCode(Number(`0x${escape.slice(1)}`)))
    const lower = decoded.toLowerCase()
    // Those that are there are found first: an expression of all keys would take seconds for thousands of them.
    const found = this.#known.filter((known) => lower.includes(known.lower))
    if (found.length === 0) return text
    return text.replace(new RegExp(found.map(({ key }) => patternOf(key)).join('|'), 'gi'), '[key]')
  }

  // All keys are padded to the length of the longest and each is compared whole, so that the time tells nothing of any of
  // them but that length. To tell not even that, by padding to 256, would cost a request 0.1 µs more.
  #has(token: string): boolean {
    if (token.length > this.#candidate.length) return false
    this.#candidate.fill(0)
    this.#candidate.write(token, 'latin1')
    let found = false
    for (const key of this.#padded) found = crypto.timingSafeEqual(key, this.#candidate) || found
    return found
  }
}

/** What matches a key in a request target: each character as it is, or as its percent-escape. */
function patternOf(key: string): string {
  return Buffer.from(key, 'latin1').toString('hex').replace(/../g, '(?:\\x$&|%$&)')
}
