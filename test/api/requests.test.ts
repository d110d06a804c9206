// What all operations have in common: addresses, keys, methods, media types and headers.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { KEY, outcomeOf, send, start } from '../support.ts'

const REX = '{"name":"Rex","categoryId":7}'
const PETS = [
  { name: 'Rex', categoryId: 7 },
  { name: 'Zoë', categoryId: 7 },
]
const NO_KEY = { headers: { authorization: '' } }

test('page, document and probes are outside the base path, and need no key', async (t) => {
  for (const basePath of ['/v1', '/shop/eu/v1', '']) {
    const petstore = await start(t, { basePath })
    for (const path of ['/', '/openapi.json', '/livez', '/readyz', '/livez?x=1']) {
      for (const method of ['GET', 'HEAD']) {
        assert.equal((await send(petstore, method, path, NO_KEY)).status, 200, `${method} ${path}`)
      }
      const post = await send(petstore, 'POST', path, NO_KEY)
      assert.equal(outcomeOf(post), '405 method_not_allowed')
      assert.equal(post.headers.allow, 'GET, HEAD, OPTIONS')
    }
  }
})

const NO_PATH = '404 not_found'
const ADDRESSES: [basePath: string, withoutKey: 401 | 404, withKey: string, paths: string[]][] = [
  ['/v1', 401, '200', ['/v1/pets', '/v1/pets?x', '/v1/pets/1']],
  ['/v1', 401, NO_PATH, ['/v1/', '/v1/p%65ts', '/v1/Pets', '/v1/pets/', '/v1/pets%2F1']],
  ['/v1', 401, NO_PATH, ['/v1//pets', '/v1/pets//1', '/v1/pets/1/', '/v1/x/../pets', '/v1/%']],
  ['/v1', 401, NO_PATH, ['/v1/store', '/v1/store/x', '/v1/store/orders/', '/v1/constructor']],
  [
    '/v1',
    404,
    NO_PATH,
    ['/pets', '/V1/pets', '/%761/pets', '/v1%2Fpets', '/v10/pets', '//v1/pets'],
  ],
  ['/v1', 404, NO_PATH, ['/x/v1/pets', '/livez/', '/Livez', '/openapi%2Ejson', '/%ff', '//', '/x']],
  ['/shop/v1', 401, '200', ['/shop/v1/pets', '/shop/v1/pets/1']],
  ['/shop/v1', 404, NO_PATH, ['/v1/pets', '/shop/pets', '/shop', '/pets', '/shop%2Fv1/pets']],
  ['/v1/v1', 401, '200', ['/v1/v1/pets', '/v1/v1/pets/1']],
  ['/v1/v1', 404, NO_PATH, ['/v1/pets', '/pets', '/v1']],
  ['', 401, '200', ['/pets', '/pets/1']],
  ['', 401, NO_PATH, ['/v1/pets', '//', '//pets', '/x', '/livez/']],
]

test('a path matches exactly as it was sent, and needs a key under the base path', async (t) => {
  for (const [basePath, withoutKey, withKey, paths] of ADDRESSES) {
    const petstore = await start(t, { basePath, pets: PETS })
    for (const path of paths) {
      assert.equal((await send(petstore, 'GET', path, NO_KEY)).status, withoutKey, path)
      assert.equal(outcomeOf(await send(petstore, 'GET', path)), withKey, path)
    }
  }
})

test('a target in absolute-form is served as its path and query', async (t) => {
  const petstore = await start(t, { pets: PETS })
  for (const origin of ['http://h', 'https://h:8443', 'HTTP://[::1]:80']) {
    const { headers } = await send(petstore, 'GET', `${origin}/v1/pets?limit=1`)
    assert.equal(headers['link'], '</v1/pets?limit=1&after=1>; rel="next"', origin)
    assert.equal(outcomeOf(await send(petstore, 'GET', `${origin}/pets`)), NO_PATH)
    for (const end of ['', '/', '?x=/v1/pets', '/?x=/v1/pets']) {
      const page = await send(petstore, 'GET', origin + end)
      assert.equal(page.headers['content-type'], 'text/html; charset=utf-8', origin + end)
    }
  }
})

