// One test for each row of the decisions that a client meets, named as the row is. Malformed requests, CORS and the ends of
// connections have files of their own in http/.
import assert from 'node:assert/strict'
import crypto from 'node:crypto'
import { mkdirSync, readFileSync, renameSync } from 'node:fs'
import { Agent } from 'node:http'
import { syncBuiltinESMExports } from 'node:module'
import { describe, test } from 'node:test'
import { startPetstore } from '../src/petstore.ts'
import { BEARER, chunk, get, HOST, open, request } from './http/raw.ts'
import { assertApiHeaders, assertLast, assertNext, check, type Expected, FakeStream, send, start } from './support.ts'
import { AUTHORIZATION, folderOf, KEY, petsIn, temporaryFile, words } from './support.ts'

const REX = { name: 'Rex', categoryId: 1, status: 'sold' } as const
const BODY = JSON.stringify(REX)
const NO_KEY = { headers: { authorization: '' } }

describe('Addresses', () => {
  test('base path: /v1 unless configured; Location and Link follow it', async (t) => {
    await check(await start(t), 'GET', '/v1/pets', 200)
    const shop = await start(t, { basePath: '/shop/eu/v1', pets: [REX, REX] })
    assert.ok(shop.url.endsWith('/shop/eu/v1'))
    const page = await check(shop, 'GET', '/shop/eu/v1/pets?limit=1', 200)
    assert.equal(page.headers['link'], '</shop/eu/v1/pets?limit=1&after=1>; rel="next"')
    const created = await check(shop, 'POST', '/shop/eu/v1/pets', 201, { body: BODY })
    assert.equal(created.headers.location, '/shop/eu/v1/pets/3')
    const [inside, outside] = ['/shop/eu/v1 /shop/eu/v1/x /shop/e%75/v1/x', '/v1/pets /shop/eu/v2 /shop%2Feu/v1/pets']
    for (const path of words(inside)) await check(shop, 'GET', path, '401 unauthorized', NO_KEY)
    for (const path of words(outside)) await check(shop, 'GET', path, '404 not_found', NO_KEY)
  })

  test('outside the base path: page, document and probes, by GET and HEAD without a key; anything else is 404', async (t) => {
    const petstore = await start(t)
    for (const path of ['/', '/openapi.json', '/livez', '/readyz']) {
      const got = await check(petstore, 'GET', path, 200, NO_KEY)
      const head = await check(petstore, 'HEAD', path, 200, NO_KEY)
      assert.equal(head.headers['content-length'], got.headers['content-length'])
      assert.equal(got.headers['content-type'], path === '/' ? 'text/html; charset=utf-8' : 'application/json')
      await check(petstore, 'POST', path, '405 method_not_allowed', NO_KEY)
    }
    const near = '/pets /v2/pets /V1/pets /v1pets /v10/pets /v1%2Fpets /v // //pets //v1/pets /livez/ /%zz /__proto__'
    for (const path of words(near)) {
      for (const method of ['GET', 'PUT', 'OPTIONS']) await check(petstore, method, path, '404 not_found', NO_KEY)
    }
    await check(await start(t, { page: false }), 'GET', '/', '404 not_found')
  })

  test('matching: exact and case-sensitive, after percent-decoding each segment', async (t) => {
    const petstore = await start(t, { pets: [REX] })
    for (const path of words('/v1/pets /v1/p%65ts /%76%31/%70ets /v%31/pets /v1/pets/%31 /v1/p%65ts/1')) {
      await check(petstore, 'GET', path, 200)
      await check(petstore, 'GET', path, '401 unauthorized', NO_KEY)
    }
    const orders = words('/v1/store/orders /v1/store/%6Frders /v1/store/%6frders')
    for (const path of orders) await check(petstore, 'GET', path, '501 not_implemented')
    const missing = ['', ...words('/ /pet /petss /Pets /p%45ts /pets/ /pets// /pets//1 /pets/1/ /pets/1/2')]
    const inexact = words('//pets /pets%2F /pets%2F1 /pets%20 /p%2565ts /./pets /x/../pets /pets%/1')
    const undecodable = words('/% /%zz /%zz/pets /pets/% /pets/%1 /pets/%ff /pets/%C3 /pets/%ED%A0%80')
    const inherited = words('/constructor /__proto__ /store /store/orders/ /store/orders/1')
    for (const path of [...missing, ...inexact, ...undecodable, ...inherited].map((rest) => `/v1${rest}`)) {
      const { headers } = await check(petstore, 'GET', path, '404 not_found')
      assert.equal(headers['deprecation'], undefined, `${path} is not an address of getPet`)
      await check(petstore, 'GET', path, '401 unauthorized', NO_KEY)
    }
  })

  test('request targets: origin-form and absolute-form both work; OPTIONS * answers 204', async (t) => {
    const petstore = await start(t, { pets: [REX, REX] })
    const origins = ['http://h', 'https://h:8443', 'HTTP://[::1]:80', 'http://user:pass@h', 'HttpS://127.0.0.1']
    for (const origin of origins) {
      const page = await check(petstore, 'GET', `${origin}/v1/p%65ts?limit=1`, 200)
      assert.equal(page.headers['link'], '</v1/pets?limit=1&after=1>; rel="next"')
      await check(petstore, 'GET', `${origin}/v1/pets?limit=0`, '400 invalid_parameter')
      for (const path of words(`${origin}/V1/pets ${origin}//v1/pets ${origin}/http://h/v1/pets /http://h/v1/pets`)) {
        await check(petstore, 'GET', path, '404 not_found', NO_KEY)
      }
      for (const root of ['', '/', '?x=/v1/pets', '/?x=/v1/pets']) {
        const page = await check(petstore, 'GET', `${origin}${root}`, 200, NO_KEY)
        assert.equal(page.headers['content-type'], 'text/html; charset=utf-8')
      }
    }
    const bad = `xhttp://h/v1/pets httpx://h/v1/pets ftp://h/v1/pets ftp://http://h/v1/pets http:///v1/pets http://
      http:/v1/pets v1/pets ?limit=1 * ** *?a x/http://h/v1/pets`
    for (const target of words(bad)) await check(petstore, 'GET', target, '400 bad_request')
    const all = await check(petstore, 'OPTIONS', '*', 204, NO_KEY)
    assert.equal(all.headers.allow, 'GET, HEAD, OPTIONS, POST')
  })

  test('query: form-urlencoded, unknown names ignored, a known one twice or empty is 400', async (t) => {
    const petstore = await start(t, { pets: [REX, REX] })
    const ignored = '? ??limit=0 ?x=1&x=2 ?limit=%31 ?lim%69t=1 ?limit=1&& ?status=sold&Limit=0 ?a=%ff&% ?a?b'
    for (const query of words(ignored)) await check(petstore, 'GET', `/v1/pets${query}`, 200)
    for (const [name, good] of Object.entries({ limit: '1', after: '1', status: 'sold' })) {
      for (const query of words(`${name}=${good}&${name}=${good} ${name}= ${name} ${name}=%20${good} a=?&${name}=x`)) {
        const { body } = await check(petstore, 'GET', `/v1/pets?${query}`, '400 invalid_parameter')
        assert.ok(JSON.parse(body).message.startsWith(`${name} must be `), query)
      }
    }
    await check(petstore, 'GET', '/v1/pets/1?limit=', 200)
  })
})

