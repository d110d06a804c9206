// Whatever a client sends takes time in proportion to its length, and none of it holds others up.
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { Keyring } from '../../src/http/bearer.ts'
import { createPetstore, startPetstore } from '../../src/petstore/launch.ts'
import { AUTHORIZATION, FakeStream, KEY } from '../support.ts'
import { get, open, post, request } from './raw.ts'

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

const TARGETS: Texts = {
  slashes: filled('/v1', '/'),
  'escaped slashes': filled('/v1/pets/', '%2F'),
  'segments with an escape': filled('/v1', '/%41'),
  'segments that cannot be decoded': filled('/v1', '/%ff'),
  'a host': filled('http://', 'x', '/v1/pets'),
}

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
  'characters beyond ASCII': filled('/', '\xe9'),
  'names and values': filled('/?', 'a=1&'),
  'a name without a value': filled('/?', 'x'),
  'equals signs': filled('/?', '='),
  escapes: filled('/', '%6b'),
  'escapes of JSON': filled('/', '\\u006b'),
  backslashes: filled('/', '\\'),
  'what all keys begin with': filled('/', 'one-prefix-of-all-keys-'),
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
  'one member again and again': filled('{"name":"x"', ',"categoryId":1.5', '}'),
  'many members': (size) => `{${Array.from({ length: size / 12 }, (_, at) => `"m${at}":1.5`)}}`,
}

const KEYS = { json: MANY_KEYS, text: KEYS_OF_MANY_LENGTHS } as const
/** Three doublings; each may take 2.5 times as long. Quadratic time takes 4. */
const MAX_RATIO = 2.5 ** 3
const MIN_ROUNDS = 3
/** Milliseconds of further rounds before a check fails. */
const PATIENCE = 10_000

for (const log of ['json', 'text'] as const) {
  describe(`with a ${log} log, time is linear, below a search through 128 MiB, for`, async () => {
    const options = { apiKeys: [KEY, ...KEYS[log]], log, logStream: new FakeStream() }
    const petstore = await startPetstore(options)
    after(() => petstore.close())
    const searched = 'x'.repeat(2 ** 20)

    function linear(where: string, texts: Texts, size: number, bytesOf: (text: string) => string) {
      for (const [what, textOf] of Object.entries(texts)) {
        test(`${where} of ${what}`, async (t) => {
          const send = (length: number) => {
            const bytes = bytesOf(textOf(length))
            return async () => (await open(t, petstore, bytes)).read()
          }
          const search = () => /[^x]/.test(searched)
          await untilCheap([search, send(size / 8), send(size)], ([searching, small, cost]) => {
            assert.ok(cost < 128 * searching, `${cost} ms, ${searching} ms for the search`)
            assert.ok(cost < MAX_RATIO * small, `${cost} ms, ${small} ms for an eighth of it`)
          })
        })
      }
    }

    linear('a query', QUERIES, 16_000, (query) => get(`/v1/pets?${query}`))
    linear('a target', { ...TARGETS, ...LOGGED }, 16_000, (target) => get(target))
    for (const [name, texts] of Object.entries({ ...HEADERS, 'x-forwarded-for': LOGGED })) {
      linear(name, texts, 16_000, (value) => {
        const headers = { host: 'a', authorization: AUTHORIZATION, [name]: value }
        const lines = Object.entries(headers).map((header) => header.join(': '))
        return request('POST /v1/pets HTTP/1.1', lines)
      })
    }
    linear('a body', BODIES, 65_000, (body) => post(body))
  })
}

type Costs = [searching: number, small: number, large: number]

/** Measures what each run costs at the least, in milliseconds of CPU, until an assertion holds. */
async function untilCheap(
  runs: readonly (() => unknown)[],
  assertCheap: (costs: Costs) => void,
): Promise<void> {
  const least: Costs = [Infinity, Infinity, Infinity]
  const start = performance.now()
  for (let round = 1; ; round++) {
    for (const [at, run] of runs.entries()) {
      const before = process.cpuUsage()
      await run()
      const { user, system } = process.cpuUsage(before)
      least[at] = Math.min(least[at] ?? Infinity, (user + system) / 1_000)
    }
    if (round < MIN_ROUNDS) continue
    try {
      return assertCheap(least)
    } catch (error) {
      if (performance.now() - start > PATIENCE) throw error
    }
  }
}

