// What the operations do beyond the contract.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { InitialPet, PetStatus } from '../../src/types.ts'
import { type Answer, outcomeOf, send, start } from '../support.ts'

const SUNSET = 'Thu, 05 Dec 2030 00:00:00 GMT'
const STATUSES: PetStatus[] = ['available', 'pending', 'sold']

/** Pets of all statuses in turn. */
function petsOf(count: number): InitialPet[] {
  return Array.from({ length: count }, (_, at) => {
    return { name: 'Rex', categoryId: 7, status: STATUSES[at % 3] ?? 'sold' }
  })
}

function idsOf({ body }: Answer): string[] {
  return Array.from(body.matchAll(/"id":(\d+)/g), ([, id = '']) => id)
}

/** The URL of the next page; undefined on the last one. */
function nextOf({ headers }: Answer): string | undefined {
  return /^<([^>]*)>; rel="next"$/.exec(String(headers['link'] ?? ''))?.[1]
}

const MUST_BE = {
  limit: /\blimit\b[^;]* 1 to 100\b/,
  after: /\bafter\b[^;]* 0 to 9223372036854775807\b/,
  name: /\bname\b[^;]* string\b/,
  categoryId: /\bcategoryId\b[^;]* -9223372036854775808 to 9223372036854775807\b/,
  status: /\bstatus\b[^;]* available, pending, sold\b/,
}

/** What an Error names, with what it must be. */
function namedIn({ body }: Answer): string[] {
  return Object.entries(MUST_BE).flatMap(([name, pattern]) => (pattern.test(body) ? [name] : []))
}

const WALKS: [query: string, pages: number[], first: string, next?: string][] = [
  ['', [20, 20, 20, 20, 20, 1], '1', '?limit=20&after=20'],
  ['?limit=100', [100, 1], '1', '?limit=100&after=100'],
  ['?limit=100&after=1', [100], '2'],
  ['?limit=34&status=pending', [34], '2'],
  ['?limit=17&status=pending', [17, 17], '2', '?limit=17&status=pending&after=50'],
  ['?x=1&status=sold&limit=30', [30, 3], '3', '?limit=30&status=sold&after=90'],
  ['?after=99', [2], '100'],
  ['?after=9223372036854775807', [0], ''],
]

test('Link leads through all pages by ascending id, with the filter; the last has none', async (t) => {
  const petstore = await start(t, { pets: petsOf(101) })
  for (const [query, pages, first, next] of WALKS) {
    const ids: string[] = []
    const lengths: number[] = []
    const links: string[] = []
    for (let path: string | undefined = `/v1/pets${query}`; path;) {
      const answer: Answer = await send(petstore, 'GET', path)
      ids.push(...idsOf(answer))
      lengths.push(idsOf(answer).length)
      assert.equal(answer.headers['link'] !== undefined, nextOf(answer) !== undefined)
      path = nextOf(answer)
      if (path) links.push(path)
    }
    assert.deepEqual(lengths, pages, query)
    assert.equal(links[0], next && `/v1/pets${next}`, query)
    assert.equal(ids[0] ?? '', first, query)
    assert.deepEqual(
      ids,
      [...new Set(ids)].sort((a, b) => Number(a) - Number(b)),
      query,
    )
  }
})

const NO_DIGITS = '%201 1%20 1%0A %2B1 -1 01 1.0 1e1 0x1 %D9%A1 one'.split(' ')
const QUERIES: [names: string[], queries: string[]][] = [
  [[], ['', '?', '?limit=0', 'Limit=0', 'x=1&x=2', 'limit=1&&', 'a=%ff&%', 'limit=%31&x']],
  [[], ['limit=1', 'limit=100', 'after=0', 'after=9223372036854775807', 'status=s%6Fld']],
  [['limit'], NO_DIGITS.map((text) => `limit=${text}`)],
  [
    ['limit'],
    ['limit', 'limit=', 'limit=0', 'limit=101', 'limit=110', 'limit=99999999999999999999'],
  ],
  [['limit'], ['limit=1&limit=1', 'lim%69t=0', 'a=?&limit=x']],
  [['after'], NO_DIGITS.map((text) => `after=${text}`)],
  [['after'], ['after', 'after=', 'after=1&after=1']],
  [['after'], ['after=9223372036854775808', 'after=99999999999999999999']],
  [['status'], ['status', 'status=', 'status=Sold', 'status=sold+', 'status=sold&status=sold']],
  [
    ['limit', 'after', 'status'],
    ['limit=0&after=-1&status=lost', 'limit=&after=&status='],
  ],
]

