// Measures the built server against the floor: a node:http server that sends constant bytes. They
// run on one core, in turn, and are loaded from another. Shows medians of the rounds; a ratio is
// taken within its round.
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { cpus, totalmem } from 'node:os'
import { residentKiB } from '../process.ts'
import { measureLibrary } from './library.ts'
import { AUTHORIZATION, FOLDER, type Load, load, OPTIONS, type Request } from './servers.ts'
import { type Server, startBuilt, startFloor, startPeer } from './servers.ts'

const { quick, node = '' } = OPTIONS
const ROUNDS = quick ? 1 : 5
const STARTS = quick ? 3 : 15
const SECONDS = quick ? 1 : 2
const CONNECTIONS = 32
const FEW = 1_000
const MANY = 1_000_000
const CREATES = 1_000 // a second, while p99 is measured

const NEW_PET = '{"name":"abcdefghij","categoryId":7,"status":"pending"}'
const headers = { Authorization: AUTHORIZATION, 'Content-Type': 'application/json' }
const get = (...paths: string[]): Request => ({ paths, headers, status: 200 })
const CREATE: Request = { paths: ['/pets'], headers, body: NEW_PET, status: 201 }
const PAGES = {
  'page of 20': get('/pets'),
  'page of 20 of one status': get('/pets?status=sold'),
  'page of 100': get('/pets?limit=100'),
}
const wrongKey = { Authorization: 'Bearer not-our-key' }
const CASES: Record<string, Request> = {
  ...PAGES,
  'one pet': get('/pets/500'),
  create: CREATE,
  'wrong key, 401': { paths: ['/pets'], headers: wrongKey, status: 401 },
}

/** The reads of a store of this size, spread over all of it. */
function readsOf(pets: number): Record<string, Request> {
  const spread = Array.from({ length: 500 }, (_, at) => Math.floor((pets * (at + 1)) / 501))
  return {
    ...PAGES,
    'pages all along the walk': get(...spread.map((id) => `/pets?limit=20&after=${id - 1}`)),
    'one of many pets': get(...spread.map((id) => `/pets/${id}`)),
  }
}

/** Writes a seed or a snapshot of this many pets, a third of them sold; returns its path. */
function write(count: number, kind: 'seed' | 'snapshot'): string {
  const lines = Array.from({ length: count }, (_, at) => {
    const pet = at % 3 === 0 ? NEW_PET.replace('pending', 'sold') : NEW_PET
    return kind === 'seed' ? pet : pet.replace('{', `{"id":${at + 1},`)
  })
  const path = `${FOLDER}/${count}.${kind}`
  writeFileSync(path, `[\n${lines.join(',\n')}\n]\n`)
  return path
}

const row = (...cells: readonly unknown[]): void => console.log(`| ${cells.join(' | ')} |`)

function head(...cells: readonly string[]): void {
  console.log()
  row(...cells)
  row(...cells.map(() => '---'))
}

/** The median of one column of the rounds. */
function median(rounds: readonly (readonly number[])[], at: number, digits: number): string {
  const figures = rounds.map((round) => round[at] ?? NaN).sort((a, b) => a - b)
  return (figures[Math.floor(figures.length / 2)] ?? NaN).toFixed(digits)
}

/** The medians of the first column, of another one, and of their ratio. */
function pair(rounds: readonly (readonly number[])[], second = 1, digits = 0): string[] {
  const ratios = rounds.map((round) => [(round[second] ?? NaN) / (round[0] ?? NaN)])
  return [median(rounds, 0, digits), median(rounds, second, digits), median(ratios, 0, 2)]
}

type Measure<T, R> = (thing: T) => Promise<R>

/** Measures all things in turn in each round, after one round to warm up. */
async function rounds<T, R>(count: number, things: readonly T[], measure: Measure<T, R>) {
  const measured: R[][] = []
  for (let round = 0; round <= count; round++) {
    const results: R[] = []
    for (const thing of things) results.push(await measure(thing))
    measured.push(results)
  }
  return measured.slice(1)
}

type Requests = readonly [Request, ...Request[]]

/** Loads servers in turn, each with its request, or with the first. */
function compare(servers: readonly Server[], requests: Requests, connections = CONNECTIONS) {
  return rounds(ROUNDS, [...servers.entries()], ([at, server]) =>
    load(server, requests[at] ?? requests[0], connections, SECONDS),
  )
}

const figures = (loads: readonly Load[][], of: keyof Load) =>
  loads.map((round) => round.map((one) => one[of]))

/** Creates pets steadily. The returned function stops it, and resolves once all are there. */
function createSteadily(url: string): () => Promise<void> {
  const started = performance.now()
  const pending: Promise<unknown>[] = []
  const timer = setInterval(() => {
    const due = Math.floor(((performance.now() - started) / 1_000) * CREATES)
    while (pending.length < due)
      pending.push(fetch(`${url}/pets`, { method: 'POST', headers, body: NEW_PET }))
  }, 5)
  return async () => {
    clearInterval(timer)
    await Promise.all(pending)
  }
}

