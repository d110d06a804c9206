// The test controls over HTTP, and the same ones in process: one state, whichever way it is reached.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdirSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { describe, test, type TestContext } from 'node:test'
import type { PetstoreOptions } from '../../src/options.ts'
import { createPetstore, type Petstore, startPetstore } from '../../src/petstore.ts'
import { type Answer, assertError, AUTHORIZATION, folderOf, KEY, RawConnection, send, start } from '../support.ts'
import { LogReader, REX } from '../http/raw.ts'

/** A petstore, and a way to its test controls. */
async function startControls(t: TestContext, options: PetstoreOptions = {}) {
  const petstore = await start(t, { controlPort: 0, ...options })
  const control = { url: petstore.controlUrl ?? '' }
  const call = (method: string, path: string, body?: unknown): Promise<Answer> =>
    send(control, method, path, {
      headers: { authorization: '' },
      ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    })
  return { petstore, control, call }
}

const TOM = { name: 'Tom', categoryId: 2 }
const TWO = '[{"id":1,"name":"Tom","categoryId":2},{"id":2,"name":"Rex","categoryId":1}]'
const list = (petstore: Petstore) => send(petstore, 'GET', '/v1/pets')

describe('the test controls over HTTP', () => {
  test('need no key, stand at an address of their own, and are nowhere on the one of the API', async (t) => {
    const { petstore, call } = await startControls(t)
    assert.match(petstore.controlUrl ?? '', /^http:\/\/127\.0\.0\.1:\d+$/)
    assert.notEqual(new URL(petstore.controlUrl ?? '').port, new URL(petstore.url).port)
    for (const path of ['/pets', '/requests', '/faults']) assert.equal((await call('GET', path)).body, '[]')
    for (const path of ['/reset', '/pets', '/requests', '/faults']) {
      assertError(await send(petstore, 'GET', path), 404, 'not_found')
      assertError(await send(petstore, 'POST', path, { body: '[]' }), 404, 'not_found')
      if (path === '/pets') continue
      assertError(await send(petstore, 'GET', `/v1${path}`), 404, 'not_found')
      assertError(await send(petstore, 'GET', `/v1${path}`, { headers: { authorization: '' } }), 401, 'unauthorized')
    }
    for (const path of ['/', '/v1/pets', '/livez']) assertError(await call('GET', path), 404, 'not_found')
  })

  test('are not there unless asked for, and end with the petstore', async (t) => {
    assert.ok(!('controlUrl' in (await start(t))))
    const { petstore, call } = await startControls(t)
    await petstore.close()
    await assert.rejects(call('GET', '/pets'), { code: 'ECONNREFUSED' })
  })

  test('on a port that is in use, the one of the API among them, stop the start, which leaves nothing', async (t) => {
    const { petstore } = await startControls(t)
    const used = Number(new URL(petstore.controlUrl ?? '').port)
    const snapshot = `${folderOf(t)}/pets.json`
    await assert.rejects(startPetstore({ controlPort: used, snapshot }), { code: 'EADDRINUSE' })
    const free = createServer().listen(0, '127.0.0.1')
    await once(free, 'listening')
    const address = free.address()
    assert.ok(typeof address === 'object' && address !== null)
    await new Promise((resolve) => free.close(resolve))
    const same = { port: address.port, controlPort: address.port, snapshot }
    await assert.rejects(startPetstore(same), { code: 'EADDRINUSE' })
    await (await startPetstore({ port: address.port, snapshot })).close()
  })

  const methods: [path: string, allow: string][] = [
    ['/reset', 'OPTIONS, POST'],
    ['/pets', 'GET, HEAD, OPTIONS, POST'],
    ['/requests', 'DELETE, GET, HEAD, OPTIONS'],
    ['/faults', 'DELETE, GET, HEAD, OPTIONS, POST'],
  ]
  for (const [path, allow] of methods) {
    test(`${path} takes ${allow} and no other method`, async (t) => {
      const { call } = await startControls(t)
      for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']) {
        const answer = await call(method, path, method === 'POST' ? (path === '/faults' ? FAULT : []) : undefined)
        const isAllowed = allow.split(', ').includes(method)
        if (method === 'OPTIONS' || !isAllowed) assert.equal(answer.headers.allow, allow)
        if (isAllowed) assert.ok([200, 201, 204].includes(answer.status), `${method} ${answer.status}`)
        else if (method === 'HEAD') assert.equal(answer.status, 405)
        else assertError(answer, 405, 'method_not_allowed')
        if ([204, 405].includes(answer.status)) continue
        assert.equal(answer.headers['content-type'], 'application/json')
        assert.equal(answer.headers['cache-control'], 'no-store')
      }
    })
  }

  const refused: [method: string, path: string, body: string, status: number, code: string, message: RegExp][] = [
    ['POST', '/reset', '[', 400, 'bad_request', /^The body must be an array of NewPet: Unexpected end/],
    ['POST', '/reset', ' ', 400, 'bad_request', /^The body must be an array of NewPet: /],
    ['POST', '/reset', 'null', 400, 'invalid_pet', /^The body must be an array of NewPet: this is no array$/],
    [
      'POST',
      '/reset',
      '[{}]',
      400,
      'invalid_pet',
      /: in item 1, name is required and must be a string; categoryId is /,
    ],
    ['POST', '/pets', '', 400, 'bad_request', /^The body must be an array of NewPet: /],
    ['POST', '/pets', REX, 400, 'invalid_pet', /: this is no array$/],
    ['POST', '/pets', `[${REX},3]`, 400, 'invalid_pet', /: in item 2, a pet must be an object$/],
    [
      'POST',
      '/pets',
      `[${REX.replace('1', '9223372036854775808')}]`,
      400,
      'invalid_pet',
      /: in item 1, categoryId must/,
    ],
    [
      'POST',
      '/pets',
      `[${REX.replace('1', '1,"status":null')}]`,
      400,
      'invalid_pet',
      /: in item 1, status must be one of/,
    ],
    ['POST', '/faults', '', 400, 'bad_request', /^The body must be a fault: Unexpected end/],
    ['POST', '/faults', '\xff', 400, 'bad_request', /^The body must be a fault: it is not valid UTF-8$/],
  ]
  for (const [method, path, body, status, code, message] of refused) {
    test(`${method} ${path} with ${JSON.stringify(body)} is ${status} ${code}, and changes nothing`, async (t) => {
      const { control, petstore } = await startControls(t, { pets: [TOM] })
      const answer = await send(control, method, path, { body: Buffer.from(body, 'latin1') })
      assert.match(assertError(answer, status, code), message)
      assert.deepEqual(petstore.pets, [{ id: 1, ...TOM }])
      assert.deepEqual(petstore.pendingFaults, [])
    })
  }

  test('refuse what the API refuses: 404, 413 and 415', async (t) => {
    const { control, call } = await startControls(t, { maxBody: 10 })
    for (const path of ['/reset/', '/Pets', '/pets/1', '/%zz']) assertError(await call('GET', path), 404, 'not_found')
    const headers = { 'content-type': 'text/plain' }
    for (const path of ['/reset', '/pets', '/faults']) {
      assertError(await send(control, 'POST', path, { headers, body: '[]' }), 415, 'unsupported_media_type')
      const connection = new RawConnection(t, control)
      await connection.write(`POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Length: ${64 * 2 ** 20 + 1}\r\n\r\n`)
      assertError(await connection.read(), 413, 'content_too_large')
    }
    assert.equal((await call('POST', '/pets', `[${REX}]`)).status, 201) // more than maxBody, which is the API's
  })
})

