import { timingSafeEqual } from 'node:crypto'
import type { Problem } from './reply.ts'

const KEY = /^(?=.{8,256}$)[A-Za-z0-9._~+/-]+=*$/
const BEARER = /^bearer(?: +(.*))?$/i

/** What an API key must be, for messages. */
export const KEY_MUST_BE = '8 to 256 characters of A-Z a-z 0-9 - . _ ~ + / with = only at the end'

/** Whether a text can be an API key: RFC 6750 §2.1's token form, long enough not to be guessed at once. */
export function isApiKey(text: string): boolean {
  return KEY.test(text)
}

/** The API keys that are valid now. */
export class Keyring {
  #keys: readonly string[] = []
  #padded: readonly Buffer[] = []
  #candidate = Buffer.alloc(0)

  constructor(keys: readonly string[]) {
    this.replace(keys)
  }

  /** Makes these keys, and no others, valid from the next request on. */
  replace(keys: readonly string[]): void {
    // The longest first: a key that is part of another must not leave the rest of that one unredacted.
    this.#keys = keys.toSorted((a, b) => b.length - a.length)
    const length = this.#keys[0]?.length ?? 0
    this.#padded = keys.map((key) => Buffer.from(key.padEnd(length, '\0'), 'latin1'))
    this.#candidate = Buffer.alloc(length)
  }

  /** What is wrong with the value of an `Authorization` header. */
  check(authorization = ''): Problem | undefined {
    const token = BEARER.exec(authorization)?.[1] ?? ''
    if (token === '') return 'noCredentials'
    return this.#has(token) ? undefined : 'invalidToken'
  }

  /** The text with every key in it replaced, even a percent-encoded one. */
  redact(text: string): string {
    const decoded = text.replace(/%[0-9a-f]{2}/gi, (escape) => String.fromCharCode(Number(`0x${escape.slice(1)}`)))
    const lower = decoded.toLowerCase()
    // Look for the keys first: one expression of thousands of them would take seconds.
    const found = this.#keys.filter((key) => lower.includes(key.toLowerCase()))
    return found.length === 0 ? text : text.replace(new RegExp(found.map(patternOf).join('|'), 'gi'), '[key]')
  }

  // Every key is compared at the length of the longest, so the time reveals nothing but that length.
  #has(token: string): boolean {
    if (token.length > this.#candidate.length) return false
    this.#candidate.fill(0)
    this.#candidate.write(token, 'latin1')
    let found = false
    for (const key of this.#padded) found = timingSafeEqual(key, this.#candidate) || found
    return found
  }
}

/** What matches a key in a request target: each character as it is or percent-encoded. */
function patternOf(key: string): string {
  return Buffer.from(key, 'latin1').toString('hex').replace(/../g, '(?:\\x$&|%$&)')
}
