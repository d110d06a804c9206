// Faults: the requests that a test chose fail as it asked, through either door; no others do.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { createPetstore, type Fault, type OperationId, type Petstore } from '../../src/index.ts'
import { get, open, post, REX } from '../http/raw.ts'
import { check, JSON_HEADERS, KEY, send, start } from '../support.ts'

const BOTH = ['over a socket', 'in process'] as const
type Door = (typeof BOTH)[number]

const INJECTED = (status: number) =>
  `{"code":"injected_fault","message":"A test asked for this fault","status":${status}}`
const PETS = [{ name: 'Tom', categoryId: 2 }]
const TOM = '{"id":1,"name":"Tom","categoryId":2}'
const ADDED = REX.replace('{', '{"id":2,')
const CREATED = `201 - ${ADDED}`
const HUNG_UP = 'fetch failed: UND_ERR_SOCKET'
const RESET = 'fetch failed: ECONNRESET'
const cut = (body: string) => `${body.slice(0, body.length / 2)}terminated: UND_ERR_SOCKET`

type Operation = OperationId | 'listOrders'
const OPERATIONS: Readonly<Record<Operation, readonly [method: string, path: string]>> = {
  listPets: ['GET', '/pets'],
  createPet: ['POST', '/pets'],
  getPet: ['GET', '/pets/1'],
  listOrders: ['GET', '/store/orders'],
}
const NAMES: readonly Operation[] = ['listPets', 'createPet', 'getPet', 'listOrders']

/** Injects a fault through the door, which over a socket is the control port. */
async function inject(petstore: Petstore, fault: Fault, door: Door): Promise<void> {
  if (door === 'in process') return void petstore.inject(fault)
  const body = JSON.stringify(fault)
  await check({ url: String(petstore.controlUrl) }, 'POST', '/faults', 201, { body })
}

function call(
  petstore: Petstore,
  operation: Operation,
  door: Door = 'in process',
  more: RequestInit = {},
): Promise<Response> {
  const [method, path] = OPERATIONS[operation]
  const init = { method, headers: JSON_HEADERS, ...(method === 'POST' && { body: REX }), ...more }
  return (door === 'in process' ? petstore.fetch : fetch)(petstore.url + path, init)
}

/** Status, Retry-After and body of a response, as far as they came, and the error if any. */
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

const LIST = { operation: 'listPets' } as const

const LISTED = `200 - [${TOM},${ADDED}]`
const GARBLED = 'A test asked for this fault'
const DOGS = '犬'.repeat(200) // three bytes each
const HALF_A_LIST = `200 - ${cut(`[${TOM}]`)}`
const HALF_OF_BOTH = `200 - ${cut(`[${TOM},${ADDED}]`)}`

const ANY = { operation: '*' } as const
const DONE = { ...ANY, done: true } as const
/** What the client of a create sees, and the client of a list if it sees something else. */
const EFFECTS: Readonly<Record<string, [fault: Fault, create: string, list?: string]>> = {
  'the greatest status, which has no name': [{ ...ANY, status: 599 }, `599 - ${INJECTED(599)}`],
  'a 429 with Retry-After: 0': [{ ...ANY, status: 429, retryAfter: 0 }, `429 0 ${INJECTED(429)}`],
  'a delay alone': [{ ...ANY, delay: 1 }, CREATED, LISTED],
  'a delay of nothing': [{ ...ANY, delay: 0 }, CREATED, LISTED],
  'a hang-up': [{ ...ANY, hangUp: true }, HUNG_UP],
  'a delayed hang-up': [{ ...ANY, hangUp: true, delay: 1 }, HUNG_UP],
  // Half of the real response to a list, and half of an Error for a create, which adds no pet.
  'a reset': [{ ...ANY, hangUp: 'reset' }, RESET],
  'a slow response': [{ ...ANY, body: 'slow', delay: 10 }, CREATED, LISTED],
  'a slow Error': [{ ...ANY, body: 'slow', delay: 10, status: 503 }, `503 - ${INJECTED(503)}`],
  'half a response': [{ ...ANY, body: 'cut' }, `500 - ${cut(INJECTED(500))}`, HALF_A_LIST],
  'half a delayed Error with Retry-After': [
    { ...ANY, body: 'cut', status: 503, retryAfter: 86_400, delay: 1 },
    `503 86400 ${cut(INJECTED(503))}`,
  ],
  'a garbled body': [{ ...ANY, body: 'garbled', delay: [0, 1] }, `200 - ${GARBLED}`],
  'a garbled Error': [{ ...ANY, body: 'garbled', status: 503, retryAfter: 2 }, `503 2 ${GARBLED}`],
  'an Error of any code and message': [
    { ...ANY, status: 429, code: '', message: 'Süß 🍬 "\n', headers: { 'Retry-After': 'soon' } },
    '429 soon {"code":"","message":"Süß 🍬 \\"\\n","status":429}',
  ],
  'a page of HTML': [
    { ...ANY, status: 502, body: 'garbled', message: '<h1>Bad Gateway</h1>' },
    '502 - <h1>Bad Gateway</h1>',
  ],
  // The operation is carried out first.
  'a hang-up with done': [{ ...DONE, hangUp: true }, HUNG_UP],
  'a status with done': [{ ...DONE, status: 503, retryAfter: 0 }, `503 0 ${INJECTED(503)}`],
  'a delay with done': [{ ...DONE, delay: 1 }, CREATED, LISTED],
  'half of it with done': [{ ...DONE, body: 'cut' }, `201 - ${cut(ADDED)}`, HALF_OF_BOTH],
  'garbled text with done': [{ ...DONE, body: 'garbled' }, `201 - ${GARBLED}`, `200 - ${GARBLED}`],
  'half an Error with done': [
    { ...DONE, body: 'cut', status: 500, message: DOGS },
    `500 - ${cut(INJECTED(500).replace(GARBLED, DOGS))}`,
  ],
}

