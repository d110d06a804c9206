import assert from 'node:assert/strict'
import { Agent } from 'node:http'
import { test } from 'node:test'
import { PET_STATUSES } from '../src/pets/pet.ts'
import type { Petstore } from '../src/petstore.ts'
import { random, randomCase, SEED } from './random-case.ts'
import { type Answer, AUTHORIZATION, assertError, RawConnection, send, start } from './support.ts'

const REQUESTS = 20_000
const BROKEN = 1_000

/** A pet as the model keeps it: its JSON, and its status for the filter. */
interface ModelPet {
  json: string
  status: string | undefined
}

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
