// The order of the checks and of the requests of a connection, and answers before the body's end.
import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { test } from 'node:test'
import { send, start, temporaryFolder } from '../support.ts'
import { assertNext, BEARER, CHUNKED, chunked, get, HOST, open, post, request, REX } from './raw.ts'

const MAX = 65_536
const TEXT = 'Content-Type: text/plain'
const LARGE = `Content-Length: ${MAX + 1}`

// Each fails its check and all that come after it. The body never comes.
const CHECKS: readonly [string, string, readonly string[], number | string][] = [
  ['HTTP before the key', 'POST /v1/none', [TEXT, LARGE], '400 bad_request'],
  ['the key before the path', 'POST /v1/none', [HOST, TEXT, LARGE], '401 unauthorized'],
  ['the key before the method', 'PUT /v1/pets', [HOST, TEXT, LARGE], '401 unauthorized'],
  ['the path before the method', 'PUT /v1/none', [HOST, BEARER, TEXT, LARGE], '404 not_found'],
  [
    'the path, without a key outside the base path',
    'PUT /none',
    [HOST, TEXT, LARGE],
    '404 not_found',
  ],
  ['OPTIONS without a key', 'OPTIONS /v1/pets', [HOST, TEXT, LARGE], 204],
  ['the path of OPTIONS without a key', 'OPTIONS /v1/none', [HOST, TEXT, LARGE], '404 not_found'],
  [
    'the method before the type',
    'PUT /v1/pets',
    [HOST, BEARER, TEXT, LARGE],
    '405 method_not_allowed',
  ],
  [
    'the type before the size',
    'POST /v1/pets',
    [HOST, BEARER, TEXT, LARGE],
    '415 unsupported_media_type',
  ],
  [
    'the type of chunks',
    'POST /v1/pets',
    [HOST, BEARER, TEXT, CHUNKED],
    '415 unsupported_media_type',
  ],
  ['the size before the body', 'POST /v1/pets', [HOST, BEARER, LARGE], '413 content_too_large'],
]
for (const [what, target, headers, expected] of CHECKS) {
  test(`it checks ${what}, and does not wait for the body`, async (t) => {
    await assertNext(await open(t, await start(t), request(target, headers)), expected)
  })
}

test('fields are checked before the room in the store, and that before its disk', async (t) => {
  const folder = temporaryFolder(t)
  const petstore = await start(t, { snapshot: `${folder}/pets.json`, maxStore: 300 })
  rmSync(folder, { recursive: true })
  const name = 'x'.repeat(300)
  const bodies = ['{', `{"name":"${name}"}`, `{"name":"${name}","categoryId":1}`, REX]
  const connection = await open(t, petstore, bodies.map((body) => post(body)).join(''))
  const expected = ['400 bad_request', '400 invalid_pet', '507 store_full', '503 storage_failed']
  await assertNext(connection, ...expected)
})

const UPLOAD = 'x'.repeat(4_000_000)
const LENGTH = `Content-Length: ${UPLOAD.length}`
const UPLOADS: readonly [what: string, request: string, expected: number | string][] = [
  ['without a key', request('POST /v1/pets', [HOST, LENGTH], UPLOAD), '401 unauthorized'],
  ['of text', post(UPLOAD, TEXT), '415 unsupported_media_type'],
  ['by length', post(UPLOAD), '413 content_too_large'],
  [
    'in chunks',
    request('POST /v1/pets', [HOST, BEARER, CHUNKED], chunked(UPLOAD)),
    '413 content_too_large',
  ],
  ['of a GET', get('/v1/pets', LENGTH) + UPLOAD, 200],
]
for (const [what, bytes, expected] of UPLOADS) {
  test(`the rest of an upload ${what} is discarded, and its connection kept`, async (t) => {
    const connection = await open(t, await start(t), '')
    connection.socket.pause() // it sends all before it reads
    await connection.write(bytes + get())
    connection.socket.resume()
    const [early] = await assertNext(connection, expected, 200)
    assert.equal(early?.headers.connection, 'keep-alive')
  })
}

test('a body may have 64 KiB, and not a byte more', async (t) => {
  const petstore = await start(t)
  const connection = await open(t, petstore, '')
  for (const [size, expected] of [
    [MAX, 201],
    [MAX + 1, '413 content_too_large'],
  ] as const) {
    const body = REX.padEnd(size)
    const inChunks = request('POST /v1/pets', [HOST, BEARER, CHUNKED], chunked(body))
    await connection.write(post(body) + inChunks)
    await assertNext(connection, expected, expected)
  }
})

test('100 is sent before a body that waits for it; no other Expect is judged', async (t) => {
  const head = [HOST, BEARER, `Content-Length: ${REX.length}`, 'Expect: 100-continue']
  const connection = await open(t, await start(t), request('POST /v1/pets', head))
  await assertNext(connection, 100)
  await connection.write(REX + post(REX, 'Expect: miracles'))
  await assertNext(connection, 201, 201)
})

for (const kind of ['memory', 'a snapshot']) {
  test(`a GET right after its POST sees the pet, however slow, in ${kind}`, async (t) => {
    const snapshot = `${temporaryFolder(t)}/pets.json`
    const petstore = await start(t, kind === 'memory' ? {} : { snapshot })
    petstore.inject({ operation: 'createPet', delay: 20 })
    const connection = await open(t, petstore, get() + post() + get() + post() + get('/v1/pets/2'))
    const answers = await assertNext(connection, 200, 201, 200, 201, 200)
    const ids = answers.map(({ body }) => body.match(/(?<="id":)\d+/g))
    assert.deepEqual(ids, [null, ['1'], ['1'], ['2'], ['2']])
  })
}

test('a connection takes any number of requests at once', async (t) => {
  const connection = await open(t, await start(t), get().repeat(300))
  await assertNext(connection, ...Array<number>(300).fill(200))
})

test('a client that leaves at any moment harms nobody', async (t) => {
  const petstore = await start(t)
  for (const bytes of ['', 'GET', get(), post().slice(0, -9), `${get()}garbage\r\n\r\n`]) {
    const { socket } = await open(t, petstore, bytes)
    socket.resetAndDestroy()
  }
  assert.equal((await send(petstore, 'GET', '/v1/pets')).status, 200)
})
