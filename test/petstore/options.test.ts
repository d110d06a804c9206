// The options of startPetstore() and createPetstore(): what each may be, and how it is rejected.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { test } from 'node:test'
import { inspect } from 'node:util'
import { HEAP_LIMIT } from '../../src/http/limits.ts'
import { createPetstore, startPetstore } from '../../src/petstore/launch.ts'
import { MemoryStore } from '../../src/pets/store.ts'
import { INDEX, PETSTORE } from '../built.ts'
import { Running } from '../process.ts'
import { FakeStream, folderOf, KEY, words } from '../support.ts'

interface Option {
  mustBe: string
  good: readonly unknown[]
  misshapen: readonly unknown[]
  outOfRange?: readonly unknown[]
}

function integer(min: number, max: number, more = ''): Option {
  const outOfRange = [min - 1, max + 1, min + 0.5, Number.NaN, Infinity, -Infinity]
  const misshapen = ['1', '', true, 1n, [1]]
  const mustBe = `an integer from ${min} to ${max}${more}`
  return { mustBe, good: [min, max], misshapen, outOfRange }
}

function oneOf(...good: readonly string[]): Option {
  const outOfRange = ['', 'on', ...good.map((word) => word.toUpperCase())]
  return { mustBe: `one of ${good.join(', ')}`, good, misshapen: [true, 410, good], outOfRange }
}

const REX = { name: 'Rex', categoryId: 2n ** 63n - 1n, status: 'sold' } as const
const SEGMENTS = 'A-Z a-z 0-9 - . _ ~, no slash at the end'
const NO_PATHS = words('/ v1 /v1/ //v1 /a//b /v%31 /v1? /{a}')
const NO_ORIGINS = words(`null ** a.example https://A.example https://a.example/
  https://a.example/a https://a.example:443 https://*.example`)
const KEY_RULE = '8 to 256 characters of A-Z a-z 0-9 - . _ ~ + / with = only at the end'
const ODD_KEYS = words('1234567 ======== abcd=efgh abcd,efgh abcdefgé éabcdefg')
const NO_KEYS = [...ODD_KEYS, '', 'a'.repeat(257), 'second key', ' abcdefgh', 'abcdefgh\n']
const BOOLEAN = { mustBe: 'true or false', good: [true, false], misshapen: [0, 1, 'true', {}] }
const HOST: Option = {
  mustBe: 'a host name or an IP address',
  good: ['127.0.0.1', 'localhost'],
  misshapen: [127, ['::1']],
  // No URL can hold a zone.
  outOfRange: ['', '[::1]', 'fe80::1%eth0', 'http://a', '127.0.0.1/8', 'a b', 'a,b', '::1\n'],
}

const OPTIONS: Record<string, Option> = {
  basePath: {
    mustBe: `empty, or a path such as /shop/v1: segments of ${SEGMENTS}`,
    good: ['/v1', '/shop/eu/v1', ''],
    misshapen: [1, ['/v1'], new URL('http://x/v1')],
    outOfRange: ['/v 1', '/v1\n', ...NO_PATHS],
  },
  apiKeys: {
    mustBe: `a list of keys, each ${KEY_RULE}`,
    good: [['first-key', 'second-key', 'first-key']],
    misshapen: ['first-key', [1], ['first-key', null], Array(1), { length: 1 }, new Set(['a'])],
    outOfRange: [[], ...NO_KEYS.map((key) => ['first-key', key])],
  },
  maxBody: integer(1, 256 * 2 ** 20, ', as a setting also 64k or 1m'),
  maxStore: integer(1, Math.floor(HEAP_LIMIT / 2)),
  store: {
    mustBe: 'an object with the functions page, get, add, reset, isWritable, close',
    good: [new MemoryStore(1_000)],
    misshapen: ['postgres://a:secret@b/c', {}, { ...new MemoryStore(1_000), add: true }],
  },
  getPetState: oneOf('deprecated', 'gone'),
  delay: {
    mustBe: 'an integer from 0 to 600000 ms, or a range: [MIN, MAX], as a setting MIN-MAX',
    good: [0, 1, 600_000, [0, 0], [1, 600_000]],
    misshapen: ['1', [], [1], [1, '2'], [1, 2, 3]],
    outOfRange: [-1, 600_001, 1.5, NaN, [2, 1], [-1, 0], [0, 600_001]],
  },
  strict: BOOLEAN,
  storePerKey: BOOLEAN,
  page: BOOLEAN,
  cors: {
    mustBe: 'origins such as https://shop.example, without a path, or *',
    good: ['*', 'https://a.example', 'http://[::1]:8080', [], ['*'], ['https://a.example', '*']],
    misshapen: [true, [1], new URL('http://a')],
    outOfRange: ['', ['*', ''], ...NO_ORIGINS],
  },
  maxRequests: integer(0, 1_000_000),
  log: oneOf('text', 'json', 'off'),
  logStream: {
    mustBe: 'a stream to write to',
    good: [process.stderr, new FakeStream()],
    misshapen: ['stdout', {}, { on() {} }, { write() {}, on() {} }, { write: true, on() {} }],
  },
}

