// A store for each key: keys share a server, its memory and nothing else.
import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import { createPetstore, type NewPet, type Petstore, type StartOptions } from '../../src/index.ts'
import { launch } from '../../src/petstore/launch.ts'
import { ended, run } from '../cli/executable.ts'
import { open, request } from '../http/raw.ts'
import { assertError, assertNext, bearer, check, type Expected, FakeStream } from '../support.ts'
import { outcomesOf, send, start, startLogging, untilInFlight } from '../support.ts'

const REX: NewPet = { name: 'Rex', categoryId: 1 }
const BODY = JSON.stringify(REX)
const LUNA: NewPet = { name: 'Luna', categoryId: 2 }
const ANN = 'the-key-of-ann'
const BEN = 'the-key-of-ben'
const BENS_SON = `${BEN}-junior`
const STORE_BYTES = 16 * 1024
const BYTES_OF_REX = 100 + '{"id":1,"name":"Rex","categoryId":1}'.length

const namesIn = ({ pets }: Petstore) => pets.map(({ name }) => name)
const list = (petstore: Petstore, key: string, expected: Expected) =>
  check(petstore, 'GET', '/v1/pets', expected, { headers: bearer(key) })
const create = (petstore: Petstore, key: string, expected: Expected) =>
  check(petstore, 'POST', '/v1/pets', expected, { headers: bearer(key), body: BODY })

/** Sends the first byte of the body of a request. */
function begin(t: TestContext, url: string, line: string, key: string, body: string) {
  const length = `Content-Length: ${body.length}`
  const lines = ['Host: localhost', `Authorization: Bearer ${key}`, length]
  return open(t, { url }, request(line, lines, body.slice(0, 1)))
}

async function beginCreate(t: TestContext, petstore: Petstore, key: string) {
  const connection = await begin(t, petstore.url, 'POST /v1/pets HTTP/1.1', key, BODY)
  await untilInFlight(petstore.of(key))
  return connection
}

const PER_KEY = { apiKeys: undefined, storePerKey: true, controlPort: 0 }
const shared = (t: TestContext, options: StartOptions = {}): Promise<Petstore> =>
  start(t, { ...PER_KEY, ...options })

const FAULT = { operation: 'createPet', status: 503 } as const

test('two workers on one server do not see each other', async (t) => {
  const petstore = await shared(t, { pets: [REX] })
  const url = String(petstore.controlUrl)
  const work = async (key: string, name: string) => {
    const headers = bearer(key)
    const body = JSON.stringify({ ...REX, name })
    const own = petstore.of(key)
    for (let round = 0; round < 20; round++) {
      await check({ url }, 'POST', '/faults', 201, { headers, body: JSON.stringify(FAULT) })
      await check(petstore, 'POST', '/v1/pets', '503 injected_fault', { headers, body })
      await check(petstore, 'POST', '/v1/pets', 201, { headers, body })
      assert.deepEqual([namesIn(own), own.pendingFaults], [['Rex', name], []])
      assert.deepEqual(outcomesOf(own), ['createPet 503', 'createPet 201'])
      assert.ok(own.requests.every((request) => request.body.includes(name)))
      await check({ url }, 'POST', '/reset', 204, { headers })
    }
  }
  await Promise.all([work(ANN, 'pet of Ann'), work(BEN, 'pet of Ben')])
})

test('without configured keys, any well-formed key has a store, until some are set', async (t) => {
  const petstore = await shared(t, { pets: [REX] })
  for (const key of ['12345678', 'A'.repeat(256), petstore.apiKey]) await create(petstore, key, 201)
  for (const key of ['1234567', 'A'.repeat(257), 'not a key', ''])
    await list(petstore, key, '401 unauthorized')
  await check(petstore, 'GET', '/v1/pets', '401 unauthorized', { headers: { authorization: '' } })
  for (const key of ['1234567', '  12345678', undefined]) {
    const message =
      'key must be 8 to 256 characters of A-Z a-z 0-9 - . _ ~ + / with = only at the end'
    const error = { code: 'invalid_option', message }
    assert.throws(() => Reflect.apply(petstore.of, null, [key]), error)
  }
  petstore.replaceKeys([ANN])
  await list(petstore, BEN, '401 unauthorized')
  await list(petstore, ANN, 200)
})

