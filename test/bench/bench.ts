// Measures the built server against the floor: a node:http server that answers constant bytes and does nothing else. All
// run on one core and are loaded from another, in turn; each ratio is that of one round, and the median of all is shown.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { cpus, tmpdir, totalmem } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import {
  createSteadily,
  firstAnswerOf,
  KEY,
  NEW_PET,
  residentOf,
  seed,
  type Server,
  Servers,
  stop,
  writeSnapshot,
} from './servers.ts'
import { type Load, load, type Request } from './wrk.ts'

const { values: options } = parseArgs({ options: { quick: { type: 'boolean' }, node: { type: 'string' } } })
const NODE = options.node ?? process.execPath
const ROUNDS = options.quick ? 1 : 5
const STARTS = options.quick ? 3 : 15
const SECONDS = options.quick ? 1 : 2
const CONNECTIONS = 32
const FEW = 1_000
const MANY = 1_000_000
// A second, while p99 is measured.
const CREATES = 1_000

const folder = mkdtempSync(join(tmpdir(), 'petstore-bench-'))
process.on('exit', () => rmSync(folder, { recursive: true }))
process.setMaxListeners(0) // each server has one, to end with the benchmark
const servers = new Servers(folder, NODE)

const get = (...paths: string[]): Request => ({ paths, headers: { Authorization: `Bearer ${KEY}` }, status: 200 })
const CREATE: Request = {
  paths: ['/pets'],
  headers: { Authorization: `Bearer ${KEY}`, 'Content-Type': 'application/json' },
  body: NEW_PET,
  status: 201,
}
const CASES: Record<string, Request> = {
  'page of 20': get('/pets'),
  'page of 20 of one status': get('/pets?status=sold'),
  'page of 100': get('/pets?limit=100'),
  'one animal': get('/pets/500'),
  create: CREATE,
  'wrong key, 401': { paths: ['/pets'], headers: { Authorization: 'Bearer not-our-key' }, status: 401 },
}

/** The reads of a store of so many animals; those from many places are spread over all of it. */
function readsOf(animals: number): Record<string, Request> {
  const spread = Array.from({ length: 500 }, (_, at) => Math.floor((animals * (at + 1)) / 501))
  return {
    'page of 20': get('/pets'),
    'page of 20 of one status': get('/pets?status=sold'),
    'page of the rare status': get('/pets?status=available'),
    'page of 100': get('/pets?limit=100'),
    'pages all along the walk': get(...spread.map((id) => `/pets?limit=20&after=${id - 1}`)),
    'one of many animals': get(...spread.map((id) => `/pets/${id}`)),
  }
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN
}

/** Loads each server with its own request, in turn, round after round, when all have been warmed up. */
async function compare(loads: readonly [Server, Request][], connections: number, isWarm = false): Promise<Load[][]> {
  if (!isWarm) await Promise.all(loads.map(([{ url }, request]) => load(folder, url, request, connections, 1)))
  const rounds: Load[][] = []
  for (let round = 0; round < ROUNDS; round++) {
    const loaded: Load[] = []
    for (const [{ url }, request] of loads) loaded.push(await load(folder, url, request, connections, SECONDS))
    rounds.push(loaded)
  }
  return rounds
}

/** The median of one server's figure, or of its ratio to that of another in the same round. */
function figure(rounds: readonly Load[][], of: keyof Load, at: number, to?: number): number {
  return median(rounds.map((round) => (round[at]?.[of] ?? NaN) / (to === undefined ? 1 : (round[to]?.[of] ?? NaN))))
}

function row(...cells: readonly (string | number)[]): void {
  console.log(`| ${cells.join(' | ')} |`)
}

function head(...cells: readonly string[]): void {
  console.log()
  row(...cells)
  row(...cells.map(() => '---'))
}

/** The body that a server answers, for the floor to answer as many bytes. */
async function bodyOf({ url }: Server, { paths, headers, body, status }: Request): Promise<string> {
  const response = await fetch(url + paths[0], { headers, ...(body !== undefined && { method: 'POST', body }) })
  if (response.status !== status) throw new Error(`${paths[0]} answered ${response.status}`)
  return response.text()
}

const rate = (rounds: readonly Load[][], at: number) => Math.round(figure(rounds, 'requestsPerSecond', at))
const ratio = (rounds: readonly Load[][], at: number, to: number) =>
  figure(rounds, 'requestsPerSecond', at, to).toFixed(2)

async function measureCases(): Promise<void> {
  head('1,000 animals', 'floor, requests/s', 'log off', 'ratio', 'JSON log', 'ratio', 'p99 of the three, ms')
  const flag = seed(folder, FEW)
  for (const [name, request] of Object.entries(CASES)) {
    const quiet = await servers.petstore('off', flag)
    const logging = await servers.petstore('json', flag)
    const floor = await servers.floor(await bodyOf(quiet, request), request.status)
    const rounds = await compare(
      [floor, quiet, logging].map((server) => [server, request]),
      CONNECTIONS,
    )
    const p99 = [0, 1, 2].map((at) => figure(rounds, 'p99', at).toFixed(2)).join(', ')
    row(name, rate(rounds, 0), rate(rounds, 1), ratio(rounds, 1, 0), rate(rounds, 2), ratio(rounds, 2, 0), p99)
    await stop(floor, quiet, logging)
  }
}

