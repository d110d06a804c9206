// What a test suite relies on that embeds petstores: they share nothing, and leave nothing behind.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { text } from 'node:stream/consumers'
import { describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import type { NewPet } from '../src/pets/pet.ts'
import { createPetstore, type Petstore, startPetstore } from '../src/petstore.ts'
import { get } from './http/raw.ts'
import { AUTHORIZATION, FakeStream, folderOf, KEY, RawConnection, send, start } from './support.ts'

const REX: NewPet = { name: 'Rex', categoryId: 1, status: 'sold' }
const ROOT = fileURLToPath(new URL('..', import.meta.url))

// What a module that runs alone begins with. `resourcesLeft` gives what it holds beside its outputs: a few turns of the event
// loop after the last petstore was closed, which its clients take to learn of it.
const PRELUDE = `
import { startPetstore, createPetstore } from './src/petstore.ts'
import { send } from './test/support.ts'
process.stdout, process.stderr
const outputs = process.getActiveResourcesInfo()
async function resourcesLeft() {
  for (let turn = 0; turn < 10; turn++) await new Promise(setImmediate)
  const left = process.getActiveResourcesInfo()
  for (const one of outputs) left.splice(left.indexOf(one), 1)
  return left
}
`

/** Runs a module in a process of its own; resolves to what it prints. */
async function runAlone(code: string): Promise<string> {
  const flags = ['--import', 'tsx', '--expose-gc', '--input-type=module', '--eval', PRELUDE + code]
  const child = spawn(process.execPath, flags, { cwd: ROOT, stdio: ['ignore', 'pipe', 'pipe'] })
  const [stdout, stderr, [status]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')])
  assert.deepEqual({ status, stderr }, { status: 0, stderr: '' })
  return stdout
}

/** Both ways to have a petstore. */
const MAKERS: Record<string, (options?: object) => Promise<Petstore>> = {
  startPetstore,
  createPetstore: async (options) => createPetstore(options),
}

for (const [name, make] of Object.entries(MAKERS)) {
  describe(`${name}()`, () => {
    test('has its defaults: empty, a generated key, /v1, and no word in the log', async () => {
      await using petstore = await make()
      assert.match(petstore.url, /^http:\/\/(?:127\.0\.0\.1:\d+|petstore\.invalid)\/v1$/)
      assert.match(petstore.apiKey, /^[\w-]{32}$/)
      assert.deepEqual([petstore.pets, petstore.requests, petstore.pendingFaults], [[], [], []])
      assert.equal(petstore.controlUrl, undefined)
      assert.equal(petstore.log.on, false)
      const headers = { authorization: `Bearer ${petstore.apiKey}` }
      assert.equal((await petstore.fetch(`${petstore.url}/pets`, { headers })).status, 200)
    })

    test('names the first of its keys', async () => {
      await using petstore = await make({ apiKeys: ['first-key', 'second-key'] })
      assert.equal(petstore.apiKey, 'first-key')
    })

    test('tells of animals that do not all fit', async () => {
      const json = '{"id":1,"name":"Rex","categoryId":1,"status":"sold"}'
      await using petstore = await make({ pets: [REX, REX], maxStore: 2 * json.length })
      assert.equal(petstore.pets.length, 2)
      await assert.rejects(() => make({ pets: [REX, REX], maxStore: 2 * json.length - 1 }), {
        name: 'RangeError',
        message: `Cannot begin with 2 animals: they do not fit into ${2 * json.length - 1} bytes`,
      })
    })

    test('closes again and again, also at once', async () => {
      const petstore = await make()
      assert.deepEqual(await Promise.all([petstore.close(), petstore.close(5), petstore.close()]), [0, 0, 0])
      assert.equal(await petstore.close(), 0)
      await petstore[Symbol.asyncDispose]()
    })

    test('replaces its keys as a whole; what is wrong changes nothing, and is not shown', async () => {
      await using petstore = await make({ apiKeys: [KEY] })
      const statusWith = async (key: string) => {
        return (await petstore.fetch(`${petstore.url}/pets`, { headers: { authorization: `Bearer ${key}` } })).status
      }
      const keys = ['second-key', 'third-key']
      petstore.replaceKeys(keys)
      keys[0] = 'fourth-key'
      assert.deepEqual(
        await Promise.all([KEY, 'second-key', 'third-key', 'fourth-key'].map(statusWith)),
        [401, 200, 200, 401],
      )
      const mustBe =
        'must be an array of one key or more, each 8 to 256 characters of A-Z a-z 0-9 - . _ ~ + / with = only at the end'
      const refused: readonly [keys: unknown, name: string][] = [
        [[], 'RangeError'],
        [['fifth-key', 'short'], 'RangeError'],
        [['fifth-key', 5], 'TypeError'],
        ['fifth-key', 'TypeError'],
        [undefined, 'TypeError'],
        [null, 'TypeError'],
      ]
      for (const [keys, name] of refused) {
        assert.throws(() => Reflect.apply(petstore.replaceKeys, undefined, [keys]), {
          name,
          message: `apiKeys ${mustBe}`,
        })
      }
      assert.deepEqual(await Promise.all(['fifth-key', 'second-key', 'third-key'].map(statusWith)), [401, 200, 200])
    })

    test('adds animals, exact over int64, and shows them as data', async () => {
      await using petstore = await make({ pets: [REX] })
      const newPets: NewPet[] = [
        { name: '\ud800 Zoë', categoryId: 2n ** 63n - 1n },
        { name: '', categoryId: -(2n ** 63n), status: 'pending' },
        { name: 'x', categoryId: 2 ** 53 - 1 },
        { name: 'y', categoryId: 7n },
      ]
      const added = await petstore.add(...newPets)
      const expected = newPets.map((pet, at) => ({ id: at + 2, ...pet }))
      expected[3] = { id: 5, name: 'y', categoryId: 7 }
      assert.deepEqual(added, expected)
      assert.deepEqual(petstore.pets, [{ id: 1, ...REX }, ...expected])
      assert.deepEqual(await petstore.add(), [])
      assert.deepEqual(petstore.requests, [])
    })

    test('adds none of the animals where one is wrong, and names it', async () => {
      await using petstore = await make()
      const wrong: readonly [pet: unknown, why: RegExp][] = [
        [{ name: 'Rex' }, /^newPets must be an array of NewPet: in item 2, categoryId is required and must be /],
        [{ name: 1, categoryId: 2n ** 63n }, /: in item 2, name must be a string; categoryId must be /],
        [{ ...REX, status: null }, /: in item 2, status must be one of /],
        [[REX], /: in item 2, a pet must be an object$/],
        [undefined, /: in item 2, a pet must be an object$/],
      ]
      for (const [pet, message] of wrong) {
        await assert.rejects(() => Reflect.apply(petstore.add, undefined, [REX, pet]), { name: 'TypeError', message })
        await assert.rejects(() => Reflect.apply(petstore.reset, undefined, [[REX, pet]]), {
          name: 'TypeError',
          message,
        })
      }
      assert.deepEqual(petstore.pets, [])
      assert.deepEqual(await petstore.add(REX), [{ id: 1, ...REX }])
    })

    test('tells which animal does not fit into the store any more', async () => {
      await using petstore = await make({ maxStore: 110 })
      await assert.rejects(petstore.add(REX, REX, REX, REX), {
        name: 'RangeError',
        message: 'Cannot add animal 3 of 4: the store has no room for it',
      })
      assert.equal(petstore.pets.length, 2)
    })

    test('goes back to the animals that it began with, or begins with others, ids from 1 on', async () => {
      await using petstore = await make({ pets: [REX], apiKeys: [KEY] })
      const listPets = () => petstore.fetch(`${petstore.url}/pets`, { headers: { authorization: AUTHORIZATION } })
      await petstore.add(REX, REX)
      await listPets()
      petstore.inject({ operation: '*', status: 503 })
      await petstore.reset()
      assert.deepEqual([petstore.pets, petstore.requests, petstore.pendingFaults], [[{ id: 1, ...REX }], [], []])
      const other: NewPet = { name: 'Tom', categoryId: 2n ** 63n - 1n }
      await petstore.reset([other, other])
      assert.equal(
        await (await listPets()).text(),
        `[${[1, 2].map((id) => `{"id":${id},"name":"Tom","categoryId":9223372036854775807}`)}]`,
      )
      assert.deepEqual(await petstore.add(REX), [{ id: 3, ...REX }])
      await petstore.reset([])
      assert.deepEqual(petstore.pets, [])
      await petstore.reset(undefined)
      assert.deepEqual(petstore.pets, [{ id: 1, ...REX }])
    })

    test('is as it was after a reset that cannot be: too many animals, or no array of them', async () => {
      await using petstore = await make({ pets: [REX], maxStore: 110 })
      await petstore.fetch(petstore.url)
      petstore.inject({ operation: '*', status: 503 })
      await assert.rejects(petstore.reset([REX, REX, REX]), {
        name: 'RangeError',
        message: 'Cannot reset to 3 animals: they do not fit into the store',
      })
      for (const newPets of ['', 0, null, {}, 'Rex']) {
        await assert.rejects(() => Reflect.apply(petstore.reset, undefined, [newPets]), {
          name: 'TypeError',
          message: 'newPets must be an array of NewPet: this is no array',
        })
      }
      assert.deepEqual(petstore.pets, [{ id: 1, ...REX }])
      assert.equal(petstore.requests.length, 1)
      assert.equal(petstore.pendingFaults.length, 1)
    })
  })
}

test('add() and reset() of a petstore with a snapshot are on disk when they resolve', async (t) => {
  const snapshot = `${folderOf(t)}/pets.json`
  const petstore = await start(t, { snapshot, pets: [REX] })
  const kept = () => /"pets":\[\n(.*)\n\]\}/s.exec(readFileSync(snapshot, 'utf8'))?.[1]
  const rex = '{"id":1,"name":"Rex","categoryId":1,"status":"sold"}'
  assert.equal(kept(), rex)
  await petstore.add({ name: 'Tom', categoryId: 2n ** 63n - 1n })
  assert.equal(kept(), `${rex}\n,{"id":2,"name":"Tom","categoryId":9223372036854775807}`)
  await petstore.reset([{ name: 'Mia', categoryId: -(2n ** 63n) }])
  assert.equal(kept(), '{"id":1,"name":"Mia","categoryId":-9223372036854775808}')
  await petstore.reset()
  assert.equal(kept(), rex)
  await petstore.close()
  assert.deepEqual(petstore.pets, [{ id: 1, ...REX }])
  await assert.rejects(petstore.add(REX), { message: 'Cannot add animal 1 of 1: it could not be written' })
  await assert.rejects(petstore.reset(), { message: `${snapshot}: the store is closed` })
  assert.equal(kept(), rex)
})

test('close() cuts off what is in flight, over a socket and in process, and counts what was on a socket', async (t) => {
  const petstore = await start(t)
  petstore.inject({ operation: 'listPets', delay: 600_000, times: 2 })
  const inProcess = petstore.fetch(`${petstore.url}/pets`, { headers: { authorization: AUTHORIZATION } })
  const connection = new RawConnection(t, petstore)
  await connection.write(get() + get('/v1/pets/1'))
  while (petstore.pendingFaults.length > 0) await new Promise(setImmediate)
  const cut = assert.rejects(inProcess, { name: 'TypeError' })
  assert.equal(await petstore.close(), 2)
  await cut
  assert.equal(await connection.rest(), '')
})

test('what is answered 201 in process while the petstore closes is in the snapshot, and nothing else', async (t) => {
  for (let turns = 0; turns < 5; turns++) {
    const snapshot = `${folderOf(t)}/pets.json`
    const petstore = await start(t, { snapshot })
    const create = async (categoryId: number) => {
      const body = JSON.stringify({ name: 'Rex', categoryId })
      const headers = { authorization: AUTHORIZATION, 'content-type': 'application/json' }
      return (await petstore.fetch(`${petstore.url}/pets`, { method: 'POST', headers, body })).status
    }
    const creating = Array.from({ length: 20 }, (_, at) => create(at))
    for (let turn = 0; turn < turns; turn++) await new Promise(setImmediate)
    const [statuses] = await Promise.all([Promise.all(creating), petstore.close()])
    const kept: NewPet[] = JSON.parse(readFileSync(snapshot, 'utf8')).pets
    const created = [...statuses.keys()].filter((at) => statuses[at] === 201)
    assert.deepEqual(
      kept.map(({ categoryId }) => categoryId),
      created,
    )
    assert.ok(statuses.every((status) => status === 201 || status === 503))
  }
})

test('a reset that meets close() happens or rejects, and the snapshot holds what the petstore does', async (t) => {
  for (let turns = 0; turns < 5; turns++) {
    const snapshot = `${folderOf(t)}/pets.json`
    const petstore = await start(t, { snapshot, pets: [REX, REX] })
    const resetting = petstore.reset([REX]).then(
      () => 1,
      () => 2,
    )
    for (let turn = 0; turn < turns; turn++) await new Promise(setImmediate)
    const [count] = await Promise.all([resetting, petstore.close()])
    assert.equal(petstore.pets.length, count)
    assert.equal(JSON.parse(readFileSync(snapshot, 'utf8')).pets.length, count)
  }
})

test('pages that were listed before a reset are not shown after it, with a snapshot too', async (t) => {
  const named = (name: string) => Array.from({ length: 3 }, () => ({ name, categoryId: 1 }))
  for (const options of [{}, { snapshot: `${folderOf(t)}/pets.json` }]) {
    const petstore = await start(t, { ...options, pets: named('Rex') })
    const names = async () => {
      const { body } = await send(petstore, 'GET', '/v1/pets?limit=2')
      return JSON.parse(body).map((pet: NewPet) => pet.name)
    }
    for (const name of ['Tom', 'Mia', 'Rex']) {
      for (let times = 0; times < 2; times++) await names()
      await petstore.reset(name === 'Rex' ? undefined : named(name))
      assert.deepEqual(await names(), [name, name])
    }
  }
})

test('pages are right however many were listed before', async () => {
  const pets = Array.from({ length: 30 }, (_, at) => ({
    name: String.fromCharCode(65 + at).repeat(500_000),
    categoryId: at,
  }))
  await using petstore = createPetstore({ pets, apiKeys: [KEY], journal: 0 })
  for (let times = 0; times < 2; times++) {
    for (let after = 0; after < 19; after++) {
      const url = `${petstore.url}/pets?limit=10&after=${after}`
      const page: NewPet[] = JSON.parse(
        await (await petstore.fetch(url, { headers: { authorization: AUTHORIZATION } })).text(),
      )
      assert.deepEqual(
        page.map(({ categoryId }) => categoryId),
        Array.from({ length: 10 }, (_, at) => after + at),
      )
    }
  }
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

test('createPetstore() is served by a node:http server of its user, which stays open when it is closed', async (t) => {
  const petstore = createPetstore({ apiKeys: [KEY], pets: [REX] })
  const server = createServer(petstore.listener).listen(0, '127.0.0.1')
  t.after(() => server.close())
  await once(server, 'listening')
  const address = server.address()
  assert.ok(typeof address === 'object' && address !== null)
  const url = `http://127.0.0.1:${address.port}`
  assert.equal(JSON.parse((await send({ url }, 'GET', '/v1/pets')).body).length, 1)
  await petstore.close()
  assert.equal((await send({ url }, 'GET', '/readyz')).status, 503)
})

test('a port is free again as soon as close() resolves, for the API and for the controls', async () => {
  let ports = {}
  for (let count = 0; count < 20; count++) {
    const petstore = await startPetstore({ apiKeys: [KEY], controlPort: 0, ...ports })
    const { url, controlUrl = '' } = petstore
    for (const [base, path] of [
      [url, '/v1/pets'],
      [controlUrl, '/pets'],
    ] as const) {
      assert.equal((await send({ url: base }, 'GET', path)).status, 200)
    }
    ports = { port: Number(new URL(url).port), controlPort: Number(new URL(controlUrl).port) }
    await petstore.close()
  }
})

test('an address that cannot be listened on leaves nothing open: not the snapshot, nor the other port', async (t) => {
  const snapshot = `${folderOf(t)}/pets.json`
  const taken = await start(t)
  const port = Number(new URL(taken.url).port)
  const message = `Cannot listen on 127.0.0.1:${port}: the port is in use`
  await assert.rejects(startPetstore({ snapshot, controlPort: 0, port }), { code: 'EADDRINUSE', message })
  const free = await startPetstore({ snapshot })
  const freed = { snapshot, port: Number(new URL(free.url).port) }
  await free.close()
  await assert.rejects(startPetstore({ ...freed, controlPort: port }), { code: 'EADDRINUSE', message })
  await assert.rejects(startPetstore({ ...freed, controlHost: '192.0.2.1', controlPort: 0 }), {
    message: /^Cannot listen on 192\.0\.2\.1:0: .*EADDRNOTAVAIL/,
  })
  await (await startPetstore(freed)).close()
})

test('200 petstores at once each answer only for themselves', async (t) => {
  const petstores = await Promise.all(
    Array.from({ length: 200 }, (_, at) => startPetstore({ pets: Array(at % 7).fill(REX), controlPort: 0 })),
  )
  t.after(() => Promise.all(petstores.map((petstore) => petstore.close())))
  assert.equal(new Set(petstores.flatMap(({ url, controlUrl }) => [url, controlUrl])).size, 400)
  assert.equal(new Set(petstores.map(({ apiKey }) => apiKey)).size, 200)
  await Promise.all(
    petstores.map(async (petstore, at) => {
      const headers = { authorization: `Bearer ${petstore.apiKey}` }
      if (at % 3 === 0) petstore.inject({ operation: 'listPets', status: 503 })
      const body = JSON.stringify({ name: `pet of ${at}`, categoryId: at })
      const created = await send(petstore, 'POST', '/v1/pets', { headers, body })
      assert.deepEqual(JSON.parse(created.body), { id: (at % 7) + 1, name: `pet of ${at}`, categoryId: at })
      const stranger = petstores[(at + 1) % 200]
      assert.ok(stranger)
      assert.equal((await send(stranger, 'GET', `/v1/pets/${at}`, { headers })).status, 401)
      assert.equal((await send(petstore, 'GET', '/v1/pets', { headers })).status, at % 3 === 0 ? 503 : 200)
    }),
  )
  for (const [at, petstore] of petstores.entries()) {
    assert.deepEqual(petstore.pets.slice(at % 7), [{ id: (at % 7) + 1, name: `pet of ${at}`, categoryId: at }])
    assert.deepEqual(petstore.requests.map(({ operation, status }) => `${operation} ${status}`).sort(), [
      'createPet 201',
      'getPet 401',
      `listPets ${at % 3 === 0 ? 503 : 200}`,
    ])
    assert.deepEqual(petstore.pendingFaults, [])
  }
})

test('a process ends by itself when its petstores are closed, and one without a socket holds none', async (t) => {
  const output = await runAlone(`
    const unused = createPetstore()
    unused.inject({ operation: '*', status: 503 })
    await unused.fetch(unused.url)
    await Promise.all(Array.from({ length: 3 }, async (_, at) => {
      const snapshot = ${JSON.stringify(folderOf(t))} + '/' + at + '.json'
      const petstore = await startPetstore({ apiKeys: ['key-of-the-tests'], controlPort: 0, snapshot })
      const answer = await send(petstore, 'POST', '/v1/pets', { body: '{"name":"Rex","categoryId":1}' })
      if (answer.status !== 201) throw new Error(answer.body)
      await petstore.close()
    }))
    console.log(JSON.stringify(await resourcesLeft()))
    process.on('beforeExit', () => console.log('nothing is left'))`)
  assert.equal(output, '[]\nnothing is left\n')
})

test('1,000 petstores started and closed one after the other leave no handle, and no memory taken', async () => {
  const output = await runAlone(`
    const pets = Array(20).fill({ name: 'x'.repeat(5_000), categoryId: 1 })
    async function useOne() {
      const petstore = await startPetstore({ apiKeys: ['key-of-the-tests'], controlPort: 0, pets })
      petstore.inject({ operation: 'createPet', times: 2, delay: 1 })
      const answer = await send(petstore, 'POST', '/v1/pets', { body: '{"name":"Rex","categoryId":1}' })
      if (answer.status !== 201 || petstore.requests.length !== 1) throw new Error(answer.body)
      await petstore.close()
    }
    const heaps = []
    for (let round = 0; round < 10; round++) {
      for (let count = 0; count < 100; count++) await useOne()
      await resourcesLeft()
      gc()
      heaps.push(process.memoryUsage().heapUsed)
    }
    console.log(JSON.stringify({ heaps, resources: await resourcesLeft() }))`)
  const { heaps, resources }: { heaps: number[]; resources: string[] } = JSON.parse(output)
  assert.deepEqual(resources, [])
  // Each petstore holds 100 kB of animals: were one in fifty kept, the second half would be 1 MB above the first.
  const [first, second] = [heaps.slice(0, 5), heaps.slice(5)].map((half) => Math.min(...half))
  assert.ok(first !== undefined && second !== undefined)
  assert.ok(second - first < 1_000_000, `heaps: ${heaps}`)
})

test('20,000 requests on one connection leave no memory taken', async () => {
  const output = await runAlone(`
    const { Agent } = await import('node:http')
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    const petstore = await startPetstore({ apiKeys: ['key-of-the-tests'], journal: 0 })
    const heaps = []
    for (let round = 0; round < 10; round++) {
      for (let count = 0; count < 2_000; count++) await send(petstore, 'GET', '/v1/pets', { agent })
      gc()
      heaps.push(process.memoryUsage().heapUsed)
    }
    agent.destroy()
    await petstore.close()
    console.log(JSON.stringify(heaps))`)
  const heaps: number[] = JSON.parse(output)
  // A request takes 2 kB and more: were each kept, the second half would be 20 MB above the first.
  const [first, second] = [heaps.slice(0, 5), heaps.slice(5)].map((half) => Math.min(...half))
  assert.ok(first !== undefined && second !== undefined)
  assert.ok(second - first < 2_000_000, `heaps: ${heaps}`)
})
