// Measures the built server against the floor: a node:http server that answers constant bytes and does nothing else. All
// run on one core and are loaded from another, in turn; each ratio is that of one round, and the median of all is shown.
// --quick: one round; --node PATH: another Node; --only TEXT: only the rows whose name it matches.
import { execFileSync } from 'node:child_process'
import { cpus, totalmem } from 'node:os'
import { parseArgs } from 'node:util'
import { folder, KEY, NEW_PET, residentBytes, type Server, startBuilt, startFloor } from './servers.ts'
import { startOf, writeSeed, writeSnapshot } from './servers.ts'
import { type Load, load, type Request } from './wrk.ts'

const { values: options } = parseArgs({
  options: { quick: { type: 'boolean' }, node: { type: 'string' }, only: { type: 'string', default: '' } },
})
const NODE = options.node ?? process.execPath
const [ROUNDS, STARTS, SECONDS] = options.quick ? [1, 3, 1] : [5, 15, 2]
const CONNECTIONS = 32
const [FEW, MANY] = [1_000, 1_000_000]
const CREATES = 1_000 // a second, while p99 is measured
const LATENCY = `p99 of a page of 20, ms, during ${CREATES} creates/s`
const MEMORY = 'resident memory, MiB, empty and with 1,000,000 pets'

const headers = { Authorization: `Bearer ${KEY}`, 'Content-Type': 'application/json' }
const get = (...paths: string[]): Request => ({ paths, headers, status: 200 })
const CREATE: Request = { paths: ['/pets'], headers, body: NEW_PET, status: 201 }
const PAGES = {
  'page of 20': get('/pets'),
  'page of 20 of one status': get('/pets?status=sold'),
  'page of 100': get('/pets?limit=100'),
}
const CASES: Record<string, Request> = {
  ...PAGES,
  'one pet': get('/pets/500'),
  create: CREATE,
  'wrong key, 401': { paths: ['/pets'], headers: { Authorization: 'Bearer not-our-key' }, status: 401 },
}

/** The reads of a store of so many pets; those from many places are spread over all of it. */
function readsOf(pets: number): Record<string, Request> {
  const spread = Array.from({ length: 500 }, (_, at) => Math.floor((pets * (at + 1)) / 501))
  return {
    ...PAGES,
    'pages all along the walk': get(...spread.map((id) => `/pets?limit=20&after=${id - 1}`)),
    'one of many pets': get(...spread.map((id) => `/pets/${id}`)),
  }
}

const isWanted = (name: string) => new RegExp(options.only).test(name)
const wantedOf = <T>(rows: Record<string, T>) => Object.entries(rows).filter(([name]) => isWanted(name))

const row = (...cells: readonly (string | number)[]): void => console.log(`| ${cells.join(' | ')} |`)

function head(...cells: readonly string[]): void {
  console.log()
  row(...cells)
  row(...cells.map(() => '---'))
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN
}

/** Of rounds of two figures: the median of each, and of their ratios. */
function pair(rounds: readonly (readonly number[])[], digits = 0): [string, string, string] {
  const of = (at: number) => median(rounds.map((round) => round[at] ?? NaN)).toFixed(digits)
  return [of(0), of(1), median(rounds.map(([a = NaN, b = NaN]) => b / a)).toFixed(2)]
}

/** Measures some things in turn, again and again, the first time to warm up. */
async function rounds<T>(count: number, tasks: readonly (() => Promise<T>)[]): Promise<T[][]> {
  const measured: T[][] = []
  for (let round = 0; round <= count; round++) {
    const results: T[] = []
    for (const task of tasks) results.push(await task())
    measured.push(results)
  }
  return measured.slice(1)
}

/** Loads each server with a request, its own or that of all, in turn, round after round, while `begin` goes on. */
function compare(
  servers: readonly Server[],
  requests: readonly [Request, ...Request[]],
  { connections = CONNECTIONS, begin = (_: string) => async () => {} } = {},
): Promise<Load[][]> {
  const tasks = servers.map(({ url }, at) => async () => {
    const end = begin(url)
    const loaded = await load(url, requests[at] ?? requests[0], connections, SECONDS)
    await end()
    return loaded
  })
  return rounds(ROUNDS, tasks)
}

/** One figure of some of the servers, round by round. */
const figures = (of: keyof Load, loads: readonly Load[][], ...at: number[]) =>
  loads.map((round) => at.map((server) => round[server]?.[of] ?? NaN))

async function ask(url: string, { paths, headers, body, status }: Request): Promise<string> {
  const response = await fetch(url + paths[0], { headers, ...(body !== undefined && { method: 'POST', body }) })
  if (response.status !== status) throw new Error(`${paths[0]} was answered ${response.status}`)
  return response.text()
}

/** Adds so many pets a second to a server, until it is told to end; resolves when all are there. */
function createSteadily(url: string): () => Promise<void> {
  const started = performance.now()
  const pending: Promise<unknown>[] = []
  const timer = setInterval(() => {
    const due = Math.floor(((performance.now() - started) / 1_000) * CREATES)
    while (pending.length < due) pending.push(ask(url, CREATE))
  }, 5)
  return async () => {
    clearInterval(timer)
    await Promise.all(pending)
  }
}

