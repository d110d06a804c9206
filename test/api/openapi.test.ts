import assert from 'node:assert/strict'
import { mkdirSync, renameSync } from 'node:fs'
import { test, type TestContext } from 'node:test'
import type { Variant } from '../../src/api/openapi.ts'
import { routes } from '../../src/api/routes.ts'
import { LIMITS } from '../../src/http/limits.ts'
import { MemoryStore } from '../../src/pets/store.ts'
import type { Petstore } from '../../src/types.ts'
import { breachesOf, breachesOfOperation, documentOf, entries, find, VARIANTS } from '../contract.ts'
import { type Answer, folderOf, RawConnection, send, type Sent, start } from '../support.ts'

const REX = '{"name":"Rex","categoryId":1}'
const DOCUMENT = documentOf({ basePath: '/v1', getPet: 'deprecated', page: true })

/** The operations of a document; those that need no key are open. */
function operationsOf(document: unknown) {
  return entries(find(document, document, 'paths')).flatMap(([path, item]) =>
    entries(item).flatMap(([method, operation]) => {
      const id = find(document, operation, 'operationId')
      const isOpen = find(document, operation, 'security') !== undefined
      return typeof id === 'string' ? { id, path, method: method.toUpperCase(), isOpen, operation } : []
    }),
  )
}

for (const variant of VARIANTS) {
  test(`every route is an operation of the document, and every operation a route (${JSON.stringify(variant)})`, () => {
    const document = documentOf({ basePath: '/shop/eu', ...variant })
    const described = operationsOf(document).map(({ id, path, method, isOpen, operation }) => {
      const has = (member: string) => find(document, operation, member) !== undefined
      const server = find(document, document, 'paths', path, 'servers', '0', 'url')
      assert.ok(has('summary') && has('description'), id)
      return [method, path, id, server ?? '/shop/eu', isOpen, has('requestBody')]
    })
    const context = { store: new MemoryStore(0), basePath: '/shop/eu', ...variant, isDraining: () => false }
    const table = routes(context).map(({ method, path, operation, open = false, takesBody = false }) => {
      return [method, path, operation, open ? '/' : '/shop/eu', open, takesBody]
    })
    assert.deepEqual(described, table)
    assert.equal(find(document, document, 'servers', '0', 'url'), '/shop/eu')
    assert.doesNotMatch(JSON.stringify(document), /\/v1/)
  })

  test(`each operation answers what is documented, all of it and nothing else (${JSON.stringify(variant)})`, async (t) => {
    const document = documentOf({ basePath: '/v1', ...variant })
    const operations = operationsOf(document)
    const seen = new Set<string>()
    for (const [name, answer] of await provoke(t, variant)) {
      const { status, headers, body } = answer
      const breaches = breachesOfOperation(document, operations.find(({ id }) => id === name)?.operation, answer)
      assert.deepEqual(breaches, [], `${name} ${JSON.stringify(answer)}`)
      if (name === 'openapi' && status === 200) assert.deepEqual(JSON.parse(body), document)
      if (status >= 400) seen.add(`${name} ${status} ${textOf(JSON.parse(body))}`)
      for (const header of Object.keys(headers)) seen.add(`${name} ${status} ${header}`)
    }
    const documented = operations.flatMap(({ id, operation }) => statementsOf(document, id, operation))
    const never = documented.filter((statement) => !seen.has(statement) && !NOT_PROVOKED.test(statement))
    assert.deepEqual(never, [])
  })
}

// One operation stands for all that have a bug. What node cannot read as a request has no id.
const NOT_PROVOKED = /^(?!listPets)\w+ 500 |^\w+ (?:408|431) x-request-id$|^\w+ default /

function textOf(error: unknown): string {
  return `${find({}, error, 'code')}: ${find({}, error, 'message')}`
}

/** What the document says of an operation: each status with its headers and errors. */
function statementsOf(document: unknown, id: string, operation: unknown): string[] {
  return entries(find(document, operation, 'responses')).flatMap(([status, response]) => {
    const headers = entries(find(document, response, 'headers')).map(([header]) => header.toLowerCase())
    const examples = entries(find(document, response, 'content', 'application/json', 'examples'))
    const errors = examples.map(([, example]) => textOf(find(document, example, 'value')))
    return [...headers, ...(Number(status) < 400 ? [] : errors)].map((what) => `${id} ${status} ${what}`)
  })
}

