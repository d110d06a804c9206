// Preflights are in decisions/cors.txt.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { StartOptions } from '../../src/types.ts'
import { type Answer, assertLast, check, type Expected, type Sent, start } from '../support.ts'
import { open } from './raw.ts'

const SHOP = 'https://shop.example'
const REX = { name: 'Rex', categoryId: 1 }

function corsOf({ headers }: Pick<Answer, 'headers'>): Record<string, unknown> {
  const isCors = ([name]: [string, unknown]) => /^(?:access-control-|vary$)/.test(name)
  return Object.fromEntries(Object.entries(headers).filter(isCors))
}

const EXPOSED =
  '*, Accept, Allow, Date, Deprecation, Link, Location, Retry-After, Sunset, ' +
  'WWW-Authenticate, X-Request-Id'
const ALLOWS_ANY = {
  'access-control-allow-origin': '*',
  'access-control-expose-headers': EXPOSED,
}
const VARIES = { vary: 'Origin' }
const ALLOWS_SHOP = {
  ...ALLOWS_ANY,
  'access-control-allow-origin': SHOP,
  'access-control-allow-credentials': 'true',
  ...VARIES,
}

const ANSWERS: readonly [method: string, path: string, expected: Expected, sent?: Sent][] = [
  ['GET', '/v1/pets?limit=1', 200],
  ['POST', '/v1/pets', 201, { body: '{"name":"Mia","categoryId":3}' }],
  ['OPTIONS', '/v1/pets', 204],
  ['OPTIONS', '*', 204],
  ['GET', '/', 200],
  ['GET', '/v1/pets?limit=0', '400 invalid_parameter'],
  ['GET', '/v1/pets', '401 unauthorized', { headers: { authorization: '' } }],
  ['GET', '/v1/pets/9', '404 not_found'],
  ['POST', '/v1/pets', '413 content_too_large', { body: 'x'.repeat(70_000) }],
  ['GET', '/v1/pets', '417 expectation_failed', { headers: { expect: 'miracles' } }],
  ['GET', '/v1/store/orders', '501 not_implemented'],
]

const OTHERS = [`${SHOP}.evil.example`, `${SHOP}:8443`, 'http://shop.example', 'null', '*']
const ORIGINS: readonly [cors: StartOptions['cors'], origin: string, headers: object][] = [
  [undefined, SHOP, {}],
  [SHOP, SHOP, ALLOWS_SHOP],
  [SHOP, '', VARIES],
  ...OTHERS.map((origin): [string, string, object] => [SHOP, origin, VARIES]),
  ['*', SHOP, ALLOWS_ANY],
  ['*', 'null', ALLOWS_ANY],
  ['*', '', {}],
  [['https://other.example', SHOP], SHOP, ALLOWS_SHOP],
  [['https://other.example', SHOP], 'https://evil.example', VARIES],
  [[SHOP, '*'], 'https://other.example', ALLOWS_ANY],
  [[], SHOP, {}],
]

for (const [cors, origin, expected] of ORIGINS) {
  test(`with CORS for ${cors}, each response to '${origin}' has just its headers`, async (t) => {
    const petstore = await start(t, { pets: [REX, REX], ...(cors !== undefined && { cors }) })
    for (const [method, path, status, sent = {}] of ANSWERS) {
      const headers = { ...(origin !== '' && { origin }), ...sent.headers }
      const answer = await check(petstore, method, path, status, { ...sent, headers })
      assert.deepEqual(corsOf(answer), expected, `${method} ${path} ${status}`)
    }
  })
}

test("a fault's own headers are exposed by name", async (t) => {
  const petstore = await start(t, { cors: SHOP })
  petstore.inject({ operation: '*', status: 429, headers: { 'RateLimit-Remaining': '0' } })
  const sent = { headers: { origin: SHOP } }
  const { headers } = await check(petstore, 'GET', '/v1/pets', 429, sent)
  assert.equal(headers['access-control-expose-headers'], `${EXPOSED}, RateLimit-Remaining`)
})

test('a script may read a fault, a parse error, and a response in process', async (t) => {
  const petstore = await start(t, { cors: SHOP })
  petstore.inject({ operation: '*', status: 503 })
  const sent = { headers: { origin: SHOP, 'x-request-id': 'a-1' } }
  const answer = await check(petstore, 'GET', '/v1/pets', 503, sent)
  assert.equal(answer.headers['x-request-id'], 'a-1')
  const malformed = await open(t, petstore, `GET /v1/pets HTTP/1.1\r\nOrigin: ${SHOP}\r\n\r\n`)
  const { headers } = await petstore.fetch(`${petstore.url}/pets`, { headers: { origin: SHOP } })
  petstore.inject({ operation: '*', status: 503, headers: { Vary: 'Accept' } })
  const both = await petstore.fetch(`${petstore.url}/pets`, petstore)
  assert.equal(both.headers.get('vary'), 'Accept, Origin')
  const refused = await assertLast(malformed, '400 bad_request')
  for (const one of [answer, refused, { headers: Object.fromEntries(headers) }])
    assert.deepEqual(corsOf(one), ALLOWS_SHOP)
})
