import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { watch } from 'node:fs/promises'
import { Agent } from 'node:http'
import { basename, dirname } from 'node:path'
import { test } from 'node:test'
import { run, Running } from './process.ts'
import { folderOf, KEY, listAll, Random, SEED, send } from './support.ts'

const CLIENTS = 32

// Lets 32 clients add pets, kills the server, and restarts it on its file: each acknowledged pet
// must be there exactly as in its response, under its own id. Half of the kills come after some
// responses, a quarter while the server stops and writes the snapshot, and a quarter in a start.
export function testCrashes(command: readonly string[], rounds: number): void {
  test(`acknowledged pets survive kill -9, ${rounds} times (SEED=${SEED})`, async (t) => {
    const random = new Random(SEED)
    const file = `${folderOf()}/pets.json`
    const acknowledged = new Map<number, string>()
    const serve = [...command, '--snapshot', file]
    for (let round = 0; round <= rounds; round++) {
      if (round % 4 === 3) await killDuringStart(serve, file)
      const server = await run(t, serve)
      const kept = await listAll(server)
      for (const [id, json] of acknowledged) assert.equal(kept[id - 1], json)
      kept.forEach((json, at) => assert.equal(JSON.parse(json).id, at + 1))
      if (round < rounds)
        await addUntilKilled(server, round % 4 === 1 ? file : undefined, acknowledged, random)
      JSON.parse(readFileSync(file, 'utf8'))
    }
    assert.ok(acknowledged.size > rounds, `only ${acknowledged.size} pets were acknowledged`)
  })
}

/**
 * Resolves once the file that will replace this one changes, or something else has happened: on a
 * slow machine, a second without additions may have folded all there was.
 */
async function replacing(file: string, other: Promise<unknown>): Promise<void> {
  const name = `${basename(file)}.petstore-new`
  const controller = new AbortController()
  const { signal } = controller
  const stop = () => controller.abort()
  other.then(stop, stop)
  try {
    for await (const { filename } of watch(dirname(file), { signal })) if (filename === name) return
  } catch (error) {
    if (!signal.aborted) throw error
  }
}

/** Kills a server during its start, when it folds the journal that the last one left. */
async function killDuringStart(command: readonly string[], file: string): Promise<void> {
  const server = new Running([...command, '--port', '0', '--api-key', KEY, '--log', 'off'])
  await replacing(file, server.serves())
  server.process.kill('SIGKILL')
  await server.exited
}

// Lets clients add pets, and kills the server: after some responses or, given its file, while it
// stops and writes that file.
async function addUntilKilled(
  server: Running,
  file: string | undefined,
  acknowledged: Map<number, string>,
  random: Random,
): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: CLIENTS })
  let left = random.integer(1, 1_000)
  const add = async () => {
    while (left > 0) {
      const pet = { name: random.string(), categoryId: random.integer(-9, 9), status: 'sold' }
      const body = JSON.stringify(pet)
      const answer = await send(server, 'POST', '/v1/pets', { body, agent }).catch(() => undefined)
      if (answer === undefined) return
      assert.equal(answer.status, 201)
      const { id } = JSON.parse(answer.body)
      assert.ok(!acknowledged.has(id), `id ${id} was used twice`)
      acknowledged.set(id, answer.body)
      if (--left === 0 && file === undefined) server.process.kill('SIGKILL')
    }
  }
  await Promise.all(Array.from({ length: CLIENTS }, add))
  if (file !== undefined) {
    const begun = replacing(file, server.exited)
    server.process.kill('SIGTERM') // folds, however much it holds
    await begun
    server.process.kill('SIGKILL')
  }
  await server.exited
  agent.destroy()
}