const SOCKET_OPTIONS: Record<string, Option> = {
  port: integer(0, 65_535),
  host: HOST,
  // snapshot.test.ts has good ones.
  snapshot: { mustBe: 'the path of a file', good: [], misshapen: [1, ['a']], outOfRange: [''] },
  maxConnections: integer(1, 1_000_000),
  keepAlive: integer(1, 86_400_000),
  unref: BOOLEAN,
  controlPort: integer(0, 65_535),
  controlHost: HOST,
  // teacher.test.ts has good ones.
  teacherKey: {
    mustBe: KEY_RULE,
    good: [],
    misshapen: [12_345_678, ['a-teachers-key']],
    outOfRange: NO_KEYS,
  },
}

const SECRETS = ['apiKeys', 'store', 'teacherKey']

/** How a message shows a value: on one line. */
function show(value: unknown): string {
  return inspect(value, { depth: 0, breakLength: Infinity })
}

async function assertRejected(
  options: unknown,
  message: string | RegExp,
  name = 'TypeError',
  code = 'invalid_option',
): Promise<void> {
  const starting: Promise<AsyncDisposable> = Reflect.apply(startPetstore, undefined, [options])
  starting.then((petstore) => petstore[Symbol.asyncDispose]()).catch(() => {})
  const error = { name, code, message }
  await assert.rejects(starting, error)
  assert.throws(() => Reflect.apply(createPetstore, undefined, [options]), error)
}

const ALL_OPTIONS = Object.entries({ ...OPTIONS, ...SOCKET_OPTIONS })
for (const [name, { mustBe, good, misshapen, outOfRange = [] }] of ALL_OPTIONS) {
  const rejects = async (value: unknown, error: 'TypeError' | 'RangeError') => {
    const shown = SECRETS.includes(name) ? '' : `${show(value)} `
    const line = `${name} ${shown}must be ${mustBe}`
    let message: string | RegExp = line
    if (name === 'maxStore') message = /^maxStore .*must be .*max-old-space-size/s
    if (name === 'apiKeys' && error === 'RangeError')
      message = /^apiKeys must be .* \((?:item 2 has \d+ characters|it is empty)\)$/
    if (name in OPTIONS) return assertRejected({ [name]: value }, message, error)
    const expected = { name: error, code: 'invalid_option', message }
    await assert.rejects(startPetstore({ [name]: value }), expected)
  }

  test(`${name} may be ${mustBe}, or undefined as if omitted`, async () => {
    for (const value of [undefined, ...good]) {
      if (/port/i.test(name) && value === 65_535) continue // it may be in use
      const options = { logStream: new FakeStream(), [name]: value }
      await (await startPetstore(options)).close()
      if (name in OPTIONS) createPetstore(options)
    }
  })

  test(`${name} of the wrong type is a TypeError, out of range a RangeError`, async () => {
    for (const value of [null, ...misshapen]) await rejects(value, 'TypeError')
    for (const value of outOfRange) await rejects(value, 'RangeError')
  })
}

test('an invalid option is rejected before any file is opened', async () => {
  const folder = folderOf()
  await assert.rejects(startPetstore({ snapshot: `${folder}/pets.json`, port: -1 }), RangeError)
  assert.deepEqual(readdirSync(folder), [])
})

test('options must be an object, and a value is shown on one line', async () => {
  const others = { Null: null, String: 'port', Number: 8080, Boolean: true, Array: [KEY_RULE] }
  for (const [kind, given] of Object.entries(others))
    await assertRejected(given, `options must be an object (got ${kind})`)
  const array = { maxRequests: [{ a: { b: 1 } }, 'x'.repeat(100), 3, 4, 5] }
  await assertRejected(array, /^maxRequests \[ \[Object\], 'x+', 3, 4, 5 \] must be /)
})

test('store is refused with snapshot, maxStore and storePerKey', async () => {
  const store = new MemoryStore(1_000)
  for (const other of [{ maxStore: 1_000 }, { storePerKey: true }])
    await assertRejected({ store, ...other }, `${Object.keys(other)} must be left out with store`)
  const error = { name: 'TypeError', code: 'invalid_option', message: /^snapshot/ }
  await assert.rejects(startPetstore({ store, snapshot: 'pets.json' }), error)
})

