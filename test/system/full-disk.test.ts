import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { test, type TestContext } from 'node:test'
import { type Running, run } from '../process.ts'
import { assertError, folderOf, send } from '../support.ts'
import { mayMount } from './packages.ts'

const BODY = JSON.stringify({ name: 'x'.repeat(1_000), categoryId: 1 })
// With these, the snapshot has no room for the pets of a full journal: folding never makes any.
const SEEDED = 40
const SEED = `${folderOf()}/seed.json`
writeFileSync(SEED, `[${Array(SEEDED).fill(BODY)}]`)
const PETSTORE = [process.execPath, 'dist/main.js', '--seed', SEED, '--snapshot']

/** A place that is soon full: the command of a server there, and what makes room. */
interface Disk {
  command: readonly string[]
  makeRoom: (server: Running) => void
}

const DISKS: Record<string, (t: TestContext, folder: string) => Disk> = {
  'a disk of 512 kB'(t, folder) {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=512k', 'tmpfs', folder])
    t.after(() => execFileSync('umount', ['--lazy', folder]))
    writeFileSync(`${folder}/filler`, Buffer.alloc(384 * 1024))
    return { command: PETSTORE, makeRoom: () => rmSync(`${folder}/filler`) }
  },
  'files of at most 64 kB (RLIMIT_FSIZE)': () => ({
    command: ['prlimit', '--fsize=65536:unlimited', ...PETSTORE],
    makeRoom: ({ process }) =>
      execFileSync('prlimit', ['--fsize=unlimited', '--pid', `${process.pid}`]),
  }),
}

for (const [name, open] of Object.entries(DISKS)) {
  const skip = name.startsWith('a disk') && !mayMount() && 'a disk may not be mounted here'
  test(`on ${name} a store is 503 while full, and loses nothing`, { skip }, async (t) => {
    const file = `${folderOf()}/pets.json`
    const { command, makeRoom } = open(t, dirname(file))
    let server = await run(t, [...command, file])
    const add = () => send(server, 'POST', '/v1/pets', { body: BODY })
    const status = async (id: number) => (await send(server, 'GET', `/v1/pets/${id}`)).status

    let last = await add()
    let count = SEEDED
    for (; last.status === 201; last = await add()) count++
    assertError(last, 503, 'storage_failed')
    assert.ok(count > SEEDED + 20, `full after ${count}`)
    for (let times = 0; times < 5; times++) {
      const answers = await Promise.all(Array.from({ length: 8 }, add))
      for (const answer of answers) assertError(answer, 503, 'storage_failed')
      assert.deepEqual([await status(count), await status(count + 1)], [200, 404])
    }
    server.process.kill('SIGKILL')
    await once(server.process, 'exit')
    server = await run(t, [...command, file])
    assert.deepEqual([await status(count), await status(count + 1)], [200, 404])

    makeRoom(server)
    const added = await Promise.all(Array.from({ length: 32 }, add))
    const ids = added.map(({ body }) => JSON.parse(body).id).sort((a, b) => a - b)
    const expected = added.map((_, at) => count + 1 + at)
    assert.deepEqual(ids, expected)
    server.process.kill('SIGTERM')
    assert.deepEqual(await once(server.process, 'exit'), [0, null])
    assert.equal(JSON.parse(readFileSync(file, 'utf8')).length, count + 32)
  })
}