test('requests take linear time while somebody waits for all of them', async () => {
  const serve = (count: number) => async () => {
    const petstore = createPetstore()
    const all = petstore.waitForRequests(count, { timeout: 600_000 })
    for (let at = 0; at < count; at++) await petstore.fetch(petstore.url)
    await all
  }
  await untilCheap([() => {}, serve(125), serve(1_000)], ([, small, large]) => {
    assert.ok(large < MAX_RATIO * small, `${large} ms, ${small} ms for an eighth of them`)
  })
})

test('an unknown member of a fault costs as much whatever its name begins with', async () => {
  const petstore = createPetstore()
  const inject = (start: string) => () => {
    const fault = JSON.parse(`{"operation":"*","${start.padEnd(2 ** 20, 'x')}":1}`)
    assert.throws(() => petstore.inject(fault), /must not have/)
  }
  await untilCheap([() => {}, inject('z'), inject('o')], ([, other, alike]) => {
    assert.ok(alike < 2 * other, `${alike} ms, ${other} ms for another letter`)
  })
})

test('an unauthorized request costs at most twice as much for 20,000 keys as for one', async () => {
  const checkWith = (keyring: Keyring) => () => {
    for (let count = 0; count < 1_000; count++)
      keyring.authorize(`Bearer one-prefix-of-all-keys-x${count}`)
  }
  const runs = [[KEY], MANY_KEYS].map((keys) => checkWith(new Keyring(keys)))
  await untilCheap([() => {}, ...runs], ([, one, many]) => {
    assert.ok(many < 2 * one, `${many} ms, ${one} ms for one key`)
  })
})

/** What takes long where the keys begin alike, or a text is redacted again and again. */
const COSTLY: Record<string, (size: number) => string> = {
  'what all keys begin with': filled('', 'x'),
  'what all keys begin with, apart': filled('', `${'x'.repeat(300)} `),
  'the escapes of a key': filled('', '%78'),
  'many names': (size) => Array.from({ length: size / 9 }, (_, at) => `n${at}`).join('":1.5,"'),
}

test('no head or body takes more than 50 ms, however long the keys are', async (t) => {
  const apiKeys = Array.from({ length: 249 }, (_, at) => `${'x'.repeat(at + 7)}y`)
  const options = { apiKeys, storePerKey: true, strict: true, controlPort: 0 } as const
  const logStream = new FakeStream()
  const petstore = await startPetstore({ ...options, log: 'json', logStream })
  t.after(() => petstore.close())
  const key = `Authorization: Bearer ${petstore.apiKey}`
  for (const [what, textOf] of Object.entries(COSTLY)) {
    const name = textOf(65_000).slice(0, 65_000)
    const target = textOf(16_000)
      .slice(0, 16_000)
      .replaceAll(/[ ":,]/g, '&')
    const inBody = `{"name":"x","categoryId":1,"${name.replace(/[",:.\d]+$/, '')}":1}`
    const length = `Content-Length: ${inBody.length}`
    const texts = {
      [`a body of ${what}`]: request('POST /v1/pets HTTP/1.1', ['Host: x', key, length], inBody),
      [`a query of ${what}`]: request(`GET /v1/pets?${target} HTTP/1.1`, ['Host: x', key]),
      [`a path of ${what}, without a key`]: request(`GET /v1/${target} HTTP/1.1`, ['Host: x']),
    }
    for (const [which, bytes] of Object.entries(texts)) {
      const send = async () => (await open(t, petstore, bytes)).read()
      await untilCheap([() => {}, () => {}, send], ([, , cost]) => {
        assert.ok(cost < 50, `${cost} ms for ${which}`)
      })
    }
  }
})
