// Measures the built server against the floor: a node:http server that answers constant bytes and does nothing else. Both
// run on one core and are loaded from another, in turn; each ratio is that of one round, and the median of all is shown.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs'
import { cpus, tmpdir, totalmem } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { type Load, load, type LoadRequest } from './wrk.ts'

const { values: options } = parseArgs({ options: { quick: { type: 'boolean' }, node: { type: 'string' } } })
const NODE = options.node ?? process.execPath
const ROUNDS = options.quick ? 1 : 5
const SECONDS = options.quick ? 1 : 3
const CONNECTIONS = 32
const KEY = 'key-of-the-bench'
const AUTHORIZED = { Authorization: `Bearer ${KEY}` }
const NEW_PET = '{"name":"abcdefghij","categoryId":7,"status":"available"}'
const FLOOR = `
const body = Buffer.from(process.env.BODY), status = Number(process.env.STATUS)
require('node:http').createServer((req, res) => {
  res.writeHead(status, { 'Content-Type': 'application/json', 'Content-Length': body.length })
  res.end(body)
}).listen(0, '127.0.0.1', function () { console.log('http://127.0.0.1:' + this.address().port + '/v1') })`

// Loads a snapshot, and reads the same file by JSON.parse, in turn.
const LOADING = `
import { readFileSync } from 'node:fs'
import { startPetstore } from './dist/index.js'
const snapshot = process.env.SNAPSHOT
for (let round = -1; round < ${ROUNDS}; round++) {
  const start = performance.now()
  JSON.parse(readFileSync(snapshot, 'utf8'))
  const middle = performance.now()
  const petstore = await startPetstore({ snapshot })
  if (round >= 0) console.log((performance.now() - middle) / (middle - start))
  await petstore.close()
}`

const folder = mkdtempSync(join(tmpdir(), 'petstore-bench-'))
process.on('exit', () => rmSync(folder, { recursive: true }))

const CASES: Record<string, LoadRequest> = {
  'page of 20': { path: '/pets', headers: AUTHORIZED, status: 200 },
  'page of 20 of one status': { path: '/pets?status=sold', headers: AUTHORIZED, status: 200 },
  'page of 100': { path: '/pets?limit=100', headers: AUTHORIZED, status: 200 },
  'one animal': { path: '/pets/500', headers: AUTHORIZED, status: 200 },
  create: {
    path: '/pets',
    headers: { ...AUTHORIZED, 'Content-Type': 'application/json' },
    body: NEW_PET,
    status: 201,
  },
  '401': { path: '/pets', headers: { Authorization: 'Bearer not-our-key' }, status: 401 },
}

interface Server {
  url: string
  process: ChildProcess
}

/** Starts a server on the first core; resolves when it prints its address. */
async function start(args: readonly string[], env: Record<string, string>, log: 'ignore' | number): Promise<Server> {
  const [stdout, stderr] = log === 'ignore' ? (['pipe', 'inherit'] as const) : ([log, 'pipe'] as const)
  const child = spawn('taskset', ['-c', '0', NODE, ...args], {
    env: { ...process.env, ...env },
    stdio: ['ignore', stdout, stderr],
  })
  const output = child.stdout ?? child.stderr
  if (output === null) throw new Error('the server has no output')
  for await (const chunk of output) {
    const [url] = /http:\/\/\S+/.exec(String(chunk)) ?? []
    if (url !== undefined) return { url, process: child }
  }
  throw new Error('the server did not start')
}

function stop({ process }: Server): Promise<void> {
  return new Promise((resolve) => {
    process.once('exit', () => resolve())
    process.kill('SIGTERM')
  })
}

/** Starts the built server with so many animals, ten names long and a third of them sold, and a log to a file, or none. */
function startPetstore(animals: number, withLog: boolean, ...flags: string[]): Promise<Server> {
  const seed = join(folder, `${animals}.json`)
  const pets = Array.from({ length: animals }, (_, at) => ({
    ...JSON.parse(NEW_PET),
    status: at % 3 ? 'pending' : 'sold',
  }))
  writeFileSync(seed, JSON.stringify(pets))
  const log = withLog ? openSync(join(folder, 'log'), 'w') : 'ignore'
  const args = ['dist/main.js', '--port', '0', '--api-key', KEY, '--log', withLog ? 'json' : 'off', '--max-store', '4g']
  return start([...args, '--seed', seed, ...flags], {}, log)
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN
}

