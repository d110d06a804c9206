// One test for each row of the decisions that a client meets, named as the row is. What has more cases than fit here is
// tested in full beside the part that does it.
import assert from 'node:assert/strict'
import crypto from 'node:crypto'
import { EventEmitter } from 'node:events'
import { readFileSync, unlinkSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { describe, mock, test } from 'node:test'
import { main } from '../src/cli.ts'
import { MemoryStore } from '../src/pets/store.ts'
import { startPetstore } from '../src/petstore.ts'
import {
  type Answer,
  assertError,
  AUTHORIZATION,
  FakeStream,
  folderOf,
  KEY,
  RawConnection,
  send,
  start,
} from './support.ts'

const REX = { name: 'Rex', categoryId: 1, status: 'sold' } as const
const JSON_TYPE = { 'content-type': 'application/json' }

describe('Addresses', () => {
  test('base path: /v1 unless configured; Location and Link follow it', async (t) => {
    const ours = await start(t, { pets: [REX, REX] })
    assert.equal((await send(ours, 'GET', '/v1/pets')).status, 200)
    const shop = await start(t, { basePath: '/shop/eu/v1', pets: [REX, REX] })
    const page = await send(shop, 'GET', '/shop/eu/v1/pets?limit=1')
    assert.equal(page.headers['link'], '</shop/eu/v1/pets?limit=1&after=1>; rel="next"')
    const created = await send(shop, 'POST', '/shop/eu/v1/pets', { body: JSON.stringify(REX) })
    assert.equal(created.headers.location, '/shop/eu/v1/pets/3')
    assertError(await send(shop, 'GET', '/v1/pets'), 404, 'not_found')
    assert.ok(shop.url.endsWith('/shop/eu/v1'))
  })

  test('outside the base path: / is a page for people and needs no key; anything else is 404', async (t) => {
    const petstore = await start(t)
    for (const method of ['GET', 'HEAD']) {
      const page = await send(petstore, method, '/', { headers: { authorization: '' } })
      assert.equal(page.status, 200)
      assert.equal(page.headers['content-type'], 'text/html; charset=utf-8')
      assert.equal(page.body.includes('Deprecated'), method === 'GET')
    }
    for (const path of ['/pets', '/v2/pets', '/V1/pets', '/v1pets', '/favicon.ico']) {
      assertError(await send(petstore, 'GET', path, { headers: { authorization: '' } }), 404, 'not_found')
    }
    const without = await start(t, { page: false })
    assertError(await send(without, 'GET', '/'), 404, 'not_found')
  })

  test('outside the base path: /livez and /readyz answer GET and HEAD without a key', async (t) => {
    const petstore = await start(t, { basePath: '/shop/v1' })
    for (const path of ['/livez', '/readyz']) {
      for (const method of ['GET', 'HEAD']) {
        const { status, body } = await send(petstore, method, path, { headers: { authorization: '' } })
        assert.deepEqual([status, body], [200, method === 'GET' ? '{"ok":true}' : ''])
      }
      assertError(await send(petstore, 'POST', path), 405, 'method_not_allowed')
      assertError(await send(petstore, 'GET', `/shop/v1${path}`), 404, 'not_found')
    }
  })

  test('matching: exact and case-sensitive, after percent-decoding each segment', async (t) => {
    const petstore = await start(t, { pets: [REX] })
    for (const path of ['/v1/pets', '/v1/p%65ts', '/%76%31/%70ets', '/v1/pets/%31']) {
      assert.equal((await send(petstore, 'GET', path)).status, 200, path)
    }
    for (const path of ['/v1/pets/', '/v1//pets', '//pets', '/v1/Pets', '/v1/%zz', '/v1/pets/%ff', '/v1%2Fpets']) {
      assertError(await send(petstore, 'GET', path), 404, 'not_found')
    }
  })

  test('request targets: origin-form and absolute-form both work; OPTIONS * answers 204', async (t) => {
    const petstore = await start(t)
    assert.equal((await send(petstore, 'GET', 'http://pets.example/v1/pets?limit=1')).body, '[]')
    assert.equal(
      (await send(petstore, 'GET', 'HTTPS://pets.example')).headers['content-type'],
      'text/html; charset=utf-8',
    )
    const all = await send(petstore, 'OPTIONS', '*')
    assert.equal(all.status, 204)
    assert.equal(all.headers.allow, 'GET, HEAD, OPTIONS, POST')
  })

  test('query: form-urlencoded, unknown names ignored, a known one twice or empty is 400', async (t) => {
    const petstore = await start(t, { pets: [REX, REX] })
    for (const query of ['?', '?x=1&x=2', '?limit=%31', '?lim%69t=1', '?limit=1&&', '?status=sold&Limit=0']) {
      assert.equal((await send(petstore, 'GET', `/v1/pets${query}`)).status, 200, query)
    }
    for (const name of ['limit', 'after', 'status']) {
      const good = { limit: '1', after: '1', status: 'sold' }[name]
      for (const query of [`${name}=${good}&${name}=${good}`, `${name}=`, name, `${name}=%20${good}`]) {
        const answer = await send(petstore, 'GET', `/v1/pets?${query}`)
        assert.match(assertError(answer, 400, 'invalid_parameter'), new RegExp(`^${name} must be `), query)
      }
    }
    assert.equal((await send(petstore, 'GET', '/v1/pets/1?limit=')).status, 200)
  })
})

describe('Order of the checks', () => {
  // Each request fails all checks from one on; the earliest is the one that is answered.
  const big = { 'content-length': '70000' }
  const rows: [string, string, string, Record<string, string>, number][] = [
    ['malformed HTTP before the key', 'POST', '/v1/x', { authorization: '', host: 'a b', ...big }, 400],
    ['the expectation before the key', 'POST', '/v1/x', { authorization: '', expect: 'miracles', ...big }, 417],
    ['the key before the path', 'POST', '/v1/x', { authorization: '', 'content-type': 'text/plain', ...big }, 401],
    ['the key before an escape that cannot be decoded', 'GET', '/v1/%zz', { authorization: '' }, 401],
    ['the path before the method', 'PUT', '/v1/x', { 'content-type': 'text/plain', ...big }, 404],
    ['the method before the media type', 'PUT', '/v1/pets', { 'content-type': 'text/plain', ...big }, 405],
    ['the media type before the size', 'POST', '/v1/pets', { 'content-type': 'text/plain', ...big }, 415],
    ['the size before the JSON', 'POST', '/v1/pets', big, 413],
  ]
  for (const [name, method, path, headers, status] of rows) {
    test(`${name}, and answered without waiting for the body`, async (t) => {
      const petstore = await start(t)
      const connection = new RawConnection(t, petstore)
      const lines = Object.entries({ host: 'localhost', authorization: AUTHORIZATION, ...headers })
      const fields = lines.map((line) => line.join(': ')).join('\r\n')
      await connection.write(`${method} ${path} HTTP/1.1\r\n${fields}\r\n\r\n`)
      assert.equal((await connection.read()).status, status)
    })
  }

  test('the JSON and its fields before the room in the store', async (t) => {
    const petstore = await start(t, { maxStore: 1 })
    assertError(await send(petstore, 'POST', '/v1/pets', { body: '{' }), 400, 'bad_request')
    assertError(await send(petstore, 'POST', '/v1/pets', { body: '{}' }), 400, 'invalid_pet')
    assertError(await send(petstore, 'POST', '/v1/pets', { body: JSON.stringify(REX) }), 507, 'store_full')
  })
})

describe('Authentication', () => {
  const list = (petstore: { url: string }, authorization: string) =>
    send(petstore, 'GET', '/v1/pets', { headers: { authorization } })

  test('form: the scheme in any case, exactly one token', async (t) => {
    const petstore = await start(t)
    for (const scheme of ['Bearer', 'bearer', 'BEARER']) {
      assert.equal((await list(petstore, `${scheme} ${KEY}`)).status, 200)
    }
    assertError(await list(petstore, `Bearer ${KEY} ${KEY}`), 401, 'unauthorized')
  })

  test('no credentials, or another scheme: 401 without an error code', async (t) => {
    const petstore = await start(t)
    for (const authorization of ['', 'Bearer', 'Basic a2V5', KEY, `Bearer${KEY}`]) {
      const answer = await list(petstore, authorization)
      assertError(answer, 401, 'unauthorized')
      assert.equal(answer.headers['www-authenticate'], 'Bearer realm="petstore"')
    }
  })

  test('a key that is not ours: 401 with invalid_token', async (t) => {
    const petstore = await start(t)
    for (const key of [`${KEY}x`, KEY.slice(1), KEY.toUpperCase(), 'x'.repeat(5_000)]) {
      const answer = await list(petstore, `Bearer ${key}`)
      assertError(answer, 401, 'unauthorized')
      assert.equal(answer.headers['www-authenticate'], 'Bearer realm="petstore", error="invalid_token"')
    }
  })

  test('keys: any number are valid at once, and can be exchanged while the server runs', async (t) => {
    const petstore = await start(t, { apiKeys: ['first-key', 'second-key'] })
    assert.equal((await list(petstore, 'Bearer first-key')).status, 200)
    assert.equal((await list(petstore, 'Bearer second-key')).status, 200)
    petstore.replaceKeys(['second-key', 'third-key'])
    assert.equal((await list(petstore, 'Bearer first-key')).status, 401)
    assert.equal((await list(petstore, 'Bearer second-key')).status, 200)
    assert.equal((await list(petstore, 'Bearer third-key')).status, 200)
  })

  test('none configured: one is generated, another one each time', async (t) => {
    const petstores = await Promise.all([startPetstore(), startPetstore()])
    t.after(() => Promise.all(petstores.map((petstore) => petstore.close())))
    const [one, other] = petstores
    assert.match(one.apiKey, /^[\w-]{32}$/)
    assert.notEqual(one.apiKey, other.apiKey)
    assert.equal((await list(one, `Bearer ${one.apiKey}`)).status, 200)
    assert.equal((await list(other, `Bearer ${one.apiKey}`)).status, 401)
  })

  test('comparison: every key is compared whole by timingSafeEqual, wherever the difference stands', async (t) => {
    const compare = mock.method(crypto, 'timingSafeEqual')
    syncBuiltinESMExports()
    t.after(() => {
      compare.mock.restore()
      syncBuiltinESMExports()
    })
    const petstore = await start(t, { apiKeys: ['first-key', 'second-key', 'third-key'] })
    for (const key of ['first-key', 'third-key', 'xirst-key', 'first-kex', 'another']) {
      compare.mock.resetCalls()
      await list(petstore, `Bearer ${key}`)
      const lengths = compare.mock.calls.map((call) => [call.arguments[0].byteLength, call.arguments[1].byteLength])
      assert.deepEqual(lengths, Array(3).fill([10, 10])) // that of the longest
    }
  })

  test('secrecy: no key appears in an error', async (t) => {
    const petstore = await start(t)
    const answers = [
      await send(petstore, 'GET', `/v1/${KEY}`),
      await send(petstore, 'GET', `/v1/pets/${KEY}`),
      await send(petstore, 'GET', `/v1/pets?limit=${KEY}&status=${KEY}&after=${KEY}`),
      await send(petstore, 'POST', '/v1/pets', { body: KEY }),
      await send(petstore, 'POST', '/v1/pets', { body: `{"name":"${KEY}" ${KEY}}` }),
      await send(petstore, 'POST', '/v1/pets', { body: `{"name":["${KEY}"],"status":"${KEY}"}` }),
      await send(petstore, 'POST', '/v1/pets', { headers: { 'content-type': KEY }, body: '{}' }),
      await list(petstore, `Bearer ${KEY}, ${KEY}`),
    ]
    for (const { status, headers, body } of answers) {
      assert.ok(status >= 400)
      assert.ok(!JSON.stringify([headers, body]).includes(KEY), body)
    }
  })

  test('secrecy: no key appears in the journal, nor in the log, the snapshot or the test controls', async (t) => {
    const snapshot = `${folderOf(t)}/pets.json`
    const logStream = new FakeStream()
    const keys = [KEY, 'an/older+key==', 'key-of-the-tests-too']
    const petstore = await start(t, { apiKeys: keys, snapshot, log: 'json', logStream, controlPort: 0 })
    for (let count = 0; count < 1_001; count++) await petstore.fetch(`${petstore.url}/pets/${count}`)
    for (const key of keys) {
      const headers = { authorization: `Bearer ${key}`, 'x-request-id': key, 'x-api-key': key, cookie: `a=${key}` }
      const encoded = encodeURIComponent(key)
      await send(petstore, 'GET', `/v1/pets/${key}?${key}=${encoded}`, { headers })
      await send(petstore, 'POST', '/v1/pets', { headers, body: `{"name":["${key}"]}` })
      await send(petstore, 'GET', '/v1/pets', { headers: { ...headers, authorization: `Basic ${key}` } })
      await send(petstore, 'GET', '/v1/pets', { headers: { ...headers, authorization: key } })
    }
    const { controlUrl = '' } = petstore
    const shown = [JSON.stringify(petstore.requests), (await send({ url: controlUrl }, 'GET', '/requests')).body]
    assert.equal(petstore.requests.filter(({ status }) => status !== 401).length, 2 * keys.length)
    await petstore.close()
    for (const text of [...shown, logStream.text, readFileSync(snapshot, 'utf8')]) {
      for (const key of keys) assert.ok(!text.includes(key) && !text.includes(encodeURIComponent(key)), text)
    }
  })
})

describe('Animals', () => {
  const add = (petstore: { url: string }, body: string | Buffer) => send(petstore, 'POST', '/v1/pets', { body })

  test('ids: 1, 2, 3 …; a refused animal uses none', async (t) => {
    const petstore = await start(t, { pets: [REX] })
    assert.equal(JSON.parse((await add(petstore, JSON.stringify(REX))).body).id, 2)
    assertError(await add(petstore, '{"name":"Tom"}'), 400, 'invalid_pet')
    assert.equal(JSON.parse((await add(petstore, JSON.stringify(REX))).body).id, 3)
  })

  test('order of a list: ascending id, at most 20 unless limit says otherwise', async (t) => {
    const petstore = await start(t, { pets: Array(101).fill(REX) })
    const ids = async (query: string) =>
      JSON.parse((await send(petstore, 'GET', `/v1/pets${query}`)).body).map((pet: { id: number }) => pet.id)
    const upTo = (last: number) => Array.from({ length: last }, (_, at) => at + 1)
    assert.deepEqual(await ids(''), upTo(20))
    assert.deepEqual(await ids('?limit=1'), [1])
    assert.deepEqual(await ids('?limit=100'), upTo(100))
    assert.deepEqual(await ids('?limit=100&after=99'), [100, 101])
  })

  test('walking past limit: the next link has the same filters, and the last page carries none', async (t) => {
    const pets = Array.from({ length: 9 }, (_, at) => ({ ...REX, status: at % 3 === 0 ? 'sold' : 'pending' }) as const)
    const petstore = await start(t, { pets })
    const first = await send(petstore, 'GET', '/v1/pets?limit=2&status=sold&other=1')
    assert.deepEqual(
      JSON.parse(first.body).map((pet: { id: number }) => pet.id),
      [1, 4],
    )
    assert.equal(first.headers['link'], '</v1/pets?limit=2&status=sold&after=4>; rel="next"')
    const last = await send(petstore, 'GET', '/v1/pets?limit=2&status=sold&after=4')
    assert.deepEqual(
      JSON.parse(last.body).map((pet: { id: number }) => pet.id),
      [7],
    )
    assert.equal(last.headers['link'], undefined)
    for (const query of ['limit=9', 'limit=3&after=6', 'after=9', 'after=9223372036854775807', 'status=available']) {
      assert.equal((await send(petstore, 'GET', `/v1/pets?${query}`)).headers['link'], undefined, query)
    }
    assert.equal(
      (await send(petstore, 'GET', '/v1/pets?limit=8')).headers['link'],
      '</v1/pets?limit=8&after=8>; rel="next"',
    )
  })

  test('limit, after: decimal digits without sign or leading zero, within their bounds', async (t) => {
    const petstore = await start(t)
    const good = ['limit=1', 'limit=100', 'after=0', 'after=1', 'after=9223372036854775807']
    for (const query of good) assert.equal((await send(petstore, 'GET', `/v1/pets?${query}`)).status, 200, query)
    const forms = ['+1', '-1', '01', '1.0', '1e1', '0x1', ' 1', '1 ', '١', 'one', 'Infinity']
    const limits = ['0', '101', ...forms].map((value) => `limit=${encodeURIComponent(value)}`)
    const afters = ['9223372036854775808', '99999999999999999999', ...forms].map(
      (value) => `after=${encodeURIComponent(value)}`,
    )
    for (const query of [...limits, ...afters]) {
      assertError(await send(petstore, 'GET', `/v1/pets?${query}`), 400, 'invalid_parameter')
    }
    const all = assertError(
      await send(petstore, 'GET', '/v1/pets?limit=0&after=-1&status=gone'),
      400,
      'invalid_parameter',
    )
    assert.match(all, /limit must be .* 1 to 100.*after must be .*status must be one of available, pending, sold/)
  })

  test('body: one JSON object in UTF-8; of a member given twice the last counts', async (t) => {
    const petstore = await start(t)
    const unread = ['', ' ', '{', '{"name":"Rex","categoryId":1}{}', '{"name":"Rex","categoryId":1} x', "{'name':1}"]
    for (const body of unread) assertError(await add(petstore, body), 400, 'bad_request')
    const invalid = Buffer.concat([
      Buffer.from('{"name":"'),
      Buffer.from([0xc3, 0x28]),
      Buffer.from('","categoryId":1}'),
    ])
    assert.match(assertError(await add(petstore, invalid), 400, 'bad_request'), /UTF-8/)
    for (const body of ['[]', 'null', '1', '"x"', '[{"name":"Rex","categoryId":1}]']) {
      assertError(await add(petstore, body), 400, 'invalid_pet')
    }
    const added = await add(petstore, ' {"id":99,"colour":{},"name":1,"categoryId":2,"name":"Rex","status":"sold"}\n')
    assert.equal(added.body, '{"id":1,"name":"Rex","categoryId":2,"status":"sold"}')
  })

  test('name: any JSON string, kept code unit for code unit', async (t) => {
    const petstore = await start(t)
    for (const name of [
      '',
      '\u0000\n"\\/',
      'Zoë 🐕',
      '\ud800 and \udc00',
      '</script>',
      '__proto__',
      'x'.repeat(10_000),
    ]) {
      const added = await add(petstore, JSON.stringify({ name, categoryId: 1 }))
      assert.equal(added.status, 201)
      const { headers } = added
      const got = await send(petstore, 'GET', headers.location ?? '')
      assert.equal(JSON.parse(got.body).name, name)
    }
  })

  test('categoryId: an integral number within int64, exact', async (t) => {
    const petstore = await start(t)
    const good = {
      '9223372036854775807': '9223372036854775807',
      '-9223372036854775808': '-9223372036854775808',
      '9007199254740993': '9007199254740993',
      '0': '0',
      '-0': '0',
      '1.0': '1',
      '2e3': '2000',
      '9007199254740991.0': '9007199254740991',
    }
    for (const [sent, stored] of Object.entries(good)) {
      const added = await add(petstore, `{"name":"","categoryId":${sent}}`)
      assert.match(added.body, new RegExp(`"categoryId":${stored}}$`))
    }
    const bad = [
      '9223372036854775808',
      '-9223372036854775809',
      '1.5',
      '9007199254740992.0',
      '1e16',
      '"1"',
      'true',
      '[1]',
      'null',
    ]
    for (const sent of bad) {
      const message = assertError(await add(petstore, `{"name":"","categoryId":${sent}}`), 400, 'invalid_pet')
      assert.match(message, /^categoryId must be an integer from -2\^63 to 2\^63-1/)
    }
  })

  test('status: one of the three; null is 400; omitted stays omitted', async (t) => {
    const petstore = await start(t)
    for (const status of ['available', 'pending', 'sold']) {
      assert.equal(JSON.parse((await add(petstore, JSON.stringify({ ...REX, status }))).body).status, status)
    }
    for (const status of [null, 'Sold', '', 1, ['sold']]) {
      assertError(await add(petstore, JSON.stringify({ ...REX, status })), 400, 'invalid_pet')
    }
    assert.equal((await add(petstore, '{"name":"","categoryId":1}')).body, '{"id":4,"name":"","categoryId":1}')
  })

  test('400: the message names every invalid field and what it must be', async (t) => {
    const petstore = await start(t)
    const message = assertError(await add(petstore, '{"categoryId":"1","status":"lost"}'), 400, 'invalid_pet')
    assert.match(
      message,
      /name is required.*string.*categoryId must be.*status must be one of available, pending, sold/,
    )
  })

  test('201: Location, and members in the order id, name, categoryId, status', async (t) => {
    const petstore = await start(t)
    const added = await add(petstore, '{"status":"sold","categoryId":7,"name":"Rex"}')
    assert.equal(added.status, 201)
    assert.equal(added.headers.location, '/v1/pets/1')
    assert.equal(added.body, '{"id":1,"name":"Rex","categoryId":7,"status":"sold"}')
  })

  test('petId: anything that is not the decimal id of an animal in the store is 404', async (t) => {
    const petstore = await start(t, { pets: [REX] })
    assert.equal((await send(petstore, 'GET', '/v1/pets/1')).status, 200)
    const huge = ['9007199254740993', '9223372036854775807', '1'.repeat(1_000)]
    for (const petId of ['0', '2', '-1', '+1', '01', '1.0', '1e0', '%20', 'x', ...huge]) {
      assertError(await send(petstore, 'GET', `/v1/pets/${petId}`), 404, 'not_found')
    }
  })

  test('deprecation: every 200 and 404 of getPet says so', async (t) => {
    const petstore = await start(t, { pets: [REX] })
    for (const path of ['/v1/pets/1', '/v1/pets/2', '/v1/pets/x']) {
      const { headers } = await send(petstore, 'GET', path)
      assert.equal(headers['deprecation'], '@1795132800')
      assert.equal(headers['sunset'], 'Thu, 05 Dec 2030 00:00:00 GMT')
      assert.equal(headers['link'], '</v1/pets>; rel="successor-version", </>; rel="deprecation"; type="text/html"')
    }
    assert.equal((await send(petstore, 'GET', '/v1/pets')).headers['deprecation'], undefined)
  })

  test('GET {base}/store/orders: 501', async (t) => {
    assertError(await send(await start(t), 'GET', '/v1/store/orders'), 501, 'not_implemented')
  })
})

describe('Methods, media types, headers', () => {
  test('HEAD: answers as GET does, without the body', async (t) => {
    const petstore = await start(t, { pets: [REX, REX] })
    for (const path of [
      '/v1/pets',
      '/v1/pets?limit=1',
      '/v1/pets/1',
      '/v1/pets/9',
      '/v1/pets?limit=0',
      '/v1/store/orders',
    ]) {
      const got = await send(petstore, 'GET', path)
      const head = await send(petstore, 'HEAD', path)
      assert.equal(head.body, '')
      assert.deepEqual({ ...head.headers, date: '' }, { ...got.headers, date: '' })
      assert.equal(head.status, got.status)
    }
  })

  test('OPTIONS: 204 with Allow, no key needed', async (t) => {
    const petstore = await start(t)
    const rows = {
      '/v1/pets': 'GET, HEAD, OPTIONS, POST',
      '/v1/pets/1': 'GET, HEAD, OPTIONS',
      '/': 'GET, HEAD, OPTIONS',
    }
    for (const [path, allow] of Object.entries(rows)) {
      const { status, headers, body } = await send(petstore, 'OPTIONS', path, { headers: { authorization: '' } })
      assert.deepEqual({ status, allow: headers.allow, body }, { status: 204, allow, body: '' })
      assert.equal(headers['content-length'], undefined)
    }
    assertError(await send(petstore, 'OPTIONS', '/v1/x'), 404, 'not_found')
  })

  test('OPTIONS: answers CORS preflights, without a key, when an origin is configured', async (t) => {
    const headers = { authorization: '', origin: 'https://shop.example', 'access-control-request-method': 'POST' }
    const names = ['origin', 'methods', 'headers'].map((name) => `access-control-allow-${name}`)
    for (const [cors, allowed] of [
      ['https://shop.example', 'https://shop.example'],
      ['*', '*'],
      ['https://other.example', undefined],
      [undefined, undefined],
    ]) {
      const petstore = await start(t, cors === undefined ? {} : { cors })
      const preflight = await send(petstore, 'OPTIONS', '/v1/pets', { headers })
      assert.equal(preflight.status, 204)
      assert.equal(preflight.headers.allow, 'GET, HEAD, OPTIONS, POST')
      const [origin, methods, sent] = names.map((name) => preflight.headers[name])
      assert.equal(origin, allowed)
      assert.equal(methods, cors && 'GET, HEAD, OPTIONS, POST')
      assert.equal(sent, cors && 'Authorization, Content-Type, X-Request-Id')
      const refused = await send(petstore, 'GET', '/v1/pets', { headers })
      assert.equal(refused.status, 401)
      assert.equal(refused.headers['access-control-allow-origin'], allowed)
      assert.equal(refused.headers.vary, cors === '*' ? undefined : cors && 'Origin')
    }
  })

  test('another method: 405 with Allow', async (t) => {
    const petstore = await start(t)
    const rows = [
      ['PUT', '/v1/pets', 'GET, HEAD, OPTIONS, POST'],
      ['TRACE', '/v1/pets', 'GET, HEAD, OPTIONS, POST'],
      ['POST', '/v1/pets/1', 'GET, HEAD, OPTIONS'],
      ['DELETE', '/v1/pets/1', 'GET, HEAD, OPTIONS'],
      ['POST', '/', 'GET, HEAD, OPTIONS'],
    ] as const
    for (const [method, path, allow] of rows) {
      const answer = await send(petstore, method, path)
      assertError(answer, 405, 'method_not_allowed')
      assert.equal(answer.headers.allow, allow)
    }
  })

  test('Content-Type: application/json, charset absent or utf-8; none counts as JSON; else 415 with Accept', async (t) => {
    const petstore = await start(t)
    const body = JSON.stringify(REX)
    for (const type of [
      'application/json',
      'Application/JSON',
      'application/json; charset=utf-8',
      'application/json;charset="UTF-8"',
    ]) {
      assert.equal((await send(petstore, 'POST', '/v1/pets', { headers: { 'content-type': type }, body })).status, 201)
    }
    assert.equal((await send(petstore, 'POST', '/v1/pets', { body })).status, 201)
    const refused = [
      { 'content-type': 'text/plain' },
      { 'content-type': 'application/json; charset=latin1' },
      { 'content-type': 'application/jsonl' },
      { ...JSON_TYPE, 'content-encoding': 'gzip' },
    ]
    for (const headers of refused) {
      const answer = await send(petstore, 'POST', '/v1/pets', { headers, body })
      assertError(answer, 415, 'unsupported_media_type')
      assert.equal(answer.headers.accept, 'application/json')
    }
    const headers = { ...JSON_TYPE, 'content-encoding': 'Identity' }
    assert.equal((await send(petstore, 'POST', '/v1/pets', { headers, body })).status, 201)
  })

  test('Accept: ignored', async (t) => {
    const answer = await send(await start(t), 'GET', '/v1/pets', { headers: { accept: 'text/html;q=1, */*;q=0' } })
    assert.equal(answer.headers['content-type'], 'application/json')
  })

  test('Expect: 100-continue is sent once the head has passed; another expectation is 417', async (t) => {
    const petstore = await start(t)
    const body = JSON.stringify(REX)
    const ask = (expect: string, authorization = AUTHORIZATION) => {
      const connection = new RawConnection(t, petstore)
      const fields = `Host: x\r\nAuthorization: ${authorization}\r\nExpect: ${expect}\r\nContent-Length: ${body.length}`
      connection.socket.write(`POST /v1/pets HTTP/1.1\r\n${fields}\r\n\r\n`)
      return connection
    }
    const welcome = ask('100-Continue')
    assert.equal((await welcome.read()).status, 100)
    await welcome.write(body)
    assert.equal((await welcome.read()).status, 201)
    assert.equal((await ask('100-continue', 'Bearer wrong-key').read()).status, 401)
    assertError(await ask('200-ok').read(), 417, 'expectation_failed')
  })

  test('every API answer: type, length, no-store, nosniff, and no word of what serves it', async (t) => {
    const petstore = await start(t, { pets: [REX], getPet: 'deprecated' })
    for (const path of [
      '/v1/pets',
      '/v1/pets/1',
      '/v1/pets/9',
      '/v1/x',
      '/x',
      '/v1/store/orders',
      '/v1/pets?limit=0',
    ]) {
      const { headers, body } = await send(petstore, 'GET', path)
      assert.equal(headers['content-type'], 'application/json')
      assert.equal(headers['content-length'], String(Buffer.byteLength(body)))
      assert.equal(headers['cache-control'], 'no-store')
      assert.equal(headers['x-content-type-options'], 'nosniff')
      assert.equal(headers['server'] ?? headers['x-powered-by'], undefined)
    }
  })

  test('X-Request-Id: one that is safe is sent back', async (t) => {
    const petstore = await start(t)
    const back = async (id: string, path = '/v1/pets') =>
      (await send(petstore, 'GET', path, { headers: { 'x-request-id': id } })).headers['x-request-id']
    for (const id of ['a', 'A.b_c-9', 'x'.repeat(128)]) assert.equal(await back(id), id)
    assert.equal(await back('on-an-error', '/v1/x'), 'on-an-error')
    for (const id of ['', 'a b', 'a/b', 'ä', 'x'.repeat(129)]) assert.equal(await back(id), undefined)
  })
})

describe('Errors', () => {
  const rows: [number, string, string][] = [
    [400, 'bad_request', 'GET /v1/pets HTTP/1.1\r\n\r\n'],
    [400, 'bad_request', 'nonsense\r\n\r\n'],
    [405, 'method_not_allowed', 'CONNECT pets.example:80 HTTP/1.1\r\nHost: x\r\n\r\n'],
    [408, 'request_timeout', 'GET /v1/pets HTTP/1.1\r\n'],
    [
      413,
      'content_too_large',
      `POST /v1/pets HTTP/1.1\r\nHost: x\r\nAuthorization: ${AUTHORIZATION}\r\nTransfer-Encoding: chunked\r\n\r\n1;${'x'.repeat(20_000)}`,
    ],
    [431, 'headers_too_large', `GET / HTTP/1.1\r\nX: ${'x'.repeat(16 * 1024)}`],
  ]
  for (const [status, code, request] of rows) {
    test(`${status} ${code}, where node:http would answer by itself, is an Error and the last answer`, async (t) => {
      const petstore = await start(t, { limits: { headersTimeout: 50, checkInterval: 10 } })
      const connection = new RawConnection(t, petstore)
      await connection.write(request)
      const answer: Answer = await connection.read()
      assertError(answer, status, code)
      assert.equal(answer.headers.connection, 'close')
      assert.ok(answer.headers.date)
      await connection.closed
    })
  }

  test('410 gone: getPet while its removal is rehearsed', async (t) => {
    const petstore = await start(t, { pets: [REX], getPet: 'gone' })
    for (const petId of ['1', '2', 'x']) assertError(await send(petstore, 'GET', `/v1/pets/${petId}`), 410, 'gone')
    assert.equal((await send(petstore, 'GET', '/v1/pets')).status, 200)
  })

  test('413 content_too_large: a body of one byte more than is allowed', async (t) => {
    const body = JSON.stringify(REX)
    const petstore = await start(t, { maxBody: body.length })
    assert.equal((await send(petstore, 'POST', '/v1/pets', { body })).status, 201)
    for (const headers of [{}, { 'transfer-encoding': 'chunked' }]) {
      assertError(await send(petstore, 'POST', '/v1/pets', { headers, body: `${body} ` }), 413, 'content_too_large')
    }
  })

  test('507 store_full: the animal that would go beyond the bytes allowed, and no smaller one', async (t) => {
    const json = '{"id":1,"name":"Rex","categoryId":1,"status":"sold"}'
    const petstore = await start(t, { maxStore: json.length * 2 - 1 })
    assert.equal((await send(petstore, 'POST', '/v1/pets', { body: json })).body, json)
    assertError(await send(petstore, 'POST', '/v1/pets', { body: json }), 507, 'store_full')
    const smaller = await send(petstore, 'POST', '/v1/pets', { body: json.replace('Rex', 'Re') })
    assert.equal(JSON.parse(smaller.body).id, 2)
  })

  test('503 storage_failed: the animal was not added, and a new try may succeed', async (t) => {
    const path = `${folderOf(t)}/pets.json`
    const petstore = await start(t, { snapshot: path })
    const body = JSON.stringify(REX)
    assert.equal((await send(petstore, 'POST', '/v1/pets', { body })).headers.location, '/v1/pets/1')
    unlinkSync(path)
    assertError(await send(petstore, 'POST', '/v1/pets', { body }), 503, 'storage_failed')
    assert.equal(JSON.parse((await send(petstore, 'GET', '/v1/pets')).body).length, 1)
    assert.equal((await send(petstore, 'POST', '/v1/pets', { body })).headers.location, '/v1/pets/2')
  })

  test('injected_fault: with any status, only where a test asked for it, and the store is not touched', async (t) => {
    const petstore = await start(t)
    const body = JSON.stringify(REX)
    for (const status of [400, 401, 404, 418, 429, 500, 503, 599]) {
      petstore.inject({ operation: 'createPet', status })
      const message = assertError(await send(petstore, 'POST', '/v1/pets', { body }), status, 'injected_fault')
      assert.equal(message, 'A test asked for this fault')
    }
    petstore.inject({ operation: '*', status: 503, retryAfter: 7 })
    assert.equal((await send(petstore, 'GET', '/v1/pets')).headers['retry-after'], '7')
    assert.deepEqual([petstore.pets, petstore.pendingFaults], [[], []])
    assert.equal((await send(petstore, 'POST', '/v1/pets', { body })).headers.location, '/v1/pets/1')
  })

  test('503 not_ready: /readyz while the server stops', async (t) => {
    const petstore = await start(t)
    await petstore.close()
    const { status, headers, body } = await petstore.fetch('http://any.example/readyz').then(async (response) => {
      return { status: response.status, headers: Object.fromEntries(response.headers), body: await response.text() }
    })
    assertError({ status, headers, body }, 503, 'not_ready')
  })

  test('500 internal_error: the message tells nothing of the cause; the log does', async (t) => {
    const logStream = new FakeStream()
    const petstore = await start(t, { pets: [REX], log: 'json', logStream })
    t.mock.method(MemoryStore.prototype, 'page', () => {
      throw new Error('the secret cause')
    })
    const answer = await send(petstore, 'GET', '/v1/pets')
    assert.doesNotMatch(assertError(answer, 500, 'internal_error'), /secret/)
    await logStream.until(/"level":"error","message":"Error: the secret cause\\n/)
    t.mock.method(MemoryStore.prototype, 'get', () => {
      throw 'another secret cause'
    })
    assert.doesNotMatch(assertError(await send(petstore, 'GET', '/v1/pets/1'), 500, 'internal_error'), /secret/)
    await logStream.until(/"level":"error","message":"another secret cause"/)
  })
})

describe('Configuration', () => {
  const quiet = () => Object.assign(new EventEmitter(), { stdout: new FakeStream(), stderr: new FakeStream() })

  test('--control-port: a second listener with the test controls, on the loopback address and not on the API port', async (t) => {
    const petstore = await start(t, { pets: [REX], controlPort: 0 })
    const control = { url: petstore.controlUrl ?? '' }
    assert.equal(new URL(control.url).hostname, '127.0.0.1')
    assert.notEqual(new URL(control.url).port, new URL(petstore.url).port)
    const withoutKey = { headers: { authorization: '' } }
    assert.deepEqual(JSON.parse((await send(control, 'GET', '/pets', withoutKey)).body), [{ id: 1, ...REX }])
    for (const path of ['/reset', '/requests', '/faults', '/pets']) {
      assertError(await send(petstore, 'GET', path, withoutKey), 404, 'not_found')
    }
    assertError(await send(control, 'GET', '/v1/pets'), 404, 'not_found')
    assert.equal((await start(t)).controlUrl, undefined)
  })

  test('--control-host: widens it', async (t) => {
    const { controlUrl = '' } = await start(t, { controlPort: 0, controlHost: '0.0.0.0' })
    assert.equal((await send({ url: controlUrl.replace('127.0.0.1', '127.0.0.2') }, 'GET', '/pets')).status, 200)
  })

  test('--healthcheck: asks a server that runs with the same configuration for /readyz; exit 0 or 1', async (t) => {
    const petstore = await start(t)
    const { port } = new URL(petstore.url)
    assert.equal(await main(['--healthcheck'], { PORT: port }, quiet()), 0)
    await petstore.close()
    assert.equal(await main(['--healthcheck'], { PORT: port }, quiet()), 1)
  })

  test('a bad value stops the start with exit status 2 and a line that names it; --help and --version exit 0', async () => {
    for (const [args, env, line] of [
      [['--cors', 'shop.example'], {}, /^petstore: --cors "shop\.example" must be an origin such as .*\n$/],
      [
        [],
        { PETSTORE_CONTROL_PORT: 'x' },
        /^petstore: PETSTORE_CONTROL_PORT "x" must be an integer from 0 to 65535\n$/,
      ],
    ] as const) {
      const process = quiet()
      assert.equal(await main(args, env, process), 2)
      assert.match(process.stderr.text, line)
    }
    for (const flag of ['--help', '--version']) assert.equal(await main([flag], { PORT: 'x' }, quiet()), 0)
  })
})
