// examples/postgres as its users run it: the package installed, a PostgreSQL, instances.
import assert from 'node:assert/strict'
import type { SpawnOptions } from 'node:child_process'
import { chownSync, cpSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import type { Store } from '../../src/types.ts'
import { Running, USER_ENV } from '../process.ts'
import { folderOf, freePort, KEY } from '../support.ts'
import { isHere, must, npmInstall, run } from './packages.ts'

export const hasPostgres: boolean = isHere('pg_ctlcluster', 'postgresql')

const DEBIAN = '/usr/lib/postgresql'

/** The example in a project of its own, with its packages. */
export const PROJECT: string = folderOf()

export interface OpenStore {
  openStore(url: string): Store
}

export async function installExample(): Promise<OpenStore> {
  cpSync('examples/postgres', PROJECT, { recursive: true })
  const packed = must('npm', 'pack', '--ignore-scripts', '--silent', '--pack-destination', PROJECT)
  npmInstall(PROJECT, join(PROJECT, packed.trim()))
  return await import(join(PROJECT, 'store.mjs'))
}

export interface Database {
  url: string
  start(): Promise<void>
  stop(): Promise<void>
  /** Runs statements; returns what they select, a row a line. */
  query(sql: string): string
}

/** Starts a PostgreSQL until the end of the test. It refuses root, so that runs it as postgres. */
export async function startDatabase(t: TestContext): Promise<Database> {
  const versions = readdirSync(DEBIAN)
    .map(Number)
    .sort((a, b) => b - a)
  const bin = `${DEBIAN}/${versions[0]}/bin`
  const isRoot = process.getuid?.() === 0
  const idOf = (flag: string) => Number(must('id', flag, 'postgres'))
  const user = isRoot ? { uid: idOf('-u'), gid: idOf('-g') } : {}
  const folder = mkdtempSync(join(tmpdir(), 'petstore-postgres-'))
  if (user.uid !== undefined) chownSync(folder, user.uid, user.gid)
  const options: SpawnOptions = { ...user, cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] }
  const launch = (...command: string[]) => new Running(command, options)
  const init = ['-D', `${folder}/data`, '-U', 'petstore', '-A', 'trust', '-E', 'UTF8', '--no-sync']
  const { status, stderr } = await launch(`${bin}/initdb`, ...init).exited
  assert.equal(status, 0, stderr)
  const port = await freePort()
  const url = `postgres://petstore@127.0.0.1:${port}/postgres`
  const psql = (sql: string) => run('psql', url, '-X', '-q', '-A', '-t', '-c', sql)
  let server: Running | undefined

  async function start(): Promise<void> {
    const args = ['-D', `${folder}/data`, '-p', `${port}`, '-k', folder, '-h', '127.0.0.1']
    server = launch(`${bin}/postgres`, ...args)
    while (psql('select 1').status !== 0) {
      assert.equal(server.process.exitCode, null, server.stderr.text)
      await setTimeout(50)
    }
  }

  async function stop(): Promise<void> {
    server?.process.kill('SIGINT') // a fast shutdown: it disconnects its clients
    await server?.exited
  }
  t.after(async () => {
    await stop()
    rmSync(folder, { recursive: true })
  })
  await start()
  return {
    url,
    start,
    stop,
    query: (sql) => must('psql', url, '-X', '-q', '-A', '-t', '-c', sql).trim(),
  }
}

/** Starts a PgBouncer in transaction mode before a database; returns its URL. */
export async function startPgBouncer(t: TestContext, { url }: Database): Promise<string> {
  const { port: databasePort } = new URL(url)
  const port = await freePort()
  const folder = mkdtempSync(join(tmpdir(), 'petstore-pgbouncer-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const settings = `[databases]
    postgres = host=127.0.0.1 port=${databasePort} user=petstore
    [pgbouncer]
    listen_addr = 127.0.0.1
    listen_port = ${port}
    unix_socket_dir =
    auth_type = any
    pool_mode = transaction
    default_pool_size = 4`
  writeFileSync(`${folder}/pgbouncer.ini`, `${settings.replaceAll('    ', '')}\n`)
  const isRoot = process.getuid?.() === 0
  const user = isRoot ? { uid: Number(must('id', '-u', 'postgres')) } : {}
  if (user.uid !== undefined) chownSync(folder, user.uid, 0)
  const options: SpawnOptions = { ...user, stdio: ['ignore', 'pipe', 'pipe'] }
  const running = new Running(['pgbouncer', `${folder}/pgbouncer.ini`], options)
  t.after(() => running.process.kill('SIGKILL'))
  await running.until(/process up/)
  return `postgres://petstore@127.0.0.1:${port}/postgres`
}

export interface Instance {
  url: string
  port: number
  running: Running
  stop(): Promise<void>
  restart(): Promise<void>
}

export async function startInstance(
  t: TestContext,
  database: { url: string },
  more: Record<string, string> = {},
): Promise<Instance> {
  const port = await freePort()
  const address = { DATABASE_URL: database.url, PORT: `${port}` }
  const env = { ...USER_ENV, ...address, PETSTORE_API_KEYS: KEY, ...more }
  const launch = async () => {
    const running = new Running([process.execPath, 'server.mjs'], { cwd: PROJECT, env })
    t.after(() => running.process.kill('SIGKILL'))
    running.process.once('exit', (status) => {
      if (status !== null && status > 0) t.diagnostic(running.stderr.text)
    })
    await running.until(/listens on http/)
    return running
  }
  const stop = async () => {
    instance.running.process.kill('SIGTERM')
    const { status, stderr } = await instance.running.exited
    assert.deepEqual([status, stderr], [0, ''])
  }
  const restart = async () => {
    await stop()
    instance.running = await launch()
  }
  const url = `http://127.0.0.1:${port}`
  const instance = { url, port, running: await launch(), stop, restart }
  return instance
}
