// What the tests on raw sockets share: requests as bytes, and a log to read.
import { once } from 'node:events'
import type { Server } from 'node:net'
import type { TestContext } from 'node:test'
import { AUTHORIZATION, FakeStream, RawConnection } from '../support.ts'

export const HOST = 'Host: pets.example'
export const BEARER: string = `Authorization: ${AUTHORIZATION}`
export const CHUNKED = 'Transfer-Encoding: chunked'
export const REX = '{"name":"Rex","categoryId":1}'

/** A request as bytes: its line, its header lines, its content. */
export function request(line: string, lines: readonly string[], content = ''): string {
  return `${[line, ...lines].join('\r\n')}\r\n\r\n${content}`
}

/** A GET with host and key. */
export function get(target = '/v1/pets', ...lines: string[]): string {
  return request(`GET ${target} HTTP/1.1`, [HOST, BEARER, ...lines])
}

/** The head of a createPet whose body has so many bytes. */
export function postHead(contentLength: number, ...lines: string[]): string {
  return request('POST /v1/pets HTTP/1.1', [HOST, BEARER, `Content-Length: ${contentLength}`, ...lines])
}

/** A createPet with its body. */
export function post(body: string = REX, ...lines: string[]): string {
  return postHead(Buffer.byteLength(body), ...lines) + body
}

/** A createPet whose body is framed as chunks by hand. */
export function postChunked(framed: string): string {
  return request('POST /v1/pets HTTP/1.1', [HOST, BEARER, CHUNKED], framed)
}

/** One chunk of a body. */
export function chunk(content: string): string {
  return `${Buffer.byteLength(content).toString(16)}\r\n${content}\r\n`
}

/** Opens a connection and writes these bytes on it, each character one. */
export async function open(t: TestContext, server: { url: string }, bytes: string): Promise<RawConnection> {
  const connection = new RawConnection(t, server)
  await connection.write(Buffer.from(bytes, 'latin1'))
  return connection
}

/** Opens a connection that does not read, and writes these bytes on it. */
export async function openUnread(t: TestContext, server: { url: string }, bytes: string): Promise<RawConnection> {
  const connection = new RawConnection(t, server)
  connection.socket.pause()
  await connection.write(bytes)
  return connection
}

/** Makes a server listen; the end of the test closes it. Returns its URL. */
export async function listen(t: TestContext, server: Server): Promise<string> {
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.after(() => server.close())
  const address = server.address()
  return typeof address === 'object' ? `http://127.0.0.1:${address?.port}` : ''
}

/** Where a petstore with `log: 'json'` writes, and a test reads entry by entry. */
export class LogReader extends FakeStream {
  #read = 0

  /** How many entries nobody has asked for yet. */
  get unread(): number {
    return this.text.split('\n').length - 1 - this.#read
  }

  /** The next entry, waited for if need be. */
  async next(): Promise<Record<string, unknown>> {
    while (this.unread === 0) await once(this, 'written')
    return JSON.parse(this.text.split('\n')[this.#read++] ?? '')
  }
}
