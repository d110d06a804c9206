import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, utimesSync, watch, writeFileSync } from 'node:fs'
import { test, type TestContext } from 'node:test'
import { KEY, send, start, temporaryFolder } from '../support.ts'

const KILLS = Number(process.env['KILLS'] ?? 6)

interface Server {
  readonly url: string
  kill(signal?: NodeJS.Signals): Promise<unknown>
}

/** Starts the executable on FILE, and waits until it serves. The end of the test kills it. */
async function serve(t: TestContext, file: string): Promise<Server> {
  const flags = ['--port', '0', '--api-key', KEY, '--log', 'off', '--snapshot', file]
  const child = spawn(process.execPath, ['dist/main.js', ...flags], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.after(() => child.kill('SIGKILL'))
  const exited = once(child, 'exit')
  let output = ''
  for await (const text of child.stdout) {
    output += String(text)
    const [url] = /http:\/\/[^/\s]+/.exec(output) ?? []
    if (url === undefined) continue
    const kill = (signal: NodeJS.Signals = 'SIGKILL'): Promise<unknown> => {
      child.kill(signal)
      return exited
    }
    return { url, kill }
  }
  throw new Error(`it ended: ${output}`)
}

/** What clients know: every answer 201, by id, and that no id came twice. */
class Acknowledged {
  readonly pets: Map<number, string> = new Map()
  #count = 0

  /** Adds pets under names of their own, until the server is gone or tells to stop. */
  async addTo(server: Server, onAnswer: () => boolean = () => true): Promise<void> {
    for (;;) {
      const body = JSON.stringify({ name: `${++this.#count}`, categoryId: 1 })
      const answer = await send(server, 'POST', '/v1/pets', { body }).catch(() => undefined)
      if (!answer) return
      assert.equal(answer.status, 201, answer.body)
      const { id } = JSON.parse(answer.body)
      assert.ok(!this.pets.has(id), `id ${id} was given twice`)
      this.pets.set(id, answer.body)
      if (!onAnswer()) return
    }
  }

  /** FILE has each acknowledged pet, and no pet twice. */
  check(file: string): void {
    const pets: { id: number; name: string }[] = JSON.parse(readFileSync(file, 'utf8'))
    const json = new Map(pets.map((pet) => [pet.id, JSON.stringify(pet)]))
    for (const [id, pet] of this.pets) assert.equal(json.get(id), pet)
    assert.equal(new Set(pets.map(({ name }) => name)).size, pets.length, 'a pet twice')
  }
}

async function petsOf(server: Server): Promise<string> {
  let pets = ''
  for (let after = 0; ;) {
    const page = await send(server, 'GET', `/v1/pets?limit=100&after=${after}`)
    pets += page.body.slice(1, -1).replaceAll('},{', '},\n{')
    const [, next] = /after=(\d+)/.exec(String(page.headers['link'])) ?? []
    if (next === undefined) return pets
    after = Number(next)
    pets += ',\n'
  }
}

/** Resolves once a server begins to write FILE. */
async function writing(file: string): Promise<void> {
  const watcher = watch(file.replace(/\/[^/]*$/, ''))
  for (;;) {
    const [, name] = await once(watcher, 'change')
    if (name === 'pets.json.new') break
  }
  watcher.close()
}

test(`kill -9 loses nothing, ${KILLS} times under load, as often in a write`, async (t) => {
  const file = `${temporaryFolder(t)}/pets.json`
  const acknowledged = new Acknowledged()
  for (let round = 0; round <= 2 * KILLS; round++) {
    try {
      utimesSync(`${file}.new`, 1, 1) // as if it were left a minute ago
    } catch {}
    const server = await serve(t, file)
    const shown = `[\n${await petsOf(server)}\n]\n`
    assert.equal(shown.replace('\n\n', '\n'), readFileSync(file, 'utf8'))
    acknowledged.check(file)
    let left = 1 + Math.random() * 200
    const onAnswer = (): boolean => {
      if (--left < 0 && round % 2 === 0) void server.kill()
      return true
    }
    const clients = Array.from({ length: 16 }, () => acknowledged.addTo(server, onAnswer))
    if (round % 2 === 1) {
      await writing(file)
      await server.kill()
    }
    await Promise.all(clients)
    await server.kill()
    JSON.parse(readFileSync(file, 'utf8'))
  }
  acknowledged.check(file)
  t.diagnostic(`${acknowledged.pets.size} acknowledged`)
})

test('two servers add to one FILE, and one of them is killed again and again', async (t) => {
  const file = `${temporaryFolder(t)}/pets.json`
  const acknowledged = new Acknowledged()
  const kills = Math.min(KILLS, 10)
  const stays = await serve(t, file)
  let isOver = false
  const clients = [1, 2, 3, 4].map(() => acknowledged.addTo(stays, () => !isOver))
  for (let kill = 0; kill < kills; kill++) {
    const other = await serve(t, file)
    let left = 20
    const onAnswer = (): boolean => {
      if (--left < 0) void other.kill()
      return true
    }
    await Promise.all([1, 2, 3, 4].map(() => acknowledged.addTo(other, onAnswer)))
    await other.kill()
  }
  const last = await serve(t, file)
  isOver = true
  await Promise.all(clients)
  acknowledged.check(file)
  for (const server of [stays, last]) {
    while (`[\n${await petsOf(server)}\n]\n` !== readFileSync(file, 'utf8'));
  }
  t.diagnostic(`${acknowledged.pets.size} acknowledged`)
})

test('a server starts on a FILE that another one writes without a pause', async (t) => {
  const file = `${temporaryFolder(t)}/pets.json`
  const pets = Array.from({ length: 50_000 }, (_, at) => {
    return { id: at + 1, name: `seed ${at}`, categoryId: 1 }
  })
  writeFileSync(file, JSON.stringify(pets))
  const acknowledged = new Acknowledged()
  const busy = await serve(t, file)
  let isOver = false
  const clients = [1, 2].map(() => acknowledged.addTo(busy, () => !isOver))
  const other = await serve(t, file)
  await acknowledged.addTo(other, () => false)
  isOver = true
  await Promise.all(clients)
  acknowledged.check(file)
})

test('a full disk makes creates 503 until there is room, also at a start', async (t) => {
  const folder = temporaryFolder(t)
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', folder], { stdio: 'pipe' })
  } catch {
    t.skip('it takes the right to mount')
    return
  }
  try {
    await fillAndFree(t, folder)
  } finally {
    execFileSync('umount', ['-l', folder])
  }
})