test('Order of the checks: a request that fails several is answered by the first, no 100 before and its body unread', async (t) => {
  const petstore = await start(t)
  const key = { authorization: AUTHORIZATION }
  const long = { 'content-length': '65537' }
  const bad = { 'content-type': 'text/plain', ...long }
  const rows: [request: string, headers: Record<string, string>, expected: Expected][] = [
    ['POST /v1/x', { host: 'a b', ...bad }, '400 bad_request'],
    ['POST /v1/x', { expect: 'miracles', ...bad }, '417 expectation_failed'],
    ['POST /v1/x', bad, '401 unauthorized'],
    ['GET /v1/%zz', {}, '401 unauthorized'],
    ['PUT /v1/x', { ...key, ...bad }, '404 not_found'],
    ['PUT /v1/pets', { ...key, ...bad }, '405 method_not_allowed'],
    ['POST /v1/pets', { ...key, ...bad }, '415 unsupported_media_type'],
    ['POST /v1/pets', { ...key, ...long, 'content-encoding': 'gzip' }, '415 unsupported_media_type'],
    ['POST /v1/pets', { ...key, ...long }, '413 content_too_large'],
    ['GET /v1/pets', { ...key, ...bad }, 200],
  ]
  for (const [line, headers, expected] of rows) {
    for (const expect of [{}, { expect: '100-continue' }]) {
      const lines = Object.entries({ host: 'h', ...expect, ...headers }).map((header) => header.join(': '))
      await assertNext(await open(t, petstore, request(`${line} HTTP/1.1`, lines)), expected)
    }
  }
  const full = await start(t, { maxStore: 1 })
  await check(full, 'POST', '/v1/pets', '400 bad_request', { body: '{' })
  await check(full, 'POST', '/v1/pets', '400 invalid_pet', { body: '{}' })
  await check(full, 'POST', '/v1/pets', '507 store_full', { body: BODY })
})