for (const [name, [fault, create, list = create]] of Object.entries(EFFECTS)) {
  test(`a fault replaces the response by ${name}, through both doors`, async (t) => {
    for (const door of BOTH) {
      const petstore = await start(t, { pets: PETS, controlPort: 0 })
      await inject(petstore, { ...fault, times: 2 }, door)
      assert.equal(await observe(call(petstore, 'createPet', door)), create, door)
      assert.equal(await observe(call(petstore, 'listPets', door)), list, door)
      assert.deepEqual(petstore.pendingFaults, [])
      assert.equal(petstore.pets.length, fault.done || create === CREATED ? 2 : 1)
      assert.match(await observe(call(petstore, 'createPet', door)), /^201 /)
    }
  })
}

for (const door of BOTH) {
  test(`a stalled body sends half of it, and is left with the status null, ${door}`, async (t) => {
    const petstore = await start(t, { pets: PETS })
    petstore.inject({ ...LIST, body: 'stalled' })
    const abort = new AbortController()
    const { body } = await call(petstore, 'listPets', door, { signal: abort.signal })
    const reader = body?.getReader()
    const { value } = (await reader?.read()) ?? {}
    assert.equal(Buffer.from(value ?? []).toString(), `[${TOM}]`.slice(0, TOM.length / 2 + 1))
    const next = assert.rejects(reader?.read() ?? Promise.resolve(), { name: 'AbortError' })
    abort.abort()
    await next
    const [request] = await petstore.waitForRequests(1, { status: null })
    assert.deepEqual([request?.operation, request?.fault], ['listPets', true])
  })

  test(`a create that is not done adds no pet if its body stalls, ${door}`, async (t) => {
    const petstore = await start(t)
    petstore.inject({ operation: 'createPet', body: 'stalled' })
    const response = await call(petstore, 'createPet', door)
    assert.deepEqual([response.status, petstore.pets], [500, []])
  })

  for (const end of ['close', 'reset', 'clearFaults'] as const) {
    for (const body of ['slow', 'stalled'] as const) {
      test(`${end}() breaks a ${body} body off, ${door}`, async (t) => {
        const petstore = await start(t, { pets: PETS })
        petstore.inject({ ...LIST, body, ...(body === 'slow' && { delay: 600_000 }) })
        const response = await call(petstore, 'listPets', door)
        await petstore[end]()
        await assert.rejects(response.text(), { message: 'terminated' })
      })
    }
  }
}

test('the head of a slow body comes at once, and its body in ten pieces', async (t) => {
  const petstore = await start(t, { pets: PETS })
  petstore.inject({ ...LIST, body: 'slow', delay: 200 })
  const connection = await open(t, petstore, get())
  let pieces = 0
  connection.socket.on('data', () => pieces++)
  assert.match(await connection.read().then(({ body }) => body), /Tom/)
  assert.ok(pieces >= 3, `${pieces}`)
  assert.ok((petstore.requests[0]?.duration ?? 0) > 150)
})

