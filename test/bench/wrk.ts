import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { write } from './servers.ts'

export interface Load {
  requestsPerSecond: number
  /** 99th percentile of the time to a response, in milliseconds. */
  p99: number
}

/** A kind of request that is sent again and again, to each path in turn. */
export interface Request {
  paths: readonly string[]
  headers: Record<string, string>
  body?: string
  /** What every response must have, as 2xx or not; anything else ends the benchmark. */
  status: number
}

const MILLISECONDS: Record<string, number> = { us: 0.001, ms: 1, s: 1_000 }

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

/** Loads a server by wrk from the second core, and checks that every response has the status that it should. */
export async function load(url: string, request: Request, connections: number, seconds: number): Promise<Load> {
  const { paths, headers, body, status } = request
  const fields = Object.entries(headers).flatMap(([name, value]) => ['-H', `${name}: ${value}`])
  const options = ['-t1', `-c${connections}`, `-d${seconds}s`, '--latency', '-s', write('load.lua', SCRIPT), ...fields]
  const args = ['-c', '1', 'wrk', ...options, url, '--', ...paths.map((path) => new URL(url).pathname + path)]
  const env = { ...process.env, ...(body === undefined ? { METHOD: 'GET' } : { METHOD: 'POST', BODY: body }) }
  const { stdout } = await promisify(execFile)('taskset', args, { env }).catch((cause) => {
    throw new Error('wrk failed; the benchmark needs it and taskset: apt-get install wrk util-linux', { cause })
  })
  const [, total] = /(\d+) requests in/.exec(stdout) ?? []
  const [, failed = '0'] = /Non-2xx or 3xx responses: (\d+)/.exec(stdout) ?? []
  if (total === '0' || failed !== (status < 400 ? '0' : total) || stdout.includes('Socket errors')) {
    throw new Error(`not every response was ${status}:\n${stdout}`)
  }
  const [, rate] = /Requests\/sec:\s+([\d.]+)/.exec(stdout) ?? []
  const [, p99, unit = ''] = /99%\s+([\d.]+)(us|ms|s)/.exec(stdout) ?? []
  return { requestsPerSecond: Number(rate), p99: Number(p99) * (MILLISECONDS[unit] ?? Number.NaN) }
}
