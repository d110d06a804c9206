// The options of startPetstore() and createPetstore(): what each may be, and the error that refuses it.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { inspect } from 'node:util'
import { getHeapStatistics } from 'node:v8'
import { createPetstore, startPetstore } from '../src/petstore.ts'
import { FakeStream, folderOf } from './support.ts'

type Option = [mustBe: string, good: readonly unknown[], misshapen: readonly unknown[], outOfRange: readonly unknown[]]

function integer(min: number, max: number): Option {
  const outOfRange = [min - 1, max + 1, min + 0.5, Number.NaN, Infinity, -Infinity]
  return [`an integer from ${min} to ${max}`, [min, max], ['1', '', true, 1n, [1]], outOfRange]
}

const REX = { name: 'Rex', categoryId: 2n ** 63n - 1n, status: 'sold' } as const
const HALF_OF_HEAP = Math.floor(getHeapStatistics().heap_size_limit / 2)
const HOST: Option = ['a host name or an IP address', ['127.0.0.1', 'localhost'], [127, ['::1']], ['', '[::1]']]
const PATH = 'a path such as /v1 or /shop/v1: segments of A-Z a-z 0-9 - . _ ~, no slash at the end'
const KEYS = 'an array of one key or more, each 8 to 256 characters of A-Z a-z 0-9 - . _ ~ + / with = only at the end'
const NO_KEYS = ['first-key', [1], ['first-key', null], { 0: 'first-key', length: 1 }, new Set(['first-key']), Array(1)]
const ORIGIN = 'an origin such as https://shop.example, without a path, or *'
const NO_STREAMS = ['stdout', {}, { write: true, on() {} }, { write() {} }, { on() {} }, { write() {}, on: 1 }]

// The texts of each rule are in settings.test.ts, and the keys in decisions.test.ts: the rules are the same.
const OPTIONS: Record<string, Option> = {
  basePath: [PATH, ['/v1', '/shop/eu/v1'], [1, ['/v1'], new URL('http://x/v1')], ['', '/v1/']],
  apiKeys: [KEYS, [['first-key', 'second-key', 'first-key']], NO_KEYS, [[], ['first-key', 'second key']]],
  maxBody: integer(1, 256 * 2 ** 20),
  maxStore: integer(1, HALF_OF_HEAP),
  getPet: ['one of deprecated, gone', ['deprecated', 'gone'], [true, 410], ['', 'Gone']],
  page: ['true or false', [true, false], [0, 1, 'true', {}], []],
  cors: [ORIGIN, ['*', 'https://a.example', 'http://[::1]:8080'], [true, ['*'], new URL('http://a')], ['', 'null']],
  journal: integer(0, 1_000_000),
  log: ['one of text, json, off', ['text', 'json', 'off'], [false, 1], ['', 'JSON']],
  logStream: ['a stream to write to', [process.stderr, new FakeStream()], NO_STREAMS, []],
}

const SOCKET_OPTIONS: Record<string, Option> = {
  port: integer(0, 65_535),
  host: HOST,
  snapshot: ['the path of a file', [], [1, ['a']], ['']],
  maxConnections: integer(1, 1_000_000),
  keepAlive: integer(1, 86_400),
  controlPort: integer(0, 65_535),
  controlHost: HOST,
}

/** Asserts that a petstore is not started with options, nor made with them. */
async function assertRefused(options: unknown, error: { name: string; message: string | RegExp }): Promise<void> {
  const starting: Promise<AsyncDisposable> = Reflect.apply(startPetstore, undefined, [options])
  starting.then((petstore) => petstore[Symbol.asyncDispose]()).catch(() => {})
  await assert.rejects(starting, error)
  assert.throws(() => Reflect.apply(createPetstore, undefined, [options]), error)
}

for (const [name, [mustBe, good, misshapen, outOfRange]] of Object.entries({ ...OPTIONS, ...SOCKET_OPTIONS })) {
  const refuses = async (value: unknown, error: 'TypeError' | 'RangeError') => {
    const shown = inspect(value, { depth: 0, maxArrayLength: 3, maxStringLength: 100, breakLength: Infinity })
    const line = name === 'apiKeys' ? `${name} must be ${mustBe}` : `${name} ${shown} must be ${mustBe}`
    const expected = { name: error, message: name === 'maxStore' ? /^maxStore .*must be .*max-old-space-size/s : line }
    if (name in OPTIONS) await assertRefused({ [name]: value }, expected)
    else await assert.rejects(startPetstore({ [name]: value }), expected)
  }

  test(`${name} may be ${inspect(good).slice(0, 60)}, or undefined, which counts as left out`, async () => {
    for (const value of [undefined, ...good]) {
      if (/port/i.test(name) && value === 65_535) continue // it may be in use; settings.test.ts takes it
      const options = { logStream: new FakeStream(), [name]: value }
      await (await startPetstore(options)).close()
      if (name in OPTIONS) createPetstore(options)
    }
  })

  test(`${name} of another shape is a TypeError, out of its range a RangeError: it says what it must be`, async () => {
    for (const value of [null, ...misshapen]) await refuses(value, 'TypeError')
    for (const value of outOfRange) await refuses(value, 'RangeError')
  })
}

