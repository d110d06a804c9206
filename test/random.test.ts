import assert from 'node:assert/strict'
import { randomInt } from 'node:crypto'
import { Agent } from 'node:http'
import { test } from 'node:test'
import { PET_STATUSES } from '../src/pets/pet.ts'
import type { Petstore } from '../src/petstore.ts'
import { type Answer, AUTHORIZATION, assertError, KEY, RawConnection, Random, send, start } from './support.ts'

const REQUESTS = 20_000
const BROKEN = 1_000
const SEED = Number(process.env['SEED'] ?? randomInt(2 ** 31))

/** A pet as the model keeps it: its JSON, and its status for the filter. */
interface ModelPet {
  json: string
  status: string | undefined
}

interface Case {
  method: string
  path: string
  headers: Record<string, string>
  body?: Buffer
  /** What the contract and the decisions call for. */
  status: number
  code?: string
  /** The JSON of the pet that is added, behind its id. */
  adds?: { rest: string; status: string | undefined }
}

const random = new Random(SEED)

test(`${REQUESTS} random requests are answered as the contract says (SEED=${SEED})`, async (t) => {
  const petstore = await start(t, { maxBody: 2_000 })
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  t.after(() => agent.destroy())
  const model: ModelPet[] = []
  for (let count = 0; count < REQUESTS; count++) {
    const one = randomCase(model.length)
    const { method, path, headers, body } = one
    const answer = await send(petstore, method, path, { headers, agent, ...(body && { body }) })
    const label = JSON.stringify({ SEED, count, ...one, body: body?.toString('latin1'), answer })
    assert.equal(answer.status, one.status, label)
    if (one.code !== undefined && method !== 'HEAD') assertError(answer, one.status, one.code)
    if (method === 'GET' && one.status === 200 && path !== '/') assert.equal(answer.body, read(model, path), label)
    if (one.adds !== undefined) {
      const json = `{"id":${model.length + 1},${one.adds.rest}`
      assert.equal(answer.body, json, label)
      model.push({ json, status: one.adds.status })
    }
  }
  await assertHolds(petstore, model)
})

test(`${BROKEN} requests with broken bytes are answered, and nothing else breaks (SEED=${SEED})`, async (t) => {
  const petstore = await start(t)
  const model: ModelPet[] = []
  for (let count = 0; count < BROKEN; count++) {
    const bytes = brokenRequest()
    const connection = new RawConnection(t, petstore)
    connection.socket.end(bytes)
    for (const { status, body } of await readAll(connection)) {
      const label = JSON.stringify({ SEED, count, bytes: bytes.toString('latin1'), status, body })
      assert.ok(status < 500 || status === 501, label)
      if (status >= 400) assert.deepEqual(Object.keys(JSON.parse(body)), ['code', 'message', 'status'], label)
      if (status === 201) model.push({ json: body, status: JSON.parse(body).status })
    }
  }
  await assertHolds(petstore, model)
})

/** What the model answers to a good GET. */
function read(model: readonly ModelPet[], path: string): string | undefined {
  const { pathname, searchParams } = new URL(path, 'http://localhost')
  const petId = /\/(\d+)$/.exec(pathname)?.[1]
  if (petId !== undefined) return model[Number(petId) - 1]?.json
  const status = searchParams.get('status') ?? undefined
  const after = model.slice(Number(searchParams.get('after') ?? 0))
  const pets = after.filter((pet) => status === undefined || pet.status === status)
  return `[${pets
    .slice(0, Number(searchParams.get('limit') ?? 20))
    .map((pet) => pet.json)
    .join(',')}]`
}

/** Walks the list, whole and by each status, by its links, and compares it to the model. */
async function assertHolds(petstore: Petstore, model: readonly ModelPet[]): Promise<void> {
  for (const status of [undefined, ...PET_STATUSES]) {
    const expected = model.filter((pet) => status === undefined || pet.status === status).map((pet) => pet.json)
    const pages: string[] = []
    let next: string | undefined = `/v1/pets?limit=100${status === undefined ? '' : `&status=${status}`}`
    while (next !== undefined) {
      const answer: Answer = await send(petstore, 'GET', next)
      if (answer.body !== '[]') pages.push(answer.body.slice(1, -1))
      next = /^<(.*)>; rel="next"$/.exec(answer.headers['link']?.toString() ?? '')?.[1]
    }
    assert.equal(pages.join(','), expected.join(','))
  }
}

