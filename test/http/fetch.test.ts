// The petstore called in process: as the global fetch would over a socket.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { createPetstore, type Petstore } from '../../src/petstore.ts'
import { AUTHORIZATION, KEY, start } from '../support.ts'
import { REX } from './raw.ts'

const BEARER = { authorization: AUTHORIZATION }
const JSON_TYPE = { ...BEARER, 'content-type': 'application/json' }
const PETS = Array.from({ length: 30 }, (_, at) => ({
  name: `pet-${at}`,
  categoryId: 2n ** 60n + BigInt(at),
  status: 'sold' as const,
}))

/** What a client reads of an answer, but for what belongs to the connection. */
async function read(response: Response): Promise<object> {
  const { status, redirected } = response
  const headers = Object.fromEntries(response.headers)
  for (const name of ['date', 'connection', 'keep-alive']) delete headers[name]
  return { status, redirected, headers, body: await response.text() }
}

/** A body that is read chunk by chunk, and tells how many chunks were, and whether it was cancelled. */
function streamOf(chunks: readonly (string | Uint8Array)[]) {
  const seen = { pulled: 0, cancelled: false }
  const encoder = new TextEncoder()
  const stream = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        const chunk = chunks[seen.pulled++]
        if (chunk === undefined) controller.close()
        else controller.enqueue(typeof chunk === 'string' ? encoder.encode(chunk) : chunk)
      },
      cancel() {
        seen.cancelled = true
      },
    },
    { highWaterMark: 0 },
  )
  return { stream, seen }
}

const table: [path: string, init: RequestInit, status: number][] = [
  ['/v1/pets', { headers: BEARER }, 200],
  ['/v1/pets?limit=2&status=sold', { headers: BEARER }, 200],
  ['/v1/pets?limit=100&after=29', { headers: BEARER }, 200],
  ['/v1/pets?limit=0&limit=1&status=', { headers: BEARER }, 400],
  ['/v1/p%65ts?limit=1&x=%ff', { headers: BEARER }, 200],
  ['/v1/pets?', { headers: { Authorization: `bEARER ${KEY}` } }, 200],
  ['/v1/pets', { method: 'head', headers: BEARER }, 200],
  ['/v1/pets', {}, 401],
  ['/v1/pets', { headers: { authorization: 'Bearer wrong-key' } }, 401],
  ['/v1/pets', { headers: { authorization: `Basic ${KEY}` } }, 401],
  ['/v1/pets', { method: 'HEAD' }, 401],
  ['/v1/cats', { headers: BEARER }, 404],
  ['/v1/pets/', { headers: BEARER }, 404],
  ['/v1//pets', { headers: BEARER }, 404],
  ['/v1/%zz', { headers: BEARER }, 404],
  ['/v1/pets/30', { headers: BEARER }, 200],
  ['/v1/pets/99', { headers: BEARER }, 404],
  ['/v1/pets/1', { method: 'HEAD', headers: BEARER }, 200],
  ['/v1/store/orders', { headers: BEARER }, 501],
  ['/v1/pets', { method: 'DELETE', headers: BEARER }, 405],
  ['/v1/pets/1', { method: 'PUT', headers: JSON_TYPE, body: REX }, 405],
  ['/v1/pets', { method: 'OPTIONS' }, 204],
  ['/v1/pets', { method: 'POST', headers: JSON_TYPE, body: REX }, 201],
  ['/v1/pets', { method: 'POST', headers: BEARER, body: REX }, 415],
  ['/v1/pets', { method: 'POST', headers: BEARER, body: new TextEncoder().encode(REX) }, 201],
  ['/v1/pets', { method: 'POST', headers: BEARER, body: new URLSearchParams({ name: 'Rex' }) }, 415],
  ['/v1/pets', { method: 'POST', headers: { ...JSON_TYPE, 'content-encoding': 'gzip' }, body: REX }, 415],
  ['/v1/pets', { method: 'POST', headers: JSON_TYPE, body: '{"name":1}' }, 400],
  ['/v1/pets', { method: 'POST', headers: JSON_TYPE, body: '{' }, 400],
  ['/v1/pets', { method: 'POST', headers: JSON_TYPE }, 400],
  ['/v1/pets', { method: 'POST', headers: JSON_TYPE, body: new Uint8Array([0x22, 0xff, 0x22]) }, 400],
  ['/v1/pets', { method: 'POST', headers: JSON_TYPE, body: 'x'.repeat(1_001) }, 413],
  ['/v1/pets', { method: 'POST', headers: JSON_TYPE, body: `{"name":"${'x'.repeat(900)}","categoryId":1}` }, 507],
  ['/', {}, 200],
  ['/livez', {}, 200],
  ['/readyz', { method: 'HEAD' }, 200],
  ['/openapi', {}, 404],
  ['/v1/pets/7', { headers: { ...BEARER, 'x-request-id': 'id-1' } }, 200],
  ['/v1/pets/7', { headers: { ...BEARER, 'x-request-id': 'not one' } }, 200],
  ['/v1/pets?limit=1', { headers: { ...BEARER, origin: 'https://shop.example' } }, 200],
  ['/v1/pets?limit=1', { headers: { ...BEARER, origin: 'https://other.example' } }, 200],
  [
    '/v1/pets',
    { method: 'OPTIONS', headers: { origin: 'https://shop.example', 'access-control-request-method': 'POST' } },
    204,
  ],
]

