import assert from 'node:assert/strict'
import { mkdirSync, renameSync } from 'node:fs'
import { test, type TestContext } from 'node:test'
import { openapi, type Variant } from '../../src/api/documents.ts'
import { MemoryStore } from '../../src/pets/store.ts'
import { open } from '../http/raw.ts'
import { type Answer, folderOf, send, type Sent, start } from '../support.ts'

// What the document says of responses, and what comes. Prism checks the schemas, in test/system/.
const REX = '{"name":"Rex","categoryId":1}'
const VARIANTS: readonly Omit<Variant, 'basePath'>[] = [true, false].flatMap((page) => {
  return (['deprecated', 'gone'] as const).map((getPetState) => ({ getPetState, page }))
})
const DOCUMENT = documentOf({ basePath: '/v1', getPetState: 'deprecated', page: true })

function documentOf(variant: Variant): unknown {
  const reply = openapi(variant)({ param: '', query: '', body: Buffer.alloc(0) })
  assert.ok(!(reply instanceof Promise) && typeof reply?.body === 'string')
  return JSON.parse(reply.body)
}

function entries(value: unknown): [name: string, value: unknown][] {
  return typeof value === 'object' && value !== null ? Object.entries(value) : []
}

/** Follows keys from a node of a document, through all references. */
function find(document: unknown, node: unknown, ...keys: readonly string[]): unknown {
  const members = new Map(entries(node))
  const reference = members.get('$ref')
  if (typeof reference === 'string')
    return find(document, document, ...reference.slice(2).split('/'), ...keys)
  const [key, ...rest] = keys
  return key === undefined ? node : find(document, members.get(key), ...rest)
}

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

for (const variant of VARIANTS) {
  test(`each operation answers what is documented: ${JSON.stringify(variant)}`, async (t) => {
    const document = documentOf({ basePath: '/v1', ...variant })
    const operations = operationsOf(document)
    for (const { id, operation } of operations) {
      for (const member of ['summary', 'description'])
        assert.ok(find(document, operation, member) !== undefined, id)
    }
    const seen = new Set<string>()
    for (const [name, answer] of await provoke(t, variant)) {
      const { status, headers, body } = answer
      const label = `${name} ${JSON.stringify(answer)}`
      const type = headers['content-type']?.replace(/;.*/, '') ?? ''
      const operation = operations.find(({ id }) => id === name)?.operation
      const response = find(document, operation, 'responses', `${status}`)
      assert.ok(find(document, response, 'content', type) !== undefined, label)
      if (name === 'openapi' && status === 200) assert.deepEqual(JSON.parse(body), document)
      if (status >= 400) seen.add(`${name} ${status} ${textOf(JSON.parse(body))}`)
      for (const header of Object.keys(headers).filter((one) => !NOT_DESCRIBED.test(one)))
        seen.add(`${name} ${status} ${header}`)
    }
    const documented = operations.flatMap((one) => statementsOf(document, one.id, one.operation))
    const withoutMessage = (statement: string) => statement.replace(/: .*/, '')
    const known = new Set(documented.map(withoutMessage))
    for (const one of seen) assert.ok(known.has(withoutMessage(one)), one)
    const unseen = documented.filter((one) => !seen.has(one) && !NOT_PROVOKED.test(one))
    assert.deepEqual(unseen, [])
  })
}

// HTTP's own headers, which the document leaves out.
const NOT_DESCRIBED = /^(?:content-type|content-length|date|connection|keep-alive)$/

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

async function provoke(t: TestContext, variant: Omit<Variant, 'basePath'>) {
  const folder = `${folderOf()}/pets`
  mkdirSync(folder)
  const pets = [JSON.parse(REX), JSON.parse(REX)]
  const petstore = await start(t, { ...variant, pets, maxStore: 450 })
  const impatient = await start(t, variant, { headersTimeout: 50, connectionsCheckingInterval: 10 })
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
    for (const at of [petstore, impatient]) {
      const rest = at === petstore ? `x: ${'x'.repeat(17_000)}` : ''
      const connection = await open(t, at, `${method} ${target} HTTP/1.1\r\n${rest}`)
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
  const variant = { page: true, basePath: '/shop/eu', getPetState: 'gone' } as const
  const elsewhere = JSON.stringify(documentOf(variant))
  assert.match(elsewhere, /"servers":\[\{"url":"\/shop\/eu"/)
  assert.doesNotMatch(elsewhere, /\/v1/)
  const text = JSON.stringify(DOCUMENT) + elsewhere
  const requestId = find(DOCUMENT, DOCUMENT, 'components', 'parameters', 'X-Request-Id')
  assert.equal(find(DOCUMENT, requestId, 'schema', 'pattern'), undefined)
  // Generators would have to make up a name for it, such as InlineObject14.
  assert.doesNotMatch(text, /"(?:allOf|anyOf|oneOf)"|"schema":\{[^}]*"properties"/)
})
