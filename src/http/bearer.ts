import { timingSafeEqual } from 'node:crypto'
import type { Problem } from './reply.ts'

const KEY = /^(?=.{8,256}$)[A-Za-z0-9._~+/-]+=*$/
const BEARER = /^bearer(?: +(.*))?$/i
const tokenOf = (authorization = ''): string => BEARER.exec(authorization)?.[1] ?? ''

export const KEY_MUST_BE = '8 to 256 characters of A-Z a-z 0-9 - . _ ~ + / with = only at the end'

/** Whether a text can be an API key: RFC 6750 §2.1's token form, long enough not to be guessed at once. */
export const isApiKey = (text: string): boolean => KEY.test(text)

export class Keyring {
  #keys: readonly string[] = []
  #padded: readonly Buffer[] = []

  constructor(keys: readonly string[]) {
    this.replace(keys)
  }

  replace(keys: readonly string[]): void {
    this.#keys = [...keys]
    const length = keys.reduce((longest, key) => Math.max(longest, key.length), 0)
    this.#padded = keys.map((key) => Buffer.from(key.padEnd(length, '\0'), 'latin1'))
  }

  check(authorization = ''): Problem | undefined {
    const token = tokenOf(authorization)
    if (token === '') return 'noCredentials'
    // Every key is compared at the length of the longest, so the time reveals nothing but that length.
    const length = this.#padded[0]?.length ?? 0
    if (token.length > length) return 'invalidToken'
    const candidate = Buffer.from(token.padEnd(length, '\0'), 'latin1')
    const same = this.#padded.filter((key) => timingSafeEqual(key, candidate))
    return same.length > 0 ? undefined : 'invalidToken'
  }

  /** The place in the list of the key in an `Authorization` header; null if that is not valid. For the journal only. */
  placeOf(authorization?: string): number | null {
    const place = this.#keys.indexOf(tokenOf(authorization))
    return place < 0 ? null : place
  }

  /** The text with every key in it replaced, even a percent-encoded one. */
  redact(text: string): string {
    const decoded = text.replace(/%[0-9a-f]{2}/gi, (escape) => String.fromCharCode(Number(`0x${escape.slice(1)}`)))
    const lower = decoded.toLowerCase()
    // Only the keys that are in it, for one expression of thousands would take seconds. The longest first: one that is part
    // of another must not leave the rest of that one unredacted.
    const found = this.#keys.filter((key) => lower.includes(key.toLowerCase())).sort((a, b) => b.length - a.length)
    if (found.length === 0) return text
    // Each character as it is or percent-encoded.
    const patterns = found.map((key) => Buffer.from(key).toString('hex').replace(/../g, '(?:\\x$&|%$&)'))
    return text.replace(new RegExp(patterns.join('|'), 'gi'), '[key]')
  }
}
