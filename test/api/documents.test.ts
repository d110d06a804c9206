// The OpenAPI document and the page, and every address that the server hands out.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Answer, outcomeOf, send, start } from '../support.ts'

const BASE_PATHS = ['/v1', '', '/shop/v1', '/v1/v1']
const PETS = [
  { name: 'Rex', categoryId: 7, status: 'sold' as const },
  { name: 'Tom', categoryId: 7 },
]
const NO_KEY = { headers: { authorization: '' } }
const REX = '{"name":"Rex","categoryId":7}'

interface Schema {
  type: string
  required: string[]
  properties: Record<string, { examples?: unknown[] }>
}

interface Operation {
  operationId: string
  deprecated?: boolean
  responses: Record<string, unknown>
}

interface Document {
  openapi: string
  info: { version: string; description: string }
  servers: { url: string }[]
  security: unknown
  paths: Record<string, Record<string, Operation>>
  components: {
    securitySchemes: Record<string, { type: string; scheme: string }>
    schemas: Record<'NewPet' | 'Error', Schema> & {
      Pet: { allOf: [Schema, { $ref: string }] }
      PetStatus: { enum: string[] }
    }
    parameters: Record<string, { schema: object }>
    responses: Record<string, unknown>
  }
}

async function documentOf(petstore: { url: string }): Promise<Document> {
  const { body } = await send(petstore, 'GET', '/openapi.json', NO_KEY)
  return JSON.parse(body)
}

/** The targets of a Link header, by their relation. */
function linksOf({ headers }: Answer): Record<string, string> {
  const links = String(headers['link'] ?? '').matchAll(/<([^>]*)>; rel="([^"]*)"/g)
  return Object.fromEntries(Array.from(links, ([, target, rel]) => [rel, target]))
}

