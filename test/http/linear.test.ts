// Whatever a client sends takes time in proportion to its length, and none of it holds others up.
import assert from 'node:assert/strict'
import type { IncomingMessage } from 'node:http'
import { describe, test } from 'node:test'
import { readListQuery } from '../../src/api/query.ts'
import { Keyring } from '../../src/http/bearer.ts'
import { bodyProblem, echoedHeaders, readRequestId } from '../../src/http/headers.ts'
import { createLog } from '../../src/http/log.ts'
import { malformedProblem } from '../../src/http/malformed.ts'
import { readTarget, Router } from '../../src/http/router.ts'
import { parseJsonBytes } from '../../src/pets/json.ts'
import { createPetstore } from '../../src/petstore.ts'
import { assertLinear, assertRatio } from '../growth.ts'
import { FakeStream, KEY } from '../support.ts'

/** A start, one part again and again up to a size, and an end. */
function filled(start: string, part: string, end = ''): (size: number) => string {
  return (size) => `${start}${part.repeat(size / part.length)}${end}`
}

type Texts = Readonly<Record<string, (size: number) => string>>

const MANY_KEYS = Array.from({ length: 20_000 }, (_, at) => `one-prefix-of-all-keys-${at}`)
const KEYS_OF_MANY_LENGTHS = Array.from({ length: 20 }, (_, at) => 'x'.repeat(at + 8))

const QUERIES: Texts = {
  'many names': filled('', 'a=1&'),
  'one name again and again': filled('limit=1', '&limit=1'),
  digits: filled('after=', '1'),
  escapes: filled('status=', '%25'),
}

const PATHS: Texts = {
  slashes: filled('/v1', '/'),
  'escaped slashes': filled('/v1/pets/', '%2F'),
  'segments with an escape': filled('/v1', '/%41'),
  'segments that cannot be decoded': filled('/v1', '/%ff'),
}
const TARGETS: Texts = { ...PATHS, 'a host': filled('http://', 'x', '/v1/pets') }

const TYPES: Texts = {
  'spaces before a parameter': filled('application/json', ' ', 'x'),
  'spaces before a name': filled('application/json;', ' ', 'x'),
  'spaces after a charset': filled('application/json;charset=utf-8', ' ', 'x'),
  'one long name': filled('application/json;', 'a'),
  'names and spaces': filled('application/json;a', ' a'),
  parameters: filled('application/json', ';a=b'),
  'quotes that do not end': filled('application/json', ';a="'),
  'escaped quotes': filled('application/json;a="', '\\"'),
}

const HEADERS: Readonly<Record<string, Texts>> = {
  'content-type': TYPES,
  host: {
    'a name': filled('', 'x', ' '),
    'digits of a port': filled('a:', '1', 'x'),
    'colons of an IPv6 address': filled('[', ':', 'x'),
  },
  'transfer-encoding': { codings: filled('', 'chunked,'), spaces: filled('x', ' ,') },
  authorization: {
    'a token': filled('Bearer ', 'x'),
    'spaces before a token': filled('Bearer', ' ', 'x'),
  },
  'x-request-id': { letters: filled('', 'x') },
}

const LOGGED: Texts = {
  letters: filled('/', 'x'),
  'control characters': filled('/', '\x01'),
  'characters beyond ASCII': filled('/', '\xe9'),
  'names and values': filled('/?', 'a=1&'),
  'a name without a value': filled('/?', 'x'),
  'equals signs': filled('/?', '='),
  escapes: filled('/', '%6b'),
  'escapes of JSON': filled('/', '\\u006b'),
  backslashes: filled('/', '\\'),
  'what all keys begin with': filled('/', 'one-prefix-of-all-keys-'),
}

function linear<T>(texts: Texts, input: (text: string) => T, run: (input: T) => unknown): void {
  for (const [what, text] of Object.entries(texts))
    test(what, () => assertLinear((size) => input(text(size)), run))
}

describe('time grows linearly with a query of', () => {
  linear(QUERIES, String, readListQuery)
})

describe('time grows linearly with a target of', () => {
  const router = new Router([], '/v1')
  linear(TARGETS, String, (text) => router.match(readTarget(text).path))
})

for (const [name, texts] of Object.entries(HEADERS)) {
  describe(`time grows linearly with ${name} of`, () => {
    const keyring = new Keyring(MANY_KEYS)
    linear(texts, headersOf, (request) => {
      const headers: IncomingMessage['headers'] = request.headers
      malformedProblem(Object.assign(Object.create(null), request))
      bodyProblem(headers, 1)
      echoedHeaders(headers, ['https://shop.example'])
      readRequestId(headers)
      keyring.check(headers.authorization)
    })
  })

  function headersOf(value: string) {
    return { httpVersion: '1.1', headers: { host: 'a', [name]: value }, rawHeaders: [name, value] }
  }
}

