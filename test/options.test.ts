// The options of startPetstore(): what each is by default, and what it refuses.
import assert from 'node:assert/strict'
import { existsSync, readdirSync } from 'node:fs'
import { test } from 'node:test'
import { inspect } from 'node:util'
import { startPetstore } from '../src/index.ts'
import type { StartOptions, Store } from '../src/types.ts'
import { run } from './process.ts'
import { KEY, send, start, temporaryFolder } from './support.ts'

const REX = { name: 'Rex', categoryId: 1 }
const DAY = 86_400_000

const STORE: Store = {
  list: async () => [],
  get: async () => undefined,
  add: async () => [],
  reset: async () => {},
  close: async () => {},
}

async function refuses(options: unknown, message: RegExp, code = 'invalid_option'): Promise<void> {
  const starting: Promise<AsyncDisposable> = Reflect.apply(startPetstore, undefined, [options])
  starting.then((petstore) => petstore[Symbol.asyncDispose]()).catch(() => {})
  await assert.rejects(starting, { name: 'TypeError', code, message }, inspect(options))
}

test('by default it is on a free port of loopback, under /v1, empty, with a key of its own', async () => {
  await using petstore = await startPetstore()
  await using other = await startPetstore({ port: undefined, apiKeys: undefined, cors: undefined })
  assert.match(petstore.url, /^http:\/\/127\.0\.0\.1:[1-9]\d*\/v1$/)
  assert.match(petstore.apiKey, /^[\w.~+/-]{16,256}=*$/)
  assert.notEqual(petstore.apiKey, other.apiKey)
  assert.equal(petstore.controlUrl, undefined)
  assert.deepEqual(await petstore.pets(), [])
  const headers = { ...petstore.headers, origin: 'http://a', connection: 'keep-alive' }
  const answer = await send(petstore, 'GET', '/v1/pets', { headers })
  assert.equal(answer.status, 200)
  assert.equal(answer.headers['access-control-allow-origin'], undefined)
  assert.equal(answer.headers['keep-alive'], 'timeout=75')
})

const FILL_THE_STORE = `
  const { getHeapStatistics } = require('node:v8')
  const { startPetstore } = require('./src/index.ts')
  const pet = { name: 'x'.repeat(2 ** 19), categoryId: 1 }
  const add = (petstore, count = 0) => petstore.add([pet]).then(
    () => add(petstore, count + 1),
    ({ code }) => [code, count * 2 ** 19 / getHeapStatistics().heap_size_limit],
  )
  startPetstore().then(async (petstore) => {
    const [code, share] = await add(petstore)
    console.error(code, share.toFixed(2))
    await petstore.close()
  })`

test('by default it logs nothing, and pets may take a quarter of the heap', async (t) => {
  const node = [process.execPath, '--max-old-space-size=64', '--import', 'tsx']
  const { stdout, stderr, status } = run(t, [...node, '--eval', FILL_THE_STORE])
  await status
  assert.match(stderr.text, /^store_full 0\.2[45]\n$/)
  assert.equal(stdout.text, '')
})

test('each option does what it says', async (t) => {
  const snapshot = `${temporaryFolder(t)}/pets.json`
  const options: StartOptions = { host: 'localhost', basePath: '', apiKeys: ['first-key', KEY] }
  const more: StartOptions = { pets: [REX], snapshot, cors: true, keepAlive: 2_000, controlPort: 0 }
  const petstore = await start(t, { ...options, ...more })
  assert.match(petstore.url, /^http:\/\/(?:127\.0\.0\.1|\[::1\]):\d+$/)
  assert.equal(petstore.apiKey, 'first-key')
  assert.ok(petstore.controlUrl)
  const headers = { origin: 'http://a', connection: 'keep-alive' }
  const answer = await send(petstore, 'GET', '/pets', { headers })
  assert.equal(answer.body, '[{"id":1,"name":"Rex","categoryId":1}]')
  assert.equal(answer.headers['access-control-allow-origin'], 'http://a')
  assert.equal(answer.headers['keep-alive'], 'timeout=2')
  assert.ok(existsSync(snapshot))
  const port = Number(new URL(petstore.url).port)
  await petstore.close()
  assert.equal((await start(t, { port })).url, `http://127.0.0.1:${port}/v1`)
})

interface Option {
  mustBe: RegExp
  good: readonly unknown[]
  wrong: readonly unknown[] // null always is
}

const wrongIntegers = (low: number, high: number) => [low - 1, high + 1, low + 0.5, `${low}`, 1n]
const ODD_KEYS = ['1234567', 'a'.repeat(257), '========', 'abcd=efgh', 'abcd,efgh', 'abcdefgé']