describe('a request in process is answered as over a socket:', () => {
  for (const [path, init, status] of table) {
    const { body: _, ...shown } = init
    test(`${path} ${JSON.stringify(shown)} is answered ${status}`, async (t) => {
      const options = { pets: PETS, maxBody: 1_000, maxStore: 2_700, cors: 'https://shop.example' }
      const [one, other] = [await start(t, options), await start(t, options)]
      const overSocket = await read(await fetch(new URL(path, one.url), init))
      assert.deepEqual(await read(await other.fetch(new URL(path, other.url), init)), overSocket)
      assert.ok('status' in overSocket && overSocket.status === status, JSON.stringify(overSocket))
      assert.deepEqual(one.pets, other.pets)
    })
  }

  for (const [getPet, status] of [
    ['gone', 410],
    ['deprecated', 200],
  ] as const) {
    test(`getPet is answered ${status} where it is ${getPet}`, async (t) => {
      const petstore = await start(t, { pets: PETS, getPet })
      const [overSocket, inProcess] = [fetch, petstore.fetch].map((send) =>
        send(`${petstore.url}/pets/1`, { headers: BEARER }),
      )
      assert.ok(overSocket && inProcess)
      assert.deepEqual(await read(await inProcess), await read(await overSocket))
      assert.equal((await inProcess).status, status)
    })
  }
})

