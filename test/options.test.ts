import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { describe, test } from 'node:test'
import { inspect } from 'node:util'
import type { Limits } from '../src/http/limits.ts'
import { type PetstoreOptions, readOptions } from '../src/options.ts'
import { createPetstore, startPetstore } from '../src/petstore.ts'
import { FakeStream, folderOf } from './support.ts'

const LIMITS: Limits = {
  headerBytes: 16_384,
  headersTimeout: 10_000,
  requestTimeout: 30_000,
  stallTimeout: 30_000,
  held: 134_217_728,
  pipelined: 1_000,
  checkInterval: 1_000,
  linger: 2_000,
  drainLinger: 100,
  drainGrace: 100,
  drainLooks: 10,
}

const CREATE_DEFAULTS: PetstoreOptions = {
  basePath: '/v1',
  pets: [],
  maxBody: 65_536,
  maxStore: 268_435_456,
  getPet: 'deprecated',
  page: true,
  journal: 1_000,
  log: 'off',
}

const DEFAULTS: PetstoreOptions = {
  ...CREATE_DEFAULTS,
  port: 0,
  host: '127.0.0.1',
  maxConnections: 10_000,
  keepAlive: 75,
  controlHost: '127.0.0.1',
  limits: LIMITS,
}

interface Row {
  name: keyof PetstoreOptions
  mustBe: string
  /** The bounds first, where there are some. */
  good: readonly unknown[]
  /** What is a TypeError, beside null. */
  misshapen: readonly unknown[]
  /** What is a RangeError: just below and just above the bounds first. */
  outOfRange: readonly unknown[]
}

const NO_NUMBERS = ['1', '', true, 1n, [1]]
const NO_INTEGERS = [0.5, -1, Number.NaN, Infinity]
const HOST = { mustBe: 'a host name or an IP address', misshapen: [127, ['::1']] }
const GOOD_HOSTS = ['127.0.0.1', '0.0.0.0', '::', 'fe80::1%eth0', 'pet-store.example']
const BAD_HOSTS = ['', '[::1]', 'a b', 'a,b', 'http://127.0.0.1', '127.0.0.1/8', '::1\n']

function integers(name: keyof PetstoreOptions, minimum: number, maximum: number): Row {
  const mustBe = `an integer from ${minimum} to ${maximum}`
  const outOfRange = [minimum - 1, maximum + 1, ...NO_INTEGERS]
  return { name, mustBe, good: [minimum, maximum], misshapen: NO_NUMBERS, outOfRange }
}

const CREATE_ROWS: readonly Row[] = [
  {
    name: 'basePath',
    mustBe: 'a path such as /v1 or /shop/v1: segments of A-Z a-z 0-9 - . _ ~, no slash at the end',
    good: ['/v1', '/a', '/shop/eu/v1', '/.../~a_b-c.d'],
    misshapen: [1, ['/v1'], new URL('http://x/v1')],
    outOfRange: ['', '/', 'v1', '/v1/', '//v1', '/a//b', '/.', '/v1/..', '/v 1', '/v%31', '/v1?', '/{a}', '/v1\n'],
  },
  {
    name: 'apiKeys',
    mustBe: 'an array of one key or more, each 8 to 256 characters of A-Z a-z 0-9 - . _ ~ + / with = only at the end',
    good: [['12345678'], ['x'.repeat(256)], ['first-key', 'second-key', 'first-key'], ['Az09-._~+/==']],
    misshapen: ['first-key', [1], ['first-key', null], { 0: 'first-key', length: 1 }, new Set(['first-key']), Array(1)],
    outOfRange: [[], ['1234567'], ['x'.repeat(257)], ['first-key', 'second key'], ['=first-key'], ['first-këy']],
  },
  integers('maxBody', 1, 268_435_456),
  integers('maxStore', 1, 1_099_511_627_776),
  {
    name: 'getPet',
    mustBe: 'one of deprecated, gone',
    good: ['deprecated', 'gone'],
    misshapen: [true, 410],
    outOfRange: ['', 'Gone', 'gone '],
  },
  { name: 'page', mustBe: 'true or false', good: [true, false], misshapen: [0, 'true', {}], outOfRange: [] },
  {
    name: 'cors',
    mustBe: 'an origin such as https://shop.example, without a path, or *',
    good: ['*', 'https://shop.example', 'http://localhost:3000', 'http://[::1]:8080'],
    misshapen: [true, ['*'], new URL('https://shop.example')],
    outOfRange: [
      '',
      'null',
      '**',
      'shop.example',
      'https://shop.example/',
      'https://shop.example/a',
      'https://shop.example:443',
      'https://Shop.example',
      'https://*.example/',
      'https://a.example, https://b.example',
    ],
  },
  integers('journal', 0, 1_000_000),
  {
    name: 'log',
    mustBe: 'one of text, json, off',
    good: ['text', 'json', 'off'],
    misshapen: [false, 1],
    outOfRange: ['', 'JSON', 'on'],
  },
  {
    name: 'logStream',
    mustBe: 'a stream to write to',
    good: [process.stderr, new FakeStream()],
    misshapen: ['stdout', {}, { write: true }, { write() {} }, console.log],
    outOfRange: [],
  },
]