describe('one state is reached over HTTP and in process:', () => {
  test('animals, exact over all of int64', async (t) => {
    const { petstore, call } = await startControls(t)
    const [lowest, highest] = [-(2n ** 63n), 2n ** 63n - 1n]
    const json = (at: number, id: bigint) => `{"id":${at},"name":"\\ud800","categoryId":${id}}`
    const added = await call('POST', '/pets', `[${json(7, lowest)},${json(7, highest)}]`)
    assert.deepEqual([added.status, added.body], [201, `[${json(1, lowest)},${json(2, highest)}]`])
    assert.deepEqual(
      petstore.pets,
      [lowest, highest].map((categoryId, at) => ({ id: at + 1, name: '\ud800', categoryId })),
    )
    await petstore.reset([{ name: '\ud800', categoryId: highest }])
    assert.deepEqual(await petstore.add({ name: '', categoryId: 2n ** 53n, status: 'sold' }, TOM), [
      { id: 2, name: '', categoryId: 2n ** 53n, status: 'sold' },
      { id: 3, ...TOM },
    ])
    const rest = '{"id":2,"name":"","categoryId":9007199254740992,"status":"sold"},{"id":3,"name":"Tom","categoryId":2}'
    assert.equal((await call('GET', '/pets')).body, `[${json(1, highest)},${rest}]`)
    assert.equal((await list(petstore)).body, `[${json(1, highest)},${rest}]`)
  })

  test('requests, of which those of the controls are none', async (t) => {
    const { petstore, call } = await startControls(t)
    await list(petstore)
    await petstore.fetch(`${petstore.url}/pets/1`, { headers: { authorization: AUTHORIZATION } })
    const answer = await call('GET', '/requests')
    assert.deepEqual(JSON.parse(answer.body), petstore.requests)
    assert.deepEqual(
      petstore.requests.map(({ operation }) => operation),
      ['listPets', 'getPet'],
    )
    assert.deepEqual(await call('DELETE', '/requests').then(({ status, body }) => [status, body]), [204, ''])
    assert.deepEqual(petstore.requests, [])
  })

  test('faults', async (t) => {
    const { petstore, call } = await startControls(t)
    const injected = await call('POST', '/faults', { operation: 'listPets', status: 503, retryAfter: 2 })
    const fault = { operation: 'listPets', status: 503, retryAfter: 2, times: 1 } as const
    assert.deepEqual([injected.status, JSON.parse(injected.body)], [201, fault])
    petstore.inject({ operation: '*', hangUp: true, times: 3 })
    assert.deepEqual(petstore.pendingFaults, [fault, { operation: '*', hangUp: true, times: 3 }])
    assert.deepEqual(JSON.parse((await call('GET', '/faults')).body), petstore.pendingFaults)
    assertError(await list(petstore), 503, 'injected_fault')
    assert.deepEqual(JSON.parse((await call('GET', '/faults')).body), [{ operation: '*', hangUp: true, times: 3 }])
    assert.equal((await call('DELETE', '/faults')).status, 204)
    assert.deepEqual(petstore.pendingFaults, [])
    assert.equal((await list(petstore)).status, 200)
  })

  test('DELETE /faults ends a delay that runs', { timeout: 60_000 }, async (t) => {
    const { petstore, call } = await startControls(t)
    petstore.inject({ operation: '*', delay: 600_000 })
    const delayed = assert.rejects(list(petstore), { code: 'ECONNRESET' })
    while (petstore.pendingFaults.length > 0) await new Promise(setImmediate)
    await call('DELETE', '/faults')
    await delayed
  })

  const resets: [body: unknown, pets: string][] = [
    [undefined, '[{"id":1,"name":"Tom","categoryId":2}]'],
    ['', '[{"id":1,"name":"Tom","categoryId":2}]'],
    [[], '[]'],
    [[TOM, { categoryId: 1, name: 'Rex', id: 9 }], TWO],
  ]
  for (const [body, pets] of resets) {
    test(`reset to ${JSON.stringify(body)}`, async (t) => {
      const { petstore, call } = await startControls(t, { pets: [TOM] })
      for (let times = 0; times < 2; times++) {
        await petstore.add(TOM, TOM)
        await list(petstore)
        petstore.inject({ operation: '*', status: 500 })
        const answer = await call('POST', '/reset', body)
        assert.deepEqual([answer.status, answer.body, answer.headers['content-type']], [204, '', undefined])
        assert.deepEqual([petstore.requests, petstore.pendingFaults], [[], []])
        assert.equal((await list(petstore)).body, pets)
      }
      const { length } = petstore.pets
      assert.equal((await petstore.add(TOM))[0]?.id, length + 1)
      await petstore.reset()
      assert.deepEqual(petstore.pets, [{ id: 1, ...TOM }])
    })
  }

  test('the store that is full: 507, and a RangeError; what came before is there, and nothing that came after', async (t) => {
    const { petstore, call } = await startControls(t, { maxStore: 100 })
    const long = { name: 'x'.repeat(100), categoryId: 1 }
    const message = 'Cannot add animal 2 of 3: the store has no room for it'
    assert.equal(assertError(await call('POST', '/pets', [TOM, long, TOM]), 507, 'store_full'), message)
    assert.deepEqual(petstore.pets, [{ id: 1, ...TOM }])
    await assert.rejects(petstore.add(TOM, long, TOM), { name: 'RangeError', message })
    assert.deepEqual(petstore.pets, [
      { id: 1, ...TOM },
      { id: 2, ...TOM },
    ])
    petstore.inject({ operation: '*', status: 500 })
    const full = 'Cannot reset to 2 animals: they do not fit into the store'
    assert.equal(assertError(await call('POST', '/reset', [long, TOM]), 507, 'store_full'), full)
    await assert.rejects(petstore.reset([long, TOM]), { name: 'RangeError', message: full })
    assert.deepEqual([petstore.pets.length, petstore.pendingFaults.length], [2, 1])
  })

  test('the snapshot, which a reset writes anew; 503 where it cannot be, and nothing is changed', async (t) => {
    const folder = folderOf(t)
    const kept = () => JSON.parse(readFileSync(`${folder}/pets/pets.json`, 'utf8')).pets
    mkdirSync(`${folder}/pets`)
    const logStream = new LogReader()
    const { petstore, call } = await startControls(t, {
      snapshot: `${folder}/pets/pets.json`,
      pets: [TOM],
      log: 'json',
      logStream,
    })
    await call('POST', '/pets', [TOM, TOM])
    assert.equal(kept().length, 3)
    await call('POST', '/reset', [{ name: 'Rex', categoryId: 1 }])
    assert.deepEqual(kept(), [{ id: 1, name: 'Rex', categoryId: 1 }])
    assert.equal((await call('POST', '/reset')).status, 204)
    assert.deepEqual(kept(), [{ id: 1, ...TOM }])
    petstore.inject({ operation: 'getPet', status: 500 })
    rmSync(`${folder}/pets`, { recursive: true })
    assertError(await call('POST', '/reset', []), 503, 'storage_failed')
    await assert.rejects(petstore.reset([]))
    assert.equal((await list(petstore)).body, '[{"id":1,"name":"Tom","categoryId":2}]')
    assert.equal(petstore.pendingFaults.length, 1)
    mkdirSync(`${folder}/pets`)
    assert.equal((await call('POST', '/reset', [TOM, TOM])).status, 204)
    assert.equal(kept().length, 2)
  })
})

