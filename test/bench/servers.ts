// The servers that the benchmark compares, each in a process on the first core, and wrk, which loads them from the second.
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { openSync, writeFileSync } from 'node:fs'
import { parseArgs, promisify } from 'node:util'
import { greetingIn, type Running } from '../process.ts'
import { folderOf, KEY } from '../support.ts'

/** `--quick`: one round; `--node PATH`: another Node. */
export const OPTIONS: { quick?: boolean; node?: string } = parseArgs({
  options: { quick: { type: 'boolean' }, node: { type: 'string', default: process.execPath } },
}).values
export const FOLDER: string = folderOf()
process.setMaxListeners(0) // each server has one, to end with the benchmark

export interface Server extends Pick<Running, 'url' | 'process'> {
  close: () => Promise<unknown>
}

const FLOOR = `
const body = Buffer.from(process.env.BODY), status = Number(process.env.STATUS)
require('node:http').createServer((req, res) => {
  res.writeHead(status, { 'Content-Type': 'application/json', 'Content-Length': body.length })
  res.end(body)
}).listen(0, '127.0.0.1', function () { console.log('http://127.0.0.1:' + this.address().port + '/v1') })`

/** Starts the floor, node:http with nothing behind it but the bytes and the status of a response. */
export function startFloor(body: string, status: number): Promise<Server> {
  return start(['-e', FLOOR], 'off', { BODY: body, STATUS: String(status) })
}

export function startBuilt(log: 'off' | 'json', ...flags: string[]): Promise<Server> {
  return start(['dist/main.js', '--port', '0', '--api-key', KEY, '--log', log, ...flags], log)
}

async function start(args: readonly string[], log: 'off' | 'json', env = {}): Promise<Server> {
  const stdout = log === 'off' ? 'pipe' : openSync(`${FOLDER}/log`, 'w')
  const stdio: ['ignore', typeof stdout, 'pipe'] = ['ignore', stdout, 'pipe']
  const command = ['-c', '0', OPTIONS.node ?? '', ...args]
  const child = spawn('taskset', command, { env: { ...process.env, ...env }, stdio })
  process.once('exit', () => child.kill())
  const url = await greetingIn(child.stdout ?? child.stderr ?? process.stdin)
  return { url, process: child, close: () => (child.kill(), once(child, 'exit')) }
}

export interface Load {
  requestsPerSecond: number
  p99: number // 99th percentile of the time to a response, in milliseconds
}

/** A kind of request that is sent again and again, to each path in turn. */
export interface Request {
  paths: readonly string[]
  headers: Record<string, string>
  body?: string
  status: number // what every response must have, as 2xx or not; anything else ends the benchmark
}

// Without a callback for responses: that would make wrk, and not the server, the slower of the two.
const SCRIPT = `
wrk.method, wrk.body = os.getenv("METHOD"), os.getenv("BODY")
local requests, at = {}, 0
function init(paths)
  for index, path in ipairs(paths) do requests[index] = wrk.format(nil, path) end
end
function request()
  at = at % #requests + 1
  return requests[at]
end`
writeFileSync(`${FOLDER}/load.lua`, SCRIPT)

/** Loads a server by wrk, and checks that every response has the status that it should. */
export async function load(url: string, request: Request, connections: number, seconds: number): Promise<Load> {
  const headers = Object.entries(request.headers).flatMap(([name, value]) => ['-H', `${name}: ${value}`])
  const options = ['-t1', `-c${connections}`, `-d${seconds}s`, '--latency', '-s', `${FOLDER}/load.lua`, ...headers]
  const args = ['-c', '1', 'wrk', ...options, url, '--', ...request.paths.map((path) => new URL(url).pathname + path)]
  const method = request.body === undefined ? { METHOD: 'GET' } : { METHOD: 'POST', BODY: request.body }
  const running = promisify(execFile)('taskset', args, { env: { ...process.env, ...method } })
  const { stdout } = await running.catch((cause) => {
    throw new Error('wrk failed; the benchmark needs it and taskset: apt-get install wrk util-linux', { cause })
  })
  const figure = (pattern: RegExp) => pattern.exec(stdout)?.[1] ?? '0'
  const total = figure(/(\d+) requests in/)
  const failed = figure(/Non-2xx or 3xx responses: (\d+)/)
  if (total === '0' || failed !== (request.status < 400 ? '0' : total) || stdout.includes('Socket errors')) {
    throw new Error(`not every response was ${request.status}:\n${stdout}`)
  }
  const unit = { u: 0.001, m: 1 }[figure(/99%\s+[\d.]+(\w)/)] ?? 1_000
  return {
    requestsPerSecond: Number(figure(/Requests\/sec:\s+([\d.]+)/)),
    p99: Number(figure(/99%\s+([\d.]+)/)) * unit,
  }
}
