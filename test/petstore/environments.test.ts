// A petstore does not use what test environments replace: jsdom, happy-dom and fake timers.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import timers from 'node:timers'
import { runInNewContext } from 'node:vm'

const used = new Set<string>() // the globals, except the language's, that src/ has read
const LANGUAGE: readonly string[] = runInNewContext('Object.getOwnPropertyNames(globalThis)')
for (const name of Object.getOwnPropertyNames(globalThis)) {
  if (LANGUAGE.includes(name)) continue
  let own = Object.getOwnPropertyDescriptor(globalThis, name)
  const get = () => {
    const [, , reader = ''] = new Error().stack?.split('\n') ?? []
    if (reader.includes('/src/')) used.add(name)
    return own?.get ? Reflect.apply(own.get, globalThis, []) : own?.value
  }
  const set = (value: unknown) => (own = { value })
  Object.defineProperty(globalThis, name, { configurable: true, get, set })
}

// The package takes node's timers when it is loaded. Here, four seconds are over at once.
const { setTimeout: own } = timers
const asked: number[] = []
Object.assign(timers, {
  setTimeout: (work: () => void, ms: number) => {
    asked.push(ms)
    return own(work, ms === 4_000 ? 1 : ms)
  },
})
const { KEY, send, start, temporaryFolder } = await import('../support.ts')
Object.assign(timers, { setTimeout: own })

const REX = { name: 'Rex', categoryId: 9007199254740993n }
const BODY = '{"name":"Rex","categoryId":9007199254740993}'

test('it reads no global that jsdom or happy-dom replace', async (t) => {
  const snapshot = `${temporaryFolder(t)}/pets.json`
  const cors = 'https://a.example'
  const petstore = await start(t, { pets: [REX], snapshot, cors, strict: true, controlPort: 0 })
  const controls = { url: String(petstore.controlUrl) }
  const headers = { origin: cors, 'x-request-id': 'a' }
  petstore.inject({ operation: 'getPet', delay: 1, status: 503, hangUp: 'halfway' })
  await assert.rejects(send(petstore, 'GET', '/v1/pets/1'))
  for (const path of ['/v1/pets?limit=1&a=b', '/v1/p%65ts', '/', '/openapi.json', '/readyz'])
    await send(petstore, 'GET', path, { headers })
  await send(petstore, 'POST', '/v1/pets', { body: BODY })
  await send(controls, 'POST', '/pets', { body: `[${BODY}]` })
  await send(controls, 'GET', '/requests?count=1&operation=createPet')
  await assert.rejects(petstore.waitForRequests(9, { timeout: 1 }))
  assert.equal(petstore.pets.length, 3)
  await petstore.close(1)
  assert.deepEqual([...used].sort(), ['Buffer', 'process']) // which they leave alone
})

test('with fake timers, delays, waits and the stop take the time that they say', async (t) => {
  t.mock.timers.enable()
  const petstore = await start(t, { apiKeys: [KEY], pets: [REX] })
  petstore.inject({ operation: '*', delay: 5, times: 2 })
  assert.equal((await send(petstore, 'GET', '/v1/pets')).status, 200)
  await assert.rejects(petstore.waitForRequests(2, { timeout: 5 }), { code: 'timeout' })
  const delayed = send(petstore, 'POST', '/v1/pets', { body: BODY })
  while (petstore.pendingFaults.length > 0) await send(petstore, 'GET', '/livez')
  assert.equal(await petstore.close(600_000), 0)
  assert.equal((await delayed).status, 201)
  assert.ok(petstore.requests.every(({ duration }) => duration >= 3))
})

test('a wait lasts 4,000 ms by default; the controls take seconds', async (t) => {
  const petstore = await start(t, { controlPort: 0 })
  await assert.rejects(petstore.waitForRequests(1), { code: 'timeout' })
  const controls = { url: String(petstore.controlUrl) }
  assert.equal((await send(controls, 'GET', '/requests?count=1')).status, 408)
  const waiting = send(controls, 'GET', '/requests?count=1&wait=90.25')
  while (!asked.includes(90_250)) await send(petstore, 'GET', '/livez')
  await send(petstore, 'GET', '/v1/pets')
  assert.equal((await waiting).status, 200)
})