test('configured keys have stores, and the petstore itself acts for the first', async (t) => {
  const petstore = await shared(t, { apiKeys: [ANN, BEN] })
  await petstore.of(BEN).add([LUNA])
  await create(petstore, ANN, 201)
  assert.deepEqual([namesIn(petstore), outcomesOf(petstore)], [['Rex'], ['createPet 201']])
  assert.deepEqual(namesIn(petstore.of(BEN)), ['Luna'])
  await list(petstore, 'another-key', '401 unauthorized')
  assert.throws(() => petstore.of('another-key'), { name: 'TypeError', code: 'invalid_option' })
})

test('a key that is replaced loses its store and handle; one that stays does not', async (t) => {
  const petstore = await shared(t, { apiKeys: [ANN, BEN], pets: [REX] })
  for (const key of [ANN, BEN]) await petstore.of(key).add([LUNA])
  const ann = petstore.of(ANN)
  petstore.replaceKeys(['the-key-of-cleo', BEN])
  assert.deepEqual([petstore.apiKey, namesIn(petstore)], ['the-key-of-cleo', ['Rex']])
  await list(petstore, ANN, '401 unauthorized')
  for (const use of [() => ann.add([REX]), () => ann.waitForRequests(1)])
    await assert.rejects(use, { code: 'closed' })
  const message = 'key must be a valid API key'
  assert.throws(() => petstore.of(ANN), { name: 'TypeError', message })
  assert.equal(await ann.close(), 0)
  assert.deepEqual(namesIn(petstore.of(BEN)), ['Rex', 'Luna'])
  petstore.replaceKeys([ANN])
  assert.deepEqual(namesIn(petstore), ['Rex'])
})

test('a store that is closed ends waits and delays, and its key then opens another', async (t) => {
  const petstore = await shared(t, { pets: [REX] })
  const ann = petstore.of(ANN)
  await ann.add([LUNA])
  ann.inject({ operation: 'listPets', delay: 600_000 })
  const delayed = assert.rejects(list(petstore, ANN, 200), { code: 'ECONNRESET' })
  await untilInFlight(ann)
  const waiting = assert.rejects(ann.waitForRequests(1), { code: 'closed' })
  assert.equal(await ann.close(), 0)
  await Promise.all([delayed, waiting])
  assert.deepEqual(namesIn(petstore.of(ANN)), ['Rex'])
  await list(petstore, BEN, 200)
})

test('a closed handle stays closed, and closing it again closes no other store', async () => {
  const petstore = createPetstore({ storePerKey: true })
  const ann = petstore.of(ANN)
  await ann.add([REX])
  await ann.close()
  await petstore.of(ANN).add([LUNA])
  const later = petstore.of(BEN)
  for (const handle of [ann, later]) {
    await handle.close()
    assert.throws(() => handle.inject({ operation: '*', status: 503 }), { code: 'closed' })
    await assert.rejects(handle.waitForRequests(1), { code: 'closed' })
    await assert.rejects(handle.add([REX]), { code: 'closed' })
    await assert.rejects(handle.fetch(`${handle.url}/pets`, handle), { message: 'fetch failed' })
  }
  assert.deepEqual([namesIn(ann), namesIn(later)], [['Rex'], []]) // it can still be read
  assert.deepEqual(namesIn(petstore.of(ANN)), ['Luna'])
  await petstore.of(BEN).add([REX])
  await later.close()
  assert.deepEqual(namesIn(petstore.of(BEN)), ['Rex'])
})

test('what a store takes is free once it is closed, even if a create ends later', async (t) => {
  const { petstore, keyCores: cores } = await launch({ storePerKey: true, pets: [REX] })
  t.after(() => petstore.close())
  await petstore.of(ANN).add([LUNA])
  await list(petstore, ANN, 200)
  const begun = await beginCreate(t, petstore, ANN)
  assert.equal(cores?.size, 2)
  assert.ok(cores.bytes > STORE_BYTES)
  await petstore.of(ANN).close()
  assert.deepEqual([cores.size, cores.bytes], [0, 0])
  await begun.write(BODY.slice(1))
  await assertNext(begun, '503 storage_failed')
  assert.deepEqual([cores.size, cores.bytes], [0, 0])
  await petstore.of(ANN).add([LUNA])
  await petstore.close()
  const { bytes } = cores
  await petstore.close()
  assert.equal(cores.bytes, bytes)
})

