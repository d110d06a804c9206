import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Keyring } from '../../src/http/bearer.ts'
import { createDispatch, methodNotAllowed, type RequestHead, type Verdict } from '../../src/http/dispatch.ts'
import type { Reply } from '../../src/http/reply.ts'
import { type Call, type Handler, type Route, Router } from '../../src/http/router.ts'

const KEY = 'key-of-the-tests'
const MAX_BODY = 100
const ALLOW = 'GET, HEAD, OPTIONS, POST'

interface Setup {
  dispatch: (head: RequestHead) => Verdict
  /** What the operations were called with. */
  calls: (Call & { operation: string })[]
  bugs: unknown[]
}

/** A dispatch over routes that answer with the name of their operation, or as `handle` does. */
function setUp(handle?: Handler): Setup {
  const calls: Setup['calls'] = []
  const bugs: unknown[] = []
  const route = (method: Route['method'], path: string, operation: string): Route => ({
    method,
    path,
    operation,
    handle(call) {
      calls.push({ ...call, operation })
      return handle === undefined ? { status: 200, body: JSON.stringify(operation) } : handle(call)
    },
  })
  const table: Route[] = [
    route('GET', '/pets', 'listPets'),
    { ...route('POST', '/pets', 'createPet'), takesBody: true },
    route('GET', '/pets/{petId}', 'getPet'),
    { ...route('POST', '/orders', 'createOrder'), takesBody: true },
    { ...route('GET', '/', 'page'), open: true },
  ]
  const router = new Router(table, '/v1')
  const onBug = (error: unknown) => bugs.push(error)
  return { dispatch: createDispatch({ router, keyring: new Keyring([KEY]), maxBody: MAX_BODY, onBug }), calls, bugs }
}

/** The head of a request with a valid key, unless `headers` say otherwise. */
function head(method: string, target: string, headers: RequestHead['headers'] = {}): RequestHead {
  return { method, target, headers: { authorization: `Bearer ${KEY}`, ...headers } }
}

function assertError(reply: Reply, status: number, code: string): string {
  assert.equal(reply.status, status, String(reply.body))
  const { message, ...rest }: { message?: unknown } = JSON.parse(String(reply.body))
  assert.deepEqual(rest, { code, status })
  assert.equal(typeof message, 'string')
  return String(message)
}

const ANSWERED: [method: string, target: string, operation: string, params: Record<string, string>, query: string][] = [
  ['GET', '/v1/pets', 'listPets', {}, ''],
  ['GET', '/v1/pets?limit=1&a=%20', 'listPets', {}, 'limit=1&a=%20'],
  ['GET', 'http://anywhere/v1/pets?limit=1', 'listPets', {}, 'limit=1'],
  ['HEAD', '/v1/pets', 'listPets', {}, ''],
  ['GET', '/v1/pets/7', 'getPet', { petId: '7' }, ''],
  ['HEAD', '/v1/pets/__proto__?x', 'getPet', { petId: '__proto__' }, 'x'],
  ['GET', '/', 'page', {}, ''],
]

for (const [method, target, operation, params, query] of ANSWERED) {
  test(`${method} ${target} is answered by ${operation}, without waiting for a body`, async () => {
    const { dispatch, calls } = setUp()
    const verdict = dispatch(head(method, target, { 'content-length': '1000000', 'content-type': 'text/plain' }))
    assert.equal(verdict.route?.operation, operation)
    assert.equal(verdict.wantsBody, undefined)
    assert.deepEqual(calls, [], 'the operation waits until it is asked')
    assert.deepEqual(await verdict.answer(), { status: 200, body: JSON.stringify(operation) })
    assert.deepEqual(calls, [{ operation, params, query, body: Buffer.alloc(0), signal: undefined }])
  })
}

test('POST /v1/pets wants the body, and hands it to createPet', async () => {
  const { dispatch, calls } = setUp()
  const verdict = dispatch(
    head('POST', '/v1/pets?a=b', { 'content-length': '100', 'content-type': 'application/json' }),
  )
  assert.equal(verdict.route?.operation, 'createPet')
  assert.equal(verdict.wantsBody, true)
  const body = Buffer.from('{}')
  assert.deepEqual(await verdict.answer(body), { status: 200, body: '"createPet"' })
  assert.deepEqual(calls, [{ operation: 'createPet', params: {}, query: 'a=b', body, signal: undefined }])
})

