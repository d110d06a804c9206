// Real proxies lose nothing under load, through restarts, or when idle connections end.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { Agent } from 'node:http'
import { describe, type TestContext, test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { serve } from '../process.ts'
import { type Answer, folderOf, freePort, send } from '../support.ts'
import { assertConforms } from '../verify.ts'
import { type Ask, loadDuring } from './load.ts'
import { isHere } from './packages.ts'
import { PROXIES, type ProxyName, startProxy } from './proxies.ts'

const RESTARTS = Number(process.env['RESTARTS'] ?? 2) // of each instance
const [CLIENTS, IDLE_CLIENTS] = [64, 50]
const DEMO_PETS = 12

/** Starts an instance with the demo pets, which keeps them over its restarts. */
async function startInstance(t: TestContext) {
  const port = await freePort()
  const controlPort = await freePort()
  const controlUrl = `http://127.0.0.1:${controlPort}`
  const snapshot = `${folderOf()}/pets.json`
  const controls = ['--control-port', `${controlPort}`]
  const flags = ['--demo', '--snapshot', snapshot, '--drain-delay', '3', ...controls]
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

  const isAsked = () => send({ url: controlUrl }, 'GET', '/requests?count=1&wait=600')
  return { port, stop, restart, isAsked }
}

type Send = (method: string, path: string, body?: string) => Promise<Answer>

/** Requests whose responses do not depend on others; each request has a number. */
const KINDS: readonly ((ask: Send, count: number) => Promise<void>)[] = [
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

function askAt(url: string): Ask {
  return (agent, count) => {
    const request = KINDS[count % KINDS.length] ?? assert.fail()
    const ask: Send = (method, path, body = '') => send({ url }, method, path, { agent, body })
    return request(ask, count)
  }
}

function connectionsTo(port: number): number {
  const established = `:${port.toString(16).toUpperCase().padStart(4, '0')} 01 `
  return readFileSync('/proc/net/tcp', 'utf8').split(established).length - 1
}

for (const name of Object.keys(PROXIES) as ProxyName[]) {
  const isMissing = !isHere(name, PROXIES[name].debianPackage)
  const skip = isMissing && `${name} is not here and cannot be installed`
  describe(`behind ${name}`, { skip }, () => {
    test('no request fails and no pet is lost while two instances restart in turn', async (t) => {
      const instances = await Promise.all([0, 1].map(() => startInstance(t)))
      const proxy = await startProxy(t, name, { servers: instances.map(({ port }) => port) })
      const { count, failures } = await loadDuring(CLIENTS, askAt(proxy.url), async (answered) => {
        for (let restart = 0; restart < RESTARTS * instances.length; restart++) {
          await Promise.all(instances.map((instance) => instance.isAsked()))
          await answered(1_000)
          await instances[restart % instances.length]?.restart()
        }
      })
      t.diagnostic(`${count} requests, ${failures.length} of them were not answered well`)
      assert.deepEqual(failures.slice(0, 10), [], proxy.errors().join('\n'))
      const kept = (await Promise.all(instances.map((instance) => instance.stop()))).flat()
      const numbers = [...Array(count).keys()]
      const creations = numbers.filter((at) => at % KINDS.length === KINDS.length - 1)
      const created = creations.map((at) => `Rex ${at}`)
      assert.deepEqual(kept.filter((pet) => pet.startsWith('Rex ')).sort(), created.sort())
    })

    test('no request meets a connection that the server is about to close', async (t) => {
      const [port, keepAlive] = [await freePort(), 1]
      const server = await serve(t, ['--demo', '--keep-alive', '75'], port)
      const { url } = await startProxy(t, name, { servers: [port], keepAlive })
      const agent = new Agent({ keepAlive: true })
      t.after(() => agent.destroy())
      const clients = [...Array(IDLE_CLIENTS).keys()]
      server.process.kill('SIGSTOP') // so that each request needs a connection of its own
      const answers = clients.map(() => send({ url }, 'GET', '/v1/pets', { agent }))
      while (connectionsTo(port) < clients.length) await setTimeout(10)
      server.process.kill('SIGCONT')
      for (const { status } of await Promise.all(answers)) assert.equal(status, 200)
      // When the proxy closes them, the server is too busy to read.
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

    test('every rule of the conformance suite holds', async (t) => {
      const port = await freePort()
      await serve(t, ['--demo'], port)
      await assertConforms(`${(await startProxy(t, name, { servers: [port] })).url}/v1`)
    })

    test('Location and Link fit a base path that another proxy in front removes', async (t) => {
      const port = await freePort()
      await serve(t, ['--demo', '--base-path', '/api/shop/v1'], port)
      const prefix = '/api' // the proxy adds it again
      const proxy = await startProxy(t, name, { servers: [port], prefix })
      const ask = (method: string, path: string, body?: string) => {
        assert.ok(path.startsWith('/api/shop/v1/'), path)
        const sent = body === undefined ? {} : { body }
        return send(proxy, method, path.slice(prefix.length), sent)
      }
      const rex = JSON.stringify({ name: 'Rex', categoryId: 1 })
      const created = await ask('POST', '/api/shop/v1/pets', rex)
      assert.match(String(created.headers['x-request-id']), /^[\w-]{32,36}$/) // the proxy's own
      const read = await ask('GET', String(created.headers.location))
      assert.deepEqual([read.status, read.body], [200, created.body])
      const linked = ({ headers }: Answer) => /^<(.*?)>/.exec(String(headers['link']))?.[1] ?? ''
      const next = await ask('GET', linked(await ask('GET', '/api/shop/v1/pets?limit=7')))
      assert.equal(JSON.parse(next.body)[0].id, 8)
      assert.equal((await ask('GET', linked(read))).status, 200) // the successor
    })
  })
}