test('a control acts on the store that its key has when its body has come', async (t) => {
  const { petstore, keyCores: cores } = await launch({
    storePerKey: true,
    pets: [REX],
    controlPort: 0,
  })
  t.after(() => petstore.close())
  await petstore.of(ANN).add([LUNA])
  const body = JSON.stringify([LUNA])
  const begun = await begin(t, `${petstore.controlUrl}`, 'POST /reset HTTP/1.1', ANN, body)
  await list(petstore, ANN, 200)
  await petstore.of(ANN).close()
  await begun.write(body.slice(1))
  await assertNext(begun, 204)
  assert.deepEqual(namesIn(petstore.of(ANN)), ['Luna'])
  await petstore.of(ANN).close()
  assert.deepEqual([cores?.size, cores?.bytes], [0, 0])
})

test('a wait for the requests of any key ends with the petstore, or is refused later', async () => {
  const petstore = createPetstore({ storePerKey: true })
  const cleo = petstore.of('the-key-of-cleo')
  await cleo.add([REX])
  const waits = [ANN, BEN].map((key) => petstore.of(key).waitForRequests(1))
  const rejected = Promise.all(waits.map((wait) => assert.rejects(wait, { code: 'closed' })))
  await petstore.close()
  await rejected
  assert.throws(() => petstore.of('the-key-of-dora'), { code: 'closed' })
  for (const one of [cleo, petstore.of(ANN)]) {
    for (const use of [one.waitForRequests(1), one.add([REX]), one.reset()])
      await assert.rejects(use, { code: 'closed', message: /closed/ })
    assert.throws(() => one.inject({ operation: '*', status: 503 }), { code: 'closed' })
    assert.deepEqual([one.pets.length, one.requests], [one === cleo ? 1 : 0, []]) // still there
  }
})

