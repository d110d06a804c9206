// The server behind real proxies: nothing is lost, under load, through restarts, or at the end of idle connections.
import assert from 'node:assert/strict'
import { EventEmitter, once } from 'node:events'
import { readFileSync } from 'node:fs'
import { Agent } from 'node:http'
import { describe, type TestContext, test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { serve } from '../process.ts'
import { type Answer, folderOf, send } from '../support.ts'
import { isHere } from './packages.ts'
import { freePort, PROXIES, type ProxyName, startProxy } from './proxies.ts'

const RESTARTS = Number(process.env['RESTARTS'] ?? 2) // so many of each instance
const [CLIENTS, IDLE_CLIENTS] = [64, 50]
const DEMO_PETS = 12

/** Starts an instance with the demo pets, which keeps them over its restarts. */
async function startInstance(t: TestContext) {
  const [port, controlPort, snapshot] = [await freePort(), await freePort(), `${folderOf(t)}/pets.json`]
  const flags = ['--demo', '--snapshot', snapshot, '--drain-delay', '3', '--control-port', `${controlPort}`]
  let server = await serve(t, flags, port)

  async function stop(): Promise<string[]> {
    server.process.kill('SIGTERM')
    assert.equal((await server.exited).status, 0)
    return JSON.parse(readFileSync(snapshot, 'utf8')).map(({ name }: { name: string }) => name)
  }

  async function restart(): Promise<void> {
    await stop()
    server = await serve(t, flags, port)
  }

  const isAsked = () => fetch(`http://127.0.0.1:${controlPort}/requests?count=1&wait=600`)
  return { port, stop, restart, isAsked }
}

type Ask = (method: string, path: string, body?: string) => Promise<Answer>

/** Requests that an instance answers well, whatever else it has been asked; each has a number. */
const KINDS: readonly ((ask: Ask, count: number) => Promise<void>)[] = [
  async (ask, count) => {
    const after = count % 9
    const { status, body } = await ask('GET', `/v1/pets?limit=3&after=${after}`)
    const ids = JSON.parse(body).map(({ id }: { id: number }) => id)
    assert.deepEqual([status, ids], [200, [after + 1, after + 2, after + 3]])
  },
  async (ask, count) => {
    const id = (count % DEMO_PETS) + 1
    const { status, body } = await ask('GET', `/v1/pets/${id}`)
    assert.deepEqual([status, JSON.parse(body).id], [200, id])
  },
  async (ask, count) => {
    const pet = { name: `Rex ${count}`, categoryId: count, status: 'sold' }
    const { status, headers, body } = await ask('POST', '/v1/pets', JSON.stringify(pet))
    const { id, ...rest } = JSON.parse(body)
    assert.deepEqual([status, rest, headers.location], [201, pet, `/v1/pets/${id}`])
    assert.ok(id > DEMO_PETS)
  },
]

// Keeps clients busy, each on a connection of its own, for as long as `work` takes: it is handed what resolves when so
// many more requests have been answered. Resolves to how many there were, and what became of those that failed.
async function loadDuring(url: string, work: (answered: (more: number) => Promise<void>) => Promise<void>) {
  const agent = new Agent({ keepAlive: true, maxSockets: CLIENTS })
  const progress = new EventEmitter()
  const failures: string[] = []
  let [isOver, begun, done] = [false, 0, 0]
  const ask: Ask = (method, path, body) => send({ url }, method, path, { agent, ...(body !== undefined && { body }) })
  const client = async () => {
    while (!isOver) {
      const count = begun++
      const request = KINDS[count % KINDS.length] ?? assert.fail()
      await request(ask, count).catch((error) => failures.push(`${count}: ${error}`))
      done++
      progress.emit('done')
    }
  }
  const clients = Array.from({ length: CLIENTS }, client)
  const answered = async (more: number) => {
    for (const end = done + more; done < end;) await once(progress, 'done')
  }
  await work(answered).finally(() => (isOver = true))
  await Promise.all(clients)
  agent.destroy()
  return { count: done, failures }
}

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
      const instances = await Promise.all([0, 1].map(() => startInstance(t)))
      const proxy = await startProxy(t, name, { servers: instances.map(({ port }) => port) })
      const { count, failures } = await loadDuring(proxy.url, async (answered) => {
        for (let restart = 0; restart < RESTARTS * instances.length; restart++) {
          await Promise.all(instances.map((instance) => instance.isAsked()))
          await answered(1_000)
          await instances[restart % instances.length]?.restart()
        }
      })
      t.diagnostic(`${count} requests, ${failures.length} of them were not answered well`)
      assert.deepEqual(failures.slice(0, 10), [], proxy.errors().join('\n'))
      const kept = (await Promise.all(instances.map((instance) => instance.stop()))).flat()
      const numbers = Array.from({ length: count }, (_, at) => at)
      const created = numbers.filter((at) => at % KINDS.length === KINDS.length - 1).map((at) => `Rex ${at}`)
      assert.deepEqual(kept.filter((pet) => pet.startsWith('Rex ')).sort(), created.sort())
    })

    test('connections that are idle for as long as the proxy keeps them are not closed under a request', async (t) => {
      const [port, keepAlive] = [await freePort(), 1]
      const server = await serve(t, ['--demo', '--keep-alive', '75'], port)
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
        await serve(t, ['--demo', '--base-path', '/api/shop/v1'], port)
        const proxy = await startProxy(t, name, { servers: [port], prefix: stripped })
        const ask = (method: string, path: string, body?: string) => {
          assert.ok(path.startsWith('/api/shop/v1/'), path)
          return send(proxy, method, path.slice(stripped.length), body === undefined ? {} : { body })
        }
        const created = await ask('POST', '/api/shop/v1/pets', JSON.stringify({ name: 'Rex', categoryId: 1 }))
        const read = await ask('GET', String(created.headers.location))
        assert.deepEqual([read.status, read.body], [200, created.body])
        const linked = ({ headers }: Answer) => /^<(.*?)>/.exec(String(headers['link']))?.[1] ?? ''
        const next = await ask('GET', linked(await ask('GET', '/api/shop/v1/pets?limit=7')))
        assert.equal(JSON.parse(next.body)[0].id, 8)
        assert.equal((await ask('GET', linked(read))).status, 200) // the successor
      })
    }
  })
}