describe('Authentication', () => {
  const LONGEST = 'x'.repeat(256)
  const NEXT = 'y'.repeat(255)
  const list = (petstore: { url: string }, authorization: string, expected: Expected) =>
    check(petstore, 'GET', '/v1/pets', expected, { headers: { authorization } })

  test('form: any case of the scheme, a token behind spaces; no credentials, another scheme: 401 without a code', async (t) => {
    const petstore = await start(t)
    for (const scheme of 'Bearer|bearer|BEARER|bEaReR|Bearer  '.split('|'))
      await list(petstore, `${scheme} ${KEY}`, 200)
    const others = `|Bearer|Bearer  |KEY|Basic a2V5|Basic KEY|BearerKEY|Bearers KEY|XBearer KEY|X Bearer KEY|Bearer: KEY`
    for (const form of `${others}|Bearer,KEY|Bearer\tKEY|Bearer\xa0KEY`.split('|')) {
      const authorization = form.replace('KEY', KEY)
      const { headers } = await list(petstore, authorization, '401 unauthorized')
      assert.equal(headers['www-authenticate'], 'Bearer realm="petstore"', authorization)
    }
  })

  test('a key that is not ours: 401 with invalid_token', async (t) => {
    const petstore = await start(t, { apiKeys: [LONGEST, NEXT, KEY, 'the-long-key-of-ann'] })
    const parts = [KEY.slice(1), KEY.slice(0, -1), `${KEY}x`, `${LONGEST}x`, LONGEST.slice(1), 'x'.repeat(5_000)]
    // What the key before leaves behind must not complete the one after it.
    const leftOvers = [`${'x'.repeat(12)}-of-ann`, 'the-long-key']
    const forms = `KEY KEY|KEY x|\xa0KEY|KEY,KEY|"KEY"|ké|%6B${KEY.slice(1)}`.replaceAll('KEY', KEY).split('|')
    forms.push(KEY.toUpperCase(), `${NEXT}é`) // two bytes in UTF-8, which the longest key has no room for
    for (const key of [...parts, ...leftOvers, ...forms]) {
      const { headers } = await list(petstore, `Bearer ${key}`, '401 unauthorized')
      assert.equal(headers['www-authenticate'], 'Bearer realm="petstore", error="invalid_token"', key)
    }
  })

  test("keys: any number at once, each 8 to 256 characters of RFC 6750's token form", async (t) => {
    const good = ['12345678', LONGEST, 'AZaz09-._~+/==']
    const petstore = await start(t, { apiKeys: good })
    for (const key of good) await list(petstore, `Bearer ${key}`, 200)
    const forms = '========|abcd=efgh|abcd,efgh|abcdefgé|éabcdefg|abcd efgh| abcdefgh|abcdefgh |abcdefgh\n'.split('|')
    for (const key of ['', '1234567', 'x'.repeat(257), ...forms]) {
      await assert.rejects(startPetstore({ apiKeys: [KEY, key] }), /apiKeys/, key)
    }
  })

  test('comparison: every key is compared whole by timingSafeEqual, wherever the difference stands', async (t) => {
    const compare = t.mock.method(crypto, 'timingSafeEqual')
    syncBuiltinESMExports()
    t.after(() => {
      compare.mock.restore()
      syncBuiltinESMExports()
    })
    const petstore = await start(t, { apiKeys: ['first-key', 'second-key', 'third-key'] })
    for (const key of ['first-key', 'third-key', 'xirst-key', 'first-kex', 'another']) {
      compare.mock.resetCalls()
      await send(petstore, 'GET', '/v1/pets', { headers: { authorization: `Bearer ${key}` } })
      const lengths = compare.mock.calls.map((call) => [call.arguments[0].byteLength, call.arguments[1].byteLength])
      assert.deepEqual(lengths, Array(3).fill([10, 10])) // that of the longest
    }
  })

  test('secrecy: no key appears in an error, nor in the snapshot', async (t) => {
    const snapshot = `${folderOf(t)}/pets.json`
    const petstore = await start(t, { snapshot })
    for (const [method, path, expected, headers = {}, body = ''] of [
      ['GET', `/v1/pets/${KEY}?${KEY}`, '404 not_found'],
      ['GET', `/v1/pets?limit=${KEY}&status=${KEY}&after=${KEY}`, '400 invalid_parameter'],
      ['GET', '/v1/pets', '401 unauthorized', { authorization: `Bearer ${KEY}, ${KEY}` }],
      ['POST', '/v1/pets', '400 bad_request', {}, `{"name":"${KEY}" ${KEY}}`],
      ['POST', '/v1/pets', '400 invalid_pet', {}, `{"name":["${KEY}"],"status":"${KEY}"}`],
      ['POST', '/v1/pets', '415 unsupported_media_type', { 'content-type': KEY }, BODY],
      ['POST', '/v1/pets', 201, {}, BODY],
    ] as const) {
      const answer = await check(petstore, method, path, expected, { headers, body })
      assert.ok(!JSON.stringify(answer).includes(KEY))
    }
    await petstore.close()
    assert.ok(!readFileSync(snapshot, 'utf8').includes(KEY))
  })
})