async function measureCases(): Promise<void> {
  head('1,000 pets', 'floor, requests/s', 'log off', 'ratio', 'JSON log', 'ratio', 'p99 of the three, ms')
  const seed = writeSeed(FEW)
  for (const [name, request] of wantedOf(CASES)) {
    const quiet = await startBuilt(NODE, 'off', '--seed', seed)
    const logging = await startBuilt(NODE, 'json', '--seed', seed)
    const floor = await startFloor(NODE, await ask(quiet.url, request), request.status)
    const loads = await compare([floor, quiet, logging], [request])
    const [, ...withLog] = pair(figures('requestsPerSecond', loads, 0, 2))
    const p99 = [0, 1, 2].map((at) => median(figures('p99', loads, at).flat()).toFixed(2))
    row(name, ...pair(figures('requestsPerSecond', loads, 0, 1)), ...withLog, p99.join(', '))
    for (const { close } of [floor, quiet, logging]) await close()
  }
}

/** Measures how the server does with many pets, and what they take. */
async function measureGrowth(): Promise<void> {
  const empty = await startBuilt(NODE, 'off', '--snapshot', `${folder}/empty.json`)
  const few = await startBuilt(NODE, 'off', '--snapshot', writeSnapshot(FEW))
  const many = await startBuilt(NODE, 'off', '--snapshot', writeSnapshot(MANY))
  const resident = [residentBytes(empty), residentBytes(many)] as const
  head('growth: log off', '1,000 pets, requests/s', '1,000,000 pets', 'ratio')
  const reads = readsOf(FEW)
  for (const [name, request] of wantedOf(readsOf(MANY))) {
    const loads = await compare([few, many], [reads[name] ?? request, request])
    row(name, ...pair(figures('requestsPerSecond', loads, 0, 1)))
  }
  if (isWanted(LATENCY)) {
    const loads = await compare([few, many], [get('/pets?limit=20')], { begin: createSteadily })
    row(LATENCY, ...pair(figures('p99', loads, 0, 1), 2))
  }
  const mebibytes = resident.map((bytes) => Math.round(bytes / 2 ** 20))
  if (isWanted(MEMORY)) row(MEMORY, ...mebibytes, `${Math.round((resident[1] - resident[0]) / MANY)} bytes a pet`)
  for (const { close } of [empty, few, many]) await close()
}

const OTHERS: Record<string, () => Promise<[string, string, string]>> = {
  async 'first answer, ms'() {
    const seed = writeSeed(10)
    const [floor, own] = [() => startFloor(NODE, '[]', 200), () => startBuilt(NODE, 'off', '--seed', seed)]
    return pair(await rounds(STARTS, [() => startOf(floor), () => startOf(own)]))
  },
  async 'create, requests/s, 64 connections, in memory and with a snapshot'() {
    execFileSync('sync') // what came before leaves hundreds of megabytes for the disk to write
    const both = [await startBuilt(NODE, 'off'), await startBuilt(NODE, 'off', '--snapshot', `${folder}/new.json`)]
    const loads = await compare(both, [CREATE], { connections: 64 })
    for (const { close } of both) await close()
    return pair(figures('requestsPerSecond', loads, 0, 1))
  },
  async 'loading 1,000,000 pets, ms, JSON.parse and a snapshot'() {
    const script = `
      import { readFileSync } from 'node:fs'
      import { startPetstore } from './dist/index.mjs'
      const snapshot = ${JSON.stringify(writeSnapshot(MANY))}
      for (let round = 0; round <= ${ROUNDS}; round++) {
        const start = performance.now()
        JSON.parse(readFileSync(snapshot, 'utf8'))
        const middle = performance.now()
        const petstore = await startPetstore({ snapshot })
        console.log(middle - start, performance.now() - middle)
        await petstore.close()
      }`
    const printed = execFileSync('taskset', ['-c', '0', NODE, '--input-type=module', '-e', script], {
      encoding: 'utf8',
    })
    const lines = printed.trim().split('\n').slice(1) // the first one warms up
    return pair(lines.map((line) => line.split(' ').map(Number)))
  },
}

const version = execFileSync(NODE, ['--version'], { encoding: 'utf8' }).trim()
const machine = `Node ${version}, ${cpus().length} cores, ${Math.round(totalmem() / 2 ** 30)} GiB`
console.log(`${machine}: medians of ${ROUNDS} rounds of ${SECONDS} s, ${CONNECTIONS} connections`)
if (wantedOf(CASES).length > 0) await measureCases()
if ([...Object.keys(readsOf(MANY)), LATENCY, MEMORY].some(isWanted)) await measureGrowth()
head('', 'floor, or without', 'this server, or with', 'ratio')
for (const [name, measure] of wantedOf(OTHERS)) row(name, ...(await measure()))
