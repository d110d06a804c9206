// JSON with exact integers.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseJson, parseJsonBytes } from '../../src/pets/json.ts'
import { validateNewPet } from '../../src/pets/pet.ts'
import { Random, SEED } from '../random.ts'

function parsed(text: string): unknown {
  const result = parseJson(text)
  return result.ok ? result.value : assert.fail(`${result.reason} in ${text.slice(0, 200)}`)
}

function categoryIdOf(source: string): number | bigint | undefined {
  const pet = validateNewPet(parsed(`{"name":"","categoryId":${source}}`))
  return pet.ok ? pet.value.categoryId : undefined
}

const LONG = '9007199254740993'
const ZEROS = '0'.repeat(60_000)
/** Numbers as they are written, by the categoryId that they are, if any. */
const NUMBERS: [categoryId: number | bigint | undefined, sources: string][] = [
  [2 ** 53 - 1, '9007199254740991 9007199254740991.0 9007199254740991e0 90071992547409910e-1'],
  [-(2 ** 53 - 1), '-9007199254740991 -90071992547409910e-1'],
  [2n ** 53n, '9007199254740992'],
  [2n ** 53n + 1n, LONG],
  [-(2n ** 53n) - 1n, `-${LONG}`],
  [2n ** 63n - 1n, '9223372036854775807'],
  [-(2n ** 63n), '-9223372036854775808'],
  [1, `1 1.0 1.000000000000000000000000 1e0 1e+0 10e-1 10E-1 1000.00e-3 0.0010e+3 1.${ZEROS}`],
  [1, `1${ZEROS}e-60000 0.${ZEROS.slice(1)}1e60000`],
  [-1, '-1 -1.0 -1e0 -0.1e1'],
  [125, '12.5e1 1.25E2 1250e-1'],
  [1e15, '1e15 1E+15'],
  [0, '0 0.0 0e0 0e-5 0e999999999999999999999 0.000e-999999999999999999999'],
  [-0, '-0 -0.0 -0e1'],
  // Beyond ±(2^53-1) with a fraction or an exponent, or beyond an int64.
  [undefined, '9007199254740992.0 9007199254740992e0 -9007199254740992.0 1e16 1e18 1e400 -1e400'],
  [undefined, `9223372036854775807.0 9223372036854775808 -9223372036854775809 1${ZEROS}`],
  [undefined, `12345678901234567890123 1e999999999999999999999 1e${'9'.repeat(60_000)}`],
  // Not integral, even where JSON.parse would round it.
  [undefined, '1.5 -0.5 1.05e1 10.01e1 1e-1 101e-1 1000e-4 1E-400 1e-999999999999999999999'],
  [undefined, `0.9999999999999999999999 1.0000000000000000000001 1000000000.00000001`],
  [undefined, `4503599627370497.5 9007199254740990.99999 9007199254740993e-1 0.${ZEROS}1`],
  [undefined, `1.${ZEROS}1 1${ZEROS}e-60001`],
]

test('a categoryId is exact: rounded by nothing, and refused where it is no int64', () => {
  for (const [categoryId, sources] of NUMBERS) {
    for (const source of sources.split(' ')) {
      assert.equal(categoryIdOf(source), categoryId, source.slice(0, 100))
      if (categoryId !== undefined) assert.equal(parsed(source), categoryId)
    }
  }
})

const STRINGS = [
  ...[LONG, `-${LONG}`, '1.50', '1e5', '"', '\\', `\\"${LONG}\\"`, `",${LONG},"`, `${LONG}\\`],
  ...[`{"a":${LONG},"b":"\\"${LONG}"}`, `${LONG} "${LONG}" ${LONG}`, `\n${LONG}\t${LONG}\u0000`],
]

test('a text is read among long numbers, many numbers, and at any depth', () => {
  for (const string of STRINGS)
    assert.deepEqual(parsed(`[${JSON.stringify(string)},${LONG}]`), [string, BigInt(LONG)])
  const numbers = parsed(`[${'7,'.repeat(60_000)}${LONG}]`)
  assert.deepEqual(numbers, [...Array<number>(60_000).fill(7), BigInt(LONG)])
  for (const [open, close] of [
    ['[', ']'],
    ['{"a":', '}'],
  ] as const) {
    let value = parsed(open.repeat(10_000) + LONG + close.repeat(10_000))
    for (let depth = 0; depth < 10_000; depth++) value = Object.values(Object(value))[0]
    assert.equal(value, BigInt(LONG))
  }
  const members = parsed(`{"__proto__":${LONG},"a":1,"a":${LONG},"toString":1.0}`)
  const expected = [
    ['__proto__', BigInt(LONG)],
    ['a', BigInt(LONG)],
    ['toString', 1],
  ]
  assert.deepEqual(Object.entries(Object(members)), expected)
})

