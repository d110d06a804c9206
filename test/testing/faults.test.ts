// Faults: what a test asked to go wrong goes wrong, over a socket as in process, and nothing else does.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { createPetstore, type Fault, type Petstore } from '../../src/index.ts'
import { AUTHORIZATION, KEY, send, start } from '../support.ts'
import { get, open, post, REX } from '../http/raw.ts'

const WAYS: Record<string, (petstore: Petstore) => typeof fetch> = {
  'over a socket': () => fetch,
  'in process': (petstore) => petstore.fetch,
}
const INJECTED = (status: number) =>
  `{"code":"injected_fault","message":"A test asked for this fault","status":${status}}`
const PETS = [{ name: 'Tom', categoryId: 2 }]
const TOM = '{"id":1,"name":"Tom","categoryId":2}'
const ADDED = REX.replace('{', '{"id":2,')
const CREATED = `201 - ${ADDED}`
const HUNG_UP = 'fetch failed: UND_ERR_SOCKET'
const cut = (body: string) => `${body.slice(0, body.length / 2)}terminated: UND_ERR_SOCKET`

const OPERATIONS = {
  listPets: ['GET', '/pets'],
  createPet: ['POST', '/pets'],
  getPet: ['GET', '/pets/1'],
  listOrders: ['GET', '/store/orders'],
} as const
type Operation = keyof typeof OPERATIONS
const NAMES: readonly Operation[] = ['listPets', 'createPet', 'getPet', 'listOrders']
const HEADERS = { authorization: AUTHORIZATION, 'content-type': 'application/json' }

const paths = ({ requests }: Petstore) => requests.map(({ path }) => path)

async function observe(response: Promise<Response>): Promise<string> {
  let seen = ''
  try {
    const { status, headers, body } = await response
    seen = `${status} ${headers.get('retry-after') ?? '-'} `
    for await (const chunk of body ?? []) seen += Buffer.from(chunk).toString()
    return seen
  } catch (error) {
    assert.ok(error instanceof TypeError && error.cause instanceof Error && 'code' in error.cause)
    return `${seen}${error.message}: ${String(error.cause.code)}`
  }
}

const EFFECTS: readonly [fault: Omit<Fault, 'operation'>, ofACreate: string, ofAList?: string][] = [
  ...[400, 500, 599].map((status): [Fault | object, string] => [{ status }, `${status} - ${INJECTED(status)}`]),
  [{ status: 503, retryAfter: 7 }, `503 7 ${INJECTED(503)}`],
  [{ status: 429, retryAfter: 0 }, `429 0 ${INJECTED(429)}`],
  [{ status: 418, delay: 1, hangUp: false }, `418 - ${INJECTED(418)}`],
  [{ delay: 1 }, CREATED, `200 - [${TOM},${ADDED}]`],
  [{ delay: 0 }, CREATED, `200 - [${TOM},${ADDED}]`],
  [{ hangUp: true }, HUNG_UP],
  [{ hangUp: true, delay: 1 }, HUNG_UP],
  [{ body: 'cut' }, `500 - ${cut(INJECTED(500))}`, `200 - ${cut(`[${TOM}]`)}`],
  [{ body: 'cut', delay: 1 }, `500 - ${cut(INJECTED(500))}`, `200 - ${cut(`[${TOM}]`)}`],
  [{ body: 'cut', status: 404 }, `404 - ${cut(INJECTED(404))}`],
  [{ body: 'cut', status: 503, retryAfter: 86_400, delay: 1 }, `503 86400 ${cut(INJECTED(503))}`],
  [{ body: 'garbled', delay: [0, 1] }, '200 - A test asked for this fault'],
  [{ body: 'garbled', status: 503, retryAfter: 2 }, '503 2 A test asked for this fault'],
]

