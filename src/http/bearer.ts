import { hash, timingSafeEqual } from 'node:crypto'
import { Redactor } from './redact.ts'
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
  #keys = new Map<string, { key: Buffer; place: number }>()
  #redactor = new Redactor([])

  /** @param first The index of the first key, in a list of which these are a part. */
  constructor(keys: readonly string[], first = 0) {
    this.replace(keys, first)
  }

  replace(keys: readonly string[], first = 0): void {
    const entries = keys.map((key, at) => ({ key: Buffer.from(key), place: first + at }))
    this.#keys = new Map(entries.map((entry) => [hash('sha256', entry.key), entry]))
    this.#redactor = new Redactor(keys)
  }

  /** The index of the key in an `Authorization` header, or what is wrong with it. */
  check(authorization?: string): number | Problem {
    const token = tokenOf(authorization)
    if (token === '') return 'noCredentials'
    const candidate = Buffer.from(token)
    const { key, place } = this.#keys.get(hash('sha256', token)) ?? {}
    // An unknown token is compared with itself, so that it takes the same time.
    const isKey = timingSafeEqual(key ?? candidate, candidate)
    return isKey && place !== undefined ? place : 'invalidToken'
  }

  /** The text with every valid key in it replaced by `[key]`. */
  redact(text: string): string {
    return this.#redactor.redact(text)
  }
}

export function tokenOf(authorization = ''): string {
  const [, token = ''] = CREDENTIALS.exec(authorization) ?? []
  return token
}
