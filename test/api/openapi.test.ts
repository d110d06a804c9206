import assert from 'node:assert/strict'
import { mkdirSync, rmSync } from 'node:fs'
import { test, type TestContext } from 'node:test'
import { openapi } from '../../src/api/routes.ts'
import { ERROR_STATUS } from '../../src/http/reply.ts'
import type { Route } from '../../src/http/router.ts'
import { createPetstore, type Petstore } from '../../src/petstore.ts'
import { breachesOf, breachesOfOperation, type Contract, contractOf, entries, find } from '../contract.ts'
import { type Answer, folderOf, KEY, RawConnection, send, type Sent, start } from '../support.ts'

const REX = '{"name":"Rex","categoryId":1,"status":"sold"}'
const STATES = ['deprecated', 'gone'] as const
const CONTRACT = contractOf('/v1', { getPet: 'deprecated', page: true })

/** The operations of a document. */
function operationsOf({ document }: Contract): { path: string; method: string; operation: unknown }[] {
  return entries(find(document, document, 'paths')).flatMap(([path, item]) =>
    entries(item)
      .filter(([name]) => /^(?:get|put|post|delete|options|head|patch|trace)$/.test(name))
      .map(([method, operation]) => ({ path, method: method.toUpperCase(), operation })),
  )
}

for (const getPet of STATES) {
  test(`every route is an operation of the document, and every operation a route (getPet ${getPet})`, () => {
    const contract = contractOf('/shop/v1', { getPet, page: true })
    const of = (node: unknown, ...keys: string[]) => find(contract.document, node, ...keys)
    const described = operationsOf(contract).map(({ path, method, operation }) => ({
      path,
      method,
      operation: of(operation, 'operationId'),
      open: of(operation, 'security') !== undefined,
      takesBody: of(operation, 'requestBody') !== undefined,
      server: of(of(contract.document, 'paths', path), 'servers', '0', 'url') ?? '/shop/v1',
      isDescribed: of(operation, 'summary') !== of(operation, 'operationId'),
    }))
    const table = contract.table.map(({ path, method, operation, open = false, takesBody = false }) => {
      return { path, method, operation, open, takesBody, server: open ? '/' : '/shop/v1', isDescribed: true }
    })
    assert.deepEqual(described, table)
  })
}

/** Every answer that can be provoked, with the operation that it is of. */
async function provoke(t: TestContext, getPet: 'deprecated' | 'gone'): Promise<[operation: string, answer: Answer][]> {
  const folder = `${folderOf(t)}/pets`
  mkdirSync(folder)
  const pets = ['Rex', 'Tom'].map((name) => ({ name, categoryId: 1 }))
  const petstore = await start(t, { getPet, pets, maxBody: 100, maxStore: 200 })
  const impatient = await start(t, { getPet, limits: { headersTimeout: 50, checkInterval: 10 } })
  const failing = await start(t, { getPet, snapshot: `${folder}/pets.json` })
  const { table } = contractOf('/v1', { getPet, page: true })
  const seen: [operation: string, answer: Answer][] = []
  async function see(operation: string, target: string, sent: Sent = {}, at: Petstore = petstore): Promise<void> {
    const method = table.find((route) => route.operation === operation)?.method ?? ''
    const headers = { 'x-request-id': 'a-b', ...sent.headers }
    seen.push([operation, await send(at, method, target, { ...sent, headers })])
  }
  for (const { operation, method, open, path } of table) {
    const target = `${open ? '' : '/v1'}${path.replace('{petId}', '1')}`
    await see(operation, target, method === 'POST' ? { body: REX } : {})
    await see(operation, target, { headers: { host: 'a b' } })
    await see(operation, target, { headers: { expect: 'miracles' } })
    if (!open) await see(operation, target, { headers: { authorization: '' } })
    for (const [at, rest] of [[petstore, `x: ${'x'.repeat(17_000)}`] as const, [impatient, ''] as const]) {
      const connection = new RawConnection(t, at)
      await connection.write(`${method} ${target} HTTP/1.1\r\n${rest}`)
      seen.push([operation, await connection.read()])
    }
  }
  await see('listPets', '/v1/pets?limit=1')
  await see('listPets', '/v1/pets?limit=0')
  await see('getPet', '/v1/pets/x')
  await see('createPet', '/v1/pets', { body: '{}' })
  await see('createPet', '/v1/pets', { body: 'x'.repeat(101) })
  await see('createPet', '/v1/pets', { headers: { 'content-encoding': 'gzip' } })
  for (let times = 0; times < 4; times++) await see('createPet', '/v1/pets', { body: REX })
  rmSync(folder, { recursive: true })
  await see('createPet', '/v1/pets', { body: REX }, failing)
  await see('readyz', '/readyz', {}, failing)
  const stopping = createPetstore({ apiKeys: [KEY] })
  await stopping.close()
  const response = await stopping.fetch(new URL('/readyz', stopping.url))
  const { status, headers } = response
  seen.push(['readyz', { status, headers: Object.fromEntries(headers), body: await response.text() }])
  return seen
}

