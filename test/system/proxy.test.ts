// Behind a proxy: the contract passes through, and a restart on one FILE loses no pet.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { get } from 'node:https'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { launch, run } from '../process.ts'
import { KEY, listen, send, temporaryFolder } from '../support.ts'
import {
  freePort,
  listAll,
  missing,
  must,
  shownIn,
  startHaproxy,
  startLoad,
  startNginx,
} from './programs.ts'

const ROUNDS = Number(process.env['ROUNDS'] ?? 3)
const CLIENTS = 16
const executable = [process.execPath, 'dist/main.js']

const PROXIES = [
  { name: 'nginx', start: startNginx, debianPackage: 'nginx-light', bridges: false },
  { name: 'haproxy', start: startHaproxy, debianPackage: 'haproxy', bridges: true },
] as const

const noNginx = missing('nginx', 'nginx-light')

for (const { name, start, debianPackage, bridges } of PROXIES) {
  describe(`behind ${name}`, { skip: missing(name, debianPackage) }, () => {
    test('every test of the contract passes', async (t) => {
      const server = await launch(t, ['--api-key', KEY, '--demo'], { executable })
      const url = await start(t, [Number(new URL(server.url).port)])
      const contract = [process.execPath, '--import', 'tsx', '--test', 'test/contract.test.ts']
      const env = { PETSTORE_URL: `${url}/v1`, PETSTORE_API_KEY: KEY, PETSTORE_CREATE: '1' }
      const { status, stdout } = run(t, contract, env)
      assert.equal(await status, 0, stdout.text)
    })

    test('the log has the client and its id, and a refused upload its Error', async (t) => {
      const server = await launch(t, ['--api-key', KEY], { executable })
      const url = await start(t, [Number(new URL(server.url).port)])
      const { headers } = await send({ url }, 'GET', '/v1/pets')
      const id = String(headers['x-request-id'])
      const line = await server.stdout.until(/.*"requestId".*/)
      assert.match(line[0], new RegExp(`"requestId":"${id}".*"forwardedFor":"127\\.0\\.0\\.1"`))
      const body = '{'.repeat(1_000_000)
      const wrongKey = { authorization: 'Bearer another-key' }
      for (const [sent, status, code] of [
        [{ body }, 413, 'content_too_large'],
        [{ body, headers: wrongKey }, 401, 'unauthorized'],
      ] as const) {
        const answer = await send({ url }, 'POST', '/v1/pets', sent)
        assert.deepEqual([answer.status, JSON.parse(answer.body).code], [status, code])
      }
    })

    test(`no pet is lost in ${ROUNDS} restarts on one FILE under load`, async (t) => {
      const port = await freePort()
      const file = join(temporaryFolder(t), 'pets.json')
      const flags = ['--api-key', KEY, '--port', `${port}`, '--snapshot', file]
      let server = await launch(t, flags, { executable })
      const load = startLoad(await start(t, [port]), CLIENTS)
      const pauses: number[] = []
      for (let round = 0; round < ROUNDS; round++) {
        await load.answered(300)
        load.pause()
        server.child.kill('SIGTERM')
        assert.equal(await server.status, 0, server.stderr.text)
        server = await launch(t, flags, { executable })
        await load.answered(300)
        pauses.push(Math.round(load.pause()))
      }
      await load.end()
      const pets = new Set(await listAll(server))
      const lost = load.created.filter((pet) => !pets.has(pet))
      assert.deepEqual(lost, [])
      const ids = load.created.map((pet) => JSON.parse(pet).id)
      assert.equal(new Set(ids).size, ids.length, 'an id was given twice')
      // A POST that crosses the end of its connection may fail: it must not be repeated.
      const unexpected = load.failures.filter((failure) => {
        return bridges ? !failure.startsWith('POST') : !failure.includes('"unavailable"')
      })
      assert.deepEqual(unexpected.slice(0, 5), [])
      const ms = pauses.sort((one, other) => one - other)
      const pause = `${ms[ms.length >> 1]} ms without an answer (median), ${ms.at(-1)} ms (max)`
      t.diagnostic(`${pause}; ${load.created.length} created, ${load.failures.length} failed`)
    })
  })
}

test(
  'nginx ends TLS with the lines of docs/operation.md',
  { skip: noNginx || missing('openssl') },
  async (t) => {
    const folder = temporaryFolder(t)
    const files = ['-keyout', `${folder}/pets.key`, '-out', `${folder}/pets.crt`]
    must('openssl', 'req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-subj', '/CN=pets', ...files)
    const server = await launch(t, ['--api-key', KEY], { executable })
    const ports = [Number(new URL(server.url).port)]
    const url = await startNginx(t, ports, (address) => {
      return shownIn('nginx').replace('443', address).replaceAll('/etc/nginx/tls', folder)
    })
    const request = get(`${url.replace('http', 'https')}/livez`, { rejectUnauthorized: false })
    const [response]: IncomingMessage[] = await once(request, 'response')
    assert.equal(response?.statusCode, 200)
    response?.resume()
  },
)

test('nginx says with an Error that the server does not respond', { skip: noNginx }, async (t) => {
  const broken = createServer((socket) => socket.destroy())
  for (const port of [await listen(t, broken), await freePort()]) {
    const url = await startNginx(t, [port])
    for (const method of ['GET', 'POST']) {
      const { status, headers, body } = await send({ url }, method, '/v1/pets', { body: '{}' })
      assert.deepEqual([status, headers['content-type']], [502, 'application/json'])
      const { code, message, ...rest } = JSON.parse(body)
      assert.deepEqual([code, typeof message, rest], ['unavailable', 'string', { status: 502 }])
    }
  }
})
