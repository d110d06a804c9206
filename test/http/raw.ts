// Requests, byte for byte.
import assert from 'node:assert/strict'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { Server } from 'node:http'
import { setImmediate as turn } from 'node:timers/promises'
import type { TestContext } from 'node:test'
import { isRecord } from '../../src/rules.ts'
import { type Answer, KEY, RawConnection } from '../support.ts'

export const HOST = 'Host: pets.example'
export const BEARER: string = `Authorization: Bearer ${KEY}`
export const CHUNKED = 'Transfer-Encoding: chunked'
export const REX = '{"name":"Rex","categoryId":1}'

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

/** A status, and the code of an Error. */
export type Expected = number | string

/** Reads as many responses, and compares them. */
export async function assertNext(
  connection: RawConnection,
  ...expected: readonly Expected[]
): Promise<Answer[]> {
  const answers: Answer[] = []
  for (const each of expected) {
    const answer = await connection.read()
    assertAnswer(answer, each)
    answers.push(answer)
  }
  return answers
}

/** Reads a response, and that the connection closes after it. */
export async function assertLast(
  connection: RawConnection,
  expected: Expected,
  what = '',
): Promise<Answer> {
  const answer = await connection.read().catch((error: Error) => assert.fail(`${error} ${what}`))
  assertAnswer(answer, expected, what)
  assert.equal(answer.headers.connection, 'close', what)
  assert.equal(await connection.rest(), '', what)
  return answer
}

function assertAnswer({ status, headers, body }: Answer, expected: Expected, what = ''): void {
  const [wanted, code] = String(expected).split(' ')
  assert.equal(`${status}`, wanted, `${body} ${what}`)
  if (code === undefined) return
  const { message, ...error } = JSON.parse(body)
  assert.deepEqual(error, { code, status }, what)
  assert.equal(typeof message, 'string', what)
  assert.equal(headers['content-type'], 'application/json', what)
  assert.equal(headers['cache-control'], 'no-store', what)
}

/** Opens a connection, and compares the responses to what it sends. */
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

/** Resolves once it is so. */
export async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await turn()
}

/** The server of node:http behind a petstore, whose documented limits a test may lower. */
export async function serverOf(t: TestContext, petstore: { url: string }): Promise<Server> {
  let found: unknown
  const find = (message: unknown): void => {
    if (isRecord(message)) found = message['server']
  }
  subscribe('http.server.request.start', find)
  await ask(t, petstore, get('/livez'), 200)
  unsubscribe('http.server.request.start', find)
  assert.ok(found instanceof Server)
  return found
}
