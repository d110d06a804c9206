import { randomFillSync, timingSafeEqual } from 'node:crypto'
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
  // By a hash, so that the time of a look-up tells nothing about a key.
  readonly #entries = new Map<number, readonly { key: Buffer; index: number }[]>()
  #redact = redactor([])

  constructor(keys: readonly string[], isAnyKeyValid = false) {
    this.replace(keys)
    this.isAnyKeyValid = isAnyKeyValid // which replace() has cleared
  }

  /** Makes these keys, and no others, valid. */
  replace(keys: readonly string[]): void {
    this.isAnyKeyValid = false
    this.firstKey = keys[0] ?? ''
    this.#entries.clear()
    for (const [index, key] of keys.entries()) {
      const hash = hashOf(key)
      const others = this.#entries.get(hash) ?? []
      this.#entries.set(hash, [...others, { key: Buffer.from(key), index }])
    }
    this.#redact = redactor(keys)
  }

  /** Replaces every key of the list in a text with `[key]`. */
  readonly redact = (text: string): string => this.#redact(text)

  /**
   * The index of the key in an `Authorization` header, or what is wrong with it.
   *
   * @param storeNumber Returned where any key is valid: there is no list of keys then.
   */
  authorize(authorization?: string, storeNumber?: number): number | Problem {
    const token = tokenOf(authorization)
    if (token === '') return 'noCredentials'
    const index = this.#indexOf(token, storeNumber)
    return index ?? (isApiKey(token) ? 'invalidToken' : 'malformedToken')
  }

  isValid(token: string): boolean {
    return this.#indexOf(token) !== undefined
  }

  /** The valid key in an `Authorization` header. */
  keyIn(authorization?: string): string | undefined {
    const token = tokenOf(authorization)
    return this.isValid(token) ? token : undefined
  }

  #indexOf(token: string, storeNumber = 0): number | undefined {
    if (this.isAnyKeyValid) return isApiKey(token) ? storeNumber : undefined
    const candidate = Buffer.from(token)
    const entry = this.#entries.get(hashOf(token))?.find(({ key }) => {
      return key.length === candidate.length && timingSafeEqual(key, candidate)
    })
    return entry?.index
  }
}

// Secret, so that nobody can choose a token with the hash of a key.
const FACTORS = randomFillSync(new Int32Array(256))

/** A universal hash (Carter and Wegman, 1979): much faster than a cryptographic one. */
function hashOf(token: string): number {
  let sum = 0
  for (let at = 0; at < token.length; at++) {
    sum += Math.imul(FACTORS[at % FACTORS.length] ?? 0, token.charCodeAt(at))
  }
  return sum | 0
}

function tokenOf(authorization = ''): string {
  return CREDENTIALS.exec(authorization)?.[1] ?? ''
}
