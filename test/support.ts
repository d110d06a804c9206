import assert from 'node:assert/strict'
import { EventEmitter, once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { type Agent, request as httpRequest, type IncomingHttpHeaders } from 'node:http'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import type { PetstoreOptions } from '../src/options.ts'
import { type Petstore, startPetstore } from '../src/petstore.ts'
import { breachesOfAnswer, breachesOfError } from './contract.ts'

/** The key of every petstore that a test starts. */
export const KEY = 'key-of-the-tests'
export const AUTHORIZATION: string = `Bearer ${KEY}`

/** Starts a petstore that the end of the test closes. */
export async function start(t: TestContext, options: PetstoreOptions = {}): Promise<Petstore> {
  const petstore = await startPetstore({ apiKeys: [KEY], ...options })
  t.after(() => petstore.close())
  return petstore
}

/** Makes a folder that the end of the test removes. */
export function folderOf(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'petstore-'))
  t.after(() => rmSync(folder, { recursive: true }))
  return folder
}

/** An answer as a client reads it. */
export interface Answer {
  status: number
  headers: IncomingHttpHeaders
  /** The content as text. */
  body: string
}

export interface Sent {
  headers?: Record<string, string>
  body?: string | Buffer
  /** Keeps connections; each request has one of its own unless given. */
  agent?: Agent
}

/** Sends one request, with the key unless `headers` say otherwise. Whatever a petstore answers, its OpenAPI document says. */
export async function send({ url }: { url: string }, method: string, path: string, sent: Sent = {}): Promise<Answer> {
  const { pathname } = new URL(url)
  const answer = await exchange(url, method, path, sent)
  if (pathname !== '/') assert.deepEqual(breachesOfAnswer(pathname, method, path, answer), [], `${method} ${path}`)
  return answer
}

function exchange(url: string, method: string, path: string, sent: Sent): Promise<Answer> {
  const { hostname, port } = new URL(url)
  const headers = { authorization: AUTHORIZATION, ...sent.headers }
  return new Promise((resolve, reject) => {
    const request = httpRequest({ hostname, port, method, path, headers, agent: sent.agent ?? false }, (response) => {
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('error', reject)
      response.on('end', () => {
        const { statusCode: status = 0, headers } = response
        resolve({ status, headers, body: Buffer.concat(chunks).toString() })
      })
    })
    request.on('error', reject)
    request.end(sent.body)
  })
}

/** Asserts that an answer is an Error of exactly this status and code, and returns its message. */
export function assertError(answer: Answer, status: number, code: string): string {
  assert.equal(answer.status, status, answer.body)
  const error: unknown = JSON.parse(answer.body)
  assert.ok(typeof error === 'object' && error !== null && 'message' in error && typeof error.message === 'string')
  assert.deepEqual(error, { code, message: error.message, status })
  assert.equal(answer.headers['content-type'], 'application/json')
  return error.message
}

/** A connection on which a test writes what bytes it likes, and reads answers one after the other. */
export class RawConnection {
  readonly socket: Socket
  #received = Buffer.alloc(0)
  #ended = false
  #wake = () => {}

  /** Resolves when the server has closed its side, or the connection is lost. */
  readonly closed: Promise<void>

  constructor(t: TestContext, { url }: { url: string }) {
    const { hostname, port } = new URL(url)
    this.socket = connect({ port: Number(port), host: hostname, allowHalfOpen: true })
    this.socket.on('data', (chunk) => {
      this.#received = Buffer.concat([this.#received, chunk])
      this.#wake()
    })
    this.closed = new Promise((resolve) => {
      for (const event of ['end', 'close', 'error']) {
        this.socket.on(event, () => {
          this.#ended = true
          this.#wake()
          resolve()
        })
      }
    })
    t.after(() => this.socket.destroy())
  }

  /** Writes, and resolves when it has left the process. */
  write(bytes: string | Buffer): Promise<void> {
    return new Promise((resolve) => this.socket.write(bytes, () => resolve()))
  }

  /** Reads the next answer; `toHead` when it answers a HEAD request. Rejects when the connection ends before its end. */
  async read(toHead = false): Promise<Answer> {
    const headEnd = await this.#until(() => this.#received.indexOf('\r\n\r\n'))
    const [statusLine = '', ...lines] = this.#received.subarray(0, headEnd).toString('latin1').split('\r\n')
    const headers: IncomingHttpHeaders = {}
    for (const line of lines)
      headers[line.slice(0, line.indexOf(':')).toLowerCase()] = line.slice(line.indexOf(':') + 2)
    const end = headEnd + 4 + (toHead ? 0 : Number(headers['content-length'] ?? 0))
    await this.#until(() => (this.#received.length >= end ? end : -1))
    const body = this.#received.subarray(headEnd + 4, end).toString()
    this.#received = this.#received.subarray(end)
    const answer = { status: Number(statusLine.split(' ')[1]), headers, body }
    if (answer.status >= 400 && !toHead) assert.deepEqual(breachesOfError(answer), [], body)
    return answer
  }

  /** Reads what is left until the server closes its side. */
  async rest(): Promise<string> {
    await this.closed
    return this.#received.toString()
  }

  async #until(found: () => number): Promise<number> {
    for (let at = found(); ; at = found()) {
      if (at >= 0) return at
      if (this.#ended) throw new Error(`the connection ended after ${JSON.stringify(this.#received.toString())}`)
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
  }
}

/** Repeatable random values: the same seed gives the same ones (mulberry32). */
export class Random {
  #state: number

  constructor(seed: number) {
    this.#state = seed
  }

  /** At least 0 and below 1. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }

  chance(probability: number): boolean {
    return this.next() < probability
  }

  /** An integer, both bounds included. */
  integer(minimum: number, maximum: number): number {
    return minimum + Math.floor(this.next() * (maximum - minimum + 1))
  }

  int64(): bigint {
    return BigInt.asIntN(64, (BigInt(this.integer(0, 2 ** 32 - 1)) << 32n) | BigInt(this.integer(0, 2 ** 32 - 1)))
  }

  pick<T>(values: readonly [T, ...T[]] | readonly T[]): T {
    const value = values[this.integer(0, values.length - 1)]
    assert.ok(value !== undefined || values.includes(value as T))
    return value as T
  }

  /** Up to 30 code units of any kind, lone surrogates and controls among them; rarely up to 3,000. */
  string(): string {
    const length = this.chance(0.02) ? this.integer(0, 3_000) : this.integer(0, 30)
    const unit = () =>
      this.pick([this.integer(0x20, 0x7e), this.integer(0, 0xffff), this.integer(0xd800, 0xdfff), 0x22, 0x5c])
    return String.fromCharCode(...Array.from({ length }, unit))
  }
}

/** Writes a file that the end of the test removes, and returns its path. */
export function temporaryFile(t: TestContext, content: string | Uint8Array): string {
  const folder = folderOf(t)
  const path = join(folder, 'file')
  writeFileSync(path, content)
  return path
}

/** A stream that keeps what is written to it, for a test to look at or to wait for. */
export class FakeStream extends EventEmitter {
  readonly writes: string[] = []
  isTTY = false
  writableLength = 0

  get text(): string {
    return this.writes.join('')
  }

  write(text: string, done: () => void): void {
    this.writes.push(text)
    process.nextTick(done)
    this.emit('written')
  }

  /** Resolves with the match once what is written holds one. */
  async until(pattern: RegExp): Promise<RegExpExecArray> {
    for (;;) {
      const match = pattern.exec(this.text)
      if (match !== null) return match
      await once(this, 'written')
    }
  }
}
