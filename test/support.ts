import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { type Agent, request as httpRequest, type IncomingHttpHeaders, type IncomingMessage } from 'node:http'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Writable } from 'node:stream'
import { text } from 'node:stream/consumers'
import type { TestContext } from 'node:test'
import { LIMITS } from '../src/http/limits.ts'
import { startPetstore } from '../src/petstore.ts'
import type { Petstore, PetstoreOptions } from '../src/types.ts'
import { breachesOfAnswer, breachesOfError } from './contract.ts'

/** The key of every petstore that a test starts. */
export const KEY = 'key-of-the-tests'
export const AUTHORIZATION: string = `Bearer ${KEY}`

const DEFAULT_LIMITS = { ...LIMITS }

export function words(text: string): string[] {
  return text.trim().split(/\s+/)
}

/** Starts a petstore, with limits of the server that differ; the end of the test closes it. */
export async function start(
  t: TestContext,
  options: PetstoreOptions = {},
  limits: Partial<typeof LIMITS> = {},
): Promise<Petstore> {
  Object.assign(LIMITS, limits)
  try {
    const petstore = await startPetstore({ apiKeys: [KEY], ...options })
    t.after(() => petstore.close())
    return petstore
  } finally {
    Object.assign(LIMITS, DEFAULT_LIMITS)
  }
}

const FOLDER = mkdtempSync(join(tmpdir(), 'petstore-'))
process.once('exit', () => rmSync(FOLDER, { recursive: true, force: true }))

/** Makes a folder. The end of the process removes it: a petstore that closes after the test still writes into it. */
export function folderOf(_t?: TestContext): string {
  return mkdtempSync(join(FOLDER, 'test-'))
}

export interface Answer {
  status: number
  headers: IncomingHttpHeaders
  body: string // the content as text
}

export interface Sent {
  headers?: Record<string, string>
  body?: string | Buffer
  agent?: Agent // keeps connections; each request has one of its own unless given
}

/** Sends one request, with the key unless `headers` say otherwise. Whatever a petstore answers, its OpenAPI document says. */
export async function send({ url }: { url: string }, method: string, path: string, sent: Sent = {}): Promise<Answer> {
  const { hostname, port, pathname } = new URL(url)
  const headers = { authorization: AUTHORIZATION, ...sent.headers }
  const request = httpRequest({ hostname, port, method, path, headers, agent: sent.agent ?? false })
  const [response]: IncomingMessage[] = await once(request.end(sent.body), 'response')
  assert.ok(response !== undefined)
  request.on('error', () => {}) // of a body that is refused before its end
  const answer = { status: response.statusCode ?? 0, headers: response.headers, body: await text(response) }
  if (pathname !== '/') assert.deepEqual(breachesOfAnswer(pathname, method, path, answer), [], `${method} ${path}`)
  return answer
}

export function petsIn(text: string): string[] {
  return text.match(/\{"id":\d+,"name":"(?:[^"\\]|\\.)*"[^}]*\}/g) ?? []
}

/** All pets of a petstore, as JSON, page after page, if some filter lets them pass. */
export async function listAll(petstore: { url: string }, filter = ''): Promise<string[]> {
  const pets: string[] = []
  for (let path: string | undefined = `/v1/pets?limit=100${filter}`; path !== undefined;) {
    const page = await send(petstore, 'GET', path)
    pets.push(...petsIn(page.body))
    path = /<(.*)>/.exec(String(page.headers['link'] ?? ''))?.[1]
  }
  return pets
}

/** Asserts the headers that every answer of the API carries, and no word of what serves it. */
export function assertApiHeaders({ headers, body }: Answer): void {
  const names = words('content-type content-length cache-control x-content-type-options server x-powered-by')
  const seen = names.map((name) => headers[name])
  assert.deepEqual(seen, [
    'application/json',
    `${Buffer.byteLength(body)}`,
    'no-store',
    'nosniff',
    undefined,
    undefined,
  ])
}

/** Asserts that an answer is an Error of exactly this status and code, and returns its message. */
export function assertError(answer: Answer, status: number, code: string): string {
  assert.equal(answer.status, status, answer.body)
  const { message, ...rest }: { message?: unknown } = JSON.parse(answer.body)
  assert.deepEqual(rest, { code, status })
  assert.ok(typeof message === 'string')
  assertApiHeaders(answer)
  return message
}

export type Expected = number | `${number} ${string}`

/** Asserts that an answer is of this status, or this Error, and returns it. */
export function assertIs(answer: Answer, expected: Expected, label = ''): Answer {
  const [status, code] = String(expected).split(' ')
  assert.equal(answer.status, Number(status), `${label} ${answer.body}`)
  if (code !== undefined) assertError(answer, Number(status), code)
  return answer
}

export async function check(
  petstore: { url: string },
  method: string,
  path: string,
  expected: Expected,
  sent: Sent = {},
): Promise<Answer> {
  const label = `${method} ${path} ${JSON.stringify(sent.headers ?? {})}`
  return assertIs(await send(petstore, method, path, sent), expected, label)
}

