// The options of startPetstore(): what each may be, and how another value is refused.
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { test } from 'node:test'
import { getHeapStatistics } from 'node:v8'
import { inspect } from 'node:util'
import { startPetstore } from '../../src/index.ts'
import { MemoryStore } from '../../src/pets/memory-store.ts'
import type { StartOptions } from '../../src/types.ts'
import { start, temporaryFolder } from '../support.ts'

interface Option {
  mustBe: string
  good: readonly unknown[]
  misshapen: readonly unknown[] // a TypeError; null always is one
  outOfRange?: readonly unknown[] // a RangeError
}

function integer(low: number, high: number, more = ''): Option {
  const good = high === 65_535 ? [low] : [low, high] // the last port may be in use
  const outOfRange = [low - 1, high + 1, low + 0.5, Number.NaN, Infinity]
  const mustBe = `an integer from ${low} to ${high}${more}`
  return { mustBe, good, misshapen: ['1', '', true, 1n, [1]], outOfRange }
}

function oneOf(...good: readonly string[]): Option {
  const outOfRange = ['', ...good.map((word) => word.toUpperCase())]
  return { mustBe: `one of ${good.join(', ')}`, good, misshapen: [true, 410, good], outOfRange }
}

const MAX_STORE = Math.floor(getHeapStatistics().heap_size_limit / 2)
const PATH = 'a path such as /shop/v1: segments of A-Z a-z 0-9 - . _ ~, no slash at the end'
const KEY_RULE = '8 to 256 characters of A-Z a-z 0-9 - . _ ~ + / with = only at the end'
const ODD_KEYS = ['1234567', 'a'.repeat(257), '========', 'abcd=efgh', 'abcd,efgh', 'abcdefgé', '']
const NO_ORIGINS = [
  '',
  'null',
  '**',
  'a.example',
  'https://A.example',
  'https://a.example/',
].concat('https://a.example/a', 'https://a.example:443', 'https://*.example')

const OPTIONS: Readonly<Record<Exclude<keyof StartOptions, 'snapshot'>, Option>> = {
  port: integer(0, 65_535),
  host: {
    mustBe: 'a host name or an IP address',
    good: ['127.0.0.1', 'localhost', '0.0.0.0', '::'],
    misshapen: [127, ['::1']],
    outOfRange: ['', '[::1]', 'fe80::1%eth0', 'http://a', '127.0.0.1/8', 'a b', 'a,b'],
  },
  basePath: {
    mustBe: `empty, or ${PATH}`,
    good: ['/v1', '/shop/eu/v1', ''],
    misshapen: [1, ['/v1'], new URL('http://x/v1')],
    outOfRange: ['/', 'v1', '/v1/', '//v1', '/a//b', '/v%31', '/v1?', '/{a}', '/v 1', '/v1\n'],
  },
  apiKeys: {
    mustBe: `a list of keys, each ${KEY_RULE}`,
    good: [['first-key', 'second-key', 'first-key'], ['aaaaaaa='], [`${'a'.repeat(256)}`]],
    misshapen: ['first-key', [1], ['first-key', null], { length: 1 }, new Set(['first-key'])],
    outOfRange: [[], ...ODD_KEYS.map((key) => ['first-key', key])],
  },
  pets: {
    mustBe: 'an array of pets',
    good: [[], [{ name: '', categoryId: 0 }]],
    misshapen: ['Rex', { name: 'Rex', categoryId: 1 }, { length: 0 }, new Set()],
  },
  store: {
    mustBe: 'an object with the functions page, get, add, reset, isWritable, close',
    good: [new MemoryStore(1_000)],
    misshapen: ['postgres://a:secret@b/c', {}, { ...new MemoryStore(1_000), add: true }, []],
  },
  getPetState: oneOf('deprecated', 'gone'),
  strict: { mustBe: 'true or false', good: [true, false], misshapen: [0, 1, 'true', {}] },
  cors: {
    mustBe: 'origins such as https://shop.example, without a path, or *',
    good: ['*', 'https://a.example', 'http://[::1]:8080', [], ['*'], ['https://a.example', '*']],
    misshapen: [true, [1], new URL('http://a'), [['*']]],
    outOfRange: [...NO_ORIGINS, ['*', '']],
  },
  maxBody: integer(1, 256 * 2 ** 20, ', as a setting also 64k or 1m'),
  maxStore: integer(
    1,
    MAX_STORE,
    ', half of the heap: NODE_OPTIONS=--max-old-space-size=MB raises it',
  ),
  maxConnections: integer(1, 1_000_000),
  keepAlive: integer(1, 86_400_000),
  log: { ...oneOf('text', 'json', 'off'), good: ['off'] }, // the others write to the test's output
  controlPort: integer(0, 65_535),
}
const SECRETS = ['apiKeys', 'store']

async function assertRefused(options: unknown, error: object): Promise<void> {
  const starting: Promise<AsyncDisposable> = Reflect.apply(startPetstore, undefined, [options])
  starting.then((petstore) => petstore[Symbol.asyncDispose]()).catch(() => {})
  await assert.rejects(starting, { code: 'invalid_option', ...error }, inspect(options))
}

for (const [name, { mustBe, good, misshapen, outOfRange = [] }] of Object.entries(OPTIONS)) {
  test(`${name} is ${mustBe}`, async () => {
    for (const value of [undefined, ...good]) await (await startPetstore({ [name]: value })).close()
    const refuses = (type: string, value: unknown) => {
      const shown = inspect(value, { depth: 0, breakLength: Infinity, compact: true })
      const given = SECRETS.includes(name) ? '' : ` ${shown}`
      return assertRefused(
        { [name]: value },
        { name: type, message: `${name}${given} must be ${mustBe}` },
      )
    }
    for (const value of [null, ...misshapen]) await refuses('TypeError', value)
    for (const value of outOfRange) await refuses('RangeError', value)
  })
}

