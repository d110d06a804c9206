// Every decision of docs/contract.md, in its order. Malformed requests, CORS and connections have
// files of their own in http/.
import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, renameSync } from 'node:fs'
import { Agent } from 'node:http'
import { describe, test, type TestContext } from 'node:test'
import { startPetstore } from '../src/petstore.ts'
import { MemoryStore } from '../src/pets/store.ts'
import type { Petstore } from '../src/types.ts'
import { BEARER, chunk, CHUNKED, get, HOST, open, request } from './http/raw.ts'
import type { Answer, Expected, Sent } from './support.ts'
import { assertApiHeaders, assertLast, assertNext, check, FakeStream, send } from './support.ts'
import { AUTHORIZATION, folderOf, KEY, petsIn, start, temporaryFile, words } from './support.ts'

const REX = { name: 'Rex', categoryId: 1, status: 'sold' } as const
const BODY = JSON.stringify(REX)
const NO_KEY: Sent = { headers: { authorization: '' } }
const INT64_MAX = '9223372036854775807'

function list(petstore: Petstore, expected: Expected, sent?: Sent): Promise<Answer> {
  return check(petstore, 'GET', '/v1/pets', expected, sent)
}

function post(petstore: Petstore, body: Sent['body'], expected: Expected): Promise<Answer> {
  return check(petstore, 'POST', '/v1/pets', expected, { body: body ?? '' })
}

function postAs(petstore: Petstore, headers: Sent['headers'], expected: Expected): Promise<Answer> {
  return check(petstore, 'POST', '/v1/pets', expected, { headers: headers ?? {}, body: BODY })
}