const OPTIONS: Readonly<Record<keyof StartOptions, Option>> = {
  port: { mustBe: /0 to 65535/, good: [0], wrong: wrongIntegers(0, 65_535) },
  host: {
    mustBe: /host name or an IP address/,
    good: ['localhost', '0.0.0.0', '::'],
    wrong: ['', '[::1]', 'http://a', 'a b', 127, ['::1']],
  },
  basePath: {
    mustBe: /empty, or a path/,
    good: ['', '/v1', '/shop/eu/v1', '/a.b-c_d~e'],
    wrong: ['/', 'v1', '/v1/', '//v1', '/v%31', '/v1?', '/{a}', '/v 1', '/v1\n', 1],
  },
  apiKeys: {
    mustBe: /list of keys, each 8 to 256 characters/,
    good: [['first-key', 'second-key'], ['aaaaaaa='], ['a'.repeat(256)], ['Az09-._~+/==']],
    wrong: ['first-key', [], [1], { length: 1 }, ...ODD_KEYS.map((key) => ['first-key', key])],
  },
  pets: { mustBe: /array of pets/, good: [[], [REX]], wrong: ['Rex', REX, { length: 0 }] },
  snapshot: { mustBe: /path/, good: [], wrong: ['', 1, ['a']] },
  store: {
    mustBe: /functions list, get, add, reset, close/,
    good: [STORE],
    wrong: [
      ...['postgres://user:secret@host', {}],
      ...Object.keys(STORE).map((name) => ({ ...STORE, [name]: true })),
    ],
  },
  cors: { mustBe: /true or false/, good: [true, false], wrong: ['*', 'true', 1, []] },
  maxStore: { mustBe: /integer from 1/, good: [1], wrong: wrongIntegers(1, 2 ** 50) },
  keepAlive: { mustBe: /to 86400000/, good: [1_000, DAY], wrong: ['5', -1, 0.5, DAY + 1] },
  log: { mustBe: /text, json/, good: ['off'], wrong: ['', 'JSON', true] },
  controlPort: { mustBe: /0 to 65535/, good: [0], wrong: wrongIntegers(0, 65_535) },
}

for (const [name, { mustBe, good, wrong }] of Object.entries(OPTIONS)) {
  test(`${name} refuses what it cannot be, and says what it must be`, async () => {
    for (const value of good) await (await startPetstore({ [name]: value })).close()
    const message = new RegExp(`^${name}\\b.* must be .*${mustBe.source}`)
    for (const value of [null, ...wrong]) await refuses({ [name]: value }, message)
  })
}

test('no message shows a key, or a store in whose place its address is given', async () => {
  const hidden = /^(?:(?!secret)[^])*$/
  for (const apiKeys of ['a secret', ['a secret'], [['a-secret-key']]]) {
    await refuses({ apiKeys }, hidden)
  }
  await refuses({ store: 'postgres://user:secret@host' }, hidden)
  await refuses({ apiKey: 'a-secret-key' }, hidden)
  await refuses('a-secret-key', hidden)
})

test('other options, and what is no object, are refused', async () => {
  for (const options of [null, 8080, [KEY]]) await refuses(options, /object/)
  for (const name of ['apiKey', 'drain', 'seed', 'demo', 'constructor', 'toString', '__proto__']) {
    await refuses(JSON.parse(`{"${name}":"a"}`), new RegExp(`\\b${name}\\b`))
  }
})

test('a store goes without snapshot, maxStore and pets', async () => {
  const others: StartOptions[] = [{ snapshot: 'pets.json' }, { maxStore: 1_000 }, { pets: [REX] }]
  for (const other of others) await refuses({ store: STORE, ...other }, /\bstore\b/)
})

/** What is wrong with the second of two pets, and such pets after one with the id 5 or none. */
const WRONG_PETS: readonly [member: RegExp, first: object, seconds: readonly unknown[]][] = [
  [/object/, REX, [null, 'Rex', [REX]]],
  [/name.*categoryId/, REX, [{}]],
  [/categoryId/, REX, [0.5, '1', 2 ** 53, 2n ** 63n].map((categoryId) => ({ ...REX, categoryId }))],
  [/status/, REX, [{ ...REX, status: 'lost' }]],
  [/id/, REX, [{ ...REX, id: 2 }]], // all have ids or none has
  [/id/, { ...REX, id: 5 }, [REX, ...[5, 0, 5.5, '6', 2n ** 63n].map((id) => ({ ...REX, id }))]],
]

test('wrong pets are refused by the place of the first one, and what is wrong with it', async () => {
  for (const [member, first, seconds] of WRONG_PETS) {
    for (const second of seconds) {
      const message = new RegExp(`\\b2\\b.*${member.source}`)
      await refuses({ pets: [first, second, {}] }, message, 'invalid_pet')
    }
  }
})

test('a wrong option leaves the snapshot alone; one that cannot be opened is an error', async (t) => {
  const folder = temporaryFolder(t)
  await refuses({ snapshot: `${folder}/pets.json`, port: -1 }, /port/)
  assert.deepEqual(readdirSync(folder), [])
  const starting = startPetstore({ snapshot: `${folder}/none/pets.json` })
  await assert.rejects(starting, { name: 'Error', code: 'storage_failed' })
})