function randomCase(size: number): Case {
  const method = random.pick(['GET', 'GET', 'GET', 'HEAD', 'POST', 'POST', 'POST', 'OPTIONS', 'PUT', 'DELETE', 'PATCH'])
  const key = random.pick([
    ...Array<string>(12).fill(AUTHORIZATION),
    `bearer ${KEY}`,
    `Bearer ${KEY}x`,
    `Basic ${KEY}`,
    'Bearer',
    `Bearer ${KEY} ${KEY}`,
  ])
  const headers: Record<string, string> = { authorization: key }
  const place = randomPlace(size)
  const request = { method, path: place.path, headers }
  if (method === 'OPTIONS') return place.exists ? { ...request, status: 204 } : notFound(request)
  const isOurs = /^bearer \S+$/i.test(key) && key.endsWith(` ${KEY}`)
  if (!isOurs && place.secured) return { ...request, status: 401, code: 'unauthorized' }
  if (!place.exists) return notFound(request)
  const isRead = method === 'GET' || method === 'HEAD'
  if (!isRead && !(method === 'POST' && place.takesPost)) {
    return { ...request, status: 405, code: 'method_not_allowed' }
  }
  return isRead ? { ...request, ...place.read } : randomCreate(request)
}

function notFound(request: Pick<Case, 'method' | 'path' | 'headers'>): Case {
  return { ...request, status: 404, code: 'not_found' }
}

interface Place {
  path: string
  secured: boolean
  exists: boolean
  takesPost?: boolean
  /** What a GET of it is answered. */
  read: { status: number; code?: string }
}

function randomPlace(size: number): Place {
  const found = { secured: true, exists: true, read: { status: 200 } }
  const missing = { secured: true, exists: false, read: { status: 404, code: 'not_found' } }
  return random.pick<() => Place>([
    ...Array<() => Place>(8).fill(() => ({ ...found, ...randomList() })),
    () => {
      const id = random.integer(1, size * 2 + 2)
      return { ...found, path: `/v1/pets/${id}?limit=x`, read: id <= size ? found.read : missing.read }
    },
    () => {
      const petId = random.pick(['0', '-1', '01', '1.0', '1e0', 'x', '%31x', '9223372036854775807', '９', 'null'])
      return { ...found, path: `/v1/pets/${encodeURI(petId)}`, read: missing.read }
    },
    () => ({ ...found, path: '/v1/store/orders', read: { status: 501, code: 'not_implemented' } }),
    () => ({
      ...missing,
      path: random.pick(['/v1', '/v1/', '/v1/pets/', '/v1//pets', '/v1/PETS', '/v1/pets/1/2', '/v1/%zz']),
    }),
    () => ({
      ...missing,
      secured: false,
      path: random.pick(['/pets', '//pets', '/V1/pets', '/v1%2Fpets', '/%', '/v2/pets']),
    }),
    () => ({ ...found, secured: false, path: '/' }),
  ])()
}

function randomList(): Omit<Place, 'secured' | 'exists'> {
  const good = [
    'limit=1',
    'limit=100',
    'after=0',
    'after=9223372036854775807',
    'status=sold',
    'other',
    'other=1&other=2',
  ]
  const bad = [
    'limit=0',
    'limit=101',
    'limit=',
    'limit=01',
    'limit=%2B1',
    'after=-1',
    'after=9223372036854775808',
    'status=gone',
  ]
  const names = new Set<string>()
  const parts = Array.from({ length: random.integer(0, 3) }, () => random.pick(random.chance(0.8) ? good : bad))
  let isBad = false
  for (const part of parts) {
    const name = part.split('=')[0] ?? ''
    if (bad.includes(part) || (name !== 'other' && names.has(name))) isBad = true
    names.add(name)
  }
  const path = random.pick(['/v1/pets', '/v1/p%65ts', 'http://elsewhere.example/v1/pets'])
  const read = isBad ? { status: 400, code: 'invalid_parameter' } : { status: 200 }
  return { path: parts.length > 0 ? `${path}?${parts.join('&')}` : path, takesPost: true, read }
}

