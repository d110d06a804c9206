// Random requests, each checked against the contract and the decisions, and broken ones.
import assert from 'node:assert/strict'
import { Agent } from 'node:http'
import { test } from 'node:test'
import type { Petstore } from '../src/types.ts'
import { get, post, postChunked } from './http/raw.ts'
import type { Expected } from './support.ts'
import { check, listAll, Random, RawConnection, SEED, start, words } from './support.ts'

const random = new Random(SEED)
const STATUSES = ['available', 'pending', 'sold'] as const
const REQUESTS = 10_000
const BROKEN = 1_000
const MAX_BODY = 2_000

test(`answers ${REQUESTS} random requests as the contract says (SEED=${SEED})`, async (t) => {
  const petstore = await start(t, { maxBody: MAX_BODY })
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  t.after(() => agent.destroy())
  const model: string[] = [] // the JSON of each pet
  for (let count = 0; count < REQUESTS; count++) {
    const randomCase = random.pick([randomList, randomCreate, randomGet])
    const { path, expected, body, added } = randomCase(model.length)
    const [method, sent] = body === undefined ? ['GET', { agent }] : ['POST', { agent, body }]
    const answer = await check(petstore, method, path, expected, sent)
    const label = JSON.stringify({ SEED, count, path, body: `${body}` })
    if (expected === 200) assert.equal(answer.body, read(model, path), label)
    if (added === undefined) continue
    assert.equal(answer.body, `{"id":${model.length + 1},${added}`, label)
    model.push(answer.body)
  }
  await assertHolds(petstore, model)
})

test(`answers ${BROKEN} broken requests, and nothing else breaks (SEED=${SEED})`, async (t) => {
  const petstore = await start(t)
  const model: string[] = []
  for (let count = 0; count < BROKEN; count++) {
    const bytes = brokenRequest()
    const connection = new RawConnection(t, petstore)
    connection.socket.end(bytes)
    await connection.closed
    for (;;) {
      const answer = await connection.read().catch((error: Error) => error)
      const label = JSON.stringify({ SEED, count, bytes: bytes.toString('latin1'), answer })
      if (answer instanceof Error) {
        assert.equal(answer.message, 'the connection ended after ""', label)
        break
      }
      assert.ok(answer.status < 500 || answer.status === 501, label)
      if (answer.status === 201) model.push(answer.body)
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

/** Asserts that the lists of all pets and of each status are those of the model. */
async function assertHolds(petstore: Petstore, model: readonly string[]): Promise<void> {
  for (const status of [null, ...STATUSES]) {
    const pets = await listAll(petstore, status === null ? '' : `&status=${status}`)
    assert.deepEqual(pets, withStatus(model, status))
  }
}

/** A good request with some bytes replaced, removed or inserted. */
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
  path: string
  expected: Expected
  body?: Buffer // of a create
  added?: string // the JSON of the new pet, after its id
}

function randomGet(size: number): Case {
  const id = random.integer(0, size * 2 + 2)
  const isThere = 1 <= id && id <= size
  return { path: `/v1/pets/${id}`, expected: isThere ? 200 : '404 not_found' }
}

function randomList(size: number): Case {
  const limit = `limit=${random.integer(1, 100)}`
  const after = `after=${random.integer(0, size + 1)}`
  const good = [limit, after, `status=${random.pick(STATUSES)}`, 'other', 'other=1&other=2']
  const bad = words('limit=0 limit=101 limit= after=-1 after=9223372036854775808 status=gone')
  const isBad = random.chance(0.2)
  const parts = good.filter(() => random.chance(0.5))
  if (isBad) parts.push(random.pick(bad)) // a second limit is as bad
  const path = random.pick(['/v1/pets', '/v1/p%65ts', 'http://elsewhere.example/v1/pets'])
  return { path: `${path}?${parts.join('&')}`, expected: isBad ? '400 invalid_parameter' : 200 }
}

function randomCreate(): Case {
  const bounds = [2n ** 63n - 1n, -(2n ** 63n)]
  const categoryId = random.pick([random.integer(-5, 5), random.int64(), ...bounds])
  const status = random.pick([undefined, ...STATUSES])
  const base = `"name":${JSON.stringify(random.string())},"categoryId":${categoryId}`
  const rest = `${base}${status === undefined ? '' : `,"status":"${status}"`}}`
  const odd = [`{"id":7,"x":[${categoryId}],${rest}\n`, `{"name":1,"categoryId":"",${rest}`]
  const invalid = [`{${base},"status":null}`, `{${base}.5}`, ...words('[] 12345678901234567890')]
  const unread = [`{${rest}}`, `{${rest.slice(0, -1)}`, '']
  const { text, ...outcome } = random.pick<{ text: string; expected: Expected; added?: string }>([
    { text: random.pick([`{${rest}`, ...odd]), expected: 201, added: rest },
    { text: random.pick(invalid), expected: '400 invalid_pet' },
    { text: random.pick(unread), expected: '400 bad_request' },
  ])
  const body = Buffer.from(text)
  if (body.length > MAX_BODY) return { path: '/v1/pets', body, expected: '413 content_too_large' }
  return { path: '/v1/pets', body, ...outcome }
}
