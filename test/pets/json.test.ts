import assert from 'node:assert/strict'
import { randomInt } from 'node:crypto'
import { test } from 'node:test'
import { parseJson, parseJsonBytes } from '../../src/pets/json.ts'
import { validateNewPet } from '../../src/pets/pet.ts'
import { Random } from '../support.ts'

const SEED = Number(process.env['SEED'] ?? randomInt(2 ** 31))
const LONG = '9007199254740993'

function parsed(text: string): unknown {
  const result = parseJson(text)
  assert.ok(result.ok, result.ok ? '' : `${result.issues} in ${text.slice(0, 200)}`)
  return result.value
}

/** Whether a categoryId written like this is an int64, and which one. */
function categoryIdOf(source: string): number | bigint | undefined {
  const pet = validateNewPet(parsed(`{"name":"Rex","categoryId":${source}}`))
  return pet.ok ? pet.value.categoryId : undefined
}

test('parseJson() reads int64 exactly, as a number up to ±(2^53-1) and as a bigint beyond', () => {
  const sources = ['0', '7', '-7', '999999999999999', '1000000000000000', '-123456789012345678']
  for (let exponent = 0n; exponent <= 63n; exponent++) {
    for (const offset of [-2n, -1n, 0n, 1n, 2n]) {
      sources.push(`${2n ** exponent + offset}`, `${-(2n ** exponent) + offset}`)
    }
  }
  for (const source of sources) {
    const exact = BigInt(source)
    const value = exact >= -(2n ** 53n) + 1n && exact < 2n ** 53n ? Number(source) : exact
    assert.equal(categoryIdOf(source), BigInt.asIntN(64, exact) === exact ? value : undefined, source)
    if (BigInt.asIntN(64, exact) === exact) {
      assert.deepEqual(parsed(`[${source},{"${source}": ${source} }]`), [value, { [source]: value }])
    }
  }
  assert.ok(Object.is(parsed('-0'), -0))
})

test('parseJson() makes no int64 of an integer beyond, but the number that is nearest', () => {
  for (const source of ['9223372036854775808', '-9223372036854775809', '9999999999999999999', `-1${'0'.repeat(29)}`]) {
    assert.equal(categoryIdOf(source), undefined, source)
    assert.equal(Number(parsed(source)), Number(source))
  }
  assert.equal(parsed('10000000000000000000'), 1e19)
})

const ZEROS = '0'.repeat(60_000)
// By the categoryId that they are; undefined where they are none.
const WITH_FRACTION_OR_EXPONENT: [categoryId: number | undefined, ...sources: string[]][] = [
  [1, '1.0', '1.000000000000000000000000', '10e-1', '10E-1', '1000.00e-3', '0.001e3', '0.0010e+3', '1e0', '1e+0'],
  [1, `1.${ZEROS}`, `1${ZEROS}e-60000`, `0.${ZEROS.slice(1)}1e60000`],
  [-1, '-1.0', '-1e0', '-0.1e1'],
  [125, '12.5e1', '1.25E2', '1250e-1'],
  [1e15, '1e15', '1E+15'],
  [0, '0.0', '0e0', '0e-5', '0e999999999999999999999', '0.000e-999999999999999999999'],
  [-0, '-0.0', '-0e1'],
  [9_007_199_254_740_991, '9007199254740991.0', '9007199254740991e0', '90071992547409910e-1'],
  [-9_007_199_254_740_991, '-90071992547409910e-1'],
  // Beyond ±(2^53-1) only plain digits are exact.
  [undefined, '9007199254740992.0', '9007199254740992e0', '-9007199254740992.0', '9223372036854775807.0', '1e16'],
  [undefined, '123456789012345678e0', '1e18', '1e400', '-1e400', '1e999999999999999999999', `1e${'9'.repeat(60_000)}`],
  [undefined, '7'.repeat(60_000), `1${ZEROS}`],
  // These are no integers, although some are rounded to one.
  [undefined, '1.5', '-0.5', '1.05e1', '1e-1', '1e-400', '1e-999999999999999999999', '1000e-4', '101e-1', '10.01e1'],
  [undefined, '0.9999999999999999999999', '1.0000000000000000000001', '1000000000.00000001', '4503599627370497.5'],
  [undefined, '9007199254740990.99999', '9007199254740993e-1', `0.${ZEROS}1`, `1.${ZEROS}1`, `1${ZEROS}e-60001`],
]

