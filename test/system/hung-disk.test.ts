import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { Agent } from 'node:http'
import { test } from 'node:test'
import { run } from '../process.ts'
import { assertError, folderOf, send, words } from '../support.ts'

const BODY = JSON.stringify({ name: 'x'.repeat(65_000), categoryId: 1 })
const CREATES = Number(process.env['CREATES'] ?? 20_000)
const CLIENTS = 200

// Lets syncs wait for as long as there is a file.
const preload = (file: string) => `
import { existsSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { setTimeout } from 'node:timers/promises'
const file = await open(process.execPath)
const prototype = Object.getPrototypeOf(file)
await file.close()
const { datasync } = prototype
prototype.datasync = async function () {
  while (existsSync('${file}')) await setTimeout(10)
  return datasync.call(this)
}`

for (const heap of [64, 128]) {
  test(`${CREATES} creates behind a disk that hangs fit in a heap of ${heap} MB`, async (t) => {
    const [folder, hang] = [folderOf(), `${folderOf()}/hang`]
    const flags = words(`--max-old-space-size=${heap} --import`)
    const script = `data:text/javascript,${encodeURIComponent(preload(hang))}`
    const command = [process.execPath, ...flags, script, 'dist/main.js', '--snapshot']
    const server = await run(t, [...command, `${folder}/pets.json`])
    const agent = new Agent({ keepAlive: true, maxSockets: CLIENTS })
    const add = () => send(server, 'POST', '/v1/pets', { body: BODY, agent })
    let added = 0
    let left = CREATES
    writeFileSync(hang, '')
    const clients = Array.from({ length: CLIENTS }, async () => {
      while (left-- > 0) {
        const answer = await add()
        if (answer.status === 201) added++
        else assertError(answer, 503, 'storage_failed')
        if (left <= 0) rmSync(hang, { force: true })
      }
    })
    await Promise.all(clients)
    assert.ok(added > 0)
    assert.equal((await add()).status, 201)
    agent.destroy()
    server.process.kill('SIGTERM')
    assert.deepEqual(await once(server.process, 'exit'), [0, null])
    const pets: unknown[] = JSON.parse(readFileSync(`${folder}/pets.json`, 'utf8'))
    assert.equal(pets.length, added + 1)
  })
}
