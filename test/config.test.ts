import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { HELP, readConfig } from '../src/config.ts'
import { KEY_MUST_BE } from '../src/http/bearer.ts'
import type { Config } from '../src/settings.ts'
import { UsageError } from '../src/values.ts'
import { temporaryFile } from './support.ts'

const DEFAULTS: Config = {
  port: 8080,
  host: '127.0.0.1',
  basePath: '/v1',
  apiKey: [],
  apiKeysFile: undefined,
  demo: false,
  seed: undefined,
  snapshot: undefined,
  maxBody: 65_536,
  maxStore: 268_435_456,
  getPet: 'deprecated',
  page: true,
  maxConnections: 10_000,
  log: undefined,
  keepAlive: 75,
  drain: 8,
  cors: undefined,
  controlPort: undefined,
  controlHost: '127.0.0.1',
}

interface Row {
  key: keyof Config
  flag: string
  variable: string
  /** As `--help` shows it, and as a text that stands for it. */
  shown: string
  /** Texts and what they are read as, a bound first and a bound last. */
  good: readonly (readonly [text: string, value: unknown])[]
  bad: readonly string[]
  mustBe: string
}

const BYTES = '; k, m or g behind it multiplies by 1024'

/** The settings whose value is a text behind the flag that is shown whole. */
const TABLE: readonly Row[] = [
  {
    key: 'port',
    flag: '--port',
    variable: 'PORT',
    shown: '8080',
    good: [
      ['0', 0],
      ['1', 1],
      ['65535', 65_535],
    ],
    bad: ['-1', '65536', '80.5', '1e3', '0x50', ' 80', 'http'],
    mustBe: 'must be an integer from 0 to 65535',
  },
  {
    key: 'host',
    flag: '--host',
    variable: 'HOST',
    shown: '127.0.0.1',
    good: [
      ['0.0.0.0', '0.0.0.0'],
      ['::', '::'],
      ['fe80::1%eth0', 'fe80::1%eth0'],
      ['pet-store.example', 'pet-store.example'],
    ],
    bad: ['[::1]', 'http://127.0.0.1', '127.0.0.1/8', 'a b', 'a,b'],
    mustBe: 'must be a host name or an IP address',
  },
  {
    key: 'basePath',
    flag: '--base-path',
    variable: 'PETSTORE_BASE_PATH',
    shown: '/v1',
    good: [
      ['/v2', '/v2'],
      ['/shop/v1', '/shop/v1'],
      ['/.../~a_b-c.d', '/.../~a_b-c.d'],
    ],
    bad: ['/', 'v1', '/v1/', '//v1', '/a//b', '/.', '/v1/..', '/../v1', '/v 1', '/v%31', '/v1?', '/{a}', '/v1\n'],
    mustBe: 'must be a path such as /v1 or /shop/v1: segments of A-Z a-z 0-9 - . _ ~, no slash at the end',
  },
  {
    key: 'maxBody',
    flag: '--max-body',
    variable: 'PETSTORE_MAX_BODY',
    shown: '64k',
    good: [
      ['1', 1],
      ['1000', 1000],
      ['1M', 1_048_576],
      ['256m', 268_435_456],
    ],
    bad: ['0', '257m', '268435457', '1g', '-1', '1.5m', '64kb', 'k'],
    mustBe: `must be a number of bytes from 1 to 256m${BYTES}`,
  },
  {
    key: 'maxStore',
    flag: '--max-store',
    variable: 'PETSTORE_MAX_STORE',
    shown: '256m',
    good: [
      ['1', 1],
      ['1024g', 1024 * 2 ** 30],
    ],
    bad: ['0', '1025g', '1099511627777', 'unlimited'],
    mustBe: `must be a number of bytes from 1 to 1024g${BYTES}`,
  },
  {
    key: 'getPet',
    flag: '--get-pet',
    variable: 'PETSTORE_GET_PET',
    shown: 'deprecated',
    good: [['gone', 'gone']],
    bad: ['Gone', 'removed', 'gone '],
    mustBe: 'must be one of deprecated, gone',
  },
  {
    key: 'maxConnections',
    flag: '--max-connections',
    variable: 'PETSTORE_MAX_CONNECTIONS',
    shown: '10000',
    good: [
      ['1', 1],
      ['1000000', 1_000_000],
    ],
    bad: ['0', '1000001', '10k'],
    mustBe: 'must be an integer from 1 to 1000000',
  },
  {
    key: 'log',
    flag: '--log',
    variable: 'PETSTORE_LOG',
    shown: 'text on a terminal, else json',
    good: [
      ['text', 'text'],
      ['json', 'json'],
      ['off', 'off'],
    ],
    bad: ['JSON', 'on', 'text,json'],
    mustBe: 'must be one of text, json, off',
  },
  {
    key: 'keepAlive',
    flag: '--keep-alive',
    variable: 'PETSTORE_KEEP_ALIVE',
    shown: '75',
    good: [
      ['1', 1],
      ['86400', 86_400],
    ],
    bad: ['0', '86401', '75s'],
    mustBe: 'must be an integer from 1 to 86400',
  },
  {
    key: 'drain',
    flag: '--drain',
    variable: 'PETSTORE_DRAIN',
    shown: '8',
    good: [
      ['0', 0],
      ['86400', 86_400],
    ],
    bad: ['-1', '86401', '0.5'],
    mustBe: 'must be an integer from 0 to 86400',
  },
  {
    key: 'snapshot',
    flag: '--snapshot',
    variable: 'PETSTORE_SNAPSHOT',
    shown: 'off',
    good: [
      ['/data/pets.json', '/data/pets.json'],
      ['pets', 'pets'],
    ],
    bad: [],
    mustBe: 'must be the path of a file',
  },
  {
    key: 'cors',
    flag: '--cors',
    variable: 'PETSTORE_CORS',
    shown: 'off',
    good: [
      ['*', '*'],
      ['https://shop.example', 'https://shop.example'],
      ['http://localhost:3000', 'http://localhost:3000'],
    ],
    bad: [
      'shop.example',
      'https://shop.example/',
      'https://shop.example/a',
      'https://Shop.example',
      'null',
      '**',
      'a b',
    ],
    mustBe: 'must be an origin such as https://shop.example, without a path, or *',
  },
  {
    key: 'controlPort',
    flag: '--control-port',
    variable: 'PETSTORE_CONTROL_PORT',
    shown: 'off',
    good: [
      ['0', 0],
      ['65535', 65_535],
    ],
    bad: ['-1', '65536', 'off'],
    mustBe: 'must be an integer from 0 to 65535',
  },
  {
    key: 'controlHost',
    flag: '--control-host',
    variable: 'PETSTORE_CONTROL_HOST',
    shown: '127.0.0.1',
    good: [['0.0.0.0', '0.0.0.0']],
    bad: ['[::1]', 'a b'],
    mustBe: 'must be a host name or an IP address',
  },
]