test('a text that is no JSON is refused with a reason that quotes nothing of it', () => {
  for (const [text, reason] of [
    ['', /^Unexpected end of JSON input$/],
    ['\ufeff[]', /^it must not begin with a byte order mark$/],
    ['{"a-secret":1,}', /^\w[^"]*$/],
    ['a-secret at position 1', /^it is not valid JSON$/],
    [`{"a-secret":${LONG}`, /^\w[^"]*$/],
    ['"\n"', /^Bad control character in string literal in JSON at position 1$/],
  ] as const) {
    const result = parseJson(text)
    assert.match(result.ok ? 'it is valid' : result.reason, reason)
    assert.ok(!JSON.stringify(result).includes('secret'))
  }
  // Everything in it but the punctuation is outside ASCII, and so is known again in a message.
  const text = '{"ключ":"тайна","ещё":["тайна","\\"тайна\\"",{"тайна":7}],"\u2028":"тайна"}'
  for (let at = 0; at < text.length; at++) {
    for (const broken of ['', ...'",\\\n]}:7-ж', 'жж', ', "', ',\n..."ж', "'жж'"]) {
      for (const rest of [text.slice(at), text.slice(at + 1), '']) {
        const result = parseJson(text.slice(0, at) + broken + rest)
        assert.match(result.ok ? 'it is valid' : result.reason, /^\w[ !#-~]+$/)
      }
    }
  }
})

test('bytes must be UTF-8', () => {
  const reason = 'it is not valid UTF-8'
  for (const bytes of [
    [0x22, 0xff, 0x22],
    [0x22, 0xed, 0xa0, 0x80, 0x22],
    [0x22, 0xc3],
  ])
    assert.deepEqual(parseJsonBytes(Buffer.from(bytes)), { ok: false, reason })
  assert.deepEqual(parseJsonBytes(Buffer.from('"é\u{1f436}"')), { ok: true, value: 'é\u{1f436}' })
})

test(`500 texts are read right, and what JSON.parse refuses is refused (SEED=${SEED})`, () => {
  const random = new Random()
  for (let count = 0; count < 500; count++) {
    const { text, value } = randomJson(random)
    const label = `SEED=${SEED} count=${count} ${text}`
    assert.deepEqual(parseJson(text), { ok: true, value }, label)
    const at = random.integer(0, text.length)
    const mark = random.pick('"', '\\', '0', '-', '.', 'e', '[', '}', ',')
    const broken = text.slice(0, at) + mark + text.slice(at + 1)
    if (parseJson(broken).ok) JSON.parse(broken)
    else assert.throws(() => JSON.parse(broken), label)
  }
})

function randomJson(random: Random, depth = 0): { text: string; value: unknown } {
  const length = depth < 4 ? random.integer(0, 4) : 0
  const items = Array.from({ length }, () => randomJson(random, depth + 1))
  const string = random.chance(0.3) ? random.pick('', ...STRINGS) : random.string()
  // Without backslashes: after a text that had one in a name, JSON.parse of Node 24 and 26 can take
  // an escape for that name (nodejs/node#63785).
  const name = string.replaceAll('\\', '')
  const names = items.map(() => random.pick(name, 'a', '7', '__proto__', LONG, 'toString'))
  const members = items.map(({ text }, at) => `${JSON.stringify(names[at])}:${text}`)
  const int64 = random.int64()
  const { text, value } = random.pick<{ text: string; value: unknown }>(
    { text: `[${items.map(({ text }) => text)}]`, value: items.map(({ value }) => value) },
    {
      text: `{${members}}`,
      value: Object.fromEntries(items.map((one, at) => [names[at], one.value])),
    },
    { text: JSON.stringify(string), value: string },
    { text: `${int64}`, value: int64 },
    { text: 'null', value: null },
  )
  const space = random.pick('', '', '', ' ', '\n\t', '\r\n')
  return { text: space + text + space, value }
}
