// The servers that the benchmark compares, on the first core, and wrk, which loads them, on the
// second.
import { execFileSync } from 'node:child_process'
import { openSync, readFileSync, writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { exec } from '../documents.ts'
import { Running } from '../process.ts'
import { folderOf } from '../support.ts'

/** `--quick`: one round; `--node PATH`: another Node. */
export const OPTIONS: { quick?: boolean; node?: string } = parseArgs({
  options: { quick: { type: 'boolean' }, node: { type: 'string', default: process.execPath } },
}).values
export const FOLDER: string = folderOf()
/** As long as a generated one. */
const KEY = 'a-key-of-32-characters-as-usual-'
export const AUTHORIZATION: string = `Bearer ${KEY}`

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

// The operations as one would write them with Fastify: its router, its schemas, its log.
const PEER = `
const statuses = ['available', 'pending', 'sold']
const int = (minimum, maximum) => ({ type: 'integer', minimum, maximum })
const members = { name: { type: 'string' }, categoryId: int(), status: { enum: statuses } }
const pet = { type: 'object', properties: { id: int(), ...members } }
const list = { type: 'array', items: pet }
const body = { type: 'object', required: ['name', 'categoryId'], properties: members }
const status = { enum: statuses }
const query = { type: 'object', properties: { limit: int(1, 100), after: int(0), status } }
const pets = JSON.parse(require('node:fs').readFileSync(process.env.SEED))
pets.forEach((pet, at) => Object.assign(pet, { id: at + 1 }))
const app = require('fastify')({ logger: true })
app.addHook('onRequest', async (req, reply) => {
  const isValid = req.headers.authorization === process.env.AUTHORIZATION
  if (!isValid) return reply.code(401).send({ code: 'unauthorized', message: '', status: 401 })
})
const page = { schema: { querystring: query, response: { 200: list } } }
app.get('/v1/pets', page, async ({ query: { limit = 20, after = 0, status } }) => {
  const found = []
  for (let at = after; at < pets.length && found.length < limit; at++)
    if (status === undefined || pets[at].status === status) found.push(pets[at])
  return found
})
app.get('/v1/pets/:id', { schema: { response: { 200: pet } } }, async (req, reply) =>
  pets[req.params.id - 1] ?? reply.callNotFound())
app.post('/v1/pets', { schema: { body, response: { 201: pet } } }, async (req, reply) => {
  pets.push({ id: pets.length + 1, ...req.body })
  return reply.code(201).send(pets.at(-1))
})
app.listen({ port: 0 }).then((url) => console.error(url + '/v1'))`

export function startPeer(seed: string): Promise<Server> {
  const env = { SEED: seed, AUTHORIZATION, NODE_PATH: `${FOLDER}/node_modules` }
  return start(['-e', PEER], 'json', env)
}

export function startFloor(body: string, status: number): Promise<Server> {
  return start(['-e', FLOOR], 'off', { BODY: body, STATUS: String(status) })
}

export function startBuilt(log: 'off' | 'json', ...flags: string[]): Promise<Server> {
  return start(['dist/main.js', '--port', '0', '--api-key', KEY, '--log', log, ...flags], log)
}

async function start(args: readonly string[], log: 'off' | 'json', env = {}): Promise<Server> {
  const stdout = log === 'off' ? 'pipe' : openSync(`${FOLDER}/log`, 'w')
  const stdio: ['ignore', typeof stdout, 'pipe'] = ['ignore', stdout, 'pipe']
  const command = ['taskset', '-c', '0', OPTIONS.node ?? '', ...args]
  const running = new Running(command, { env: { ...process.env, ...env }, stdio })
  const [url] = await running.until(/http:\/\/\S+(?=\n)/)
  const close = () => {
    running.process.kill()
    return running.exited
  }
  return { url, process: running.process, close }
}

export interface Load {
  requestsPerSecond: number
  cpu: number // of the server, microseconds a request
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
execFileSync('npm', ['install', '--silent', '--prefix', FOLDER, 'fastify@5.12.8'])

/** The processor time that a server has used, in microseconds. */
function cpuOf({ process: { pid } }: Server): number {
  const [user, system] = readFileSync(`/proc/${pid}/stat`, 'utf8').split(' ').slice(13)
  return (Number(user) + Number(system)) * 10_000 // ticks of a hundredth of a second
}

/** Loads a server with wrk, and checks the status of every response. */
export async function load(
  server: Server,
  request: Request,
  connections: number,
  seconds: number,
): Promise<Load> {
  const { url } = server
  const headers = Object.entries(request.headers).flatMap((header) => ['-H', header.join(': ')])
  const options = ['-t1', `-c${connections}`, `-d${seconds}s`, '--latency']
  const paths = request.paths.map((path) => new URL(url).pathname + path)
  const script = ['-s', `${FOLDER}/load.lua`]
  const args = ['-c', '1', 'wrk', ...options, ...script, ...headers, url, '--', ...paths]
  const method = request.body === undefined ? 'GET' : 'POST'
  const env = { ...process.env, METHOD: method, BODY: request.body }
  const before = cpuOf(server)
  const running = exec('taskset', args, { env })
  const { stdout } = await running.catch((cause) => {
    throw new Error('wrk failed; it and taskset come by apt-get install wrk util-linux', { cause })
  })
  const figure = (pattern: RegExp) => pattern.exec(stdout)?.[1] ?? '0'
  const total = figure(/(\d+) requests in/)
  const failed = figure(/Non-2xx or 3xx responses: (\d+)/)
  const expected = request.status < 400 ? '0' : total
  if (total === '0' || failed !== expected || stdout.includes('Socket errors'))
    throw new Error(`not every response was ${request.status}:\n${stdout}`)
  const unit = { u: 0.001, m: 1 }[figure(/99%\s+[\d.]+(\w)/)] ?? 1_000
  return {
    cpu: (cpuOf(server) - before) / Number(total),
    requestsPerSecond: Number(figure(/Requests\/sec:\s+([\d.]+)/)),
    p99: Number(figure(/99%\s+([\d.]+)/)) * unit,
  }
}
