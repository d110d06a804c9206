// The decisions of docs/contract.md, as far as test/conformance/ does not check them. Malformed
// requests, connections and other CORS have files of their own in http/.
import assert from 'node:assert/strict'
import { mkdirSync, renameSync } from 'node:fs'
import { after, describe, test } from 'node:test'
import { startPetstore } from '../src/petstore/launch.ts'
import { MemoryStore } from '../src/pets/store.ts'
import type { NewPet, Petstore, StartOptions } from '../src/types.ts'
import { Client } from './conformance/client.ts'
import { checkTranscript, readTranscripts } from './conformance/transcript.ts'
import { ask, BEARER, chunk, CHUNKED, get, HOST, request } from './http/raw.ts'
import { type Answer, assertLast, assertNext, AUTHORIZATION, check } from './support.ts'
import { type Expected, folderOf, KEY, petsIn, start } from './support.ts'
import { startLogging, temporaryFile } from './support.ts'

const REX = { name: 'Rex', categoryId: 1, status: 'sold' } as const
const BODY = JSON.stringify(REX)

const list = (petstore: Petstore, expected: Expected): Promise<Answer> =>
  check(petstore, 'GET', '/v1/pets', expected)
const post = (petstore: Petstore, body: string, expected: Expected): Promise<Answer> =>
  check(petstore, 'POST', '/v1/pets', expected, { body })

const PETS = Array.from({ length: 101 }, (_, at): NewPet => {
  return { ...REX, status: at % 3 === 0 ? 'sold' : 'pending' }
})

const SERVERS: Record<string, StartOptions> = {
  default: {},
  'base-path': { basePath: '/shop/eu/v1' },
  'no-page': { page: false },
  gone: { getPetState: 'gone' },
  'gone-no-page': { getPetState: 'gone', page: false },
  keys: { apiKeys: [KEY, 'the-long-key-of-ann'] },
  cors: { cors: 'https://shop.example' },
  'cors-any': { cors: '*' },
}
for (const [name, options] of Object.entries(SERVERS)) {
  describe(`The rules of decisions/${name}.txt`, async () => {
    const { url, close } = await startPetstore({ apiKeys: [KEY], pets: PETS, ...options })
    after(() => close())
    const client = new Client({ url, key: KEY, create: true, isOwn: true })
    for (const rule of readTranscripts(new URL(`decisions/${name}.txt`, import.meta.url)))
      test(rule.name, () => checkTranscript(rule, client, 'Rex'))
  })
}

const KEYED = { authorization: AUTHORIZATION }
const LONG = { 'content-length': '65537' }
const BAD = { 'content-type': 'text/plain', ...LONG }
const GZIP = { ...KEYED, 'content-encoding': 'gzip', ...LONG }
type Check = [line: string, headers: Record<string, string>, expected: Expected]
const ORDER: Record<string, Check> = {
  'HTTP first': ['POST /v1/x', { host: 'a b', ...BAD }, '400 bad_request'],
  'Expect as a part of HTTP': ['POST /v1/x', { ...BAD, expect: 'x' }, '417 expectation_failed'],
  'the key before the path': ['POST /v1/x', BAD, '401 unauthorized'],
  'the path before the method': ['PUT /v1/x', { ...KEYED, ...BAD }, '404 not_found'],
  'the method before the type': ['PUT /v1/pets', { ...KEYED, ...BAD }, '405 method_not_allowed'],
  'the type before the size': ['POST /v1/pets', { ...KEYED, ...BAD }, '415 unsupported_media_type'],
  'the coding before the size': ['POST /v1/pets', GZIP, '415 unsupported_media_type'],
  'the size before the body': ['POST /v1/pets', { ...KEYED, ...LONG }, '413 content_too_large'],
  'no body where none is wanted': ['GET /v1/pets', { ...KEYED, ...BAD }, 200],
}
for (const [rule, [line, headers, expected]] of Object.entries(ORDER)) {
  test(`checks ${rule}, and neither sends 100 nor waits for the body`, async (t) => {
    const petstore = await start(t)
    for (const expect of [{}, { expect: '100-continue' }]) {
      const all = Object.entries({ host: 'h', ...expect, ...headers })
      const lines = all.map(([name, value]) => `${name}: ${value}`)
      await ask(t, petstore, request(`${line} HTTP/1.1`, lines), expected)
    }
  })
}

