import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'

/** What a load of one kind came to. */
export interface Load {
  requestsPerSecond: number
  /** 99th percentile of the time to an answer, in milliseconds. */
  p99: number
}

/** A kind of request that is sent again and again. */
export interface Request {
  /** Each in turn, one behind the other. */
  paths: readonly string[]
  headers: Record<string, string>
  body?: string
  /** What every answer must have, as 2xx or not; anything else ends the benchmark. */
  status: number
}

const MILLISECONDS: Record<string, number> = { us: 0.001, ms: 1, s: 1_000 }
const run = promisify(execFile)
let scripts = 0

/** Loads a server by wrk from the second core, and checks that every answer has the status that it should. */
export async function load(
  folder: string,
  url: string,
  request: Request,
  connections: number,
  seconds: number,
): Promise<Load> {
  const script = join(folder, `request-${scripts++}.lua`)
  writeFileSync(script, luaOf(new URL(url).pathname, request))
  const options = ['-t1', `-c${connections}`, `-d${seconds}s`, '--latency', '-s', script]
  try {
    const { stdout } = await run('taskset', ['-c', '1', 'wrk', ...options, url])
    return readReport(stdout, request.status)
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') {
      throw new Error('the benchmark needs wrk and taskset: apt-get install wrk util-linux', { cause: error })
    }
    throw error
  }
}

/** A wrk script without a callback for answers: that would make wrk, and not the server, the slower of the two. */
function luaOf(base: string, { paths, headers, body }: Request): string {
  const fields = Object.entries(headers).map(([name, value]) => `wrk.headers["${name}"] = "${value}"`)
  if (body !== undefined) fields.push('wrk.method = "POST"', `wrk.body = '${body}'`)
  const list = paths.map((path) => `'${base}${path}'`).join(', ')
  return `${fields.join('\n')}
local requests, at = {}, 0
function init()
  for index, path in ipairs({ ${list} }) do requests[index] = wrk.format(nil, path) end
end
function request()
  at = at % #requests + 1
  return requests[at]
end
`
}

function readReport(report: string, status: number): Load {
  const [, total] = /(\d+) requests in/.exec(report) ?? []
  const [, failed = '0'] = /Non-2xx or 3xx responses: (\d+)/.exec(report) ?? []
  if (total === '0' || failed !== (status < 400 ? '0' : total) || report.includes('Socket errors')) {
    throw new Error(`not every answer was ${status}:\n${report}`)
  }
  const [, rate] = /Requests\/sec:\s+([\d.]+)/.exec(report) ?? []
  const [, p99, unit = ''] = /99%\s+([\d.]+)(us|ms|s)/.exec(report) ?? []
  return { requestsPerSecond: Number(rate), p99: Number(p99) * (MILLISECONDS[unit] ?? Number.NaN) }
}
