// examples/postgres: two instances of the executable share a database behind nginx.
import assert from 'node:assert/strict'
import { chownSync, cpSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test, type TestContext } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { launch, run, type Running, type Server } from '../process.ts'
import { KEY, send, temporaryFolder } from '../support.ts'
import { freePort, listAll, missing, must, startLoad, startNginx } from './programs.ts'

const DEBIAN = '/usr/lib/postgresql'

interface Database {
  readonly url: string
  start(): Promise<void>
  stop(): Promise<void>
}

/** Starts a PostgreSQL, which refuses to run as root, until the end of the test. */
async function startDatabase(t: TestContext): Promise<Database> {
  const [version = ''] = readdirSync(DEBIAN).sort((a, b) => Number(b) - Number(a))
  const bin = join(DEBIAN, version, 'bin')
  const folder = temporaryFolder(t)
  const data = join(folder, 'data')
  const isRoot = process.getuid?.() === 0
  const asUser = isRoot ? ['setpriv', '--reuid=postgres', '--regid=postgres', '--clear-groups'] : []
  if (isRoot) chownSync(folder, Number(must('id', '-u', 'postgres')), 0)
  const [program = '', ...args] = [...asUser, join(bin, 'initdb'), '-D', data, '-U', 'petstore']
  must(program, ...args, '-A', 'trust', '--no-sync')
  const port = await freePort()
  const url = `postgres://petstore@127.0.0.1:${port}/postgres`
  const flags = ['-D', data, '-p', `${port}`, '-k', folder, '-h', '127.0.0.1']
  let server: Running
  async function start(): Promise<void> {
    server = run(t, [...asUser, join(bin, 'postgres'), ...flags])
    while ((await run(t, ['psql', url, '-c', 'select 1']).status) !== 0) await setTimeout(50)
  }
  async function stop(): Promise<void> {
    server.child.kill('SIGINT') // it disconnects its clients
    await server.status
  }
  await start()
  return { url, start, stop }
}

/** Returns what starts an instance of the executable with the example, at a port. */
function installExample(t: TestContext, DATABASE_URL: string): (port: number) => Promise<Server> {
  const folder = temporaryFolder(t)
  cpSync('examples/postgres', folder, { recursive: true })
  must('npm', 'install', '--silent', '--prefix', folder, '--ignore-scripts', '--no-audit')
  const store = ['--store', join(folder, 'store.mjs')]
  const executable = [process.execPath, 'dist/main.js', '--api-key', KEY, ...store]
  return (port) => {
    return launch(t, ['--port', `${port}`, '--control-port', '0'], {
      executable,
      env: { DATABASE_URL },
    })
  }
}

async function ask(server: Server, request: string): Promise<string> {
  const [method = '', path = ''] = request.split(' ')
  const { status, body } = await send(server, method, path, { body: '{"name":"","categoryId":1}' })
  return `${status} ${status < 400 ? body : JSON.parse(body).code}`
}

describe('with PostgreSQL', { skip: missing('pg_ctlcluster', 'postgresql') }, () => {
  test('two instances behind nginx share a database, and restart in turn', async (t) => {
    const database = await startDatabase(t)
    const startAt = installExample(t, database.url)
    const ports = [await freePort(), await freePort()]
    const instances = await Promise.all(ports.map(startAt))
    const load = startLoad(await startNginx(t, ports), 16)
    for (const [at, port] of ports.entries()) {
      await load.answered(300)
      instances[at]?.child.kill('SIGTERM')
      assert.equal(await instances[at]?.status, 0)
      instances[at] = await startAt(port)
    }
    await load.answered(300)
    await load.end()
    assert.deepEqual(load.failures, [])
    for (const instance of instances) {
      assert.deepEqual((await listAll(instance)).sort(), load.created.sort())
    }

    await database.stop()
    for (const instance of instances) {
      for (const request of ['GET /v1/pets', 'GET /v1/pets/1', 'POST /v1/pets']) {
        assert.equal(await ask(instance, request), '503 storage_failed')
      }
      assert.equal(await ask(instance, 'GET /readyz'), '200 {"ok":true}')
    }
    await database.start()
    for (const instance of instances) {
      assert.equal((await listAll(instance)).length, load.created.length)
    }
  })

  test('it is exact: names, integers of 64 bits, pages, and the last id', async (t) => {
    const database = await startDatabase(t)
    const server = await installExample(t, database.url)(0)
    const controls = { url: String(server.first['controlUrl']) }
    const pets = [
      `{"id":1,"name":"\\u0000\\ud800\\"","categoryId":-9223372036854775808}`,
      `{"id":9007199254740993,"name":"","categoryId":9223372036854775807,"status":"sold"}`,
      `{"id":9223372036854775805,"name":"Søren 😀","categoryId":1,"status":"sold"}`,
    ]
    const reset = await send(controls, 'POST', '/reset', { body: `[${pets.join(',')}]` })
    assert.equal(reset.status, 204, reset.body)
    assert.deepEqual(await listAll(server), pets)
    const page = await send(server, 'GET', '/v1/pets?limit=1&status=sold')
    assert.equal(page.body, `[${pets[1]}]`)
    assert.equal(
      page.headers['link'],
      '</v1/pets?limit=1&status=sold&after=9007199254740993>; rel="next"',
    )
    assert.equal(await ask(server, 'GET /v1/pets/9007199254740993'), `200 ${pets[1]}`)
    assert.equal(await ask(server, 'GET /v1/pets/9007199254740992'), '404 not_found')
    const three = await send(controls, 'POST', '/pets', {
      body: `[${Array(3).fill('{"name":"","categoryId":1}').join(',')}]`,
    })
    assert.equal(three.status, 507) // all or none
    for (const id of ['9223372036854775806', '9223372036854775807']) {
      assert.equal(await ask(server, 'POST /v1/pets'), `201 {"id":${id},"name":"","categoryId":1}`)
    }
    assert.equal(await ask(server, 'POST /v1/pets'), '507 store_full')
    await send(controls, 'POST', '/reset', { body: '[{"name":"","categoryId":1}]' })
    assert.deepEqual(await listAll(server), ['{"id":1,"name":"","categoryId":1}'])
  })
})