/** The settings that a switch of the command line turns. */
const SWITCHES = [
  { key: 'demo', flag: '--demo', variable: 'PETSTORE_DEMO', shown: 'off', turned: true },
  { key: 'page', flag: '--no-page', variable: 'PETSTORE_PAGE', shown: 'on', turned: false },
] as const

/** The settings whose default is no value of theirs. */
const OTHERS = [
  { key: 'apiKey', flag: '--api-key', variable: 'PETSTORE_API_KEYS', shown: 'generated' },
  { key: 'apiKeysFile', flag: '--api-keys-file', variable: 'PETSTORE_API_KEYS_FILE', shown: 'none' },
  { key: 'seed', flag: '--seed', variable: 'PETSTORE_SEED', shown: 'none' },
] as const

const ALL = [...TABLE, ...SWITCHES, ...OTHERS]

type Environment = Record<string, string | undefined>

function read(args: readonly string[], env: Environment = {}): Config {
  const config = readConfig(args, env)
  assert.ok(typeof config === 'object' && !('isHealthcheck' in config))
  return config
}

function assertRefused(args: readonly string[], env: Environment, message: string): void {
  assert.throws(() => readConfig(args, env), new UsageError(message))
}

test('readConfig() gives every default where nothing is given', () => {
  assert.deepEqual(readConfig([], {}), DEFAULTS)
  assert.deepEqual(Object.keys(DEFAULTS).sort(), ALL.map(({ key }) => key).sort())
})

test('readConfig() takes an empty variable, and one that is undefined, for none', () => {
  const named = (text: string | undefined) => Object.fromEntries(ALL.map(({ variable }) => [variable, text]))
  assert.deepEqual(readConfig([], named('')), DEFAULTS)
  assert.deepEqual(readConfig([], named(undefined)), DEFAULTS)
})

test('readConfig() passes over variables that it does not know', () => {
  assert.deepEqual(readConfig([], { PETSTORE_PORT: 'x', PATH: '/bin', port: '1' }), DEFAULTS)
})

