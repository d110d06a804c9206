// Faults: what a test asked to go wrong goes wrong, over a socket as in process, and nothing else does.
import assert from 'node:assert/strict'
import { createHook } from 'node:async_hooks'
import { describe, test, type TestContext } from 'node:test'
import { createPetstore, type Petstore } from '../../src/petstore.ts'
import type { Fault } from '../../src/testing/faults.ts'
import { AUTHORIZATION, KEY, RawConnection, send, start } from '../support.ts'
import { get, LogReader, post, REX } from '../http/raw.ts'

const WAYS: Record<string, (petstore: Petstore) => typeof fetch> = {
  'over a socket': () => fetch,
  'in process': (petstore) => petstore.fetch,
}
const WHOLE = (status: number) => `{"code":"injected_fault","message":"A test asked for this fault","status":${status}}`
const PETS = [{ name: 'Tom', categoryId: 2 }]
const TOM = '{"id":1,"name":"Tom","categoryId":2}'

const OPERATIONS = {
  listPets: ['GET', '/pets'],
  createPet: ['POST', '/pets'],
  getPet: ['GET', '/pets/1'],
  listOrders: ['GET', '/store/orders'],
} as const
type Operation = keyof typeof OPERATIONS
const NAMES: readonly Operation[] = ['listPets', 'createPet', 'getPet', 'listOrders']

/** Calls an operation. */
function call(petstore: Petstore, send: typeof fetch, operation: Operation, init: RequestInit = {}): Promise<Response> {
  const [method, path] = OPERATIONS[operation]
  const headers = { authorization: AUTHORIZATION, 'content-type': 'application/json' }
  return send(petstore.url + path, { method, headers, ...(method === 'POST' && { body: REX }), ...init })
}

/** Tells the timers that run, by where they were set in the petstore, from now on. */
function watchTimers(t: TestContext, folder = ''): () => Promise<string[]> {
  const timers = new Map<number, string>()
  const hook = createHook({
    init(id, type) {
      const where = type === 'Timeout' ? /\/src\/.*/.exec(new Error().stack ?? '') : null
      if (where !== null) timers.set(id, where[0])
    },
    destroy: (id) => timers.delete(id),
  }).enable()
  t.after(() => hook.disable())
  return async () => {
    await new Promise(setImmediate) // the hook is told of the end of a timer a little later
    return [...timers.values()].filter((where) => where.startsWith(`/src/${folder}`))
  }
}

/** What a client sees of an answer: status, Retry-After and content, or how it fails. */
async function observe(answer: Promise<Response>): Promise<string> {
  let seen = ''
  try {
    const response = await answer
    seen = `${response.status} ${response.headers.get('retry-after') ?? '-'} `
    return seen + (await response.text())
  } catch (error) {
    assert.ok(error instanceof TypeError && error.cause instanceof Error && 'code' in error.cause)
    return `${seen}${error.message}: ${String(error.cause.code)}`
  }
}

const CLOSED = 'UND_ERR_SOCKET'
const effects: [fault: Omit<Fault, 'operation'>, seen: string, ofAList?: string][] = [
  [{ status: 500 }, `500 - ${WHOLE(500)}`],
  [{ status: 503, retryAfter: 7 }, `503 7 ${WHOLE(503)}`],
  [{ status: 429, retryAfter: 0 }, `429 0 ${WHOLE(429)}`],
  [{ status: 418, delay: 1, hangUp: false }, `418 - ${WHOLE(418)}`],
  [{ hangUp: true }, `fetch failed: ${CLOSED}`],
  [{ hangUp: true, delay: 1 }, `fetch failed: ${CLOSED}`],
  [{ body: 'cut' }, `500 - terminated: ${CLOSED}`, `200 - terminated: ${CLOSED}`],
  [{ body: 'cut', delay: 1 }, `500 - terminated: ${CLOSED}`, `200 - terminated: ${CLOSED}`],
  [{ body: 'cut', status: 404 }, `404 - terminated: ${CLOSED}`],
  [{ body: 'cut', status: 503, retryAfter: 86_400, delay: 1 }, `503 86400 terminated: ${CLOSED}`],
]