const FAULT = { operation: 'listPets', status: 500 }
const OPERATIONS = 'must be one of listPets, createPet, getPet, listOrders, *'
const NONE = 'fault must have a status, a delay, hangUp or a body'
const KNOWN = 'known are operation, times, status, retryAfter, delay, hangUp, body'
const bad: [fault: unknown, name: 'TypeError' | 'RangeError', message: string][] = [
  [null, 'TypeError', 'fault null must be an object'],
  ['x', 'TypeError', "fault 'x' must be an object"],
  [[], 'TypeError', `operation is required and ${OPERATIONS}`],
  [{ status: 500 }, 'TypeError', `operation is required and ${OPERATIONS}`],
  [{ ...FAULT, operation: 1 }, 'TypeError', `operation 1 ${OPERATIONS}`],
  [{ ...FAULT, operation: 'livez' }, 'RangeError', `operation 'livez' ${OPERATIONS}`],
  [{ ...FAULT, operation: '' }, 'RangeError', `operation '' ${OPERATIONS}`],
  [{ ...FAULT, operation: null }, 'TypeError', `operation null ${OPERATIONS}`],
  [{ ...FAULT, code: 5 }, 'TypeError', `fault must not have 'code'; ${KNOWN}`],
  [{ ...FAULT, Status: 5 }, 'TypeError', `fault must not have 'Status'; ${KNOWN}`],
  [JSON.parse('{"__proto__":{}}'), 'TypeError', `fault must not have '__proto__'; ${KNOWN}`],
  [{ operation: '*' }, 'TypeError', NONE],
  [{ operation: '*', times: 2 }, 'TypeError', NONE],
  [{ operation: '*', hangUp: false }, 'TypeError', NONE],
  [{ operation: '*', status: '500' }, 'TypeError', "status '500' must be an integer from 400 to 599"],
  [{ operation: '*', status: null }, 'TypeError', 'status null must be an integer from 400 to 599'],
  [{ operation: '*', status: 399 }, 'RangeError', 'status 399 must be an integer from 400 to 599'],
  [{ operation: '*', status: 600 }, 'RangeError', 'status 600 must be an integer from 400 to 599'],
  [{ operation: '*', status: 500.5 }, 'RangeError', 'status 500.5 must be an integer from 400 to 599'],
  [{ ...FAULT, times: 0 }, 'RangeError', 'times 0 must be an integer from 1 to 1000000'],
  [{ ...FAULT, times: 1_000_001 }, 'RangeError', 'times 1000001 must be an integer from 1 to 1000000'],
  [{ ...FAULT, times: '1' }, 'TypeError', "times '1' must be an integer from 1 to 1000000"],
  [{ ...FAULT, retryAfter: 1 }, 'TypeError', 'retryAfter must be with status 429 or 503'],
  [{ operation: '*', delay: 1, retryAfter: 1 }, 'TypeError', 'retryAfter must be with status 429 or 503'],
  [{ ...FAULT, status: 503, retryAfter: -1 }, 'RangeError', 'retryAfter -1 must be an integer from 0 to 86400'],
  [{ ...FAULT, status: 503, retryAfter: 86_401 }, 'RangeError', 'retryAfter 86401 must be an integer from 0 to 86400'],
  [{ ...FAULT, status: 429, retryAfter: 'a' }, 'TypeError', "retryAfter 'a' must be an integer from 0 to 86400"],
  [{ ...FAULT, delay: -1 }, 'RangeError', 'delay -1 must be an integer from 0 to 600000'],
  [{ ...FAULT, delay: 600_001 }, 'RangeError', 'delay 600001 must be an integer from 0 to 600000'],
  [{ ...FAULT, delay: true }, 'TypeError', 'delay true must be an integer from 0 to 600000'],
  [{ operation: '*', hangUp: 1 }, 'TypeError', 'hangUp 1 must be true or false'],
  [{ ...FAULT, hangUp: true }, 'TypeError', 'hangUp must be without status and body: there is no answer'],
  [
    { operation: '*', hangUp: true, body: 'cut' },
    'TypeError',
    'hangUp must be without status and body: there is no answer',
  ],
  [{ ...FAULT, body: 'whole' }, 'RangeError', "body 'whole' must be one of cut"],
  [{ ...FAULT, body: true }, 'TypeError', 'body true must be one of cut'],
]

