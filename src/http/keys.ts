import { timingSafeEqual } from 'node:crypto'

const KEY = /^(?=.{8,256}$)[A-Za-z0-9._~+/-]+=*$/
const CREDENTIALS = /^bearer +(.*)$/i

export const KEY_MUST_BE = '8 to 256 characters of A-Z a-z 0-9 - . _ ~ + / with = only at the end'

/** Whether a text can be an API key: RFC 6750 §2.1's token form, with a minimum length. */
export function isApiKey(text: unknown): text is string {
  return typeof text === 'string' && KEY.test(text)
}

/** The valid keys: any number at once, so that one can go in before another goes out. */
export class Keys {
  #keys: readonly Buffer[] = []

  constructor(keys: readonly string[]) {
    this.replace(keys)
  }

  /** Makes these keys, and no others, valid. */
  replace(keys: readonly string[]): void {
    this.#keys = keys.map((key) => Buffer.from(key))
  }

  get first(): string {
    return String(this.#keys[0])
  }

  get size(): number {
    return this.#keys.length
  }

  /** The index of the key in an `Authorization` header, or what is wrong with it. */
  authorize(authorization = ''): number | 'noCredentials' | 'invalidToken' | 'malformedToken' {
    const token = CREDENTIALS.exec(authorization)?.[1] ?? ''
    if (token === '') return 'noCredentials'
    const bytes = Buffer.from(token)
    // In a time that tells nothing of where a key differs.
    const isEqual = (key: Buffer): boolean => {
      return key.length === bytes.length && timingSafeEqual(key, bytes)
    }
    const index = this.#keys.findIndex(isEqual)
    if (index >= 0) return index
    return isApiKey(token) ? 'invalidToken' : 'malformedToken'
  }
}