async function measureGrowth(few: Server, many: Server): Promise<void> {
  head('log off', '1,000 animals, requests/s', '1,000,000 animals', 'ratio')
  const reads = readsOf(FEW)
  for (const [name, request] of Object.entries(readsOf(MANY))) {
    const loads: [Server, Request][] = [
      [few, reads[name] ?? request],
      [many, request],
    ]
    const rounds = await compare(loads, CONNECTIONS, options.quick)
    row(name, rate(rounds, 0), rate(rounds, 1), ratio(rounds, 1, 0))
  }
  const rounds: Load[][] = []
  for (let round = 0; round < ROUNDS; round++) {
    const loaded: Load[] = []
    for (const { url } of [few, many]) {
      const end = createSteadily(url, CREATES)
      loaded.push(await load(folder, url, get('/pets?limit=20'), CONNECTIONS, SECONDS))
      await end()
    }
    rounds.push(loaded)
  }
  const [atFew, atMany] = [figure(rounds, 'p99', 0).toFixed(2), figure(rounds, 'p99', 1).toFixed(2)]
  row(`p99 of a page of 20, ms, during ${CREATES} creates/s`, atFew, atMany, figure(rounds, 'p99', 1, 0).toFixed(2))
}

async function measureStart(): Promise<void> {
  const flag = seed(folder, 1)
  const rounds: [floor: number, own: number][] = []
  for (let round = -1; round < STARTS; round++) {
    const floor = await firstAnswerOf(() => servers.floor('[]', 200))
    const own = await firstAnswerOf(() => servers.petstore('off', flag))
    if (round >= 0) rounds.push([floor, own])
  }
  const [floor, own] = [median(rounds.map(([ms]) => ms)), median(rounds.map(([, ms]) => ms))]
  const ratio = median(rounds.map(([floor, own]) => own / floor))
  row('first answer, ms', floor.toFixed(0), own.toFixed(0), ratio.toFixed(2))
}

async function measureSnapshot(): Promise<void> {
  execFileSync('sync') // what came before leaves hundreds of megabytes for the disk to write
  const memory = await servers.petstore('off')
  const file = await servers.petstore('off', '--snapshot', join(folder, 'new.json'))
  const rounds = await compare(
    [
      [memory, CREATE],
      [file, CREATE],
    ],
    64,
  )
  row(
    'create, requests/s, 64 connections, in memory and with a snapshot',
    rate(rounds, 0),
    rate(rounds, 1),
    ratio(rounds, 1, 0),
  )
  await stop(memory, file)
}

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
  if (round >= 0) console.log(middle - start, performance.now() - middle)
  await petstore.close()
}`

function measureLoading(snapshot: string): void {
  const env = { ...process.env, SNAPSHOT: snapshot }
  const output = execFileSync(NODE, ['--input-type=module', '-e', LOADING], { env }).toString()
  const rounds = output
    .trim()
    .split('\n')
    .map((line) => line.split(' ').map(Number))
  const of = (at: number) => median(rounds.map((round) => round[at] ?? NaN)).toFixed(0)
  const ratio = median(rounds.map(([parse = NaN, load = NaN]) => load / parse))
  row('loading 1,000,000 animals, ms, JSON.parse and a snapshot', of(0), of(1), ratio.toFixed(2))
}

const version = execFileSync(NODE, ['--version']).toString().trim()
const size = `${cpus().length} cores, ${Math.round(totalmem() / 2 ** 30)} GiB`
const date = new Date().toISOString().slice(0, 10)
console.log(
  `${date}, Node ${version}, ${size}: medians of ${ROUNDS} rounds of ${SECONDS} s, ${CONNECTIONS} connections`,
)

await measureCases()

const snapshot = writeSnapshot(folder, MANY)
const empty = await servers.petstore('off', '--snapshot', join(folder, 'empty.json'))
const few = await servers.petstore('off', '--snapshot', writeSnapshot(folder, FEW))
const many = await servers.petstore('off', '--snapshot', snapshot)
const resident = [residentOf(empty), residentOf(many)] as const
await stop(empty)
await measureGrowth(few, many)
await stop(few, many)

head('', 'floor, or without', 'this server, or with', 'ratio')
const mebibytes = resident.map((bytes) => Math.round(bytes / 2 ** 20))
const perAnimal = `${Math.round((resident[1] - resident[0]) / MANY)} bytes an animal`
row('resident memory, MiB, empty and with 1,000,000 animals', ...mebibytes, perAnimal)
await measureStart()
await measureSnapshot()
measureLoading(snapshot)