/** A connection on which a test writes what bytes it likes, and reads answers one after the other. */
export class RawConnection {
  readonly socket: Socket
  #received: Buffer[] = []
  #ended = false
  #wake = () => {}

  readonly closed: Promise<void> // resolves when the server has closed its side, or the connection is lost

  constructor(t: TestContext, { url }: { url: string }) {
    const { hostname, port } = new URL(url)
    this.socket = connect({ port: Number(port), host: hostname, allowHalfOpen: true })
    this.socket.on('data', (chunk) => {
      this.#received.push(chunk)
      this.#wake()
    })
    const ends = ['end', 'close', 'error'].map((event) => new Promise((resolve) => this.socket.on(event, resolve)))
    this.closed = Promise.race(ends).then(() => {
      this.#ended = true
      this.#wake()
    })
    t.after(() => this.socket.destroy())
  }

  write(bytes: string | Buffer): Promise<void> {
    return new Promise((resolve) => this.socket.write(bytes, () => resolve()))
  }

  /** Reads the next answer; `toHead` when it answers a HEAD request. Rejects when the connection ends before its end. */
  async read(toHead = false): Promise<Answer> {
    const head = await this.#take(() => this.#joined().indexOf('\r\n\r\n'))
    const [statusLine = '', ...lines] = head.toString('latin1').split('\r\n')
    const pairs = lines.map((line) => [line.split(':', 1)[0]?.toLowerCase(), line.replace(/^.*?: ?/, '')])
    const headers: IncomingHttpHeaders = Object.fromEntries(pairs)
    const length = toHead ? 0 : Number(headers['content-length'] ?? 0)
    const body = (await this.#take(() => 4 + length)).toString('utf8', 4)
    const answer = { status: Number(statusLine.split(' ')[1]), headers, body }
    if (answer.status >= 400 && !toHead) assert.deepEqual(breachesOfError(answer), [], body)
    return answer
  }

  /** Reads what is left until the server closes its side, and closes the other one. */
  async rest(): Promise<string> {
    await this.closed
    this.socket.end()
    return this.#joined().toString()
  }

  #joined(): Buffer {
    const [first, ...more] = this.#received
    const joined = first !== undefined && more.length === 0 ? first : Buffer.concat(this.#received)
    this.#received = [joined]
    return joined
  }

  /** Takes what has been received up to some place, once that is there, and not negative. */
  async #take(place: () => number): Promise<Buffer> {
    for (;;) {
      const end = place()
      if (end >= 0 && this.#received.reduce((sum, { length }) => sum + length, 0) >= end) {
        const joined = this.#joined()
        this.#received = [joined.subarray(end)]
        return joined.subarray(0, end)
      }
      if (this.#ended) throw new Error(`the connection ended after ${JSON.stringify(this.#joined().toString())}`)
      await new Promise<void>((resolve) => (this.#wake = resolve))
    }
  }
}

export async function assertNext(connection: RawConnection, ...expected: Expected[]): Promise<Answer[]> {
  const answers: Answer[] = []
  for (const one of expected) answers.push(assertIs(await connection.read(), one))
  return answers
}

/** Asserts that the next answer is this one, that it says it is the last, and that the server closes its side after it. */
export async function assertLast(connection: RawConnection, expected: Expected, label = ''): Promise<Answer> {
  const answer = assertIs(await connection.read(), expected, label)
  assert.equal(answer.headers.connection, 'close', label)
  assert.equal(await connection.rest(), '', label)
  return answer
}

/** Repeatable random values: the same seed gives the same ones (mulberry32). */
export class Random {
  #state: number

  constructor(seed: number) {
    this.#state = seed
  }

  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }

  chance(probability: number): boolean {
    return this.next() < probability
  }

  integer(minimum: number, maximum: number): number {
    return minimum + Math.floor(this.next() * (maximum - minimum + 1))
  }

  int64(): bigint {
    return BigInt.asIntN(64, (BigInt(this.integer(0, 2 ** 32 - 1)) << 32n) | BigInt(this.integer(0, 2 ** 32 - 1)))
  }

  pick<T>(values: readonly T[]): T {
    return values[this.integer(0, values.length - 1)] as T
  }

  /** Up to 30 code units of any kind, lone surrogates and controls among them; rarely up to 3,000. */
  string(): string {
    const length = this.chance(0.02) ? this.integer(0, 3_000) : this.integer(0, 30)
    const unit = () =>
      this.pick([this.integer(0x20, 0x7e), this.integer(0, 0xffff), this.integer(0xd800, 0xdfff), 0x22, 0x5c])
    return String.fromCharCode(...Array.from({ length }, unit))
  }
}

export function temporaryFile(t: TestContext, content: string | Uint8Array): string {
  const path = join(folderOf(t), 'file')
  writeFileSync(path, content)
  return path
}

/** A stream that keeps what is written to it, for a test to look at or to wait for. */
export class FakeStream extends Writable {
  text = ''
  isTTY = false

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    this.text += chunk
    done()
    this.emit('written')
  }

  async until(pattern: RegExp): Promise<RegExpExecArray> {
    for (let match = pattern.exec(this.text); ; match = pattern.exec(this.text)) {
      if (match !== null) return match
      await once(this, 'written')
    }
  }
}