function randomCreate(request: Pick<Case, 'method' | 'path' | 'headers'>): Case {
  const type = random.pick([
    'application/json',
    'application/json',
    'Application/JSON; charset="UTF-8"',
    '',
    'text/plain',
  ])
  if (type !== '') request.headers['content-type'] = type
  const { body, ...expected } = randomBody()
  if (random.chance(0.2)) request.headers['transfer-encoding'] = 'chunked'
  if (type === 'text/plain') return { ...request, body, status: 415, code: 'unsupported_media_type' }
  if (body.length > 2_000) return { ...request, body, status: 413, code: 'content_too_large' }
  return { ...request, body, ...expected }
}

function randomBody(): Pick<Case, 'status' | 'code' | 'adds'> & { body: Buffer } {
  const name = random.string()
  const categoryId = random.pick([random.integer(-5, 5), random.int64(), 2n ** 63n - 1n, -(2n ** 63n)])
  const status = random.pick([undefined, ...PET_STATUSES])
  const tail = status === undefined ? '' : `,"status":"${status}"`
  const rest = `"name":${JSON.stringify(name)},"categoryId":${categoryId}`
  return random.pick<() => ReturnType<typeof randomBody>>([
    () => ({ body: Buffer.from(`{${rest}${tail}}`), status: 201, adds: { rest: `${rest}${tail}}`, status } }),
    () => ({
      body: Buffer.from(`{"id":7,"x":[${categoryId}],${rest}${tail}}\n`),
      status: 201,
      adds: { rest: `${rest}${tail}}`, status },
    }),
    () => ({
      body: Buffer.from(`{"name":1,"categoryId":"",${rest}${tail}}`),
      status: 201,
      adds: { rest: `${rest}${tail}}`, status },
    }),
    () => ({ body: Buffer.from(`{${rest},"status":null}`), status: 400, code: 'invalid_pet' }),
    () => ({ body: Buffer.from(`{${rest}.5}`), status: 400, code: 'invalid_pet' }),
    () => ({ body: Buffer.from(`{"categoryId":9223372036854775808}`), status: 400, code: 'invalid_pet' }),
    () => ({
      body: Buffer.from(random.pick(['[]', 'null', '"x"', '12345678901234567890'])),
      status: 400,
      code: 'invalid_pet',
    }),
    () => ({ body: Buffer.from(`{${rest}${tail}}}`), status: 400, code: 'bad_request' }),
    () => ({ body: Buffer.from(`{${rest}${tail}`), status: 400, code: 'bad_request' }),
    () => ({ body: Buffer.from([0x22, 0xff, 0x22]), status: 400, code: 'bad_request' }),
    () => ({ body: Buffer.alloc(0), status: 400, code: 'bad_request' }),
  ])()
}

/** A good request of which some bytes are exchanged, taken out or put in. */
function brokenRequest(): Buffer {
  const body = '{"name":"Rex","categoryId":9223372036854775807}'
  const head = `Host: localhost\r\nAuthorization: ${AUTHORIZATION}\r\n`
  const bytes = [
    ...Buffer.from(
      random.pick([
        `GET /v1/pets?limit=5 HTTP/1.1\r\n${head}\r\n`,
        `POST /v1/pets HTTP/1.1\r\n${head}Content-Length: ${body.length}\r\n\r\n${body}`,
        `POST /v1/pets HTTP/1.1\r\n${head}Transfer-Encoding: chunked\r\n\r\n2f\r\n${body}\r\n0\r\n\r\n`,
        `GET /v1/pets/1 HTTP/1.1\r\n${head}\r\nGET / HTTP/1.1\r\n${head}\r\n`,
      ]),
    ),
  ]
  for (let times = random.integer(1, 4); times > 0; times--) {
    const at = random.integer(0, bytes.length - 1)
    bytes.splice(
      at,
      random.integer(0, 1),
      ...Array.from({ length: random.integer(0, 2) }, () => random.integer(0, 255)),
    )
  }
  return Buffer.from(bytes)
}

/** All answers until the server closes. */
async function readAll(connection: RawConnection): Promise<Answer[]> {
  const answers: Answer[] = []
  await connection.closed
  try {
    for (;;) answers.push(await connection.read())
  } catch {
    return answers
  }
}
