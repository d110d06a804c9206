import assert from 'node:assert/strict'
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { Agent } from 'node:http'
import { test, type TestContext } from 'node:test'
import { type Running, run } from '../process.ts'
import { check, temporaryFile } from '../support.ts'
import type { End } from './attackers.ts'

const MB = 2 ** 20
// Far more than the server's own time-outs add up to: a test that takes it has failed.
const within = { timeout: 600_000 }

/** How many attackers there are, and the statuses with which they may end: 0 is for none. */
const ATTACKERS: Record<string, { count: number; statuses?: readonly number[] }> = {
  'reads 6 MB by the byte': { count: 150 },
  'reads by the byte': { count: 1_000 },
  'half-closes in its body': { count: 50, statuses: [400] },
  'half-closes in its head': { count: 50, statuses: [400] },
  'falls silent in its body': { count: 50, statuses: [0, 408] },
  'falls silent in its head': { count: 50, statuses: [408] },
  'sends nothing': { count: 50, statuses: [408] },
  'sends its body by the byte': { count: 50, statuses: [408] },
  // The most come last, for the others take their time to connect.
  'sends its head by the byte': { count: 1_000, statuses: [408] },
}

/** Starts attackers in a process of their own, and resolves, when all are connected, with those ends that they tell of. */
async function attack(t: TestContext, { url }: Running, counts: Record<string, number>) {
  const args = [url, JSON.stringify(counts)]
  const child = fork('test/system/attackers.ts', args, { execArgv: ['--import', 'tsx'] })
  t.after(() => child.kill('SIGKILL'))
  const ends: End[] = []
  await new Promise<void>((resolve, reject) => {
    child.on('message', (message: 'connected' | End) => (message === 'connected' ? resolve() : ends.push(message)))
    child.on('exit', () => reject(new Error('the attackers have left')))
  })
  return { child, ends }
}

/** A server with 100 pets of 60 kB, and 20 small ones behind them. */
async function serve(t: TestContext): Promise<Running> {
  const large = Array.from({ length: 100 }, () => ({ name: 'x'.repeat(60_000), categoryId: 1, status: 'sold' }))
  const small = Array.from({ length: 20 }, () => ({ name: 'Rex', categoryId: 1, status: 'available' }))
  const seed = temporaryFile(t, JSON.stringify([...large, ...small]))
  const server = await run([process.execPath, 'dist/main.js', '--seed', seed, '--keep-alive', '20'])
  t.after(() => server.process.kill('SIGKILL'))
  return server
}

/** The sockets that a process has open: a client whose buffers are full cannot tell whether the server has left. */
function socketsOf({ process: { pid } }: Running): number {
  return readdirSync(`/proc/${pid}/fd`).filter((fd) => {
    try {
      return readlinkSync(`/proc/${pid}/fd/${fd}`).startsWith('socket:')
    } catch {
      return false // closed since
    }
  }).length
}

function residentBytes({ process: { pid } }: Running): number {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) * 1_024
}

test('attackers are all ended, fill no memory, and keep nobody from an answer', within, async (t) => {
  const server = await serve(t)
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  t.after(() => agent.destroy())
  for (let times = 0; times < 20; times++) await check(server, 'GET', '/v1/pets?limit=100', 200, { agent })
  const [socketsBefore, bytesBefore] = [socketsOf(server), residentBytes(server)]
  const counts = Object.entries(ATTACKERS).map(([name, { count }]) => [name, count])
  const { child, ends } = await attack(t, server, Object.fromEntries(counts))
  const socketsDuring = socketsOf(server)
  let grown = 0
  while (socketsOf(server) > socketsBefore) {
    await check(server, 'GET', '/v1/pets?status=available', 200, { agent })
    grown = Math.max(grown, residentBytes(server) - bytesBefore)
  }
  t.diagnostic(`${socketsDuring} sockets; ${Math.round(grown / MB)} MB more`)
  assert.ok(socketsDuring > 2_000, `${socketsDuring} sockets`)
  assert.ok(grown < 400 * MB, `${grown} bytes more`)
  for (const [name, { count, statuses }] of Object.entries(ATTACKERS)) {
    if (statuses === undefined) continue
    const own = () => ends.filter((end) => end.name === name)
    while (own().length < count) await once(child, 'message')
    for (const { status } of own()) assert.ok(statuses.includes(status), `${name}: answered ${status}`)
  }
})
