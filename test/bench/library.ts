// Measures what a test suite does again and again, in CPU time, next to other libraries.
import { execFileSync } from 'node:child_process'
import { FOLDER, OPTIONS } from './servers.ts'

const PEERS = ['undici@7.30.2', 'msw@2.15.0'] // of undici, the latest for Node 20

// What each does once; without an entry, a library has no such thing.
const SCRIPT = `
const { once } = require('node:events')
const { createServer } = require('node:http')
const { createPetstore, startPetstore } = require('./dist/index.cjs')
const { MockAgent, fetch: undiciFetch } = require('undici')
const { http, HttpResponse } = require('msw')
const { setupServer } = require('msw/node')

const pets = [{ name: 'Rex', categoryId: 1 }]
const body = '[{"id":1,"name":"Rex","categoryId":1}]'
const headers = { 'content-type': 'application/json' }
const url = 'http://petstore.invalid/v1/pets'
const petstore = createPetstore({ pets })
const read = async (response) => (await response).json()

async function listen() {
  const server = createServer((req, res) => res.writeHead(200, headers).end(body))
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return server
}
async function close(server) {
  server.close()
  server.closeIdleConnections()
  await once(server, 'close')
}
function mockAgent() {
  const agent = new MockAgent()
  agent.disableNetConnect()
  const pool = agent.get('http://petstore.invalid')
  pool.intercept({ path: '/v1/pets' }).reply(200, body, { headers }).persist()
  return agent
}
const msw = () => setupServer(http.get(url, () => HttpResponse.json(JSON.parse(body))))

const cases = {
  'start and close': {
    bare: async () => close(await listen()),
    own: async () => (await startPetstore({ pets })).close(),
  },
  'create, without a socket': {
    own: async () => createPetstore({ pets }),
    mockAgent: async () => mockAgent().close(),
    msw: async () => {
      const server = msw()
      server.listen()
      server.close()
    },
  },
  reset: { own: () => petstore.reset() },
}
const microseconds = () => {
  const { user, system } = process.cpuUsage()
  return user + system
}

async function main() {
  const server = await listen()
  const bareUrl = 'http://127.0.0.1:' + server.address().port
  const dispatcher = mockAgent()
  const mocked = msw()
  const withMsw = async (run) => {
    mocked.listen({ onUnhandledRequest: 'error' })
    await run().finally(() => mocked.close())
  }
  cases['fetch a list'] = {
    bare: () => read(fetch(bareUrl)),
    own: () => read(petstore.fetch(petstore.url + '/pets', petstore)),
    mockAgent: () => read(undiciFetch(url, { dispatcher })),
    msw: () => read(fetch(url)),
  }
  const results = []
  for (const [name, runs] of Object.entries(cases)) {
    for (let round = 0; round <= ROUNDS; round++) {
      for (const [who, run] of Object.entries(runs)) {
        const measure = async () => {
          const before = microseconds()
          for (let times = 0; times < TIMES; times++) await run()
          if (round > 0) results.push([name, who, (microseconds() - before) / TIMES])
        }
        await (who === 'msw' && name.startsWith('fetch') ? withMsw(measure) : measure())
      }
    }
  }
  console.log(JSON.stringify(results))
  process.exit()
}
main()`

const COLUMNS = ['bare', 'own', 'mockAgent', 'msw']

/** Rows of a name, and of the medians in microseconds for each library. */
export function measureLibrary(rounds: number): string[][] {
  execFileSync('npm', ['install', '--silent', '--prefix', FOLDER, ...PEERS])
  const script = SCRIPT.replaceAll('ROUNDS', String(rounds)).replaceAll('TIMES', '500')
  const env = { ...process.env, NODE_PATH: `${FOLDER}/node_modules` }
  const args = ['-c', '0', OPTIONS.node ?? '', '-e', script]
  const printed = execFileSync('taskset', args, { encoding: 'utf8', env })
  const results: [name: string, who: string, microseconds: number][] = JSON.parse(printed)
  const names = [...new Set(results.map(([name]) => name))]
  return names.map((name) => [name, ...COLUMNS.map((who) => medianOf(results, name, who))])
}

function medianOf(
  results: readonly (readonly [name: string, who: string, microseconds: number])[],
  name: string,
  who: string,
): string {
  const figures = results
    .filter(([ofName, ofWho]) => ofName === name && ofWho === who)
    .map(([, , microseconds]) => microseconds)
    .sort((a, b) => a - b)
  return figures[Math.floor(figures.length / 2)]?.toFixed(0) ?? ''
}