for (const [categoryId, ...sources] of WITH_FRACTION_OR_EXPONENT) {
  test(`parseJson() reads ${sources.map((source) => source.slice(0, 30)).join(', ')} as ${categoryId ?? 'no int64'}`, () => {
    for (const source of sources) {
      assert.equal(categoryIdOf(source), categoryId, source.slice(0, 100))
      if (categoryId !== undefined) assert.equal(parsed(source), categoryId)
    }
  })
}

test('parseJson() reads 60,000 short numbers beside a long one, and a long one inside 30,000 arrays or objects', () => {
  const numbers = parsed(`[${'7,'.repeat(60_000)}${LONG}]`)
  assert.deepEqual(numbers, [...Array<number>(60_000).fill(7), BigInt(LONG)])
  for (const [open, close] of [['[', ']'] as const, ['{"a":', '}'] as const]) {
    let value = parsed(open.repeat(30_000) + LONG + close.repeat(30_000))
    for (let depth = 0; depth < 30_000; depth++) value = Object.values(Object(value))[0]
    assert.equal(value, BigInt(LONG))
  }
})

const STRINGS = [
  ...[LONG, `-${LONG}`, '1.50', '1e5', `${LONG} "${LONG}" ${LONG}`, `\n${LONG}\t${LONG}\u0000`, '"', '\\', '\\\\'],
  ...[`\\"${LONG}\\"`, `",${LONG},"`, `${LONG}\\`, `{"a":${LONG},"b":"\\"${LONG}"}`, `[1.0,${LONG}]`, `true${LONG}`],
]

test('parseJson() leaves numbers in strings and names as they are', () => {
  for (const string of STRINGS) {
    const written = JSON.stringify(string)
    assert.equal(parsed(written), string)
    const text = `[${LONG},${written},{${written}:${LONG}, "${LONG}" : ${written}}]`
    assert.deepEqual(parsed(text), [BigInt(LONG), string, { [string]: BigInt(LONG), [LONG]: string }])
  }
  assert.deepEqual(parsed(String.raw`["\u0039007199254740993","\u0022",${LONG}]`), [LONG, '"', BigInt(LONG)])
})

test('parseJson() reads everything else beside a long number as JSON.parse does', () => {
  const rest = ' \t\r\n[true,false , null,{},[ ],"",{"":[[true]],"e":[false],"E":null}, -1,\r\n0]'
  assert.deepEqual(parsed(`[${rest},${LONG},\t-${LONG}\n] `), [JSON.parse(rest), BigInt(LONG), -BigInt(LONG)])
})

test('parseJson() takes the last of a member given twice, and __proto__ as any other', () => {
  for (const [text, a] of [
    [`{"a":1,"a":${LONG}}`, BigInt(LONG)],
    [`{"a":${LONG},"a":1}`, 1],
    [`{"a":${LONG},"a":"${LONG}"}`, LONG],
    [`{"a":{"b":${LONG}},"\\u0061":${LONG}}`, BigInt(LONG)],
  ] as const) {
    assert.deepEqual(parsed(text), { a })
  }
  for (const categoryId of [1, BigInt(LONG)]) {
    const object = parsed(`{"__proto__":{"name":"Rex","categoryId":${categoryId}}}`)
    assert.deepEqual(Object.getOwnPropertyDescriptor(object, '__proto__')?.value, { name: 'Rex', categoryId })
    assert.equal(Object.getPrototypeOf(object), Object.prototype)
    assert.equal(validateNewPet(object).ok, false)
  }
})

const NOT_JSON = [
  ...['', ' ', '{', '[', '"', 'nul', 'hunter2', 'undefined', 'NaN', '-Infinity', '[object Object]', "'a'", '{a:1}'],
  ...['01', '+1', '-', '1.', '.5', '1e', '0x10', '1_000', `${LONG}n`, '1 2', '{}{}', '[1,]', '{"a":1,}', '"\\x41"'],
  ...['"\\u12g4"', '"a\nb"', '// 1\n1', '\ufeff{}', '\u00a01'],
]