for (const [way, fetchOf] of Object.entries(WAYS)) {
  describe(`faults, ${way},`, () => {
    function meet(petstore: Petstore, operation: Operation, more: RequestInit = {}): Promise<Response> {
      const [method, path] = OPERATIONS[operation]
      const init = { method, headers: HEADERS, ...(method === 'POST' && { body: REX }), ...more }
      return fetchOf(petstore)(petstore.url + path, init)
    }

    for (const [fault, ofACreate, ofAList = ofACreate] of EFFECTS) {
      test(`${JSON.stringify(fault)} is what the client meets in place of the operation`, async (t) => {
        const petstore = await start(t, { pets: PETS })
        petstore.inject({ operation: '*', times: 2, ...fault })
        assert.equal(await observe(meet(petstore, 'createPet')), ofACreate)
        assert.equal(await observe(meet(petstore, 'listPets')), ofAList)
        assert.deepEqual(petstore.pendingFaults, [])
        assert.equal(petstore.pets.length, ofACreate === CREATED ? 2 : 1)
        assert.match(await observe(meet(petstore, 'createPet')), /^201 /)
      })
    }

    test('the first that fits is met, `times` times, whatever else is pending', async (t) => {
      const petstore = await start(t, { pets: PETS })
      const faults: Fault[] = [
        { operation: 'getPet', status: 404 },
        { operation: 'listPets', status: 500, times: 2 },
        { operation: '*', status: 501 },
        { operation: 'listPets', hangUp: true },
        { operation: 'createPet', delay: 1 },
        { operation: 'createPet', status: 507 },
      ]
      for (const fault of faults) petstore.inject(fault)
      const pending = faults.map((fault) => ({ times: 1, ...fault }))
      assert.deepEqual(petstore.pendingFaults, pending)
      const seen = (operation: Operation) => observe(meet(petstore, operation))
      assert.equal(await seen('listPets'), `500 - ${INJECTED(500)}`)
      assert.deepEqual(petstore.pendingFaults[1], { operation: 'listPets', status: 500, times: 1 })
      assert.equal(await seen('listPets'), `500 - ${INJECTED(500)}`)
      assert.equal(await seen('createPet'), `501 - ${INJECTED(501)}`)
      assert.equal(await seen('listPets'), HUNG_UP)
      assert.equal(await seen('listPets'), `200 - [${TOM}]`)
      assert.equal(await seen('createPet'), CREATED)
      assert.deepEqual(petstore.pendingFaults, [pending[0], pending[5]])
    })

    test('one for an operation is for no other, and one for * is for each', async (t) => {
      const petstore = await start(t, { pets: PETS })
      for (const operation of NAMES) {
        petstore.inject({ operation, status: 599 })
        for (const other of NAMES) {
          assert.equal((await meet(petstore, other)).status === 599, other === operation)
        }
        petstore.inject({ operation: '*', status: 598 })
        assert.equal((await meet(petstore, operation)).status, 598)
      }
    })

    test('`after` lets requests pass, `times: always` goes on until it is cleared, `petId` is one pet', async (t) => {
      const petstore = await start(t, { pets: [...PETS, ...PETS] })
      const list = async () => (await meet(petstore, 'listPets')).status
      petstore.inject({ operation: 'getPet', petId: 2, status: 501 })
      petstore.inject({ operation: 'listPets', after: 2, times: 'always', status: 503 })
      petstore.inject({ operation: 'listPets', status: 502, times: undefined, delay: undefined })
      assert.deepEqual([await list(), await list(), await list(), await list()], [502, 200, 503, 503])
      for (const [path, status] of Object.entries({ 1: 200, 2: 501, 3: 404 })) {
        assert.equal((await fetchOf(petstore)(`${petstore.url}/pets/${path}`, petstore)).status, status)
      }
      assert.deepEqual(petstore.pendingFaults, [{ operation: 'listPets', after: 2, times: 'always', status: 503 }])
      petstore.clearFaults()
      assert.equal(await list(), 200)
    })

    test('`rate` fails a part of the requests, the same ones with the same seed', async (t) => {
      const petstore = await start(t)
      const failed = async (seed?: number) => {
        petstore.clearFaults()
        petstore.inject({ operation: 'listPets', rate: 0.2, status: 503, seed })
        const statuses: number[] = []
        while (statuses.length < 50) statuses.push((await meet(petstore, 'listPets')).status)
        return statuses.flatMap((status, at) => (status === 503 ? [at] : []))
      }
      const first = await failed()
      assert.ok(first.length > 3 && first.length < 20, first.join())
      assert.deepEqual([await failed(), await failed(0)], [first, first])
      assert.notDeepEqual(await failed(7), first)
    })

    test('the option `delay` holds up every operation, faults too, and nothing else', async (t) => {
      const petstore = await start(t, { delay: 600_000 })
      petstore.inject({ operation: 'listPets', status: 503 })
      petstore.inject({ operation: 'createPet', hangUp: true })
      const delayed = NAMES.map((operation) => observe(meet(petstore, operation)))
      while (petstore.pendingFaults.length > 0) await turn()
      for (const path of ['/', '/openapi.json', '/livez', '/v1/cats'])
        await fetchOf(petstore)(new URL(path, petstore.url))
      assert.deepEqual(paths(petstore), ['/', '/openapi.json', '/v1/cats'])
      petstore.clearFaults()
      assert.match((await Promise.all(delayed)).join(), /^503 .*,fetch failed: \w+,404 .*,501 /)
    })

    test('of many requests at once `times` meet one', async (t) => {
      const petstore = await start(t)
      petstore.inject({ operation: 'createPet', times: 7, status: 503, delay: 1 })
      const creates = Array.from({ length: 20 }, () => meet(petstore, 'createPet'))
      const statuses = (await Promise.all(creates)).map(({ status }) => status)
      assert.equal(statuses.filter((status) => status === 503).length, 7)
      assert.equal(petstore.pets.at(-1)?.id, 13)
    })

    test('a request that reaches no operation meets none', async (t) => {
      const petstore = await start(t, { maxBody: 40 })
      petstore.inject({ operation: '*', hangUp: true })
      for (const [line, more] of Object.entries({
        '401 GET /v1/pets': { authorization: 'Bearer wrong-key' },
        '415 POST /v1/pets': { 'content-type': 'text/plain' },
        '415 POST /v1/pets ': { 'content-encoding': 'gzip' },
        ...{ '404 GET /v1/cats': {}, '404 GET /v1/pets/': {}, '405 PUT /v1/pets': {}, '204 OPTIONS /v1/pets': {} },
        ...{ '200 GET /': {}, '200 GET /openapi.json': {}, '200 GET /livez': {}, '200 HEAD /readyz': {} },
      })) {
        const [status, method = '', path = ''] = line.split(' ')
        const init = { method, headers: { ...HEADERS, ...more }, ...(/^P/.test(method) && { body: REX }) }
        assert.equal((await fetchOf(petstore)(new URL(path, petstore.url), init)).status, Number(status), line)
      }
      for (const body of ['x'.repeat(41), new Blob(['x'.repeat(41)]).stream()]) {
        assert.equal((await meet(petstore, 'createPet', { body, duplex: 'half' })).status, 413)
      }
      assert.equal(petstore.pendingFaults.length, 1)
    })

    for (const end of ['close', 'reset', 'clearFaults'] as const) {
      test(`${end}() hangs up what is delayed; until then others are answered`, async (t) => {
        const petstore = await start(t)
        petstore.inject({ operation: 'createPet', delay: 600_000, times: 2 })
        petstore.inject({ operation: 'listPets', delay: 600_000, status: 500, times: 2 })
        const operations = ['createPet', 'listPets', 'listPets'] as const
        const delayed = operations.map((one) => observe(meet(petstore, one)))
        while (petstore.pendingFaults.length > 1 || petstore.pendingFaults[0]?.times !== 1) await turn()
        assert.equal(await observe(meet(petstore, 'listPets')), '200 - []')
        await petstore[end]()
        for (const seen of await Promise.all(delayed)) assert.match(seen, /^fetch failed: (UND_ERR_SOCKET|ECONNRESET)$/)
        assert.deepEqual([petstore.pendingFaults, petstore.pets], [[], []])
        if (end === 'reset') assert.deepEqual(petstore.requests, []) // nor what was under way
        petstore.inject({ operation: 'listPets', delay: 1 })
        if (end !== 'close') assert.equal(await observe(meet(petstore, 'listPets')), '200 - []')
      })
    }

    test('one announces the whole length; it answers HEAD with its status, that length and no body', async (t) => {
      const petstore = await start(t)
      for (const fault of [{ status: 503 }, { status: 503, body: 'cut' }, { body: 'cut' }] as const) {
        petstore.inject({ operation: 'listPets', ...fault, times: 2 })
        const [status, length] = 'status' in fault ? [503, INJECTED(503).length] : [200, 2]
        for (const method of ['GET', 'HEAD']) {
          const response = await meet(petstore, 'listPets', { method })
          assert.deepEqual([response.status, response.headers.get('content-length')], [status, `${length}`])
          if (method === 'HEAD') assert.equal(await response.text(), '')
        }
      }
    })
  })
}

