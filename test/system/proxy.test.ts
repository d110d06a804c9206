// The server behind real proxies: nothing is lost, under load, through restarts, or at the end of idle connections.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { Agent } from 'node:http'
import { describe, type TestContext, test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { folderOf, send } from '../support.ts'
import { createdOf, loadDuring } from './load.ts'
import { isHere } from './packages.ts'
import { freePort, PROXIES, type ProxyName, startProxy } from './proxies.ts'
import { serve, type Server } from './server.ts'

const RESTARTS = Number(process.env['RESTARTS'] ?? 2) // so many of each instance
const IDLE_CLIENTS = 50

/** Starts a server with the demo pets, on a port that it can come back to. */
const startDemo = (t: TestContext, port: number, ...flags: string[]) => serve(t, ['--demo', ...flags], { port })

/** An instance with the demo pets, which keeps them over its restarts. */
class Instance {
  readonly port: number
  readonly #t: TestContext
  readonly #snapshot: string
  readonly #controlPort: number
  #server: Server | undefined

  constructor(t: TestContext, port: number, controlPort: number) {
    this.#t = t
    this.#snapshot = `${folderOf(t)}/pets.json`
    this.port = port
    this.#controlPort = controlPort
  }

  static async start(t: TestContext): Promise<Instance> {
    const instance = new Instance(t, await freePort(), await freePort())
    await instance.restart()
    return instance
  }

  async restart(): Promise<void> {
    await this.#end()
    const controls = ['--control-port', `${this.#controlPort}`]
    this.#server = await startDemo(this.#t, this.port, '--snapshot', this.#snapshot, '--drain-delay', '3', ...controls)
  }

  /** Resolves when the proxy has sent it a request. */
  async isAsked(): Promise<void> {
    const url = `http://127.0.0.1:${this.#controlPort}/requests`
    while ((await (await fetch(url)).text()) === '[]') await setTimeout(20)
  }

  /** The names of all its pets. */
  async stop(): Promise<string[]> {
    await this.#end()
    return JSON.parse(readFileSync(this.#snapshot, 'utf8')).map(({ name }: { name: string }) => name)
  }

  async #end(): Promise<void> {
    this.#server?.process.kill('SIGTERM')
    assert.equal((await this.#server?.exited)?.status ?? 0, 0)
  }
}

/** How many connections there are to a port of this machine. */
function connectionsTo(port: number): number {
  const established = `:${port.toString(16).toUpperCase().padStart(4, '0')} 01 `
  return readFileSync('/proc/net/tcp', 'utf8').split(established).length - 1
}

/** Where the clients' path is not the one that reaches the proxy, one before it has taken this away. */
const STRIPPED = { 'kept by the proxy': '', 'given back by the proxy, behind one that takes it away': '/api' }

for (const name of Object.keys(PROXIES) as ProxyName[]) {
  const skip = !isHere(name, PROXIES[name].debianPackage) && `${name} is not here and cannot be installed`
  describe(`behind ${name}`, { skip }, () => {
    test('two instances that restart in turn: every request is answered well, and no pet lost or doubled', async (t) => {
      const instances = await Promise.all([0, 1].map(() => Instance.start(t)))
      const proxy = await startProxy(t, name, { servers: instances.map(({ port }) => port) })
      const [count, failures] = await loadDuring(proxy.url, async (answered) => {
        for (let restart = 0; restart < RESTARTS * instances.length; restart++) {
          await Promise.all(instances.map((instance) => instance.isAsked()))
          await answered(1_000)
          await instances[restart % instances.length]?.restart()
        }
      })
      t.diagnostic(`${count} requests, ${failures.length} of them were not answered well`)
      assert.deepEqual(failures.slice(0, 10), [], proxy.errors())
      const kept = (await Promise.all(instances.map((instance) => instance.stop()))).flat()
      assert.deepEqual(kept.filter((pet) => pet.startsWith('Rex ')).sort(), createdOf(count).sort())
    })

    test('connections that are idle for as long as the proxy keeps them are not closed under a request', async (t) => {
      const [port, keepAlive] = [await freePort(), 1]
      const server = await startDemo(t, port, '--keep-alive', '75')
      const { url } = await startProxy(t, name, { servers: [port], keepAlive })
      const agent = new Agent({ keepAlive: true })
      t.after(() => agent.destroy())
      const clients = Array.from({ length: IDLE_CLIENTS }, (_, at) => at)
      server.process.kill('SIGSTOP') // so that each request needs a connection of its own
      const answers = clients.map(() => send({ url }, 'GET', '/v1/pets', { agent }))
      while (connectionsTo(port) < clients.length) await setTimeout(10)
      server.process.kill('SIGCONT')
      for (const { status } of await Promise.all(answers)) assert.equal(status, 200)
      // Around the moment at which the proxy closes them, to a server that is just then too busy to read.
      server.process.kill('SIGSTOP')
      const body = JSON.stringify({ name: 'Rex', categoryId: 1 })
      const created = clients.map(async (at) => {
        await setTimeout(keepAlive * (900 + (200 * at) / clients.length))
        return (await send({ url }, 'POST', '/v1/pets', { agent, body })).status
      })
      await setTimeout(keepAlive * 1_100)
      server.process.kill('SIGCONT')
      assert.deepEqual(new Set(await Promise.all(created)), new Set([201]))
    })

    for (const [how, stripped] of Object.entries(STRIPPED)) {
      test(`a base path of several segments, ${how}: Location and Link fit it`, async (t) => {
        const port = await freePort()
        await startDemo(t, port, '--base-path', '/api/shop/v1')
        const proxy = await startProxy(t, name, { servers: [port], prefix: stripped })
        const ask = (method: string, path: string, body?: string) => {
          assert.ok(path.startsWith('/api/shop/v1/'), path)
          return send(proxy, method, path.slice(stripped.length), body === undefined ? {} : { body })
        }
        const created = await ask('POST', '/api/shop/v1/pets', JSON.stringify({ name: 'Rex', categoryId: 1 }))
        const read = await ask('GET', String(created.headers.location))
        assert.deepEqual([read.status, read.body], [200, created.body])
        const [, next = ''] =
          /^<(.*)>; rel="next"$/.exec(String((await ask('GET', '/api/shop/v1/pets?limit=7')).headers['link'])) ?? []
        assert.equal(JSON.parse((await ask('GET', next)).body)[0].id, 8)
        const [, successor = ''] = /^<(.*?)>; rel="successor-version"/.exec(String(read.headers['link'])) ?? []
        assert.equal((await ask('GET', successor)).status, 200)
      })
    }
  })
}