test('an operation may answer later', async () => {
  const { dispatch, bugs } = setUp(() => Promise.resolve({ status: 201, body: '{}' }))
  assert.deepEqual(await dispatch(head('GET', '/v1/pets')).answer(), { status: 201, body: '{}' })
  assert.deepEqual(bugs, [])
})

const NO_KEY = { authorization: undefined }
const TEXT = { 'content-type': 'text/plain' }
const LONG = { 'content-length': '101' }
const GZIP = { 'content-encoding': 'gzip' }

/** Requests with several faults each: the first in the order of the checks is the one that is answered. */
const REFUSED: [head: RequestHead, status: number, code: string, operation?: string][] = [
  [head('GET', 'v1/pets', NO_KEY), 400, 'bad_request'],
  [head('GET', 'ftp://host/v1/pets', NO_KEY), 400, 'bad_request'],
  [head('OPTIONS', 'host:443'), 400, 'bad_request'],
  [head('GET', '*'), 400, 'bad_request'],
  [head('constructor', '*', NO_KEY), 400, 'bad_request'],
  [head('GET', '/v1/pets', NO_KEY), 401, 'unauthorized', 'listPets'],
  [head('GET', '/v1/pets', { authorization: 'Bearer another-key' }), 401, 'unauthorized', 'listPets'],
  [head('GET', 'http://host/v1/pets', NO_KEY), 401, 'unauthorized', 'listPets'],
  [head('HEAD', '/v1/p%65ts/1', NO_KEY), 401, 'unauthorized', 'getPet'],
  [head('POST', '/v1/pets', { ...NO_KEY, ...TEXT, ...LONG }), 401, 'unauthorized', 'createPet'],
  [head('PUT', '/v1/pets', NO_KEY), 401, 'unauthorized'],
  [head('GET', '/v1', NO_KEY), 401, 'unauthorized'],
  [head('GET', '/v1/nothing', NO_KEY), 401, 'unauthorized'],
  [head('PUT', '/v1/pets/', NO_KEY), 401, 'unauthorized'],
  [head('GET', '/v1/pets/%', NO_KEY), 401, 'unauthorized'],
  [head('GET', '/v1/constructor', NO_KEY), 401, 'unauthorized'],
  [head('GET', '/v1/nothing'), 404, 'not_found'],
  [head('GET', '/v1'), 404, 'not_found'],
  [head('GET', '/v1/pets/'), 404, 'not_found'],
  [head('GET', '/v1//pets'), 404, 'not_found'],
  [head('GET', '/v1/pets/%'), 404, 'not_found'],
  [head('GET', '/v1/__proto__'), 404, 'not_found'],
  [head('PUT', '/v1/nothing', { ...TEXT, ...LONG }), 404, 'not_found'],
  [head('GET', '//pets', NO_KEY), 404, 'not_found'],
  [head('GET', '/pets', NO_KEY), 404, 'not_found'],
  [head('PUT', '/constructor', NO_KEY), 404, 'not_found'],
  [head('OPTIONS', '/v1/nothing', NO_KEY), 404, 'not_found'],
  [head('OPTIONS', '/nothing', NO_KEY), 404, 'not_found'],
  [head('PUT', '/v1/pets', { ...TEXT, ...LONG }), 405, 'method_not_allowed'],
  [head('HEAD', '/v1/orders'), 405, 'method_not_allowed'],
  [head('get', '/v1/pets'), 405, 'method_not_allowed'],
  [head('constructor', '/v1/pets'), 405, 'method_not_allowed'],
  [head('__proto__', '/v1/pets'), 405, 'method_not_allowed'],
  [head('', '/v1/pets'), 405, 'method_not_allowed'],
  [head('POST', '/', NO_KEY), 405, 'method_not_allowed'],
  [head('POST', '/v1/pets', { ...TEXT, ...LONG }), 415, 'unsupported_media_type', 'createPet'],
  [head('POST', '/v1/pets', { ...GZIP, ...LONG }), 415, 'unsupported_media_type', 'createPet'],
  [head('POST', '/v1/pets', LONG), 413, 'content_too_large', 'createPet'],
]

