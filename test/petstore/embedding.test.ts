// What a test suite relies on that embeds petstores: they share nothing and leave nothing open.
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { Agent } from 'node:http'
import { describe, test } from 'node:test'
import { inspect } from 'node:util'
import { createPetstore, type NewPet, type Petstore, startPetstore } from '../../src/index.ts'
import { INDEX } from '../built.ts'
import { Running } from '../process.ts'
import { bearer, FakeStream, folderOf, freePort } from '../support.ts'
import { KEY, outcomesOf, portOf, send, start } from '../support.ts'

const REX: NewPet = { name: 'Rex', categoryId: 1, status: 'sold' } // 152 bytes of the store

const MAKERS: Record<string, (options?: object) => Promise<Petstore>> = {
  startPetstore,
  createPetstore: async (options) => createPetstore(options),
}

test('after close(), a petstore on the same port answers the first request', async (t) => {
  const agent = new Agent({ keepAlive: true })
  t.after(() => agent.destroy())
  let port = 0
  for (let round = 0; round < 10; round++) {
    const petstore = await startPetstore({ port, apiKeys: [KEY] })
    port = portOf(petstore)
    for (let times = 0; times < 2; times++) {
      const { status } = await send(petstore, 'GET', '/v1/pets', { agent })
      assert.equal(status, 200)
      assert.equal((await fetch(`${petstore.url}/pets`, petstore)).status, 200)
    }
    await petstore.close()
  }
})

test('a request that is sent right before close() has an outcome', async () => {
  for (let round = 0; round < 20; round++) {
    const petstore = await startPetstore()
    const response = fetch(`${petstore.url}/pets`, petstore).then(({ status }) => status)
    await petstore.close()
    assert.ok([200, 'TypeError'].includes(await response.catch(({ name }) => name)))
  }
})

test('close() waits for no timer, also while a client keeps its connection', async () => {
  const petstore = await startPetstore()
  await (await fetch(`${petstore.url}/pets`, petstore)).text()
  let turns = 0 // of the event loop
  const count = () => {
    turns++
    turning = setImmediate(count)
  }
  let turning = setImmediate(count)
  await petstore.close()
  clearImmediate(turning)
  assert.ok(turns <= 10, `${turns} turns`)
})