test('slow bodies count in what clients make the server hold', async (t) => {
  const pets = Array.from({ length: 20 }, () => ({ name: 'x'.repeat(50_000), categoryId: 1 }))
  const petstore = await start(t, { pets }, { maxHeldBytes: 2.5 * 2 ** 20 })
  petstore.inject({ ...LIST, body: 'slow', delay: 600_000, times: 'always' })
  const call = () => fetch(`${petstore.url}/pets`, { headers: petstore.headers })
  const [first, second] = [await call(), await call()]
  await call().catch(() => {}) // one of them is reset
  const ends = [first, second].map((response) => response.text().catch(() => 'reset'))
  assert.equal(await Promise.race(ends), 'reset')
})

test('at most 1,000 faults may be pending, of 1 Mi characters of JSON', () => {
  const petstore = createPetstore()
  const refused = {
    code: 'invalid_option',
    message: /at most 1000 pending faults, of 1048576 char/,
  }
  const fault = { operation: 'getPet', hangUp: true } as const
  for (let count = 1; count < 1_000; count++) petstore.inject(fault)
  const last = petstore.inject(fault)
  assert.throws(() => petstore.inject(fault), refused)
  last.remove()
  petstore.inject(fault)
  petstore.clearFaults()
  const empty = { operation: 'getPet', status: 500, message: '', times: 1 } as const
  const rest = 2 ** 20 - JSON.stringify([empty]).length
  assert.throws(() => petstore.inject({ ...empty, message: 'x'.repeat(rest + 1) }), refused)
  petstore.inject({ ...empty, message: 'x'.repeat(rest) })
  assert.throws(() => petstore.inject(fault), refused)
})

test('inject() returns how often a fault applied, and can remove it', async () => {
  const petstore = createPetstore({ apiKeys: [KEY] })
  const always = petstore.inject({ ...LIST, status: 503, times: 'always' })
  const once = petstore.inject({ ...LIST, status: 502 })
  for (let times = 0; times < 2; times++) await call(petstore, 'listPets')
  assert.deepEqual([always.hits, once.hits], [2, 0])
  always.remove()
  assert.equal((await call(petstore, 'listPets')).status, 502)
  assert.deepEqual([always.hits, once.hits, petstore.pendingFaults], [2, 1, []])
  once.remove()
})

test('the headers of a fault are sent as they are, through both doors', async (t) => {
  for (const door of BOTH) {
    const petstore = await start(t, { controlPort: 0 })
    const headers = { 'RateLimit-Remaining': '0', 'x-\u0061': '', 'X-Odd': 'caf\xe9\tau lait' }
    await inject(petstore, { ...LIST, status: 429, code: 'slow_down', headers }, door)
    const { headers: received } = await call(petstore, 'listPets', door)
    for (const [name, value] of Object.entries(headers)) assert.equal(received.get(name), value)
  }
})

test('done: true adds the pet before the delay, and clearFaults() hangs up', async () => {
  const petstore = createPetstore({ apiKeys: [KEY] })
  petstore.inject({ operation: 'createPet', done: true, delay: 600_000 })
  const seen = observe(call(petstore, 'createPet'))
  while (petstore.pets.length === 0) await turn()
  petstore.clearFaults()
  assert.equal(await seen, HUNG_UP)
})

test('the first fault that fits applies, `times` times', async () => {
  const petstore = createPetstore({ apiKeys: [KEY], pets: PETS })
  const faults: Fault[] = [
    { operation: 'getPet', status: 404 },
    { operation: 'listPets', status: 500, times: 2 },
    { operation: '*', status: 599 },
    { operation: 'listPets', hangUp: true },
    { operation: 'createPet', delay: 1 },
    { operation: 'createPet', status: 507 },
  ]
  for (const fault of faults) petstore.inject(fault)
  const pending = faults.map((fault) => ({ times: 1, ...fault, hits: 0 }))
  assert.deepEqual(petstore.pendingFaults, pending)
  const seen = (operation: Operation) => observe(call(petstore, operation))
  assert.equal(await seen('listPets'), `500 - ${INJECTED(500)}`)
  assert.deepEqual(petstore.pendingFaults[1], { ...faults[1], times: 1, hits: 1 })
  assert.equal(await seen('listPets'), `500 - ${INJECTED(500)}`)
  assert.equal(await seen('listOrders'), `599 - ${INJECTED(599)}`)
  assert.equal(await seen('listPets'), HUNG_UP)
  assert.equal(await seen('listPets'), `200 - [${TOM}]`)
  assert.equal(await seen('createPet'), CREATED)
  assert.deepEqual(petstore.pendingFaults, [pending[0], pending[5]])
})