for (const { key, flag, variable, shown, good, bad, mustBe } of TABLE) {
  describe(`${flag} and ${variable}`, () => {
    const [otherText, other] = good[0] ?? ['', undefined]

    for (const [text, value] of good) {
      test(`may be ${text}`, () => {
        const expected = { ...DEFAULTS, [key]: value }
        assert.deepEqual(read([flag, text]), expected)
        assert.deepEqual(read([`${flag}=${text}`]), expected)
        assert.deepEqual(read([], { [variable]: text }), expected)
      })
    }

    for (const text of bad) {
      test(`must not be ${JSON.stringify(text)}: the line names it, the value and what it must be`, () => {
        assertRefused([flag, text], {}, `${flag} ${JSON.stringify(text)} ${mustBe}`)
        assertRefused([], { [variable]: text }, `${variable} ${JSON.stringify(text)} ${mustBe}`)
      })
    }

    test('must not be empty as a flag', () => assertRefused([`${flag}=`], {}, `${flag} "" ${mustBe}`))

    test('are won by the flag, and a bad variable behind it is not even read', () => {
      assert.equal(read([flag, otherText], { [variable]: shown })[key], other)
      assert.equal(read([flag, otherText], { [variable]: '?' })[key], other)
    })

    if (DEFAULTS[key] !== undefined) {
      test('are won by the flag also when its value equals the default', () => {
        assert.equal(read([flag, shown], { [variable]: otherText })[key], DEFAULTS[key])
      })
    }
  })
}

for (const { key, flag, variable, turned } of SWITCHES) {
  describe(`${flag} and ${variable}`, () => {
    const [on, off] = turned ? ['1', '0'] : ['0', '1']

    test('turn the setting by the flag or by the variable', () => {
      assert.deepEqual(read([flag]), { ...DEFAULTS, [key]: turned })
      assert.deepEqual(read([], { [variable]: on }), { ...DEFAULTS, [key]: turned })
      assert.deepEqual(read([], { [variable]: off }), DEFAULTS)
    })

    test('are won by the flag', () => assert.equal(read([flag], { [variable]: off })[key], turned))

    test('take no value behind the flag, and only 0 or 1 in the variable', () => {
      assertRefused([`${flag}=1`], {}, `${flag} "1" must be without a value`)
      for (const text of ['2', 'true', 'on', ' 1']) {
        assertRefused([], { [variable]: text }, `${variable} ${JSON.stringify(text)} must be one of 0, 1`)
      }
    })
  })
}

describe('--api-key and PETSTORE_API_KEYS', () => {
  test('hold one key or many: the flag again and again, the variable with commas', () => {
    assert.deepEqual(read(['--api-key', 'first-key']).apiKey, ['first-key'])
    assert.deepEqual(read(['--api-key', 'first-key', '--api-key=second-key']).apiKey, ['first-key', 'second-key'])
    assert.deepEqual(read([], { PETSTORE_API_KEYS: 'first-key' }).apiKey, ['first-key'])
    assert.deepEqual(read([], { PETSTORE_API_KEYS: 'first-key, second-key' }).apiKey, ['first-key', 'second-key'])
  })

  test('are won by the flag: no key of the variable is valid then', () => {
    assert.deepEqual(read(['--api-key', 'first-key'], { PETSTORE_API_KEYS: 'second-key' }).apiKey, ['first-key'])
  })

  const refused: readonly [text: string, shown: string][] = [
    ['1234567', '"1234567" (7 characters)'],
    ['a'.repeat(257), '"aaa…" (257 characters)'],
    ['first-key,', '"" (0 characters)'],
    ['first-key,not a key', '"not…" (9 characters)'],
    ['a-secret-with-é', '"a-s…" (15 characters)'],
  ]
  for (const [text, shown] of refused) {
    test(`must not be ${JSON.stringify(text.slice(0, 20))}, of which the line shows only so much as its owner needs`, () => {
      assertRefused(['--api-key', text], {}, `--api-key ${shown} must be ${KEY_MUST_BE}`)
      assertRefused([], { PETSTORE_API_KEYS: text }, `PETSTORE_API_KEYS ${shown} must be ${KEY_MUST_BE}`)
    })
  }

  test('must not be empty as a flag, where an unset variable of the shell left it so', () => {
    assertRefused(['--api-key', ''], {}, `--api-key "" (0 characters) must be ${KEY_MUST_BE}`)
  })
})

describe('--api-keys-file and PETSTORE_API_KEYS_FILE', () => {
  test('name a file, whose keys are read', (t) => {
    const path = temporaryFile(t, 'first-key\nsecond-key')
    const expected = { path, keys: ['first-key', 'second-key'] }
    assert.deepEqual(read(['--api-keys-file', path]).apiKeysFile, expected)
    assert.deepEqual(read([], { PETSTORE_API_KEYS_FILE: path }).apiKeysFile, expected)
    assert.deepEqual(read(['--api-keys-file', path], { PETSTORE_API_KEYS_FILE: '/no' }).apiKeysFile, expected)
  })

  test('must not name a file with a bad line', (t) => {
    const path = temporaryFile(t, 'first-key\nshort')
    const mustHold = `${JSON.stringify(path)} must hold one key a line: line 2 must be ${KEY_MUST_BE}`
    assertRefused(['--api-keys-file', path], {}, `--api-keys-file ${mustHold}`)
    assertRefused([], { PETSTORE_API_KEYS_FILE: path }, `PETSTORE_API_KEYS_FILE ${mustHold}`)
  })

  test('must not name a file that cannot be read', () => {
    const message = /^--api-keys-file "\/no" must be a file of UTF-8 text that can be read: ENOENT/
    assert.throws(() => readConfig(['--api-keys-file', '/no'], {}), { message })
  })
})

