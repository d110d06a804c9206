import { hash, timingSafeEqual } from 'node:crypto'
import { Redactor } from './redact.ts'
import type { Problem } from './respond.ts'

const KEY = /^(?=.{8,256}$)[A-Za-z0-9._~+/-]+=*$/
const SCHEME = /^bearer +/i

export const KEY_MUST_BE = '8 to 256 characters of A-Z a-z 0-9 - . _ ~ + / with = only at the end'

/** Whether a text can be an API key: RFC 6750 §2.1's token form, too long to be guessed at once. */
export function isApiKey(text: string): boolean {
  return KEY.test(text)
}

/** The valid keys. To look for one takes as long among many as among few. */
export class Keyring {
  #keys: readonly Buffer[] = []
  #places = new Map<string, number>() // by digest: the time of a look-up tells nothing about a key
  #redactor = new Redactor([])

  constructor(keys: readonly string[]) {
    this.replace(keys)
  }

  replace(keys: readonly string[]): void {
    this.#keys = keys.map((key) => Buffer.from(key, 'latin1'))
    this.#places = new Map(keys.map((key, place) => [hash('sha256', key), place]))
    this.#redactor = new Redactor(keys)
  }

  /** The index of the key in an `Authorization` header, or what is wrong with it. */
  check(authorization?: string): number | Problem {
    const token = tokenOf(authorization)
    return token === '' ? 'noCredentials' : (this.#find(token) ?? 'invalidToken')
  }

  /** The text with every valid key in it replaced by `[key]`. */
  redact(text: string): string {
    return this.#redactor.redact(text)
  }

  #find(token: string): number | undefined {
    const candidate = Buffer.from(token, 'latin1')
    const place = this.#places.get(hash('sha256', token))
    // A token that is not found is compared too, with itself, so that it takes the same time.
    const key = place === undefined ? candidate : this.#keys[place]
    return key !== undefined && timingSafeEqual(key, candidate) ? place : undefined
  }
}

function tokenOf(authorization = ''): string {
  const [scheme] = SCHEME.exec(authorization) ?? []
  return scheme === undefined ? '' : authorization.slice(scheme.length)
}
