// What scripts of web pages may do.
import assert from 'node:assert/strict'
import type { IncomingHttpHeaders } from 'node:http'
import { test } from 'node:test'
import { KEY, outcomeOf, send, start } from '../support.ts'

const SHOP = 'https://shop.example'
const EXPOSED = 'Allow, Date, Link, Location, Retry-After, Sunset, WWW-Authenticate, X-Request-Id'
const REQUESTS: [method: string, path: string, outcome: string][] = [
  ['GET', '/v1/pets', '200'],
  ['GET', '/v1/pets?limit=0', '400 invalid_parameter'],
  ['GET', '/v1/none', '404 not_found'],
  ['PUT', '/v1/pets', '405 method_not_allowed'],
  ['OPTIONS', '/v1/pets', '204'],
  ['OPTIONS', '/v1/none', '404 not_found'],
  ['GET', '/', '200'],
  ['GET', '/openapi.json', '200'],
]
const PREFLIGHTS: [method: string, path: string][] = [
  ['POST', '/v1/pets'],
  ['GET', '/v1/pets/1'],
  ['DELETE', '/v1/pets'],
  ['PUT', '/v1/none'],
  ['PATCH', '/none'],
  ['GET', '/readyz'],
]

function corsOf(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  const own = Object.entries(headers).filter(([name]) => /^(?:access-control|vary)/.test(name))
  return Object.fromEntries(own)
}

const readable = (origin: string): IncomingHttpHeaders => ({
  vary: 'Origin',
  'access-control-allow-origin': origin,
  'access-control-allow-credentials': 'true',
  'access-control-expose-headers': EXPOSED,
})

test('with cors, scripts of every origin may read every answer', async (t) => {
  const petstore = await start(t, { cors: true })
  for (const [method, path, outcome] of REQUESTS) {
    for (const origin of [SHOP, 'http://localhost:3000', 'null']) {
      const answer = await send(petstore, method, path, { headers: { origin } })
      assert.equal(outcomeOf(answer), outcome, path)
      assert.deepEqual(corsOf(answer.headers), readable(origin), path)
    }
    const { headers } = await send(petstore, method, path)
    assert.deepEqual(corsOf(headers), { vary: 'Origin' }, path)
  }
  const headers = { origin: SHOP, authorization: 'Bearer not-a-key' }
  const refused = await send(petstore, 'GET', '/v1/pets', { headers })
  assert.equal(outcomeOf(refused), '401 unauthorized')
  assert.deepEqual(corsOf(refused.headers), readable(SHOP))
})

test('with cors, a preflight is allowed what it asks for, everywhere and without a key', async (t) => {
  const petstore = await start(t, { cors: true })
  const names = 'authorization,sentry-trace'
  for (const [method, path] of PREFLIGHTS) {
    for (const authorization of ['', `Bearer ${KEY}`, 'Bearer not-a-key']) {
      const asked = {
        'access-control-request-method': method,
        'access-control-request-headers': names,
      }
      const sent = { headers: { authorization, origin: SHOP, ...asked } }
      const { status, headers } = await send(petstore, 'OPTIONS', path, sent)
      assert.equal(status, 204, path)
      const { 'access-control-max-age': age, ...cors } = corsOf(headers)
      assert.ok(Number(age) > 0)
      assert.deepEqual(cors, {
        ...readable(SHOP),
        'access-control-allow-methods': method,
        'access-control-allow-headers': names,
      })
    }
  }
})

test('without cors, no answer has a header of it', async (t) => {
  const petstore = await start(t)
  const headers = { origin: SHOP, 'access-control-request-method': 'POST' }
  for (const [method, path, outcome] of REQUESTS) {
    const answer = await send(petstore, method, path, { headers })
    assert.equal(outcomeOf(answer), outcome, path)
    assert.deepEqual(corsOf(answer.headers), {}, path)
  }
})