async function fillAndFree(t: TestContext, folder: string): Promise<void> {
  const file = `${folder}/pets.json`
  writeFileSync(file, '[{"id":1,"name":"Rex","categoryId":1}]')
  const before = readFileSync(file, 'utf8')
  const fill = (): void => {
    try {
      writeFileSync(`${folder}/filler`, Buffer.alloc(2 ** 21))
    } catch {}
  }
  const body = '{"name":"new","categoryId":1}'
  const create = async (): Promise<number> => {
    return (await send(server, 'POST', '/v1/pets', { body })).status
  }
  const isReady = async (): Promise<number> => (await send(server, 'GET', '/readyz')).status
  fill()
  const server = await serve(t, file)
  assert.deepEqual([await isReady(), await create(), await create()], [503, 503, 503])
  assert.equal(readFileSync(file, 'utf8'), before)
  assert.equal((await send(server, 'GET', '/v1/pets')).body, before)
  writeFileSync(`${folder}/filler`, '')
  assert.deepEqual([await create(), await isReady()], [201, 200])
  fill()
  assert.deepEqual([await create(), await isReady()], [503, 503])
  writeFileSync(`${folder}/filler`, '')
  assert.deepEqual([await isReady(), await create()], [200, 201])
  assert.equal(JSON.parse(readFileSync(file, 'utf8')).length, 3)
}

test('130,000 pets are added in one write', async (t) => {
  const snapshot = `${temporaryFolder(t)}/pets.json`
  const petstore = await start(t, { snapshot })
  const pets = Array.from({ length: 130_000 }, () => ({ name: 'Rex', categoryId: 1 }))
  assert.equal((await petstore.add(pets)).length, 130_000)
})