describe('Addresses', () => {
  const EU = '/shop/eu/v1'

  test('serves the operations under /v1 by default', async (t) => {
    await list(await start(t), 200)
  })

  test('serves them under another base path, which Location and Link follow', async (t) => {
    const shop = await start(t, { basePath: EU, pets: [REX, REX] })
    assert.ok(shop.url.endsWith(EU))
    const page = await check(shop, 'GET', `${EU}/pets?limit=1`, 200)
    assert.equal(page.headers['link'], `<${EU}/pets?limit=1&after=1>; rel="next"`)
    const created = await check(shop, 'POST', `${EU}/pets`, 201, { body: BODY })
    assert.equal(created.headers.location, `${EU}/pets/3`)
  })

  test('asks for a key on every path under the base path, and on no other', async (t) => {
    const shop = await start(t, { basePath: EU })
    for (const path of [EU, `${EU}/x`, '/shop/e%75/v1/x'])
      await check(shop, 'GET', path, '401 unauthorized', NO_KEY)
    for (const path of ['/v1/pets', '/shop/eu/v2', '/shop%2Feu/v1/pets'])
      await check(shop, 'GET', path, '404 not_found', NO_KEY)
  })

  test('serves page, document and probes to GET and HEAD, without a key', async (t) => {
    const petstore = await start(t)
    const types = {
      '/': 'text/html; charset=utf-8',
      '/openapi.json': 'application/json',
      '/livez': 'application/json',
      '/readyz': 'application/json',
    }
    for (const [path, type] of Object.entries(types)) {
      const got = await check(petstore, 'GET', path, 200, NO_KEY)
      assert.equal(got.headers['content-type'], type, path)
      const head = await check(petstore, 'HEAD', path, 200, NO_KEY)
      assert.equal(head.headers['content-length'], got.headers['content-length'], path)
      await check(petstore, 'POST', path, '405 method_not_allowed', NO_KEY)
    }
  })

  test('answers 404 to any method elsewhere outside the base path', async (t) => {
    const petstore = await start(t)
    const near = words('/pets /v2/pets /V1/pets /v1pets /v10/pets /v1%2Fpets /v //v1/pets')
    for (const path of [...near, '//', '//pets', '/livez/', '/%zz', '/__proto__']) {
      for (const method of ['GET', 'PUT', 'OPTIONS'])
        await check(petstore, method, path, '404 not_found', NO_KEY)
    }
  })

  test('serves no page with the option page: false', async (t) => {
    const { body } = await check(await start(t, { page: false }), 'GET', '/', '404 not_found')
    assert.ok(body.includes('There is nothing at this path. The operations are under /v1"'), body)
  })

  test('matches a path after it has decoded each segment', async (t) => {
    const petstore = await start(t, { pets: [REX] })
    const pets = ['/v1/pets', '/v1/p%65ts', '/%76%31/%70ets', '/v%31/pets']
    for (const path of [...pets, '/v1/pets/%31', '/v1/p%65ts/1']) {
      await check(petstore, 'GET', path, 200)
      await check(petstore, 'GET', path, '401 unauthorized', NO_KEY)
    }
    for (const name of ['orders', '%6Frders', '%6frders'])
      await check(petstore, 'GET', `/v1/store/${name}`, '501 not_implemented')
  })

  const UNKNOWN_PATHS = {
    'a slash too many': words('/ /pets/ /pets// /pets//1 /pets/1/ //pets /store/orders/'),
    'a segment too many or too few': ['', '/pets/1/2', '/store', '/store/orders/1'],
    'another name or another case': words('/pet /petss /Pets /p%45ts /pets%20'),
    'a name that every object has': words('/constructor /__proto__'),
    'an encoded slash or percent sign': words('/pets%2F /pets%2F1 /p%2565ts'),
    'dot segments': words('/./pets /x/../pets'),
    'an incomplete escape': words('/% /%zz /%zz/pets /pets/% /pets/%1 /pets%/1'),
    'an escape that is not UTF-8': words('/pets/%ff /pets/%C3 /pets/%ED%A0%80'),
  }
  for (const [what, paths] of Object.entries(UNKNOWN_PATHS)) {
    test(`answers 404 to a path with ${what}`, async (t) => {
      const petstore = await start(t, { pets: [REX] })
      for (const path of paths.map((rest) => `/v1${rest}`)) {
        const { headers } = await check(petstore, 'GET', path, '404 not_found')
        assert.equal(headers['deprecation'], undefined, `${path} is no address of getPet`)
        await check(petstore, 'GET', path, '401 unauthorized', NO_KEY)
      }
    })
  }

  const ORIGINS = ['http://127.0.0.1', 'https://h:8443', 'HTTP://[::1]:80', 'HttpS://user:pass@h']
  for (const origin of ORIGINS) {
    test(`serves an absolute-form target as its origin-form: ${origin}`, async (t) => {
      const petstore = await start(t, { pets: [REX, REX] })
      const page = await check(petstore, 'GET', `${origin}/v1/p%65ts?limit=1`, 200)
      assert.equal(page.headers['link'], '</v1/pets?limit=1&after=1>; rel="next"')
      await check(petstore, 'GET', `${origin}/v1/pets?limit=0`, '400 invalid_parameter')
      for (const path of ['/V1/pets', '//v1/pets', '/http://h/v1/pets'])
        await check(petstore, 'GET', `${origin}${path}`, '404 not_found', NO_KEY)
      for (const root of ['', '/', '?x=/v1/pets', '/?x=/v1/pets']) {
        const { headers } = await check(petstore, 'GET', `${origin}${root}`, 200, NO_KEY)
        assert.equal(headers['content-type'], 'text/html; charset=utf-8', root)
      }
    })
  }

  const BAD_TARGETS = {
    'of another scheme': words('xhttp://h/v1/pets httpx://h/v1/pets ftp://h/v1/pets'),
    'with one URL inside another': words('ftp://http://h/v1/pets x/http://h/v1/pets'),
    'without a host': words('http:///v1/pets http:// http:/v1/pets'),
    'without a slash at its start': words('v1/pets ?limit=1'),
    'with an asterisk, but not OPTIONS *': words('* ** *?a'),
  }
  for (const [what, targets] of Object.entries(BAD_TARGETS)) {
    test(`answers 400 to a target ${what}`, async (t) => {
      const petstore = await start(t)
      for (const target of targets) await check(petstore, 'GET', target, '400 bad_request')
    })
  }

  test('reads a path that looks like a URL as a path', async (t) => {
    await check(await start(t), 'GET', '/http://h/v1/pets', '404 not_found', NO_KEY)
  })

  test('answers OPTIONS * with the methods of all paths', async (t) => {
    const { headers } = await check(await start(t), 'OPTIONS', '*', 204, NO_KEY)
    assert.equal(headers.allow, 'GET, HEAD, OPTIONS, POST')
  })

  test('ignores unknown query parameters, whatever they look like', async (t) => {
    const petstore = await start(t)
    const unknown = words('? ??limit=0 ?x=1&x=2 ?limit=1&& ?status=sold&Limit=0 ?a=%ff&% ?a?b')
    for (const query of unknown) await check(petstore, 'GET', `/v1/pets${query}`, 200)
  })

  test('decodes names and values of the query', async (t) => {
    const petstore = await start(t, { pets: [REX, REX] })
    for (const query of ['limit=%31', 'lim%69t=1']) {
      const { body } = await check(petstore, 'GET', `/v1/pets?${query}`, 200)
      assert.equal(petsIn(body).length, 1, query)
    }
  })

  for (const [name, good] of Object.entries({ limit: '1', after: '1', status: 'sold' })) {
    test(`answers 400 to ${name} if it is given twice, empty or with a space`, async (t) => {
      const petstore = await start(t)
      const twice = `${name}=${good}&${name}=${good}`
      for (const query of [twice, `${name}=`, name, `${name}=%20${good}`, `a=?&${name}=x`]) {
        const { body } = await check(petstore, 'GET', `/v1/pets?${query}`, '400 invalid_parameter')
        assert.ok(JSON.parse(body).message.startsWith(`${name} must be `), query)
      }
    })
  }

  test('ignores the query of getPet', async (t) => {
    await check(await start(t, { pets: [REX] }), 'GET', '/v1/pets/1?limit=', 200)
  })
})

