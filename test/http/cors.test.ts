import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { LogReader } from './raw.ts'
import { type Answer, RawConnection, send, start } from '../support.ts'

const SHOP = 'https://shop.example'
const EXPOSED = 'Link, Location, Deprecation, Sunset, Retry-After, X-Request-Id'
const PETS = [
  { name: 'Rex', categoryId: 1 },
  { name: 'Tom', categoryId: 2 },
]

/** The field lines of an answer that CORS is about. */
function corsOf({ headers }: Pick<Answer, 'headers'>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => /^(?:access-control-|vary$)/.test(name)))
}

const ALLOWS_SHOP = {
  'access-control-allow-origin': SHOP,
  'access-control-expose-headers': EXPOSED,
  vary: 'Origin',
}
const ALLOWS_ANY = { 'access-control-allow-origin': '*', 'access-control-expose-headers': EXPOSED }

/** Requests that are answered each in another way, and the status. */
const ANSWERS: readonly [
  method: string,
  path: string,
  headers: Record<string, string>,
  body: string,
  status: number,
][] = [
  ['GET', '/v1/pets?limit=1', {}, '', 200],
  ['HEAD', '/v1/pets/1', {}, '', 200],
  ['POST', '/v1/pets', {}, '{"name":"Mia","categoryId":3}', 201],
  ['OPTIONS', '/v1/pets', {}, '', 204],
  ['OPTIONS', '*', {}, '', 204],
  ['GET', '/', {}, '', 200],
  ['GET', '/readyz', {}, '', 200],
  ['GET', '/v1/pets?limit=0', {}, '', 400],
  ['GET', '/v1/pets', { authorization: '' }, '', 401],
  ['GET', '/v1/pets/9', {}, '', 404],
  ['PUT', '/v1/pets', {}, '', 405],
  ['POST', '/v1/pets', {}, 'x'.repeat(70_000), 413],
  ['POST', '/v1/pets', { 'content-type': 'text/plain' }, '', 415],
  ['GET', '/v1/pets', { expect: 'miracles' }, '', 417],
  ['GET', '/v1/store/orders', {}, '', 501],
]

const CASES: readonly [what: string, cors: string | undefined, origin: string | undefined, expected: object][] = [
  ['off, for an origin', undefined, SHOP, {}],
  ['off, without an origin', undefined, undefined, {}],
  ['one origin, for that one', SHOP, SHOP, ALLOWS_SHOP],
  ['one origin, for another', SHOP, 'https://evil.example', { vary: 'Origin' }],
  ['one origin, for one that only begins like it', SHOP, `${SHOP}.evil.example`, { vary: 'Origin' }],
  ['one origin, for another port', SHOP, `${SHOP}:8443`, { vary: 'Origin' }],
  ['one origin, for another scheme', SHOP, 'http://shop.example', { vary: 'Origin' }],
  ['one origin, for null', SHOP, 'null', { vary: 'Origin' }],
  ['one origin, without an origin', SHOP, undefined, { vary: 'Origin' }],
  ['any origin, for one', '*', SHOP, ALLOWS_ANY],
  ['any origin, for null', '*', 'null', ALLOWS_ANY],
  ['any origin, without an origin', '*', undefined, {}],
]

for (const [what, cors, origin, expected] of CASES) {
  test(`CORS for ${what}: every answer carries just the fields for it, errors too`, async (t) => {
    const petstore = await start(t, { pets: PETS, ...(cors !== undefined && { cors }) })
    for (const [method, path, headers, body, status] of ANSWERS) {
      const sent = { headers: { ...headers, ...(origin !== undefined && { origin }) }, body }
      const answer = await send(petstore, method, path, sent)
      assert.equal(answer.status, status, `${method} ${path}`)
      assert.deepEqual(corsOf(answer), expected, `${method} ${path} ${status}`)
    }
  })
}

test('CORS lets a script read an error that a test asked for, one without a Host, and an answer in process', async (t) => {
  const petstore = await start(t, { cors: SHOP })
  petstore.inject({ operation: '*', status: 503, retryAfter: 7 })
  const answer = await send(petstore, 'GET', '/v1/pets', { headers: { origin: SHOP, 'x-request-id': 'a-1' } })
  assert.deepEqual([answer.status, answer.headers['retry-after'], answer.headers['x-request-id']], [503, '7', 'a-1'])
  assert.deepEqual(corsOf(answer), ALLOWS_SHOP)
  const connection = new RawConnection(t, petstore)
  await connection.write(`GET /v1/pets HTTP/1.1\r\nOrigin: ${SHOP}\r\n\r\n`)
  const malformed = await connection.read()
  assert.equal(malformed.status, 400)
  assert.deepEqual(corsOf(malformed), ALLOWS_SHOP)
  const { headers } = await petstore.fetch(`${petstore.url}/pets`, { headers: { origin: SHOP } })
  assert.deepEqual(corsOf({ headers: Object.fromEntries(headers) }), ALLOWS_SHOP)
})

