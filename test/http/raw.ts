// Requests, byte for byte, and their responses.
import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { type Answer, KEY, outcomeOf, RawConnection } from '../support.ts'

export const HOST = 'Host: pets.example'
export const BEARER: string = `Authorization: Bearer ${KEY}`
export const CHUNKED = 'Transfer-Encoding: chunked'
export const REX = '{"name":"Rex","categoryId":1}'

/** A request of HTTP/1.1, from its method and target, headers and body. */
export function request(target: string, headers: readonly string[], body = ''): string {
  return `${[`${target} HTTP/1.1`, ...headers].join('\r\n')}\r\n\r\n${body}`
}

export function get(path = '/v1/pets', ...headers: string[]): string {
  return request(`GET ${path}`, [HOST, BEARER, ...headers])
}

export function post(body: string = REX, ...headers: string[]): string {
  return request(
    'POST /v1/pets',
    [HOST, BEARER, `Content-Length: ${body.length}`, ...headers],
    body,
  )
}

/** A body in one chunk. */
export function chunked(body: string): string {
  return `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`
}

/** Opens a connection, and writes bytes. */
export async function open(
  t: TestContext,
  server: { url: string },
  bytes: string,
): Promise<RawConnection> {
  const connection = new RawConnection(t, server)
  await connection.write(Buffer.from(bytes, 'latin1'))
  return connection
}

/** Opens a connection with a request whose body has not come. */
export async function openInFlight(
  t: TestContext,
  server: { url: string },
): Promise<RawConnection> {
  const head = [HOST, BEARER, `Content-Length: ${REX.length}`, 'Expect: 100-continue']
  const connection = await open(t, server, request('POST /v1/pets', head))
  await assertNext(connection, 100)
  return connection
}

/** Reads a response for each status, or status and code of an Error: '400 bad_request'. */
export async function assertNext(
  connection: RawConnection,
  ...expected: readonly (number | string)[]
): Promise<Answer[]> {
  const answers: Answer[] = []
  for (const each of expected) {
    const answer = await connection.read()
    answers.push(answer)
    assert.match(outcomeOf(answer), new RegExp(`^${each}`))
    if (typeof each === 'number') continue
    assert.equal(answer.headers['cache-control'], 'no-store')
    assert.equal(answer.headers['x-content-type-options'], 'nosniff')
  }
  return answers
}

/** Reads the response after which the server closes the connection. */
export async function assertLast(
  connection: RawConnection,
  expected: number | string,
): Promise<void> {
  const [answer] = await assertNext(connection, expected)
  assert.equal(answer?.headers.connection, 'close')
  assert.equal(await connection.rest(), '')
}
