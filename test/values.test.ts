import assert from 'node:assert/strict'
import { tmpdir } from 'node:os'
import { describe, test } from 'node:test'
import { KEY_MUST_BE } from '../src/http/bearer.ts'
import { integer, oneOf, text } from '../src/rules.ts'
import { bit, bytes, checkKey, digits, readKeysFile, readSeed, UsageError, word } from '../src/values.ts'
import { temporaryFile } from './support.ts'

interface Parser {
  name: string
  parse: (text: string) => unknown
  accepted: readonly (readonly [text: string, value: unknown])[]
  refused: readonly string[]
  mustBe: string
}

const PARSERS: readonly Parser[] = [
  {
    name: 'digits(integer(10, 20))',
    parse: digits(integer(10, 20)),
    accepted: [
      ['10', 10],
      ['015', 15],
      ['20', 20],
    ],
    refused: ['9', '21', '', ' 15', '15 ', '+15', '-15', '15.0', '1e1', '0xf', '١٥', '15\n', '1000000000'],
    mustBe: 'must be an integer from 10 to 20',
  },
  {
    name: 'bytes(2m)',
    parse: bytes(integer(1, 2 * 2 ** 20), '2m'),
    accepted: [
      ['1', 1],
      ['1023', 1023],
      ['1k', 1024],
      ['3K', 3072],
      ['2m', 2_097_152],
      ['2M', 2_097_152],
      ['2097152', 2_097_152],
      ['000000000000001', 1],
    ],
    refused: [
      '0',
      '0k',
      '2097153',
      '2049k',
      '1g',
      '1G',
      '999999999999999g',
      '9999999999999999',
      '',
      'k',
      '-1',
      '1.5k',
      '1kb',
      '1 k',
      '1t',
    ],
    mustBe: 'must be a number of bytes from 1 to 2m; k, m or g behind it multiplies by 1024',
  },
  {
    name: 'word(text())',
    parse: word(text(/^ab+$/, 'an a and b')),
    accepted: [['abb', 'abb']],
    refused: ['', 'a', 'ab\n', 'AB'],
    mustBe: 'must be an a and b',
  },
  {
    name: 'word(oneOf())',
    parse: word(oneOf(['one', 'two'])),
    accepted: [
      ['one', 'one'],
      ['two', 'two'],
    ],
    refused: ['', 'One', 'one ', 'one, two'],
    mustBe: 'must be one of one, two',
  },
  {
    name: 'bit()',
    parse: bit,
    accepted: [
      ['1', true],
      ['0', false],
    ],
    refused: ['', '2', 'true', 'false', 'on', '01'],
    mustBe: 'must be one of 0, 1',
  },
]

for (const { name, parse, accepted, refused, mustBe } of PARSERS) {
  describe(name, () => {
    for (const [text, value] of accepted) {
      test(`reads ${JSON.stringify(text)} as ${String(value)}`, () => assert.equal(parse(text), value))
    }
    for (const text of refused) {
      test(`refuses ${JSON.stringify(text)}`, () => assert.throws(() => parse(text), new UsageError(mustBe)))
    }
  })
}

describe('checkKey()', () => {
  for (const key of ['a'.repeat(8), 'a'.repeat(256), 'AZaz09-._~+/=', 'abcdefg==']) {
    test(`accepts ${key.slice(0, 16)} of ${key.length} characters`, () => assert.equal(checkKey(key), key))
  }

  const refused: readonly [key: string, shown: string][] = [
    ['', '""'],
    ['a'.repeat(7), '"aaaaaaa"'],
    ['a'.repeat(257), '"aaa…"'],
    ['correct horse battery', '"cor…"'],
    ['abcdefg=h', '"abc…"'],
    ['========', '"===…"'],
    ['schlüssel', '"sch…"'],
  ]
  for (const [key, shown] of refused) {
    test(`refuses ${JSON.stringify(key.slice(0, 24))} of ${key.length} characters and shows no more of it than ${shown}`, () => {
      const message = `${shown} (${key.length} characters) must be ${KEY_MUST_BE}`
      assert.throws(() => checkKey(key), new UsageError(message))
    })
  }
})

const NOT_UTF8 = Buffer.from([0x5b, 0xff, 0x5d])

/** Asserts that a file cannot be read, in the same words for every reason but the system's own. */
function assertUnreadable(read: () => unknown, reason: RegExp): void {
  assert.throws(read, (error) => {
    assert.ok(error instanceof UsageError)
    assert.match(error.message, /^must be a file of UTF-8 text that can be read: /)
    assert.match(error.message, reason)
    return true
  })
}