/** Every status with each code and field that the document has for an operation; not `default`, which is for tests. */
function documentedOf(contract: Contract): string[] {
  const of = (node: unknown, ...keys: string[]) => find(contract.document, node, ...keys)
  return operationsOf(contract).flatMap(({ operation }) => {
    const responses = entries(of(operation, 'responses')).filter(([status]) => status !== 'default')
    return responses.flatMap(([status, response]) => {
      const codes = entries(of(response, 'content', 'application/json', 'examples')).map(([code]) => code)
      const fields = entries(of(response, 'headers')).map(([name]) => name.toLowerCase())
      const all = [...(Number(status) < 400 ? [''] : codes), ...fields]
      return all.map((what) => `${of(operation, 'operationId')} ${status} ${what}`)
    })
  })
}

// A 500 is a bug of the server: dispatch.test.ts has it of any operation. What node cannot read as a request has no id.
const NOT_PROVOKED = /^\w+ 500 |^\w+ (?:408|431) x-request-id$/

for (const getPet of STATES) {
  test(`each operation answers what is documented, all of it and nothing else (getPet ${getPet})`, async (t) => {
    const contract = contractOf('/v1', { getPet, page: true })
    const seen = new Set<string>()
    for (const [name, answer] of await provoke(t, getPet)) {
      const { status, headers, body } = answer
      const route = contract.table.find(({ operation }) => operation === name)
      assert.ok(route)
      assert.deepEqual(breachesOfOperation(contract, route, false, answer), [], `${name} ${JSON.stringify(answer)}`)
      seen.add(`${name} ${status} ${status < 400 ? '' : JSON.parse(body).code}`)
      for (const field of Object.keys(headers)) seen.add(`${name} ${status} ${field}`)
    }
    const documented = documentedOf(contract).filter((what) => !NOT_PROVOKED.test(what))
    const never = documented.filter((what) => !seen.has(what))
    assert.deepEqual(never, [])
    assert.ok(documented.length > 100)
  })
}

test('every code of an Error is documented, with its status', () => {
  const documented = new Map<string, unknown>()
  for (const getPet of STATES) {
    const { document } = contractOf('/v1', { getPet, page: true })
    const of = (node: unknown, ...keys: string[]) => find(document, node, ...keys)
    const codes = of(document, 'components', 'schemas', 'Error', 'properties', 'code', 'enum')
    assert.deepEqual(codes, Object.keys(ERROR_STATUS))
    for (const [, response] of entries(of(document, 'components', 'responses'))) {
      const examples = entries(of(response, 'content', 'application/json', 'examples'))
      for (const [code, example] of examples) documented.set(code, of(example, 'value', 'status'))
    }
  }
  assert.deepEqual(Object.fromEntries(documented), { ...ERROR_STATUS })
})

test('every example keeps to its schema', () => {
  const { document } = CONTRACT
  let count = 0
  function visit(node: unknown): void {
    const isSchema = find(document, node, 'type') !== undefined
    const schema = isSchema ? node : find(document, node, 'schema')
    for (const [, example] of entries(find(document, node, 'examples'))) {
      const value = isSchema ? example : find(document, example, 'value')
      assert.deepEqual(breachesOf(document, schema, value), [], JSON.stringify(value))
      count++
    }
    for (const [, member] of entries(node)) visit(member)
  }
  visit(document)
  assert.ok(count > 30, `only ${count}`)
})

test('an answer to an injected fault is documented, whatever its status', async (t) => {
  const petstore = await start(t)
  for (const status of [400, 418, 429, 503, 599]) {
    petstore.inject({ operation: '*', status, ...(status === 503 && { retryAfter: 1 }) })
    assert.equal((await send(petstore, 'GET', '/v1/pets')).status, status) // which send() holds to the document
  }
})

