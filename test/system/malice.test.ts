// Thousands of clients that mean no good, with the server's own time-outs; http/ tests each alone, with short ones.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { Agent } from 'node:http'
import { connect } from 'node:net'
import { test, type TestContext } from 'node:test'
import { AUTHORIZATION, check, temporaryFile } from '../support.ts'
import { must } from './packages.ts'
import { residentKiB, type Running, serve } from '../process.ts'

const HEADERS = `HTTP/1.1\r\nHost: x\r\nAuthorization: ${AUTHORIZATION}\r\n`
const HEAD = `GET /v1/pets?limit=5 ${HEADERS}`
const POST = `POST /v1/pets ${HEADERS}Content-Length: 60\r\n\r\n`
const BODY = '{"name":"'
const SECOND = 1_000
/** Fewer than a listener's backlog: one that overflows makes the system wait. */
const AT_ONCE = 20

interface Attack {
  count: number
  sends: string // written at once
  drips?: string // written a byte a second
  halfCloses?: true // ends its own side once all is sent
  sips?: true // reads a byte a second
  /** With which it may be answered: 0 is for none. Those who sip cannot tell whether the server has left. */
  statuses?: readonly number[]
}

const ATTACKS: readonly Attack[] = [
  // The answer of 6 MB does not fit into the system's buffers: the server has to hold the rest of it.
  { count: 150, sends: `GET /v1/pets?limit=100 ${HEADERS}\r\n`, sips: true },
  { count: 1_000, sends: `${HEAD}\r\n`, sips: true },
  { count: 50, sends: POST + BODY, halfCloses: true, statuses: [400] },
  { count: 50, sends: HEAD, halfCloses: true, statuses: [400] },
  { count: 50, sends: POST + BODY, statuses: [0, 408] },
  { count: 50, sends: HEAD, statuses: [408] },
  { count: 50, sends: '', statuses: [408] },
  { count: 50, sends: POST, drips: BODY + 'x'.repeat(40), statuses: [408] },
  // The most come last, for the others take their time to connect.
  { count: 1_000, sends: '', drips: HEAD, statuses: [408] },
]

/** Attacks; resolves when it is connected, to the status that it is answered in the end. */
async function attack(t: TestContext, { url }: Running, { sends, drips = '', halfCloses, sips }: Attack) {
  const { hostname, port } = new URL(url)
  let received = ''
  const read = (bytes: number, buffer: Uint8Array) => {
    if (received.length < 20) received += Buffer.from(buffer.subarray(0, bytes)).toString('latin1')
    if (sips) setTimeout(() => socket.resume(), SECOND)
    return sips === undefined
  }
  const onread = { buffer: Buffer.alloc(sips ? 1 : 1_024), callback: read }
  const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: halfCloses === true, onread })
  t.after(() => socket.destroy())
  await once(socket, 'connect')
  if (halfCloses) socket.end(sends)
  else socket.write(sends)
  // Not before: what is written while the system still connects would stand in front of what it sends at once.
  let at = 0
  const dripping = setInterval(() => at < drips.length && socket.write(drips.charAt(at++)), SECOND)
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

// Far more than the server's own time-outs add up to: a test that takes it has failed.
test('attackers are all ended, fill no memory, and keep nobody from an answer', { timeout: 600_000 }, async (t) => {
  const large = Array.from({ length: 100 }, () => ({ name: 'x'.repeat(60_000), categoryId: 1, status: 'sold' }))
  const small = Array.from({ length: 20 }, () => ({ name: 'Rex', categoryId: 1, status: 'available' }))
  const seed = temporaryFile(t, JSON.stringify([...large, ...small]))
  const server = await serve(t, ['--seed', seed, '--keep-alive', '20'])
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  t.after(() => agent.destroy())
  for (let times = 0; times < 20; times++) await check(server, 'GET', '/v1/pets?limit=100', 200, { agent })
  const [socketsBefore, residentBefore] = [socketsOf(server), residentKiB(server)]
  const ends: [attack: Attack, ended: Promise<number>][] = []
  const attackers = ATTACKS.flatMap((one) => Array<Attack>(one.count).fill(one))
  for (let at = 0; at < attackers.length; at += AT_ONCE) {
    const some = attackers.slice(at, at + AT_ONCE)
    await Promise.all(some.map(async (one) => ends.push([one, (await attack(t, server, one)).ended])))
  }
  const socketsDuring = socketsOf(server)
  let grown = 0
  while (socketsOf(server) > socketsBefore) {
    await check(server, 'GET', '/v1/pets?status=available', 200, { agent })
    grown = Math.max(grown, residentKiB(server) - residentBefore)
  }
  t.diagnostic(`${socketsDuring} sockets; ${Math.round(grown / 1_024)} MiB more`)
  assert.ok(socketsDuring > 1_500, `${socketsDuring} sockets`)
  assert.ok(grown < 400_000, `${grown} KiB more`)
  for (const [{ statuses, ...rest }, ended] of ends) {
    if (statuses !== undefined) assert.ok(statuses.includes(await ended), JSON.stringify(rest))
  }
})