describe('where the stores share --max-store', () => {
  test('the requests of a closed store no longer count', async () => {
    await using petstore = createPetstore({ storePerKey: true, maxStore: 1_000_000 })
    for (let at = 0; at < 40; at++) {
      const worker = petstore.of(`the-key-of-worker-${at}`)
      await worker.fetch(`${worker.url}/pets?${'x'.repeat(5_000)}`, worker)
      assert.equal(worker.requests.length, 1)
      await worker.close()
    }
  })

  test('a pet counts in the store of any key, and is refused beyond the limit', async (t) => {
    const maxStore = 2 * STORE_BYTES + 2 * BYTES_OF_REX
    const petstore = await shared(t, { maxRequests: 0, maxStore })
    for (const key of [ANN, BEN]) await petstore.of(key).add([REX])
    await create(petstore, ANN, '507 store_full')
    await petstore.of(BEN).close()
    await create(petstore, ANN, 201)
    await petstore.of(ANN).reset()
    await petstore.of(ANN).add([REX, REX])
  })

  test('recorded requests take an eighth of it more, and the oldest go first', async (t) => {
    const petstore = await shared(t, { maxStore: STORE_BYTES + BYTES_OF_REX })
    for (let round = 0; round < 20; round++)
      await petstore.fetch(`${petstore.url}/pets?round=${round}`, petstore)
    const queries = petstore.requests.map(({ query }) => query)
    assert.ok(queries.length > 1 && queries.length < 20, `${queries.length} requests`)
    assert.equal(queries.at(-1), 'round=19')
    const size = JSON.stringify(petstore.requests).length
    assert.ok(size <= (STORE_BYTES + BYTES_OF_REX) / 8 + queries.length, `${size} characters`)
    assert.equal((await petstore.add([REX])).length, 1)
  })

  test('recorded requests of the key that has the most go first', async (t) => {
    const maxStore = 80 * STORE_BYTES
    const petstore = await shared(t, { maxStore })
    const body = JSON.stringify({ ...REX, name: 'x'.repeat(5_000) })
    const keys = [BEN, ...Array.from({ length: 60 }, () => ANN)]
    for (const key of keys)
      await check(petstore, 'POST', '/v1/pets', 201, { headers: bearer(key), body })
    const recorded = [ANN, BEN].map((key) => petstore.of(key).requests)
    assert.equal(recorded[1]?.length, 1)
    assert.match(recorded[0]?.at(-1)?.body ?? '', /x{5000}/)
    const size = JSON.stringify(recorded).length
    assert.ok(size > maxStore / 32 && size <= maxStore / 8 + 1_000, `${size} characters`)
  })

  test('pending faults share 1 Mi characters of JSON, free once they are over', async () => {
    await using petstore = createPetstore({ storePerKey: true })
    const [ann, ben] = [petstore.of(ANN), petstore.of(BEN)]
    const large = { operation: 'listPets', status: 503, message: 'x'.repeat(600_000) } as const
    const refused = { code: 'invalid_option', message: /1048576 characters of JSON/ }
    const injectInBoth = () => {
      const injected = ann.inject(large)
      assert.throws(() => ben.inject(large), refused)
      return injected
    }
    injectInBoth().remove()
    injectInBoth()
    await ann.fetch(`${ann.url}/pets`, ann) // the fault applies
    injectInBoth()
    ann.clearFaults()
    injectInBoth()
    await ann.reset()
    injectInBoth()
    await ann.close()
    ben.inject(large)
  })

  test('a key whose store has no room gets 507, and no other store is closed for it', async (t) => {
    const bytes = STORE_BYTES + BYTES_OF_REX
    const options = { ...PER_KEY, pets: [REX], maxRequests: 0, maxStore: 2 * bytes }
    const { petstore, logStream } = await startLogging(t, 'json', options)
    for (const key of [ANN, BEN]) await list(petstore, key, 200)
    for (let round = 0; round < 1_024; round++)
      await petstore.fetch(`${petstore.url}/pets`, { headers: bearer(`a-strange-key-${round}`) })
    const { controlUrl: url = '' } = petstore
    for (const key of ['the-key-of-cleo', petstore.apiKey]) {
      const headers = bearer(key)
      await list(petstore, key, '507 store_full')
      await check(petstore, 'GET', '/v1/nothing', '404 not_found', { headers })
      await check(petstore, 'POST', '/v1/pets/1', '405 method_not_allowed', { headers })
      await check({ url }, 'GET', '/pets', '507 store_full', { headers })
      const error = { name: 'RangeError', code: 'store_full', message: /no room/ }
      assert.throws(() => petstore.of(key), error)
    }
    for (const key of [ANN, BEN]) assert.deepEqual(namesIn(petstore.of(key)), ['Rex'])
    await petstore.log.flush()
    const refused = /"requests with a new key refused, because its store has no room: (\d+)"/g
    const counts = Array.from(logStream.text.matchAll(refused), ([, count]) => Number(count))
    assert.ok(counts.reduce((sum, count) => sum + count, 0) >= 1_024, `${counts}`)
    await petstore.of(BEN).close()
    await list(petstore, 'the-key-of-cleo', 200)
  })

  test('a start is refused where not even one store has room', async (t) => {
    const bytes = STORE_BYTES + BYTES_OF_REX
    await list(await shared(t, { pets: [REX], maxStore: bytes }), ANN, 200)
    const limit = `more than the ${bytes - 1} of maxStore (--max-store)`
    const message = `the store of a key takes ${bytes} bytes, ${limit}`
    const tooSmall = shared(t, { pets: [REX], maxStore: bytes - 1 })
    await assert.rejects(tooSmall, { name: 'RangeError', code: 'store_full', message })
  })
})

test('probes, the page and the document do not open a store', async (t) => {
  const petstore = await shared(t, { maxStore: STORE_BYTES })
  petstore.of(ANN).getPetState = 'gone'
  for (const path of ['/', '/livez', '/readyz', '/openapi.json'])
    await check(petstore, 'GET', path, 200, { headers: bearer(BEN) })
  assert.equal(petstore.of(ANN).getPetState, 'gone')
})