test('`after` lets requests pass, and `times: always` lasts until cleared', async () => {
  const petstore = createPetstore({ apiKeys: [KEY] })
  const list = async () => (await call(petstore, 'listPets')).status
  const lasting: Fault = { operation: 'listPets', after: 2, times: 'always', status: 503 }
  petstore.inject(lasting)
  petstore.inject({ operation: 'listPets', status: 502, times: undefined, delay: undefined })
  const statuses = [await list(), await list(), await list(), await list()]
  assert.deepEqual(statuses, [502, 200, 503, 503])
  assert.deepEqual(petstore.pendingFaults, [{ ...lasting, hits: 2 }])
  petstore.clearFaults()
  assert.equal(await list(), 200)
})

test('`petId` makes a fault apply to one pet', async () => {
  const petstore = createPetstore({ apiKeys: [KEY], pets: [...PETS, ...PETS] })
  petstore.inject({ operation: 'getPet', petId: 2, status: 501 })
  const statuses: number[] = []
  for (const id of [1, 3, 2, 2]) {
    statuses.push((await petstore.fetch(`${petstore.url}/pets/${id}`, petstore)).status)
  }
  assert.deepEqual(statuses, [200, 404, 501, 200])
})

test('`rate` fails a share of the requests, the same ones for the same seed', async () => {
  const petstore = createPetstore({ apiKeys: [KEY] })
  const failed = async (seed?: number) => {
    petstore.clearFaults()
    petstore.inject({ operation: 'listPets', rate: 0.2, status: 503, seed })
    const places: number[] = []
    for (let at = 0; at < 50; at++) {
      if ((await call(petstore, 'listPets')).status === 503) places.push(at)
    }
    return places
  }
  const first = await failed()
  assert.ok(first.length > 3 && first.length < 20, first.join())
  assert.deepEqual([await failed(), await failed(0)], [first, first])
  assert.notDeepEqual(await failed(7), first)
})

test('of many requests at once, `times` fail, and no warning is printed', async (t) => {
  const petstore = createPetstore({ apiKeys: [KEY] })
  const { mock } = t.mock.method(process, 'emitWarning') // of listeners that pile up
  petstore.inject({ operation: 'createPet', times: 7, status: 503, delay: 1 })
  const creates = Array.from({ length: 20 }, () => call(petstore, 'createPet'))
  const statuses = (await Promise.all(creates)).map(({ status }) => status)
  assert.equal(statuses.filter((status) => status === 503).length, 7)
  assert.equal(petstore.pets.at(-1)?.id, 13)
  petstore.inject({ operation: 'listPets', times: 20, delay: 1 })
  await Promise.all(Array.from({ length: 20 }, () => call(petstore, 'listPets')))
  assert.equal(mock.callCount(), 0)
})

test('the option `delay` delays every operation, faults too, and nothing else', async (t) => {
  const petstore = await start(t, { delay: 600_000 })
  petstore.inject({ operation: 'listPets', status: 503 })
  petstore.inject({ operation: 'createPet', hangUp: true })
  const delayed = NAMES.map((operation) => observe(call(petstore, operation, 'over a socket')))
  while (petstore.pendingFaults.length > 0) await turn()
  for (const path of ['/', '/openapi.json', '/livez', '/v1/cats'])
    await fetch(new URL(path, petstore.url))
  petstore.clearFaults()
  const seen = (await Promise.all(delayed)).join('\n')
  assert.match(seen, /^503 .*\nfetch failed.*\n404 .*\n501 .*$/)
})

test('a range as the option `delay` delays each request by a different time', async () => {
  const petstore = createPetstore({ apiKeys: [KEY], delay: [0, 1_000] })
  const finished: number[] = []
  const calls = [0, 1, 2, 3].map(async (at) => {
    await call(petstore, 'listPets')
    finished.push(at)
  })
  await Promise.all(calls)
  assert.deepEqual(finished, [3, 2, 1, 0]) // after 200, 240, 800 and 920 ms
})

