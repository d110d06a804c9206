// examples/postgres: two instances of the executable share a database behind nginx.
import assert from 'node:assert/strict'
import { chownSync, cpSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, test, type TestContext } from 'node:test'
import { pathToFileURL } from 'node:url'
import { setTimeout } from 'node:timers/promises'
import { launch, type Running } from '../process.ts'
import type { Store } from '../../src/types.ts'
import { KEY, send, temporaryFolder } from '../support.ts'
import { freePort, isHere, listAll, must, startLoad, startNginx } from './programs.ts'

const DEBIAN = '/usr/lib/postgresql'
const PSQL = ['-X', '-q', '-A', '-t', '-c']

interface Database {
  url: string
  stop(): Promise<void>
  start(): Promise<void>
}

/** Starts a PostgreSQL, until the end of the test. It refuses root, so that runs it as postgres. */
async function startDatabase(t: TestContext): Promise<Database> {
  const [version = ''] = readdirSync(DEBIAN).sort((a, b) => Number(b) - Number(a))
  const bin = join(DEBIAN, version, 'bin')
  const folder = mkdtempSync(join(tmpdir(), 'petstore-postgres-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const isRoot = process.getuid?.() === 0
  const [uid = 0, gid = 0] = isRoot
    ? ['-u', '-g'].map((flag) => Number(must('id', flag, 'postgres')))
    : []
  if (isRoot) chownSync(folder, uid, gid)
  const options = { cwd: folder, ...(isRoot ? { uid, gid } : {}) }
  const data = join(folder, 'data')
  const init = spawn(
    join(bin, 'initdb'),
    ['-D', data, '-U', 'petstore', '-A', 'trust', '--no-sync'],
    options,
  )
  assert.deepEqual(await once(init, 'exit'), [0, null])
  const port = await freePort()
  const url = `postgres://petstore@127.0.0.1:${port}/postgres`
  const args = ['-D', data, '-p', `${port}`, '-k', folder, '-h', '127.0.0.1']
  const launchServer = () => spawn(join(bin, 'postgres'), args, { ...options, stdio: 'ignore' })
  const isReady = () => once(spawn('psql', [url, ...PSQL, 'select 1'], { stdio: 'ignore' }), 'exit')
  let server = launchServer()
  const start = async (): Promise<void> => {
    while ((await isReady())[0] !== 0) await setTimeout(50)
  }
  const stop = async (): Promise<void> => {
    server.kill('SIGINT') // a fast shutdown: it disconnects its clients
    if (server.exitCode === null) await once(server, 'exit')
  }
  t.after(stop)
  await start()
  return {
    url,
    stop,
    start() {
      server = launchServer()
      return start()
    },
  }
}

/** The example in a folder of its own, with its package. */
function installExample(t: TestContext): string {
  const folder = temporaryFolder(t)
  cpSync('examples/postgres', folder, { recursive: true })
  must('npm', 'install', '--silent', '--prefix', folder, '--ignore-scripts', '--no-audit')
  return join(folder, 'store.mjs')
}

const skip = !isHere('pg_ctlcluster', 'postgresql') && 'PostgreSQL cannot be installed'
describe('with PostgreSQL', { skip }, () => {
  test('two instances behind nginx share a database, and restart in turn', async (t) => {
    const database = await startDatabase(t)
    const module = installExample(t)
    const ports = [await freePort(), await freePort()]
    const flags = ['dist/main.js', '--api-key', KEY, '--store', module]
    const startAt = (port = 0): Promise<Running> => {
      const command = [process.execPath, ...flags, '--port', `${port}`]
      return launch(t, command, { DATABASE_URL: database.url })
    }
    const instances = await Promise.all(ports.map(startAt))
    const url = await startNginx(t, ports)
    const load = startLoad(url, 16)
    for (const [at, instance] of instances.entries()) {
      await load.answered(300)
      instance.child.kill('SIGTERM')
      assert.equal(await instance.exited, 0, instance.stderr.text)
      instances[at] = await startAt(ports[at])
    }
    await load.answered(300)
    await load.end()
    assert.deepEqual(load.failures.slice(0, 10), [])
    for (const instance of instances) {
      const pets = await listAll(instance)
      assert.deepEqual([...pets].sort(), [...load.created].sort())
    }

    await database.stop()
    const [one] = instances
    assert.ok(one)
    const codes = []
    for (const [method, path] of [
      ['GET', '/v1/pets'],
      ['POST', '/v1/pets'],
      ['GET', '/readyz'],
    ] as const) {
      const { status, body } = await send(one, method, path, { body: '{"name":"","categoryId":1}' })
      codes.push(`${status} ${JSON.parse(body).code}`)
    }
    assert.deepEqual(codes, Array(3).fill('503 storage_failed'))
    await database.start()
    for (const instance of instances) {
      while ((await send(instance, 'GET', '/readyz')).status !== 200) await setTimeout(20)
    }
    assert.equal((await listAll(one)).length, load.created.length)
  })

  test('the store is exact: names, integers of 64 bits, pages, and a full one', async (t) => {
    const database = await startDatabase(t)
    process.env['DATABASE_URL'] = database.url
    const { default: openStore } = await import(pathToFileURL(installExample(t)).href)
    const store: Store = await openStore()
    t.after(() => store.close())
    const [large, max] = [2n ** 53n + 1n, 2n ** 63n - 1n]
    const pets = [
      { id: 1, name: '\0\ud800"', categoryId: -(2n ** 63n) },
      { id: large, name: '', categoryId: max, status: 'sold' },
      { id: max - 1n, name: 'Søren 😀', categoryId: 1, status: 'sold' },
    ] as const
    const json = [
      `{"id":1,"name":"\\u0000\\ud800\\"","categoryId":${-(2n ** 63n)}}`,
      `{"id":${large},"name":"","categoryId":${max},"status":"sold"}`,
      `{"id":${max - 1n},"name":"Søren 😀","categoryId":1,"status":"sold"}`,
    ]
    assert.equal(await store.reset(pets), true)
    assert.deepEqual(await store.page({ limit: 2, after: 0 }), {
      json: `[${json[0]},${json[1]}]`,
      next: large,
    })
    const sold = await store.page({ limit: 2, after: 1, status: 'sold' })
    assert.deepEqual(sold, { json: `[${json[1]},${json[2]}]`, next: undefined })
    assert.equal(await store.get(large), json[1])
    assert.equal(await store.get(large - 1n), undefined)
    const last = { ok: true, id: max, json: `{"id":${max},"name":"","categoryId":1}` }
    assert.deepEqual(await store.add({ name: '', categoryId: 1 }), last)
    assert.deepEqual(await store.add({ name: '', categoryId: 1 }), {
      ok: false,
      reason: 'store_full',
    })
    assert.equal(await store.isWritable(), true)
    await store.reset([{ name: '', categoryId: 1 }])
    assert.equal(
      (await store.page({ limit: 1, after: 0 })).json,
      '[{"id":1,"name":"","categoryId":1}]',
    )
  })
})