/** Every response that can be provoked, with the operation that gives it. */
async function provoke(t: TestContext, variant: Omit<Variant, 'basePath'>): Promise<[operation: string, Answer][]> {
  const folder = `${folderOf(t)}/pets`
  mkdirSync(folder)
  const petstore = await start(t, { ...variant, pets: [JSON.parse(REX), JSON.parse(REX)], maxStore: 450 })
  const { headersTimeout, checkInterval } = LIMITS
  Object.assign(LIMITS, { headersTimeout: 50, checkInterval: 10 })
  const impatient = await start(t, variant)
  Object.assign(LIMITS, { headersTimeout, checkInterval })
  const failing = await start(t, { ...variant, snapshot: `${folder}/pets.json` })
  const seen: [operation: string, answer: Answer][] = []
  async function see(operation: string, target: string, sent: Sent = {}, at: Petstore = petstore): Promise<void> {
    const headers = { 'x-request-id': 'a-b', ...sent.headers }
    seen.push([operation, await send(at, operation === 'createPet' ? 'POST' : 'GET', target, { ...sent, headers })])
  }
  for (const { id, path, method, isOpen } of operationsOf(documentOf({ basePath: '/v1', ...variant }))) {
    const target = `${isOpen ? '' : '/v1'}${path.replace('{petId}', '1')}`
    const withoutKey = { headers: { authorization: '' } }
    await see(id, target, { ...(isOpen && withoutKey), ...(method === 'POST' && { body: REX }) })
    if (!isOpen) await see(id, target, withoutKey)
    await see(id, target, { headers: { host: 'a b' } })
    await see(id, target, { headers: { expect: 'miracles' } })
    await see(id, target, { headers: { 'transfer-encoding': 'gzip' } })
    for (const [at, rest] of [[petstore, `x: ${'x'.repeat(17_000)}`] as const, [impatient, ''] as const]) {
      const connection = new RawConnection(t, at)
      await connection.write(`${method} ${target} HTTP/1.1\r\n${rest}`)
      seen.push([id, await connection.read()])
    }
  }
  for (const query of ['limit=1', 'limit=0&after=x&status=y']) await see('listPets', `/v1/pets?${query}`)
  await see('getPet', '/v1/pets/x')
  await see('createPet', '/v1/pets', { body: '{}' })
  await see('createPet', '/v1/pets', { body: 'x'.repeat(65_537) })
  await see('createPet', '/v1/pets', { headers: { 'content-type': 'text/plain' } })
  await see('createPet', '/v1/pets', { headers: { 'content-encoding': 'gzip' } })
  await see('createPet', '/v1/pets', { body: REX }) // there is no room for a fourth
  const bug = t.mock.method(MemoryStore.prototype, 'page', () => assert.fail())
  await see('listPets', '/v1/pets')
  bug.mock.restore()
  renameSync(folder, `${folder}-away`)
  await see('createPet', '/v1/pets', { body: REX }, failing)
  await see('readyz', '/readyz', {}, failing)
  renameSync(`${folder}-away`, folder)
  await failing.close()
  const response = await failing.fetch(new URL('/readyz', failing.url))
  const headers = Object.fromEntries(response.headers)
  seen.push(['readyz', { status: response.status, headers, body: await response.text() }])
  return seen
}

const CODES = `400 bad_request, 400 invalid_parameter, 400 invalid_pet, 401 unauthorized, 404 not_found,
405 method_not_allowed, 408 request_timeout, 410 gone, 413 content_too_large, 415 unsupported_media_type,
417 expectation_failed, 431 headers_too_large, 500 injected_fault, 500 internal_error, 501 not_implemented,
503 not_ready, 503 storage_failed, 507 store_full`.split(/,\s/)

test('every code is documented with its status, and no schema is inline', () => {
  const text = JSON.stringify([DOCUMENT, documentOf({ basePath: '/v1', getPet: 'gone', page: true })])
  const errors = [...text.matchAll(/"code":"(\w+)","message":"[^"]+","status":(\d+)/g)]
  assert.deepEqual([...new Set(errors.map(([, code, status]) => `${status} ${code}`))].sort(), CODES)
  assert.equal(find(DOCUMENT, DOCUMENT, 'components', 'parameters', 'X-Request-Id', 'schema', 'pattern'), undefined)
  // Generators would have to make up a name for it, such as InlineObject14.
  assert.doesNotMatch(text, /"(?:allOf|anyOf|oneOf)"|"schema":\{[^}]*"properties"/)
})

test('the check of responses finds what is not documented, and throws at a keyword that it does not know', () => {
  const HEADERS = {
    'content-type': 'application/json',
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
  }
  const operation = operationsOf(DOCUMENT)[0]?.operation
  const breaches = (body: string, headers = {}) => {
    const status = Number(/"status":(\d+)/.exec(body)?.[1] ?? 200)
    return breachesOfOperation(DOCUMENT, operation, { status, headers: { ...HEADERS, ...headers }, body })
  }
  const [pet, error] = ['{"id":1,"name":"","categoryId":-1}', '{"code":"bad_request","message":"","status":400}']
  for (const body of [`[${Array(100).fill(pet)}]`, error]) assert.deepEqual(breaches(body), [])
  for (const body of ['{}', '[null]', '[[]]', `[${Array(101).fill(pet)}]`]) assert.notDeepEqual(breaches(body), [])
  for (const member of ['"id":0', '"id":"1"', '"id":1.5', '"id":1e19', '"colour":1', '"id":1,"status":"lost"']) {
    assert.notDeepEqual(breaches(`[${pet.replace('"id":1', member)}]`), [], member)
  }
  for (const name of ['content-type', 'cache-control', 'location', 'x-request-id']) {
    assert.notDeepEqual(breaches('[]', { [name]: 'a b' }), [], name)
  }
  const others = [
    ['bad_request', 'invalid_pet'],
    ['"message":"",', ''],
    ['"status"', '"more":1,"status"'],
    ['400', '401'],
  ]
  for (const [from = '', to = ''] of others) assert.notDeepEqual(breaches(error.replace(from, to)), [], to)
  assert.throws(() => breachesOf({}, { unevaluatedItems: true }, 1), /does not know unevaluatedItems/)
})
