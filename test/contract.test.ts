// The contract, as tables of requests and responses: for our own server, or for any other.
//   PETSTORE_URL=https://…/v1 PETSTORE_API_KEY=… npm run conformance
// This only reads from another server, unless PETSTORE_CREATE=1 lets it add animals.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { inspect } from 'node:util'
import { startPetstore } from '../src/index.ts'

const { PETSTORE_URL, PETSTORE_API_KEY = '', PETSTORE_CREATE } = process.env
if (PETSTORE_URL && !/^[!-~]+$/.test(PETSTORE_API_KEY)) {
  throw new Error('PETSTORE_API_KEY must be the key, in visible ASCII') // fetch would show it
}
const server = PETSTORE_URL
  ? Promise.resolve({ url: PETSTORE_URL.replace(/\/$/, ''), apiKey: PETSTORE_API_KEY })
  : startPetstore({ pets: [{ name: 'Tom', categoryId: 1 }] })
after(async () => {
  const started = await server
  if ('close' in started) await started.close()
})
const skip = Boolean(PETSTORE_URL) && PETSTORE_CREATE !== '1' && 'PETSTORE_CREATE=1 allows it'

interface Animal {
  id: bigint
  name: string
  categoryId: bigint
  status?: string
}

const STATUSES = ['available', 'pending', 'sold']
const REX = '{"name":"Rex","categoryId":7}'

/** Sends a request, and checks that its status is the expected one and its body JSON. */
async function ask(
  request: string,
  status: number | '4xx',
  { authorization = 'Bearer {key}', body }: { authorization?: string; body?: string } = {},
): Promise<unknown> {
  const { url, apiKey } = await server
  const [method = '', path = ''] = request.split(' ')
  const headers = new Headers()
  const value = authorization.replace('{key}', () => apiKey)
  if (value !== '') headers.set('authorization', value)
  if (body !== undefined) headers.set('content-type', 'application/json')
  const sent = { method, headers, body: body ?? null, redirect: 'manual' } as const
  const response = await fetch(url + path, sent)
  // No failure shows the key, even if the server sends it back.
  const text = (await response.text()).replaceAll(apiKey, '[key]')
  const type = response.headers.get('content-type')?.replaceAll(apiKey, '[key]') ?? ''
  const isExpected = status === '4xx' ? /^4/.test(`${response.status}`) : response.status === status
  assert.ok(isExpected, `${request} must be ${status}: ${response.status} ${text}`)
  assert.match(type, /^application\/json *(;|$)/i)
  const json = jsonOf(text)
  if (response.status >= 400) assertError(json, response.status)
  return json
}

/** The value of a JSON text, with ids as bigints: a number would round them. */
function jsonOf(text: string): unknown {
  const marked = text.replace(/(?<="(?:id|categoryId)"\s*:\s*)-?\d+(?=\s*[,}])/g, '"int64 $&"')
  return JSON.parse(marked, (_, value) => {
    return /^int64 -?\d+$/.test(value) ? BigInt(value.slice(6)) : value
  })
}

function assertError(json: unknown, status: number): void {
  const { code, message }: Record<string, unknown> = Object(json)
  assert.deepEqual(json, { code: String(code), message: String(message), status })
}

function isAnimal(json: unknown): json is Animal {
  const { id, name, categoryId, status, ...more }: Record<string, unknown> = Object(json)
  const hasIds = [id, categoryId].every((one) => {
    return typeof one === 'bigint' && BigInt.asIntN(64, one) === one
  })
  const hasStatus = status === undefined || STATUSES.some((one) => one === status)
  return hasIds && typeof name === 'string' && hasStatus && Object.keys(more).length === 0
}

function animalOf(json: unknown): Animal {
  assert.ok(isAnimal(json), `not an Animal: ${inspect(json)}`)
  return json
}

async function list(query: string): Promise<Animal[]> {
  const json = await ask(`GET /pets${query}`, 200)
  assert.ok(Array.isArray(json), `not an array: ${inspect(json)}`)
  const animals = json.map(animalOf)
  assert.equal(new Set(animals.map(({ id }) => id)).size, animals.length, 'each id is unique')
  return animals
}

async function create(body: string): Promise<Animal> {
  return animalOf(await ask('POST /pets', 201, { body }))
}

const OPERATIONS: [operation: string, request: string, body?: string][] = [
  ['listPets', 'GET /pets'],
  ['getPet', 'GET /pets/1'],
  ['createPet', 'POST /pets', REX],
]
const CREDENTIALS: [what: string, authorization: string][] = [
  ['no key', ''],
  ['an empty key', 'Bearer '],
  ['an invalid key', 'Bearer not-a-key-of-this-server'],
  ['more than the key', 'Bearer {key}x'],
  ['another scheme', 'Basic {key}'],
  ['no scheme', '{key}'],
]
for (const [operation, request, body] of OPERATIONS) {
  for (const [what, authorization] of CREDENTIALS) {
    test(`${operation} with ${what} is 401`, { skip: body ? skip : false }, async () => {
      await ask(request, 401, body ? { authorization, body } : { authorization })
    })
  }
}