type Unreached = [status: number, method: string, path: string, headers?: object, body?: string]
const REACH_NO_OPERATION: Readonly<Record<string, Unreached>> = {
  'an invalid key': [401, 'GET', '/v1/pets', { authorization: 'Bearer wrong-key' }],
  'a body that is not JSON': [415, 'POST', '/v1/pets', { 'content-type': 'text/plain' }],
  'a body that is too large': [413, 'POST', '/v1/pets', {}, 'x'.repeat(41)],
  'an unknown path': [404, 'GET', '/v1/cats'],
  'an unknown method': [405, 'PUT', '/v1/pets'],
  OPTIONS: [204, 'OPTIONS', '/v1/pets'],
  'the page': [200, 'GET', '/'],
  'a probe': [200, 'HEAD', '/readyz'],
}

test('a request that reaches no operation uses up no fault', async (t) => {
  const petstore = await start(t, { maxBody: 40 })
  petstore.inject({ operation: '*', hangUp: true })
  for (const [name, row] of Object.entries(REACH_NO_OPERATION)) {
    const [status, method, path, more, body = /^P/.test(method) ? REX : null] = row
    const init = { method, headers: { ...JSON_HEADERS, ...more }, body }
    assert.equal((await fetch(new URL(path, petstore.url), init)).status, status, name)
  }
  for (const door of BOTH) {
    const stream = { body: new Blob(['x'.repeat(41)]).stream(), duplex: 'half' } as const
    assert.equal((await call(petstore, 'createPet', door, stream)).status, 413)
  }
  assert.equal(petstore.pendingFaults.length, 1)
})

for (const end of ['close', 'reset', 'clearFaults'] as const) {
  for (const door of BOTH) {
    test(`${end}() hangs up on delayed requests, others are served, ${door}`, async (t) => {
      const petstore = await start(t)
      const list = () => observe(call(petstore, 'listPets', door))
      petstore.inject({ operation: 'createPet', delay: 600_000, times: 2 })
      petstore.inject({ operation: 'listPets', delay: 600_000, status: 500, times: 2 })
      const delayed = [observe(call(petstore, 'createPet', door)), list(), list()]
      while (petstore.pendingFaults.length > 1 || petstore.pendingFaults[0]?.times !== 1)
        await turn()
      assert.equal(await list(), '200 - []')
      await petstore[end]()
      for (const seen of await Promise.all(delayed))
        assert.match(seen, /^fetch failed: (UND_ERR_SOCKET|ECONNRESET)$/)
      assert.deepEqual(petstore.pets, [])
      assert.equal(petstore.pendingFaults.length, end === 'close' ? 1 : 0) // for verify()
      if (end === 'reset') assert.deepEqual(petstore.requests, []) // those in flight neither
      if (end !== 'close') assert.equal(await list(), '200 - []')
    })
  }
}

for (const door of BOTH) {
  test(`HEAD gets the status and the length of the whole fault, no body, ${door}`, async (t) => {
    const petstore = await start(t)
    const effects: [Fault, status: number, length: number][] = [
      [{ ...LIST, status: 503 }, 503, INJECTED(503).length],
      [{ ...LIST, status: 503, body: 'cut' }, 503, INJECTED(503).length],
      [{ ...LIST, body: 'cut' }, 200, '[]'.length],
    ]
    for (const [fault, status, length] of effects) {
      petstore.inject({ ...fault, times: 2 })
      for (const method of ['GET', 'HEAD']) {
        const response = await call(petstore, 'listPets', door, { method })
        assert.equal(response.status, status)
        assert.equal(response.headers.get('content-length'), `${length}`)
        if (method === 'HEAD') assert.equal(await response.text(), '')
      }
    }
  })
}

const ENDINGS: Readonly<Record<string, Fault>> = {
  'a hang-up': { ...LIST, hangUp: true },
  'half a response': { ...LIST, body: 'cut' },
}

for (const [name, fault] of Object.entries(ENDINGS)) {
  test(`${name} ends the connection: pipelined requests reach no operation`, async (t) => {
    const petstore = await start(t)
    for (const next of [get(), post()]) {
      petstore.inject(fault)
      const connection = await open(t, petstore, get() + next + next)
      assert.doesNotMatch(await connection.rest(), /^HTTP.*HTTP/s)
      connection.socket.destroy()
    }
    await send(petstore, 'GET', '/v1/pets/1')
    const operations = petstore.requests.flatMap(({ operation }) => operation ?? [])
    assert.deepEqual(operations, ['listPets', 'listPets', 'getPet'])
  })
}
