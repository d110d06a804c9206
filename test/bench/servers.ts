import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { openSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

export const KEY = 'key-of-the-bench'
export const NEW_PET = '{"name":"abcdefghij","categoryId":7,"status":"pending"}'

const AVAILABLE = 10

const FLOOR = `
const body = Buffer.from(process.env.BODY), status = Number(process.env.STATUS)
require('node:http').createServer((req, res) => {
  res.writeHead(status, { 'Content-Type': 'application/json', 'Content-Length': body.length })
  res.end(body)
}).listen(0, '127.0.0.1', function () { console.log('http://127.0.0.1:' + this.address().port + '/v1') })`

/** A server in a process of its own, on the first core. */
export interface Server {
  url: string
  process: ChildProcess
}

/** Starts servers of one version of node, with their files in a folder. */
export class Servers {
  readonly folder: string
  readonly #node: string

  constructor(folder: string, node: string) {
    this.folder = folder
    this.#node = node
  }

  /** The floor: node:http with nothing behind it but the bytes and the status of an answer. */
  floor(body: string, status: number): Promise<Server> {
    return this.#start(['-e', FLOOR], { BODY: body, STATUS: String(status) }, 'ignore')
  }

  /** The built server, with its log in a file, or none. */
  petstore(log: 'off' | 'json', ...flags: string[]): Promise<Server> {
    const own = ['dist/main.js', '--port', '0', '--api-key', KEY, '--log', log]
    return this.#start([...own, ...flags], {}, log === 'off' ? 'ignore' : openSync(join(this.folder, 'log'), 'w'))
  }

  /** Resolves when the server prints its address. */
  async #start(args: readonly string[], env: Record<string, string>, log: 'ignore' | number): Promise<Server> {
    const [stdout, stderr] = log === 'ignore' ? (['pipe', 'inherit'] as const) : ([log, 'pipe'] as const)
    const child = spawn('taskset', ['-c', '0', this.#node, ...args], {
      env: { ...process.env, ...env },
      stdio: ['ignore', stdout, stderr],
    })
    process.once('exit', () => child.kill())
    const output = child.stdout ?? child.stderr
    if (output === null) throw new Error('the server has no output')
    for await (const chunk of output) {
      const [url] = /http:\/\/\S+/.exec(String(chunk)) ?? []
      if (url !== undefined) return { url, process: child }
    }
    throw new Error('the server did not start')
  }
}

export function stop(...servers: readonly Server[]): Promise<unknown> {
  for (const { process } of servers) process.kill('SIGTERM')
  return Promise.all(servers.map(({ process }) => once(process, 'exit')))
}

/** JSON of so many animals, their names ten characters long: a third of them sold, ten available, and the others pending. */
function animals(count: number): string[] {
  return Array.from({ length: count }, (_, at) => {
    const isAvailable = at % Math.floor(count / AVAILABLE) === 1
    return NEW_PET.replace('pending', isAvailable ? 'available' : at % 3 ? 'pending' : 'sold')
  })
}

/** Writes a seed of so many animals; returns the flag that names it. */
export function seed(folder: string, count: number): string {
  const path = join(folder, 'seed.json')
  writeFileSync(path, `[${animals(count).join(',')}]`)
  return `--seed=${path}`
}

/** Writes a snapshot of so many animals; returns its path. */
export function writeSnapshot(folder: string, count: number): string {
  const path = join(folder, `${count}.json`)
  const lines = animals(count).map((json, at) => json.replace('{', `{"id":${at + 1},`))
  writeFileSync(path, `{"petstore":1,"pets":[\n${lines.join('\n,')}\n]}\n`)
  return path
}

/** Bytes of a server's resident memory. */
export function residentOf({ process }: Server): number {
  const [, kilobytes] = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${process.pid}/status`, 'utf8')) ?? []
  return Number(kilobytes) * 1024
}

/** Milliseconds from the start of a server to its first answer. */
export async function firstAnswerOf(start: () => Promise<Server>): Promise<number> {
  const started = performance.now()
  const server = await start()
  const response = await fetch(`${server.url}/pets`, { headers: { Authorization: `Bearer ${KEY}` } })
  await response.text()
  const ms = performance.now() - started
  if (response.status !== 200) throw new Error(`the first answer was ${response.status}`)
  await stop(server)
  return ms
}

/** Adds so many animals a second to a server, until it is told to end; resolves when all were answered 201. */
export function createSteadily(url: string, perSecond: number): () => Promise<void> {
  const headers = { Authorization: `Bearer ${KEY}`, 'Content-Type': 'application/json' }
  const started = performance.now()
  const pending: Promise<void>[] = []
  const timer = setInterval(() => {
    const due = Math.floor(((performance.now() - started) / 1_000) * perSecond)
    while (pending.length < due) pending.push(create())
  }, 5)
  async function create(): Promise<void> {
    const response = await fetch(`${url}/pets`, { method: 'POST', headers, body: NEW_PET })
    await response.text()
    if (response.status !== 201) throw new Error(`an addition was answered ${response.status}`)
  }
  return async () => {
    clearInterval(timer)
    await Promise.all(pending)
  }
}
