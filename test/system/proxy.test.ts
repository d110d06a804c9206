// Behind nginx: the contract passes through, and a restart on one FILE loses nothing.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { launch, type Running } from '../process.ts'
import { KEY, send, temporaryFolder } from '../support.ts'
import { freePort, isHere, listAll, must, startLoad, startNginx } from './programs.ts'

const ROUNDS = Number(process.env['ROUNDS'] ?? 5)
const CLIENTS = 16
const SERVER = [process.execPath, 'dist/main.js', '--api-key', KEY]

const skip = !isHere('nginx', 'nginx-light') && 'nginx is not here and cannot be installed'
describe('behind nginx', { skip }, () => {
  test('every check of the contract passes', async (t) => {
    const port = await freePort()
    await launch(t, [...SERVER, '--port', `${port}`, '--demo'])
    const url = await startNginx(t, [port])
    process.env['PETSTORE_API_KEY'] = KEY
    const suite = [
      '--import',
      'tsx',
      'test/contract/main.ts',
      `${url}/v1`,
      '--create',
      '--decisions',
    ]
    must(process.execPath, ...suite)
  })

  test('an Error says that the server cannot be reached, or does not respond', async (t) => {
    const broken = createServer((socket) => socket.destroy()).listen(0, '127.0.0.1')
    t.after(() => broken.close())
    await once(broken, 'listening')
    const address = broken.address()
    assert.ok(address !== null && typeof address === 'object')
    const url = await startNginx(t, [address.port])
    const { status, headers, body } = await send({ url }, 'GET', '/v1/pets')
    assert.deepEqual([status, headers['content-type']], [502, 'application/json'])
    const { code, message, ...rest } = JSON.parse(body)
    assert.deepEqual([code, typeof message, rest], ['unavailable', 'string', { status: 502 }])
  })

  test(`no request fails and no pet is lost in ${ROUNDS} restarts on one FILE`, async (t) => {
    const ports = [await freePort(), await freePort()]
    const url = await startNginx(t, ports)
    const flags = [...SERVER, '--log', 'off', '--snapshot', join(temporaryFolder(t), 'pets.json')]
    const startAt = (port = 0) => launch(t, [...flags, '--port', `${port}`])
    let server: Running = await startAt(ports[0])
    const load = startLoad(url, CLIENTS)
    for (let round = 1; round <= ROUNDS; round++) {
      await load.answered(500)
      const next = await startAt(ports[round % 2])
      await load.answered(100) // of both
      server.child.kill('SIGTERM')
      assert.equal(await server.exited, 0, server.stderr.text)
      server = next
    }
    await load.answered(500)
    await load.end()
    const pets = await listAll(server)
    t.diagnostic(`${load.created.length} pets were added, ${load.failures.length} requests failed`)
    assert.deepEqual(load.failures.slice(0, 10), [])
    const lost = load.created.filter((pet) => !pets.includes(pet))
    const unknown = pets.filter((pet) => !load.created.includes(pet))
    assert.deepEqual({ lost, unknown }, { lost: [], unknown: [] })
  })
})
