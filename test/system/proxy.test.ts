// The server behind real proxies: nothing is lost, under load, through restarts, or at the end of idle connections.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { Agent } from 'node:http'
import { describe, type TestContext, test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { send } from '../support.ts'
import { type Answered, loadDuring } from './load.ts'
import { isHere } from './packages.ts'
import { freePort, PROXIES, type Proxy, type ProxyName, startProxy } from './proxies.ts'
import { serve } from './server.ts'

const [REQUESTS, RESTARTS, IDLE_CLIENTS] = [20_000, 10, 50]

/** Starts a server with the demo pets, on a port that it can come back to. */
const startDemo = (t: TestContext, port: number, ...flags: string[]) => serve(t, ['--demo', ...flags], { port })

async function assertServed(t: TestContext, { url, errors }: Proxy, work: (answered: Answered) => Promise<void>) {
  const [count, failures] = await loadDuring(url, work)
  t.diagnostic(`${count} requests, ${failures.length} of them were not answered well`)
  assert.deepEqual(failures.slice(0, 10), [], errors())
}

/** How many connections there are to a port of this machine. */
function connectionsTo(port: number): number {
  const established = `:${port.toString(16).toUpperCase().padStart(4, '0')} 01 `
  return readFileSync('/proc/net/tcp', 'utf8').split(established).length - 1
}

/** Where the clients' path is not the one that reaches the proxy, one before it has taken this away. */
const STRIPPED = { 'kept by the proxy': '', 'given back by the proxy, behind one that takes it away': '/api' }

for (const name of Object.keys(PROXIES) as ProxyName[]) {
  const skip = !isHere(name, PROXIES[name]) && `${name} is not here and cannot be installed`
  describe(`behind ${name}`, { skip }, () => {
    test(`${REQUESTS} requests of 64 clients are all answered well`, async (t) => {
      const port = await freePort()
      await startDemo(t, port)
      const proxy = await startProxy(t, name, { servers: [port] })
      await assertServed(t, proxy, (answered) => answered(REQUESTS))
    })

    test('two instances that restart in turn: every request is answered well', async (t) => {
      const servers = [await freePort(), await freePort()]
      const instances = await Promise.all(servers.map((port) => startDemo(t, port)))
      const proxy = await startProxy(t, name, { servers })
      await assertServed(t, proxy, async (answered) => {
        for (let count = 0; count < RESTARTS; count++) {
          const [at, port = 0] = [count % 2, servers[count % 2]]
          await answered(1_000)
          await proxy.isWell()
          instances[at]?.process.kill('SIGTERM')
          assert.equal((await instances[at]?.exited)?.status, 0)
          instances[at] = await startDemo(t, port)
        }
      })
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
