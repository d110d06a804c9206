import assert from 'node:assert/strict'
import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import type { Agent, IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { request as httpRequest } from 'node:http'
import { connect, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Writable } from 'node:stream'
import { text } from 'node:stream/consumers'
import type { TestContext } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { Limits } from '../src/http/limits.ts'
import { launch } from '../src/petstore/launch.ts'
import type { Petstore, StartOptions } from '../src/types.ts'

/** Repeats a random test that failed: each prints its own. */
export const SEED: number = Number(process.env['SEED'] ?? randomInt(2 ** 31))

/** The key of every petstore that a test starts. */
export const KEY = 'key-of-the-tests'
export const AUTHORIZATION: string = `Bearer ${KEY}`

export const JSON_HEADERS: Record<string, string> = {
  authorization: AUTHORIZATION,
  'content-type': 'application/json',
}

export function bearer(key: string): { authorization: string } {
  return { authorization: `Bearer ${key}` }
}

export function words(text: string): string[] {
  return text.trim().split(/\s+/)
}

/** Starts a petstore, with other limits of the server if given. The end of the test closes it. */
export async function start(
  t: TestContext,
  options: StartOptions = {},
  limits?: Partial<Limits>,
): Promise<Petstore> {
  const { petstore, logReports } = await launch({ apiKeys: [KEY], ...options }, limits)
  logReports()
  t.after(() => petstore.close())
  return petstore
}

export async function startLogging(
  t: TestContext,
  log: 'json' | 'text',
  options: StartOptions = {},
): Promise<{ petstore: Petstore; logStream: FakeStream }> {
  const logStream = new FakeStream()
  return { logStream, petstore: await start(t, { ...options, log, logStream }) }
}

const FOLDER = mkdtempSync(join(tmpdir(), 'petstore-'))
process.once('exit', () => rmSync(FOLDER, { recursive: true, force: true }))

/** Makes a folder. It outlasts the test, because a petstore still writes while it closes. */
export function folderOf(): string {
  return mkdtempSync(join(FOLDER, 'test-'))
}

/** A free port that neither the system gives to others nor `fetch` refuses, as it does 10080. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(11_000, 30_000)
    const server = createServer().listen(port)
    const isFree = await once(server, 'listening').catch(() => undefined)
    server.close()
    if (isFree !== undefined) return port
  }
}

export function portOf({ url }: { url: string }): number {
  return Number(new URL(url).port)
}

export interface Answer {
  status: number
  headers: IncomingHttpHeaders
  body: string
}

export interface Sent {
  headers?: Record<string, string>
  body?: string | Buffer
  agent?: Agent // without one, each request opens a connection
}

/** Sends a request, with the key by default. */
export async function send(
  { url }: { url: string },
  method: string,
  path: string,
  sent: Sent = {},
): Promise<Answer> {
  const { hostname, port } = new URL(url)
  const headers = { authorization: AUTHORIZATION, ...sent.headers }
  const request = httpRequest({ hostname, port, method, path, headers, agent: sent.agent ?? false })
  const [response]: IncomingMessage[] = await once(request.end(sent.body), 'response')
  assert.ok(response !== undefined)
  request.on('error', () => {}) // the server may reset the connection before the body is sent
  const { statusCode: status = 0, headers: received } = response
  return { status, headers: received, body: await text(response) }
}

export function petsIn(text: string): string[] {
  return text.match(/\{"id":\d+,"name":"(?:[^"\\]|\\.)*"[^}]*\}/g) ?? []
}

/** The JSON of all pets that match the filter, collected from all pages. */
export async function listAll(petstore: { url: string }, filter = ''): Promise<string[]> {
  const pets: string[] = []
  let path: string | undefined = `/v1/pets?limit=100${filter}`
  while (path !== undefined) {
    const page = await send(petstore, 'GET', path)
    pets.push(...petsIn(page.body))
    path = /<(.*)>/.exec(String(page.headers['link'] ?? ''))?.[1]
  }
  return pets
}

/** Asserts that a response is an Error with its headers, and returns its message. */
export function assertError(answer: Answer, status: number, code: string, label = ''): string {
  assert.equal(answer.status, status, `${label} ${answer.body}`)
  const { message, ...rest }: { message?: unknown } = JSON.parse(answer.body)
  assert.deepEqual(rest, { code, status }, label)
  assert.ok(typeof message === 'string', label)
  const { headers, body } = answer
  assert.equal(headers['content-type'], 'application/json')
  assert.equal(headers['content-length'], `${Buffer.byteLength(body)}`)
  assert.equal(headers['cache-control'], 'no-store')
  assert.equal(headers['x-content-type-options'], 'nosniff')
  assert.equal(headers['server'] ?? headers['x-powered-by'], undefined)
  return message
}

export function outcomesOf({ requests }: Pick<Petstore, 'requests'>): string[] {
  return requests.map(({ operation, status }) => `${operation} ${status}`)
}

export async function untilInFlight(petstore: Petstore): Promise<void> {
  const one = petstore.requests.length + 1
  const miss = await petstore.waitForRequests(one, { timeout: 0 }).catch(String)
  if (!String(miss).includes('in flight')) await untilInFlight(petstore)
}

export type Expected = number | `${number} ${string}`

/** Asserts that a response has this status or is this Error, and returns it. */
export function assertIs(answer: Answer, expected: Expected, label = ''): Answer {
  const [status, code] = String(expected).split(' ')
  assert.equal(answer.status, Number(status), `${label} ${answer.body}`)
  if (code !== undefined) assertError(answer, Number(status), code, label)
  return answer
}

export async function check(
  petstore: { url: string },
  method: string,
  path: string,
  expected: Expected,
  sent: Sent = {},
): Promise<Answer> {
  const label = `${method} ${path} ${JSON.stringify(sent.headers ?? {})} ${sent.body ?? ''}`
  return assertIs(await send(petstore, method, path, sent), expected, label)
}

export function collectGarbage(): void {
  setFlagsFromString('--expose-gc')
  const gc: () => void = runInNewContext('gc')
  gc()
  gc() // waits for the thread to which the first one leaves what it freed
}

/** A connection that writes any bytes and reads one response after the other. */
export class RawConnection {
  readonly socket: Socket
  readonly closed: Promise<unknown> // by the server, or lost
  #received: Buffer[] = []

  constructor(t: TestContext, { url }: { url: string }) {
    const { hostname, port } = new URL(url)
    this.socket = connect({ port: Number(port), host: hostname, allowHalfOpen: true })
    this.socket.on('data', (chunk) => this.#received.push(chunk))
    this.socket.on('error', () => {}) // which comes before 'close'
    const ends = [once(this.socket, 'end'), once(this.socket, 'close')]
    this.closed = Promise.race(ends).catch(() => {})
    t.after(() => this.socket.destroy())
  }

  write(bytes: string | Buffer): Promise<void> {
    return new Promise((resolve) => this.socket.write(bytes, () => resolve()))
  }

  /** Reads the next response. Rejects if the connection ends first. */
  async read(): Promise<Answer> {
    const head = await this.#take(() => this.#joined().indexOf('\r\n\r\n'))
    const [statusLine = '', ...lines] = head.toString('latin1').split('\r\n')
    const pairs = lines.map((line) => {
      return [line.split(':', 1)[0]?.toLowerCase(), line.replace(/^.*?: ?/, '')]
    })
    const headers: IncomingHttpHeaders = Object.fromEntries(pairs)
    const length = Number(headers['content-length'] ?? 0)
    const body = (await this.#take(() => 4 + length)).toString('utf8', 4)
    return { status: Number(statusLine.split(' ')[1]), headers, body }
  }

  /** Reads until the server closes its side, then closes the other. */
  async rest(): Promise<string> {
    await this.closed
    this.socket.end()
    return this.#joined().toString()
  }

  #joined(): Buffer {
    const joined = Buffer.concat(this.#received)
    this.#received = [joined]
    return joined
  }

  /** Takes the received bytes up to a place, which is -1 until it is known. */
  async #take(place: () => number): Promise<Buffer> {
    for (;;) {
      const end = place()
      if (end >= 0 && this.#received.reduce((sum, { length }) => sum + length, 0) >= end) {
        const joined = this.#joined()
        this.#received = [joined.subarray(end)]
        return joined.subarray(0, end)
      }
      if (this.socket.readableEnded || this.socket.destroyed)
        throw new Error(`the connection ended after ${JSON.stringify(this.#joined().toString())}`)
      await Promise.race([once(this.socket, 'data').catch(() => {}), this.closed])
    }
  }
}

export async function assertNext(
  connection: RawConnection,
  ...expected: Expected[]
): Promise<Answer[]> {
  const answers: Answer[] = []
  for (const one of expected) answers.push(assertIs(await connection.read(), one))
  return answers
}

/** Asserts that the next response says it is the last, and that the server then closes its side. */
export async function assertLast(
  connection: RawConnection,
  expected: Expected,
  label = '',
): Promise<Answer> {
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
    const high = BigInt(this.integer(0, 2 ** 32 - 1))
    const low = BigInt(this.integer(0, 2 ** 32 - 1))
    return BigInt.asIntN(64, (high << 32n) | low)
  }

  pick<T>(values: readonly T[]): T {
    return values[this.integer(0, values.length - 1)] as T
  }

  /** Up to 30 code units of any kind, lone surrogates too; in 1 of 50 cases up to 3,000. */
  string(): string {
    const length = this.integer(0, this.chance(0.02) ? 3_000 : 30)
    const unit = () => {
      const surrogate = this.integer(0xd800, 0xdfff)
      const other = [this.integer(0x20, 0x7e), this.integer(0, 0xffff), 0x22, 0x5c]
      return this.pick([surrogate, ...other])
    }
    return String.fromCharCode(...Array.from({ length }, unit))
  }
}

export function temporaryFile(content: string | Uint8Array): string {
  const path = join(folderOf(), 'file')
  writeFileSync(path, content)
  return path
}

export class FakeStream extends Writable {
  text = ''
  isTTY = false

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    this.text += chunk
    done()
    this.emit('written')
  }

  async until(pattern: RegExp): Promise<RegExpExecArray> {
    for (;;) {
      const match = pattern.exec(this.text)
      if (match !== null) return match
      await once(this, 'written')
    }
  }
}
