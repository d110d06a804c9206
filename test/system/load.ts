// Clients as they are behind a proxy: each with a connection of its own that it keeps, and every response checked.
import assert from 'node:assert/strict'
import { EventEmitter, once } from 'node:events'
import { Agent } from 'node:http'
import { type Answer, send } from '../support.ts'

const CLIENTS = 64
const DEMO_PETS = 12

type Kind = [method: string, path: string, body: string | undefined, check: (answer: Answer) => void]

/** Requests that a server with the demo pets answers well, whatever else it has; each has a number. */
const KINDS: readonly ((count: number) => Kind)[] = [
  (count) => {
    const after = count % 9
    const check = ({ status, body }: Answer) => {
      const ids = JSON.parse(body).map(({ id }: { id: number }) => id)
      assert.deepEqual([status, ids], [200, [after + 1, after + 2, after + 3]])
    }
    return ['GET', `/v1/pets?limit=3&after=${after}`, undefined, check]
  },
  (count) => {
    const id = (count % DEMO_PETS) + 1
    const check = ({ status, body }: Answer) => assert.deepEqual([status, JSON.parse(body).id], [200, id])
    return ['GET', `/v1/pets/${id}`, undefined, check]
  },
  (count) => {
    const pet = { name: `Rex ${count}`, categoryId: count, status: 'sold' }
    const check = ({ status, headers, body }: Answer) => {
      const { id, ...rest } = JSON.parse(body)
      assert.deepEqual([status, rest, headers.location], [201, pet, `/v1/pets/${id}`])
      assert.ok(id > DEMO_PETS)
    }
    return ['POST', '/v1/pets', JSON.stringify(pet), check]
  },
]

/** The names of the pets that so many requests create. */
export function createdOf(count: number): string[] {
  const all = Array.from({ length: count }, (_, at) => at)
  return all.flatMap((at) => {
    const [method, , body] = KINDS[at % KINDS.length]?.(at) ?? []
    return method === 'POST' ? [JSON.parse(body ?? '').name] : []
  })
}

/** Resolves when so many more requests have been answered. */
export type Answered = (more: number) => Promise<void>

/** Keeps clients busy for as long as `work` takes; returns how many requests there were, and what became of those that failed. */
export async function loadDuring(
  url: string,
  work: (answered: Answered) => Promise<void>,
): Promise<[number, string[]]> {
  const agent = new Agent({ keepAlive: true, maxSockets: CLIENTS })
  const progress = new EventEmitter()
  const failures: string[] = []
  let [isOver, begun, done] = [false, 0, 0]
  const client = async () => {
    while (!isOver) {
      const count = begun++
      const [method, path, body, check] = KINDS[count % KINDS.length]?.(count) ?? assert.fail()
      try {
        check(await send({ url }, method, path, { agent, ...(body !== undefined && { body }) }))
      } catch (error) {
        failures.push(`${method} ${path}: ${error}`)
      }
      done++
      progress.emit('done')
    }
  }
  const clients = Array.from({ length: CLIENTS }, client)
  const until = async (more: number) => {
    for (const end = done + more; done < end;) await once(progress, 'done')
  }
  await work(until).finally(() => (isOver = true))
  await Promise.all(clients)
  agent.destroy()
  return [done, failures]
}
