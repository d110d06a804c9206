// What a test suite relies on that embeds petstores: they share nothing, and leave nothing behind.
import assert from 'node:assert/strict'
import { cpSync, existsSync } from 'node:fs'
import { describe, test, type TestContext } from 'node:test'
import * as petstoreServer from '../src/index.ts'
import { type NewPet, type Pet, type Petstore } from '../src/index.ts'
import { Running } from './process.ts'
import { check, FakeStream, folderOf, KEY, send, start } from './support.ts'

const { createPetstore, startPetstore } = petstoreServer
const REX: NewPet = { name: 'Rex', categoryId: 1, status: 'sold' } // 52 bytes in the store, and 100 more are counted
const portOf = (url = '') => Number(new URL(url).port)

/** The pets that are on disk: those of a petstore that starts on a copy of the files, as after a crash. */
async function keptIn(t: TestContext, snapshot: string): Promise<Pet[]> {
  const copy = `${folderOf(t)}/pets.json`
  for (const end of ['.journal', '']) if (existsSync(snapshot + end)) cpSync(snapshot + end, copy + end)
  await using petstore = await startPetstore({ snapshot: copy })
  return petstore.pets
}

test('the package exports createPetstore() and startPetstore(), and nothing that is not meant for its users', () => {
  assert.deepEqual(Object.keys(petstoreServer), ['createPetstore', 'startPetstore'])
})

const MAKERS: Record<string, (options?: object) => Promise<Petstore>> = {
  startPetstore,
  createPetstore: async (options) => createPetstore(options),
}

for (const [name, make] of Object.entries(MAKERS)) {
  describe(`${name}()`, () => {
    test('has its defaults: empty, a generated key, /v1, and no word in the log', async () => {
      const logStream = new FakeStream()
      await using petstore = await make({ logStream })
      assert.match(petstore.url, /^http:\/\/(?:127\.0\.0\.1:\d+|petstore\.invalid)\/v1$/)
      assert.match(petstore.apiKey, /^[\w-]{32}$/)
      assert.deepEqual([petstore.pets, petstore.requests, petstore.pendingFaults], [[], [], []])
      assert.deepEqual([petstore.controlUrl, petstore.log.on, logStream.listenerCount('error')], [undefined, false, 0])
      assert.deepEqual(petstore.headers, { authorization: `Bearer ${petstore.apiKey}` })
      assert.equal((await petstore.fetch(`${petstore.url}/pets`, petstore)).status, 200)
    })

    test('begins with pets that fit, and tells of pets that do not', async () => {
      await using petstore = await make({ pets: [REX, REX], maxStore: 304 })
      assert.equal(petstore.pets.length, 2)
      const message = 'Cannot start with 2 pets: they do not fit into 303 bytes'
      await assert.rejects(() => make({ pets: [REX, REX], maxStore: 303 }), { name: 'RangeError', message })
    })

    test('closes again and again, also at once', async () => {
      const petstore = await make()
      assert.deepEqual(await Promise.all([petstore.close(), petstore.close(5), petstore.close()]), [0, 0, 0])
      assert.equal(await petstore.close(), 0)
      await petstore[Symbol.asyncDispose]()
    })

    test('names its first key, and replaces its keys as a whole; what is wrong changes nothing', async () => {
      await using petstore = await make({ apiKeys: [KEY, 'second-key'] })
      assert.equal(petstore.apiKey, KEY)
      const valid = async () => {
        const headers = [KEY, 'second-key', 'third-key', 'fourth-key', 'fifth-key'].map((key) => `Bearer ${key}`)
        const ask = (authorization: string) => petstore.fetch(`${petstore.url}/pets`, { headers: { authorization } })
        return (await Promise.all(headers.map(ask))).map(({ ok }) => ok)
      }
      assert.deepEqual(await valid(), [true, true, false, false, false])
      const keys = ['second-key', 'third-key']
      petstore.replaceKeys(keys)
      keys[0] = 'fourth-key'
      for (const given of [[], ['fifth-key', 'short'], ['fifth-key', 5], 'fifth-key', undefined]) {
        const message = /^apiKeys must be an array of one key or more, each 8 to 256 characters [^5]*$/
        assert.throws(() => Reflect.apply(petstore.replaceKeys, undefined, [given]), { message })
      }
      assert.deepEqual(await valid(), [false, true, true, false, false])
    })

    test('adds pets, exact over int64, beside the journal', async () => {
      await using petstore = await make({ pets: [REX] })
      const newPets: NewPet[] = [
        { name: '\ud800 Zoë', categoryId: 2n ** 63n - 1n },
        { name: '', categoryId: -(2n ** 63n), status: 'pending' },
      ]
      const expected = newPets.map((pet, at) => ({ id: at + 2, ...pet }))
      assert.deepEqual(await petstore.add(...newPets), expected)
      assert.deepEqual(await petstore.add({ name: 'y', categoryId: 7n }), [{ id: 4, name: 'y', categoryId: 7 }])
      assert.deepEqual(await petstore.add(), [])
      assert.deepEqual(petstore.pets.slice(0, 3), [{ id: 1, ...REX }, ...expected])
      assert.deepEqual(petstore.requests, [])
    })

    test('adds none of the pets, and resets to none, where one is wrong, and names it', async () => {
      await using petstore = await make({ pets: [REX] })
      await petstore.fetch(petstore.url)
      petstore.inject({ operation: '*', status: 503 })
      const wrong = [REX, { name: 1, categoryId: 2n ** 63n }]
      const message = /^newPets must be an array of NewPet: in item 2, name must be a string; categoryId must be /
      const refuses = (change: (...pets: never[]) => unknown, given: unknown[], message: RegExp) =>
        assert.rejects(async () => Reflect.apply(change, undefined, given), { name: 'TypeError', message })
      await refuses(petstore.add, wrong, message)
      await refuses(petstore.add, [wrong], /^add takes pets one by one: spread the array, add\(\.\.\.pets\)$/)
      await refuses(petstore.reset, [wrong], message)
      for (const given of ['', null, {}])
        await refuses(petstore.reset, [given], /^newPets must be an array of NewPet: /)
      assert.deepEqual(petstore.pets, [{ id: 1, ...REX }])
      assert.deepEqual([petstore.requests.length, petstore.pendingFaults.length], [1, 1])
    })

    test('goes back to the pets that it began with, or begins with others, ids from 1 on', async () => {
      const pets = [{ ...REX, age: 9 }] // its unknown member is left behind, and it is read once
      await using petstore = await make({ pets, apiKeys: [KEY] })
      pets.pop()
      const listPets = async () => (await petstore.fetch(`${petstore.url}/pets?limit=2`, petstore)).text()
      await petstore.add(REX, REX)
      await listPets()
      petstore.inject({ operation: '*', status: 503 })
      await petstore.reset()
      assert.deepEqual([petstore.pets, petstore.requests, petstore.pendingFaults], [[{ id: 1, ...REX }], [], []])
      for (const name of ['Tom', 'Mia']) {
        await petstore.reset(Array(3).fill({ name, categoryId: 2n ** 63n - 1n }))
        const page = [1, 2].map((id) => `{"id":${id},"name":"${name}","categoryId":9223372036854775807}`)
        for (let times = 0; times < 2; times++) assert.equal(await listPets(), `[${page.join()}]`)
      }
      assert.deepEqual(await petstore.add(REX), [{ id: 4, ...REX }])
      await petstore.reset([])
      assert.deepEqual(petstore.pets, [])
      await petstore.reset(undefined)
      assert.deepEqual(petstore.pets, [{ id: 1, ...REX }])
    })
  })
}

