import { hash, timingSafeEqual } from 'node:crypto'
import { redactor } from './redact.ts'
import type { Problem } from './respond.ts'

const KEY = /^(?=.{8,256}$)[A-Za-z0-9._~+/-]+=*$/
const CREDENTIALS = /^bearer +(.*)$/i

export const KEY_MUST_BE = '8 to 256 characters of A-Z a-z 0-9 - . _ ~ + / with = only at the end'

/** Whether a text can be an API key: RFC 6750 §2.1's token form, with a minimum length. */
export function isApiKey(text: string): boolean {
  return KEY.test(text)
}

/** The valid keys. A look-up takes as long among many as among few. */
export class Keyring {
  isAnyKeyValid: boolean // of the right form, until replace()
  firstKey = ''
  // By digest, so that the time of a look-up tells nothing about a key.
  readonly #entries = new Map<string, { readonly key: Buffer; readonly index: number }>()
  readonly #reservedKey: string
  #redact = redactor([])

  /** @param reservedKey Is redacted like the others, and never valid. */
  constructor(keys: readonly string[], isAnyKeyValid = false, reservedKey = '') {
    this.#reservedKey = reservedKey
    this.replace(keys)
    this.isAnyKeyValid = isAnyKeyValid // which replace() has cleared
  }

  /** Makes these keys, and no others, valid. */
  replace(keys: readonly string[]): void {
    this.isAnyKeyValid = false
    this.firstKey = keys[0] ?? ''
    this.#entries.clear()
    for (const [index, key] of keys.entries()) {
      const digest = digestOf(key)
      if (!this.#entries.has(digest)) this.#entries.set(digest, { key: Buffer.from(key), index })
    }
    this.#redact = redactor([...keys, this.#reservedKey].filter((key) => key !== ''))
  }

  /** Replaces every key of the list in a text with `[key]`. */
  readonly redact = (text: string): string => this.#redact(text)

  /** The index of the key in an `Authorization` header, or what is wrong with it. */
  authorize(authorization?: string): number | Problem {
    const token = tokenOf(authorization)
    if (token === '') return 'noCredentials'
    const index = this.#indexOf(token)
    return index ?? (isApiKey(token) ? 'invalidToken' : 'malformedToken')
  }

  /** Whether an `Authorization` header has the reserved key. */
  isReserved(authorization?: string): boolean {
    return this.#isReservedKey(tokenOf(authorization))
  }

  #isReservedKey(token: string): boolean {
    if (this.#reservedKey === '') return false
    return timingSafeEqual(Buffer.from(digestOf(token)), Buffer.from(digestOf(this.#reservedKey)))
  }

  isValid(token: string): boolean {
    return this.#indexOf(token) !== undefined
  }

  /** The valid key in an `Authorization` header. */
  keyIn(authorization?: string): string | undefined {
    const token = tokenOf(authorization)
    return this.isValid(token) ? token : undefined
  }

  #indexOf(token: string): number | undefined {
    if (this.isAnyKeyValid) return isApiKey(token) && !this.#isReservedKey(token) ? 0 : undefined
    const entry = this.#entries.get(digestOf(token))
    const isEqual = entry && timingSafeEqual(entry.key, Buffer.from(token))
    return isEqual ? entry.index : undefined
  }
}

function digestOf(token: string): string {
  return hash('sha256', token, 'base64')
}

function tokenOf(authorization = ''): string {
  return CREDENTIALS.exec(authorization)?.[1] ?? ''
}
