// The OpenAPI document, held against what is served, and the page.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test, type TestContext } from 'node:test'
import type { Added, Store } from '../../src/types.ts'
import { type Answer, send, type Sent, start } from '../support.ts'

interface Described {
  $ref?: string
  description: string
  headers?: object
  content?: Record<string, { examples: Record<string, { value: Partial<ErrorBody> }> }>
}

interface Document {
  servers: { url: string }[]
  paths: Record<
    string,
    Record<string, { operationId: string; responses: Record<string, Described> }>
  >
  components: {
    responses: Record<string, Described>
    schemas: { Error: { properties: { code: { examples: string[] } } } }
  }
}

interface ErrorBody {
  code: string
  message: string
}

/** What the document says of an operation's responses, by status. */
interface Operation {
  id: string
  method: string
  path: string
  responses: ReadonlyMap<string, { headers: string[]; errors: Partial<ErrorBody>[] }>
}

const REX = '{"name":"Rex","categoryId":1}'
// A bug, and ten seconds.
const NOT_PROVOKED = ['internal_error', 'request_timeout']
// What the document says once for all responses, and what is HTTP's own.
const OF_ALL = /^(?:cache-control|x-content-type-options|content-\w+|date|connection|keep-alive)$/

function operationsOf({ paths, components }: Document): Operation[] {
  const described = ([status, response]: [string, Described]) => {
    const name = response.$ref?.split('/').at(-1) ?? ''
    const { headers = {}, content = {} } = components.responses[name] ?? response
    const examples = Object.values(content['application/json']?.examples ?? {})
    const errors = examples.map(({ value }) => value).filter(({ code }) => code !== undefined)
    return [status, { headers: Object.keys(headers).map(lowerCase), errors }] as const
  }
  return Object.entries(paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, { operationId, responses }]) => ({
      id: operationId,
      method: method.toUpperCase(),
      path: `/v1${path.replace('{petId}', '1')}`,
      responses: new Map(Object.entries(responses).map(described)),
    })),
  )
}

const lowerCase = (text: string) => text.toLowerCase()

/** A store of which reads fail, and creates as the name of the pet says. */
const FAILING: Store = {
  page: () => assert.fail('no page'),
  get: () => assert.fail('no pet'),
  add: ({ name }): Added => {
    const reason = (['store_full', 'storage_failed'] as const).find((one) => one === name)
    return reason ? { ok: false, reason } : assert.fail('lost')
  },
  reset: () => true,
  isWritable: () => false,
  close: () => {},
}

/** Asks for each response that the document knows. */
async function provoke(t: TestContext, operations: Operation[]) {
  const pets = [JSON.parse(REX), JSON.parse(REX)]
  const petstore = await start(t, { pets })
  const gone = await start(t, { getPetState: 'gone' })
  const failing = await start(t, { store: FAILING })
  const answers: [operation: Operation, answer: Answer][] = []
  for (const operation of operations) {
    const { id, method, path } = operation
    const isCreate = id === 'createPet'
    const see = async (sent: Sent, target = path, at = petstore, by = method) => {
      answers.push([operation, await send(at, by, target, sent)])
    }
    await see(isCreate ? { body: REX } : {})
    await see({ headers: { authorization: '' } })
    await see({ headers: { host: 'a b' } })
    await see({ headers: { expect: 'miracles' } })
    await see({ headers: { 'x-more': 'x'.repeat(17_000) } })
    if (id === 'listOrders') continue
    await see({}, path, petstore, 'PUT')
    petstore.inject({ operation: '*', status: 429 })
    await see(isCreate ? { body: REX } : {})
    if (!isCreate) await see({}, path, failing)
  }
  const rows: [id: string, sent: Sent, target?: string, at?: typeof petstore][] = [
    ['listPets', {}, '/v1/pets?limit=1'],
    ['listPets', {}, '/v1/pets?limit=0&after=x&status=y'],
    ['createPet', { body: '{}' }],
    ['createPet', { body: 'x'.repeat(65_537) }],
    ['createPet', { body: REX, headers: { 'content-type': 'text/plain' } }],
    ['createPet', { body: REX }, '/v1/pets', failing],
    ['createPet', { body: REX.replace('Rex', 'store_full') }, '/v1/pets', failing],
    ['createPet', { body: REX.replace('Rex', 'storage_failed') }, '/v1/pets', failing],
    ['getPet', {}, '/v1/pets/9'],
    ['getPet', {}, '/v1/pets/1', gone],
  ]
  for (const [name, sent, target = '/v1/pets', at = petstore] of rows) {
    const operation = operations.find(({ id }) => id === name)
    assert.ok(operation)
    answers.push([operation, await send(at, operation.method, target, sent)])
  }
  return answers
}

