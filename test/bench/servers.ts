// The servers that the benchmark compares, on the first core, and wrk, which loads them, on the
// second.
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { openSync, writeFileSync } from 'node:fs'
import { parseArgs, promisify } from 'node:util'
import { endWithUs, greetingIn, type Running } from '../process.ts'
import { folderOf, KEY } from '../support.ts'

/** `--quick`: one round; `--node PATH`: another Node. */
export const OPTIONS: { quick?: boolean; node?: string } = parseArgs({
  options: { quick: { type: 'boolean' }, node: { type: 'string', default: process.execPath } },
}).values
export const FOLDER: string = folderOf()

export interface Server extends Pick<Running, 'url' | 'process'> {
  close: () => Promise<unknown>
}

const FLOOR = `
const body = Buffer.from(process.env.BODY), status = Number(process.env.STATUS)
require('node:http').createServer((req, res) => {
  res.writeHead(status, { 'Content-Type': 'application/json', 'Content-Length': body.length })
  res.end(body)
}).listen(0, '127.0.0.1', function () {
  console.log('http://127.0.0.1:' + this.address().port + '/v1')
})`

/** Starts the floor: node:http that sends these bytes with this status. */
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
  endWithUs(child)
  const url = await greetingIn(child.stdout ?? child.stderr ?? process.stdin)
  const close = async () => {
    child.kill()
    await once(child, 'exit')
  }
  return { url, process: child, close }
}

export interface Load {
  requestsPerSecond: number
  p99: number // 99th percentile of the time to a response, in milliseconds
}

/** A request that is repeated, to each path in turn. */
export interface Request {
  paths: readonly string[]
  headers: Record<string, string>
  body?: string
  status: number // of every response, or the benchmark ends
}

// Without a callback for responses, which would make wrk slower than the server.
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

/** Loads a server with wrk, and checks the status of every response. */
export async function load(
  url: string,
  request: Request,
  connections: number,
  seconds: number,
): Promise<Load> {
  const headers = Object.entries(request.headers).flatMap((header) => ['-H', header.join(': ')])
  const options = ['-t1', `-c${connections}`, `-d${seconds}s`, '--latency']
  const paths = request.paths.map((path) => new URL(url).pathname + path)
  const script = ['-s', `${FOLDER}/load.lua`]
  const args = ['-c', '1', 'wrk', ...options, ...script, ...headers, url, '--', ...paths]
  const method = request.body === undefined ? 'GET' : 'POST'
  const env = { ...process.env, METHOD: method, BODY: request.body }
  const running = promisify(execFile)('taskset', args, { env })
  const { stdout } = await running.catch((cause) => {
    throw new Error(
      'wrk failed; the benchmark needs it and taskset: apt-get install wrk util-linux',
      { cause },
    )
  })
  const figure = (pattern: RegExp) => pattern.exec(stdout)?.[1] ?? '0'
  const total = figure(/(\d+) requests in/)
  const failed = figure(/Non-2xx or 3xx responses: (\d+)/)
  const expected = request.status < 400 ? '0' : total
  if (total === '0' || failed !== expected || stdout.includes('Socket errors'))
    throw new Error(`not every response was ${request.status}:\n${stdout}`)
  const unit = { u: 0.001, m: 1 }[figure(/99%\s+[\d.]+(\w)/)] ?? 1_000
  return {
    requestsPerSecond: Number(figure(/Requests\/sec:\s+([\d.]+)/)),
    p99: Number(figure(/99%\s+([\d.]+)/)) * unit,
  }
}