for (const target of ['/v1/pets', `/v1/pets?x=${'x'.repeat(400)}`]) {
  test(`answers 431 above 16 KiB of headers, with a target of ${target.length}`, async (t) => {
    const petstore = await start(t)
    const used = [HOST, BEARER, 'X: '].join('').replaceAll(': ', '').length
    const filled = (length: number) => get(target, `X: ${'x'.repeat(length - used)}`)
    const connection = await ask(t, petstore, filled(16_383) + filled(16_384), 200, 200)
    await connection.write(filled(16_385))
    await assertLast(connection, '431 headers_too_large')
  })
}

// cli.test.ts does so with Content-Length.
test('sends 100-continue for a good request, also for chunks and in any letter case', async (t) => {
  const petstore = await start(t, { maxBody: BODY.length })
  const lines = [HOST, BEARER, CHUNKED, 'expect: 100-Continue']
  const connection = await ask(t, petstore, request('POST /v1/pets HTTP/1.1', lines), 100)
  await connection.write(`${chunk(BODY)}0\r\n\r\n${get()}`)
  await assertNext(connection, 201, 200)
})

test('answers 507 after the id 999999999999999', async (t) => {
  const snapshot = temporaryFile(`[{"id":999999999999998,${BODY.slice(1)}]`)
  const petstore = await start(t, { snapshot })
  const { headers } = await post(petstore, BODY, 201)
  assert.equal(headers.location, '/v1/pets/999999999999999')
  await check(petstore, 'GET', headers.location, 200)
  await post(petstore, BODY, '507 store_full')
})

test('answers 503 while the disk fails, adds nothing, and goes on reading', async (t) => {
  const folder = `${folderOf()}/pets`
  mkdirSync(folder)
  const petstore = await start(t, { snapshot: `${folder}/pets.json`, maxStore: 500 })
  await post(petstore, BODY, 201)
  renameSync(folder, `${folder}-away`)
  await post(petstore, '{', '400 bad_request')
  await post(petstore, '{}', '400 invalid_pet')
  await post(petstore, `{"name":"${'x'.repeat(500)}","categoryId":1}`, '507 store_full')
  await post(petstore, BODY, '503 storage_failed')
  await check(petstore, 'GET', '/readyz', '503 storage_failed')
  await check(petstore, 'GET', '/livez', 200)
  assert.equal(petsIn((await list(petstore, 200)).body).length, 1)
  renameSync(`${folder}-away`, folder)
  await check(petstore, 'GET', '/readyz', 200)
  assert.equal((await post(petstore, BODY, 201)).headers.location, '/v1/pets/2')
  await petstore.close()
})

test('shows a bug on standard error if the log is off', async (t) => {
  const petstore = await start(t)
  const { mock } = t.mock.method(console, 'error', () => {})
  t.mock.method(MemoryStore.prototype, 'page', () => {
    throw new Error(`the secret of ${KEY}`)
  })
  await list(petstore, '500 internal_error')
  const [shown] = mock.calls[0]?.arguments ?? []
  assert.match(String(shown), /^petstore-server: Error: the secret of \[key\]\n +at /)
})

test('refuses a byte order mark before the JSON of a body by its name', async (t) => {
  const petstore = await start(t)
  const { body } = await post(petstore, `\ufeff${BODY}`, '400 bad_request')
  assert.match(body, /must be one JSON object: it must not begin with a byte order mark/)
})

for (const [when, delay] of Object.entries({ 'at once': 0, 'after a delay': 1 })) {
  test(`answers 500 if an operation throws ${when}, and tells only the log why`, async (t) => {
    const { petstore, logStream } = await startLogging(t, 'json', { delay })
    const bug = t.mock.method(MemoryStore.prototype, 'page', () => {
      throw new Error('the secret')
    })
    const { body } = await list(petstore, '500 internal_error')
    assert.doesNotMatch(body, /secret/)
    await logStream.until(/"level":"error","message":"Error: the secret\\n/)
    bug.mock.restore()
    await list(petstore, 200)
  })
}