for (const [basePath, getPet, statuses] of [
  ['/v1', 'deprecated', '200 400 401 404 408 417 431 500 default'],
  ['/shop/eu', 'gone', '400 401 408 410 417 431 500 default'],
] as const) {
  test(`GET /openapi.json, and HEAD, need no key (${basePath}, getPet ${getPet})`, async (t) => {
    const petstore = await start(t, { basePath, getPet })
    const headers = { authorization: '' }
    const got = await send(petstore, 'GET', '/openapi.json', { headers })
    assert.equal(got.status, 200)
    assert.equal(got.headers['content-type'], 'application/json')
    const document: unknown = JSON.parse(got.body)
    assert.deepEqual(document, contractOf(basePath, { getPet, page: true }).document)
    assert.equal(find(document, document, 'servers', '0', 'url'), basePath)
    const responses = entries(find(document, document, 'paths', '/pets/{petId}', 'get', 'responses'))
    assert.equal(responses.map(([status]) => status).join(' '), statuses)
    const head = await send(petstore, 'HEAD', '/openapi.json', { headers })
    assert.equal(head.headers['content-length'], got.headers['content-length'])
    assert.equal(head.body, '')
  })
}

test('the document is made by the first request, and once', async () => {
  let reads = 0
  const table: Route[] = []
  table[Symbol.iterator] = () => {
    reads++
    return Array.prototype.values.call(table)
  }
  const handle = openapi({ basePath: '/v1', getPet: 'deprecated' }, table)
  assert.equal(reads, 0)
  const call = { params: {}, query: '', body: Buffer.alloc(0) }
  const [one, other] = await Promise.all([handle(call), handle(call)])
  assert.equal(one.body, other.body)
  assert.equal(reads, 1)
})

const HEADERS = { 'content-type': 'application/json', 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' }
const GOOD: Answer = { status: 200, headers: HEADERS, body: '[{"id":1,"name":"","categoryId":-1}]' }
const PET = GOOD.body.slice(1, -1)

/** An answer to listPets that is an Error. */
function error(status: number, members: object): Answer {
  return { status, headers: HEADERS, body: JSON.stringify(members) }
}

const BREACHES: Readonly<Record<string, Answer>> = {
  'a status that it does not have': error(404, { code: 'not_found', message: '', status: 404 }),
  'a code of another operation': error(400, { code: 'invalid_pet', message: '', status: 400 }),
  'a status within that is another': error(400, { code: 'bad_request', message: '', status: 401 }),
  'an Error without a message': error(400, { code: 'bad_request', status: 400 }),
  'an Error with another member': error(400, { code: 'bad_request', message: '', status: 400, more: 1 }),
  'a 401 without its field': error(401, { code: 'unauthorized', message: '', status: 401 }),
  'another media type': { ...GOOD, headers: { ...HEADERS, 'content-type': 'text/html' } },
  'another value of a field': { ...GOOD, headers: { ...HEADERS, 'cache-control': 'private' } },
  'a field of another operation': { ...GOOD, headers: { ...HEADERS, location: '/v1/pets/1' } },
  'an object': { ...GOOD, body: PET },
  'too many pets': { ...GOOD, body: `[${Array(101).fill(PET)}]` },
  'a pet that is null': { ...GOOD, body: '[null]' },
  'a pet that is an array': { ...GOOD, body: '[[]]' },
  'an id of 0': { ...GOOD, body: GOOD.body.replace('1', '0') },
  'an id that is a string': { ...GOOD, body: GOOD.body.replace('1', '"1"') },
  'no id': { ...GOOD, body: GOOD.body.replace('"id":1,', '') },
  'a fraction': { ...GOOD, body: GOOD.body.replace('-1', '-1.5') },
  'a number beyond int64': { ...GOOD, body: GOOD.body.replace('-1', '1e19') },
  'another pet status': { ...GOOD, body: GOOD.body.replace('}', ',"status":"lost"}') },
  'another member': { ...GOOD, body: GOOD.body.replace('}', ',"colour":"red"}') },
}

for (const [what, answer] of Object.entries(BREACHES)) {
  test(`the check of answers finds ${what}`, () => {
    const [listPets] = CONTRACT.table
    assert.ok(listPets)
    assert.deepEqual(breachesOfOperation(CONTRACT, listPets, false, GOOD), [])
    assert.notDeepEqual(breachesOfOperation(CONTRACT, listPets, false, answer), [])
  })
}

test('the check of answers throws at a keyword that it does not know', () => {
  assert.throws(() => breachesOf({}, { unevaluatedItems: true }, 1), /does not know unevaluatedItems/)
})