test('each operation answers what is documented, and nothing else', async (t) => {
  const { body } = await send(await start(t), 'GET', '/openapi.json')
  const document: Document = JSON.parse(body)
  const operations = operationsOf(document)
  const documented = operations.flatMap(({ id, responses }) => {
    return Array.from(responses).flatMap(([status, { headers, errors }]) => [
      `${id} ${status}`,
      ...headers.map((header) => `${id} ${status} ${header}`),
      ...errors.map(({ code }) => `${id} ${status} ${code}`),
    ])
  })
  const sent = new Set<string>()
  const errors = new Map<string, ErrorBody>()
  for (const [{ id, responses }, answer] of await provoke(t, operations)) {
    const status = responses.has(`${answer.status}`) ? `${answer.status}` : 'default'
    const headers = Object.keys(answer.headers).filter((name) => !OF_ALL.test(name))
    for (const header of headers) sent.add(`${id} ${status} ${header}`)
    sent.add(`${id} ${status}`)
    if (answer.status < 400) continue
    const error: ErrorBody = JSON.parse(answer.body)
    sent.add(`${id} ${status} ${error.code}`)
    errors.set(`${error.code}: ${error.message}`, error)
  }
  const isProvoked = (one: string) => !/ (?:408|500)\b/.test(one)
  assert.deepEqual([...sent].sort(), documented.filter(isProvoked).sort())

  const examples = operations.flatMap(({ responses }) => {
    return Array.from(responses.values()).flatMap(({ errors }) => errors)
  })
  for (const { code = '', message } of examples) {
    const isSent = errors.has(`${code}: ${message}`) || NOT_PROVOKED.includes(code)
    assert.ok(isSent, `no response has the message ${message}`)
  }
  const codes = new Set([...errors.values()].map(({ code }) => code))
  const all = [...codes, ...NOT_PROVOKED, 'not_ready'] // of /readyz
  assert.deepEqual(document.components.schemas.Error.properties.code.examples.sort(), all.sort())
})

test('the document has the base path of its server', async (t) => {
  for (const [basePath, url] of [
    ['/v1', '/v1'],
    ['/shop/eu', '/shop/eu'],
    ['', '/'],
  ] as const) {
    const petstore = await start(t, { basePath })
    const { body, headers } = await send(petstore, 'GET', '/openapi.json', { headers: {} })
    const { servers, paths }: Document = JSON.parse(body)
    assert.equal(headers['content-type'], 'application/json')
    assert.deepEqual(servers, [{ url }])
    assert.deepEqual(Object.keys(paths), ['/pets', '/pets/{petId}', '/store/orders'])
    assert.ok(body.includes(`<${basePath}/pets>; rel=\\"successor-version\\"`))
    assert.equal(body.includes('/v1'), basePath === '/v1')
  }
})

test('the page is one file, whose policy allows its own script and style only', async (t) => {
  const { body: html, headers } = await send(await start(t, { basePath: '/shop' }), 'GET', '/')
  assert.equal(headers['content-type'], 'text/html; charset=utf-8')
  const hashOf = (name: string) => {
    const [, text = '', ...more] = html.split(new RegExp(`</?${name}>`))
    assert.equal(more.length, 1, `one ${name}`)
    return `'sha256-${createHash('sha256').update(text).digest('base64')}'`
  }
  assert.equal(
    headers['content-security-policy'],
    `default-src 'none'; script-src ${hashOf('script')}; style-src ${hashOf('style')}; ` +
      "img-src data:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; " +
      "form-action 'none'",
  )
  assert.equal(headers['referrer-policy'], 'no-referrer')
  const markup = html.replace(/<(script|style)>.*?<\/\1>/gs, '')
  assert.doesNotMatch(markup, /<(?:script|style|iframe|base)\b|\s(?:style|on\w+|src)=|javascript:/i)
})
