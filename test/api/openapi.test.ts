import assert from 'node:assert/strict'
import { mkdirSync, renameSync } from 'node:fs'
import { test, type TestContext } from 'node:test'
import type { Variant } from '../../src/api/documents.ts'
import { MemoryStore } from '../../src/pets/store.ts'
import { breachesOf, breachesOfOperation, documentOf, entries } from '../contract.ts'
import { find, VARIANTS } from '../contract.ts'
import { type Answer, folderOf, RawConnection, send, type Sent, start } from '../support.ts'

const REX = '{"name":"Rex","categoryId":1}'
const DOCUMENT = documentOf({ basePath: '/v1', getPetState: 'deprecated', page: true })

function operationsOf(document: unknown) {
  return entries(find(document, document, 'paths')).flatMap(([path, item]) =>
    entries(item).flatMap(([method, operation]) => {
      const id = find(document, operation, 'operationId')
      const isOpen = find(document, operation, 'security') !== undefined
      return typeof id === 'string'
        ? { id, path, method: method.toUpperCase(), isOpen, operation }
        : []
    }),
  )
}

function nameOf({ getPetState, page }: Omit<Variant, 'basePath'>): string {
  return `getPet ${getPetState}, ${page ? 'with' : 'without'} page`
}

for (const variant of VARIANTS) {
  test(`each operation answers exactly what is documented, ${nameOf(variant)}`, async (t) => {
    const document = documentOf({ basePath: '/v1', ...variant })
    const operations = operationsOf(document)
    for (const { id, operation } of operations) {
      for (const member of ['summary', 'description'])
        assert.ok(find(document, operation, member) !== undefined, id)
    }
    const seen = new Set<string>()
    for (const [name, answer] of await provoke(t, variant)) {
      const { status, headers, body } = answer
      const operation = operations.find(({ id }) => id === name)?.operation
      const breaches = breachesOfOperation(document, operation, answer)
      assert.deepEqual(breaches, [], `${name} ${JSON.stringify(answer)}`)
      if (name === 'openapi' && status === 200) assert.deepEqual(JSON.parse(body), document)
      if (status >= 400) seen.add(`${name} ${status} ${textOf(JSON.parse(body))}`)
      for (const header of Object.keys(headers)) seen.add(`${name} ${status} ${header}`)
    }
    const documented = operations.flatMap((one) => statementsOf(document, one.id, one.operation))
    const isMissing = (one: string) => !seen.has(one) && !NOT_PROVOKED.test(one)
    assert.deepEqual(documented.filter(isMissing), [])
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
    const headers = entries(find(document, response, 'headers'))
    const names = headers.map(([name]) => name.toLowerCase())
    const examples = entries(find(document, response, 'content', 'application/json', 'examples'))
    const errors = examples.map(([, example]) => textOf(find(document, example, 'value')))
    const said = Number(status) < 400 ? names : [...names, ...errors]
    return said.map((what) => `${id} ${status} ${what}`)
  })
}

async function provoke(
  t: TestContext,
  variant: Omit<Variant, 'basePath'>,
): Promise<[operation: string, Answer][]> {
  const folder = `${folderOf(t)}/pets`
  mkdirSync(folder)
  const pets = [JSON.parse(REX), JSON.parse(REX)]
  const petstore = await start(t, { ...variant, pets, maxStore: 450 })
  const impatient = await start(t, variant, { headersTimeout: 50, checkInterval: 10 })
  const failing = await start(t, { ...variant, snapshot: `${folder}/pets.json` })
  const seen: [operation: string, answer: Answer][] = []
  async function see(id: string, target: string, sent: Sent = {}, at = petstore): Promise<void> {
    const headers = { 'x-request-id': 'a-b', ...sent.headers }
    const method = id === 'createPet' ? 'POST' : 'GET'
    seen.push([id, await send(at, method, target, { ...sent, headers })])
  }
  const document = documentOf({ basePath: '/v1', ...variant })
  for (const { id, path, method, isOpen } of operationsOf(document)) {
    const target = `${isOpen ? '' : '/v1'}${path.replace('{petId}', '1')}`
    const withoutKey = { headers: { authorization: '' } }
    await see(id, target, { ...(isOpen && withoutKey), ...(method === 'POST' && { body: REX }) })
    const isProbe = id.endsWith('z') // which is not recorded
    if (!isProbe) assert.equal(petstore.requests.at(-1)?.operation, id)
    if (!isOpen) await see(id, target, withoutKey)
    await see(id, target, { headers: { host: 'a b' } })
    await see(id, target, { headers: { expect: 'miracles' } })
    await see(id, target, { headers: { 'transfer-encoding': 'gzip, chunked' } })
    for (const [at, rest] of [
      [petstore, `x: ${'x'.repeat(17_000)}`],
      [impatient, ''],
    ] as const) {
      const connection = new RawConnection(t, at)
      await connection.write(`${method} ${target} HTTP/1.1\r\n${rest}`)
      seen.push([id, await connection.read()])
    }
  }
  for (const query of ['limit=1', 'limit=0&after=x&status=y'])
    await see('listPets', `/v1/pets?${query}`)
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

test('the document has the base path that is configured, and no inline schema', () => {
  const variant = { basePath: '/shop/eu', getPetState: 'gone', page: true } as const
  const elsewhere = JSON.stringify(documentOf(variant))
  assert.match(elsewhere, /"servers":\[\{"url":"\/shop\/eu"/)
  assert.doesNotMatch(elsewhere, /\/v1/)
  const text = JSON.stringify(DOCUMENT) + elsewhere
  const requestId = find(DOCUMENT, DOCUMENT, 'components', 'parameters', 'X-Request-Id')
  assert.equal(find(DOCUMENT, requestId, 'schema', 'pattern'), undefined)
  // Generators would have to make up a name for it, such as InlineObject14.
  assert.doesNotMatch(text, /"(?:allOf|anyOf|oneOf)"|"schema":\{[^}]*"properties"/)
})

test('the check finds what is not documented, and throws at an unknown keyword', () => {
  const operation = operationsOf(DOCUMENT)[0]?.operation
  const caching = { 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' }
  const headers = { 'content-type': 'application/json', ...caching }
  const breaches = (body: string, status = 200, more = {}) =>
    breachesOfOperation(DOCUMENT, operation, { status, headers: { ...headers, ...more }, body })
  const pet = '{"id":1,"name":"","categoryId":-1}'
  assert.deepEqual(breaches(`[${Array(100).fill(pet)}]`), [])
  const wrongIds = ['"id":0', '"id":"1"', '"id":1.5', '"id":1e19']
  const wrong = [...wrongIds, '"colour":1', '"id":1,"status":"lost"']
  const pets = wrong.map((member) => `[${pet.replace('"id":1', member)}]`)
  for (const body of ['{}', '[[]]', `[${Array(101).fill(pet)}]`, ...pets])
    assert.notDeepEqual(breaches(body), [], body)
  for (const code of ['bad_request', 'invalid_pet']) {
    const body = JSON.stringify({ code, message: '', status: 400 })
    assert.equal(breaches(body, 400).length === 0, code === 'bad_request')
  }
  for (const name of ['content-type', 'location'])
    assert.notDeepEqual(breaches('[]', 200, { [name]: 'a b' }), [], name)
  const checkUnknown = () => breachesOf({}, { unevaluatedItems: true }, 1)
  assert.throws(checkUnknown, /does not know unevaluatedItems/)
})