for (const [way, fetchOf] of Object.entries(WAYS)) {
  describe(`faults, ${way},`, () => {
    for (const [fault, seen, ofAList = seen] of effects) {
      test(`${JSON.stringify(fault)} is what the client meets, and the store is not touched`, async (t) => {
        const petstore = await start(t, { pets: PETS })
        petstore.inject({ operation: '*', times: 2, ...fault })
        assert.equal(await observe(call(petstore, fetchOf(petstore), 'createPet')), seen)
        assert.equal(await observe(call(petstore, fetchOf(petstore), 'listPets')), ofAList)
        assert.deepEqual(petstore.pendingFaults, [])
        assert.deepEqual(petstore.pets, [{ id: 1, ...PETS[0] }])
        const created = await call(petstore, fetchOf(petstore), 'createPet')
        assert.equal(created.headers.get('location'), '/v1/pets/2')
        await created.text()
      })
    }

    test('a delay alone only delays', async (t) => {
      const petstore = await start(t, { pets: PETS })
      petstore.inject({ operation: 'createPet', delay: 50 })
      const started = performance.now()
      assert.equal(
        await observe(call(petstore, fetchOf(petstore), 'createPet')),
        `201 - ${REX.replace('{', '{"id":2,')}`,
      )
      assert.ok(performance.now() - started > 48)
      assert.equal(petstore.pets.length, 2)
    })

    test('the first that fits is met, `times` times, whatever else waits', async (t) => {
      const petstore = await start(t, { pets: PETS })
      const faults: Fault[] = [
        { operation: 'getPet', status: 404 },
        { operation: 'listPets', status: 500, times: 2 },
        { operation: '*', status: 501 },
        { operation: 'listPets', hangUp: true },
        { operation: 'createPet', status: 507 },
      ]
      for (const fault of faults) petstore.inject(fault)
      const list = () => observe(call(petstore, fetchOf(petstore), 'listPets'))
      assert.deepEqual(
        petstore.pendingFaults,
        faults.map((fault) => ({ ...fault, times: fault.times ?? 1 })),
      )
      assert.equal(await list(), `500 - ${WHOLE(500)}`)
      assert.deepEqual(petstore.pendingFaults[1], { operation: 'listPets', status: 500, times: 1 })
      assert.equal(await list(), `500 - ${WHOLE(500)}`)
      assert.equal(await observe(call(petstore, fetchOf(petstore), 'createPet')), `501 - ${WHOLE(501)}`)
      assert.equal(await list(), `fetch failed: ${CLOSED}`)
      assert.equal(await list(), `200 - [${TOM}]`)
      assert.deepEqual(
        petstore.pendingFaults.map(({ operation }) => operation),
        ['getPet', 'createPet'],
      )
    })

    for (const operation of NAMES) {
      test(`one for ${operation} is for no other operation, and one for * is for it`, async (t) => {
        const petstore = await start(t, { pets: PETS })
        petstore.inject({ operation, status: 599 })
        for (const other of NAMES) {
          const { status } = await call(petstore, fetchOf(petstore), other)
          assert.equal(status === 599, other === operation)
        }
        petstore.inject({ operation: '*', status: 598 })
        assert.equal((await call(petstore, fetchOf(petstore), operation)).status, 598)
      })
    }

    test('every request at once meets one, until they are gone', async (t) => {
      const petstore = await start(t)
      petstore.inject({ operation: 'createPet', times: 7, status: 503, delay: 5 })
      const creates = Array.from({ length: 20 }, () => call(petstore, fetchOf(petstore), 'createPet'))
      const statuses = (await Promise.all(creates)).map(({ status }) => status)
      assert.equal(statuses.filter((status) => status === 503).length, 7)
      assert.deepEqual(
        petstore.pets.map(({ id }) => id),
        Array.from({ length: 13 }, (_, at) => at + 1),
      )
    })

    const refused: [method: string, path: string, headers: Record<string, string>, status: number][] = [
      ['GET', '/v1/pets', { authorization: 'Bearer wrong-key' }, 401],
      ['GET', '/v1/cats', {}, 404],
      ['GET', '/v1/pets/', {}, 404],
      ['PUT', '/v1/pets', {}, 405],
      ['POST', '/v1/pets', { 'content-type': 'text/plain' }, 415],
      ['POST', '/v1/pets', { 'content-encoding': 'gzip' }, 415],
      ['OPTIONS', '/v1/pets', {}, 204],
      ['GET', '/', {}, 200],
      ['GET', '/livez', {}, 200],
      ['HEAD', '/readyz', {}, 200],
    ]
    test('a request that reaches no operation meets none', async (t) => {
      const petstore = await start(t, { maxBody: 40 })
      petstore.inject({ operation: '*', hangUp: true })
      const json = { authorization: AUTHORIZATION, 'content-type': 'application/json' }
      for (const [method, path, headers, status] of refused) {
        const init = { method, headers: { ...json, ...headers }, ...(/^P/.test(method) && { body: REX }) }
        assert.equal((await fetchOf(petstore)(new URL(path, petstore.url), init)).status, status, `${method} ${path}`)
      }
      for (const body of ['x'.repeat(41), new Blob(['x'.repeat(41)]).stream()]) {
        const answer = await call(petstore, fetchOf(petstore), 'createPet', { body, duplex: 'half' })
        assert.equal(answer.status, 413)
      }
      assert.equal(petstore.pendingFaults.length, 1)
    })

    for (const end of ['close', 'reset'] as const) {
      test(
        `${end}() hangs up what is delayed, and leaves nothing that holds the process`,
        { timeout: 60_000 },
        async (t) => {
          const timers = watchTimers(t)
          const petstore = await start(t, { log: 'json', logStream: new LogReader() })
          petstore.inject({ operation: 'createPet', delay: 600_000 })
          petstore.inject({ operation: 'listPets', times: 3, delay: 600_000, status: 500 })
          const waiting = () => petstore.pendingFaults.reduce((sum, { times = 1 }) => sum + times, 0)
          const delayed = (['createPet', 'listPets', 'listPets'] as const).map((operation) =>
            observe(call(petstore, fetchOf(petstore), operation)),
          )
          while (waiting() !== 1) await new Promise(setImmediate)
          await petstore[end]()
          for (const seen of await Promise.all(delayed))
            assert.match(seen, /^fetch failed: (UND_ERR_SOCKET|ECONNRESET)$/)
          assert.deepEqual(petstore.pendingFaults, [])
          assert.deepEqual(petstore.pets, [])
          await petstore.close()
          assert.deepEqual(await timers(), [])
        },
      )
    }
  })
}

