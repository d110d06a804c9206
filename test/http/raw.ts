import { once } from 'node:events'
import type { Server } from 'node:net'
import type { TestContext } from 'node:test'
import { assertNext, AUTHORIZATION, type Expected, RawConnection } from '../support.ts'

export const HOST = 'Host: pets.example'
export const BEARER: string = `Authorization: ${AUTHORIZATION}`
export const CHUNKED = 'Transfer-Encoding: chunked'
export const REX = '{"name":"Rex","categoryId":1}'
/** Milliseconds that no test waits for: the tests time out sooner. */
export const LONG = 600_000
/** Less than --test-timeout, which ends a file without a word on the test that hangs. */
export const within = { timeout: 240_000 }

export function request(line: string, lines: readonly string[], content = ''): string {
  return `${[line, ...lines].join('\r\n')}\r\n\r\n${content}`
}

export function get(target = '/v1/pets', ...lines: string[]): string {
  return request(`GET ${target} HTTP/1.1`, [HOST, BEARER, ...lines])
}

export function postHead(contentLength: number, ...lines: string[]): string {
  const length = `Content-Length: ${contentLength}`
  return request('POST /v1/pets HTTP/1.1', [HOST, BEARER, length, ...lines])
}

export function post(body: string = REX, ...lines: string[]): string {
  return postHead(Buffer.byteLength(body), ...lines) + body
}

export function postChunked(framed: string): string {
  return request('POST /v1/pets HTTP/1.1', [HOST, BEARER, CHUNKED], framed)
}

export function chunk(content: string): string {
  return `${Buffer.byteLength(content).toString(16)}\r\n${content}\r\n`
}

/** Opens a connection and writes a text in Latin-1. If `unread`, it does not read. */
export async function open(
  t: TestContext,
  server: { url: string },
  bytes: string,
  unread?: 'unread',
): Promise<RawConnection> {
  const connection = new RawConnection(t, server)
  if (unread) connection.socket.pause()
  await connection.write(Buffer.from(bytes, 'latin1'))
  return connection
}

export async function ask(
  t: TestContext,
  server: { url: string },
  bytes: string,
  ...expected: Expected[]
): Promise<RawConnection> {
  const connection = await open(t, server, bytes)
  await assertNext(connection, ...expected)
  return connection
}

/** Makes a server listen until the end of the test. Returns its URL. */
export async function listen(t: TestContext, server: Server): Promise<string> {
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.after(() => server.close())
  const address = server.address()
  return typeof address === 'object' ? `http://127.0.0.1:${address?.port}` : ''
}
