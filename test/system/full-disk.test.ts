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
  start: () => Promise<Running>
  makeRoom: (server: Running) => void
}

const DISKS: Record<string, (t: TestContext, folder: string) => Disk> = {
  'a disk of 512 kB'(t, folder) {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=512k', 'tmpfs', folder])
    t.after(() => execFileSync('umount', ['--lazy', folder]))
    writeFileSync(`${folder}/filler`, Buffer.alloc(384 * 1024))
    const start = () => run([...PETSTORE, '--snapshot', `${folder}/pets.json`])
    return { start, makeRoom: () => rmSync(`${folder}/filler`) }
  },
  'files of at most 64 kB (RLIMIT_FSIZE)'(_t, folder) {
    const start = () => run(['prlimit', '--fsize=65536:unlimited', ...PETSTORE, '--snapshot', `${folder}/pets.json`])
    return {
      start,
      makeRoom: ({ process }) => execFileSync('prlimit', ['--fsize=unlimited', '--pid', `${process.pid}`]),
    }
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
  test(
    `on ${name}: 503 when it is full, reads go on, nothing is lost to a kill, creates again when there is room`,
    { skip },
    async (t) => {
      const folder = mkdtempSync(`${tmpdir()}/petstore-`) // not folderOf(t): it would be removed before it is unmounted
      const { start, makeRoom } = open(t, folder)
      let server = await start()
      t.after(() => {
        server.process.kill('SIGKILL')
        rmSync(folder, { recursive: true })
      })
      const add = () => send(server, 'POST', '/v1/pets', { body: BODY })
      const status = async (id: number) => (await send(server, 'GET', `/v1/pets/${id}`)).status

      let last = await add()
      let count = 0
      for (; last.status === 201; last = await add()) count++
      assertError(last, 503, 'storage_failed')
      assert.ok(count > 20, `full after ${count}`)
      for (let times = 0; times < 5; times++) {
        for (const answer of await Promise.all(Array.from({ length: 8 }, add)))
          assertError(answer, 503, 'storage_failed')
        assert.deepEqual([await status(count), await status(count + 1)], [200, 404])
      }
      server.process.kill('SIGKILL')
      await once(server.process, 'exit')
      server = await start()
      assert.deepEqual([await status(count), await status(count + 1)], [200, 404])

      makeRoom(server)
      const added = await Promise.all(Array.from({ length: 32 }, add))
      const ids = added.map(({ body }) => JSON.parse(body).id)
      assert.deepEqual(
        ids.sort((a, b) => a - b),
        Array.from({ length: 32 }, (_, at) => count + 1 + at),
      )
      server.process.kill('SIGTERM')
      assert.deepEqual(await once(server.process, 'exit'), [0, null])
      assert.equal(JSON.parse(readFileSync(`${folder}/pets.json`, 'utf8')).length, count + 32)
    },
  )
}
