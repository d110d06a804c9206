import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export const KEY = 'key-of-the-bench'
export const NEW_PET = '{"name":"abcdefghij","categoryId":7,"status":"pending"}'

const FLOOR = `
const body = Buffer.from(process.env.BODY), status = Number(process.env.STATUS)
require('node:http').createServer((req, res) => {
  res.writeHead(status, { 'Content-Type': 'application/json', 'Content-Length': body.length })
  res.end(body)
}).listen(0, '127.0.0.1', function () { console.log('http://127.0.0.1:' + this.address().port + '/v1') })`

/** Where the files of the benchmark are. */
export const folder: string = mkdtempSync(join(tmpdir(), 'petstore-bench-'))
process.on('exit', () => rmSync(folder, { recursive: true }))
process.setMaxListeners(0) // each server has one, to end with the benchmark

/** A server in a process of its own, on the first core. */
export interface Server {
  url: string
  pid: number
  close: () => Promise<unknown>
}

/** Writes a file of the benchmark; returns its path. */
export function write(name: string, content: string): string {
  writeFileSync(join(folder, name), content)
  return join(folder, name)
}

/** Starts the floor, node:http with nothing behind it but the bytes and the status of a response. */
export function startFloor(node: string, body: string, status: number): Promise<Server> {
  return start([node, '-e', FLOOR], 'off', { BODY: body, STATUS: String(status) })
}

/** Starts the built server, with its log in a file, or none. */
export function startBuilt(node: string, log: 'off' | 'json', ...flags: string[]): Promise<Server> {
  return start([node, 'dist/main.js', '--port', '0', '--api-key', KEY, '--log', log, ...flags], log)
}

/** Resolves when the server prints its address. */
async function start(command: readonly string[], log: 'off' | 'json', env = {}): Promise<Server> {
  const stdout = log === 'off' ? 'pipe' : openSync(join(folder, 'log'), 'w')
  const stdio: ['ignore', typeof stdout, 'pipe'] = ['ignore', stdout, 'pipe']
  const child = spawn('taskset', ['-c', '0', ...command], { env: { ...process.env, ...env }, stdio })
  process.once('exit', () => child.kill())
  for await (const chunk of child.stdout ?? child.stderr ?? []) {
    const [url] = /http:\/\/\S+/.exec(String(chunk)) ?? []
    const close = () => (child.kill(), once(child, 'exit'))
    if (url !== undefined) return { url, pid: child.pid ?? 0, close }
  }
  throw new Error(`the server did not start: ${command.join(' ')}`)
}

/** Milliseconds from the start of a server to its first response. */
export async function startOf(start: () => Promise<Pick<Server, 'url'> & { close: () => unknown }>): Promise<number> {
  const started = performance.now()
  const { url, close } = await start()
  await (await fetch(`${url}/pets`, { headers: { Authorization: `Bearer ${KEY}` } })).text()
  const ms = performance.now() - started
  await close()
  return ms
}

/** JSON of so many pets, their names ten characters long, a third of them sold. */
const petsOf = (count: number) =>
  Array.from({ length: count }, (_, at) => (at % 3 === 0 ? NEW_PET.replace('pending', 'sold') : NEW_PET))

/** Writes a seed of so many pets; returns its path. */
export const writeSeed = (count: number): string => write('seed.json', `[${petsOf(count).join(',')}]`)

/** Writes a snapshot of so many pets; returns its path. */
export function writeSnapshot(count: number): string {
  const lines = petsOf(count).map((json, at) => json.replace('{', `{"id":${at + 1},`))
  return write(`${count}.json`, `[\n${lines.join(',\n')}\n]\n`)
}

export function residentBytes({ pid }: Server): number {
  return 1024 * Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1])
}
