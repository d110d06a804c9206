// A response as it came, and what a rule can demand of it.
import { isDeepStrictEqual } from 'node:util'

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
    let rest = bytes
    let head = ''
    do {
      const end = rest.indexOf('\r\n\r\n')
      if (end < 0) throw new Error(`no head of a response: ${JSON.stringify(`${rest}`)}`)
      head = rest.toString('latin1', 0, end)
      rest = rest.subarray(end + 4)
    } while (/^HTTP\/1\.1 1/.test(head))
    this.#head = head.replaceAll('\r\n', '\n')
    this.status = Number(/^HTTP\/1\.[01] (\d{3})(?: |$)/m.exec(head)?.[1] ?? Number.NaN)
    this.content = rest
    const isChunked = this.header('transfer-encoding')?.toLowerCase() === 'chunked'
    this.body = (isChunked ? decodeChunks(rest) : rest).toString()
  }

  /** The value of a header, joined by commas if there are several. */
  header(name: string): string | undefined {
    const values = this.#head
      .split('\n')
      .filter((line) => line.toLowerCase().startsWith(`${name.toLowerCase()}:`))
      .map((line) => line.slice(name.length + 1).trim())
    return values.length > 0 ? values.join(', ') : undefined
  }

  /** Fails the rule if the response is not as it should be. */
  should(be: string, isSo: boolean): void {
    if (isSo) return
    const whole = `${this.#head}\n\n${this.body}`.trim()
    const answered = whole.length > 2_000 ? `${whole.slice(0, 2_000)}…` : whole
    throw new Error(
      `\n\nThe request\n\n${indent(this.curl)}\n\nwas answered by\n\n${indent(answered)}\n\n` +
        `It should have been ${be}.\n`,
    )
  }

  shouldHave(header: string, value: string | undefined): void {
    const be = value === undefined ? `without ${header}` : `with ${header}: ${value}`
    this.should(be, this.header(header) === value)
  }

  shouldMatch(header: string, pattern: RegExp): void {
    this.should(`with ${header}: ${pattern}`, pattern.test(this.header(header) ?? ''))
  }

  /** Checks the status, and of an Error its shape and its code, if one is given; `any` is no Error. */
  shouldBe(expected: string): void {
    const [status = '', code] = expected.split(' ')
    const isIt =
      status === '4xx' ? 400 <= this.status && this.status < 500 : `${this.status}` === status
    this.should(status, isIt)
    if (this.status < 400 || code === 'any') return
    const members = this.members
    const { code: sent, message, status: repeated } = members
    const isError = typeof sent === 'string' && typeof message === 'string'
    this.should(
      `an Error with code, message and the status ${this.status}`,
      isError && repeated === BigInt(this.status),
    )
    if (code === undefined) return
    this.should(`the code ${code}`, sent === code)
    this.should('nothing but code, message and status', Object.keys(members).length === 3)
  }

  /** The JSON, with integers as bigints. */
  get json(): unknown {
    let value: unknown
    const type = this.header('content-type') ?? ''
    this.should('application/json', /^application\/json *(?:;|$)/i.test(type))
    try {
      value = parseExactly(this.body)
    } catch {
      this.should('JSON', false)
    }
    return value
  }

  get members(): Readonly<Record<string, unknown>> {
    const value = this.json
    this.should('an object', isRecord(value))
    return isRecord(value) ? value : {}
  }

  get pet(): Pet {
    const value = this.json
    this.should('an Animal', isPet(value))
    return isPet(value) ? value : { id: 0n, name: '', categoryId: 0n }
  }

  get pets(): readonly Pet[] {
    this.shouldBe('200')
    const value = this.json
    this.should('an array', Array.isArray(value))
    const items: unknown[] = Array.isArray(value) ? value : []
    for (const item of items) this.should(`Animals, but for ${show(item)}`, isPet(item))
    return items.filter(isPet)
  }

  shouldEqual(expected: unknown, actual: unknown): void {
    this.should(`${show(expected)} instead of ${show(actual)}`, isDeepStrictEqual(actual, expected))
  }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
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

/** Parses JSON with its integers as bigints, for JSON.parse rounds those beyond 2^53. */
function parseExactly(text: string): unknown {
  JSON.parse(text) // throws if it is not JSON
  const marked = text.replace(/"(?:[^"\\]|\\.)*"|-?\d+(?=\s*[,\]}])/g, (token) =>
    token.startsWith('"') ? token : `"${MARK}${token}"`,
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