for (const basePath of BASE_PATHS) {
  test(`every address leads where it says, with the base path "${basePath}"`, async (t) => {
    const petstore = await start(t, { basePath, pets: PETS })
    const follow = async (
      from: string,
      address = '',
      method = 'GET',
      body = '',
    ): Promise<Answer> => {
      const { origin, pathname, search } = new URL(address, new URL(from, petstore.url))
      assert.equal(origin, new URL(petstore.url).origin, address)
      const answer = await send(petstore, method, pathname + search, body ? { body } : {})
      assert.ok(answer.status < 300, `${address} of ${from} is ${answer.status}`)
      return answer
    }
    assert.equal(new URL(petstore.url).pathname, basePath || '/')
    assert.match((await follow(`${petstore.url}/pets`)).body, /^\[/)

    const { servers, paths, info } = await documentOf(petstore)
    assert.deepEqual(servers, [{ url: basePath || '/' }])
    const server = servers[0]?.url.replace(/\/$/, '')
    for (const [path, item] of Object.entries(paths)) {
      const address = server + path.replace('{petId}', '2')
      for (const method of Object.keys(item)) {
        await follow('/openapi.json', address, method.toUpperCase(), method === 'post' ? REX : '')
      }
    }
    for (const [, address] of info.description.matchAll(/`GET (\S+)`/g)) {
      await follow('/openapi.json', address)
    }

    const page = await follow('/', '/')
    for (const [, address = ''] of page.body.matchAll(/\b(?:href|src|action)="([^"]*)"/g)) {
      if (!address.startsWith('data:')) await follow('/', address)
    }

    const list = `${basePath}/pets?limit=1`
    const next = await follow(list, linksOf(await follow(list))['next'])
    assert.match(next.body, /^\[\{"id":2,/)

    const created = await follow(list, `${basePath}/pets`, 'POST', REX)
    const pet = await follow(list, created.headers.location)
    assert.equal(pet.body, created.body)
    const links = linksOf(pet)
    assert.match((await follow(`${basePath}/pets/3`, links['successor-version'])).body, /^\[/)
    const deprecation = await follow(`${basePath}/pets/3`, links['deprecation'])
    assert.equal(deprecation.headers['content-type'], 'text/html; charset=utf-8')

    for (const path of [`${basePath}/none`, '/none']) {
      const { body } = await send(petstore, 'GET', path)
      const { message } = JSON.parse(body)
      const [where = ''] = /\/\S*$/.exec(message) ?? [] // at the end of the sentence
      assert.match((await follow(path, `${where.replace(/\/$/, '')}/pets`)).body, /^\[/)
    }
  })
}

const STATUSES: Record<string, string[]> = {
  listPets: ['200', '401', 'default'],
  createPet: ['201', '400', '401', 'default'],
  getPet: ['200', '401', '404', 'default'],
}

test('the document names the operations, statuses and limits of the contract', async (t) => {
  const { info, paths, security, components } = await documentOf(await start(t))
  assert.equal(info.version, '1.0.0')
  const named = Object.entries(paths).flatMap(([path, item]) => {
    return Object.entries(item).map(([method, { operationId, deprecated = false }]) => {
      return [method, path, operationId, deprecated]
    })
  })
  assert.deepEqual(named, [
    ['get', '/pets', 'listPets', false],
    ['post', '/pets', 'createPet', false],
    ['get', '/pets/{petId}', 'getPet', true],
  ])
  for (const { operationId, responses } of Object.values(paths).flatMap(Object.values<Operation>)) {
    assert.deepEqual(Object.keys(responses), STATUSES[operationId])
    for (const [status, response] of Object.entries(responses)) {
      const schema = JSON.stringify(resolved(response, components))
      assert.equal(schema.includes('/schemas/Error"'), !status.startsWith('2'), operationId)
    }
  }
  const [scheme, ...others] = Object.keys(components.securitySchemes)
  assert.deepEqual([security, others], [[{ [String(scheme)]: [] }], []])
  const { type, scheme: name } = components.securitySchemes[String(scheme)] ?? {}
  assert.deepEqual([type, name], ['http', 'bearer'])
  assert.deepEqual(components.schemas.PetStatus.enum, ['available', 'pending', 'sold'])
  const limit = { type: 'integer', format: 'int32', minimum: 1, maximum: 100, default: 20 }
  assert.deepEqual(components.parameters['limit']?.schema, limit)
})

/** A response of the document, or what it refers to. */
function resolved(response: unknown, { responses }: Document['components']): unknown {
  const { $ref }: { $ref?: string } = Object(response)
  return $ref ? responses[$ref.replace(/^.*\//, '')] : response
}

test('its schemas have the members and codes that the server sends', async (t) => {
  const petstore = await start(t, { pets: PETS })
  const { Pet, NewPet, Error } = (await documentOf(petstore)).components.schemas
  const [full, least] = JSON.parse((await send(petstore, 'GET', '/v1/pets')).body)
  const [own, base] = Pet.allOf // a pet is a NewPet with an id
  assert.deepEqual(base, { $ref: '#/components/schemas/NewPet' })
  const members = [...Object.keys(own.properties), ...Object.keys(NewPet.properties)]
  assert.deepEqual(Object.keys(full), members)
  assert.deepEqual(Object.keys(least), [...own.required, ...NewPet.required])

  const { headers, body } = await send(petstore, 'GET', '/v1/none')
  assert.equal(headers['content-type'], 'application/json')
  for (const names of [Object.keys(Error.properties), Error.required]) {
    assert.deepEqual(Object.keys(JSON.parse(body)), names)
  }
  petstore.inject({ operation: 'listPets', status: 429 })
  const codes = Error.properties['code']?.examples
  for (const [method, path, sent] of [
    ['GET', '/v1/none', {}],
    ['GET', '/v1/pets', NO_KEY],
    ['GET', '/v1/pets', {}], // the fault
    ['GET', '/v1/pets?limit=0', {}],
    ['PUT', '/v1/pets', {}],
    ['POST', '/v1/pets', { body: '{' }],
    ['POST', '/v1/pets', { body: '{}' }],
    ['POST', '/v1/pets', { body: 'x'.repeat(65_537) }],
    ['POST', '/v1/pets', { headers: { 'content-type': 'text/plain' }, body: REX }],
    ['GET', '/v1/store/orders', {}],
  ] as const) {
    const [, code] = outcomeOf(await send(petstore, method, path, sent)).split(' ')
    assert.ok(codes?.includes(code), code)
  }
})

test('the page is HTML', async (t) => {
  const { headers } = await send(await start(t), 'GET', '/', NO_KEY)
  assert.equal(headers['content-type'], 'text/html; charset=utf-8')
})
