// The server behind real proxies: nothing is lost, under load, through restarts, or at the end of idle connections.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { Agent } from 'node:http'
import { describe, type TestContext, test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { type Running, run } from '../process.ts'
import { send } from '../support.ts'
import { loadDuring } from './load.ts'
import { freePort, isMissing, type Proxy, type ProxyName, startProxy } from './proxies.ts'

const PROXIES: ProxyName[] = ['nginx', 'haproxy']
const RESTARTS = Number(process.env['RESTARTS'] ?? 10)

/** A server that can be restarted on its port. */
class Instance {
  readonly port: number
  readonly #flags: readonly string[]
  #running: Running | undefined

  private constructor(port: number, flags: readonly string[]) {
    this.port = port
    this.#flags = flags
  }

  static async start(t: TestContext, ...flags: string[]): Promise<Instance> {
    const instance = new Instance(await freePort(), flags)
    t.after(() => instance.signal('SIGKILL'))
    await instance.start()
    return instance
  }

  async start(): Promise<void> {
    this.#running = await run([process.execPath, 'dist/main.js', '--demo', ...this.#flags], this.port)
  }

  signal(signal: NodeJS.Signals): void {
    this.#running?.process.kill(signal)
  }

  /** Ends it by SIGTERM, which must be well with all that it had in flight. */
  async stop(): Promise<void> {
    const { process } = this.#running ?? assert.fail()
    process.kill('SIGTERM')
    assert.deepEqual(await once(process, 'exit'), [0, null])
  }
}

/** Keeps 64 clients busy for as long as `work` takes: every answer must be the one expected. */
async function assertServed(t: TestContext, { url, errors }: Proxy, work: Promise<unknown>): Promise<void> {
  const { answered, failures } = await loadDuring(url, work)
  t.diagnostic(`answered: ${JSON.stringify(answered)}, failed: ${failures.length}`)
  assert.deepEqual(failures.slice(0, 10), [], errors())
  assert.deepEqual(Object.keys(answered).sort(), ['create', 'list', 'one'])
}

/** How many connections there are to a port of this machine. */
function connectionsTo(port: number): number {
  const established = `:${port.toString(16).toUpperCase().padStart(4, '0')} 01 `
  return readFileSync('/proc/net/tcp', 'utf8').split(established).length - 1
}

interface KeepAlive {
  /** Seconds. */
  proxy: number
  server: number
}

/**
 * Uses 50 connections between proxy and server when the proxy has kept them idle for as long as it does, to a server that is
 * just then too busy to read: when it is free again, it must not find that their time was over.
 *
 * @returns The statuses of the answers, undefined where there was none.
 */
async function raceIdle(t: TestContext, name: ProxyName, keepAlive: KeepAlive): Promise<(number | undefined)[]> {
  const server = await Instance.start(t, '--keep-alive', String(keepAlive.server))
  const { url } = await startProxy(t, name, { servers: [server.port], keepAlive: keepAlive.proxy })
  const agent = new Agent({ keepAlive: true })
  t.after(() => agent.destroy())
  const clients = Array.from({ length: 50 }, (_, at) => at)

  server.signal('SIGSTOP') // so that each request needs a connection of its own
  const answers = clients.map(() => send({ url }, 'GET', '/v1/pets', { agent }))
  while (connectionsTo(server.port) < clients.length) await setTimeout(10)
  server.signal('SIGCONT')
  for (const { status } of await Promise.all(answers)) assert.equal(status, 200)

  server.signal('SIGSTOP')
  const body = JSON.stringify({ name: 'Rex', categoryId: 1 })
  const created = clients.map(async (at) => {
    await setTimeout(keepAlive.proxy * (900 + (200 * at) / clients.length))
    const { status } = await send({ url }, 'POST', '/v1/pets', { agent, body }).catch(() => ({ status: undefined }))
    return status
  })
  await setTimeout(keepAlive.proxy * 1_100)
  server.signal('SIGCONT')
  return Promise.all(created)
}

/** Where the clients' path is not the one that reaches the proxy, one before it has taken this away. */
const STRIPPED = { 'kept by the proxy': '', 'given back by the proxy, behind one that takes it away': '/api' }

for (const name of PROXIES) {
  describe(`behind ${name}`, { skip: isMissing(name) }, () => {
    test('64 connections for 10 s: every request is answered well', async (t) => {
      const { port } = await Instance.start(t)
      const proxy = await startProxy(t, name, { servers: [port] })
      await assertServed(t, proxy, setTimeout(10_000))
    })

    test('two instances, one restarted every second: every request is answered well', async (t) => {
      const instances = [await Instance.start(t), await Instance.start(t)]
      const proxy = await startProxy(t, name, { servers: instances.map(({ port }) => port) })
      const restarts = async () => {
        for (let count = 0; count < RESTARTS; count++) {
          const instance = instances[count % 2] ?? assert.fail()
          await setTimeout(1_000)
          await proxy.isWell()
          await instance.stop()
          await instance.start()
        }
      }
      await assertServed(t, proxy, restarts())
    })

    test('50 connections idle for as long as the proxy keeps them, then used: every request is answered well', async (t) => {
      const statuses = await raceIdle(t, name, { proxy: 2, server: 4 })
      assert.deepEqual(new Set(statuses), new Set([201]))
    })

    test('the same with a server that keeps them for less long: requests are lost, which proves the test', async (t) => {
      const statuses = await raceIdle(t, name, { proxy: 3, server: 1 })
      assert.ok(statuses.some((status) => status !== 201))
    })

    for (const [how, stripped] of Object.entries(STRIPPED)) {
      test(`a base path of several segments, ${how}: Location and Link fit it`, async (t) => {
        const { port } = await Instance.start(t, '--base-path', '/api/shop/v1')
        const proxy = await startProxy(t, name, { servers: [port], prefix: stripped })
        const ask = (method: string, path: string, body?: string) => {
          assert.ok(path.startsWith('/api/shop/v1/'), path)
          return send(proxy, method, path.slice(stripped.length), body === undefined ? {} : { body })
        }
        const created = await ask('POST', '/api/shop/v1/pets', JSON.stringify({ name: 'Rex', categoryId: 1 }))
        const read = await ask('GET', String(created.headers.location))
        assert.deepEqual([read.status, read.body], [200, created.body])
        const ids = []
        for (let path: string | undefined = '/api/shop/v1/pets?limit=5'; path !== undefined;) {
          const page = await ask('GET', path)
          for (const { id } of JSON.parse(page.body)) ids.push(id)
          path = /^<(.*)>; rel="next"$/.exec(String(page.headers['link']))?.[1]
        }
        assert.deepEqual(
          ids,
          Array.from({ length: 13 }, (_, at) => at + 1),
        )
        const [, successor = ''] = /^<(.*?)>; rel="successor-version"/.exec(String(read.headers['link'])) ?? []
        assert.equal((await ask('GET', successor)).status, 200)
      })
    }
  })
}