describe('Animals', () => {
  const add = (petstore: { url: string }, body: string | Buffer, expected: Expected) =>
    check(petstore, 'POST', '/v1/pets', expected, { body })

  test('ids: 1, 2, 3 … up to 999999999999999; a refused pet uses none', async (t) => {
    const petstore = await start(t, { pets: [REX] })
    assert.equal(JSON.parse((await add(petstore, BODY, 201)).body).id, 2)
    await add(petstore, '{"name":"Tom"}', '400 invalid_pet')
    assert.equal(JSON.parse((await add(petstore, BODY, 201)).body).id, 3)
    const snapshot = temporaryFile(t, `[{"id":999999999999998,${BODY.slice(1)}]`)
    const full = await start(t, { snapshot })
    const { headers } = await add(full, BODY, 201)
    assert.equal(headers.location, '/v1/pets/999999999999999')
    await check(full, 'GET', headers.location, 200)
    await add(full, BODY, '507 store_full')
  })

  test('order of a list, walking past limit: by id, with a link that has the same filters but on the last page', async (t) => {
    const statusAt = (at: number) => (at % 3 === 0 ? 'sold' : 'pending')
    const pets = Array.from({ length: 101 }, (_, at) => ({ ...REX, status: statusAt(at) }) as const)
    const petstore = await start(t, { pets })
    for (const [query, ids, next] of [
      ['', [...Array(20).keys()].map((at) => at + 1), 'limit=20&after=20'],
      ['limit=100', [...Array(100).keys()].map((at) => at + 1), 'limit=100&after=100'],
      ['limit=100&after=1', [...Array(100).keys()].map((at) => at + 2), undefined],
      ['limit=2&status=sold&other=1', [1, 4], 'limit=2&status=sold&after=4'],
      ['limit=2&status=sold&after=4', [7, 10], 'limit=2&status=sold&after=10'],
      ['limit=2&status=sold&after=97', [100], undefined],
      ['after=99', [100, 101], undefined],
      ['after=9223372036854775807', [], undefined],
      ['status=available', [], undefined],
    ] as const) {
      const { headers, body } = await check(petstore, 'GET', `/v1/pets?${query}`, 200)
      const listed = petsIn(body).map((json) => JSON.parse(json).id)
      assert.deepEqual(listed, ids, query)
      assert.equal(headers['link'], next && `</v1/pets?${next}>; rel="next"`, query)
    }
  })

  test('limit, after: decimal digits without sign or leading zero, within their bounds', async (t) => {
    const petstore = await start(t)
    const good = 'limit=1 limit=100 after=0 after=1 after=9223372036854775807 limit=5&after=7&status=sold'
    for (const query of words(good)) await check(petstore, 'GET', `/v1/pets?${query}`, 200)
    const forms = [' 1', '1 ', '1\n', ...words('+1 -1 01 1.0 1e1 0x1 ١ one Infinity 99999999999999999999')]
    const bad = { limit: [...forms, '0', '101'], after: [...forms, '9223372036854775808'], status: ['gone', 'Sold'] }
    for (const query of Object.entries(bad).flatMap(([name, values]) => values.map((value) => ({ [name]: value })))) {
      await check(petstore, 'GET', `/v1/pets?${new URLSearchParams(query)}`, '400 invalid_parameter')
    }
    const { body } = await check(petstore, 'GET', '/v1/pets?limit=0&after=-1&status=gone', '400 invalid_parameter')
    assert.match(body, /limit must be .* 1 to 100.*after must be .*status must be one of available, pending, sold/)
  })

  test('body, 201 and 400: one JSON object in UTF-8; of a member twice the last; each invalid field is named', async (t) => {
    const petstore = await start(t)
    const unread = ['', ' ', '{', `${BODY}{}`, `${BODY} x`, "{'name':1}", Buffer.from('{"name":"\xc3("}', 'latin1')]
    for (const body of unread) await add(petstore, body, '400 bad_request')
    assert.ok((await add(petstore, '$', '400 bad_request')).body.includes("'$'")) // a pattern of String.replace
    for (const body of ['[]', 'null', '1', '"x"', `[${BODY}]`]) await add(petstore, body, '400 invalid_pet')
    const { body } = await add(petstore, '{"categoryId":"1","status":"lost"}', '400 invalid_pet')
    assert.match(body, /name is required.*string.*categoryId must be.*status must be one of available, pending, sold/)
    const odd = ' {"status":"sold","id":99,"colour":{},"name":1,"categoryId":2,"name":"Rex"}\n'
    const added = await add(petstore, odd, 201)
    assert.equal(added.body, '{"id":1,"name":"Rex","categoryId":2,"status":"sold"}')
    assert.equal(added.headers.location, '/v1/pets/1')
  })

  test('name: any JSON string, kept code unit for code unit', async (t) => {
    const petstore = await start(t)
    for (const name of ['', '\0\n"\\/', 'Zoë 🐕\ufffd', '\ud800 and \udc00', '__proto__', 'x'.repeat(10_000)]) {
      const { headers } = await add(petstore, JSON.stringify({ name, categoryId: 1 }), 201)
      const got = await check(petstore, 'GET', headers.location ?? '', 200)
      assert.equal(JSON.parse(got.body).name, name)
    }
    for (const name of ['1', 'null', '["x"]']) await add(petstore, `{"name":${name},"categoryId":1}`, '400 invalid_pet')
  })

  test('categoryId: an integral number within int64, exact', async (t) => {
    const petstore = await start(t)
    const exact = words('9223372036854775807 -9223372036854775808 9007199254740993 0')
    const rewritten = { '-0': '0', '1.0': '1', '2e3': '2000', '9007199254740991.0': '9007199254740991' }
    for (const [sent, stored] of [...exact.map((number) => [number, number]), ...Object.entries(rewritten)]) {
      assert.ok((await add(petstore, `{"name":"","categoryId":${sent}}`, 201)).body.endsWith(`"categoryId":${stored}}`))
    }
    const outside = ['9223372036854775808', '-9223372036854775809', '1.5', '9007199254740992.0', '1e16']
    for (const sent of [...outside, '"1"', 'true', '[1]', 'null']) {
      const { body } = await add(petstore, `{"name":"","categoryId":${sent}}`, '400 invalid_pet')
      assert.match(body, /"categoryId must be an integer from -2\^63 to 2\^63-1/)
    }
  })

  test('status: one of the three; null is 400; omitted stays omitted', async (t) => {
    const petstore = await start(t)
    for (const status of ['available', 'pending', 'sold', undefined]) {
      assert.equal(JSON.parse((await add(petstore, JSON.stringify({ ...REX, status }), 201)).body).status, status)
    }
    for (const status of [null, 'Sold', '', 1, ['sold']]) {
      await add(petstore, JSON.stringify({ ...REX, status }), '400 invalid_pet')
    }
  })

  for (const getPet of ['deprecated', 'gone'] as const) {
    test(`petId and deprecation: what is no id is 404; each response tells the end, also without page (${getPet})`, async (t) => {
      const huge = ['9007199254740993', '9223372036854775807', '18446744073709551617', '1'.repeat(1_000)]
      const forms = words('0 2 -1 +1 01 1.0 1e0 x 1;a=b .. {petId} constructor __proto__')
      const decoded = words('%20 %31%20 %00 %2F 1%2f a%2Fb%2Fc %2531 %EF%BC%91 %2E%2E %25')
      for (const page of [true, false]) {
        const [target, type] = page ? ['/', 'text/html'] : ['/openapi.json', 'application/json']
        const link = `</v1/pets>; rel="successor-version", <${target}>; rel="deprecation"; type="${type}"`
        const petstore = await start(t, { pets: [REX], getPet, page })
        for (const petId of ['1', '%31', ...forms, ...huge, ...decoded]) {
          const status = petId === '1' || petId === '%31' ? 200 : '404 not_found'
          const { headers } = await check(petstore, 'GET', `/v1/pets/${petId}`, getPet === 'gone' ? '410 gone' : status)
          assert.equal(headers['deprecation'], getPet === 'gone' ? undefined : '@1795132800', petId)
          assert.equal(headers['sunset'], 'Thu, 05 Dec 2030 00:00:00 GMT')
          assert.equal(headers['link'], link)
        }
        const { headers } = await check(petstore, 'GET', '/v1/pets', 200)
        assert.deepEqual([headers['deprecation'], headers['sunset']], [undefined, undefined])
      }
    })
  }
})

describe('Methods, media types, headers', () => {
  test('HEAD: answers as GET does, without the body, on a connection that is kept as on one that is closed', async (t) => {
    const petstore = await start(t, { pets: [{ ...REX, name: 'Zoë' }, REX], cors: '*' })
    const agent = new Agent({ keepAlive: true })
    t.after(() => agent.destroy())
    const headers = { origin: 'https://shop.example', 'x-request-id': 'a' }
    const paths = words('/v1/pets /v1/pets?limit=1 /v1/pets/1 /v1/pets/9 /v1/pets?limit=0 /v1/store/orders /v1/x /')
    for (const path of paths) {
      const got = await send(petstore, 'GET', path, { headers })
      const kept = await send(petstore, 'GET', path, { headers, agent })
      const head = await check(petstore, 'HEAD', path, got.status, { headers })
      const { connection, 'keep-alive': timeout, ...rest } = kept.headers
      assert.deepEqual([head.body, kept.body, connection, timeout], ['', got.body, 'keep-alive', 'timeout=75'])
      for (const same of [head.headers, { ...rest, connection: 'close' }]) {
        assert.deepEqual({ ...same, date: '' }, { ...got.headers, date: '' })
      }
    }
  })

  test('OPTIONS, and another method: 204 without a key, and 405, with Allow', async (t) => {
    const petstore = await start(t)
    const read = 'GET, HEAD, OPTIONS'
    const allows = { '/v1/pets': `${read}, POST`, '/v1/pets/1': read, '/v1/store/orders': read, '/': read }
    for (const [path, allow] of Object.entries(allows)) {
      const { headers, body } = await check(petstore, 'OPTIONS', `${path}?limit=0`, 204, NO_KEY)
      const { allow: allowed, 'content-length': length, 'content-type': type } = headers
      assert.deepEqual([allowed, length, type, body], [allow, undefined, undefined, ''])
      for (const method of ['PUT', 'DELETE', 'PATCH', 'TRACE', ...(allow === read ? ['POST'] : [])]) {
        const { headers, body } = await check(petstore, method, path, '405 method_not_allowed')
        assert.equal(headers.allow, allow)
        assert.ok(body.includes(allow))
      }
    }
    await check(petstore, 'OPTIONS', '/v1/x', '404 not_found', NO_KEY)
  })

  test('Content-Type: application/json, charset absent or utf-8, any case; none counts as JSON; else 415 with Accept', async (t) => {
    const petstore = await start(t)
    const plain = '|;|; |;;|; a=b|; charset=utf-8|;charset="UTF-8"|; CHARSET=Utf-8 ; a=b|; charset=utf-8; charset=utf-8'
    const good = `${plain}|; xcharset=latin1|; charsets=latin1`.split('|')
    good.push(';  a="b;c";  charset  =  "utf-8" ', '; a="; charset=latin1; "', '; a="\\"; charset=latin1; "')
    for (const type of good.flatMap((rest) => [`application/json${rest}`, `Application/JSON${rest}`])) {
      await check(petstore, 'POST', '/v1/pets', 201, { headers: { 'content-type': type }, body: BODY })
    }
    await check(petstore, 'POST', '/v1/pets', 201, { body: BODY })
    const types = '|text/plain|text/json|text/plain; application/json|xapplication/json|text/application/json|*/*|json'
    const longer = 'x|-patch+json|, text/plain| charset=utf-8| x|/x|; charset=utf-8; charset=latin1'.split('|')
    longer.push('; charset=latin1; charset=utf-8', '; charset=')
    const charsets = `latin1|utf-16|utf8|utf-8x|xutf-8|""|"utf-8 utf-8"|"xutf-8"|'utf-8'|"utf-8 "|utf-8 latin1`
    for (const name of charsets.split('|')) {
      longer.push(`; charset=${name}`, `;charset=${name};a=b`, `; a="b";  CHARSET  =  ${name}`)
    }
    for (const type of [...types.split('|'), ...longer.map((rest) => `application/json${rest}`)]) {
      const sent = { headers: { 'content-type': type }, body: BODY }
      const { headers } = await check(petstore, 'POST', '/v1/pets', '415 unsupported_media_type', sent)
      assert.deepEqual([headers.accept, headers['accept-encoding']], ['application/json', undefined])
    }
  })

  test('Content-Type: a Content-Encoding other than identity is 415', async (t) => {
    const petstore = await start(t)
    for (const coding of words('identity Identity IDENTITY')) {
      await check(petstore, 'POST', '/v1/pets', 201, { headers: { 'content-encoding': coding }, body: BODY })
    }
    for (const coding of 'gzip|br|x-gzip|identity, gzip|gzip, identity|xidentity|identityx'.split('|')) {
      const sent = { headers: { 'content-encoding': coding }, body: BODY }
      const { headers } = await check(petstore, 'POST', '/v1/pets', '415 unsupported_media_type', sent)
      assert.deepEqual([headers.accept, headers['accept-encoding']], ['application/json', 'identity'])
    }
  })

  test('header section: 16 KiB; more is 431', async (t) => {
    const petstore = await start(t)
    // node counts the target with the names and values.
    const used = ['/v1/pets', HOST, BEARER, 'X: '].join('').replaceAll(': ', '').length
    const filled = (length: number) => get('/v1/pets', `X: ${'x'.repeat(length - used)}`)
    const connection = await open(t, petstore, filled(16_382) + filled(16_383))
    await assertNext(connection, 200, 200)
    await connection.write(filled(16_384))
    await assertLast(connection, '431 headers_too_large')
  })

  test('Expect: 100-continue is sent once key, path, method and declared length have passed; another one is 417', async (t) => {
    const petstore = await start(t, { maxBody: BODY.length })
    const length = `Content-Length: ${BODY.length}`
    const EXPECT = 'Expect: 100-continue'
    const wanting = (...lines: string[]) =>
      open(t, petstore, request('POST /v1/pets HTTP/1.1', [HOST, BEARER, ...lines]))
    const bodies = { [length]: BODY, 'Transfer-Encoding: chunked': `${chunk(BODY)}0\r\n\r\n` }
    for (const [line, body] of Object.entries(bodies)) {
      for (const expect of [EXPECT, 'expect: 100-Continue']) {
        const connection = await wanting(line, expect)
        await assertNext(connection, 100)
        await connection.write(body + get())
        await assertNext(connection, 201, 200)
      }
    }
    for (const expectation of ['200-ok', '100-continued', 'x100-continue', '100', '']) {
      await assertLast(await wanting(length, `Expect: ${expectation}`), '417 expectation_failed', expectation)
    }
  })

  test('every API answer: type, length, no-store, nosniff, and no word of what serves it; Accept is ignored', async (t) => {
    const petstore = await start(t, { pets: [{ ...REX, name: 'Zoë 🐕' }] })
    const headers = { accept: 'text/html, */*;q=0' }
    for (const method of ['GET', 'POST', 'TRACE']) {
      const answer = await send(petstore, method, '/v1/pets', { headers, body: method === 'POST' ? BODY : '' })
      assertApiHeaders(answer)
      assert.ok(answer.headers.date)
    }
  })

  test('X-Request-Id: one of 1 to 128 characters of A-Za-z0-9._- is sent back', async (t) => {
    const petstore = await start(t)
    const good = ['a', 'AZ_az.09-', 'x'.repeat(127), 'x'.repeat(128)]
    const bad = ['', 'x'.repeat(129), 'a b', 'a/b', ' a/', '/a', 'a/', 'ä', 'a\tb', 'a, b']
    for (const id of [...good, ...bad]) {
      const { headers } = await check(petstore, 'GET', '/v1/x', '404 not_found', { headers: { 'x-request-id': id } })
      assert.equal(headers['x-request-id'], good.includes(id) ? id : undefined, id)
    }
  })
})

describe('Errors', () => {
  test('507 store_full: the pet that would go beyond the bytes allowed, and no smaller one', async (t) => {
    const json = `{"id":1,${BODY.slice(1)}`
    for (const options of [{}, { snapshot: `${folderOf(t)}/pets.json` }]) {
      const petstore = await start(t, { ...options, maxStore: 2 * (json.length + 100) - 1 })
      assert.equal((await check(petstore, 'POST', '/v1/pets', 201, { body: json })).body, json)
      await check(petstore, 'POST', '/v1/pets', '507 store_full', { body: json })
      const smaller = await check(petstore, 'POST', '/v1/pets', 201, { body: json.replace('Rex', 'Re') })
      assert.equal(JSON.parse(smaller.body).id, 2)
    }
  })

  test('503 storage_failed: the pet was not added, /readyz says 503, and a new try may succeed', async (t) => {
    const folder = `${folderOf(t)}/pets`
    mkdirSync(folder)
    const petstore = await start(t, { snapshot: `${folder}/pets.json` })
    await check(petstore, 'POST', '/v1/pets', 201, { body: BODY })
    renameSync(folder, `${folder}-away`)
    await check(petstore, 'POST', '/v1/pets', '503 storage_failed', { body: BODY })
    await check(petstore, 'GET', '/readyz', '503 storage_failed')
    await check(petstore, 'GET', '/livez', 200)
    assert.equal(petsIn((await check(petstore, 'GET', '/v1/pets', 200)).body).length, 1)
    renameSync(`${folder}-away`, folder)
    await check(petstore, 'GET', '/readyz', 200)
    const again = await check(petstore, 'POST', '/v1/pets', 201, { body: BODY })
    assert.equal(again.headers.location, '/v1/pets/2')
    await petstore.close()
  })

  test('500 internal_error: the message tells nothing of the cause; the log does', async (t) => {
    const logStream = new FakeStream()
    const petstore = await start(t, { log: 'json', logStream })
    t.mock.method(URLSearchParams.prototype, 'getAll', () => {
      throw new Error('the secret')
    })
    petstore.inject({ operation: 'listPets', delay: 1 }) // an operation that fails later, then one that fails at once
    for (let times = 0; times < 2; times++) {
      const { body } = await check(petstore, 'GET', '/v1/pets?limit=1&new', '500 internal_error')
      assert.doesNotMatch(body, /secret/)
    }
    await logStream.until(/("level":"error","message":"Error: the secret\\n[^]*){2}/)
    t.mock.restoreAll()
    await check(petstore, 'GET', '/v1/pets?limit=1&new', 200)
  })
})