test('a petstore with a snapshot has on disk what add() and reset() did when they resolve, and nothing once it is closed', async (t) => {
  const snapshot = `${folderOf(t)}/pets.json`
  await assert.rejects(startPetstore({ snapshot, pets: [REX, REX], maxStore: 303 }), RangeError)
  const petstore = await start(t, { snapshot, pets: [REX] }) // of those that were refused, none is there
  assert.deepEqual(await keptIn(t, snapshot), [{ id: 1, ...REX }])
  const tom = { name: 'Tom', categoryId: 2n ** 63n - 1n }
  await petstore.add(tom)
  assert.deepEqual((await keptIn(t, snapshot))[1], { id: 2, ...tom })
  await petstore.reset([tom])
  assert.deepEqual(await keptIn(t, snapshot), [{ id: 1, ...tom }])
  const adding = petstore.add(REX)
  await petstore.close()
  const kept = [{ id: 1, ...tom }, ...(await adding)]
  await assert.rejects(petstore.add(REX), { message: 'Cannot add pet 1 of 1: it could not be stored' })
  await assert.rejects(petstore.reset([]), { message: /closed/ })
  for (const pets of [petstore.pets, await keptIn(t, snapshot)]) assert.deepEqual(pets, kept)
})

test('petstores that log to one stream watch it once, and each writes its lines', async () => {
  const logStream = new FakeStream()
  for (let count = 0; count < 20; count++) {
    await using petstore = await startPetstore({ apiKeys: [KEY], log: 'json', logStream })
    await send(petstore, 'GET', `/v1/pets/${count}`)
  }
  assert.equal(logStream.listenerCount('error'), 1)
  assert.equal(logStream.text.split('\n').length, 21)
})