test('parseJson() finds one issue in what is not JSON, and quotes at most one character of it', () => {
  for (const text of NOT_JSON) {
    const result = parseJson(text)
    assert.ok(!result.ok, text)
    assert.equal(result.issues.length, 1)
    assert.match(result.issues[0] ?? '', /^\w(?!yntaxError).+/)
    if (text.length > 3) assert.ok(!result.issues[0]?.includes(text), result.issues[0])
  }
  // Everything in it but the punctuation is outside ASCII, and so is known again in a message.
  const text = '{"ключ":"тайна","ещё":["тайна","\\"тайна\\"",{"тайна":"тайна"}],"\u2028":"тайна"}'
  let refused = 0
  for (let at = 0; at < text.length; at++) {
    for (const broken of ['', ...'",\\\n]}:7-ж', 'жж', ', "', ', "жж', ',\n..."ж', "'жж'"]) {
      for (const rest of [text.slice(at), text.slice(at + 1), '']) {
        const result = parseJson(text.slice(0, at) + broken + rest)
        if (result.ok) continue
        refused++
        assert.ok((result.issues[0]?.match(/[^\x20-\x7e]/g) ?? []).length <= 1, result.issues[0])
      }
    }
  }
  assert.ok(refused > 1_000, `${refused} texts are refused`)
})

test('parseJsonBytes() reads UTF-8, with a replacement character in it too, and names what is not UTF-8', () => {
  const value = ['é漢🐕\ufffd', BigInt(LONG)]
  assert.deepEqual(parseJsonBytes(Buffer.from(`["é漢🐕\ufffd",${LONG}]`)), { ok: true, value })
  for (const bytes of [[0x22, 0xff, 0x22], [0x22, 0xc3, 0x22], [0x22, 0xed, 0xa0, 0x80, 0x22], [0xff]]) {
    assert.deepEqual(parseJsonBytes(Buffer.from(bytes)), { ok: false, issues: ['it is not valid UTF-8'] })
  }
  assert.equal(parseJsonBytes(Buffer.from('{')).ok, false)
})

/** A number that is no integer, though it may be rounded to one. */
function unlessRounded(text: string): { text: string; value: number } {
  return { text, value: Number.isSafeInteger(Number(text)) ? NaN : Number(text) }
}

test(`parseJson() reads 2,000 random texts as they are meant, and refuses what JSON.parse refuses (SEED=${SEED})`, () => {
  const random = new Random(SEED)
  for (let count = 0; count < 2_000; count++) {
    const { text, value } = randomJson(random)
    assert.deepEqual(parsed(text), value, `SEED=${SEED} count=${count} ${text}`)
    const at = random.integer(0, text.length)
    const broken = text.slice(0, at) + random.pick(['"', '\\', '0', '-', '.', 'e', '[', '}', ',']) + text.slice(at + 1)
    const label = `SEED=${SEED} count=${count} ${broken}`
    if (parseJson(broken).ok) JSON.parse(broken)
    else assert.throws(() => JSON.parse(broken), label)
  }
})

/** A random JSON text, and the value that it means. */
function randomJson(random: Random, depth = 0): { text: string; value: unknown } {
  const items = Array.from({ length: depth < 4 ? random.integer(0, 4) : 0 }, () => randomJson(random, depth + 1))
  const string = random.chance(0.3) ? random.pick(STRINGS) : random.string()
  const escaped = string.replace(/[^]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
  // Without backslashes: where a text before had a name with one, JSON.parse of Node 24 and 26 can take an escape for that
  // name (nodejs/node#63785).
  const names = items.map(() => random.pick([string.replaceAll('\\', ''), 'a', '7', '__proto__', LONG, 'toString']))
  const members = items.map(({ text }, at) => `${JSON.stringify(names[at])}:${text}`)
  const int64 = random.int64() >> BigInt(random.integer(0, 63))
  const zeros = '0'.repeat(random.integer(1, 30))
  const { text, value } = random.pick([
    { text: `[${items.map(({ text }) => text)}]`, value: items.map(({ value }) => value) },
    { text: `{${members}}`, value: Object.fromEntries(items.map(({ value }, at) => [names[at], value])) },
    { text: JSON.stringify(string), value: string },
    { text: `"${escaped}"`, value: string },
    { text: 'null', value: null },
    { text: `${int64}`, value: Number.isSafeInteger(Number(int64)) ? Number(int64) : int64 },
    { text: `${int64}.${zeros}`, value: Number(int64) },
    unlessRounded(`${int64}.${zeros}1`),
    unlessRounded(`${int64}.1E-${zeros.length + 20}`),
    { text: `7${zeros}e-${zeros.length}`, value: 7 },
  ])
  const space = random.pick(['', '', '', ' ', '\n\t', '\r\n'])
  return { text: space + text + space, value }
}