test('an unknown option is rejected by a list of the known ones, without its value', async () => {
  const known = 'known are basePath, apiKeys, pets, .*, cors, maxRequests, log[^=]*$'
  const hints = {
    apiKey: String.raw` \(did you mean apiKeys\?\)`,
    basePaths: String.raw` \(did you mean basePath\?\)`,
    constructor: '',
  }
  for (const [name, hint] of Object.entries(hints)) {
    const message = new RegExp(`^options must not have '${name}'${hint}; ${known}`)
    await assertRejected({ [name]: 'a-secret=key' }, message)
  }
  for (const name of Object.keys(SOCKET_OPTIONS)) {
    const given: object = { [name]: 1 }
    const message = new RegExp(`^options must not have '${name}'; ${known}`)
    assert.throws(() => createPetstore(given), { name: 'TypeError', message })
  }
})

test('the first invalid pet is named, with everything that is wrong with it', async () => {
  for (const pets of ['Rex', null, { ...REX }, { length: 1, 0: REX }]) {
    await assertRejected({ pets }, `pets ${show(pets)} must be an array of NewPet`)
  }
  const categoryId = 'categoryId must be an integer'
  const range = `${categoryId} from -2^63 to 2^63-1, beyond ±(2^53-1) in plain digits`
  const status = 'status must be one of available, pending, sold, or left out'
  const all = `name must be a string; ${categoryId}; ${status}`
  const required = `name must be a string; ${categoryId}`.replaceAll('must', 'is required and must')
  // Numbers beyond ±(2^53-1) may have been rounded.
  const large = [2 ** 53, -(2 ** 53), 2n ** 63n, -(2n ** 63n) - 1n, Infinity]
  const values = [null, true, ['sold'], { toString: () => 'sold' }]
  const inherited = JSON.parse('{"__proto__":{"name":"Rex","categoryId":1}}')
  const rows: [why: string, ...pets: unknown[]][] = [
    ['a pet must be an object', undefined, null, [REX], 'Rex', 1, 2n ** 60n],
    [required, {}, { Name: 'Rex', name: undefined }, inherited],
    [categoryId, { ...REX, categoryId: 1.5 }, { ...REX, categoryId: NaN }],
    [range, ...large.map((number) => ({ ...REX, categoryId: number }))],
    [all, ...values.map((value) => ({ name: value, categoryId: value, status: value }))],
    ['id is given, but not in item 1: give all pets an id, or none', { ...REX, id: 2 }],
  ]
  for (const [why, ...wrong] of rows) {
    const message = `pets must be an array of NewPet: in item 2, ${why}`
    for (const one of wrong)
      await assertRejected({ pets: [REX, one, {}] }, message, 'TypeError', 'invalid_pet')
  }
  const hole = { pets: Array(1) }
  await assertRejected(hole, /in item 1, a pet must be an object$/, 'TypeError', 'invalid_pet')
})

/** Flags of node: a heap and the memory of the container, in MiB. */
function memory(heap: number, container: number): string[] {
  const limit = `process.constrainedMemory = () => ${container} * 2 ** 20`
  return [`--max-old-space-size=${heap}`, '--import', `data:text/javascript,${limit}`]
}

const env = { ...process.env, NODE_OPTIONS: '--max-old-space-size=999' } // a flag wins

test('maxStore is a quarter of the heap, at most 256 MiB, less in a small container', async () => {
  for (const { heap, container, maxStore } of [
    { heap: 200, container: Infinity, maxStore: 50 },
    { heap: 2_000, container: Infinity, maxStore: 256 },
    { heap: 2_000, container: 0, maxStore: 256 },
    { heap: 2_000, container: 512, maxStore: 156 },
    { heap: 200, container: 512, maxStore: 50 },
    { heap: 0, container: 128, maxStore: 8 },
  ]) {
    const [node = '', main = ''] = PETSTORE
    const flags = memory(heap, container)
    const server = new Running([node, ...flags, main, '--port', '0', '--api-key', KEY], { env })
    const [, shown] = await server.until(/ pets in memory: 0, --max-store (\d+),/)
    server.process.kill('SIGKILL')
    assert.equal(Number(shown), maxStore * 2 ** 20)
  }
})

test('pets take as many bytes as maxStore by default, and no more', () => {
  const overfill = `
    import { createPetstore } from '${INDEX}'
    const start = '{"id":1,"name":"'
    const end = '","categoryId":1}'
    const fits = 8 * 2 ** 20 - 100 - start.length - end.length
    for (const length of [fits, fits + 1]) {
      createPetstore({ pets: [{ name: 'x'.repeat(length), categoryId: 1 }] })
      console.log('fits')
    }`
  const args = [...memory(0, 128), '--input-type=module', '--eval', overfill]
  const { stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8', env })
  assert.equal(stdout, 'fits\n', stderr)
  assert.ok(stderr.includes(`do not fit into the ${8 * 2 ** 20} bytes`), stderr)
})
