// Whether two million requests leave anything behind in the server's memory: `npm run test:soak`, a few minutes.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { AUTHORIZATION, folderOf, Random, RawConnection, send } from '../support.ts'
import { residentKiB, serve } from './server.ts'

const REQUESTS = Number(process.env['REQUESTS'] ?? 2_000_000)
const FIRST = REQUESTS / 10
const SAMPLES = 10
const CONNECTIONS = 16
/** Requests on a connection before a new one takes its place, and how many are sent at once. */
const ON_ONE = 400
const AT_ONCE = 20
// Full long before the first figure is taken: from then on there are no more pets, and what grows is a leak.
const MAX_STORE = '512k'

const MIX: [request: string, statuses: number[], body?: string][] = [
  ['GET /v1/pets', [200]],
  ['GET /v1/pets?status=sold&limit=100', [200]],
  ['GET /v1/pets?after=300&limit=50', [200]],
  ['GET /v1/pets/1', [200, 404]],
  ['HEAD /v1/pets', [200]],
  ['GET /readyz', [200]],
  ['POST /v1/pets', [201, 507], '{"name":"Rex","categoryId":7,"status":"sold"}'],
  ['POST /v1/pets', [201, 507], `{"name":"${'ö'.repeat(500)}","categoryId":1e3}`],
  ['POST /v1/pets', [201, 507], '{"name":"Bella","categoryId":9223372036854775807}'],
  ['POST /v1/pets', [400], '{"name":7,"status":"lost"}'],
  ['POST /v1/pets', [400], '{"name":'],
  ['POST /v1/pets', [413], 'x'.repeat(70_000)],
  ['GET /v1/pets?limit=0', [400]],
  ['GET /v1/pets/999999999', [404]],
  ['DELETE /v1/pets', [405]],
]
const BYTES = MIX.map(([request, , body = '']) => {
  const headers = `Host: x\r\nAuthorization: ${AUTHORIZATION}\r\nX-Request-Id: soak\r\n`
  return `${request} HTTP/1.1\r\n${headers}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`
})
/** What the last bytes on a connection may be, before it is given up. */
const LAST = ['', 'garbage\r\n\r\n', 'GET /v1/pets HT', BYTES[6]?.slice(0, -9) ?? '']

test(`${REQUESTS} requests leave resident memory within 10 % of that after ${FIRST}`, async (t) => {
  const snapshot = join(folderOf(t), 'pets.json')
  const server = await serve(t, ['--snapshot', snapshot, '--max-store', MAX_STORE], { log: 'dropped' })
  const random = new Random(1)
  const samples: number[] = []
  let [begun, done] = [0, 0]

  const client = async () => {
    while (begun < REQUESTS) {
      const connection = new RawConnection(t, server)
      for (let on = 0; on < ON_ONE && begun < REQUESTS; on += AT_ONCE) {
        begun += AT_ONCE
        const chosen = Array.from({ length: AT_ONCE }, () => random.integer(0, MIX.length - 1))
        const written = connection.write(chosen.map((at) => BYTES[at]).join(''))
        for (const at of chosen) {
          const [request = '', statuses] = MIX[at] ?? []
          const { status } = await connection.read(request.startsWith('HEAD'))
          assert.ok(statuses?.includes(status), `${request}: ${status}`)
          if (++done % (FIRST / SAMPLES) === 0) samples.push(residentKiB(server))
        }
        await written
      }
      await connection.write(random.pick(LAST))
      connection.socket.destroySoon()
    }
  }
  await Promise.all(Array.from({ length: CONNECTIONS }, client))
  assert.equal((await send(server, 'POST', '/v1/pets', { body: MIX[6]?.[2] ?? '' })).status, 507)

  // Medians, for garbage comes and goes.
  const tenths = Array.from({ length: 10 }, (_, at) => samples.slice(at * SAMPLES, (at + 1) * SAMPLES))
  const medians = tenths.map((tenth) => tenth.toSorted((a, b) => a - b)[SAMPLES / 2] ?? Number.NaN)
  const [first = Number.NaN, last = Number.NaN] = [medians.at(0), medians.at(-1)]
  t.diagnostic(`resident after each tenth, MiB: ${medians.map((kiB) => Math.round(kiB / 1_024))}`)
  assert.ok(last <= 1.1 * first, `${first} KiB after ${FIRST} requests, ${last} KiB in the end`)
})