test('a fault answers every status from 400 to 599 with an Error of it', async (t) => {
  const petstore = await start(t)
  for (let status = 400; status <= 599; status++) {
    petstore.inject({ operation: 'listPets', times: 2, status })
    const overSocket = await send(petstore, 'GET', '/v1/pets')
    const inProcess = await call(petstore, petstore.fetch, 'listPets')
    for (const seen of [overSocket.status, inProcess.status]) assert.equal(seen, status)
    for (const body of [overSocket.body, await inProcess.text()]) assert.equal(body, WHOLE(status))
    assert.equal(overSocket.headers['content-length'], inProcess.headers.get('content-length'))
  }
})

test('an answer that is cut has its whole length in its head, and the first half of its content', async (t) => {
  const petstore = await start(t, { pets: PETS })
  petstore.inject({ operation: 'getPet', body: 'cut', times: 2 })
  const connection = new RawConnection(t, petstore)
  await connection.write(get('/v1/pets/1'))
  const [head = '', content] = (await connection.rest()).split('\r\n\r\n')
  assert.match(head, /^HTTP\/1\.1 200 OK\r\n.*Content-Length: 36\r\n/s)
  assert.equal(content, TOM.slice(0, 18))
  const { headers, body } = await call(petstore, petstore.fetch, 'getPet')
  assert.equal(headers.get('content-length'), '36')
  const reader = body?.getReader()
  assert.equal(Buffer.from((await reader?.read())?.value ?? []).toString(), TOM.slice(0, 18))
  await assert.rejects(async () => reader?.read(), { name: 'TypeError', message: 'terminated' })
})

