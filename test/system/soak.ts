// Whether two million requests leave anything behind in the server's memory: `npm run test:soak`, a few minutes.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { AUTHORIZATION, folderOf, KEY, Random, RawConnection, send } from '../support.ts'

const REQUESTS = Number(process.env['REQUESTS'] ?? 2_000_000)
const FIRST = REQUESTS / 10
const SAMPLES = 10
const CONNECTIONS = 16
/** Requests on a connection before a new one takes its place, and how many are sent at once. */
const ON_ONE = 400
const AT_ONCE = 20
// Full long before the first figure is taken: from then on the animals are no more, and what grows is a leak.
const MAX_STORE = '512k'

const MIX: readonly { request: string; statuses: number[]; body?: string }[] = [
  { request: 'GET /v1/pets', statuses: [200] },
  { request: 'GET /v1/pets?status=sold&limit=100', statuses: [200] },
  { request: 'GET /v1/pets?after=300&limit=50', statuses: [200] },
  { request: 'GET /v1/pets/1', statuses: [200, 404] },
  { request: 'HEAD /v1/pets', statuses: [200] },
  { request: 'GET /readyz', statuses: [200] },
  { request: 'POST /v1/pets', statuses: [201, 507], body: '{"name":"Rex","categoryId":7,"status":"sold"}' },
  { request: 'POST /v1/pets', statuses: [201, 507], body: `{"name":"${'ö'.repeat(500)}","categoryId":1e3}` },
  { request: 'POST /v1/pets', statuses: [201, 507], body: '{"name":"Bella","categoryId":9223372036854775807}' },
  { request: 'POST /v1/pets', statuses: [400], body: '{"name":7,"status":"lost"}' },
  { request: 'POST /v1/pets', statuses: [400], body: '{"name":' },
  { request: 'POST /v1/pets', statuses: [413], body: 'x'.repeat(70_000) },
  { request: 'GET /v1/pets?limit=0', statuses: [400] },
  { request: 'GET /v1/pets/999999999', statuses: [404] },
  { request: 'DELETE /v1/pets', statuses: [405] },
]
const BYTES = MIX.map(({ request, body = '' }) => {
  const fields = `Host: x\r\nAuthorization: ${AUTHORIZATION}\r\nX-Request-Id: soak\r\n`
  return `${request} HTTP/1.1\r\n${fields}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`
})
/** What the last bytes on a connection may be, before it is given up. */
const LAST = ['', 'garbage\r\n\r\n', 'GET /v1/pets HT', BYTES[6]?.slice(0, -9) ?? '']

async function serve(t: TestContext): Promise<{ url: string; pid: number }> {
  const snapshot = join(folderOf(t), 'pets.json')
  const flags = ['--port', '0', '--api-key', KEY, '--log', 'json', '--snapshot', snapshot, '--max-store', MAX_STORE]
  const child = spawn(process.execPath, ['dist/main.js', ...flags], { stdio: ['ignore', 'ignore', 'pipe'] })
  t.after(() => child.kill('SIGKILL'))
  const [greeting] = await once(child.stderr, 'data')
  const [url = ''] = /http:\/\/\S+/.exec(String(greeting)) ?? []
  return { url, pid: child.pid ?? 0 }
}

function residentKilobytes(pid: number): number {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1])
}

test(`${REQUESTS} requests leave resident memory within 10 % of that after ${FIRST}`, async (t) => {
  const server = await serve(t)
  const random = new Random(1)
  const samples: number[] = []
  const started = performance.now()
  let [begun, done] = [0, 0]

  const client = async () => {
    while (begun < REQUESTS) {
      const connection = new RawConnection(t, server)
      for (let on = 0; on < ON_ONE && begun < REQUESTS; on += AT_ONCE) {
        begun += AT_ONCE
        const chosen = Array.from({ length: AT_ONCE }, () => random.integer(0, MIX.length - 1))
        const written = connection.write(chosen.map((at) => BYTES[at]).join(''))
        for (const at of chosen) {
          const { request = '', statuses } = MIX[at] ?? {}
          const { status } = await connection.read(request.startsWith('HEAD'))
          assert.ok(statuses?.includes(status), `${request}: ${status}`)
          if (++done % (FIRST / SAMPLES) === 0) samples.push(residentKilobytes(server.pid))
        }
        await written
      }
      await connection.write(random.pick(LAST))
      connection.socket.destroySoon()
    }
  }
  await Promise.all(Array.from({ length: CONNECTIONS }, client))
  assert.equal((await send(server, 'POST', '/v1/pets', { body: MIX[6]?.body ?? '' })).status, 507)

  // Medians, for garbage comes and goes.
  const medians = Array.from({ length: 10 }, (_, at) => {
    const tenth = samples.slice(at * SAMPLES, (at + 1) * SAMPLES).sort((a, b) => a - b)
    return tenth[SAMPLES / 2] ?? Number.NaN
  })
  const [first = Number.NaN, last = Number.NaN] = [medians.at(0), medians.at(-1)]
  const seconds = (performance.now() - started) / 1_000
  t.diagnostic(
    `${done} requests in ${Math.round(seconds)} s: resident ${medians.map((kB) => Math.round(kB / 1_024))} MB`,
  )
  assert.ok(last <= 1.1 * first, `${first} kB after ${FIRST} requests, ${last} kB in the end`)
})
