// Measures what a test suite waits for: the start of a petstore against that of a bare node:http server, and calls by the
// petstore's own fetch against the same calls over a socket. All in one process, in turn; medians are shown.
import { once } from 'node:events'
import { createServer } from 'node:http'
import type * as Package from '../../src/index.ts'

// What is built may not be there when this is type-checked.
const built: typeof Package = await import(new URL('../../dist/index.js', import.meta.url).href)
const { createPetstore, startPetstore } = built
type Petstore = Package.Petstore

const STARTS = 200
const ROUNDS = 7
const MILLISECONDS = 300
const KEY = 'key-of-the-bench'
const HEADERS = { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' }
const NEW_PET = { name: 'abcdefghij', categoryId: 7, status: 'available' } as const

type Fetch = typeof globalThis.fetch

/** Milliseconds that a task takes. */
async function timed(task: () => Promise<unknown>): Promise<number> {
  const started = performance.now()
  await task()
  return performance.now() - started
}

async function answerOfBareServer(): Promise<() => void> {
  const server = createServer((_, res) => res.end('[]')).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (typeof address !== 'object' || address === null) throw new Error('the server has no port')
  await (await fetch(`http://127.0.0.1:${address.port}/v1/pets`, { headers: HEADERS })).text()
  return () => server.close()
}

async function answerOfPetstore(): Promise<() => Promise<number>> {
  const petstore = await startPetstore({ apiKeys: [KEY] })
  await (await fetch(`${petstore.url}/pets`, { headers: HEADERS })).text()
  return () => petstore.close()
}

/** Milliseconds from a start to the first answer; the closing is not counted. */
async function startOf(answer: () => Promise<() => unknown>): Promise<number> {
  let close = (): unknown => undefined
  const ms = await timed(async () => {
    close = await answer()
  })
  await close()
  return ms
}

const CALLS: Record<string, (petstore: Petstore, fetch: Fetch) => Promise<Response>> = {
  'list of 20': ({ url }, fetch) => fetch(`${url}/pets`, { headers: HEADERS }),
  getPet: ({ url }, fetch) => fetch(`${url}/pets/7`, { headers: HEADERS }),
  create: ({ url }, fetch) => fetch(`${url}/pets`, { method: 'POST', headers: HEADERS, body: JSON.stringify(NEW_PET) }),
}

/** Calls per second, so many at once, each with its answer read. */
async function rateOf(call: () => Promise<Response>, atOnce: number): Promise<number> {
  let count = 0
  const end = performance.now() + MILLISECONDS
  async function callOn(): Promise<void> {
    for (; performance.now() < end; count++) await (await call()).json()
  }
  const ms = await timed(() => Promise.all(Array.from({ length: atOnce }, callOn)))
  return (count / ms) * 1000
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN
}

console.log(`Node ${process.version}\n`)
const bare: number[] = []
const own: number[] = []
for (let round = 0; round < STARTS; round++) {
  bare.push(await startOf(answerOfBareServer))
  own.push(await startOf(answerOfPetstore))
}
console.log('| start to first answer, ms | bare node:http | startPetstore | more |')
console.log('| --- | --- | --- | --- |')
const [floor, ours] = [median(bare), median(own)]
console.log(`| median of ${STARTS} | ${floor.toFixed(2)} | ${ours.toFixed(2)} | ${(ours - floor).toFixed(2)} |`)

console.log('\n| calls/s | at once | over a socket | in process | ratio |')
console.log('| --- | --- | --- | --- | --- |')
for (const [name, call] of Object.entries(CALLS)) {
  for (const atOnce of [1, 16]) {
    const pets = Array.from({ length: 20 }, () => NEW_PET)
    const options = { apiKeys: [KEY], pets }
    const overSocket = await startPetstore(options)
    const inProcess = createPetstore(options)
    const rounds: [number, number][] = []
    for (let round = -1; round < ROUNDS; round++) {
      const socket = await rateOf(() => call(overSocket, fetch), atOnce)
      const own = await rateOf(() => call(inProcess, inProcess.fetch), atOnce)
      if (round >= 0) rounds.push([socket, own]) // the first one warms up
      await Promise.all([overSocket.reset(), inProcess.reset()])
    }
    await overSocket.close()
    const [socket, own, ratio] = [
      rounds.map(([rate]) => rate),
      rounds.map(([, rate]) => rate),
      rounds.map(([a, b]) => b / a),
    ]
    console.log(
      `| ${name} | ${atOnce} | ${Math.round(median(socket))} | ${Math.round(median(own))} | ${median(ratio).toFixed(2)} |`,
    )
  }
}