describe('a preflight', () => {
  const WITHOUT_KEY = { authorization: '' }
  const asks = (method: string, origin = SHOP) => ({
    ...WITHOUT_KEY,
    origin,
    'access-control-request-method': method,
    'access-control-request-headers': 'authorization,content-type',
  })
  const answers = (allow: string) => ({
    'access-control-allow-methods': allow,
    'access-control-allow-headers': 'Authorization, Content-Type, X-Request-Id',
    'access-control-max-age': '7200',
  })
  const paths = {
    '/v1/pets': 'GET, HEAD, OPTIONS, POST',
    '/v1/pets/1': 'GET, HEAD, OPTIONS',
    '/v1/store/orders': 'GET, HEAD, OPTIONS',
    '/readyz': 'GET, HEAD, OPTIONS',
  }

  for (const [path, allow] of Object.entries(paths)) {
    test(`of ${path} needs no key, and is answered with the methods that there are: ${allow}`, async (t) => {
      for (const [cors, allows] of [
        [SHOP, ALLOWS_SHOP],
        ['*', ALLOWS_ANY],
      ] as const) {
        const petstore = await start(t, { cors })
        for (const headers of [asks('POST'), { ...asks('DELETE'), authorization: 'Bearer wrong-key' }]) {
          const answer = await send(petstore, 'OPTIONS', path, { headers })
          assert.deepEqual([answer.status, answer.headers.allow, answer.body], [204, allow, ''])
          assert.deepEqual(corsOf(answer), { ...allows, ...answers(allow) })
        }
      }
    })
  }

  test('by another origin is not allowed it', async (t) => {
    const petstore = await start(t, { cors: SHOP })
    const answer = await send(petstore, 'OPTIONS', '/v1/pets', { headers: asks('POST', 'https://evil.example') })
    assert.equal(answer.status, 204)
    assert.equal(answer.headers['access-control-allow-origin'], undefined)
    assert.equal(answer.headers.vary, 'Origin')
  })

  test('of a path where there is nothing is a 404 that a script may read', async (t) => {
    const petstore = await start(t, { cors: SHOP })
    for (const path of ['/v1/none', '/none', '/v1/pets/']) {
      const answer = await send(petstore, 'OPTIONS', path, { headers: asks('GET') })
      assert.equal(answer.status, 404)
      assert.deepEqual(corsOf(answer), ALLOWS_SHOP)
    }
  })

  test('is a plain OPTIONS where CORS is off, or where it lacks the origin or the method', async (t) => {
    const off = await start(t)
    assert.deepEqual(corsOf(await send(off, 'OPTIONS', '/v1/pets', { headers: asks('GET') })), {})
    const on = await start(t, { cors: SHOP })
    const { origin, ...noOrigin } = asks('GET')
    for (const [headers, expected] of [
      [noOrigin, { vary: 'Origin' }],
      [{ ...WITHOUT_KEY, origin }, ALLOWS_SHOP],
    ] as const) {
      const answer = await send(on, 'OPTIONS', '/v1/pets', { headers })
      assert.deepEqual([answer.status, answer.headers.allow], [204, 'GET, HEAD, OPTIONS, POST'])
      assert.deepEqual(corsOf(answer), expected)
    }
  })

  test('is logged, and in the journal, as a request without an operation', async (t) => {
    const logStream = new LogReader()
    const petstore = await start(t, { cors: SHOP, log: 'json', logStream })
    await send(petstore, 'OPTIONS', '/v1/pets', { headers: asks('POST') })
    const { method, path, operation, status } = await logStream.next()
    assert.deepEqual([method, path, operation, status], ['OPTIONS', '/v1/pets', undefined, 204])
    assert.deepEqual(
      petstore.requests.map((one) => [one.method, one.operation, one.status]),
      [['OPTIONS', null, 204]],
    )
  })
})

test('the test controls allow no script of any origin', async (t) => {
  const { controlUrl = '' } = await start(t, { cors: '*', controlPort: 0 })
  for (const method of ['GET', 'OPTIONS']) {
    const headers = { origin: SHOP, 'access-control-request-method': 'POST' }
    const answer = await send({ url: controlUrl }, method, '/pets', { headers })
    assert.equal(answer.status, method === 'GET' ? 200 : 204)
    assert.deepEqual(corsOf(answer), {})
  }
})