test('a 400 names each parameter that is wrong, and unknown ones are ignored', async (t) => {
  const petstore = await start(t)
  for (const [names, queries] of QUERIES) {
    for (const query of queries) {
      const answer = await send(petstore, 'GET', `/v1/pets?${query}`)
      assert.equal(outcomeOf(answer), names.length === 0 ? '200' : '400 invalid_parameter', query)
      assert.deepEqual(namedIn(answer), names, query)
    }
  }
  const body = '{"name":"Rex","categoryId":7}'
  assert.equal(outcomeOf(await send(petstore, 'POST', '/v1/pets?limit=', { body })), '201')
  assert.equal(outcomeOf(await send(petstore, 'GET', '/v1/pets/1?limit=0')), '200')
})

const CREATED: [sent: string, members: string][] = [
  ['{"status":"sold","categoryId":7,"name":"Rex"}', '"name":"Rex","categoryId":7,"status":"sold"'],
  [' {"name":"","categoryId":7} \n', '"name":"","categoryId":7'],
  ['{"id":9,"a":{"id":1},"name":1,"name":"Rex","categoryId":7}', '"name":"Rex","categoryId":7'],
  [
    String.raw`{"name":"\u0000\n\"\\\/ Zoë\u00eb 🐕\ud800","categoryId":7}`,
    String.raw`"name":"\u0000\n\"\\/ Zoëë 🐕\ud800","categoryId":7`,
  ],
]

test('a 201 has Location and exactly what was sent, with its members in order', async (t) => {
  const petstore = await start(t)
  let id = 0
  for (const [sent, members] of CREATED) {
    const { status, headers, body } = await send(petstore, 'POST', '/v1/pets', { body: sent })
    const expected = `{"id":${++id},${members}}`
    assert.deepEqual([status, body], [201, expected], sent)
    assert.equal(headers.location, `/v1/pets/${id}`)
    assert.equal((await send(petstore, 'GET', `/v1/pets/${id}`)).body, expected)
  }
})

const INVALID: [outcome: string, names: string[], bodies: (string | Buffer)[]][] = [
  ['400 bad_request', [], ['', ' ', '{', "{'name':1}", '{"name":"Rex","categoryId":7}{}']],
  ['400 bad_request', [], ['{"name":"Rex","categoryId":7,}', withCategory('07'), '{"name":"\n"}']],
  ['400 bad_request', [], [`\ufeff${withCategory('7')}`, bytes('"\xff"'), bytes('"\xed\xa0\x80"')]],
  ['400 invalid_pet', [], ['null', '1', '"Rex"', `[${withCategory('7')}]`]],
  ['400 invalid_pet', ['name', 'categoryId'], ['{}', '{"Name":"Rex","name":null}']],
  ['400 invalid_pet', ['name'], ['{"categoryId":7}', '{"name":["Rex"],"categoryId":7}']],
  ['400 invalid_pet', ['status'], ['null', '"Sold"', '""', '1', '["sold"]'].map(withStatus)],
  ['400 invalid_pet', ['categoryId'], ['1.5', '"1"', 'true', '[1]', 'null'].map(withCategory)],
  ['400 invalid_pet', ['name', 'categoryId', 'status'], ['{"name":1,"categoryId":"1","status":2}']],
]
function withStatus(status: string): string {
  return `{"name":"Rex","categoryId":7,"status":${status}}`
}

function withCategory(categoryId: string): string {
  return `{"name":"Rex","categoryId":${categoryId}}`
}