test('an option that is wrong is refused before anything is opened', async (t) => {
  const folder = folderOf(t)
  await assert.rejects(startPetstore({ snapshot: `${folder}/pets.json`, port: -1 }), RangeError)
  assert.deepEqual(readdirSync(folder), [])
})

test('options are an object, and a long value is shown by its beginning, on one line', async () => {
  for (const given of [null, 'port', 8080, true]) {
    await assertRefused(given, { name: 'TypeError', message: `options ${inspect(given)} must be an object` })
  }
  await assertRefused({ log: 'x'.repeat(10_000) }, { name: 'RangeError', message: /^log '.{100,150}must be one of / })
  const message = /^journal \[ \[Object\], 2, 3, \.\.\. 2 more items \] must be /
  await assertRefused({ journal: [{ a: { b: 1 } }, 2, 3, 4, 5] }, { name: 'TypeError', message })
})

test('an unknown option is refused, with the names of those that are known and without its value', async () => {
  const known = ['basePath', 'apiKeys', 'pets', 'maxBody', 'maxStore', 'getPet', 'page', 'cors', 'journal', 'log']
  for (const name of ['Port', 'apiKey', 'limits', 'drain', 'constructor', 'toString']) {
    const message = new RegExp(`^options must not have '${name}'; known are .*${known.join('.*')}[^=]*$`)
    await assertRefused({ [name]: 'a-secret=key' }, { name: 'TypeError', message })
  }
  for (const name of Object.keys(SOCKET_OPTIONS)) {
    const given: object = { [name]: 1 }
    const message = new RegExp(`^options must not have '${name}'; known are basePath, `)
    assert.throws(() => createPetstore(given), { name: 'TypeError', message })
  }
})

test('pets that are none are refused, and the first that is wrong is named', async () => {
  const int64 = 'an integer from -2^63 to 2^63-1, beyond ±(2^53-1) in plain digits'
  for (const pets of ['Rex', null, { name: 'Rex', categoryId: 1 }]) {
    await assertRefused({ pets }, { name: 'TypeError', message: `pets ${inspect(pets)} must be an array of NewPet` })
  }
  for (const [why, ...pets] of [
    ['in item 1, a pet must be an object', undefined],
    [`in item 2, name is required and must be a string; categoryId must be ${int64}`, REX, { categoryId: '1' }],
    [`in item 1, categoryId must be ${int64}`, { ...REX, categoryId: 2n ** 63n }],
    ['in item 1, status must be one of available, pending, sold, or left out', { ...REX, status: 'lost' }],
  ] as const) {
    await assertRefused({ pets }, { name: 'TypeError', message: `pets must be an array of NewPet: ${why}` })
  }
  await assertRefused({ pets: Array(1) }, { name: 'TypeError', message: /in item 1, a pet must be an object$/ })
})

test('pets are read once: what becomes of the array later does not matter, unknown members are left behind', async () => {
  const pets = [{ ...REX, id: 9 }]
  await using petstore = await startPetstore({ pets })
  pets.pop()
  await petstore.reset()
  assert.deepEqual(petstore.pets, [{ ...REX, id: 1 }])
})

test('maxStore is a quarter of the limit of the heap, and 256 MiB at most, unless given', () => {
  const overfill = `
    import { getHeapStatistics } from 'node:v8'
    import { createPetstore } from './src/petstore.ts'
    console.log(Math.floor(getHeapStatistics().heap_size_limit / 4))
    createPetstore({ pets: Array(17).fill({ name: 'x'.repeat(2 ** 24), categoryId: 1 }) })`
  const cwd = fileURLToPath(new URL('..', import.meta.url))
  for (const [megabytes, isCapped] of [
    [200, false],
    [2_000, true],
  ] as const) {
    const args = [`--max-old-space-size=${megabytes}`, '--import', 'tsx', '--input-type=module', '--eval', overfill]
    const { stdout, stderr } = spawnSync(process.execPath, args, { cwd, encoding: 'utf8' })
    assert.ok(stderr.includes(`do not fit into ${isCapped ? 2 ** 28 : stdout.trim()} bytes`), stderr)
  }
})