const LOGS = { json: MANY_KEYS, text: KEYS_OF_MANY_LENGTHS } as const

for (const format of ['json', 'text'] as const) {
  describe(`time grows linearly with a redacted line of the ${format} log of`, () => {
    const log = createLog(format, new FakeStream())(new Keyring(LOGS[format]))
    linear(LOGGED, String, (target) => {
      const head = { method: 'GET', target, headers: { 'x-forwarded-for': target } }
      log.request?.({ head, reply: { status: 404 }, ms: 1, bytes: 0 })
      void log.flush()
    })
  })
}

const BODIES: Texts = {
  'a fraction of zeros': filled('{"name":"x","categoryId":1.', '0', '1}'),
  'a long exponent': filled('{"name":"x","categoryId":1e', '9', '}'),
  digits: filled('{"name":"x","categoryId":', '1', '}'),
  'numbers with fractions': filled('[1.5', ',1.5', ']'),
  'long numbers': filled('[1', ',11111111111111111', ']'),
  'arrays in arrays': filled('1.5', '['),
  'arrays in arrays that end': (size) => `${'['.repeat(size / 2)}1.5${']'.repeat(size / 2)}`,
  'objects in objects': (size) => `${'{"a":'.repeat(size / 6)}1.5${'}'.repeat(size / 6)}`,
  'escaped letters': filled('{"name":"', '\\u006b', '","categoryId":1.5}'),
  backslashes: filled('{"name":1.5,"a":"', '\\'),
  'escaped quotes': filled('["', '\\"'),
  strings: filled('[1.5', ',""', ']'),
  'wide letters': (size) => `{"name":1.5,"a":"${'ü'.repeat(size / 2 - 20)}"}`,
  'one member again and again': filled('{"name":"x"', ',"categoryId":1.5', '}'),
  'many members': (size) => `{${Array.from({ length: size / 12 }, (_, at) => `"m${at}":1.5`)}}`,
}

describe('time grows linearly with a body of', () => {
  linear(BODIES, (text) => Buffer.from(text), parseJsonBytes)
})

type Call = [path: string, init: RequestInit]

describe('no request costs more than a search through 128 MiB, with 20,000 keys and', () => {
  const log = { log: 'json', logStream: new FakeStream() } as const
  const petstore = createPetstore({ apiKeys: [KEY, ...MANY_KEYS], ...log })
  const json = { ...petstore.headers, 'content-type': 'application/json' }
  const post = (headers: Record<string, string>, body: string): Call => {
    return ['/v1/pets', { method: 'POST', headers: { ...json, ...headers }, body }]
  }
  const text = 'x'.repeat(2 ** 22)

  function cheap(where: string, texts: Texts, size: number, callOf: (text: string) => Call): void {
    for (const [what, textOf] of Object.entries(texts)) {
      test(`${where} of ${what}`, async () => {
        const [path, init] = callOf(textOf(size))
        const most = 32 * (await leastCpu(() => /[^x]/.test(text)))
        const cost = await leastCpu(() => petstore.fetch(`http://any.example${path}`, init))
        assert.ok(cost < most, `${cost} ms, ${most} ms for the search`)
      })
    }
  }

  cheap('a query', QUERIES, 16_000, (query) => [`/v1/pets?${query}`, { headers: json }])
  cheap('a target', { ...PATHS, ...LOGGED }, 16_000, (path) => [path, { headers: json }])
  for (const [name, texts] of Object.entries({ ...HEADERS, 'x-forwarded-for': LOGGED })) {
    const callOf = (value: string) => post({ [name]: value.replace(/[\0-\x1f]/g, '?') }, '{}')
    cheap(name, texts, 16_000, callOf)
  }
  cheap('a body', BODIES, 65_000, (body) => post({}, body))
})

/** The least milliseconds of CPU of several runs. */
async function leastCpu(run: () => unknown): Promise<number> {
  let least = Infinity
  for (let count = 0; count < 5; count++) {
    const before = process.cpuUsage()
    await run()
    const { user, system } = process.cpuUsage(before)
    least = Math.min(least, (user + system) / 1_000)
  }
  return least
}

test('an unauthorized request costs at most twice as much for 20,000 keys as for one', () => {
  const checkWith = (keyring: Keyring) => () => {
    for (let count = 0; count < 100; count++)
      keyring.check(`Bearer one-prefix-of-all-keys-x${count}`)
  }
  assertRatio(2, checkWith(new Keyring([KEY])), checkWith(new Keyring(MANY_KEYS)))
})
