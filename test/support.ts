import assert from 'node:assert/strict'
import { request as httpRequest, type IncomingHttpHeaders } from 'node:http'
import { connect, type Socket } from 'node:net'
import type { TestContext } from 'node:test'
import { type Petstore, type PetstoreOptions, startPetstore } from '../src/petstore.ts'

/** The key of every petstore that a test starts. */
export const KEY = 'key-of-the-tests'
export const AUTHORIZATION: string = `Bearer ${KEY}`

/** Starts a petstore that the end of the test closes. */
export async function start(t: TestContext, options: PetstoreOptions = {}): Promise<Petstore> {
  const petstore = await startPetstore({ apiKeys: [KEY], ...options })
  t.after(() => petstore.close())
  return petstore
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
}

/** Sends one request, with the key unless `headers` say otherwise, over a connection of its own. */
export function send({ url }: { url: string }, method: string, path: string, sent: Sent = {}): Promise<Answer> {
  const { hostname, port } = new URL(url)
  const headers = { authorization: AUTHORIZATION, ...sent.headers }
  return new Promise((resolve, reject) => {
    const request = httpRequest({ hostname, port, method, path, headers, agent: false }, (response) => {
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
    return { status: Number(statusLine.split(' ')[1]), headers, body }
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
