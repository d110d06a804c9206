import { timingSafeEqual } from 'node:crypto'
import { readFileSync } from 'node:fs'

const KEY = /^(?=.{8,256}$)[A-Za-z0-9._~+/-]+=*$/
const CREDENTIALS = /^bearer +(.+)$/i

export const KEY_MUST_BE = '8 to 256 characters of A-Z a-z 0-9 - . _ ~ + / with = only at the end'

/** Whether a text can be an API key: RFC 6750 §2.1's token form, with a minimum length. */
export function isApiKey(text: unknown): text is string {
  return typeof text === 'string' && KEY.test(text)
}

/** The keys of a file: one a line, `#` starts a comment. No error shows a key. */
export function readKeys(path: string): string[] {
  const lines = readFileSync(path, 'utf8').split('\n')
  const texts = lines.map((line) => line.replace(/#.*/, '').trim())
  const wrong = texts.findIndex((text) => text !== '' && !isApiKey(text))
  if (wrong >= 0) throw new Error(`line ${wrong + 1} must be ${KEY_MUST_BE}`)
  const keys = texts.filter((text) => text !== '')
  if (keys.length === 0) throw new Error('it has no key')
  return keys
}

/** The valid keys: any number at once, so that one can go in before another goes out. */
export class Keys {
  #keys: readonly Buffer[] = []

  constructor(keys: readonly string[]) {
    this.replace(keys)
  }

  replace(keys: readonly string[]): void {
    this.#keys = keys.map((key) => Buffer.from(key))
  }

  get first(): string {
    return String(this.#keys[0])
  }

  /** The place of the key of an `Authorization` header in the list, or what is wrong with it. */
  find(authorization = ''): number | 'noKey' | 'wrongKey' {
    const [, token] = CREDENTIALS.exec(authorization) ?? []
    if (token === undefined) return 'noKey'
    const bytes = Buffer.from(token)
    // Constant time: it does not reveal where a key differs.
    const index = this.#keys.findIndex((key) => {
      return key.length === bytes.length && timingSafeEqual(key, bytes)
    })
    return index < 0 ? 'wrongKey' : index
  }
}
