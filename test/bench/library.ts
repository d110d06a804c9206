// Measures what a test suite does again and again, in CPU time, next to other libraries. Each runs
// in a process of its own: msw makes every promise on Node 20 slower.
import { execFileSync } from 'node:child_process'
import { FOLDER, OPTIONS } from './servers.ts'

const PEERS = ['undici@7.30.2', 'msw@2.15.0'] // of undici, the latest for Node 20

const COMMON = `
const pets = [{ name: 'Rex', categoryId: 1 }]
const body = '[{"id":1,"name":"Rex","categoryId":1}]'
const headers = { 'content-type': 'application/json' }
const url = 'http://petstore.invalid/v1/pets'
const read = async (response) => (await response).json()
const microseconds = () => {
  const { user, system } = process.cpuUsage()
  return user + system
}
async function measure(name, times, run) {
  let before
  for (let at = -times; at < times; at++) {
    if (at === 0) before = microseconds() // the first half warms up
    await run()
  }
  console.log(name + '=' + (microseconds() - before) / times)
}`

const BARE = `
const { once } = require('node:events')
const { createServer } = require('node:http')
const server = () => createServer((req, res) => res.writeHead(200, headers).end(body))
const listen = async (server) => {
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return server
}
async function main() {
  await measure('start and close', 500, async () => {
    const started = await listen(server())
    await once(started.close(), 'close')
  })
  const { port } = (await listen(server())).address()
  await measure('fetch a list', 1_000, () => read(fetch('http://127.0.0.1:' + port)))
}`

const OWN = `
const { createPetstore, startPetstore } = require('./dist/index.cjs')
async function main() {
  await measure('start and close', 500, async () => (await startPetstore({ pets })).close())
  await measure('create, without a socket', 1_000, () => createPetstore({ pets }))
  const petstore = createPetstore({ pets })
  await measure('reset', 1_000, () => petstore.reset())
  const list = petstore.url + '/pets'
  await measure('fetch a list', 1_000, () => read(petstore.fetch(list, petstore)))
}`

const MOCK_AGENT = `
const { MockAgent, fetch } = require('undici')
function create() {
  const agent = new MockAgent()
  agent.disableNetConnect()
  const pool = agent.get('http://petstore.invalid')
  pool.intercept({ path: '/v1/pets' }).reply(200, body, { headers }).persist()
  return agent
}
async function main() {
  await measure('create, without a socket', 1_000, () => create().close())
  const dispatcher = create()
  await measure('fetch a list', 1_000, () => read(fetch(url, { dispatcher })))
}`

const MSW = `
const { http, HttpResponse } = require('msw')
const { setupServer } = require('msw/node')
const create = () => {
  const server = setupServer(http.get(url, () => HttpResponse.json(JSON.parse(body))))
  server.listen({ onUnhandledRequest: 'error' })
  return server
}
async function main() {
  await measure('create, without a socket', 1_000, () => create().close())
  create()
  await measure('fetch a list', 1_000, () => read(fetch(url)))
}`

const NAMES = ['start and close', 'create, without a socket', 'reset', 'fetch a list']

/** Rows of a name, and the medians of each library in microseconds, if it has such a thing. */
export function measureLibrary(rounds: number): string[][] {
  execFileSync('npm', ['install', '--silent', '--prefix', FOLDER, ...PEERS])
  const columns = [BARE, OWN, MOCK_AGENT, MSW].map(() => new Map<string, number[]>())
  for (let round = 0; round < rounds; round++) {
    for (const [at, script] of [BARE, OWN, MOCK_AGENT, MSW].entries()) {
      for (const [name, figure] of run(script)) {
        columns[at]?.set(name, [...(columns[at].get(name) ?? []), figure])
      }
    }
  }
  return NAMES.map((name) => [name, ...columns.map((column) => medianOf(column.get(name) ?? []))])
}

function run(script: string): [name: string, microseconds: number][] {
  const code = `${COMMON}${script}\nmain().then(() => process.exit())`
  const env = { ...process.env, NODE_PATH: `${FOLDER}/node_modules` }
  const args = ['-c', '0', OPTIONS.node ?? '', '-e', code]
  const printed = execFileSync('taskset', args, { encoding: 'utf8', env })
  return printed
    .trim()
    .split('\n')
    .map((line) => [line.replace(/=.*/, ''), Number(line.replace(/.*=/, ''))])
}

function medianOf(figures: readonly number[]): string {
  const ascending = [...figures].sort((a, b) => a - b)
  return ascending[Math.floor(ascending.length / 2)]?.toFixed(0) ?? ''
}
