import assert from 'node:assert/strict'
import { mkdirSync, renameSync } from 'node:fs'
import { test, type TestContext } from 'node:test'
import { createPetstore } from '../../src/petstore/launch.ts'
import { MemoryStore } from '../../src/pets/store.ts'
import type { PetstoreOptions } from '../../src/types.ts'
import { open } from '../http/raw.ts'
import { type Answer, folderOf, send, type Sent, start } from '../support.ts'

// What the document says of responses, and what comes. Prism checks the schemas, in test/system/.
const REX = '{"name":"Rex","categoryId":1}'
const VARIANTS: readonly PetstoreOptions[] = [true, false].flatMap((page) => {
  return (['deprecated', 'gone'] as const).map((getPetState) => ({ getPetState, page }))
})

interface Operation {
  operationId: string
  summary?: string
  description?: string
  responses: Record<string, Described | undefined>
}

interface Described {
  headers?: object
  content?: Record<string, { examples?: Record<string, { value: ErrorBody }> }>
}

type ErrorBody = Record<'code' | 'message', string>

async function textOf(options: PetstoreOptions): Promise<string> {
  const { fetch, url } = createPetstore(options)
  return (await fetch(new URL('/openapi.json', url))).text()
}

/** The operations of a document, with what its references name in their places. */
function operationsOf(text: string) {
  const document = JSON.parse(text)
  const find = (place: string) =>
    place.split('/').reduce((node, key) => (key === '#' ? node : node[key]), document)
  const resolve = (node: unknown): Record<string, Record<string, Operation>> =>
    JSON.parse(JSON.stringify(node), (_, value) =>
      typeof value?.$ref === 'string' ? resolve(find(value.$ref)) : value,
    )
  return Object.entries(resolve(document.paths)).flatMap(([path, item]) =>
    Object.entries(item).flatMap(([method, operation]) =>
      operation.operationId ? { ...operation, path, method: method.toUpperCase() } : [],
    ),
  )
}

for (const variant of VARIANTS) {
  test(`each operation answers what is documented: ${JSON.stringify(variant)}`, async (t) => {
    const operations = operationsOf(await textOf(variant))
    for (const { summary, description } of operations) assert.ok(summary && description)
    const seen = new Set<string>()
    for (const [name, answer] of await provoke(t, variant)) {
      const { status, headers, body } = answer
      const label = `${name} ${JSON.stringify(answer)}`
      const type = headers['content-type']?.replace(/;.*/, '') ?? ''
      const operation = operations.find(({ operationId }) => operationId === name)
      assert.ok(operation?.responses[status]?.content?.[type], label)
      if (status >= 400) seen.add(`${name} ${status} ${shown(JSON.parse(body))}`)
      for (const header of Object.keys(headers).filter((one) => !NOT_DESCRIBED.test(one)))
        seen.add(`${name} ${status} ${header}`)
    }
    const documented = operations.flatMap(statementsOf)
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

const shown = ({ code, message }: ErrorBody) => `${code}: ${message}`

/** What the document says of an operation: each status with its headers and errors. */
function statementsOf({ operationId, responses }: Operation): string[] {
  return Object.entries(responses).flatMap(([status, { headers = {}, content } = {}]) => {
    const examples = Object.values(content?.['application/json']?.examples ?? {})
    const errors = Number(status) < 400 ? [] : examples.map(({ value }) => shown(value))
    const names = Object.keys(headers).map((name) => name.toLowerCase())
    return [...names, ...errors].map((what) => `${operationId} ${status} ${what}`)
  })
}

async function provoke(t: TestContext, variant: PetstoreOptions) {
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
  const operations = operationsOf(await textOf(variant))
  for (const { operationId: id, path, method } of operations) {
    const target = `/v1${path.replace('{petId}', '1')}`
    await see(id, target, method === 'POST' ? { body: REX } : {})
    assert.equal(petstore.requests.at(-1)?.operation, id)
    await see(id, target, { headers: { authorization: '' } })
    await see(id, target, { headers: { host: 'a b' } })
    await see(id, target, { headers: { expect: 'miracles' } })
    await see(id, target, { headers: { 'transfer-encoding': 'gzip, chunked' } })
    for (const at of [petstore, impatient]) {
      const rest = at === petstore ? `x: ${'x'.repeat(40_000)}` : ''
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
  const add = () => ({ ok: false, reason: 'outcome_unknown' }) as const
  const lost = t.mock.method(MemoryStore.prototype, 'add', add)
  await see('createPet', '/v1/pets', { body: REX })
  lost.mock.restore()
  renameSync(folder, `${folder}-away`)
  await see('createPet', '/v1/pets', { body: REX }, failing)
  renameSync(`${folder}-away`, folder)
  return seen
}

test('the document has the base path that is configured, and no inline schema', async () => {
  const elsewhere = await textOf({ basePath: '/shop/eu', getPetState: 'gone' })
  assert.match(elsewhere, /"servers":\[\{"url":"\/shop\/eu"/)
  assert.doesNotMatch(elsewhere, /\/v1/)
  const text = await textOf({})
  // Faults send any code, which no generated client may refuse.
  const { code } = JSON.parse(text).components.schemas.Error.properties
  assert.deepEqual([code.type, code.enum], ['string', undefined])
  assert.ok(code.examples.includes('gone'))
  // Generators would have to make up a name for it, such as InlineObject14.
  for (const one of [text, elsewhere])
    assert.doesNotMatch(one, /"(?:allOf|anyOf|oneOf)"|"schema":\{[^}]*"properties"/)
})

test('no operation is outside the base path, where clients would not call it', async () => {
  const { info, paths, servers } = JSON.parse(await textOf({}))
  assert.deepEqual(Object.keys(paths), ['/pets', '/pets/{petId}', '/store/orders'])
  for (const path of ['/livez', '/readyz', '/openapi.json', '/'])
    assert.match(info.description, new RegExp(`\`GET ${path}\``))
  assert.deepEqual(servers, [{ url: '/v1' }])
  for (const item of Object.values<object>(paths)) assert.ok(!('servers' in item))
})

test('every integer has a format and bounds, which are exact', async () => {
  const text = await textOf({})
  const bounds = Array.from(text.matchAll(/"(?:min|max)imum":([^,}]*)/g), ([, bound]) => bound)
  const [min64, max64] = ['-9223372036854775808', '9223372036854775807']
  const categoryId = [min64, max64]
  const [petId, status, limit, after] = [
    ['1', max64],
    ['400', '599'],
    ['1', '100'],
    ['0', max64],
  ]
  assert.deepEqual(bounds, [categoryId, categoryId, petId, status, limit, after].flat())
  const formats: unknown[] = []
  JSON.parse(text, (_, value) => {
    if (value?.type === 'integer') formats.push(value.format)
    return value
  })
  assert.deepEqual(formats, ['int64', 'int64', 'int64', 'int32', 'int32', 'int64'])
})

test('only a strict server has a document that allows no other member of a NewPet', async () => {
  const [text, strict] = [await textOf({}), await textOf({ strict: true })]
  const { schemas } = JSON.parse(strict).components
  assert.equal(schemas.NewPet.additionalProperties, false)
  assert.equal(strict.replace(',"additionalProperties":false', ''), text)
})