const CREATED: [what: string, body: string][] = [
  ['that is available', '{"name":"Rex","categoryId":7,"status":"available"}'],
  ['that is pending', '{"name":"Rex","categoryId":-1,"status":"pending"}'],
  ['that is sold', '{"status":"sold","categoryId":0,"name":"Rex"}'],
  ['without a status', REX],
  ['with the greatest categoryId', '{"name":"Rex","categoryId":9223372036854775807}'],
  ['with the least categoryId', '{"name":"Rex","categoryId":-9223372036854775808}'],
  ['with a categoryId beyond 2^53', '{"name":"Rex","categoryId":9007199254740993}'],
  ['with any characters in its name', String.raw`{"name":"Zoë 🐕 \"\\\u00e9/","categoryId":7}`],
]
for (const [what, body] of CREATED) {
  test(`createPet with an animal ${what} is 201, and getPet returns it`, { skip }, async () => {
    const animal = await create(body)
    // The contract does not say what the status is where none was sent.
    assert.deepEqual(animal, { ...animal, ...Object(jsonOf(body)) })
    assert.deepEqual(await ask(`GET /pets/${animal.id}`, 200), animal)
  })
}

test('createPet assigns the id, whatever the client sends', { skip }, async () => {
  const { id } = await create(REX)
  const { id: next } = await create(`{"id":${id},"name":"Rex","categoryId":7}`)
  assert.notEqual(next, id)
})

test('createPet assigns another id to each of 21 animals', { skip }, async () => {
  const ids = new Set<bigint>()
  // More than a list returns by default.
  for (let count = 1; count <= 21; count++) ids.add((await create(REX)).id)
  assert.equal(ids.size, 21)
})

test('listPets returns an animal once one was created', { skip }, async () => {
  await create(REX)
  assert.equal((await list('?limit=1')).length, 1)
})

const REFUSED: [what: string, body: string][] = [
  ['without name', '{"categoryId":7}'],
  ['without categoryId', '{"name":"Rex"}'],
  ['without both', '{}'],
  ['with a name that is a number', '{"name":7,"categoryId":7}'],
  ['with a name that is null', '{"name":null,"categoryId":7}'],
  ['with a categoryId that is a string', '{"name":"Rex","categoryId":"7"}'],
  ['with a categoryId that is null', '{"name":"Rex","categoryId":null}'],
  ['with a categoryId that is no integer', '{"name":"Rex","categoryId":7.5}'],
  ['with a categoryId above int64', '{"name":"Rex","categoryId":9223372036854775808}'],
  ['with a categoryId below int64', '{"name":"Rex","categoryId":-9223372036854775809}'],
  ['with another status', '{"name":"Rex","categoryId":7,"status":"lost"}'],
  ['with a status in another case', '{"name":"Rex","categoryId":7,"status":"Sold"}'],
  ['with an empty status', '{"name":"Rex","categoryId":7,"status":""}'],
  ['that is empty', ''],
  ['that is no JSON', '{'],
  ['that is an array', `[${REX}]`],
  ['that is a string', '"Rex"'],
]
for (const [what, body] of REFUSED) {
  test(`createPet with a body ${what} is 400`, { skip }, async () => {
    await ask('POST /pets', 400, { body })
  })
}

const LISTS: [query: string, limit: number, status?: string][] = [
  ['', 20],
  ['?limit=1', 1],
  ['?limit=2', 2],
  ['?limit=20', 20],
  ['?limit=100', 100],
  ['?status=available', 20, 'available'],
  ['?status=pending', 20, 'pending'],
  ['?status=sold', 20, 'sold'],
  ['?limit=1&status=sold', 1, 'sold'],
  ['?limit=100&status=sold', 100, 'sold'],
]
for (const [query, limit, status] of LISTS) {
  const all = status ? `, all ${status}` : ''
  test(`listPets with ${query || 'no query'} returns at most ${limit}${all}`, async () => {
    const animals = await list(query)
    assert.ok(animals.length <= limit, `${animals.length} animals`)
    for (const animal of animals) if (status) assert.equal(animal.status, status)
    const first = await list('?limit=100')
    if (first.length === 100) return // there may be more
    const matching = first.filter((animal) => !status || animal.status === status)
    assert.equal(animals.length, Math.min(limit, matching.length))
  })
}

const INVALID = ['limit=0', 'limit=101', 'limit=-1', 'limit=1.5', 'limit=x', 'status=lost']
for (const query of INVALID) {
  test(`listPets with ${query} is refused`, async () => {
    await ask(`GET /pets?${query}`, '4xx')
  })
}

test('getPet returns the animals that listPets returns', async (t) => {
  const animals = await list('?limit=2')
  if (animals.length === 0) t.skip('the store is empty')
  for (const animal of animals) {
    assert.deepEqual(await ask(`GET /pets/${animal.id}`, 200), animal)
  }
})

test('getPet is 404 where no animal has the id', async () => {
  await ask('GET /pets/9223372036854775807', 404)
})

test('getPet refuses what is no id', async () => {
  await ask('GET /pets/x', '4xx')
})