for (const [name, read] of [
  ['readSeed()', readSeed],
  ['readKeysFile()', readKeysFile],
] as const) {
  describe(name, () => {
    test('refuses a file that is not there', () => assertUnreadable(() => read('/no/such/file'), /ENOENT/))
    test('refuses a folder', () => assertUnreadable(() => read(tmpdir()), /EISDIR/))
    test('refuses an empty path', () => assertUnreadable(() => read(''), /ENOENT/))
    test('refuses bytes that are not UTF-8', (t) => {
      assertUnreadable(() => read(temporaryFile(t, NOT_UTF8)), /utf-8/)
    })
  })
}

describe('readSeed()', () => {
  test('reads animals, exact over the whole of int64, and leaves unknown members behind', (t) => {
    const path = temporaryFile(
      t,
      `[
        {"name":"Rex","categoryId":9223372036854775807,"status":"sold"},
        {"name":"Søren 😀","categoryId":-9223372036854775808},
        {"name":"","categoryId":9007199254740993,"id":7,"status":"available"}
      ]`,
    )
    assert.deepEqual(readSeed(path), [
      { name: 'Rex', categoryId: 9223372036854775807n, status: 'sold' },
      { name: 'Søren 😀', categoryId: -9223372036854775808n },
      { name: '', categoryId: 9007199254740993n, status: 'available' },
    ])
  })

  test('reads an empty array, and passes over a byte order mark', (t) => {
    assert.deepEqual(readSeed(temporaryFile(t, '\ufeff[]\n')), [])
  })

  const refused: readonly [what: string, content: string, message: RegExp][] = [
    ['an empty file', '', /^must hold a JSON array of NewPet: ./],
    ['what is not JSON', '[{"name":"Rex",}]', /^must hold a JSON array of NewPet: ./],
    ['two values', '[] []', /^must hold a JSON array of NewPet: ./],
    ['an object', '{"name":"Rex","categoryId":1}', /^must hold a JSON array of NewPet$/],
    ['null', 'null', /^must hold a JSON array of NewPet$/],
    [
      'an item that is no pet, by its number',
      '[{"name":"Rex","categoryId":1},{"name":2,"status":"lost"}]',
      /^must hold a JSON array of NewPet: in item 2, name must be .*; categoryId is required .*; status must be /,
    ],
    ['an item that is no object', '[null]', /in item 1, a pet must be an object$/],
    [
      'a categoryId beyond int64',
      '[{"name":"Rex","categoryId":9223372036854775808}]',
      /in item 1, categoryId must be an integer/,
    ],
  ]
  for (const [what, content, message] of refused) {
    test(`refuses ${what}`, (t) => {
      assert.throws(
        () => readSeed(temporaryFile(t, content)),
        (error) => error instanceof UsageError && message.test(error.message),
      )
    })
  }
})

describe('readKeysFile()', () => {
  const accepted: readonly [what: string, content: string, keys: string[]][] = [
    ['one key without a line end', 'first-key', ['first-key']],
    ['a key a line', 'first-key\nsecond-key\n', ['first-key', 'second-key']],
    [
      'comments, empty lines and space around keys',
      '# ours\n\n  first-key \t# of Ann\n\tsecond-key#of Bob\n   \n',
      ['first-key', 'second-key'],
    ],
    ['lines that end as on Windows', 'first-key\r\n# ours\r\nsecond-key\r\n', ['first-key', 'second-key']],
    ['a byte order mark', '\ufefffirst-key\n', ['first-key']],
    ['the shortest and the longest key', `${'a'.repeat(8)}\n${'b'.repeat(256)}`, ['a'.repeat(8), 'b'.repeat(256)]],
  ]
  for (const [what, content, keys] of accepted) {
    test(`reads ${what}`, (t) => assert.deepEqual(readKeysFile(temporaryFile(t, content)), keys))
  }

  const refused: readonly [what: string, content: string, message: string][] = [
    ['an empty file', '', 'must hold at least one key'],
    ['a file of comments', '# first-key\n\n', 'must hold at least one key'],
    ['a key too short', 'a-good-key\n\nshorter', `must hold one key a line: line 3 must be ${KEY_MUST_BE}`],
    ['a key too long', 'a'.repeat(257), `must hold one key a line: line 1 must be ${KEY_MUST_BE}`],
    ['two keys in a line', 'first-key second-key', `must hold one key a line: line 1 must be ${KEY_MUST_BE}`],
    ['a comma behind a key', 'first-key,\n', `must hold one key a line: line 1 must be ${KEY_MUST_BE}`],
  ]
  for (const [what, content, message] of refused) {
    test(`refuses ${what}, and shows nothing of it`, (t) => {
      assert.throws(() => readKeysFile(temporaryFile(t, content)), new UsageError(message))
    })
  }
})