const CHALLENGE = 'Bearer realm="petstore"'
const INVALID = `${CHALLENGE}, error="invalid_token"`
const SHORT_KEY = 'a.b_c~8='
const LONG_KEY = 'x'.repeat(256)
const CREDENTIALS: [challenge: string | undefined, authorizations: string[]][] = [
  [undefined, [`Bearer ${KEY}`, `bearer ${KEY}`, `BEARER   ${KEY}`]],
  [undefined, [`Bearer ${SHORT_KEY}`, `Bearer ${LONG_KEY}`]],
  [CHALLENGE, ['', 'Bearer', `Basic ${KEY}`, `Bearers ${KEY}`, `X Bearer ${KEY}`]],
  [CHALLENGE, [KEY, `Bearer${KEY}`, `Bearer:${KEY}`]],
  [INVALID, [`Bearer ${KEY}x`, `Bearer ${KEY.slice(1)}`, `Bearer ${KEY.slice(0, -1)}`]],
  [INVALID, [`Bearer ${KEY.toUpperCase()}`, `Bearer "${KEY}"`, `Bearer %6B${KEY.slice(1)}`]],
  [INVALID, [`Bearer ${KEY} ${KEY}`, `Bearer ${KEY},${KEY}`, `Bearer ${LONG_KEY}x`, 'Bearer x']],
  [INVALID, [`Bearer ${KEY.slice(0, 4)}${SHORT_KEY.slice(4)}`, 'Bearer k\xe9k\xe9k\xe9k\xe9']],
]

test('each of several keys is valid, and nothing else; the challenge says why', async (t) => {
  const petstore = await start(t, { apiKeys: [SHORT_KEY, KEY, LONG_KEY] })
  for (const [challenge, authorizations] of CREDENTIALS) {
    for (const authorization of authorizations) {
      const answer = await send(petstore, 'GET', '/v1/pets', { headers: { authorization } })
      assert.equal(outcomeOf(answer), challenge ? '401 unauthorized' : '200', authorization)
      assert.equal(answer.headers['www-authenticate'], challenge, authorization)
    }
  }
  const headers = { authorization: `Bearer\t${KEY}` } // only spaces may be there
  assert.equal(outcomeOf(await send(petstore, 'GET', '/v1/pets', { headers })), '401 unauthorized')
})

test('HEAD has the status and headers of GET, and no body', async (t) => {
  const petstore = await start(t, { pets: PETS })
  const paths = ['/v1/pets', '/v1/pets?limit=1', '/v1/pets?limit=0', '/v1/pets/2', '/v1/pets/9']
  for (const path of [...paths, '/v1/none', '/v1/store/orders', '/', '/openapi.json', '/readyz']) {
    const { status, headers } = await send(petstore, 'GET', path)
    const head = await send(petstore, 'HEAD', path)
    const expected = { status, headers: { ...headers, date: head.headers.date }, body: '' }
    assert.deepEqual(head, expected, path)
  }
})

const METHODS: [path: string, allow?: string][] = [
  ['/v1/pets', 'GET, HEAD, OPTIONS, POST'],
  ['/v1/pets?limit=0', 'GET, HEAD, OPTIONS, POST'],
  ['/v1/pets/1', 'GET, HEAD, OPTIONS'],
  ['/v1/pets/none', 'GET, HEAD, OPTIONS'],
  ['/v1/store/orders', 'GET, HEAD, OPTIONS'],
  ['/openapi.json', 'GET, HEAD, OPTIONS'],
  ['/v1/none'],
  ['/none'],
]

test('OPTIONS is 204 and another method 405, with Allow; 404 where nothing is', async (t) => {
  const petstore = await start(t)
  for (const [path, allow] of METHODS) {
    const options = await send(petstore, 'OPTIONS', path, NO_KEY)
    assert.equal(outcomeOf(options), allow ? '204' : NO_PATH, path)
    assert.equal(options.headers.allow, allow, path)
    for (const method of ['PUT', 'PATCH', 'DELETE', 'PROPFIND']) {
      const other = await send(petstore, method, path)
      assert.equal(outcomeOf(other), allow ? '405 method_not_allowed' : NO_PATH, path)
      assert.equal(other.headers.allow, allow, path)
    }
  }
})

const JSON_TYPES = [
  ...['application/json', 'Application/JSON', 'application/json ;', 'application/json;;x'],
  ...['application/json; charset=latin1', 'application/json;charset="utf-8"; a=";"'],
]
const OTHER_TYPES = [
  ...['text/json', '*/*', 'json', 'application/jsonx', 'xapplication/json', 'application/json x'],
  ...['application/json-patch+json', 'application/json, text/plain', 'text/plain;application/json'],
]