test('an address that cannot be listened on leaves nothing open, and close() frees both ports at once', async (t) => {
  const snapshot = `${folderOf(t)}/pets.json`
  const port = portOf((await start(t)).url)
  const error = { code: 'EADDRINUSE', message: `Cannot listen on 127.0.0.1:${port}: the port is in use` }
  await assert.rejects(startPetstore({ snapshot, controlPort: 0, port }), error)
  const free = await startPetstore({ snapshot })
  const freed = { snapshot, port: portOf(free.url) }
  await free.close()
  await assert.rejects(startPetstore({ ...freed, controlPort: port }), error)
  await assert.rejects(startPetstore({ ...freed, controlPort: freed.port }), { code: 'EADDRINUSE' })
  let controlPort = 0
  for (let count = 0; count < 20; count++) {
    await using petstore = await startPetstore({ ...freed, controlPort })
    controlPort = portOf(petstore.controlUrl)
    assert.equal((await fetch(`${petstore.controlUrl}/pets`)).status, 200)
  }
})

test('100 petstores at once each have a key of their own, and answer only for themselves', async (t) => {
  const starting = [...Array(100).keys()].map((at) => startPetstore({ pets: Array(at % 7).fill(REX), controlPort: 0 }))
  const petstores = await Promise.all(starting)
  t.after(() => Promise.all(petstores.map((petstore) => petstore.close())))
  assert.equal(new Set(petstores.flatMap(({ url, controlUrl, apiKey }) => [url, controlUrl, apiKey])).size, 300)
  const use = async (petstore: Petstore, at: number) => {
    const { headers } = petstore
    const status = at % 3 === 0 ? 503 : 200
    if (status === 503) petstore.inject({ operation: 'listPets', status })
    const pet = { name: `pet of ${at}`, categoryId: at }
    await check(petstore, 'POST', '/v1/pets', 201, { headers, body: JSON.stringify(pet) })
    await check(petstores[(at + 1) % 100] ?? petstore, 'GET', `/v1/pets/${at}`, 401, { headers })
    await check(petstore, 'GET', '/v1/pets', status, { headers })
    return { pet, seen: ['createPet 201', 'getPet 401', `listPets ${status}`] }
  }
  for (const [at, { pet, seen }] of (await Promise.all(petstores.map(use))).entries()) {
    const { pets = [], requests = [], pendingFaults } = petstores[at] ?? {}
    assert.deepEqual([pets.slice(at % 7), pendingFaults], [[{ id: (at % 7) + 1, ...pet }], []])
    assert.deepEqual(requests.map(({ operation, status }) => `${operation} ${status}`).sort(), seen)
  }
})

test('closed petstores, and one without a socket, leave nothing taken: a process that holds them ends', async (t) => {
  const code = `
    import { Agent } from 'node:http'
    import { startPetstore, createPetstore } from './src/index.ts'
    import { send } from './test/support.ts'
    process.stdout, process.stderr
    const outputs = process.getActiveResourcesInfo()
    const apiKeys = ['${KEY}']
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    const petstore = await startPetstore({ apiKeys, journal: 0 })
    const unused = createPetstore()
    unused.inject({ operation: '*', status: 503 })
    await unused.fetch(unused.url)
    const pets = Array(20).fill({ name: 'x'.repeat(50_000), categoryId: 1 })
    const body = '{"name":"Rex","categoryId":1}'
    const heaps = []
    for (let round = 0; round < 10; round++) {
      for (let count = 0; count < 1_000; count++) await send(petstore, 'GET', '/v1/pets', { agent })
      for (let count = 0; count < 20; count++) {
        const snapshot = count === 0 ? ${JSON.stringify(folderOf(t))} + '/' + round + '.json' : undefined
        const other = await startPetstore({ apiKeys, controlPort: 0, pets, snapshot })
        other.inject({ operation: 'createPet', times: 2, delay: 1 })
        const answer = await send(other, 'POST', '/v1/pets', { body })
        if (answer.status !== 201 || other.requests.length !== 1) throw new Error(answer.body)
        await other.close()
      }
      gc()
      heaps.push(process.memoryUsage().heapUsed)
    }
    agent.destroy()
    await petstore.close()
    // A few turns of the event loop let the clients of a petstore learn that it was closed.
    for (let turn = 0; turn < 10; turn++) await new Promise(setImmediate)
    const left = process.getActiveResourcesInfo()
    for (const one of outputs) left.splice(left.indexOf(one), 1)
    console.log(JSON.stringify({ heaps, left }))`
  const flags = ['--import', 'tsx', '--expose-gc', '--input-type=module', '--eval', code]
  const { status, stdout, stderr } = await new Running([process.execPath, ...flags]).exited
  assert.deepEqual({ status, stderr }, { status: 0, stderr: '' })
  const { heaps, left }: { heaps: number[]; left: string[] } = JSON.parse(stdout)
  assert.deepEqual(left, [])
  // A petstore holds 1 MB of pets, a request 2 kB: were one petstore in 20 kept, or each request, it would be 5 MB or more.
  const growth = Math.min(...heaps.slice(5)) - Math.min(...heaps.slice(0, 5))
  assert.ok(growth < 2_000_000, `heaps: ${heaps.join()}`)
})