/** Loads two servers in turn, round after round, and gives the loads of both. */
async function compare(one: Server, other: Server, request: LoadRequest, connections: number): Promise<[Load, Load][]> {
  const rounds: [Load, Load][] = []
  await load(one.url, request, connections, 1)
  await load(other.url, request, connections, 1)
  for (let round = 0; round < ROUNDS; round++) {
    rounds.push([
      await load(one.url, request, connections, SECONDS),
      await load(other.url, request, connections, SECONDS),
    ])
  }
  return rounds
}

function ratioOf(rounds: readonly [Load, Load][]): string {
  return median(rounds.map(([one, other]) => other.requestsPerSecond / one.requestsPerSecond)).toFixed(2)
}

/** The body that a server answers, for the floor to answer as many bytes. */
async function bodyOf({ url }: Server, { path, headers, body, status }: LoadRequest): Promise<string> {
  const response = await fetch(url + path, { headers, ...(body !== undefined && { method: 'POST', body }) })
  if (response.status !== status) throw new Error(`${path} answered ${response.status}`)
  return response.text()
}

const version = execFileSync(NODE, ['--version']).toString().trim()
const size = `${cpus().length} cores, ${Math.round(totalmem() / 2 ** 30)} GiB`
console.log(
  `${new Date().toISOString().slice(0, 10)}, Node ${version}, ${size}, ${CONNECTIONS} connections, 1,000 animals`,
)
console.log(`medians of ${ROUNDS} rounds of ${SECONDS} s\n`)
console.log('| case | floor, requests/s | log off | ratio | p99 ms, floor | p99 ms, log off | with JSON log | ratio |')
console.log('| --- | --- | --- | --- | --- | --- | --- | --- |')
for (const [name, request] of Object.entries(CASES)) {
  const quiet = await startPetstore(1_000, false)
  const env = { BODY: await bodyOf(quiet, request), STATUS: String(request.status) }
  const floor = await start(['-e', FLOOR], env, 'ignore')
  const off = await compare(floor, quiet, request, CONNECTIONS)
  await stop(quiet)
  const logging = await startPetstore(1_000, true)
  const json = await compare(floor, logging, request, CONNECTIONS)
  await stop(logging)
  await stop(floor)
  const rate = (rounds: readonly [Load, Load][], at: 0 | 1) =>
    Math.round(median(rounds.map((round) => round[at].requestsPerSecond)))
  const p99 = (at: 0 | 1) => median(off.map((round) => round[at].p99)).toFixed(2)
  const cells = [name, rate(off, 0), rate(off, 1), ratioOf(off), p99(0), p99(1), rate(json, 1), ratioOf(json)]
  console.log(`| ${cells.join(' | ')} |`)
}

const memory = await startPetstore(0, false)
const file = await startPetstore(0, false, '--snapshot', join(folder, 'pets.json'))
const create = CASES['create']
if (create !== undefined) {
  const rounds = await compare(memory, file, create, 64)
  console.log(`\ncreating with the snapshot, 64 connections: ${ratioOf(rounds)} of creating without`)
}
await stop(memory)
await stop(file)

const snapshot = join(folder, 'million.json')
const animals = Array.from({ length: 1_000_000 }, (_, at) => NEW_PET.replace('{', `{"id":${at + 1},`))
writeFileSync(snapshot, `{"petstore":1,"pets":[\n${animals.join('\n,')}\n]}\n`)
const ratios = execFileSync(NODE, ['--input-type=module', '-e', LOADING], {
  env: { ...process.env, SNAPSHOT: snapshot },
})
console.log(
  `loading 1,000,000 animals: ${median(ratios.toString().trim().split('\n').map(Number)).toFixed(2)} of JSON.parse's time`,
)