describe('Order of the checks', () => {
  const key = { authorization: AUTHORIZATION }
  const long = { 'content-length': '65537' }
  const bad = { 'content-type': 'text/plain', ...long }
  const gzip = { ...key, 'content-encoding': 'gzip', ...long }
  type Row = [line: string, headers: Record<string, string>, expected: Expected]
  const rows: Record<string, Row> = {
    'HTTP first': ['POST /v1/x', { host: 'a b', ...bad }, '400 bad_request'],
    'Expect as a part of HTTP': ['POST /v1/x', { ...bad, expect: 'x' }, '417 expectation_failed'],
    'the key before the path': ['POST /v1/x', bad, '401 unauthorized'],
    'the key before an escape': ['GET /v1/%zz', {}, '401 unauthorized'],
    'the path before the method': ['PUT /v1/x', { ...key, ...bad }, '404 not_found'],
    'the method before the type': ['PUT /v1/pets', { ...key, ...bad }, '405 method_not_allowed'],
    'the type before the size': ['POST /v1/pets', { ...key, ...bad }, '415 unsupported_media_type'],
    'the coding before the size': ['POST /v1/pets', gzip, '415 unsupported_media_type'],
    'the size before the body': ['POST /v1/pets', { ...key, ...long }, '413 content_too_large'],
    'no body where none is wanted': ['GET /v1/pets', { ...key, ...bad }, 200],
  }
  for (const [rule, [line, headers, expected]] of Object.entries(rows)) {
    test(`checks ${rule}, and neither sends 100 nor waits for the body`, async (t) => {
      const petstore = await start(t)
      for (const expect of [{}, { expect: '100-continue' }]) {
        const all = Object.entries({ host: 'h', ...expect, ...headers })
        const lines = all.map(([name, value]) => `${name}: ${value}`)
        await assertNext(await open(t, petstore, request(`${line} HTTP/1.1`, lines)), expected)
      }
    })
  }

  test('checks JSON, then fields, then room in the store, then storage', async (t) => {
    const folder = `${folderOf(t)}/pets`
    mkdirSync(folder)
    const full = await start(t, { maxStore: 1, snapshot: `${folder}/pets.json` })
    renameSync(folder, `${folder}-away`)
    await post(full, '{', '400 bad_request')
    await post(full, '{}', '400 invalid_pet')
    await post(full, BODY, '507 store_full')
    renameSync(`${folder}-away`, folder)
    await full.close()
  })
})

describe('Authentication', () => {
  const LONGEST = 'x'.repeat(256)
  const SHORTER = 'y'.repeat(255)

  function listAs(petstore: Petstore, authorization: string, expected: Expected) {
    return list(petstore, expected, { headers: { authorization } })
  }

  test('accepts the scheme in any case, and several spaces before the token', async (t) => {
    const petstore = await start(t)
    for (const scheme of ['Bearer', 'bearer', 'BEARER', 'bEaReR', 'Bearer  '])
      await listAs(petstore, `${scheme} ${KEY}`, 200)
  })

  const NO_CREDENTIALS = {
    'a header without a token': ['', 'Bearer', 'Bearer  '],
    'a token without a scheme': [KEY],
    'another scheme': ['Basic a2V5', `Basic ${KEY}`, `Bearers ${KEY}`, `XBearer ${KEY}`],
    'a character after the scheme': [`Bearer: ${KEY}`, `Bearer,${KEY}`, `X Bearer ${KEY}`],
    'a token without a space before it': [`Bearer${KEY}`, `Bearer\t${KEY}`, `Bearer\xa0${KEY}`],
  }
  for (const [what, values] of Object.entries(NO_CREDENTIALS)) {
    test(`answers 401 without an error code to ${what}`, async (t) => {
      const petstore = await start(t)
      for (const authorization of values) {
        const { headers } = await listAs(petstore, authorization, '401 unauthorized')
        assert.equal(headers['www-authenticate'], 'Bearer realm="petstore"', authorization)
      }
    })
  }

  const ANN = 'the-long-key-of-ann'
  const WRONG_TOKENS = {
    'a part of a key': [KEY.slice(1), KEY.slice(0, -1), LONGEST.slice(1)],
    'more than a key': [`${KEY}x`, `${LONGEST}x`, 'x'.repeat(5_000)],
    'two halves of a key, one after the other': [`${'x'.repeat(12)}-of-ann`, 'the-long-key'],
    'several keys': [`${KEY} ${KEY}`, `${KEY} x`, `${KEY},${KEY}`],
    'a key in another case or in quotes': [KEY.toUpperCase(), `"${KEY}"`],
    'characters that no key has': [`\xa0${KEY}`, 'ké', `%6B${KEY.slice(1)}`, `${SHORTER}é`],
  }
  for (const [what, tokens] of Object.entries(WRONG_TOKENS)) {
    test(`answers 401 with invalid_token to ${what}`, async (t) => {
      const petstore = await start(t, { apiKeys: [LONGEST, SHORTER, KEY, ANN] })
      const challenge = 'Bearer realm="petstore", error="invalid_token"'
      for (const token of tokens) {
        const { headers } = await listAs(petstore, `Bearer ${token}`, '401 unauthorized')
        assert.equal(headers['www-authenticate'], challenge, token)
      }
    })
  }

  test('accepts any number of keys at once, of 8 to 256 characters', async (t) => {
    const apiKeys = ['12345678', LONGEST, 'AZaz09-._~+/==']
    const petstore = await start(t, { apiKeys })
    for (const key of apiKeys) await listAs(petstore, `Bearer ${key}`, 200)
  })

  const BAD_KEYS = {
    'of another length': ['', '1234567', 'x'.repeat(257)],
    'with padding before its end': ['========', 'abcd=efgh'],
    'with spaces': ['abcd efgh', ' abcdefgh', 'abcdefgh ', 'abcdefgh\n'],
    'with other characters': ['abcd,efgh', 'abcdefgé', 'éabcdefg'],
  }
  for (const [what, keys] of Object.entries(BAD_KEYS)) {
    test(`does not start with a key ${what}`, async () => {
      for (const key of keys)
        await assert.rejects(startPetstore({ apiKeys: [KEY, key] }), /apiKeys/)
    })
  }

  type Row = [method: string, path: string, expected: Expected, sent?: Sent]
  const twoKeys = { headers: { authorization: `Bearer ${KEY}, ${KEY}` } }
  const badFields = { body: `{"name":["${KEY}"],"status":"${KEY}"}` }
  const typed = { headers: { 'content-type': KEY }, body: BODY }
  const rows: Record<string, Row> = {
    'path and query': ['GET', `/v1/pets/${KEY}?${KEY}`, '404 not_found'],
    parameters: ['GET', `/v1/pets?limit=${KEY}&status=${KEY}`, '400 invalid_parameter'],
    credentials: ['GET', '/v1/pets', '401 unauthorized', twoKeys],
    'broken JSON': ['POST', '/v1/pets', '400 bad_request', { body: `{"name":"${KEY}" ${KEY}}` }],
    'bad fields': ['POST', '/v1/pets', '400 invalid_pet', badFields],
    'another media type': ['POST', '/v1/pets', '415 unsupported_media_type', typed],
  }
  for (const [where, row] of Object.entries(rows)) {
    test(`repeats no key in the Error for ${where}`, async (t) => {
      const answer = await check(await start(t), ...row)
      assert.ok(!JSON.stringify(answer).includes(KEY), answer.body)
    })
  }

  test('writes no key into the snapshot', async (t) => {
    const snapshot = `${folderOf(t)}/pets.json`
    const petstore = await start(t, { snapshot })
    await post(petstore, BODY, 201)
    await petstore.close()
    assert.ok(!readFileSync(snapshot, 'utf8').includes(KEY))
  })
})

