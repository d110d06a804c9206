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
  // By digest, so that the time of a look-up tells nothing about a key.
  #keys = new Map<string, { key: Buffer; index: number }>()
  /** Replaces every valid key in a text by `[key]`. */
  redact: (text: string) => string = redactor([])

  /** @param first The index of the first of these keys in the whole list. */
  constructor(keys: readonly string[], first = 0) {
    this.replace(keys, first)
  }

  replace(keys: readonly string[], first = 0): void {
    this.#keys = new Map(
      keys.map((key, at) => [hash('sha256', key), { key: Buffer.from(key), index: first + at }]),
    )
    this.redact = redactor(keys)
  }

  /** The index of the key in an `Authorization` header, or what is wrong with it. */
  check(authorization?: string): number | Problem {
    const token = tokenOf(authorization)
    return token === '' ? 'noCredentials' : (this.indexOf(token) ?? 'invalidToken')
  }

  /** The index of a valid key. */
  indexOf(token: string): number | undefined {
    const candidate = Buffer.from(token)
    const { key, index } = this.#keys.get(hash('sha256', token)) ?? {}
    // An unknown token, which has no index, is compared with itself: that takes the same time.
    return timingSafeEqual(key ?? candidate, candidate) ? index : undefined
  }
}

export function tokenOf(authorization = ''): string {
  const [, token = ''] = CREDENTIALS.exec(authorization) ?? []
  return token
}