test('snapshot is the path of a file, which a wrong option leaves alone', async (t) => {
  const message = /^snapshot .* must be the path of a file$/
  for (const snapshot of [null, 1, ['a']])
    await assertRefused({ snapshot }, { name: 'TypeError', message })
  await assertRefused({ snapshot: '' }, { name: 'RangeError', message })
  const folder = temporaryFolder(t)
  await assertRefused({ snapshot: `${folder}/pets.json`, port: -1 }, { name: 'RangeError' })
  assert.deepEqual(readdirSync(folder), [])
})

test('options are an object of these, and no message shows a key', async () => {
  for (const options of [null, 'a-secret-key', 8080, ['a-secret-key']])
    await assertRefused(options, { name: 'TypeError', message: 'options must be an object' })
  const known = 'port, host, basePath, apiKeys, pets, snapshot, store, getPetState, strict, cors, '
  for (const name of ['apiKey', 'delay', 'constructor', '__proto__']) {
    const message = new RegExp(`^options must not have '${name}'; known are ${known}max`)
    const options = JSON.parse(`{"${name}":"a-secret-key"}`)
    await assertRefused(options, { name: 'TypeError', message })
  }
})

test('a store goes with neither snapshot nor maxStore', async () => {
  const store = new MemoryStore(1_000)
  for (const [options, message] of [
    [{ store, snapshot: 'pets.json' }, 'snapshot must be left out with store (--store)'],
    [{ store, maxStore: 1_000 }, 'maxStore must be left out with store (--store)'],
  ] as const) {
    await assertRefused(options, { name: 'TypeError', message })
  }
})

const REX = { name: 'Rex', categoryId: 1, status: 'sold' } as const
const MAX_ID = 2n ** 63n - 1n
const INTEGER = 'categoryId must be an integer'
const INT64 = `${INTEGER} from -2^63 to 2^63-1, beyond ±(2^53-1) a bigint, or plain digits in JSON`
const STATUS = 'status must be one of available, pending, sold, or left out'
const REQUIRED = `name must be a string; ${INTEGER}`.replaceAll('must', 'is required and must')
const inherited: unknown = JSON.parse('{"__proto__":{"name":"Rex","categoryId":1}}')
const idAfter = (last: unknown): string =>
  `id must be an integer above ${last}, the id before it, and at most 2^63-1`
const EXACTLY = ', beyond ±(2^53-1) a bigint, or plain digits in JSON'
const NO_IDS = [0, -1, 1.5, '1', null]
const LARGE_IDS = [2 ** 53, 2n ** 63n]

/** What is wrong with the second pet, and such pets. */
const WRONG_PETS: [reason: string, pets: readonly unknown[], first?: object][] = [
  ['a pet must be an object', [undefined, null, [REX], 'Rex', 1, 2n ** 60n]],
  [REQUIRED, [{}, { Name: 'Rex', name: undefined }, inherited]],
  [
    INTEGER,
    [
      { ...REX, categoryId: 1.5 },
      { ...REX, categoryId: Number.NaN },
    ],
  ],
  // Numbers beyond ±(2^53-1) may have been rounded.
  [
    INT64,
    [2 ** 53, 2n ** 63n, -(2n ** 63n) - 1n, Infinity].map((categoryId) => ({ ...REX, categoryId })),
  ],
  [
    `name must be a string; ${INTEGER}; ${STATUS}`,
    [null, true, ['sold'], { toString: () => 'sold' }].map((value) => {
      return { name: value, categoryId: value, status: value }
    }),
  ],
  ['id must be left out: the store assigns it', [{ ...REX, id: 2 }]],
  [idAfter(5), [REX, ...[...NO_IDS, 5].map((id) => ({ ...REX, id }))], { ...REX, id: 5 }],
  [idAfter(5) + EXACTLY, LARGE_IDS.map((id) => ({ ...REX, id })), { ...REX, id: 5 }],
  [idAfter(MAX_ID) + EXACTLY, [{ ...REX, id: MAX_ID }], { ...REX, id: MAX_ID }],
]

test('the first wrong pet is named, with all that is wrong with it, at every door', async (t) => {
  const petstore = await start(t)
  for (const [reason, wrong, first = REX] of WRONG_PETS) {
    for (const one of wrong) {
      const pets = [first, one, {}]
      const message = `pets are wrong: in item 2, ${reason}`
      const error = { name: 'TypeError', code: 'invalid_pet', message }
      await assertRefused({ pets }, error)
      await assert.rejects(Reflect.apply(petstore.reset, undefined, [pets]), error)
      if (first === REX) await assert.rejects(Reflect.apply(petstore.add, undefined, [pets]), error)
    }
  }
  const notPets = { code: 'invalid_pet', message: 'pets are wrong: it must be an array of pets' }
  for (const pets of [null, 'Rex', REX]) {
    await assert.rejects(Reflect.apply(petstore.reset, undefined, [pets]), notPets)
    await assert.rejects(Reflect.apply(petstore.add, undefined, [pets]), notPets)
  }
  const withId = { code: 'invalid_pet', message: /^pets are wrong: in item 1, id must be left out/ }
  await assert.rejects(Reflect.apply(petstore.add, undefined, [[{ ...REX, id: 9 }]]), withId)
  assert.deepEqual(petstore.pets, [])
})
