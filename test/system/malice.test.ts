import assert from 'node:assert/strict'
import { fork } from 'node:child_process'
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { Agent } from 'node:http'
import { test, type TestContext } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { LIMITS } from '../../src/http/limits.ts'
import { type Running, run } from '../process.ts'
import { RawConnection, send, temporaryFile } from '../support.ts'
import type { End } from './attackers.ts'

// Milliseconds, as all times but those of the attackers.
const WINDOW = 1_000
const PAUSE = 5
const KEEP_ALIVE = 20
// What a time-out may take longer on a busy machine.
const SLACK = 15
const MB = 2 ** 20
const within = { timeout: 180_000 }

/** How many attackers there are, and how they must end: with one of these statuses, and within so many seconds. */
interface Expected {
  count: number
  /** 0 for none; absent where the client does not notice. */
  statuses?: number[]
  within: number
}

const HEADERS = (LIMITS.headersTimeout + LIMITS.checkInterval) / 1_000
const REQUEST = (LIMITS.requestTimeout + LIMITS.checkInterval) / 1_000
// Node takes the start of a write for progress, and so waits for the second time-out.
const STALL = (2 * LIMITS.stallTimeout + 2 * LIMITS.checkInterval) / 1_000

// The most come last, for the others take their time to connect.
const ATTACKERS: Record<string, Expected> = {
  'reads 6 MB by the byte': { count: 150, within: STALL },
  'reads by the byte': { count: 1_000, within: KEEP_ALIVE },
  'half-closes in its body': { count: 50, statuses: [400], within: 0 },
  'half-closes in its head': { count: 50, statuses: [400], within: 0 },
  'falls silent in its body': { count: 50, statuses: [0, 408], within: REQUEST },
  'falls silent in its head': { count: 50, statuses: [408], within: HEADERS },
  'sends nothing': { count: 50, statuses: [408], within: HEADERS },
  'sends its body by the byte': { count: 50, statuses: [408], within: REQUEST },
  'sends its head by the byte': { count: 1_000, statuses: [408], within: HEADERS },
}

interface Attackers {
  /** How those ended that have noticed it. */
  ends: End[]
  stop: () => void
}

/** Starts attackers in a process of their own, and resolves when all are connected. */
function attack(t: TestContext, { url }: Running, counts: Record<string, number>): Promise<Attackers> {
  const args = [url, JSON.stringify(counts)]
  const child = fork('test/system/attackers.ts', args, { execArgv: ['--import', 'tsx'] })
  const stop = () => child.kill('SIGKILL')
  t.after(stop)
  const ends: End[] = []
  return new Promise((resolve, reject) => {
    child.on('message', (message: 'connected' | End) => {
      if (message === 'connected') resolve({ ends, stop })
      else ends.push(message)
    })
    child.on('exit', () => reject(new Error('the attackers have left')))
  })
}

async function serve(t: TestContext, ...flags: readonly string[]): Promise<Running> {
  const pets = [
    ...Array.from({ length: 100 }, () => ({ name: 'x'.repeat(60_000), categoryId: 1, status: 'sold' })),
    ...Array.from({ length: 20 }, () => ({ name: 'Rex', categoryId: 1, status: 'available' })),
  ]
  const seed = temporaryFile(t, JSON.stringify(pets))
  const server = await run([process.execPath, 'dist/main.js', '--seed', seed, ...flags])
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

/**
 * Asks each server in turn, with a pause: one that asks as soon as it is answered meets a server's hiccup only once.
 *
 * @returns For each server the median of the p99 of so many seconds.
 */
async function p99s(servers: Running[], agent: Agent, windows: number): Promise<number[]> {
  const quantiles: number[][] = servers.map(() => [])
  for (let window = 0; window < windows; window++) {
    const times: number[][] = servers.map(() => [])
    for (const begun = performance.now(); performance.now() - begun < WINDOW; await setTimeout(PAUSE)) {
      for (const [at, server] of servers.entries()) {
        const asked = performance.now()
        const { status } = await send(server, 'GET', '/v1/pets?status=available', { agent })
        times[at]?.push(performance.now() - asked)
        assert.equal(status, 200)
      }
    }
    for (const [at, ofServer] of times.entries()) quantiles[at]?.push(quantile(ofServer, 0.99))
  }
  return quantiles.map((ofServer) => quantile(ofServer, 0.5))
}

function quantile(values: number[], q: number): number {
  return values.sort((a, b) => a - b)[Math.floor(values.length * q)] ?? Number.NaN
}

test('attackers are ended within their limits, slow nobody down and fill no memory', within, async (t) => {
  const server = await serve(t, '--keep-alive', String(KEEP_ALIVE))
  // Nobody attacks the other one: what slows it down is the machine, and slows both.
  const other = await serve(t)
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  t.after(() => agent.destroy())
  for (let times = 0; times < 20; times++) await send(server, 'GET', '/v1/pets?limit=100', { agent })
  const [before = Number.NaN] = await p99s([server, other], agent, 5)
  const socketsBefore = socketsOf(server)
  const bytesBefore = residentBytes(server)

  const counts = Object.entries(ATTACKERS).map(([name, { count }]) => [name, count])
  const { ends } = await attack(t, server, Object.fromEntries(counts))
  const started = performance.now()
  const socketsDuring = socketsOf(server)
  const [during = Number.NaN, beside = Number.NaN] = await p99s([server, other], agent, 8)
  const grown = residentBytes(server) - bytesBefore
  while (socketsOf(server) > socketsBefore) await p99s([server], agent, 1)
  const seconds = (performance.now() - started) / 1_000

  t.diagnostic(`p99 ${[before, during, beside].map((ms) => ms.toFixed(2))} ms before, during, and of the other during`)
  t.diagnostic(
    `${socketsDuring} sockets, the last ended after ${seconds.toFixed(1)} s; ${Math.round(grown / MB)} MB more`,
  )
  assert.ok(socketsDuring > 2_000, `${socketsDuring} sockets`)
  assert.ok(
    during <= Math.max(5 * before, 2 * beside) + 20,
    `p99 ${before} ms before, ${during} ms during, ${beside} ms beside`,
  )
  assert.ok(grown < 400 * MB, `${grown} bytes more`)
  assert.ok(seconds < STALL + SLACK, `the last ended after ${seconds} s`)
  for (const [name, { count, statuses, within }] of Object.entries(ATTACKERS)) {
    if (statuses === undefined) continue
    const own = ends.filter((end) => end.name === name)
    assert.equal(own.length, count, name)
    for (const { status, seconds } of own) {
      assert.ok(statuses.includes(status), `${name}: answered ${status}`)
      assert.ok(seconds < within + SLACK, `${name}: ended after ${seconds} s`)
    }
  }
})

test('connections beyond --max-connections are closed at once until there is room', within, async (t) => {
  const server = await serve(t, '--max-connections', '200')
  const { stop } = await attack(t, server, { 'sends its body by the byte': 200 })
  for (let times = 0; times < 5; times++) assert.equal(await new RawConnection(t, server).rest(), '')
  stop()
  // The server learns of it when it gets to it.
  let answer
  while (answer === undefined) answer = await send(server, 'GET', '/v1/pets/101').catch(() => undefined)
  assert.equal(answer.status, 200)
})
