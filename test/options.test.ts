// The options of startPetstore() and createPetstore(): what each may be, and the error that refuses it.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { test } from 'node:test'
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
const DELAY = 'an integer from 0 to 600000, or a range of that: [MIN, MAX], as a flag MIN-MAX'
const NO_DELAYS = ['1', [], [1], [1, '2'], [1, 2, 3]]
const ORIGIN = 'an origin such as https://shop.example, without a path, or *'
const NO_STREAMS = ['stdout', {}, { write: true, on() {} }, { write() {} }, { on() {} }, { write() {}, on: 1 }]

// The texts of each rule are in settings.test.ts, and the keys in decisions.test.ts: the rules are the same.
const OPTIONS: Record<string, Option> = {
  basePath: [PATH, ['/v1', '/shop/eu/v1'], [1, ['/v1'], new URL('http://x/v1')], ['', '/v1/']],
  apiKeys: [KEYS, [['first-key', 'second-key', 'first-key']], NO_KEYS, [[], ['first-key', 'second key']]],
  maxBody: integer(1, 256 * 2 ** 20),
  maxStore: integer(1, HALF_OF_HEAP),
  getPet: ['one of deprecated, gone', ['deprecated', 'gone'], [true, 410], ['', 'Gone']],
  delay: [DELAY, [0, 1, 600_000, [0, 0], [1, 600_000]], NO_DELAYS, [-1, 600_001, [2, 1], NaN]],
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

async function assertRefused(options: unknown, message: string | RegExp, name = 'TypeError'): Promise<void> {
  const starting: Promise<AsyncDisposable> = Reflect.apply(startPetstore, undefined, [options])
  starting.then((petstore) => petstore[Symbol.asyncDispose]()).catch(() => {})
  await assert.rejects(starting, { name, message })
  assert.throws(() => Reflect.apply(createPetstore, undefined, [options]), { name, message })
}

for (const [name, [mustBe, good, misshapen, outOfRange]] of Object.entries({ ...OPTIONS, ...SOCKET_OPTIONS })) {
  const refuses = async (value: unknown, error: 'TypeError' | 'RangeError') => {
    const shown = inspect(value, { depth: 0, maxArrayLength: 3, maxStringLength: 100, breakLength: Infinity })
    const text = name === 'apiKeys' && typeof value === 'string' ? ', not a string' : ''
    const line = `${name} ${name === 'apiKeys' ? '' : `${shown} `}must be ${mustBe}${text}`
    const message = name === 'maxStore' ? /^maxStore .*must be .*max-old-space-size/s : line
    if (name in OPTIONS) await assertRefused({ [name]: value }, message, error)
    else await assert.rejects(startPetstore({ [name]: value }), { name: error, message })
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
    await assertRefused(given, `options ${inspect(given)} must be an object`)
  }
  await assertRefused({ log: 'x'.repeat(10_000) }, /^log '.{100,150}must be one of /, 'RangeError')
  const array = { journal: [{ a: { b: 1 } }, 2, 3, 4, 5] }
  await assertRefused(array, /^journal \[ \[Object\], 2, 3, \.\.\. 2 more items \] must be /)
})

test('an unknown option is refused, with the names of those that are known and without its value', async () => {
  const known = 'known are basePath, apiKeys, pets, maxBody, maxStore, getPet, delay, page, cors, journal, log[^=]*$'
  for (const named of ["'apiKey': it is apiKeys", "'pet': it is pets", "'Port'", "'drain'", "'constructor'"]) {
    const [, name = ''] = named.split("'")
    const message = new RegExp(`^options must not have ${named}; ${known}`)
    await assertRefused({ [name]: 'a-secret=key' }, message)
  }
  for (const name of Object.keys(SOCKET_OPTIONS)) {
    const given: object = { [name]: 1 }
    const message = new RegExp(`^options must not have '${name}'; ${known}`)
    assert.throws(() => createPetstore(given), { name: 'TypeError', message })
  }
})

test('pets that are none are refused, and the first that is wrong is named with all that is wrong', async () => {
  await assertRefused({ pets: 'Rex' }, /^pets 'Rex' must be an array of .*, not a string$/)
  for (const pets of [null, { ...REX }, { length: 1, 0: REX }]) {
    const shown = inspect(pets, { depth: 0, breakLength: Infinity })
    await assertRefused({ pets }, `pets ${shown} must be an array of NewPet`)
  }
  const categoryId = 'categoryId must be an integer from -2^63 to 2^63-1, beyond ±(2^53-1) in plain digits'
  const all = `name must be a string; ${categoryId}; status must be one of available, pending, sold, or left out`
  const required = `name must be a string; ${categoryId}`.replaceAll('must', 'is required and must')
  // Numbers beyond ±(2^53-1) may have been rounded.
  const numbers = [2 ** 53, -(2 ** 53), 2n ** 63n, -(2n ** 63n) - 1n, 1.5, NaN, Infinity]
  const values = [null, true, ['sold'], { toString: () => 'sold' }]
  const rows: [why: string, ...pets: unknown[]][] = [
    ['a pet must be an object', undefined, null, [REX], 'Rex', 1, 2n ** 60n],
    [required, {}, { Name: 'Rex', name: undefined }, JSON.parse('{"__proto__":{"name":"Rex","categoryId":1}}')],
    [categoryId, ...numbers.map((number) => ({ ...REX, categoryId: number }))],
    [all, ...values.map((value) => ({ name: value, categoryId: value, status: value }))],
    ['id must be left out: the store assigns 1, 2, 3 …', { ...REX, id: 2 }],
  ]
  for (const [why, ...wrong] of rows) {
    for (const one of wrong) {
      await assertRefused({ pets: [REX, one, {}] }, `pets must be an array of NewPet: in item 2, ${why}`)
    }
  }
  await assertRefused({ pets: Array(1) }, /in item 1, a pet must be an object$/)
})

test('maxStore is a quarter of the limit of the heap, and 256 MiB at most, unless given', () => {
  const overfill = `
    import { getHeapStatistics } from 'node:v8'
    import { createPetstore } from './src/petstore.ts'
    console.log(Math.floor(getHeapStatistics().heap_size_limit / 4))
    createPetstore({ pets: Array(17).fill({ name: 'x'.repeat(2 ** 24), categoryId: 1 }) })`
  for (const megabytes of [200, 2_000]) {
    const args = [`--max-old-space-size=${megabytes}`, '--import', 'tsx', '--input-type=module', '--eval', overfill]
    const { stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' })
    assert.ok(stderr.includes(`do not fit into ${megabytes > 1_024 ? 2 ** 28 : stdout.trim()} bytes`), stderr)
  }
})
