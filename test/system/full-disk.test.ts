import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { test, type TestContext } from 'node:test'
import { type Running, run } from '../process.ts'
import { assertError, send } from '../support.ts'

const PETSTORE = [process.execPath, 'dist/main.js']
const BODY = JSON.stringify({ name: 'x'.repeat(1_000), categoryId: 1 })

/** A place that is soon full, and room there again. */
interface Disk {
  server: Running
  makeRoom: () => void
}

const DISKS: Record<string, (t: TestContext, folder: string) => Promise<Disk>> = {
  async 'a disk of 256 kB'(t, folder) {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=256k', 'tmpfs', folder])
    t.after(() => execFileSync('umount', ['--lazy', folder]))
    writeFileSync(`${folder}/filler`, Buffer.alloc(128 * 1024))
    const server = await run([...PETSTORE, '--snapshot', `${folder}/pets.json`])
    return { server, makeRoom: () => rmSync(`${folder}/filler`) }
  },
  async 'files of at most 64 kB (RLIMIT_FSIZE)'(_t, folder) {
    const server = await run(['prlimit', '--fsize=65536:unlimited', ...PETSTORE, '--snapshot', `${folder}/pets.json`])
    return { server, makeRoom: () => execFileSync('prlimit', ['--fsize=unlimited', '--pid', `${server.process.pid}`]) }
  },
}

/** Whether this process may mount a disk: not every root may, in a container say. */
function mayMount(): boolean {
  const folder = mkdtempSync(`${tmpdir()}/petstore-`)
  const isMounted = spawnSync('mount', ['-t', 'tmpfs', 'tmpfs', folder]).status === 0
  if (isMounted) execFileSync('umount', [folder])
  rmSync(folder, { recursive: true })
  return isMounted
}

for (const [name, open] of Object.entries(DISKS)) {
  const skip = name.startsWith('a disk') && !mayMount() && 'a disk may not be mounted here'
  test(`on ${name}: 503 when it is full, reads go on, creates again when there is room`, { skip }, async (t) => {
    const folder = mkdtempSync(`${tmpdir()}/petstore-`) // not folderOf(t): it would be removed before it is unmounted
    const { server, makeRoom } = await open(t, folder)
    t.after(() => {
      server.process.kill('SIGKILL')
      rmSync(folder, { recursive: true })
    })
    const add = () => send(server, 'POST', '/v1/pets', { body: BODY })
    const kept = () => JSON.parse(readFileSync(`${folder}/pets.json`, 'utf8')).pets.length

    let last = await add()
    let count = 0
    for (; last.status === 201; last = await add()) count++
    assertError(last, 503, 'storage_failed')
    assert.ok(count > 20, `full after ${count}`)
    for (let times = 0; times < 5; times++) {
      const refused = await Promise.all(Array.from({ length: 8 }, add))
      for (const answer of refused) assertError(answer, 503, 'storage_failed')
      assert.equal(kept(), count)
    }
    assert.equal((await send(server, 'GET', `/v1/pets/${count}`)).status, 200)
    assertError(await send(server, 'GET', `/v1/pets/${count + 1}`), 404, 'not_found')

    makeRoom()
    const added = await Promise.all(Array.from({ length: 32 }, add))
    const ids = added.map(({ body }) => JSON.parse(body).id)
    assert.deepEqual(
      ids.sort((a, b) => a - b),
      Array.from({ length: 32 }, (_, at) => count + 1 + at),
    )
    server.process.kill('SIGTERM')
    assert.deepEqual(await once(server.process, 'exit'), [0, null])
    assert.equal(kept(), count + 32)
  })
}