const SOCKET_ROWS: readonly Row[] = [
  integers('port', 0, 65_535),
  { ...HOST, name: 'host', good: GOOD_HOSTS, outOfRange: BAD_HOSTS },
  { name: 'snapshot', mustBe: 'the path of a file', good: ['a', '/a/b'], misshapen: [1, ['a']], outOfRange: [''] },
  integers('maxConnections', 1, 1_000_000),
  integers('keepAlive', 1, 86_400),
  integers('controlPort', 0, 65_535),
  { ...HOST, name: 'controlHost', good: GOOD_HOSTS, outOfRange: BAD_HOSTS },
  { name: 'limits', mustBe: 'an object of limits', good: [LIMITS], misshapen: [1, 'x', true], outOfRange: [] },
]

const ROWS = [...CREATE_ROWS, ...SOCKET_ROWS]

/** Asserts that a petstore is not started with an option, nor made with it where it needs no socket. */
async function assertRefused(options: object, name: 'TypeError' | 'RangeError', message: string): Promise<void> {
  const starting = startPetstore(options)
  starting.then(
    (petstore) => petstore.close(),
    () => {},
  )
  await assert.rejects(starting, { name, message })
  if (CREATE_ROWS.some((row) => row.name in options)) assert.throws(() => createPetstore(options), { name, message })
}

describe('the options', () => {
  test('have their defaults where nothing is given', () => {
    assert.deepEqual(readOptions({}, true), DEFAULTS)
    assert.deepEqual(readOptions({}, false), DEFAULTS)
  })

  test('that are undefined count as left out', () => {
    const ofNothing = (rows: readonly Row[]) => Object.fromEntries(rows.map(({ name }) => [name, undefined]))
    assert.deepEqual(readOptions({ ...ofNothing(ROWS), pets: undefined } as object, true), DEFAULTS)
    assert.deepEqual(readOptions({ ...ofNothing(CREATE_ROWS), pets: undefined } as object, false), DEFAULTS)
  })

  for (const given of [null, 'port', 8080, true]) {
    test(`must not be ${inspect(given)}`, async () => {
      const error = { name: 'TypeError', message: `options ${inspect(given)} must be an object` }
      await assert.rejects(() => Reflect.apply(startPetstore, undefined, [given]), error)
      assert.throws(() => Reflect.apply(createPetstore, undefined, [given]), error)
    })
  }

  test('must not have an unknown name, and the message lists the known ones', async () => {
    const known = 'basePath, apiKeys, pets, maxBody, maxStore, getPet, page, cors, journal, log, logStream'
    const withSocket = `${known}, port, host, snapshot, maxConnections, keepAlive, controlPort, controlHost, limits`
    for (const name of ['Port', 'apiKey', 'drain', 'constructor']) {
      const message = `options must not have '${name}'; known are`
      const given: object = { [name]: 'a-secret-key' }
      await assert.rejects(startPetstore(given), { name: 'TypeError', message: `${message} ${withSocket}` })
      assert.throws(() => createPetstore(given), { name: 'TypeError', message: `${message} ${known}` })
    }
  })

  test('that are wrong are told before anything is opened', async (t) => {
    const folder = folderOf(t)
    await assert.rejects(startPetstore({ snapshot: `${folder}/pets.json`, port: -1 }), RangeError)
    assert.deepEqual(readdirSync(folder), [])
  })
})

for (const { name, mustBe, good, misshapen, outOfRange } of ROWS) {
  describe(`the option ${name}`, () => {
    const shown = (value: unknown) => inspect(value, { depth: 0, maxArrayLength: 3, breakLength: Infinity })
    const label = (value: unknown) => shown(value).slice(0, 40)
    const message = (value: unknown) => `${name} ${name === 'apiKeys' ? '' : `${shown(value)} `}must be ${mustBe}`

    for (const value of good) {
      test(`may be ${label(value)}`, () => assert.deepEqual(readOptions({ [name]: value }, true)[name], value))
    }
    for (const value of [null, ...misshapen]) {
      test(`is of another shape than ${label(value)}: a TypeError says what it must be`, () =>
        assertRefused({ [name]: value }, 'TypeError', message(value)))
    }
    for (const value of outOfRange) {
      test(`has ${label(value)} out of its range: a RangeError says what it must be`, () =>
        assertRefused({ [name]: value }, 'RangeError', message(value)))
    }
  })
}