for (const fault of [
  { hangUp: true },
  { hangUp: true, delay: 1 },
  { body: 'cut' },
  { body: 'cut', status: 503 },
] as const) {
  test(`${JSON.stringify(fault)} ends the connection: what is pipelined behind it reaches no operation`, async (t) => {
    const petstore = await start(t)
    for (const behind of [get(), post()]) {
      petstore.inject({ operation: 'listPets', ...fault })
      const connection = await open(t, petstore, get() + behind + behind)
      assert.doesNotMatch(await connection.rest(), /^HTTP.*HTTP/s)
      connection.socket.destroy()
    }
    await send(petstore, 'GET', '/v1/pets/1')
    const operations = petstore.requests.map(({ operation }) => operation)
    assert.deepEqual(operations, ['listPets', 'listPets', 'getPet'])
  })
}

test('an abort in process rejects at once during a delay', async () => {
  const petstore = createPetstore({ apiKeys: [KEY] })
  petstore.inject({ operation: '*', delay: 600_000 })
  const controller = new AbortController()
  const delayed = petstore.fetch(`${petstore.url}/pets`, { headers: HEADERS, signal: controller.signal })
  while (petstore.pendingFaults.length > 0) await turn()
  controller.abort()
  await assert.rejects(delayed, { name: 'AbortError' })
})
