// Expect: 100-continue, and what is expected otherwise.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { RawConnection, send, start } from '../support.ts'
import { assertLastError, BEARER, chunk, CHUNKED, HOST, post, postHead, request, REX } from './raw.ts'

describe('Expect: 100-continue', () => {
  const EXPECT = 'Expect: 100-continue'

  test('is answered 100 before the body and 201 after it', async (t) => {
    const connection = new RawConnection(t, await start(t))
    for (const field of [EXPECT, 'expect: 100-Continue']) {
      await connection.write(postHead(REX.length, field))
      assert.equal((await connection.read()).status, 100)
      await connection.write(REX)
      assert.equal((await connection.read()).status, 201)
    }
    await connection.write(request('POST /v1/pets HTTP/1.1', [HOST, BEARER, CHUNKED, EXPECT]))
    assert.equal((await connection.read()).status, 100)
    await connection.write(`${chunk(REX)}0\r\n\r\n`)
    assert.equal((await connection.read()).status, 201)
  })

  const length = `Content-Length: ${REX.length}`
  const refusals: [why: string, line: string, fields: string[], status: number, code: string][] = [
    ['no key', 'POST /v1/pets HTTP/1.1', [HOST, length], 401, 'unauthorized'],
    ['an unknown path', 'POST /v1/cats HTTP/1.1', [HOST, BEARER, length], 404, 'not_found'],
    ['a wrong method', 'PUT /v1/pets HTTP/1.1', [HOST, BEARER, length], 405, 'method_not_allowed'],
    [
      'a wrong type',
      'POST /v1/pets HTTP/1.1',
      [HOST, BEARER, length, 'Content-Type: text/plain'],
      415,
      'unsupported_media_type',
    ],
    ['a body too large', 'POST /v1/pets HTTP/1.1', [HOST, BEARER, 'Content-Length: 65537'], 413, 'content_too_large'],
    ['no Host', 'POST /v1/pets HTTP/1.1', [BEARER, length], 400, 'bad_request'],
    [
      'a second expectation',
      'POST /v1/pets HTTP/1.1',
      [HOST, BEARER, length, 'Expect: 200-ok'],
      417,
      'expectation_failed',
    ],
  ]
  for (const [why, line, fields, status, code] of refusals) {
    test(`is answered ${status} and no 100 with ${why}`, async (t) => {
      const connection = new RawConnection(t, await start(t))
      await connection.write(request(line, [...fields, EXPECT]))
      await assertLastError(connection, status, code)
    })
  }

  test('is the last of its connection where it is refused, though the body comes', async (t) => {
    const petstore = await start(t)
    const connection = new RawConnection(t, petstore)
    await connection.write(request('POST /v1/pets HTTP/1.1', [HOST, length, EXPECT], REX) + post())
    await assertLastError(connection, 401, 'unauthorized')
    assert.equal((await send(petstore, 'GET', '/v1/pets')).body, '[]')
  })

  test('with another expectation is answered 417', async (t) => {
    for (const expectation of ['200-ok', '100-continued', '']) {
      const connection = new RawConnection(t, await start(t))
      await connection.write(post(REX, `Expect: ${expectation}`))
      await assertLastError(connection, 417, 'expectation_failed')
    }
  })
})