test('the controls need a valid key, and refuse a web page first', async (t) => {
  const { controlUrl: url = '' } = await shared(t, { apiKeys: [ANN], pets: [REX] })
  const call = (headers: Record<string, string>) => send({ url }, 'GET', '/pets', { headers })
  assertError(await call({ authorization: '' }), 401, 'unauthorized')
  assertError(await call(bearer(BEN)), 401, 'unauthorized')
  const { status, body } = await call(bearer(ANN))
  assert.deepEqual([status, body], [200, '[{"id":1,"name":"Rex","categoryId":1}]'])
  for (const headers of [bearer(ANN), bearer(BEN)])
    assertError(await call({ ...headers, origin: 'https://evil.example' }), 403, 'forbidden')
})

const keysIn = ({ text }: FakeStream) =>
  Array.from(text.matchAll(/^.*\n/gm), ([line]) => JSON.parse(line).key)

test('the log has the number of each key, and no key', async (t) => {
  const options = { ...PER_KEY, apiKeys: [ANN, BEN, BENS_SON] }
  const { petstore, logStream } = await startLogging(t, 'json', options)
  for (const key of [BEN, ANN, BEN]) await list(petstore, key, 200)
  await check(petstore, 'GET', `/v1/pets/${BEN}`, 401, { headers: bearer('another-key') })
  await check(petstore, 'GET', `/v1/pets/${BEN}`, 404, { headers: bearer(ANN) })
  await check(petstore, 'GET', `/v1/pets/${BENS_SON}`, 404, { headers: bearer(BEN) })
  assert.equal(petstore.of(BEN).requests.at(-1)?.path, '/v1/pets/[key]')
  petstore.replaceKeys([BEN])
  await check(petstore, 'GET', `/v1/pets/${BEN}`, 404, { headers: bearer(BEN) })
  await petstore.log.flush()
  assert.deepEqual(keysIn(logStream), [1, 0, 1, undefined, 0, 1, 0])
  for (const key of [ANN, BEN, '-junior']) assert.ok(!logStream.text.includes(key))
})

test('where any key is valid, the log numbers them in the order of their first use', async (t) => {
  const { petstore, logStream } = await startLogging(t, 'json', PER_KEY)
  for (const key of [BEN, ANN, BEN])
    await check(petstore, 'GET', `/v1/pets/${key}`, 404, { headers: bearer(key) })
  await petstore.of(BEN).close()
  await check(petstore, 'GET', `/v1/pets/${BENS_SON}`, 404, { headers: bearer(BENS_SON) })
  await petstore.log.flush()
  assert.deepEqual(keysIn(logStream), [0, 1, 0, 2])
  for (const key of [ANN, BEN]) assert.ok(!logStream.text.includes(key))
})

test('of() needs the option storePerKey, which refuses a snapshot', async () => {
  await using petstore = createPetstore()
  const message = 'of(key) needs the option storePerKey'
  assert.throws(() => petstore.of(petstore.apiKey), { code: 'invalid_option', message })
  const why = 'snapshot (--snapshot) must be left out with storePerKey (--store-per-key)'
  assert.deepEqual(await run(['--store-per-key', '--snapshot', 'pets.json']), ended(2, why))
})

test('a key opens its store in less than 50 ms, however many pets it begins with', async () => {
  const pets = Array.from({ length: 100_000 }, (_, at) => ({ name: `pet ${at}`, categoryId: 1 }))
  const petstore = createPetstore({ storePerKey: true, pets, maxStore: 2 ** 28 })
  const costs: number[] = []
  for (let round = 0; round < 10; round++) {
    const before = process.cpuUsage()
    const own = petstore.of(`the-key-of-round-${round}`)
    const { user, system } = process.cpuUsage(before)
    costs.push((user + system) / 1_000)
    await own.add([REX])
    assert.equal(own.pets.length, pets.length + 1)
  }
  assert.ok(Math.min(...costs) < 50, `${costs} ms`)
})
