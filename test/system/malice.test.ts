// Thousands of hostile clients at once, with the server's own timeouts. test/http/ has each alone.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { Agent } from 'node:http'
import { connect } from 'node:net'
import { test, type TestContext } from 'node:test'
import { AUTHORIZATION, check, RawConnection, temporaryFile } from '../support.ts'
import { must } from './packages.ts'
import { residentKiB, run, type Running, serve } from '../process.ts'

const HEADERS = `HTTP/1.1\r\nHost: x\r\nAuthorization: ${AUTHORIZATION}\r\n`
const HEAD = `GET /v1/pets?limit=5 ${HEADERS}`
const POST = `POST /v1/pets ${HEADERS}Content-Length: 60\r\n\r\n`
const BODY = '{"name":"'
const SECOND = 1_000
/** Fewer than a listener's backlog, which makes the system wait when it overflows. */
const AT_ONCE = 20

interface Attack {
  count: number
  sends: string // written at once
  drips?: string // written a byte a second
  halfCloses?: true // ends its side once all is sent
  sips?: true // reads a byte a second
  /** Allowed statuses of the response, 0 for none. A client that sips cannot tell. */
  statuses?: readonly number[]
}

const ATTACKS: readonly Attack[] = [
  // A response of 6 MB is more than the system buffers: the server has to hold the rest.
  { count: 150, sends: `GET /v1/pets?limit=100 ${HEADERS}\r\n`, sips: true },
  { count: 1_000, sends: `${HEAD}\r\n`, sips: true },
  { count: 50, sends: POST + BODY, halfCloses: true, statuses: [400] },
  { count: 50, sends: HEAD, halfCloses: true, statuses: [400] },
  { count: 50, sends: POST + BODY, statuses: [0, 408] },
  { count: 50, sends: HEAD, statuses: [408] },
  { count: 50, sends: '', statuses: [408] },
  { count: 50, sends: POST, drips: BODY + 'x'.repeat(40), statuses: [408] },
  // The slowest to be cut off come last.
  { count: 1_000, sends: '', drips: HEAD, statuses: [408] },
]

/** Resolves once connected. `ended` is the status of the response, or 0. */
async function attack(t: TestContext, { url }: Running, given: Attack) {
  const { sends, drips = '', halfCloses, sips } = given
  let received = ''
  const read = (bytes: number, buffer: Uint8Array) => {
    if (received.length < 20) received += Buffer.from(buffer.subarray(0, bytes)).toString('latin1')
    if (sips) setTimeout(() => socket.resume(), SECOND)
    return sips === undefined
  }
  const onread = { buffer: Buffer.alloc(sips ? 1 : 1_024), callback: read }
  const { hostname: host, port } = new URL(url)
  const allowHalfOpen = halfCloses === true
  const socket = connect({ host, port: Number(port), allowHalfOpen, onread })
  t.after(() => socket.destroy())
  await once(socket, 'connect')
  if (halfCloses) socket.end(sends)
  else socket.write(sends)
  // Only once connected: what is written before would precede `sends`.
  let dripped = 0
  const dripping = setInterval(() => {
    if (dripped < drips.length) socket.write(drips.charAt(dripped))
    dripped++
  }, SECOND)
  socket.once('close', () => clearInterval(dripping))
  const lost = once(socket, 'end').catch(() => {})
  const ended = lost.then(() => {
    socket.destroy()
    return Number(/^HTTP\/1.1 (\d+)/.exec(received)?.[1] ?? 0)
  })
  return { ended }
}

const socketsOf = ({ process: { pid } }: Running) =>
  Number(must('sh', '-c', `ls -l /proc/${pid}/fd 2>/dev/null | grep -c socket:`))

