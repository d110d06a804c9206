// The crash test, of so many rounds as its caller has time for.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { Agent } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { type Running, run } from './process.ts'
import { type Random, send } from './support.ts'

const CLIENTS = 32

/**
 * Lets 32 clients add animals, kills the server with SIGKILL at a random moment, and starts it again on the same file: every
 * animal that was acknowledged must be there exactly as it was answered, under an id that no other animal ever had.
 *
 * @param command What runs the executable: program and arguments.
 */
export async function crash(t: TestContext, command: readonly string[], rounds: number, random: Random): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'petstore-'))
  const file = join(folder, 'pets.json')
  const acknowledged = new Map<number, string>()
  let server: Running | undefined
  t.after(() => {
    server?.process.kill('SIGKILL')
    rmSync(folder, { recursive: true })
  })
  for (let round = 0; round <= rounds; round++) {
    server = await run([...command, '--snapshot', file])
    await assertKept(server, file, acknowledged)
    if (round < rounds) await addUntilKilled(server, acknowledged, random)
  }
  assert.ok(acknowledged.size > rounds, `only ${acknowledged.size} animals were acknowledged in ${rounds} rounds`)
}

async function assertKept({ url }: Running, file: string, acknowledged: ReadonlyMap<number, string>): Promise<void> {
  const kept = new Map<number, string>()
  for (let path: string | undefined = '/v1/pets?limit=100'; path !== undefined;) {
    const page = await send({ url }, 'GET', path)
    for (const pet of JSON.parse(page.body)) kept.set(pet.id, JSON.stringify(pet))
    path = /<(.*)>/.exec(String(page.headers['link'] ?? ''))?.[1]
  }
  for (const [id, json] of acknowledged) assert.equal(kept.get(id), json)
  const { pets } = JSON.parse(readFileSync(file, 'utf8'))
  assert.deepEqual(
    pets.map((pet: unknown) => JSON.stringify(pet)),
    [...kept.values()],
  )
}

async function addUntilKilled(server: Running, acknowledged: Map<number, string>, random: Random): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: CLIENTS })
  let isAlive = true
  const add = async () => {
    while (isAlive) {
      const body = JSON.stringify({ name: random.string(), categoryId: random.integer(-9, 9), status: 'sold' })
      const answer = await send(server, 'POST', '/v1/pets', { body, agent }).catch(() => undefined)
      if (answer === undefined) return
      assert.equal(answer.status, 201)
      const { id } = JSON.parse(answer.body)
      assert.ok(!acknowledged.has(id), `id ${id} was used twice`)
      acknowledged.set(id, answer.body)
    }
  }
  const clients = Array.from({ length: CLIENTS }, add)
  await new Promise((resolve) => setTimeout(resolve, random.integer(0, 150)))
  server.process.kill('SIGKILL')
  await once(server.process, 'exit')
  isAlive = false
  await Promise.all(clients)
  agent.destroy()
}
