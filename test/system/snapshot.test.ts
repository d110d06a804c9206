// KILLS=200: how many kills of each kind.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, watch, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { test, type TestContext } from 'node:test'
import { launch, run, type Server } from '../process.ts'
import { KEY, send, temporaryFolder } from '../support.ts'
import { listAll } from './programs.ts'

const KILLS = Number(process.env['KILLS'] ?? 6)
const BUILT = [process.execPath, 'dist/main.js', '--api-key', KEY]
const NEW = '{"name":"new","categoryId":1}'

function serve(t: TestContext, file: string): Promise<Server> {
  return launch(t, ['--snapshot', file], { executable: BUILT })
}

async function kill({ child, status }: Server): Promise<void> {
  child.kill('SIGKILL')
  await status
}

async function create(server: Server): Promise<number> {
  return (await send(server, 'POST', '/v1/pets', { body: NEW })).status
}

/** What clients know: the pet of each 201, by id. */
class Acknowledged {
  readonly pets = new Map<number, string>()
  refused = 0
  #count = 0

  /** Adds pets under names of their own, until the server is gone, or a function says so. */
  async addTo(server: Server, isOver: () => boolean = () => false): Promise<void> {
    do {
      const body = JSON.stringify({ name: `${++this.#count}`, categoryId: 1 })
      const answer = await send(server, 'POST', '/v1/pets', { body }).catch(() => undefined)
      if (!answer) return
      if (answer.status === 201) {
        const { id } = JSON.parse(answer.body)
        assert.ok(!this.pets.has(id), `id ${id} was given twice`)
        this.pets.set(id, answer.body)
      } else {
        assert.equal(answer.status, 503)
        this.refused++
      }
    } while (!isOver())
  }

  /** FILE has each acknowledged pet, and no name twice. */
  check(file: string): void {
    const pets: { id: number; name: string }[] = JSON.parse(readFileSync(file, 'utf8'))
    const json = new Map(pets.map((pet) => [pet.id, JSON.stringify(pet)]))
    for (const [id, pet] of this.pets) assert.equal(json.get(id), pet)
    assert.equal(new Set(pets.map(({ name }) => name)).size, pets.length, 'a pet twice')
  }
}

/** Resolves once a server has begun to write FILE. */
async function writing(file: string): Promise<void> {
  const watcher = watch(dirname(file))
  let name: unknown
  while (!String(name).endsWith('.new')) [, name] = await once(watcher, 'change')
  watcher.close()
}

test(`kill -9 loses nothing, ${KILLS} times under load, as often in a write`, async (t) => {
  const file = `${temporaryFolder(t)}/pets.json`
  const acknowledged = new Acknowledged()
  for (let round = 0; round < 2 * KILLS; round++) {
    const server = await serve(t, file)
    const left = acknowledged.pets.size + Math.random() * 200
    const clients = Array.from({ length: 16 }, () => acknowledged.addTo(server))
    if (round % 2 === 1) await writing(file)
    else await acknowledged.addTo(server, () => acknowledged.pets.size >= left)
    await kill(server)
    await Promise.all(clients)
    acknowledged.check(file)
  }
  const last = await serve(t, file)
  assert.equal(`[\n${(await listAll(last)).join(',\n')}\n]\n`, readFileSync(file, 'utf8'))
  t.diagnostic(`${acknowledged.pets.size} acknowledged`)
})

test('starts that fail on their port lose nothing of a server that adds', async (t) => {
  const file = `${temporaryFolder(t)}/pets.json`
  const acknowledged = new Acknowledged()
  const server = await serve(t, file)
  let isOver = false
  const clients = Array.from({ length: 4 }, () => acknowledged.addTo(server, () => isOver))
  const { port } = new URL(server.url)
  for (let starts = 0; starts < KILLS; starts++) {
    const other = run(t, [...BUILT, '--snapshot', file, '--port', port, '--demo'])
    assert.equal(await other.status, 1)
  }
  isOver = true
  await Promise.all(clients)
  acknowledged.check(file)
  t.diagnostic(`${acknowledged.pets.size} acknowledged, ${acknowledged.refused} refused`)
})

/** Does something while something is mounted; skips the test where that is not allowed. */
async function whileMounted(
  t: TestContext,
  args: readonly string[],
  target: string,
  act: () => Promise<void>,
): Promise<void> {
  try {
    execFileSync('mount', [...args, target], { stdio: 'pipe' })
  } catch {
    t.skip('it takes the right to mount')
    return
  }
  await act().finally(() => execFileSync('umount', ['-l', target]))
}

test('a full disk makes creates 503 until there is room', async (t) => {
  const folder = temporaryFolder(t)
  await whileMounted(t, ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs'], folder, async () => {
    const file = `${folder}/pets.json`
    const rex = '[{"id":1,"name":"Rex","categoryId":1}]'
    writeFileSync(file, rex)
    const server = await serve(t, file)
    assert.throws(() => writeFileSync(`${folder}/filler`, Buffer.alloc(2 ** 21)))
    assert.deepEqual([await create(server), await create(server)], [503, 503])
    assert.equal(readFileSync(file, 'utf8'), rex)
    assert.equal((await send(server, 'GET', '/v1/pets')).body, rex)
    writeFileSync(`${folder}/filler`, '')
    assert.equal(await create(server), 201)
    assert.equal(JSON.parse(readFileSync(file, 'utf8')).length, 2)
  })
})

test('a single mounted file cannot be replaced, and the log says what to do', async (t) => {
  const [source, file] = [`${temporaryFolder(t)}/source`, `${temporaryFolder(t)}/pets.json`]
  writeFileSync(source, '[]')
  writeFileSync(file, '')
  await whileMounted(t, ['--bind', source], file, async () => {
    const server = await serve(t, file)
    assert.equal(await create(server), 503)
    await server.stdout.until(/"cause":"[^"]*mount its folder/)
    assert.equal(readFileSync(source, 'utf8'), '[]')
  })
})

test('130,000 pets are added in one write', async (t) => {
  const file = `${temporaryFolder(t)}/pets.json`
  const flags = ['--snapshot', file, '--control-port', '0']
  const server = await launch(t, flags, { executable: BUILT })
  const pet = '{"name":"Rex","categoryId":1}'
  const body = `[${Array(130_000).fill(pet).join(',')}]`
  const url = String(server.first['controlUrl'])
  assert.equal((await send({ url }, 'POST', '/pets', { body })).status, 201)
  assert.equal(JSON.parse(readFileSync(file, 'utf8')).length, 130_000)
})
