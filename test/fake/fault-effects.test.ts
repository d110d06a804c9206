// Faults: how a request fails, and what is done nevertheless. faults.test.ts: which ones.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Fault, Petstore } from '../../src/types.ts'
import { KEY, RawConnection, send, start } from '../support.ts'

const TOM = '{"id":1,"name":"Tom","categoryId":7}'
const REX = '{"id":2,"name":"Rex","categoryId":7}'
const BODY = '{"name":"Rex","categoryId":7}'
const PETS = [{ name: 'Tom', categoryId: 7 }]
const ERROR = '{"code":"injected_fault","message":"A test asked for this fault","status":503}'
const LIST = { operation: 'listPets' } as const

const HEAD = `HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${KEY}\r\nContent-Length: `
const GET = `GET /v1/pets ${HEAD}0\r\n\r\n`
const POST = `POST /v1/pets ${HEAD}${BODY.length}\r\n\r\n${BODY}`
const CLOSING = 'Connection: close\r\nContent-Length'

/** The status and the body that arrive, as far as they do, before the connection ends. */
async function observe(t: TestContext, petstore: Petstore, request: string): Promise<string> {
  const connection = new RawConnection(t, petstore)
  let failure = 'end'
  connection.socket.on('error', ({ code }: NodeJS.ErrnoException) => (failure = `${code}`))
  await connection.write(request.replace('Content-Length', CLOSING))
  return outcomeOf(await connection.rest(), failure)
}

function outcomeOf(response: string, failure = ''): string {
  const [head = '', body = ''] = response.split('\r\n\r\n')
  const [, length = '0'] = /\r\nContent-Length: (\d+)/.exec(head) ?? []
  if (response === '') return failure
  const isCut = Buffer.byteLength(body) < Number(length)
  return `${head.slice(9, 12)} ${body}${isCut ? ` of ${length}` : ''}`
}

const half = (body: string): string => `${body.slice(0, body.length / 2)} of ${body.length}`

interface Effect {
  list: string // what a client sees of GET /pets
  create?: string // and of POST /pets, where that differs
  added: boolean // whether it added the pet
}

const OWN = { list: `200 [${TOM}]`, create: `201 ${REX}`, added: true }
const HALF = { list: `200 ${half(`[${TOM}]`)}`, create: `201 ${half(REX)}`, added: true }
const EFFECTS: [fault: Omit<Fault, 'operation'>, effect: Effect][] = [
  [{ delay: 1 }, OWN],
  [{ delay: 0 }, OWN],
  [{ delay: 1, done: true, hangUp: false }, OWN],
  [{ status: 503 }, { list: `503 ${ERROR}`, added: false }],
  [
    { status: 503, done: true, delay: 1 },
    { list: `503 ${ERROR}`, added: true },
  ],
  [
    { status: 599, code: '', message: 'é' },
    { list: '599 {"code":"","message":"é","status":599}', added: false },
  ],
  [
    { status: 200, body: '<p>' },
    { list: '200 <p>', added: false },
  ],
  [
    { status: 201, body: '', code: 'x' },
    { list: '201 ', added: false },
  ],
  [
    { status: 204, body: 'x' },
    { list: '204 ', added: false },
  ],
  [
    { status: 304, done: true },
    { list: '304 ', added: true },
  ],
  [{ hangUp: true }, { list: 'end', added: false }],
  [
    { hangUp: true, done: true, delay: 1 },
    { list: 'end', added: true },
  ],
  [{ hangUp: 'reset' }, { list: 'ECONNRESET', added: false }],
  [
    { hangUp: 'reset', done: true },
    { list: 'ECONNRESET', added: true },
  ],
  [{ hangUp: 'halfway' }, HALF],
  [{ hangUp: 'halfway', done: true, delay: 1 }, HALF],
  [
    { hangUp: 'halfway', status: 503 },
    { list: `503 ${half(ERROR)}`, added: false },
  ],
  [
    { hangUp: 'halfway', status: 503, done: true },
    { list: `503 ${half(ERROR)}`, added: true },
  ],
  [
    { hangUp: 'halfway', status: 200, body: 'abcde' },
    { list: '200 ab of 5', added: false },
  ],
  [
    { hangUp: 'halfway', status: 204 },
    { list: '204 ', added: false },
  ],
]

test('a fault delays, replaces or loses the response; done or not, the next is well', async (t) => {
  const petstore = await start(t, { pets: PETS })
  for (const [fault, { list, create = list, added }] of EFFECTS) {
    const label = JSON.stringify(fault)
    await petstore.reset()
    petstore.inject({ operation: '*', times: 2, ...fault })
    assert.equal(await observe(t, petstore, GET), list, label)
    assert.equal(await observe(t, petstore, POST), create, label)
    assert.equal(petstore.pets.length, added ? 2 : 1, label)
    assert.match(await observe(t, petstore, GET), /^200 .*\]$/, label)
  }
})