test('a body is application/json with any parameters; else it is 415 with Accept', async (t) => {
  const petstore = await start(t)
  const post = (headers: Record<string, string>, body = REX) => {
    return send(petstore, 'POST', '/v1/pets', { headers, body })
  }
  assert.equal(outcomeOf(await post({})), '201')
  for (const type of JSON_TYPES) {
    assert.equal(outcomeOf(await post({ 'content-type': type })), '201', type)
  }
  for (const type of OTHER_TYPES) {
    for (const length of [{}, { 'transfer-encoding': 'chunked' }]) {
      const answer = await post({ 'content-type': type, ...length })
      assert.equal(outcomeOf(answer), '415 unsupported_media_type', type)
      assert.equal(answer.headers.accept, 'application/json')
    }
  }
  const empty = await post({ 'content-type': 'text/plain', 'content-length': '0' }, '')
  assert.equal(outcomeOf(empty), '400 bad_request')
  const none = await send(petstore, 'POST', '/v1/pets', {
    headers: { 'content-type': 'text/plain' },
  })
  assert.equal(outcomeOf(none), '400 bad_request')
})

test('Accept and Content-Encoding are not judged', async (t) => {
  const petstore = await start(t)
  for (const headers of [{ accept: 'text/html, */*;q=0' }, { 'content-encoding': 'gzip' }]) {
    const answer = await send(petstore, 'POST', '/v1/pets', { headers, body: REX })
    assert.equal(outcomeOf(answer), '201', JSON.stringify(headers))
    assert.equal(answer.headers['content-type'], 'application/json')
  }
  const coded = { headers: { 'content-encoding': 'gzip' }, body: gzipSync(REX) }
  assert.equal(outcomeOf(await send(petstore, 'POST', '/v1/pets', coded)), '400 bad_request')
})

const ANSWERS: [outcome: string, method: string, path: string, body?: string][] = [
  ['200', 'GET', '/v1/pets'],
  ['200', 'GET', '/v1/pets/2'],
  ['201', 'POST', '/v1/pets', '{"name":"Zoë 🐕","categoryId":7}'],
  ['204', 'OPTIONS', '/v1/pets'],
  ['400 invalid_pet', 'POST', '/v1/pets', '{"status":"Zoë"}'],
  ['400 invalid_parameter', 'GET', '/v1/pets?limit=0'],
  ['404 not_found', 'GET', '/v1/none'],
  ['404 not_found', 'GET', '/none'],
  ['405 method_not_allowed', 'PUT', '/v1/pets'],
  ['413 content_too_large', 'POST', '/v1/pets', 'x'.repeat(65_537)],
  ['501 not_implemented', 'GET', '/v1/store/orders'],
  ['200', 'GET', '/livez'],
  ['200', 'GET', '/openapi.json'],
]

test('every answer is JSON of a known length, and neither stored nor sniffed', async (t) => {
  const petstore = await start(t, { pets: PETS })
  for (const [outcome, method, path, body] of ANSWERS) {
    const answer = await send(petstore, method, path, body ? { body } : {})
    const { headers } = answer
    const hasBody = method !== 'OPTIONS'
    assert.equal(outcomeOf(answer), outcome, path)
    assert.equal(headers['content-type'], hasBody ? 'application/json' : undefined, path)
    const length = hasBody ? `${Buffer.byteLength(answer.body)}` : undefined
    assert.equal(headers['content-length'], length, path)
    assert.equal(headers['cache-control'], 'no-store', path)
    assert.equal(headers['x-content-type-options'], 'nosniff', path)
    assert.ok(headers.date, path)
    assert.ok(!('server' in headers || 'x-powered-by' in headers), path)
  }
})

test('a safe X-Request-Id is sent back', async (t) => {
  const petstore = await start(t)
  const safe = ['x', 'AZ_az.09-', 'x'.repeat(128)]
  for (const id of [...safe, '', 'x'.repeat(129), 'a b', 'a/b', '\xe4', 'a, b', 'a\tb']) {
    for (const path of ['/v1/pets', '/v1/none', '/livez']) {
      const { headers } = await send(petstore, 'GET', path, { headers: { 'x-request-id': id } })
      assert.equal(headers['x-request-id'], safe.includes(id) ? id : undefined, id)
    }
  }
})
