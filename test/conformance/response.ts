// A response as it came, and what a rule can demand of it.
import { isDeepStrictEqual } from 'node:util'
import { isRecord } from '../../src/guards.ts'

const INT64 = 2n ** 63n
const MARK = '\ue000' // of the private use area
export const STATUSES: readonly string[] = ['available', 'pending', 'sold']

export interface Pet {
  id: bigint
  name: string
  categoryId: bigint
  status?: string
}

export class Response {
  readonly curl: string
  readonly status: number
  /** As it came: encoded in chunks, if the server sent it so. */
  readonly content: Buffer
  readonly body: string
  readonly #head: string

  constructor(curl: string, bytes: Buffer) {
    this.curl = curl
    let content = bytes
    let head = ''
    do {
      const end = content.indexOf('\r\n\r\n')
      if (end < 0) throw new Error(`no head of a response: ${JSON.stringify(`${bytes}`)}`)
      head = content.toString('latin1', 0, end)
      content = content.subarray(end + 4)
    } while (/^HTTP\/1\.1 1/.test(head))
    this.#head = head.replaceAll('\r\n', '\n')
    this.status = Number(/^HTTP\/1\.[01] (\d{3})\b/.exec(head)?.[1])
    this.content = content
    const isChunked = this.header('transfer-encoding')?.toLowerCase() === 'chunked'
    this.body = (isChunked ? decodeChunks(content) : content).toString()
  }

  /** The value of a header, joined by commas if there are several. */
  header(name: string): string | undefined {
    const start = `${name.toLowerCase()}:`
    const lines = this.#head.split('\n').filter((line) => line.toLowerCase().startsWith(start))
    const values = lines.map((line) => line.slice(start.length).trim())
    return values.length > 0 ? values.join(', ') : undefined
  }

  has(text: string): boolean {
    return this.#head.includes(text) || this.body.includes(text)
  }

  fail(be: string): never {
    const whole = `${this.#head}\n\n${this.body}`.trim()
    const answered = whole.length > 2_000 ? `${whole.slice(0, 2_000)}…` : whole
    throw new Error(
      `\n\nThe request\n\n${indent(this.curl)}\n\nwas answered by\n\n${indent(answered)}\n\n` +
        `It should have been ${be}.\n`,
    )
  }

  should(be: string, isSo: boolean): void {
    if (!isSo) this.fail(be)
  }

  shouldEqual(expected: unknown, actual: unknown): void {
    const isSo = isDeepStrictEqual(actual, expected)
    this.should(`${show(expected)} instead of ${show(actual)}`, isSo)
  }

  /** Compares a header with a value, or a pattern between slashes; undefined if it must not be. */
  shouldHave(name: string, value: string | undefined): void {
    const header = this.header(name)
    const pattern = value?.startsWith('/^') ? new RegExp(value.slice(1, -1)) : undefined
    const isSo = pattern === undefined ? header === value : pattern.test(header ?? '')
    this.should(value === undefined ? `without ${name}` : `with ${name}: ${value}`, isSo)
  }

  /** Compares with a status, and what comes with it: `Animal`, `Animals`, `any` or a code. */
  shouldBe(expected: string): void {
    const [status = '', what = ''] = expected.split(' ')
    const pattern = new RegExp(`^${status.replace('xx', '..')}$`)
    this.should(status, pattern.test(`${this.status}`))
    if (what === 'Animal') void this.pet
    else if (what === 'Animals') void this.pets
    else if (this.status >= 400 && what !== 'any') this.#shouldBeError(what)
  }

  #shouldBeError(expected: string): void {
    const error = this.#demand('an Error', isRecord)
    const { code, message, status } = error
    this.should('an Error with a code', typeof code === 'string')
    this.should('an Error with a message', typeof message === 'string')
    this.should(`an Error with the status ${this.status}`, status === BigInt(this.status))
    if (expected === '') return
    this.should(`the code ${expected}`, code === expected)
    this.should('nothing but code, message and status', Object.keys(error).length === 3)
  }

  get pet(): Pet {
    return this.#demand('an Animal', isPet)
  }

  get pets(): readonly Pet[] {
    this.shouldBe('200')
    return this.#demand('an array of Animals, each with its own id', isPets)
  }

  /** The JSON, with integers as bigints. */
  get json(): unknown {
    this.shouldHave('Content-Type', '/^application/json\\s*(?:;|$)/')
    try {
      return parseExactly(this.body)
    } catch {
      return this.fail('JSON')
    }
  }

  #demand<T>(be: string, is: (value: unknown) => value is T): T {
    const value = this.json
    return is(value) ? value : this.fail(be)
  }
}

function isInt64(value: unknown): boolean {
  return typeof value === 'bigint' && -INT64 <= value && value < INT64
}

function isPet(value: unknown): value is Pet {
  if (!isRecord(value)) return false
  const { id, name, categoryId, status } = value
  const hasStatus = status === undefined || STATUSES.includes(String(status))
  return isInt64(id) && typeof name === 'string' && isInt64(categoryId) && hasStatus
}

function isPets(value: unknown): value is readonly Pet[] {
  if (!Array.isArray(value) || !value.every(isPet)) return false
  return new Set(value.map(({ id }) => id)).size === value.length
}

/** Parses JSON with its integers as bigints, for JSON.parse rounds those beyond 2^53. */
function parseExactly(text: string): unknown {
  JSON.parse(text) // throws if it is not JSON
  const marked = text.replace(/"(?:[^"\\]|\\.)*"|[\d.eE+-]+/g, (token) =>
    /^-?\d+$/.test(token) ? `"${MARK}${token}"` : token,
  )
  return JSON.parse(marked, (_, value) => {
    const isMarked = typeof value === 'string' && value.startsWith(MARK)
    return isMarked ? BigInt(value.slice(1)) : value
  })
}

function decodeChunks(bytes: Buffer): Buffer {
  const chunks: Buffer[] = []
  let at = 0
  for (;;) {
    const end = bytes.indexOf('\r\n', at)
    const length = Number.parseInt(bytes.toString('latin1', at, end), 16)
    if (end < 0 || !(length > 0)) return Buffer.concat(chunks)
    chunks.push(bytes.subarray(end + 2, end + 2 + length))
    at = end + 2 + length + 2
  }
}

function show(value: unknown): string {
  return JSON.stringify(value, (_, one) => (typeof one === 'bigint' ? `${one}` : one)) ?? 'nothing'
}

function indent(text: string): string {
  return text.replace(/^/gm, '    ')
}
