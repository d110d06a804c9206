// A petstore does not use what test environments replace: fake timers, jsdom, happy-dom.
import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import timers from 'node:timers'
import { runInNewContext } from 'node:vm'

const used = new Set<string>() // the globals that src/ has read, except those of the language
const { setTimeout: realSetTimeout } = globalThis

/** Notes each global that src/ reads. */
function watchGlobals(): void {
  const language: readonly string[] = runInNewContext('Object.getOwnPropertyNames(globalThis)')
  for (const name of Object.getOwnPropertyNames(globalThis)) {
    if (language.includes(name)) continue
    let own = Object.getOwnPropertyDescriptor(globalThis, name)
    const get = (): unknown => {
      const [, , reader = ''] = new Error().stack?.split('\n') ?? []
      if (reader.includes('/src/')) used.add(name)
      return own?.get ? Reflect.apply(own.get, globalThis, []) : own?.value
    }
    const set = (value: unknown): void => {
      own = { value }
    }
    Object.defineProperty(globalThis, name, { configurable: true, get, set })
  }
}

const waits: unknown[] = [] // milliseconds of timers, of which four seconds are over at once

/** Loads the package, and what the tests need, while the timers of node are these. */
async function load(): Promise<typeof import('./support.ts')> {
  const hasty = (work: () => void, ms?: number): NodeJS.Timeout => {
    waits.push(ms)
    return realSetTimeout(work, ms === 4_000 ? 1 : ms)
  }
  Object.assign(timers, { setTimeout: hasty })
  const support = await import('./support.ts')
  Object.assign(timers, { setTimeout: realSetTimeout })
  return support
}

let support: typeof import('./support.ts')
before(async () => {
  watchGlobals()
  support = await load()
})

const REX = { name: 'Rex', categoryId: 9007199254740993n }
const BODY = '{"name":"Rex","categoryId":9007199254740993}'

test('it reads no global that jsdom or happy-dom replace', async (t) => {
  const { send, start, temporaryFolder } = support
  const snapshot = `${temporaryFolder(t)}/pets.json`
  const petstore = await start(t, { pets: [REX], snapshot, cors: true, controlPort: 0 })
  petstore.inject({ operation: 'getPet', delay: 1, status: 503, hangUp: 'halfway' })
  await assert.rejects(send(petstore, 'GET', '/v1/pets/1'))
  const headers = { origin: 'http://a', 'x-request-id': 'a' }
  for (const path of ['/v1/pets?limit=1&after=0', '/v1/pets/1', '/', '/openapi.json', '/readyz']) {
    await send(petstore, 'GET', path, { headers })
  }
  await send(petstore, 'POST', '/v1/pets', { body: BODY })
  const controls = { url: String(petstore.controlUrl) }
  await send(controls, 'POST', '/pets', { body: `[${BODY}]` })
  await send(controls, 'POST', '/faults', { body: '{"operation":"*","status":503,"body":[1]}' })
  await send(controls, 'GET', '/requests')
  await assert.rejects(petstore.waitForRequests(9, { timeout: 1 }))
  assert.equal((await petstore.pets()).length, 3)
  await petstore.close(1)
  for (const name of ['Buffer', 'process']) used.delete(name) // those of node in each of them
  assert.deepEqual([...used], [])
})

test('a wait lasts 4,000 ms by default', async (t) => {
  const petstore = await support.start(t)
  await assert.rejects(petstore.waitForRequests(1), { code: 'timeout' })
  assert.equal(waits.at(-1), 4_000)
})

test('with fake timers, delays, time-outs and the stop take the time that they say', async (t) => {
  const { send, start } = support
  t.mock.timers.enable()
  const petstore = await start(t, { pets: [REX] })
  petstore.inject({ operation: '*', delay: 20, times: 2 })
  assert.equal((await send(petstore, 'GET', '/v1/pets')).status, 200)
  const [request] = petstore.requests
  assert.ok(Number(request?.duration) > 15)
  await assert.rejects(petstore.waitForRequests(2, { timeout: 5 }), { code: 'timeout' })
  const late = send(petstore, 'POST', '/v1/pets', { body: BODY })
  while (petstore.pendingFaults.length > 0) await send(petstore, 'GET', '/livez')
  assert.equal(await petstore.close(600_000), 0)
  assert.equal((await late).status, 201)
})
