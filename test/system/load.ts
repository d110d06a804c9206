// Clients as they are behind a proxy: each with a connection of its own that it keeps, every answer checked.
import assert from 'node:assert/strict'
import { Agent } from 'node:http'
import { type Answer, send } from '../support.ts'

/** What the clients met. */
export interface Tally {
  /** How many requests of each kind were answered as they must be. */
  answered: Record<string, number>
  /** What became of each of the others, and when. */
  failures: string[]
}

const DEMO_PETS = 12

/** A kind of request; each of them has a number. */
interface Kind {
  method: 'GET' | 'POST'
  path: (count: number) => string
  body?: (count: number) => string
  check: (answer: Answer, count: number) => void
}

const idOf = (count: number) => (count % DEMO_PETS) + 1
const petOf = (count: number) => ({ name: `Rex ${count}`, categoryId: count, status: 'sold' })

/** Requests that a server with the demo's animals answers well, whatever else it has. */
const KINDS: Record<string, Kind> = {
  list: {
    method: 'GET',
    path: (count) => `/v1/pets?limit=3&after=${count % 9}`,
    check({ status, body }, count) {
      assert.equal(status, 200)
      const pets: { id: number }[] = JSON.parse(body)
      assert.deepEqual(
        pets.map(({ id }) => id),
        [1, 2, 3].map((of) => (count % 9) + of),
      )
    },
  },
  one: {
    method: 'GET',
    path: (count) => `/v1/pets/${idOf(count)}`,
    check({ status, body }, count) {
      assert.equal(status, 200)
      assert.equal(JSON.parse(body).id, idOf(count))
    },
  },
  create: {
    method: 'POST',
    path: () => '/v1/pets',
    body: (count) => JSON.stringify(petOf(count)),
    check({ status, headers, body }, count) {
      assert.equal(status, 201)
      const { id, ...rest } = JSON.parse(body)
      assert.ok(id > DEMO_PETS)
      assert.deepEqual(rest, petOf(count))
      assert.equal(headers.location, `/v1/pets/${id}`)
    },
  },
}

/** Keeps 64 clients busy for as long as `work` takes. */
export async function loadDuring(url: string, work: Promise<unknown>): Promise<Tally> {
  const agent = new Agent({ keepAlive: true, maxSockets: 64 })
  const tally: Tally = { answered: {}, failures: [] }
  const table = Object.entries(KINDS)
  const started = performance.now()
  let isOver = false
  let count = 0
  const client = async () => {
    while (!isOver) {
      const at = count++
      const [name, { method, path, body, check }] = table[at % table.length] ?? assert.fail()
      const asked = Math.round(performance.now() - started)
      let answer
      try {
        answer = await send({ url }, method, path(at), { agent, ...(body && { body: body(at) }) })
        check(answer, at)
        tally.answered[name] = (tally.answered[name] ?? 0) + 1
      } catch (error) {
        tally.failures.push(
          `${name} at ${asked} ms: ${answer === undefined ? error : `${answer.status} ${answer.body}`}`,
        )
      }
    }
  }
  const clients = Array.from({ length: 64 }, client)
  await work.finally(() => (isOver = true))
  await Promise.all(clients)
  agent.destroy()
  return tally
}