async function measureCases(): Promise<void> {
  const names = ['floor', 'JSON log', 'log off', 'Fastify, JSON log']
  const ratios = names.slice(1).flatMap((name) => [name, 'ratio'])
  head('1,000 pets', 'floor, requests/s', ...ratios, 'p99 of the four, ms')
  const cpuRows: string[][] = []
  const seed = write(FEW, 'seed')
  for (const [name, request] of Object.entries(CASES)) {
    const logging = await startBuilt('json', '--seed', seed)
    const quiet = await startBuilt('off', '--seed', seed)
    const { paths, headers, body } = request
    const init = body === undefined ? { headers } : { headers, method: 'POST', body }
    const sent = await fetch(quiet.url + paths[0], init)
    const floor = await startFloor(await sent.text(), request.status)
    const servers = [floor, logging, quiet, await startPeer(seed)]
    const loads = await compare(servers, [request])
    const speeds = figures(loads, 'requestsPerSecond')
    const others = [2, 3].flatMap((at) => pair(speeds, at).slice(1))
    const p99 = names.map((_, at) => median(figures(loads, 'p99'), at, 2)).join(', ')
    row(name, ...pair(speeds), ...others, p99)
    const cpu = figures(loads, 'cpu')
    cpuRows.push([name, ...names.map((_, at) => median(cpu, at, 1))])
    for (const { close } of servers) await close()
  }
  head('CPU, µs a request', ...names)
  for (const cells of cpuRows) row(...cells)
}

async function measureGrowth(): Promise<void> {
  head('growth: log off', '1,000 pets, requests/s', '1,000,000 pets', 'ratio')
  const start = (snapshot: string) => startBuilt('off', '--snapshot', snapshot)
  const empty = await start(`${FOLDER}/empty.json`)
  const few = await start(write(FEW, 'snapshot'))
  const many = await start(write(MANY, 'snapshot'))
  const emptyKiB = residentKiB(empty)
  const manyKiB = residentKiB(many)
  const reads = readsOf(FEW)
  for (const [name, request] of Object.entries(readsOf(MANY))) {
    const loads = await compare([few, many], [reads[name] ?? request, request])
    row(name, ...pair(figures(loads, 'requestsPerSecond')))
  }
  const p99s = await rounds(ROUNDS, [few, many], async (server) => {
    const end = createSteadily(server.url)
    const { p99 } = await load(server, get('/pets?limit=20'), CONNECTIONS, SECONDS)
    await end()
    return p99
  })
  row(`p99 of a page of 20, ms, during ${CREATES} creates/s`, ...pair(p99s, 1, 2))
  const each = `${Math.round(((manyKiB - emptyKiB) * 1024) / MANY)} bytes a pet`
  const mebibytes = [emptyKiB, manyKiB].map((kiB) => Math.round(kiB / 1024))
  row('resident memory, MiB, empty and with 1,000,000 pets', ...mebibytes, each)
  for (const { close } of [empty, few, many]) await close()
}

async function measureOthers(): Promise<void> {
  head('', 'floor, or without', 'this server, or with', 'ratio')
  const seed = write(10, 'seed')
  const starts = [() => startFloor('[]', 200), () => startBuilt('off', '--seed', seed)]
  const answered = await rounds(STARTS, starts, async (start) => {
    const started = performance.now()
    const { url, close } = await start()
    await (await fetch(`${url}/pets`, { headers })).text()
    const ms = performance.now() - started
    await close()
    return ms
  })
  row('first answer, ms', ...pair(answered))

  execFileSync('sync') // the disk has hundreds of megabytes to write
  const inMemory = await startBuilt('off')
  const onDisk = await startBuilt('off', '--snapshot', `${FOLDER}/new.json`)
  const loads = figures(await compare([inMemory, onDisk], [CREATE], 64), 'requestsPerSecond')
  row('create, requests/s, 64 connections, in memory and with a snapshot', ...pair(loads))
  for (const { close } of [inMemory, onDisk]) await close()

  const script = `
    import { readFileSync } from 'node:fs'
    import { startPetstore } from './dist/index.cjs'
    const snapshot = ${JSON.stringify(write(MANY, 'snapshot'))}
    for (let round = 0; round <= ${ROUNDS}; round++) {
      const start = performance.now()
      JSON.parse(readFileSync(snapshot, 'utf8'))
      const middle = performance.now()
      const petstore = await startPetstore({ snapshot })
      console.log(middle - start, performance.now() - middle)
      await petstore.close()
    }`
  const printed = execFileSync('taskset', ['-c', '0', node, '--input-type=module', '-e', script], {
    encoding: 'utf8',
  })
  const [, ...lines] = printed.trim().split('\n') // the first one warms up
  const times = lines.map((line) => line.split(' ').map(Number))
  row('loading 1,000,000 pets, ms, JSON.parse and a snapshot', ...pair(times))
}

function measureTests(): void {
  head('in a test, CPU in µs', 'bare node:http', 'this package', 'MockAgent of undici', 'msw')
  for (const cells of measureLibrary(ROUNDS)) row(...cells)
}

const version = execFileSync(node, ['--version'], { encoding: 'utf8' }).trim()
const machine = `Node ${version}, ${cpus().length} cores, ${Math.round(totalmem() / 2 ** 30)} GiB`
console.log(`${machine}: medians of ${ROUNDS} rounds of ${SECONDS} s, ${CONNECTIONS} connections`)
await measureCases()
await measureGrowth()
await measureOthers()
measureTests()
