// Random requests of every kind that HTTP allows, each held to what the contract and the decisions call for, and broken ones.
import assert from 'node:assert/strict'
import { randomInt } from 'node:crypto'
import { Agent } from 'node:http'
import { test } from 'node:test'
import type { Petstore } from '../src/types.ts'
import { get, post, postChunked } from './http/raw.ts'
import type { Expected } from './support.ts'
import { AUTHORIZATION, check, KEY, listAll, Random, RawConnection, start, words } from './support.ts'

const SEED = Number(process.env['SEED'] ?? randomInt(2 ** 31))
const random = new Random(SEED)
const STATUSES = ['available', 'pending', 'sold'] as const
const REQUESTS = 10_000
const BROKEN = 1_000

test(`${REQUESTS} random requests are answered as the contract says (SEED=${SEED})`, async (t) => {
  const petstore = await start(t, { maxBody: 2_000 })
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  t.after(() => agent.destroy())
  const model: string[] = [] // the JSON of each pet
  for (let count = 0; count < REQUESTS; count++) {
    const { method, path, headers, expected, body, adds } = randomCase(model.length)
    // A HEAD has no body to hold to a code.
    const status = method === 'HEAD' ? Number.parseInt(String(expected)) : expected
    const answer = await check(petstore, method, path, status, { headers, agent, ...(body && { body }) })
    const label = JSON.stringify({ SEED, count, method, path, headers, body: body?.toString('latin1') })
    if (method === 'GET' && expected === 200 && path !== '/') assert.equal(answer.body, read(model, path), label)
    if (adds === undefined) continue
    assert.equal(answer.body, `{"id":${model.length + 1},${adds}`, label)
    model.push(answer.body)
  }
  await assertHolds(petstore, model)
})

test(`${BROKEN} requests with broken bytes are answered, and nothing else breaks (SEED=${SEED})`, async (t) => {
  const petstore = await start(t)
  const model: string[] = [] // the JSON of each pet
  for (let count = 0; count < BROKEN; count++) {
    const bytes = brokenRequest()
    const connection = new RawConnection(t, petstore)
    connection.socket.end(bytes)
    await connection.closed
    const next = () => connection.read().catch((error) => assert.match(error.message, /^the connection ended after ""/))
    for (let answer = await next(); answer !== undefined; answer = await next()) {
      const { status, body } = answer
      const label = JSON.stringify({ SEED, count, bytes: bytes.toString('latin1'), status, body })
      assert.ok(status < 500 || status === 501, label)
      if (status === 201) model.push(body)
    }
  }
  await assertHolds(petstore, model)
})

const withStatus = (model: readonly string[], status: string | null) =>
  model.filter((json) => status === null || json.endsWith(`,"status":"${status}"}`))

function read(model: readonly string[], path: string): string | undefined {
  const { pathname, searchParams } = new URL(path, 'http://localhost')
  const petId = /\/(\d+)$/.exec(pathname)?.[1]
  if (petId !== undefined) return model[Number(petId) - 1]
  const after = model.slice(Number(searchParams.get('after') ?? 0))
  const pets = withStatus(after, searchParams.get('status'))
  return `[${pets.slice(0, Number(searchParams.get('limit') ?? 20)).join()}]`
}

/** Walks the list, whole and by each status, by its links, and compares it to the model. */
async function assertHolds(petstore: Petstore, model: readonly string[]): Promise<void> {
  for (const status of [null, ...STATUSES]) {
    const pets = await listAll(petstore, status === null ? '' : `&status=${status}`)
    assert.deepEqual(pets, withStatus(model, status))
  }
}

/** A good request of which some bytes are exchanged, taken out or put in. */
function brokenRequest(): Buffer {
  const body = '{"name":"Rex","categoryId":9223372036854775807}'
  const chunked = postChunked(`2f\r\n${body}\r\n0\r\n\r\n`)
  const good = [get('/v1/pets?limit=5'), post(body), chunked, get('/v1/pets/1') + get('/')]
  const bytes = [...Buffer.from(random.pick(good))]
  for (let times = random.integer(1, 4); times > 0; times--) {
    const more = Array.from({ length: random.integer(0, 2) }, () => random.integer(0, 255))
    bytes.splice(random.integer(0, bytes.length - 1), random.integer(0, 1), ...more)
  }
  return Buffer.from(bytes)
}

interface Case {
  method: string
  path: string
  headers: Record<string, string>
  expected: Expected
  body?: Buffer
  adds?: string // the JSON of the pet that is added, behind its id
}