describe('--seed and PETSTORE_SEED', () => {
  test('name a file, whose animals are read', (t) => {
    const path = temporaryFile(t, '[{"name":"Rex","categoryId":9223372036854775807}]')
    const expected = [{ name: 'Rex', categoryId: 9223372036854775807n }]
    assert.deepEqual(read(['--seed', path]).seed, expected)
    assert.deepEqual(read([], { PETSTORE_SEED: path }).seed, expected)
    assert.deepEqual(read(['--seed', path], { PETSTORE_SEED: '/no' }).seed, expected)
  })

  test('must not name a file that holds anything else', (t) => {
    const path = temporaryFile(t, '{}')
    const mustHold = `${JSON.stringify(path)} must hold a JSON array of NewPet`
    assertRefused(['--seed', path], {}, `--seed ${mustHold}`)
    assertRefused([], { PETSTORE_SEED: path }, `PETSTORE_SEED ${mustHold}`)
  })
})

describe('--healthcheck', () => {
  const asked = (host: string, port: number) => ({ host, port, isHealthcheck: true })

  test('asks for host and port of a server, by flag, by variable or by default', () => {
    assert.deepEqual(readConfig(['--healthcheck'], {}), asked('127.0.0.1', 8080))
    assert.deepEqual(readConfig(['--healthcheck'], { PORT: '81', HOST: '::' }), asked('::', 81))
    assert.deepEqual(readConfig(['--port', '82', '--healthcheck'], { PORT: '81', HOST: '' }), asked('127.0.0.1', 82))
  })

  test('reads no other setting: a bad one, or a file that is missing, does not matter', () => {
    const bad = ALL.filter(({ key }) => key !== 'port' && key !== 'host')
    const flags = bad.map(({ flag }) => (SWITCHES.some((one) => one.flag === flag) ? flag : `${flag}=?`))
    const env = Object.fromEntries(bad.map(({ variable }) => [variable, '/no/?']))
    assert.deepEqual(readConfig(['--healthcheck', ...flags], env), asked('127.0.0.1', 8080))
    assert.deepEqual(readConfig(['--healthcheck'], env), asked('127.0.0.1', 8080))
  })

  test('is refused with a bad host or port, and with an unknown flag', () => {
    assertRefused(['--healthcheck'], { PORT: 'x' }, 'PORT "x" must be an integer from 0 to 65535')
    assertRefused(['--healthcheck', '--host=a b'], {}, '--host "a b" must be a host name or an IP address')
    assertRefused(['--healthchek'], {}, 'unknown flag --healthchek; did you mean --healthcheck?')
  })

  test('gives way to --help and --version', () => {
    assert.equal(readConfig(['--healthcheck', '--help'], { PORT: 'x' }), 'help')
    assert.equal(readConfig(['--healthcheck', '--version'], {}), 'version')
  })
})

describe('--help and --version', () => {
  test('ask for a text, whatever else is given', () => {
    assert.equal(readConfig(['--help'], {}), 'help')
    assert.equal(readConfig(['--version'], {}), 'version')
    assert.equal(readConfig(['--version', '--port', 'x', '--help'], { PORT: 'y' }), 'help')
    assert.equal(readConfig(['--version', '--port', 'x'], { PORT: 'y' }), 'version')
  })

  test('do not hide an unknown flag', () => {
    assertRefused(['--help', '--prot'], {}, 'unknown flag --prot; did you mean --port?')
  })

  test('are listed by --help themselves', () => {
    assert.match(HELP, /^ {2}--help {2}.*\n {2}--version {2}.*\n$/m)
  })

  for (const { flag, variable, shown } of ALL) {
    test(`--help lists ${flag}, ${variable} and the default: ${shown}`, () => {
      const line = HELP.split('\n').find((one) => one.startsWith(`  ${flag} `))
      assert.ok(line !== undefined)
      assert.ok(line.includes(` ${variable} `), line)
      assert.ok(line.endsWith(` (${shown})`), line)
    })
  }

  for (const { key, flag, shown } of TABLE) {
    if (DEFAULTS[key] === undefined) continue
    test(`--help shows for ${flag} the value that leaving it out gives`, () => {
      assert.deepEqual(read([flag, shown]), DEFAULTS)
    })
  }

  for (const { flag, variable, shown } of SWITCHES) {
    test(`--help shows for ${flag} what leaving it out gives`, () => {
      assert.deepEqual(read([], { [variable]: shown === 'on' ? '1' : '0' }), DEFAULTS)
    })
  }
})
