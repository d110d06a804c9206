// A client that writes 50 MB before it reads: refused early, it must still get to its answer, and no reset in its place.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import type { Limits } from '../../src/http/limits.ts'
import { RawConnection, send, start } from '../support.ts'
import { assertLastError, assertWholeError, BEARER, chunk, CHUNKED, get, HOST, postHead, request, REX } from './raw.ts'

const POST = 'POST /v1/pets HTTP/1.1'
const UPLOAD = Buffer.alloc(50_000_000, 'x')
const LENGTH = `Content-Length: ${UPLOAD.length}`
const SIZE = UPLOAD.length.toString(16)

// However long a busy machine takes for the upload.
const limits: Partial<Limits> = { requestTimeout: 600_000, linger: 600_000 }

type Refusal = [name: string, before: string, after: string, status: number, code: string]

/** Writes all of an upload on a connection that does not read, and reads only then. */
async function upload(connection: RawConnection, before: string, after: string): Promise<void> {
  connection.socket.pause()
  await connection.write(before)
  await connection.write(UPLOAD)
  await connection.write(after)
  connection.socket.resume()
}

describe('an upload of 50 MB', () => {
  const kept: Refusal[] = [
    ['without a key', request(POST, [HOST, LENGTH]), '', 401, 'unauthorized'],
    ['with a wrong key', request(POST, [HOST, 'Authorization: Bearer wrong-key', LENGTH]), '', 401, 'unauthorized'],
    ['to an unknown path', request('POST /v1/cats HTTP/1.1', [HOST, BEARER, LENGTH]), '', 404, 'not_found'],
    ['with a wrong method', request('PUT /v1/pets HTTP/1.1', [HOST, BEARER, LENGTH]), '', 405, 'method_not_allowed'],
    ['of a wrong type', postHead(UPLOAD.length, 'Content-Type: image/png'), '', 415, 'unsupported_media_type'],
    ['in a coding', postHead(UPLOAD.length, 'Content-Encoding: gzip'), '', 415, 'unsupported_media_type'],
    ['too large by Content-Length', postHead(UPLOAD.length), '', 413, 'content_too_large'],
    [
      'too large by count',
      request(POST, [HOST, BEARER, CHUNKED], `${SIZE}\r\n`),
      '\r\n0\r\n\r\n',
      413,
      'content_too_large',
    ],
    ['chunked without a key', request(POST, [HOST, CHUNKED], `${SIZE}\r\n`), '\r\n0\r\n\r\n', 401, 'unauthorized'],
  ]
  for (const [name, before, after, status, code] of kept) {
    test(`${name} is answered ${status}, and its connection serves on`, async (t) => {
      const connection = new RawConnection(t, await start(t, { limits }))
      await upload(connection, before, after + get())
      assertWholeError(await connection.read(), status, code)
      assert.equal((await connection.read()).body, '[]')
    })
  }

  const cut: Refusal[] = [
    ['behind a malformed chunk', request(POST, [HOST, BEARER, CHUNKED], 'zz\r\n'), '', 400, 'bad_request'],
    [
      'behind a second malformed chunk',
      request(POST, [HOST, BEARER, CHUNKED], `${chunk(REX)}zz\r\n`),
      '',
      400,
      'bad_request',
    ],
    ['behind garbage', 'garbage\r\n\r\n', '', 400, 'bad_request'],
    ['without Host', request(POST, [BEARER, LENGTH]), '', 400, 'bad_request'],
    ['behind a request without Host', request('GET / HTTP/1.1', []) + postHead(UPLOAD.length), '', 400, 'bad_request'],
    ['in place of a header section', 'GET / HTTP/1.1\r\nX: ', '', 431, 'headers_too_large'],
    ['with another expectation', postHead(UPLOAD.length, 'Expect: 200-ok'), '', 417, 'expectation_failed'],
    ['that does not wait for its 100', request(POST, [HOST, LENGTH, 'Expect: 100-continue']), '', 401, 'unauthorized'],
    ['that asks to close', request(POST, [HOST, LENGTH, 'Connection: close']), '', 401, 'unauthorized'],
    ['in HTTP/1.0', request('POST /v1/pets HTTP/1.0', [LENGTH]), '', 401, 'unauthorized'],
    ['through CONNECT', request('CONNECT pets.example:80 HTTP/1.1', [HOST]), '', 405, 'method_not_allowed'],
  ]
  for (const [name, before, after, status, code] of cut) {
    test(`${name} is answered ${status}, and its connection closed`, async (t) => {
      const connection = new RawConnection(t, await start(t, { limits }))
      await upload(connection, before, after)
      await assertLastError(connection, status, code)
    })
  }

  test('that never ends is read no longer than `linger` after the last answer', async (t) => {
    const petstore = await start(t, { limits: { linger: 50 } })
    const connection = new RawConnection(t, petstore)
    await connection.write('garbage\r\n\r\n')
    await assertLastError(connection, 400, 'bad_request')
    while (!connection.socket.destroyed) {
      await connection.write(UPLOAD.subarray(0, 65_536))
      await setImmediate()
    }
    assert.equal((await send(petstore, 'GET', '/v1/pets')).status, 200)
  })
})