for (const { name, good } of SOCKET_ROWS) {
  test(`createPetstore() has no option ${name}, which needs a socket`, () => {
    const given: object = { [name]: good[0] }
    assert.throws(
      () => createPetstore(given),
      ({ message }: Error) => {
        return message.startsWith(`options must not have '${name}'; known are basePath, `)
      },
    )
  })
}

describe('the option pets', () => {
  test('is read once: later changes of the array and its animals do not matter, unknown members are left behind', () => {
    const rex = { name: 'Rex', categoryId: 2n ** 63n - 1n, status: 'sold', id: 9 } as const
    const pets = [{ ...rex }]
    const read = readOptions({ pets }, true)
    pets.pop()
    assert.deepEqual(read.pets, [{ name: 'Rex', categoryId: 2n ** 63n - 1n, status: 'sold' }])
  })

  const PREFIX = 'pets must be an array of NewPet: in item'
  const INT64 = 'an integer from -2^63 to 2^63-1, beyond ±(2^53-1) in plain digits'
  const refused: readonly [pets: unknown, message: string][] = [
    ['Rex', "pets 'Rex' must be an array of NewPet"],
    [null, 'pets null must be an array of NewPet'],
    [{ name: 'Rex', categoryId: 1 }, "pets { name: 'Rex', categoryId: 1 } must be an array of NewPet"],
    [[null], `${PREFIX} 1, a pet must be an object`],
    [Array(1), `${PREFIX} 1, a pet must be an object`],
    [
      [{ name: '', categoryId: 1 }, {}],
      `${PREFIX} 2, name is required and must be a string; categoryId is required and must be ${INT64}`,
    ],
    [[{ name: '', categoryId: 2n ** 63n }], `${PREFIX} 1, categoryId must be ${INT64}`],
    [[{ name: '', categoryId: -(2n ** 63n) - 1n }], `${PREFIX} 1, categoryId must be ${INT64}`],
    [[{ name: '', categoryId: 2 ** 53 }], `${PREFIX} 1, categoryId must be ${INT64}`],
    [
      [{ name: '', categoryId: 1, status: 'lost' }],
      `${PREFIX} 1, status must be one of available, pending, sold, or left out`,
    ],
  ]
  for (const [pets, message] of refused) {
    test(`must not be ${inspect(pets, { breakLength: Infinity })}`, () => assertRefused({ pets }, 'TypeError', message))
  }
})

describe('the option limits', () => {
  const MAXIMUM = 2_147_483_647
  for (const name of Object.keys(LIMITS)) {
    test(`${name} is an integer from 0 to ${MAXIMUM}, and leaves the others as they are`, async () => {
      for (const value of [0, 1, MAXIMUM]) {
        // Of these two the first must not be above the second; 0 stands for no limit.
        const other =
          name === 'headersTimeout' ? { requestTimeout: 0 } : name === 'requestTimeout' ? { headersTimeout: 0 } : {}
        const limits = { ...other, [name]: value }
        assert.deepEqual(readOptions({ limits }, true).limits, { ...LIMITS, ...limits })
      }
      for (const value of [-1, MAXIMUM + 1, 0.5, Number.NaN]) {
        const message = `${name} ${value} must be an integer from 0 to ${MAXIMUM}`
        await assertRefused({ limits: { [name]: value } }, 'RangeError', message)
      }
      const message = `${name} '1' must be an integer from 0 to ${MAXIMUM}`
      await assertRefused({ limits: { [name]: '1' } }, 'TypeError', message)
    })

    test(`${name} that is undefined counts as left out`, () => {
      const limits: object = { [name]: undefined }
      assert.deepEqual(readOptions({ limits }, true).limits, LIMITS)
    })
  }

  test('must not have an unknown name', async () => {
    const message = `limits must not have 'bodyBytes'; known are ${Object.keys(LIMITS).join(', ')}`
    await assertRefused({ limits: { bodyBytes: 1 } }, 'TypeError', message)
  })

  test('that contradict each other are refused by name, before anything is opened', async (t) => {
    const folder = folderOf(t)
    const options = { snapshot: `${folder}/pets.json`, limits: { headersTimeout: 200, requestTimeout: 100 } }
    await assert.rejects(startPetstore(options), ({ name, message }: Error) => {
      return name === 'RangeError' && /^headersTimeout 200 must be /.test(message)
    })
    assert.deepEqual(readdirSync(folder), [])
  })
})