test('halfway counts bytes, and a character may break', async (t) => {
  const petstore = await start(t)
  petstore.inject({ ...LIST, status: 200, body: 'éé€€', hangUp: 'halfway' }) // 10 bytes
  assert.match(await observe(t, petstore, GET), /^200 éé\ufffd of 10$/)
})

test('stalled sends the head and half of the body; others are served meanwhile', async (t) => {
  const petstore = await start(t, { pets: PETS })
  for (const [fault, request, seen] of [
    [LIST, GET, HALF.list],
    [{ operation: 'createPet' }, POST, HALF.create],
    [{ operation: '*', status: 503 }, POST, `503 ${half(ERROR)}`],
  ] as const) {
    petstore.inject({ ...fault, hangUp: 'stalled' })
    const connection = new RawConnection(t, petstore)
    await connection.write(request)
    await petstore.waitForRequests(1, { timeout: 600_000 })
    const other = send(petstore, 'GET', '/v1/pets').then(({ status }) => status)
    assert.equal(await Promise.race([connection.closed, other]), 200)
    connection.socket.end()
    assert.equal(outcomeOf(await connection.rest()), seen)
    petstore.clearRequests()
  }
  assert.equal(petstore.pets.length, 2)
})

test('HEAD gets the status and the length of a fault, without its body', async (t) => {
  const petstore = await start(t, { pets: PETS })
  petstore.inject({ ...LIST, status: 503 })
  petstore.inject({ ...LIST, status: 204 })
  petstore.inject({ ...LIST, hangUp: 'halfway' })
  for (const [status, length] of [
    [503, `${ERROR.length}`],
    [204, undefined],
    [200, `${TOM.length + 2}`],
  ] as const) {
    const answer = await send(petstore, 'HEAD', '/v1/pets')
    assert.equal(answer.status, status)
    assert.equal(answer.headers['content-length'], length)
    assert.equal(answer.body, '')
  }
})

test('a fault sends its headers beside those of every answer', async (t) => {
  const petstore = await start(t)
  const headers = { 'Retry-After': '1', 'X-Odd': 'caf\xe9\tau lait', 'www-authenticate': '' }
  for (const [fault, type] of [
    [{ status: 429, headers }, 'application/json'],
    [{ status: 502, headers: { ...headers, 'CONTENT-type': 'text/html' }, body: '' }, 'text/html'],
    [{ status: 304, headers: { ...headers, 'Content-Type': 'text/html' } }, undefined],
  ] as const) {
    petstore.inject({ ...LIST, ...fault })
    const answer = await send(petstore, 'GET', '/v1/pets')
    for (const [name, value] of Object.entries(headers))
      assert.equal(answer.headers[name.toLowerCase()], value)
    assert.equal(answer.headers['content-type'], type)
    assert.equal(answer.headers['cache-control'], 'no-store')
    assert.equal(answer.headers['content-length'] === undefined, fault.status === 304)
  }
})

for (const end of ['clearFaults', 'reset', 'close'] as const) {
  test(`${end}() hangs up on delayed requests, and adds no pet for them`, async (t) => {
    const petstore = await start(t)
    petstore.inject({ operation: 'createPet', delay: 600_000, times: 2 })
    petstore.inject({ operation: 'listPets', delay: 600_000, status: 500 })
    const requests = [POST, POST, GET].map((request) => observe(t, petstore, request))
    while (petstore.pendingFaults.length > 0) await nextTurn()
    await petstore[end]()
    assert.deepEqual(await Promise.all(requests), ['end', 'end', 'end'])
    assert.deepEqual(petstore.pets, [])
    const seen = petstore.requests.map(({ status }) => status)
    assert.deepEqual(seen, end === 'reset' ? [] : [null, null, null])
  })
}

test('done: true adds the pet before the delay', async (t) => {
  const petstore = await start(t)
  petstore.inject({ operation: 'createPet', done: true, delay: 600_000 })
  const seen = observe(t, petstore, POST)
  while (petstore.pets.length === 0) await nextTurn()
  petstore.clearFaults()
  assert.equal(await seen, 'end')
})

test('a hang-up ends the connection: pipelined requests reach no operation', async (t) => {
  const petstore = await start(t)
  for (const hangUp of [true, 'reset', 'halfway', 'stalled'] as const) {
    petstore.inject({ ...LIST, hangUp })
    const connection = new RawConnection(t, petstore)
    await connection.write(GET + POST + POST)
    await petstore.waitForRequests(1, { operation: 'listPets', timeout: 600_000 })
    connection.socket.end()
    await connection.rest()
    await send(petstore, 'GET', '/v1/pets/1')
    assert.deepEqual(petstore.pets, [], `${hangUp}`)
    petstore.clearRequests()
  }
})