for (const [name, make] of Object.entries(MAKERS)) {
  describe(`${name}()`, () => {
    test('is empty by default, with a generated key, at /v1, without a log', async () => {
      const logStream = new FakeStream()
      await using petstore = await make({ logStream })
      assert.match(petstore.url, /^http:\/\/(?:127\.0\.0\.1:\d+|petstore\.invalid)\/v1$/)
      assert.match(petstore.apiKey, /^[\w-]{36}$/)
      assert.deepEqual([petstore.pets, petstore.requests, petstore.pendingFaults], [[], [], []])
      await petstore.log.flush()
      assert.deepEqual([petstore.controlUrl, logStream.text], [undefined, ''])
      assert.deepEqual(petstore.headers, bearer(petstore.apiKey))
      assert.equal((await petstore.fetch(`${petstore.url}/pets`, petstore)).status, 200)
    })

    test('serves the operations at the root with an empty basePath', async () => {
      await using petstore = await make({ basePath: '', pets: [REX] })
      const { headers } = petstore
      const get = (path: string, init = {}) => petstore.fetch(petstore.url + path, init)
      assert.match(await (await get('/pets', { headers })).text(), /^\[\{"id":1,[^[]*\]$/)
      assert.equal((await get('/pets/1', { headers })).status, 200)
      for (const path of ['/livez', '/openapi.json', '/'])
        assert.equal((await get(path)).status, 200)
      assert.equal((await get('/pets')).status, 401)
      assert.equal((await get('/nothing')).status, 401)
      assert.equal((await get('/nothing', { headers })).status, 404)
      const { servers } = JSON.parse(await (await get('/openapi.json')).text())
      assert.deepEqual(servers, [{ url: '/' }])
    })

    test('starts with pets that fit, resets to them, and refuses pets that do not', async () => {
      const pets = [REX, { ...REX, age: 9 }] // the unknown member is dropped
      await using petstore = await make({ pets, maxStore: 304 })
      pets.pop()
      await petstore.reset()
      assert.deepEqual(
        petstore.pets,
        [1, 2].map((id) => ({ id, ...REX })),
      )
      const message = '2 pets do not fit into the 303 bytes of maxStore (--max-store)'
      const tooMany = () => make({ pets: [REX, REX], maxStore: 303 })
      await assert.rejects(tooMany, { name: 'RangeError', code: 'store_full', message })
    })

    test('close() refuses a drain that is not milliseconds, and closes nothing', async () => {
      await using petstore = await make({ apiKeys: [KEY] })
      for (const drain of [null, '5', -1, 0.5, Number.NaN, 86_400_001]) {
        const name = typeof drain === 'number' ? 'RangeError' : 'TypeError'
        const closing: Promise<unknown> = Reflect.apply(petstore.close, undefined, [drain])
        const message = /^drain .* must be an integer from 0 to 86400000$/
        await assert.rejects(closing, { name, code: 'invalid_option', message })
      }
      assert.equal((await petstore.fetch(new URL('/readyz', petstore.url))).status, 200)
    })

    test('replaceKeys() replaces all keys and headers, or none if a key is invalid', async () => {
      await using petstore = await make({ apiKeys: ['first-key', 'second-key'] })
      assert.equal(petstore.apiKey, 'first-key')
      const keys = ['second-key', 'third-key']
      petstore.replaceKeys(keys)
      keys[0] = 'fourth-key'
      for (const given of [[], ['fourth-key', 'short'], undefined]) {
        const message = /^apiKeys must be a list of keys, each 8 to 256 characters /
        assert.throws(() => Reflect.apply(petstore.replaceKeys, undefined, [given]), { message })
      }
      const statusWith = async (key: string) =>
        (await petstore.fetch(`${petstore.url}/pets`, { headers: bearer(key) })).status
      const all = ['first-key', 'second-key', 'third-key', 'fourth-key']
      assert.deepEqual(await Promise.all(all.map(statusWith)), [401, 200, 200, 401])
      assert.deepEqual([petstore.apiKey, petstore.headers], ['second-key', bearer('second-key')])
    })
  })
}

test('a snapshot that cannot be opened, or would not hold the pets, stops the start', async (t) => {
  const snapshot = `${folderOf()}/pets.json`
  const unopened = { code: 'storage_failed', message: /in a folder that exists/ }
  await assert.rejects(startPetstore({ snapshot: `${snapshot}/pets.json` }), unopened)
  const tooMany = startPetstore({ snapshot, pets: [REX, REX], maxStore: 303 })
  await assert.rejects(tooMany, { name: 'RangeError', code: 'store_full' })
  assert.deepEqual((await start(t, { snapshot })).pets, [])
})

test('petstores share a log stream: one listener, and every line', async () => {
  const logStream = new FakeStream()
  for (let count = 0; count < 20; count++) {
    await using petstore = await startPetstore({ apiKeys: [KEY], log: 'json', logStream })
    await send(petstore, 'GET', `/v1/pets/${count}`)
  }
  assert.equal(logStream.listenerCount('error'), 1)
  assert.equal(logStream.text.split('\n').length, 21)
})

test('an address in use leaves nothing open, and close() frees both ports at once', async (t) => {
  const snapshot = `${folderOf()}/pets.json`
  const port = portOf(await start(t))
  const error = { code: 'EADDRINUSE' }
  await assert.rejects(startPetstore({ snapshot, controlPort: 0, port }), error)
  const freed = { snapshot, port: await freePort() }
  await assert.rejects(startPetstore({ ...freed, controlPort: port }), error)
  await assert.rejects(startPetstore({ ...freed, controlPort: freed.port }), error)
  const controlPort = await freePort()
  for (let count = 0; count < 20; count++) {
    await using petstore = await startPetstore({ ...freed, controlPort })
    assert.equal((await fetch(`${petstore.controlUrl}/pets`)).status, 200)
  }
})

test('petstores share no key, pet, fault or request', async () => {
  const [ann, ben] = [createPetstore({ pets: [REX] }), createPetstore()]
  ann.inject({ operation: 'listPets', status: 503, times: 2 })
  const list = async (petstore: Petstore, { headers }: Petstore) =>
    (await petstore.fetch(`${petstore.url}/pets`, { headers })).status
  const statuses = [await list(ann, ann), await list(ben, ben), await list(ann, ben)]
  assert.deepEqual(statuses, [503, 200, 401])
  assert.deepEqual([ann.pets.length, ben.pets.length], [1, 0])
  assert.deepEqual([ann.pendingFaults.length, ben.pendingFaults.length], [1, 0])
  assert.deepEqual(outcomesOf(ann), ['listPets 503', 'listPets 401'])
  assert.deepEqual(outcomesOf(ben), ['listPets 200'])
})

function runModule(code: string, ...flags: string[]) {
  const all = [...flags, '--input-type=module', '--eval', code]
  return new Running([process.execPath, ...all]).exited
}

test('closed petstores, and one without a socket, let the process end', async () => {
  const code = `
    import { PassThrough } from 'node:stream'
    import { createPetstore, startPetstore } from '${INDEX}'
    process.stdout, process.stderr
    const outputs = process.getActiveResourcesInfo()
    const logged = { log: 'text', logStream: new PassThrough().resume() }
    const unused = createPetstore({ ...logged, storePerKey: true, maxStore: 20_000 })
    unused.of('first-key').inject({ operation: '*', status: 503 })
    await unused.fetch(unused.url, unused) // the log counts that its key has no store
    const snapshot = ${JSON.stringify(`${folderOf()}/pets.json`)}
    const petstore = await startPetstore({ controlPort: 0, snapshot })
    petstore.inject({ operation: 'listPets', delay: 600_000 })
    const delayed = fetch(petstore.url + '/pets', petstore).catch(() => {})
    const waiting = petstore.waitForRequests(9, { timeout: 600_000 }).catch(() => {})
    while (petstore.pendingFaults.length > 0) await new Promise(setImmediate)
    await petstore.close()
    await petstore.close() // again, which does nothing
    await unused.close()
    await Promise.all([delayed, waiting])
    // A few turns of the event loop let the clients of a petstore learn that it was closed.
    for (let turn = 0; turn < 10; turn++) await new Promise(setImmediate)
    await new Promise((resolve) => setTimeout(resolve, 5)) // as the log does before it writes
    const left = process.getActiveResourcesInfo()
    for (const one of outputs) left.splice(left.indexOf(one), 1)
    console.log(JSON.stringify(left))`
  const ended = await runModule(code)
  assert.deepEqual(ended, { status: 0, stdout: '[]\n', stderr: '' })
})

test('a petstore with unref lets the process end without close()', async () => {
  const code = `
    import { startPetstore } from '${INDEX}'
    const snapshot = ${JSON.stringify(`${folderOf()}/pets.json`)}
    const petstore = await startPetstore({ unref: true, controlPort: 0, snapshot })
    const response = await fetch(petstore.url + '/pets', petstore)
    console.log(response.status, await response.text())`
  assert.deepEqual(await runModule(code), { status: 0, stdout: '200 []\n', stderr: '' })
})

test('console.log() shows the state of a petstore, and no key', async () => {
  await using petstore = createPetstore({ apiKeys: [KEY], pets: [REX] })
  petstore.inject({ operation: 'getPet', status: 503 })
  await petstore.fetch(`${petstore.url}/pets`, petstore)
  assert.equal(
    inspect(petstore),
    `Petstore {
  url: 'http://petstore.invalid/v1',
  pets: 1,
  faults: [ { operation: 'getPet', status: 503, times: 1, hits: 0 } ],
  requests: [ 'GET /v1/pets 200' ]
}`,
  )
  await using shared = createPetstore({ storePerKey: true })
  assert.equal(inspect(shared), "Petstore { url: 'http://petstore.invalid/v1' }")
  assert.match(inspect(shared.of(KEY)), /pets: 0/)
})

test('a copy of a petstore by its members has the key and the headers', async () => {
  await using petstore = createPetstore({ apiKeys: [KEY] })
  const { apiKey, headers, url } = { ...petstore }
  assert.deepEqual([apiKey, headers, url], [KEY, bearer(KEY), petstore.url])
})

test('a closed petstore can be collected', async () => {
  const code = `
    import { PassThrough } from 'node:stream'
    import { startPetstore } from '${INDEX}'
    const closed = []
    for (let count = 0; count < 10; count++) {
      const pets = [{ name: 'Rex', categoryId: 1 }]
      const logStream = new PassThrough().resume()
      const petstore = await startPetstore({ controlPort: 0, pets, log: 'text', logStream })
      petstore.inject({ operation: 'createPet', delay: 1 })
      await petstore.fetch(petstore.url + '/pets', petstore)
      closed.push(new WeakRef(logStream))
      await petstore.close()
    }
    for (let turn = 0; turn < 10; turn++) {
      await new Promise(setImmediate)
      gc()
    }
    console.log(closed.filter((one) => one.deref() !== undefined).length)`
  const { status, stdout, stderr } = await runModule(code, '--expose-gc')
  assert.deepEqual({ status, stderr }, { status: 0, stderr: '' })
  // The compiler may keep the last one alive; a leak would keep them all.
  assert.ok(Number(stdout) <= 1, stdout)
})

test('each worker of a cluster gets a port of its own', async (t) => {
  const script = `${folderOf()}/cluster.mjs`
  const code = `
    import cluster from 'node:cluster'
    import { startPetstore } from '${INDEX}'
    if (cluster.isPrimary) for (const _ of [1, 2]) cluster.fork().on('message', console.log)
    else process.send((await startPetstore()).url)`
  writeFileSync(script, code)
  const primary = new Running([process.execPath, script])
  t.after(() => primary.process.kill('SIGKILL'))
  const [, first, second] = await primary.until(/^(http:.*)\n(http:.*)\n/)
  assert.notEqual(first, second)
})
