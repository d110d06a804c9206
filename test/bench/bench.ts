// npm run bench [-- --rounds N] [-- --also PATH]: requests a second of the built server, next to
// bare node:http and Fastify. Servers run on the first core, and wrk loads them from the second, in
// interleaved rounds. Shows medians, and in brackets the share of bare node:http.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { BARE, FASTIFY, KEY } from './servers.ts'

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    also: { type: 'string' }, // the executable of another version
  },
})
const SECONDS = 2
const CONNECTIONS = 32
const FOLDER = mkdtempSync(join(tmpdir(), 'petstore-bench-'))
const SEED = join(FOLDER, 'seed.json')
const NEW_PET = '{"name":"abcdefghij","categoryId":7,"status":"pending"}'
const SCRIPT = 'wrk.method, wrk.body = os.getenv("METHOD"), os.getenv("BODY")'

interface Row {
  readonly path: string
  readonly body?: string
  readonly key?: string
  readonly status: number
}

const ROWS: Readonly<Record<string, Row>> = {
  'list of 20': { path: '/pets', status: 200 },
  'page of 100': { path: '/pets?limit=100', status: 200 },
  'one pet': { path: '/pets/500', status: 200 },
  create: { path: '/pets', body: NEW_PET, status: 201 },
  'wrong key, 401': { path: '/pets', key: 'not-our-key-but-of-its-length-00', status: 401 },
}

interface Server {
  readonly name: string
  readonly url: string
  readonly child: ChildProcess
}

/** Starts a server, and waits until it says its address. */
async function start(name: string, log: 'off' | 'json', args: readonly string[]): Promise<Server> {
  const env = { ...process.env, SEED, KEY, LOG: log, NODE_PATH: `${FOLDER}/node_modules` }
  const outputs = ['out', 'err'].map((end) => join(FOLDER, `${name}.${end}`))
  const [out, err] = outputs.map((path) => openSync(path, 'w'))
  const child = spawn('taskset', ['-c', '0', process.execPath, ...args], {
    env,
    stdio: ['ignore', out, err],
  })
  while (child.exitCode === null) {
    const said = outputs.map((path) => readFileSync(path, 'utf8')).join('')
    const [url] = /http:\/\/[\d.]+:\d+\/v1/.exec(said) ?? []
    if (url !== undefined) return { name, url, child }
    await setTimeout(50)
  }
  throw new Error(`${name} did not start`)
}

function built(path: string, log: 'off' | 'json'): string[] {
  const flags = ['--port', '0', '--api-key', KEY, '--seed', SEED, '--log', log]
  return [path, ...flags, '--max-store', '1g']
}

function startAll(): Promise<Server[]> {
  const servers = [
    start('bare node:http', 'off', ['-e', BARE]),
    start('petstore-server', 'off', built('dist/main.js', 'off')),
    start('with its log', 'json', built('dist/main.js', 'json')),
    start('Fastify', 'off', ['-e', FASTIFY]),
    start('Fastify with its log', 'json', ['-e', FASTIFY]),
  ]
  if (values.also !== undefined) {
    servers.push(start('other', 'off', built(values.also, 'off')))
    servers.push(start('other with its log', 'json', built(values.also, 'json')))
  }
  return Promise.all(servers)
}

/** Loads a server with wrk; returns requests a second. Throws if a response has another status. */
function load({ url }: Server, { path, body, key = KEY, status }: Row): number {
  const options = ['-t1', `-c${CONNECTIONS}`, `-d${SECONDS}s`, '-s', join(FOLDER, 'load.lua')]
  const headers = ['-H', `Authorization: Bearer ${key}`, '-H', 'Content-Type: application/json']
  const env = { ...process.env, METHOD: body === undefined ? 'GET' : 'POST', BODY: body ?? '' }
  const args = ['-c', '1', 'wrk', ...options, ...headers, url + path]
  const output = execFileSync('taskset', args, { env, encoding: 'utf8' })
  const total = /(\d+) requests in/.exec(output)?.[1] ?? '0'
  const failed = /Non-2xx or 3xx responses: (\d+)/.exec(output)?.[1] ?? '0'
  const isRight = failed === (status < 400 ? '0' : total) && !output.includes('Socket errors')
  if (!isRight) throw new Error(`not every response was ${status}:\n${output}`)
  return Number(/Requests\/sec:\s+([\d.]+)/.exec(output)?.[1])
}

function median(figures: readonly number[]): number {
  return figures.toSorted((one, other) => one - other)[figures.length >> 1] ?? NaN
}

async function main(): Promise<void> {
  const pets = Array.from({ length: 1_000 }, (_, at) => {
    return at % 3 === 0 ? NEW_PET.replace('pending', 'sold') : NEW_PET
  })
  writeFileSync(SEED, `[${pets.join(',')}]`)
  writeFileSync(join(FOLDER, 'load.lua'), SCRIPT)
  execFileSync('npm', ['install', '--silent', '--prefix', FOLDER, 'fastify@5.12.8'])
  const servers = await startAll()
  try {
    console.log(`| | ${servers.map(({ name }) => name).join(' | ')} |`)
    console.log(`| --- ${'| --- '.repeat(servers.length)}|`)
    for (const [name, row] of Object.entries(ROWS)) {
      const rounds: number[][] = []
      for (let round = 0; round < Number(values.rounds); round++) {
        rounds.push(servers.map((server) => load(server, row)))
      }
      const speeds = servers.map((_, at) => median(rounds.map((figures) => figures[at] ?? NaN)))
      const [bare = NaN] = speeds
      const cells = speeds.map((speed) => `${Math.round(speed)} (${(speed / bare).toFixed(2)})`)
      console.log(`| ${name} | ${cells.join(' | ')} |`)
    }
  } finally {
    for (const { child } of servers) child.kill()
    rmSync(FOLDER, { recursive: true, force: true })
  }
}

void main()