// Far longer than the sum of the server's own timeouts.
const within = { timeout: 600_000 }
test('all attackers are cut off, take little memory, and hold up nobody', within, async (t) => {
  const large = Array(100).fill({ name: 'x'.repeat(60_000), categoryId: 1, status: 'sold' })
  const small = Array(20).fill({ name: 'Rex', categoryId: 1, status: 'available' })
  const seed = temporaryFile(JSON.stringify([...large, ...small]))
  const server = await serve(t, ['--seed', seed, '--keep-alive', '20'])
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  t.after(() => agent.destroy())
  for (let times = 0; times < 20; times++)
    await check(server, 'GET', '/v1/pets?limit=100', 200, { agent })
  const socketsBefore = socketsOf(server)
  const residentBefore = residentKiB(server)
  const ends: [attack: Attack, ended: Promise<number>][] = []
  const attackers = ATTACKS.flatMap((one) => Array<Attack>(one.count).fill(one))
  for (let at = 0; at < attackers.length; at += AT_ONCE) {
    const some = attackers.slice(at, at + AT_ONCE)
    await Promise.all(
      some.map(async (one) => ends.push([one, (await attack(t, server, one)).ended])),
    )
  }
  let sockets = 0
  let socketsDuring = 0
  let grown = 0
  // Those that wait to be accepted are no sockets of the server yet.
  while (socketsDuring <= 1_000 || sockets > socketsBefore) {
    await check(server, 'GET', '/v1/pets?status=available', 200, { agent })
    sockets = socketsOf(server)
    socketsDuring = Math.max(socketsDuring, sockets)
    grown = Math.max(grown, residentKiB(server) - residentBefore)
  }
  t.diagnostic(`${socketsDuring} sockets; ${Math.round(grown / 1_024)} MiB more`)
  assert.ok(grown < 400_000, `${grown} KiB more`)
  for (const [{ statuses, ...rest }, ended] of ends) {
    if (statuses !== undefined) assert.ok(statuses.includes(await ended), JSON.stringify(rest))
  }
})

/** Opens a connection that writes these bytes and reads nothing. */
async function flood(t: TestContext, server: Running, bytes: string): Promise<void> {
  const { socket } = new RawConnection(t, server)
  await once(socket.pause(), 'connect')
  socket.write(bytes)
}

type Flood = readonly [count: number, bytes: string]

const CHUNKED = 'Transfer-Encoding: chunked\r\n\r\n'
const TRAILERS = `a-name: ${'x'.repeat(110)}\r\n`.repeat(127)
const LONG_HEADER = `a-name: ${'x'.repeat(150)}\r\n`
const PIPELINE = 'GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(995)
const TINY_CHUNKS = `POST /v1/pets ${HEADERS}${CHUNKED}${'1\r\nx\r\n'.repeat(65_000)}`
const NO_HOST = 'GET / HTTP/1.1\r\n\r\n'.repeat(3_640) // the first is the last
const PAGES = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(40)
const WAITING = `POST /v1/pets HTTP/1.1\r\nHost: x\r\n${CHUNKED}${'1\r\nx\r\n'.repeat(10_400)}`
const ROWS: readonly [what: string, megabytes: number, ...floods: Flood[]][] = [
  ['unread pipelines and tiny chunks', 256, [700, PIPELINE], [150, TINY_CHUNKS], [300, NO_HOST]],
  ['trailers', 64, [3_000, `GET /livez HTTP/1.1\r\nHost: x\r\n${CHUNKED}0\r\n${TRAILERS}\r\n`]],
  ['endless heads', 64, [1_500, HEAD + 'abc:def\r\n'.repeat(1_700)]],
  ['endless heads of long headers', 64, [4_500, HEAD + LONG_HEADER.repeat(96)]],
  ['bodies that wait', 64, [200, PAGES + WAITING]],
]
for (const [what, megabytes, ...counted] of ROWS) {
  test(`a heap of ${megabytes} MB survives ${what}`, within, async (t) => {
    const heap = `--max-old-space-size=${megabytes}`
    const server = await run(t, [process.execPath, heap, 'dist/main.js'])
    const floods = counted.flatMap(([count, bytes]) => Array<string>(count).fill(bytes))
    let resident = 0
    for (let at = 0; at < floods.length; at += AT_ONCE) {
      const some = floods.slice(at, at + AT_ONCE)
      await Promise.all(some.map((bytes) => flood(t, server, bytes)))
      resident = Math.max(resident, residentKiB(server))
    }
    for (let times = 0; times < 20; times++) {
      await check(server, 'GET', '/livez', 200)
      resident = Math.max(resident, residentKiB(server))
    }
    t.diagnostic(`${Math.round(resident / 1_024)} MiB resident`)
    assert.equal(server.process.exitCode, null)
    assert.ok(resident < 400_000, `${resident} KiB`)
  })
}