function randomCase(size: number): Case {
  const method = random.pick(words('GET GET GET HEAD POST POST POST OPTIONS PUT DELETE PATCH'))
  const isValid = random.chance(0.75)
  const wrong = [`Bearer ${KEY}x`, `Basic ${KEY}`, 'Bearer', `Bearer ${KEY} ${KEY}`]
  const authorization = random.pick(isValid ? [AUTHORIZATION, `bearer ${KEY}`] : wrong)
  const [path, expected, allow] = random.pick([...Array<typeof randomList>(8).fill(randomList), randomPlace])(size)
  const request = { method, path, headers: { authorization }, expected }
  if (method === 'OPTIONS') return { ...request, expected: allow === '' ? '404 not_found' : 204 }
  if (!isValid && /^(?:http:\/\/[^/]+)?\/v1(?:\/|$)/.test(path)) return { ...request, expected: '401 unauthorized' }
  if (allow === '' || method === 'GET' || method === 'HEAD') return request
  return method === allow ? randomCreate(request) : { ...request, expected: '405 method_not_allowed' }
}

/** A path, what a GET of it is answered, and what is allowed there beside GET; nothing is where there is nothing. */
type Place = [path: string, expected: Expected, allow: 'GET' | 'POST' | '']

function randomPlace(size: number): Place {
  const missing = '404 not_found'
  const id = random.integer(1, size * 2 + 2)
  const noId = random.pick(words('0 -1 01 1.0 1e0 x %31x 9223372036854775807 %EF%BC%99 null'))
  const nowhere =
    '/v1 /v1/ /v1/pets/ /v1//pets /v1/PETS /v1/pets/1/2 /v1/%zz /pets //pets /V1/pets /v1%2Fpets /% /v2/pets'
  return random.pick<Place>([
    [`/v1/pets/${id}?limit=x`, id <= size ? 200 : missing, 'GET'],
    [`/v1/pets/${noId}`, missing, 'GET'],
    ['/v1/store/orders', '501 not_implemented', 'GET'],
    [random.pick(words(nowhere)), missing, ''],
    ['/', 200, 'GET'],
  ])
}

function randomList(): Place {
  const good = words('limit=1 limit=100 after=0 after=9223372036854775807 status=sold other other=1&other=2')
  const bad = words('limit=0 limit=101 limit= limit=01 limit=%2B1 after=-1 after=9223372036854775808 status=gone')
  const parts = Array.from({ length: random.integer(0, 3) }, () => random.pick(random.chance(0.8) ? good : bad))
  const names = parts.map((part) => part.split('=')[0]).filter((name) => name !== 'other')
  const isBad = parts.some((part) => bad.includes(part)) || new Set(names).size < names.length
  const path = random.pick(['/v1/pets', '/v1/p%65ts', 'http://elsewhere.example/v1/pets'])
  return [parts.length > 0 ? `${path}?${parts.join('&')}` : path, isBad ? '400 invalid_parameter' : 200, 'POST']
}

function randomCreate(request: Case): Case {
  const type = random.pick('application/json|application/json|Application/JSON; charset="UTF-8"||text/plain'.split('|'))
  const headers = {
    ...request.headers,
    ...(type !== '' && { 'content-type': type }),
    ...(random.chance(0.2) && { 'transfer-encoding': 'chunked' }),
  }
  const { body, ...more } = randomBody()
  if (type === 'text/plain') return { ...request, headers, body, expected: '415 unsupported_media_type' }
  if (body.length > 2_000) return { ...request, headers, body, expected: '413 content_too_large' }
  return { ...request, headers, body, ...more }
}

function randomBody(): Pick<Case, 'expected' | 'adds'> & { body: Buffer } {
  const categoryId = random.pick([random.integer(-5, 5), random.int64(), 2n ** 63n - 1n, -(2n ** 63n)])
  const status = random.pick([undefined, ...STATUSES])
  const base = `"name":${JSON.stringify(random.string())},"categoryId":${categoryId}`
  const rest = `${base}${status === undefined ? '' : `,"status":"${status}"`}}`
  const good = [`{${rest}`, `{"id":7,"x":[${categoryId}],${rest}\n`, `{"name":1,"categoryId":"",${rest}`]
  const noPets = words('{"categoryId":9223372036854775808} [] null "x" 12345678901234567890')
  const invalid = [`{${base},"status":null}`, `{${base}.5}`, ...noPets]
  const unread = [`{${rest}}`, `{${rest.slice(0, -1)}`, '"\xff"', '']
  return random.pick([
    { body: Buffer.from(random.pick(good)), expected: 201, adds: rest },
    { body: Buffer.from(random.pick(invalid)), expected: '400 invalid_pet' as const },
    { body: Buffer.from(random.pick(unread), 'latin1'), expected: '400 bad_request' as const },
  ])
}