describe('faults that a HEAD request meets', () => {
  const HEAD = get().replace('GET', 'HEAD')
  for (const [fault, status] of [
    [{ status: 503 }, 503],
    [{ status: 503, body: 'cut' }, 503],
    [{ body: 'cut' }, 200],
  ] as const) {
    test(`${JSON.stringify(fault)} answers ${status} with a head alone, over a socket as in process`, async (t) => {
      const petstore = await start(t)
      petstore.inject({ operation: 'listPets', times: 2, ...fault })
      const connection = new RawConnection(t, petstore)
      await connection.write(HEAD)
      const answer = await connection.read(true)
      const response = await call(petstore, petstore.fetch, 'listPets', { method: 'HEAD' })
      assert.deepEqual([answer.status, response.status], [status, status])
      assert.equal(answer.headers['content-length'], response.headers.get('content-length'))
      assert.equal(await response.text(), '')
      if ('body' in fault) assert.equal(await connection.rest(), '')
    })
  }

  test('hangUp is no answer', async (t) => {
    const petstore = await start(t)
    petstore.inject({ operation: 'listPets', hangUp: true })
    const connection = new RawConnection(t, petstore)
    await connection.write(HEAD)
    assert.equal(await connection.rest(), '')
  })
})

describe('faults among pipelined requests', () => {
  test('are answered in their places, and what follows is answered too', async (t) => {
    const petstore = await start(t)
    petstore.inject({ operation: 'listPets', delay: 20, status: 500 })
    petstore.inject({ operation: 'createPet', status: 503 })
    const connection = new RawConnection(t, petstore)
    await connection.write(get() + post() + post() + get())
    for (const status of [500, 503, 201]) assert.equal((await connection.read()).status, status)
    assert.equal((await connection.read()).body, `[${REX.replace('{', '{"id":1,')}]`)
  })

  const endings: readonly Omit<Fault, 'operation'>[] = [{ hangUp: true }, { hangUp: true, delay: 5 }, { body: 'cut' }]
  for (const fault of endings) {
    for (const [what, behind] of [
      ['a GET', get()],
      ['a POST', post()],
    ]) {
      test(`${JSON.stringify(fault)} ends the connection: ${what} behind it never reaches its operation`, async (t) => {
        const petstore = await start(t, { limits: { linger: 0 } })
        petstore.inject({ operation: 'listPets', ...fault })
        petstore.inject({ operation: '*', status: 503 })
        const connection = new RawConnection(t, petstore)
        await connection.write(get() + behind + behind)
        assert.doesNotMatch(await connection.rest(), /^HTTP.*HTTP/s)
        connection.socket.destroy()
        for (let times = 0; times < 10; times++) assert.equal((await send(petstore, 'GET', '/')).status, 200)
        assert.equal(petstore.requests.length, 11)
        assert.equal(petstore.pendingFaults.length, 1)
        assert.deepEqual(petstore.pets, [])
      })
    }
  }
})

test('a delay may be longer than the time that a connection may stand still', async (t) => {
  const petstore = await start(t, { limits: { stallTimeout: 100, checkInterval: 10 } })
  petstore.inject({ operation: 'listPets', delay: 400 })
  assert.equal((await send(petstore, 'GET', '/v1/pets')).status, 200)
})

describe('an abort in process', () => {
  test('that was before the request reaches nothing', async () => {
    const petstore = createPetstore({ apiKeys: [KEY] })
    petstore.inject({ operation: '*', status: 500 })
    const reason = new Error('too late')
    const aborted = call(petstore, petstore.fetch, 'createPet', { signal: AbortSignal.abort(reason) })
    await assert.rejects(aborted, (error) => error === reason)
    assert.equal(petstore.pendingFaults.length, 1)
    assert.deepEqual(petstore.requests, [])
  })

  test('during a delay rejects at once, and leaves nothing that holds the process', async (t) => {
    const petstore = createPetstore({ apiKeys: [KEY] })
    t.after(() => petstore.close())
    const timers = watchTimers(t, 'testing/')
    petstore.inject({ operation: 'listPets', delay: 600_000 })
    const controller = new AbortController()
    const delayed = call(petstore, petstore.fetch, 'listPets', { signal: controller.signal })
    setImmediate(() => controller.abort())
    await assert.rejects(delayed, { name: 'AbortError' })
    assert.deepEqual(await timers(), [])
  })
})

test('faults are copies, on their way in and out', () => {
  const petstore = createPetstore()
  const fault: Fault = { operation: 'getPet', status: 500 }
  petstore.inject(fault)
  fault.status = 400
  for (const pending of petstore.pendingFaults) pending.operation = '*'
  petstore.pendingFaults.pop()
  assert.deepEqual(petstore.pendingFaults, [{ operation: 'getPet', status: 500, times: 1 }])
})
