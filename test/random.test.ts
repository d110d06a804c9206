// Random requests of every kind that HTTP allows, each held to what the contract and the decisions call for, and broken ones.
import assert from 'node:assert/strict'
import { Agent } from 'node:http'
import { test } from 'node:test'
import type { Petstore } from '../src/types.ts'
import { get, post, postChunked } from './http/raw.ts'
import { random, randomCase, SEED, STATUSES } from './random-case.ts'
import { type Answer, check, RawConnection, send, start } from './support.ts'

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
    for (const { status, body } of await readAll(connection)) {
      const label = JSON.stringify({ SEED, count, bytes: bytes.toString('latin1'), status, body })
      assert.ok(status < 500 || status === 501, label)
      if (status >= 400) assert.deepEqual(Object.keys(JSON.parse(body)), ['code', 'message', 'status'], label)
      if (status === 201) model.push(body)
    }
  }
  await assertHolds(petstore, model)
})

const withStatus = (model: readonly string[], status: string | null) =>
  model.filter((json) => status === null || json.endsWith(`,"status":"${status}"}`))

/** What the model answers to a good GET. */
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
    const pages: string[] = []
    let next: string | undefined = `/v1/pets?limit=100${status === null ? '' : `&status=${status}`}`
    while (next !== undefined) {
      const { headers, body }: Answer = await send(petstore, 'GET', next)
      if (body !== '[]') pages.push(body.slice(1, -1))
      next = /^<(.*)>; rel="next"$/.exec(headers['link']?.toString() ?? '')?.[1]
    }
    assert.equal(pages.join(), withStatus(model, status).join())
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
