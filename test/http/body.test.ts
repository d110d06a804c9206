import assert from 'node:assert/strict'
import type { IncomingHttpHeaders } from 'node:http'
import { test } from 'node:test'
import { contentTooLarge, refuseBody } from '../../src/http/body.ts'
import type { Reply } from '../../src/http/reply.ts'

const MAX_BYTES = 100

/** Asserts that a reply is an Error of this status and code. */
function assertRefusal(reply: Reply | undefined, status: number, code: string): void {
  assert.equal(reply?.status, status)
  const { message, ...rest }: { message?: unknown } = JSON.parse(String(reply?.body))
  assert.equal(typeof message, 'string')
  assert.deepEqual(rest, { code, status })
}

const JSON_TYPES = [
  undefined,
  'application/json',
  'APPLICATION/JSON',
  'Application/Json',
  'application/json; charset=utf-8',
  'application/json;charset=utf-8',
  'application/json ; charset=utf-8',
  'application/json;  charset=utf-8  ',
  'application/json; charset=UTF-8',
  'application/json; CHARSET=Utf-8',
  'application/json; charset="utf-8"',
  'application/json;charset="UTF-8"',
  'application/json; charset=utf-8; charset=utf-8',
  'application/json;',
  'application/json; ',
  'application/json;;',
  'application/json; profile=x',
  'application/json; profile="https://example.com/a;b"; charset=utf-8',
  'application/json; charset=utf-8; profile=x',
  'application/json; xcharset=latin1',
  'application/json; charsets=latin1',
  'application/json; note="; charset=latin1; "',
  'application/json; note="\\"; charset=latin1; "',
]

for (const type of JSON_TYPES) {
  test(`a body of Content-Type ${type ?? 'unknown'} is read as JSON`, () => {
    assert.equal(refuseBody(type === undefined ? {} : { 'content-type': type }, MAX_BYTES), undefined)
  })
}

const OTHER_TYPES = [
  '',
  'application/jsonx',
  'application/json-patch+json',
  'application/json5',
  'application/vnd.api+json',
  'xapplication/json',
  'application/x-www-form-urlencoded',
  'multipart/form-data; boundary=application/json',
  'text/json',
  'text/plain',
  'text/plain; application/json',
  '*/*',
  'application/*',
  'json',
  'application /json',
  'application/ json',
  'application/json, text/plain',
  'application/json charset=utf-8',
  'application/json; charset=utf-16',
  'application/json; charset=iso-8859-1',
  'application/json; charset=latin1; profile=x',
  'application/json; profile=x; CHARSET=latin1',
  'application/json;charset="iso-8859-1"',
  'application/json;charset="utf-8',
  'application/json;charset=utf-8"',
  'application/json;charset="utf-8 "',
  "application/json;charset='utf-8'",
  'application/json; charset = latin1',
  'application/json; charset=utf8',
  'application/json; charset=utf-8x',
  'application/json; charset=utf-8 latin1',
  'application/json; charset=',
  'application/json; charset=""',
  'application/json; charset=utf-8; charset=latin1',
  'application/json; charset=latin1; charset=utf-8',
  'application/json; note="a"; charset=latin1',
]

for (const type of OTHER_TYPES) {
  test(`a body of Content-Type ${JSON.stringify(type)} is answered 415, which names what is accepted`, () => {
    const reply = refuseBody({ 'content-type': type }, MAX_BYTES)
    assertRefusal(reply, 415, 'unsupported_media_type')
    assert.deepEqual(reply?.fields, ['Accept', 'application/json'])
  })
}

for (const coding of ['identity', 'Identity', 'IDENTITY']) {
  test(`a body of Content-Encoding ${coding} is read`, () => {
    assert.equal(refuseBody({ 'content-encoding': coding }, MAX_BYTES), undefined)
  })
}

for (const coding of ['gzip', 'br', 'deflate', 'x-gzip', 'identity, gzip', 'gzip, identity', 'constructor']) {
  test(`a body of Content-Encoding ${coding} is answered 415, which names the coding that is accepted`, () => {
    const reply = refuseBody({ 'content-type': 'application/json', 'content-encoding': coding }, MAX_BYTES)
    assertRefusal(reply, 415, 'unsupported_media_type')
    assert.deepEqual(reply?.fields, ['Accept', 'application/json', 'Accept-Encoding', 'identity'])
  })
}

for (const length of [undefined, '0', '1', '99', '100', '0100', '000000000000000000000']) {
  test(`a body of Content-Length ${length ?? 'unknown'} may be read where 100 bytes are allowed`, () => {
    assert.equal(refuseBody(length === undefined ? {} : { 'content-length': length }, MAX_BYTES), undefined)
  })
}

for (const length of ['101', '1000', '18446744073709551616', '9'.repeat(400)]) {
  test(`a body of Content-Length ${length} is answered 413 where 100 bytes are allowed`, () => {
    assertRefusal(refuseBody({ 'content-length': length }, MAX_BYTES), 413, 'content_too_large')
  })
}

test('the 413 says how many bytes are allowed', () => {
  assertRefusal(contentTooLarge(65_536), 413, 'content_too_large')
  assert.match(String(contentTooLarge(65_536).body), /at most 65536 bytes/)
})

for (const [what, headers, status] of [
  ['type and coding', { 'content-type': 'text/plain', 'content-encoding': 'gzip' }, 415],
  ['type and length', { 'content-type': 'text/plain', 'content-length': '101' }, 415],
  ['coding and length', { 'content-encoding': 'gzip', 'content-length': '101' }, 415],
] satisfies [what: string, headers: IncomingHttpHeaders, status: number][]) {
  test(`a body of which ${what} are wrong is answered ${status}: media type comes before size`, () => {
    assert.equal(refuseBody(headers, MAX_BYTES)?.status, status)
  })
}
