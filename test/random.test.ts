// Random requests, each checked against a model, and broken ones.
import assert from 'node:assert/strict'
import { Agent } from 'node:http'
import { test } from 'node:test'
import { petJson } from '../src/pets/pet.ts'
import type { Petstore, Store } from '../src/types.ts'
import { get, post, postChunked } from './http/raw.ts'
import { assertLikeAnArray } from './pets/model.ts'
import { check, listAll, Random, RawConnection, SEED, send, start } from './support.ts'

const random = new Random(SEED)
const BROKEN = 500

/** The store that a client sees. */
function storeBehind(petstore: Petstore, agent: Agent): Store {
  return {
    async page({ limit, after, status }) {
      const filter = status === undefined ? '' : `&status=${status}`
      const path = `/v1/pets?limit=${limit}&after=${after}${filter}&other`
      const { body, headers } = await check(petstore, 'GET', path, 200, { agent })
      const next = /after=(\d+)>/.exec(String(headers['link']))?.[1]
      return { json: body, next: next === undefined ? next : Number(next) }
    },
    async get(id) {
      const { status, body } = await send(petstore, 'GET', `/v1/pets/${id}`, { agent })
      return status === 200 ? body : undefined
    },
    async add(pet) {
      const sent = { agent, body: petJson(7, pet) } // the id is ignored, like any unknown member
      const { body: json } = await check(petstore, 'POST', '/v1/pets', 201, sent)
      return { ok: true, id: Number(/\d+/.exec(json)), json }
    },
    reset: (pets) => petstore.reset(pets).then(() => true),
    isWritable: () => true,
    close: () => {},
  }
}

test(`behaves like a plain array in random requests (SEED=${SEED})`, async (t) => {
  const petstore = await start(t)
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  t.after(() => agent.destroy())
  const store = storeBehind(petstore, agent)
  await assertLikeAnArray(store, { steps: 2_000, maxBytes: Infinity })
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
  assert.deepEqual(await listAll(petstore), model)
})

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