function bytes(name: string): Buffer {
  return Buffer.from(`{"name":${name},"categoryId":7}`, 'latin1')
}

test('a 400 says what each invalid field must be, and nothing is added', async (t) => {
  const petstore = await start(t)
  for (const [outcome, names, bodies] of INVALID) {
    for (const body of bodies) {
      const answer = await send(petstore, 'POST', '/v1/pets', { body })
      assert.equal(outcomeOf(answer), outcome, String(body))
      assert.deepEqual(namedIn(answer), names, answer.body)
      assert.doesNotMatch(answer.body, /bigint|undefined/) // JSON has neither
    }
  }
  for (const [body, isMissing] of [
    ['{"categoryId":1}', true],
    ['{"name":1,"categoryId":1}', false],
  ] as const) {
    const { body: error } = await send(petstore, 'POST', '/v1/pets', { body })
    assert.equal(/name is required/.test(error), isMissing, error)
  }
  assert.deepEqual(await petstore.pets(), [])
})

test('ids are exact up to 2^63-1, after which a create is 507', async (t) => {
  const pets: InitialPet[] = [
    { id: 1, name: 'Rex', categoryId: 7 },
    { id: 9007199254740993n, name: 'Tom', categoryId: 7 },
    { id: 9223372036854775805n, name: 'Mia', categoryId: -9007199254740993n },
  ]
  const petstore = await start(t, { pets })
  assert.deepEqual(await petstore.pets(), pets)
  for (const id of ['1', '9007199254740993', '9223372036854775805']) {
    assert.deepEqual(idsOf(await send(petstore, 'GET', `/v1/pets/${id}`)), [id])
  }
  for (const id of ['9007199254740992', '9007199254740994', '9223372036854775804']) {
    assert.equal(outcomeOf(await send(petstore, 'GET', `/v1/pets/${id}`)), '404 not_found', id)
  }
  const page = await send(petstore, 'GET', '/v1/pets?limit=1&after=9007199254740992')
  assert.deepEqual(idsOf(page), ['9007199254740993'])
  assert.equal(nextOf(page), '/v1/pets?limit=1&after=9007199254740993')
  const rest = await send(petstore, 'GET', '/v1/pets?after=9007199254740993')
  assert.deepEqual(idsOf(rest), ['9223372036854775805'])

  const body = '{"name":"Zoe","categoryId":7}'
  for (const id of ['9223372036854775806', '9223372036854775807']) {
    const created = await send(petstore, 'POST', '/v1/pets', { body })
    assert.deepEqual(idsOf(created), [id])
    assert.equal(created.headers.location, `/v1/pets/${id}`)
  }
  assert.equal(outcomeOf(await send(petstore, 'POST', '/v1/pets', { body })), '507 store_full')
  assert.equal((await petstore.pets()).at(-1)?.id, 9223372036854775807n)
})

const NO_IDS = [
  ...['0', '-1', '+1', '01', '1.0', '1e0', 'x', '%31', '%201', '1;a', '1%2F', '..', '9', '{petId}'],
  ...['%EF%BC%91', '18446744073709551617', '9223372036854775808', '1'.repeat(100), 'constructor'],
]

test('what is not the id of an animal is 404; each 404 and 200 links to the deprecation', async (t) => {
  const petstore = await start(t, { pets: petsOf(1) })
  const links = '</v1/pets>; rel="successor-version", </>; rel="deprecation"; type="text/html"'
  for (const id of ['1', ...NO_IDS]) {
    const answer = await send(petstore, 'GET', `/v1/pets/${id}`)
    assert.equal(outcomeOf(answer), id === '1' ? '200' : '404 not_found', id)
    const { sunset, link, deprecation } = answer.headers
    assert.deepEqual([sunset, link, deprecation], [SUNSET, links, undefined], id)
  }
  const { headers } = await send(petstore, 'GET', '/v1/pets')
  assert.deepEqual([headers['sunset'], headers['link']], [undefined, undefined])
})