describe('Pets', () => {
  test('get the ids 1, 2, 3 and so on; a rejected pet uses none', async (t) => {
    const petstore = await start(t, { pets: [REX] })
    assert.equal(JSON.parse((await post(petstore, BODY, 201)).body).id, 2)
    await post(petstore, '{"name":"Tom"}', '400 invalid_pet')
    assert.equal(JSON.parse((await post(petstore, BODY, 201)).body).id, 3)
  })

  test('get ids up to 999999999999999', async (t) => {
    const snapshot = temporaryFile(t, `[{"id":999999999999998,${BODY.slice(1)}]`)
    const petstore = await start(t, { snapshot })
    const { headers } = await post(petstore, BODY, 201)
    assert.equal(headers.location, '/v1/pets/999999999999999')
    await check(petstore, 'GET', headers.location, 200)
    await post(petstore, BODY, '507 store_full')
  })

  const from = (first: number, last: number) =>
    Array.from({ length: last - first + 1 }, (_, at) => first + at)
  const pages: { query: string; ids: readonly number[]; next?: string }[] = [
    { query: '', ids: from(1, 20), next: 'limit=20&after=20' },
    { query: 'limit=100', ids: from(1, 100), next: 'limit=100&after=100' },
    { query: 'limit=100&after=1', ids: from(2, 101) },
    { query: 'limit=2&status=sold&x=1', ids: [1, 4], next: 'limit=2&status=sold&after=4' },
    { query: 'limit=2&status=sold&after=4', ids: [7, 10], next: 'limit=2&status=sold&after=10' },
    { query: 'limit=2&status=sold&after=97', ids: [100] },
    { query: 'after=99', ids: [100, 101] },
    { query: `after=${INT64_MAX}`, ids: [] },
    { query: 'status=available', ids: [] },
  ]
  for (const { query, ids, next } of pages) {
    test(`are listed by id, with a link to the next page if there is one: ?${query}`, async (t) => {
      const pets = from(1, 101).map((id) => {
        return { ...REX, status: id % 3 === 1 ? 'sold' : 'pending' } as const
      })
      const petstore = await start(t, { pets })
      const { headers, body } = await check(petstore, 'GET', `/v1/pets?${query}`, 200)
      const listed = petsIn(body).map((json) => JSON.parse(json).id)
      assert.deepEqual(listed, ids)
      assert.equal(headers['link'], next && `</v1/pets?${next}>; rel="next"`)
    })
  }

  test('are listed for a limit of 1 to 100 after an int64 from 0 on', async (t) => {
    const petstore = await start(t)
    const after = ['after=0', 'after=1', `after=${INT64_MAX}`]
    for (const query of ['limit=1', 'limit=100', ...after, 'limit=5&after=7&status=sold'])
      await check(petstore, 'GET', `/v1/pets?${query}`, 200)
  })

  const notDigits = words('+1 -1 01 1.0 1e1 0x1 ١ one Infinity 99999999999999999999')
  const BAD_PARAMETERS = {
    limit: [...notDigits, ' 1', '1 ', '1\n', '0', '101'],
    after: [...notDigits, ' 1', '1 ', '1\n', '9223372036854775808'],
    status: ['gone', 'Sold'],
  }
  for (const [name, values] of Object.entries(BAD_PARAMETERS)) {
    test(`are not listed for a bad ${name}, which is 400`, async (t) => {
      const petstore = await start(t)
      for (const value of values) {
        const query = new URLSearchParams({ [name]: value })
        await check(petstore, 'GET', `/v1/pets?${query}`, '400 invalid_parameter')
      }
    })
  }

  test('are not listed for bad parameters; the message names each', async (t) => {
    const path = '/v1/pets?limit=0&after=-1&status=gone'
    const { body } = await check(await start(t), 'GET', path, '400 invalid_parameter')
    assert.match(body, /limit must be .* 1 to 100.*after must be .*/)
    assert.match(body, /status must be one of available, pending, sold/)
  })

  const BAD_JSON = {
    'that is empty': ['', ' '],
    'of incomplete JSON': ['{'],
    'with something after the object': [`${BODY}{}`, `${BODY} x`],
    'with single quotes': ["{'name':1}"],
    'of invalid UTF-8': [Buffer.from('{"name":"\xc3("}', 'latin1')],
  }
  for (const [what, bodies] of Object.entries(BAD_JSON)) {
    test(`are not added from a body ${what}, which is 400`, async (t) => {
      const petstore = await start(t)
      for (const body of bodies) await post(petstore, body, '400 bad_request')
    })
  }

  test('are not added from JSON that is not an object', async (t) => {
    const petstore = await start(t)
    for (const body of ['[]', 'null', '1', '"x"', `[${BODY}]`])
      await post(petstore, body, '400 invalid_pet')
  })

  test('are not added with bad fields; the message names each, and what it must be', async (t) => {
    const bad = '{"categoryId":"1","status":"lost"}'
    const { body } = await post(await start(t), bad, '400 invalid_pet')
    assert.match(body, /name is required.*string.*categoryId must be.*/)
    assert.match(body, /status must be one of available, pending, sold/)
  })

  test('are added without unknown members and with the last of a repeated one', async (t) => {
    const odd = ' {"status":"sold","id":99,"colour":{},"name":1,"categoryId":2,"name":"Rex"}\n'
    const { headers, body } = await post(await start(t), odd, 201)
    assert.equal(body, '{"id":1,"name":"Rex","categoryId":2,"status":"sold"}')
    assert.equal(headers.location, '/v1/pets/1')
  })

  test('may have any JSON string as their name, kept code unit for code unit', async (t) => {
    const petstore = await start(t)
    const odd = ['', '\0\n"\\/', 'Zoë 🐕\ufffd', '\ud800 and \udc00', '__proto__']
    for (const name of [...odd, 'x'.repeat(10_000)]) {
      const { headers } = await post(petstore, JSON.stringify({ name, categoryId: 1 }), 201)
      const got = await check(petstore, 'GET', headers.location ?? '', 200)
      assert.equal(JSON.parse(got.body).name, name)
    }
    for (const name of ['1', 'null', '["x"]'])
      await post(petstore, `{"name":${name},"categoryId":1}`, '400 invalid_pet')
  })

  test('keep their categoryId exactly, written as an integer', async (t) => {
    const petstore = await start(t)
    for (const [sent, kept = sent] of [
      [INT64_MAX],
      ['-9223372036854775808'],
      ['9007199254740993'],
      ['0'],
      ['-0', '0'],
      ['1.0', '1'],
      ['2e3', '2000'],
      ['9007199254740991.0', '9007199254740991'],
    ]) {
      const { body } = await post(petstore, `{"name":"","categoryId":${sent}}`, 201)
      assert.ok(body.endsWith(`"categoryId":${kept}}`), `${sent}: ${body}`)
    }
  })

  const BAD_CATEGORIES = {
    'beyond int64': ['9223372036854775808', '-9223372036854775809'],
    'a fraction': ['1.5'],
    'beyond 2^53-1 with a fraction or an exponent': ['9007199254740992.0', '1e16'],
    'not a number': ['"1"', 'true', '[1]', 'null'],
  }
  for (const [what, numbers] of Object.entries(BAD_CATEGORIES)) {
    test(`are not added if categoryId is ${what}`, async (t) => {
      const petstore = await start(t)
      for (const sent of numbers) {
        const { body } = await post(petstore, `{"name":"","categoryId":${sent}}`, '400 invalid_pet')
        assert.match(body, /"categoryId must be an integer from -2\^63 to 2\^63-1/, sent)
      }
    })
  }

  test('have one of three statuses, or none', async (t) => {
    const petstore = await start(t)
    for (const status of ['available', 'pending', 'sold', undefined]) {
      const { body } = await post(petstore, JSON.stringify({ ...REX, status }), 201)
      assert.equal(JSON.parse(body).status, status)
    }
    for (const status of [null, 'Sold', '', 1, ['sold']])
      await post(petstore, JSON.stringify({ ...REX, status }), '400 invalid_pet')
  })
})

describe('getPet', () => {
  const SUNSET = 'Thu, 05 Dec 2030 00:00:00 GMT'

  const UNKNOWN_IDS = {
    'that no pet has': ['0', '2', '-1'],
    'in another notation': words('+1 01 1.0 1e0 %20 %31%20 %EF%BC%91'),
    'that is no number': words('x 1;a=b .. {petId} constructor __proto__'),
    'with an encoded slash, dot, percent sign or NUL': words('1%2f a%2Fb %2E%2E %25 %2531 %00'),
    'beyond 2^53': ['9007199254740993', INT64_MAX, '18446744073709551617', '1'.repeat(1_000)],
  }
  for (const [what, ids] of Object.entries(UNKNOWN_IDS)) {
    test(`answers 404 to a petId ${what}, with the headers of its deprecation`, async (t) => {
      const petstore = await start(t, { pets: [REX] })
      for (const id of ids) {
        const { headers } = await check(petstore, 'GET', `/v1/pets/${id}`, '404 not_found')
        assert.equal(headers['deprecation'], '@1795132800', id)
        assert.equal(headers['sunset'], SUNSET, id)
      }
    })
  }

  for (const page of [true, false]) {
    const [target, type] = page ? ['/', 'text/html'] : ['/openapi.json', 'application/json']
    const successor = '</v1/pets>; rel="successor-version"'
    const link = `${successor}, <${target}>; rel="deprecation"; type="${type}"`

    test(`announces its end, and links to its successor and to ${target}`, async (t) => {
      const petstore = await start(t, { pets: [REX], page })
      const expected = { '1': 200, '%31': 200, '2': '404 not_found' } as const
      for (const [id, one] of Object.entries(expected)) {
        const { headers } = await check(petstore, 'GET', `/v1/pets/${id}`, one)
        assert.equal(headers['deprecation'], '@1795132800', id)
        assert.equal(headers['sunset'], SUNSET, id)
        assert.equal(headers['link'], link, id)
      }
    })

    test(`answers 410 once it is gone, with the same end, successor and ${target}`, async (t) => {
      const petstore = await start(t, { pets: [REX], getPetState: 'gone', page })
      for (const id of ['1', '2', 'x']) {
        const { headers } = await check(petstore, 'GET', `/v1/pets/${id}`, '410 gone')
        assert.equal(headers['deprecation'], undefined, id)
        assert.equal(headers['sunset'], SUNSET, id)
        assert.equal(headers['link'], link, id)
      }
    })
  }

  test('is the only operation that announces its end', async (t) => {
    const { headers } = await list(await start(t), 200)
    assert.equal(headers['deprecation'], undefined)
    assert.equal(headers['sunset'], undefined)
  })
})

describe('Methods, media types, headers', () => {
  test('answers HEAD as GET, without the body', async (t) => {
    const petstore = await start(t, { pets: [{ ...REX, name: 'Zoë' }, REX], cors: '*' })
    const headers = { origin: 'https://shop.example', 'x-request-id': 'a' }
    const good = ['/v1/pets', '/v1/pets?limit=1', '/v1/pets/1', '/']
    for (const path of [...good, '/v1/pets/9', '/v1/pets?limit=0', '/v1/store/orders', '/v1/x']) {
      const got = await send(petstore, 'GET', path, { headers })
      const head = await check(petstore, 'HEAD', path, got.status, { headers })
      assert.equal(head.body, '', path)
      assert.deepEqual({ ...head.headers, date: '' }, { ...got.headers, date: '' }, path)
    }
  })

  test('answers alike on a connection that is kept and on one that is closed', async (t) => {
    const petstore = await start(t, { pets: [REX, REX] })
    const agent = new Agent({ keepAlive: true })
    t.after(() => agent.destroy())
    for (const path of ['/v1/pets?limit=1', '/v1/pets/1', '/v1/x', '/']) {
      const closed = await send(petstore, 'GET', path)
      const kept = await send(petstore, 'GET', path, { agent })
      const { date, connection, 'keep-alive': keepAlive, ...rest } = kept.headers
      assert.ok(date)
      assert.equal(connection, 'keep-alive', path)
      assert.equal(keepAlive, 'timeout=75', path)
      const { date: _, connection: __, ...expected } = closed.headers
      assert.deepEqual(rest, expected, path)
      assert.equal(kept.body, closed.body)
    }
  })

  const allowed = {
    '/v1/pets': 'GET, HEAD, OPTIONS, POST',
    '/v1/pets/1': 'GET, HEAD, OPTIONS',
    '/v1/store/orders': 'GET, HEAD, OPTIONS',
    '/': 'GET, HEAD, OPTIONS',
  }
  for (const [path, allow] of Object.entries(allowed)) {
    test(`answers OPTIONS ${path} with 204 and Allow, without a key`, async (t) => {
      const petstore = await start(t)
      const { headers, body } = await check(petstore, 'OPTIONS', `${path}?limit=0`, 204, NO_KEY)
      assert.equal(headers.allow, allow)
      assert.equal(headers['content-length'], undefined)
      assert.equal(headers['content-type'], undefined)
      assert.equal(body, '')
    })

    test(`answers another method of ${path} with 405 and Allow`, async (t) => {
      const petstore = await start(t)
      const methods = ['PUT', 'DELETE', 'PATCH', 'TRACE', 'POST']
      for (const method of methods.filter((one) => !allow.includes(one))) {
        const { headers, body } = await check(petstore, method, path, '405 method_not_allowed')
        assert.equal(headers.allow, allow, method)
        assert.ok(body.includes(allow), body)
      }
    })
  }

  test('answers OPTIONS of an unknown path with 404', async (t) => {
    await check(await start(t), 'OPTIONS', '/v1/x', '404 not_found', NO_KEY)
  })

  test('reads a body without Content-Type as JSON', async (t) => {
    await postAs(await start(t), {}, 201)
  })

  const GOOD_PARAMETERS = {
    'without parameters': ['', ';', '; ', ';;'],
    'with charset utf-8 in any case': ['; charset=utf-8', ';charset="UTF-8"', '; CHARSET=Utf-8 '],
    'with the same charset twice': ['; charset=utf-8; charset=utf-8'],
    'with spaces around the charset': [';  a="b;c";  charset  =  "utf-8" '],
    'with a longer name': ['; xcharset=latin1', '; charsets=latin1'],
    'with other parameters': ['; a=b', '; charset', '; CHARSET=Utf-8 ; a=b'],
    'with a charset in quotes': ['; a="; charset=latin1; "', '; a="\\"; charset=latin1; "'],
  }
  for (const [what, parameters] of Object.entries(GOOD_PARAMETERS)) {
    test(`takes application/json ${what}`, async (t) => {
      const petstore = await start(t)
      for (const rest of parameters) {
        await postAs(petstore, { 'content-type': `application/json${rest}` }, 201)
        await postAs(petstore, { 'content-type': `Application/JSON${rest}` }, 201)
      }
    })
  }

  const plain = ['latin1', 'utf-16', 'utf8', 'utf-8x', 'xutf-8', "'utf-8'", 'utf-8 latin1']
  const charsets = [...plain, '""', '"utf-8 utf-8"', '"xutf-8"', '"utf-8 "']
  const BAD_TYPES = {
    'an empty type': [''],
    'another type': words('text/plain text/json */* json application/json-patch+json'),
    'a longer name': words('xapplication/json text/application/json application/jsonx'),
    'several types': ['text/plain; application/json', 'application/json, text/plain'],
    'words after the name': ['application/json x', 'application/json charset=utf-8'],
    'a path after the name': ['application/json/x'],
    'no charset after the sign': ['application/json; charset='],
    'another charset': charsets.map((name) => `application/json; charset=${name}`),
    'another charset first': charsets.map((name) => `application/json;charset=${name};a=b`),
    'another charset last': charsets.map((name) => `application/json; a="b";  CHARSET  =  ${name}`),
    'utf-8 before another charset': ['application/json; charset=utf-8; charset=latin1'],
    'utf-8 after another charset': ['application/json; charset=latin1; charset=utf-8'],
  }
  for (const [what, types] of Object.entries(BAD_TYPES)) {
    test(`answers 415 with Accept to a Content-Type of ${what}`, async (t) => {
      const petstore = await start(t)
      for (const type of types) {
        const sent = { 'content-type': type }
        const { headers } = await postAs(petstore, sent, '415 unsupported_media_type')
        assert.equal(headers.accept, 'application/json', type)
        assert.equal(headers['accept-encoding'], undefined, type)
      }
    })
  }

  test('takes the Content-Encoding identity in any case', async (t) => {
    const petstore = await start(t)
    for (const coding of ['identity', 'Identity', 'IDENTITY'])
      await postAs(petstore, { 'content-encoding': coding }, 201)
  })

  test('answers 415 with Accept-Encoding to any other Content-Encoding', async (t) => {
    const petstore = await start(t)
    const lists = ['identity, gzip', 'gzip, identity']
    for (const coding of ['gzip', 'br', 'x-gzip', ...lists, 'xidentity', 'identityx']) {
      const sent = { 'content-encoding': coding }
      const { headers } = await postAs(petstore, sent, '415 unsupported_media_type')
      assert.equal(headers.accept, 'application/json', coding)
      assert.equal(headers['accept-encoding'], 'identity', coding)
    }
  })

  test('answers 431 to 16 KiB of target, header names and values, and to no less', async (t) => {
    const petstore = await start(t)
    const used = ['/v1/pets', HOST, BEARER, 'X: '].join('').replaceAll(': ', '').length
    const filled = (length: number) => get('/v1/pets', `X: ${'x'.repeat(length - used)}`)
    const connection = await open(t, petstore, filled(16_382) + filled(16_383))
    await assertNext(connection, 200, 200)
    await connection.write(filled(16_384))
    await assertLast(connection, '431 headers_too_large')
  })

  const LENGTH = `Content-Length: ${BODY.length}`
  const framings: Record<string, [header: string, body: string]> = {
    'a declared length': [LENGTH, BODY],
    chunks: [CHUNKED, `${chunk(BODY)}0\r\n\r\n`],
  }
  for (const [what, [header, body]] of Object.entries(framings)) {
    test(`sends 100-continue for a good request with ${what}`, async (t) => {
      const petstore = await start(t, { maxBody: BODY.length })
      for (const expect of ['Expect: 100-continue', 'expect: 100-Continue']) {
        const head = request('POST /v1/pets HTTP/1.1', [HOST, BEARER, header, expect])
        const connection = await open(t, petstore, head)
        await assertNext(connection, 100)
        await connection.write(body + get())
        await assertNext(connection, 201, 200)
      }
    })
  }

  test('answers 417 to another expectation', async (t) => {
    const petstore = await start(t)
    for (const expectation of ['200-ok', '100-continued', 'x100-continue', '100', '']) {
      const lines = [HOST, BEARER, LENGTH, `Expect: ${expectation}`]
      const connection = await open(t, petstore, request('POST /v1/pets HTTP/1.1', lines))
      await assertLast(connection, '417 expectation_failed', expectation)
    }
  })

  test('has the same headers on every API response, whatever Accept says', async (t) => {
    const petstore = await start(t, { pets: [{ ...REX, name: 'Zoë 🐕' }] })
    const headers = { accept: 'text/html, */*;q=0' }
    for (const [method, body] of Object.entries({ GET: '', POST: BODY, TRACE: '' })) {
      const answer = await send(petstore, method, '/v1/pets', { headers, body })
      assertApiHeaders(answer)
      assert.ok(answer.headers.date)
    }
  })

  const IDS: Record<string, { ids: readonly string[]; isEchoed: boolean }> = {
    'sends back an X-Request-Id of 1 to 128 characters': {
      ids: ['a', 'AZ_az.09-', 'x'.repeat(127), 'x'.repeat(128)],
      isEchoed: true,
    },
    'ignores an X-Request-Id of another length': { ids: ['', 'x'.repeat(129)], isEchoed: false },
    'ignores an X-Request-Id of other characters': {
      ids: ['a b', 'a/b', '/a', 'a/', 'ä', 'a\tb', 'a, b'],
      isEchoed: false,
    },
  }
  for (const [what, { ids, isEchoed }] of Object.entries(IDS)) {
    test(what, async (t) => {
      const petstore = await start(t)
      for (const id of ids) {
        const sent = { headers: { 'x-request-id': id } }
        const { headers } = await check(petstore, 'GET', '/v1/x', '404 not_found', sent)
        assert.equal(headers['x-request-id'], isEchoed ? id : undefined, id)
      }
    })
  }
})

describe('Errors', () => {
  const PET = `{"id":1,${BODY.slice(1)}`
  for (const kind of ['memory', 'a snapshot']) {
    test(`answers 507 to a pet beyond maxStore, and adds a smaller one, in ${kind}`, async (t) => {
      const kept = kind === 'memory' ? {} : { snapshot: `${folderOf(t)}/pets.json` }
      const petstore = await start(t, { ...kept, maxStore: 2 * (PET.length + 100) - 1 })
      assert.equal((await post(petstore, PET, 201)).body, PET)
      await post(petstore, PET, '507 store_full')
      const smaller = await post(petstore, PET.replace('Rex', 'Re'), 201)
      assert.equal(JSON.parse(smaller.body).id, 2)
    })
  }

  test('answers 503 while the disk fails, adds nothing, and goes on reading', async (t) => {
    const folder = `${folderOf(t)}/pets`
    mkdirSync(folder)
    const petstore = await start(t, { snapshot: `${folder}/pets.json` })
    await post(petstore, BODY, 201)
    renameSync(folder, `${folder}-away`)
    await post(petstore, BODY, '503 storage_failed')
    await check(petstore, 'GET', '/readyz', '503 storage_failed')
    await check(petstore, 'GET', '/livez', 200)
    assert.equal(petsIn((await list(petstore, 200)).body).length, 1)
    renameSync(`${folder}-away`, folder)
    await check(petstore, 'GET', '/readyz', 200)
    assert.equal((await post(petstore, BODY, 201)).headers.location, '/v1/pets/2')
    await petstore.close()
  })

  /** Makes listPets throw, until the returned function is called. No option can do that. */
  function breakListPets(t: TestContext, message: string): () => void {
    const { mock } = t.mock.method(MemoryStore.prototype, 'page', () => {
      throw new Error(message)
    })
    return () => mock.restore()
  }

  for (const [when, delay] of Object.entries({ 'at once': 0, 'after a delay': 1 })) {
    test(`answers 500 if an operation throws ${when}, and tells only the log why`, async (t) => {
      const logStream = new FakeStream()
      const petstore = await start(t, { log: 'json', logStream, delay })
      const mend = breakListPets(t, 'the secret')
      const { body } = await list(petstore, '500 internal_error')
      assert.doesNotMatch(body, /secret/)
      await logStream.until(/"level":"error","message":"Error: the secret\\n/)
      mend()
      await list(petstore, 200)
    })
  }
})