for (const [request, status, code, operation] of REFUSED) {
  const { authorization, ...others } = request.headers
  const what = [authorization === undefined ? 'without a key' : 'with a key', JSON.stringify(others)].join(' ')
  test(`${request.method} ${request.target} ${what} is answered ${status} ${code}`, async () => {
    const { dispatch, calls } = setUp()
    const verdict = dispatch(request)
    assertError(await verdict.answer(), status, code)
    assert.equal(verdict.route?.operation, operation)
    assert.equal(verdict.wantsBody, undefined, 'it is answered without waiting for its body')
    assert.deepEqual(calls, [])
  })
}

for (const [method, target, allow] of [
  ['PUT', '/v1/pets', ALLOW],
  ['DELETE', '/v1/pets/1', 'GET, HEAD, OPTIONS'],
  ['POST', '/v1/pets/1', 'GET, HEAD, OPTIONS'],
  ['GET', '/v1/orders', 'OPTIONS, POST'],
  ['DELETE', '/', 'GET, HEAD, OPTIONS'],
] as const) {
  test(`the 405 to ${method} ${target} allows ${allow}`, async () => {
    const reply = await setUp().dispatch(head(method, target)).answer()
    assert.deepEqual(reply, methodNotAllowed(allow))
    assert.deepEqual(reply.fields, ['Allow', allow])
    assert.match(assertError(reply, 405, 'method_not_allowed'), new RegExp(allow))
  })
}

for (const [target, allow] of [
  ['*', ALLOW],
  ['/v1/pets', ALLOW],
  ['/v1/pets?limit=0', ALLOW],
  ['http://host/v1/pets', ALLOW],
  ['/v1/pets/1', 'GET, HEAD, OPTIONS'],
  ['/v1/orders', 'OPTIONS, POST'],
  ['/', 'GET, HEAD, OPTIONS'],
] as const) {
  test(`OPTIONS ${target} is answered 204 and allows ${allow}, without a key`, async () => {
    const verdict = setUp().dispatch(head('OPTIONS', target, NO_KEY))
    assert.deepEqual(await verdict.answer(), { status: 204, fields: ['Allow', allow] })
    assert.equal(verdict.route?.operation, undefined)
  })
}

const BUG = new Error('the secret cause')

for (const [what, handle, bug] of [
  [
    'throws an error',
    () => {
      throw BUG
    },
    BUG,
  ],
  [
    'throws something that is no error',
    () => {
      throw 'the secret cause'
    },
    'the secret cause',
  ],
  ['rejects', () => Promise.reject(BUG), BUG],
  ['rejects with nothing', () => Promise.reject(undefined), undefined],
] satisfies [what: string, handle: Handler, bug: unknown][]) {
  for (const method of ['GET', 'POST']) {
    test(`${method}, where the operation ${what}, is answered 500, which tells nothing, and onBug is told`, async () => {
      const { dispatch, bugs } = setUp(handle)
      const reply = await dispatch(head(method, '/v1/pets')).answer(Buffer.alloc(0))
      const message = assertError(reply, 500, 'internal_error')
      assert.doesNotMatch(message, /secret/)
      assert.deepEqual(reply.fields, [])
      assert.deepEqual(bugs, [bug])
    })
  }
}

test('a bug in one answer does not reach the next', async () => {
  let count = 0
  const { dispatch, bugs } = setUp(() => {
    if (count++ === 0) throw BUG
    return { status: 200, body: '[]' }
  })
  assertError(await dispatch(head('GET', '/v1/pets')).answer(), 500, 'internal_error')
  assert.deepEqual(await dispatch(head('GET', '/v1/pets')).answer(), { status: 200, body: '[]' })
  assert.deepEqual(bugs, [BUG])
})
