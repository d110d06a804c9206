// What the tests on raw sockets share: requests as bytes, what every error must be, and a log to read.
import assert from 'node:assert/strict'
import type { LogStream } from '../../src/http/log.ts'
import { type Answer, assertError, AUTHORIZATION, type RawConnection } from '../support.ts'

export const HOST = 'Host: pets.example'
export const BEARER: string = `Authorization: ${AUTHORIZATION}`
export const CHUNKED = 'Transfer-Encoding: chunked'
export const REX = '{"name":"Rex","categoryId":1}'

/** A request as bytes: its line, its field lines, its content. */
export function request(line: string, fields: readonly string[], content = ''): string {
  return `${[line, ...fields].join('\r\n')}\r\n\r\n${content}`
}

/** A GET with host and key. */
export function get(target = '/v1/pets', ...fields: string[]): string {
  return request(`GET ${target} HTTP/1.1`, [HOST, BEARER, ...fields])
}

/** The head of a createPet whose body has so many bytes. */
export function postHead(contentLength: number, ...fields: string[]): string {
  return request('POST /v1/pets HTTP/1.1', [HOST, BEARER, `Content-Length: ${contentLength}`, ...fields])
}

/** A createPet with its body. */
export function post(body: string = REX, ...fields: string[]): string {
  return postHead(Buffer.byteLength(body), ...fields) + body
}

/** A createPet whose body is framed as chunks by hand. */
export function postChunked(framed: string): string {
  return request('POST /v1/pets HTTP/1.1', [HOST, BEARER, CHUNKED], framed)
}

/** One chunk of a body. */
export function chunk(content: string): string {
  return `${Buffer.byteLength(content).toString(16)}\r\n${content}\r\n`
}

/** Asserts all that every Error is: its body, its fields, its length. */
export function assertWholeError(answer: Answer, status: number, code: string): void {
  assertError(answer, status, code)
  assert.equal(answer.headers['content-length'], String(Buffer.byteLength(answer.body)))
  assert.equal(answer.headers['cache-control'], 'no-store')
  assert.equal(answer.headers['x-content-type-options'], 'nosniff')
  assert.ok(!('server' in answer.headers) && !('x-powered-by' in answer.headers))
}

/** Asserts that the next answer is this Error, that it is the last one, and that the server closes its side after it. */
export async function assertLastError(connection: RawConnection, status: number, code: string): Promise<void> {
  const answer = await connection.read()
  assertWholeError(answer, status, code)
  assert.equal(answer.headers.connection, 'close')
  assert.equal(await connection.rest(), '')
}

/** Where a petstore with `log: 'json'` writes, and a test reads entry by entry. */
export class LogReader implements LogStream {
  readonly writableLength = 0
  readonly #entries: Record<string, unknown>[] = []
  #wake = () => {}

  on(): void {}

  write(text: string, done: () => void): void {
    for (const line of text.split('\n')) if (line !== '') this.#entries.push(JSON.parse(line))
    this.#wake()
    done()
  }

  /** How many entries nobody has asked for yet. */
  get unread(): number {
    return this.#entries.length
  }

  /** The next entry, waited for if need be. */
  async next(): Promise<Record<string, unknown>> {
    for (;;) {
      const entry = this.#entries.shift()
      if (entry !== undefined) return entry
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
  }
}
