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
  // By a hash, so that the time of a look-up tells nothing about a key.
  readonly #entries = new Map<number, readonly { key: Buffer; index: number }[]>()
  readonly #shared: Keyring | undefined
  #redact = redactor([])

  /**
   * @param first The index of the first of these keys in the whole list.
   * @param shared The ring of that list.
   */
  constructor(keys: readonly string[], first = 0, shared?: Keyring) {
    this.#shared = shared
    this.replace(keys, first)
  }

  replace(keys: readonly string[], first = 0): void {
    this.#entries.clear()
    for (const [at, key] of keys.entries()) {
      const hash = hashOf(key)
      const others = this.#entries.get(hash) ?? []
      this.#entries.set(hash, [...others, { key: Buffer.from(key), index: first + at }])
    }
    this.#redact = redactor(keys)
  }

  /** Replaces every valid key in a text by `[key]`. */
  redact(text: string): string {
    return this.#redact(this.#shared?.redact(text) ?? text)
  }

  /** The index of the key in an `Authorization` header, or what is wrong with it. */
  authorize(authorization?: string): number | Problem {
    const token = tokenOf(authorization)
    if (token === '') return 'noCredentials'
    return this.indexOf(token) ?? (isApiKey(token) ? 'invalidToken' : 'malformedToken')
  }

  /** The index of a valid key. */
  indexOf(token: string): number | undefined {
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

export function tokenOf(authorization = ''): string {
  const [, token = ''] = CREDENTIALS.exec(authorization) ?? []
  return token
}