describe('a bad fault is refused, in process and over HTTP with the same message:', () => {
  for (const [fault, name, message] of bad) {
    test(`${JSON.stringify(fault)}: ${message}`, async (t) => {
      const { petstore, call } = await startControls(t)
      assert.throws(() => Reflect.apply(petstore.inject, undefined, [fault]), { name, message })
      assert.equal(assertError(await call('POST', '/faults', JSON.stringify(fault)), 400, 'bad_request'), message)
      assert.deepEqual(petstore.pendingFaults, [])
    })
  }

  test('the least and the most that every member may be are not', () => {
    const petstore = createPetstore({ apiKeys: [KEY] })
    for (const status of [400, 599]) petstore.inject({ operation: '*', status, times: 1_000_000, delay: 600_000 })
    for (const retryAfter of [0, 86_400])
      petstore.inject({ operation: '*', status: 429, retryAfter, times: 1, delay: 0 })
    assert.equal(petstore.pendingFaults.length, 4)
  })

  test('reset() and add() refuse what are no animals, and name what is wrong', async () => {
    const petstore = createPetstore()
    const message = 'newPets must be an array of NewPet: in item 1, a pet must be an object'
    for (const input of [null, 3, 'x', undefined]) {
      await assert.rejects(async () => Reflect.apply(petstore.add, undefined, [input]), { name: 'TypeError', message })
    }
    for (const input of [null, 3, 0, '', {}, false]) {
      await assert.rejects(async () => Reflect.apply(petstore.reset, undefined, [input]), {
        name: 'TypeError',
        message: 'newPets must be an array of NewPet: this is no array',
      })
    }
  })
})