describe('fetch in process', () => {
  test('takes a text, a URL, a Request, and a Request with an init', async () => {
    const petstore = createPetstore({ apiKeys: [KEY] })
    const url = `${petstore.url}/pets`
    const init = { method: 'POST', headers: JSON_TYPE, body: REX }
    for (const [at, [input, more]] of (
      [[url, init], [new URL(url), init], [new Request(url, init)], [new Request(url), init]] as const
    ).entries()) {
      const response = await petstore.fetch(input, more)
      assert.deepEqual([response.status, await response.json()], [201, { id: at + 1, name: 'Rex', categoryId: 1 }])
    }
  })

  test('does not mind the host, and takes no credentials from the URL', async () => {
    const petstore = createPetstore({ apiKeys: [KEY] })
    for (const origin of ['http://petstore.invalid', 'https://prod.example:8443', 'http://[::1]:1']) {
      assert.equal((await petstore.fetch(`${origin}/v1/pets#here`, { headers: BEARER })).status, 200)
    }
    for (const input of ['/v1/pets', 'http://user:pass@petstore.invalid/v1/pets', '']) {
      await assert.rejects(async () => petstore.fetch(input), { name: 'TypeError' })
    }
  })

  test('does not need a `this`, and gives Responses that are standard', async () => {
    const { fetch: inProcess, url } = createPetstore({ apiKeys: [KEY], pets: PETS })
    const response = await inProcess(`${url}/pets?limit=1`, { headers: BEARER })
    assert.ok(response instanceof Response && response.ok && response.body instanceof ReadableStream)
    const copy = response.clone()
    assert.deepEqual(await response.json(), JSON.parse(await copy.text()))
  })

  test('tells the status text and the URL, as over a socket', async (t) => {
    const petstore = await start(t, { cors: '*' })
    for (const path of ['/v1/pets', '/?a=b#c', '/nothing']) {
      const url = new URL(path, petstore.url)
      const [overSocket, inProcess] = [await fetch(url), await petstore.fetch(url)]
      assert.equal(inProcess.statusText, overSocket.statusText)
      assert.equal(inProcess.url, overSocket.url)
    }
  })

  test('marks the body of a Request as used, and takes it once', async () => {
    const petstore = createPetstore({ apiKeys: [KEY] })
    const request = new Request(`${petstore.url}/pets`, { method: 'POST', headers: JSON_TYPE, body: REX })
    assert.equal((await petstore.fetch(request)).status, 201)
    assert.ok(request.bodyUsed)
    await assert.rejects(petstore.fetch(request), { name: 'TypeError' })
    assert.equal(petstore.pets.length, 1)
  })

  /** Sends a body chunk by chunk. */
  function upload(petstore: Petstore, body: ReadableStream, init: RequestInit = {}): Promise<Response> {
    return petstore.fetch(`${petstore.url}/pets`, { method: 'POST', headers: JSON_TYPE, body, duplex: 'half', ...init })
  }

  test('reads a body that comes in chunks, across a character that is split', async () => {
    const petstore = createPetstore({ apiKeys: [KEY], maxBody: 28 })
    const bytes = new TextEncoder().encode('{"name":"ü","categoryId":12}')
    assert.equal(bytes.length, 29)
    const { stream, seen } = streamOf([bytes.subarray(0, 10), new Uint8Array(0), bytes.subarray(10, 28)])
    assert.equal((await upload(petstore, stream)).status, 400)
    assert.deepEqual(seen, { pulled: 4, cancelled: false })
    const roomy = createPetstore({ apiKeys: [KEY], maxBody: 29 })
    assert.equal((await upload(roomy, streamOf([bytes.subarray(0, 10), bytes.subarray(10)]).stream)).status, 201)
    assert.deepEqual(roomy.pets, [{ id: 1, name: 'ü', categoryId: 12 }])
  })

  test('does not read a body that is too large to its end, and cancels it', async () => {
    const petstore = createPetstore({ apiKeys: [KEY], maxBody: 10 })
    const { stream, seen } = streamOf(Array.from({ length: 1_000 }, () => 'xxxx'))
    const response = await upload(petstore, stream)
    assert.equal(response.status, 413)
    assert.deepEqual(await response.json(), {
      code: 'content_too_large',
      message: 'The body must be at most 10 bytes long',
      status: 413,
    })
    assert.deepEqual(seen, { pulled: 3, cancelled: true })
  })

  for (const [headers, status] of [
    [{}, 401],
    [{ ...BEARER, 'content-type': 'text/plain' }, 415],
    [{ ...JSON_TYPE, 'content-length': '99' }, 413],
  ] as const) {
    test(`does not read a body that is answered ${status} by its head, and cancels it`, async () => {
      const petstore = createPetstore({ apiKeys: [KEY], maxBody: 98 })
      const { stream, seen } = streamOf(['x'.repeat(99)])
      assert.equal((await upload(petstore, stream, { headers })).status, status)
      assert.deepEqual(seen, { pulled: 0, cancelled: true })
    })
  }

  test('rejects with the error of a body that breaks, and adds nothing', async () => {
    const petstore = createPetstore({ apiKeys: [KEY] })
    const body = new ReadableStream({ pull: (controller) => controller.error(new Error('no more')) })
    await assert.rejects(upload(petstore, body))
    assert.deepEqual(petstore.pets, [])
  })

  test('stops to read a body when it is aborted, and adds nothing', async () => {
    const petstore = createPetstore({ apiKeys: [KEY] })
    const controller = new AbortController()
    let cancelled: unknown
    const body = new ReadableStream({
      pull: () => setImmediate(() => controller.abort(new Error('enough'))) && new Promise(() => {}),
      cancel: (reason) => void (cancelled = reason),
    })
    await assert.rejects(upload(petstore, body, { signal: controller.signal }), { message: 'enough' })
    await new Promise(setImmediate)
    assert.ok(cancelled instanceof Error)
    assert.deepEqual(petstore.pets, [])
  })

  test('adds nothing of a body that was whole but for its end when it was aborted', async () => {
    const petstore = createPetstore({ apiKeys: [KEY] })
    const controller = new AbortController()
    const body = new ReadableStream({
      start: (stream) => stream.enqueue(new TextEncoder().encode('{"name":"Rex","categoryId":1}')),
      pull: () => setImmediate(() => controller.abort(new Error('enough'))) && new Promise(() => {}),
    })
    await assert.rejects(upload(petstore, body, { signal: controller.signal }), { message: 'enough' })
    await new Promise(setImmediate)
    assert.deepEqual(petstore.pets, [])
  })

  test('with the same seed and the same calls gives the same bytes', async () => {
    const [first, second] = [[], []].map(() => [] as unknown[])
    for (const seen of [first, second]) {
      const petstore = createPetstore({ apiKeys: [KEY], pets: PETS, maxStore: 2_700, cors: '*' })
      petstore.inject({ operation: 'listPets', body: 'cut' })
      for (const [path, { signal: _, ...init }] of table) {
        if (init.body instanceof ReadableStream) continue
        const response = await petstore.fetch(new URL(path, petstore.url), init)
        seen?.push([response.status, [...response.headers], await response.text().catch(String)])
      }
      seen?.push(
        petstore.pets,
        petstore.pendingFaults,
        petstore.requests.map(({ duration: _, ...rest }) => rest),
      )
    }
    assert.deepEqual(first, second)
  })

  test('goes on after close(), of which nobody needs to call it, and readyz tells', async () => {
    const petstore = createPetstore({ apiKeys: [KEY] })
    assert.deepEqual([await petstore.close(), await petstore.close()], [0, 0])
    await petstore[Symbol.asyncDispose]()
    const response = await petstore.fetch(new URL('/readyz', petstore.url))
    assert.match(await response.text(), /"not_ready".*503/)
    assert.equal((await upload(petstore, streamOf([REX]).stream)).status, 201)
  })

  test('answers 1,000 requests at once, each with its own', async () => {
    const petstore = createPetstore({ apiKeys: [KEY] })
    const answers = Array.from({ length: 1_000 }, async (_, categoryId) => {
      const response = await upload(petstore, new Blob([JSON.stringify({ name: '', categoryId })]).stream())
      assert.match(await response.text(), new RegExp(`^{"id":\\d+,"name":"","categoryId":${categoryId}}$`))
    })
    await Promise.all(answers)
    assert.equal(petstore.pets.length, 1_000)
  })
})
