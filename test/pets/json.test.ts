import assert from 'node:assert/strict'
import { randomInt } from 'node:crypto'
import { test } from 'node:test'
import { parseJson } from '../../src/pets/json.ts'
import { describeIssues, validateNewPet } from '../../src/pets/pet.ts'
import { Random } from '../support.ts'

const SEED = Number(process.env['SEED'] ?? randomInt(2 ** 31))

function parsed(text: string): unknown {
  const result = parseJson(text)
  assert.ok(result.ok, result.ok ? '' : describeIssues(result.issues))
  return result.value
}

/** Whether a categoryId written like this is taken for an int64, and as which. */
function categoryIdOf(source: string): number | bigint | undefined {
  const pet = validateNewPet(parsed(`{"name":"Rex","categoryId":${source}}`))
  return pet.ok ? pet.value.categoryId : undefined
}

const INTEGERS: [source: string, value: number | bigint][] = [
  ['0', 0],
  ['-0', -0],
  ['7', 7],
  ['-7', -7],
  ['999999999999999', 999_999_999_999_999],
  ['1000000000000000', 1_000_000_000_000_000],
  ['9007199254740990', 9_007_199_254_740_990],
  ['9007199254740991', 9_007_199_254_740_991],
  ['9007199254740992', 9_007_199_254_740_992n],
  ['9007199254740993', 9_007_199_254_740_993n],
  ['-9007199254740990', -9_007_199_254_740_990],
  ['-9007199254740991', -9_007_199_254_740_991],
  ['-9007199254740992', -9_007_199_254_740_992n],
  ['-9007199254740993', -9_007_199_254_740_993n],
  ['123456789012345678', 123_456_789_012_345_678n],
  ['9223372036854775806', 9_223_372_036_854_775_806n],
  ['9223372036854775807', 9_223_372_036_854_775_807n],
  ['-9223372036854775807', -9_223_372_036_854_775_807n],
  ['-9223372036854775808', -9_223_372_036_854_775_808n],
]

for (const [source, value] of INTEGERS) {
  test(`parseJson() reads the integer ${source} exactly`, () => {
    assert.equal(parsed(source), value)
    assert.equal(categoryIdOf(source), value)
    assert.deepEqual(parsed(`[${source},{"${source}": ${source} }]`), [value, { [source]: value }])
  })
}

const BEYOND_INT64 = [
  '9223372036854775808',
  '9223372036854775809',
  '-9223372036854775809',
  '9999999999999999999',
  '10000000000000000000',
  '18446744073709551616',
  '-100000000000000000000000000000',
]

for (const source of BEYOND_INT64) {
  test(`parseJson() makes no int64 of ${source}, which is beyond its range`, () => {
    assert.equal(categoryIdOf(source), undefined)
    assert.equal(Number(parsed(source)), Number(source))
  })
}

test('parseJson() reads every power of two and its neighbours exactly', () => {
  for (let exponent = 0n; exponent <= 63n; exponent++) {
    for (const offset of [-2n, -1n, 0n, 1n, 2n]) {
      for (const sign of [-1n, 1n]) {
        const exact = sign * (2n ** exponent + offset)
        const value = categoryIdOf(String(exact))
        const isInt64 = exact >= -(2n ** 63n) && exact < 2n ** 63n
        assert.equal(value === undefined ? undefined : BigInt(value), isInt64 ? exact : undefined, String(exact))
      }
    }
  }
})

const FRACTIONS_AND_EXPONENTS: [source: string, categoryId: number | undefined][] = [
  ['1.0', 1],
  ['-1.0', -1],
  ['1.000000000000000000000000', 1],
  ['10e-1', 1],
  ['10E-1', 1],
  ['1000.00e-3', 1],
  ['0.001e3', 1],
  ['0.0010e+3', 1],
  ['12.5e1', 125],
  ['1e0', 1],
  ['1e15', 1e15],
  ['1E+15', 1e15],
  ['0.0', 0],
  ['-0.0', -0],
  ['0e0', 0],
  ['0e999999999999999999999', 0],
  ['0.000e-999999999999999999999', 0],
  ['9007199254740991.0', 9_007_199_254_740_991],
  ['9007199254740991e0', 9_007_199_254_740_991],
  ['-90071992547409910e-1', -9_007_199_254_740_991],
  ['9007199254740992.0', undefined],
  ['9007199254740992e0', undefined],
  ['-9007199254740992.0', undefined],
  ['123456789012345678e0', undefined],
  ['9223372036854775807.0', undefined],
  ['1e16', undefined],
  ['1e18', undefined],
  ['1e400', undefined],
  ['-1e400', undefined],
  ['1e999999999999999999999', undefined],
  ['1.5', undefined],
  ['-0.5', undefined],
  ['1.05e1', undefined],
  ['1e-1', undefined],
  ['1e-400', undefined],
  ['1e-999999999999999999999', undefined],
  ['1000e-4', undefined],
  ['0.9999999999999999999999', undefined],
  ['1.0000000000000000000001', undefined],
  ['1000000000.00000001', undefined],
  ['9007199254740990.99999', undefined],
  ['9007199254740993e-1', undefined],
]

for (const [source, categoryId] of FRACTIONS_AND_EXPONENTS) {
  test(`parseJson() ${categoryId === undefined ? 'makes no integer of' : `reads ${categoryId} from`} ${source}`, () => {
    assert.equal(categoryIdOf(source), categoryId)
    if (categoryId !== undefined) assert.equal(parsed(source), categoryId)
  })
}

const ZEROS = '0'.repeat(60_000)
const LONG_NUMBERS: [what: string, source: string, categoryId: number | undefined][] = [
  ['an integer of 60,000 digits', '7'.repeat(60_000), undefined],
  ['1 and 60,000 zeros', `1${ZEROS}`, undefined],
  ['1 and 60,000 zeros behind the point', `1.${ZEROS}`, 1],
  ['1 after 60,000 zeros behind the point', `0.${ZEROS}1`, undefined],
  ['1 after 1 and 60,000 zeros behind the point', `1.${ZEROS}1`, undefined],
  ['1 and 60,000 zeros that the exponent takes away', `1${ZEROS}e-60000`, 1],
  ['1 and 60,000 zeros of which the exponent takes one away too many', `1${ZEROS}e-60001`, undefined],
  ['1 after 59,999 zeros that the exponent takes away', `0.${ZEROS.slice(1)}1e60000`, 1],
  ['an exponent of 60,000 digits', `1e${'9'.repeat(60_000)}`, undefined],
]

for (const [what, source, categoryId] of LONG_NUMBERS) {
  test(`parseJson() reads a long number: ${what}`, () => assert.equal(categoryIdOf(source), categoryId))
}

test('parseJson() reads 60,000 short numbers beside a long one', () => {
  const value = parsed(`[${'7,'.repeat(60_000)}9007199254740993]`)
  assert.ok(Array.isArray(value), 'it is an array')
  assert.equal(value.length, 60_001)
  assert.equal(value[59_999], 7)
  assert.equal(value[60_000], 9_007_199_254_740_993n)
})

const LONG = '9007199254740993'
const STRINGS = [
  LONG,
  `-${LONG}`,
  '1.5',
  '1.50',
  `${LONG}.0`,
  '1e5',
  `${LONG} "${LONG}" ${LONG}`,
  `\\`,
  `\\\\`,
  `\\"${LONG}\\"`,
  `"`,
  `",${LONG},"`,
  `${LONG}\\`,
  `\n${LONG}\t${LONG}\u0000`,
  `{"categoryId":${LONG},"name":"\\"${LONG}"}`,
  `[1.0,${LONG}]`,
  `true${LONG}false${LONG}null`,
  '{"$bigint":"9007199254740993"}',
  '9007199254740993n',
]

for (const string of STRINGS) {
  test(`parseJson() leaves the string ${JSON.stringify(string)} as it is`, () => {
    const written = JSON.stringify(string)
    assert.equal(parsed(written), string)
    assert.deepEqual(parsed(`[${LONG},${written},${LONG},${written}]`), [BigInt(LONG), string, BigInt(LONG), string])
    assert.deepEqual(parsed(`{${written}:${LONG}, "${LONG}" : ${written}}`), {
      [string]: BigInt(LONG),
      [LONG]: string,
    })
  })
}

test('parseJson() reads digits and quotes that are written as escapes', () => {
  assert.deepEqual(parsed(String.raw`["\u0039007199254740993","\u0022",${LONG},"\u005c",1.5]`), [
    LONG,
    '"',
    BigInt(LONG),
    '\\',
    NaN,
  ])
})

test('parseJson() keeps true, false, null and empty values beside a long number', () => {
  const text = `{"a":true,"b":false,"c":null,"d":{},"e":[],"f":"","":[[true],[false],[null]],"long":${LONG}}`
  assert.deepEqual(parsed(text), {
    a: true,
    b: false,
    c: null,
    d: {},
    e: [],
    f: '',
    '': [[true], [false], [null]],
    long: BigInt(LONG),
  })
})

test('parseJson() reads a value with white space of every kind around it', () => {
  assert.deepEqual(parsed(` \t\r\n[ \t\r\n${LONG} \t\r\n,\t\r\n -${LONG}\r\n] \t\r\n`), [BigInt(LONG), -BigInt(LONG)])
})

for (const [what, text, expected] of [
  ['a long number after a short one', `{"a":1,"a":${LONG}}`, BigInt(LONG)],
  ['a short number after a long one', `{"a":${LONG},"a":1}`, 1],
  ['a string after a long number', `{"a":${LONG},"a":"${LONG}"}`, LONG],
  ['a long number after an object', `{"a":{"b":${LONG}},"a":${LONG}}`, BigInt(LONG)],
  ['a long number whose name is once written as an escape', `{"\\u0061":1,"a":${LONG}}`, BigInt(LONG)],
] as const) {
  test(`parseJson() takes the last of a member given twice: ${what}`, () =>
    assert.deepEqual(parsed(text), { a: expected }))
}

for (const [what, member, expected] of [
  ['a long number', LONG, BigInt(LONG)],
  ['an object that holds one', `{"name":"Rex","categoryId":${LONG}}`, { name: 'Rex', categoryId: BigInt(LONG) }],
  ['an object of short numbers', `{"name":"Rex","categoryId":1}`, { name: 'Rex', categoryId: 1 }],
] as const) {
  test(`parseJson() reads a member named __proto__ as any other: ${what}`, () => {
    const value = parsed(`{"__proto__":${member}}`)
    assert.ok(typeof value === 'object' && value !== null, 'it is an object')
    assert.equal(Object.getPrototypeOf(value), Object.prototype)
    assert.deepEqual(Object.getOwnPropertyDescriptor(value, '__proto__')?.value, expected)
    assert.equal(validateNewPet(value).ok, false)
    assert.equal('categoryId' in {}, false)
  })
}

for (const [what, opening, closing] of [
  ['arrays', '[', ']'],
  ['objects', '{"a":', '}'],
] as const) {
  test(`parseJson() reads a long number inside 30,000 nested ${what}`, () => {
    let value = parsed(opening.repeat(30_000) + LONG + closing.repeat(30_000))
    for (let depth = 0; depth < 30_000; depth++) {
      assert.ok(typeof value === 'object' && value !== null, 'it is an object')
      value = Object.values(value)[0]
    }
    assert.equal(value, BigInt(LONG))
  })
}

const NOT_JSON = [
  '',
  ' ',
  '{',
  '[',
  '"',
  'nul',
  'tru',
  'hunter2',
  'undefined',
  'NaN',
  'Infinity',
  '-Infinity',
  '[object Object]',
  "'a'",
  '01',
  '+1',
  '-',
  '1.',
  '.5',
  '1e',
  '0x10',
  '1_000',
  '9007199254740993n',
  '1 2',
  '{}{}',
  '[1,]',
  '{"a":1,}',
  '{a:1}',
  '"\\x41"',
  '"\\u12g4"',
  '"a\nb"',
  '// 1\n1',
  '\ufeff{}',
  '\u00a01',
]

for (const text of NOT_JSON) {
  test(`parseJson() finds one issue in ${JSON.stringify(text)}, which is not JSON`, () => {
    const result = parseJson(text)
    assert.ok(!result.ok, 'it is no value')
    const [issue, ...more] = result.issues
    assert.deepEqual(more, [])
    assert.ok(issue !== undefined && issue.message !== '', 'there is an issue, and it says something')
    assert.deepEqual(issue, { path: '', code: 'syntax', message: issue.message })
    if (text.length > 3) assert.ok(!issue.message.includes(text), issue.message)
  })
}

test('parseJson() quotes at most one character of a text that is not JSON', () => {
  // Everything in it but the punctuation is outside ASCII, and so is known again in a message.
  const text = '{"ключ":"тайна","ещё":["тайна","\\"тайна\\"",{"тайна":"тайна"}],"\u2028":"тайна"}'
  const breaks = ['', ',', ', "', '"', '\\', '\n', ']', '}', ':', '7', '-', 'ж', 'жж', ', "жж', ',\n..."ж', "'жж'"]
  let refused = 0
  for (let at = 0; at < text.length; at++) {
    for (const broken of breaks) {
      for (const rest of [text.slice(at), text.slice(at + 1), '']) {
        const result = parseJson(text.slice(0, at) + broken + rest)
        if (result.ok) continue
        refused++
        const quoted = result.issues[0]?.message.match(/[^\x20-\x7e]/g) ?? []
        assert.ok(quoted.length <= 1, JSON.stringify(result.issues))
      }
    }
  }
  assert.ok(refused > 1_000, `${refused} texts are refused`)
})

/** A random JSON text, and the value that it must be read as. */
interface Written {
  text: string
  value: unknown
}

test(`parseJson() reads 5,000 random texts as they were meant (SEED=${SEED})`, () => {
  const random = new Random(SEED)
  for (let count = 0; count < 5_000; count++) {
    const { text, value } = randomValue(random, 0)
    assert.deepEqual(parsed(text), value, `SEED=${SEED} count=${count} ${text}`)
  }
})

test(`parseJson() finds text valid and broken where JSON.parse does (SEED=${SEED})`, () => {
  const random = new Random(SEED)
  for (let count = 0; count < 5_000; count++) {
    const { text } = randomValue(random, 0)
    const at = random.integer(0, text.length)
    const broken = text.slice(0, at) + random.pick(['"', '\\', '0', '-', '.', 'e', '[', '}', ',']) + text.slice(at + 1)
    assert.equal(parseJson(broken).ok, isJson(broken), `SEED=${SEED} count=${count} ${broken}`)
  }
})

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

function randomValue(random: Random, depth: number): Written {
  const space = random.pick(['', '', '', ' ', '\n\t', '\r\n'])
  const kinds = [randomNumber, randomNumber, randomString, randomWord]
  const kind = depth < 4 ? random.pick([...kinds, randomArray, randomArray, randomObject]) : random.pick(kinds)
  const { text, value } = kind(random, depth)
  return { text: space + text + space, value }
}

function randomArray(random: Random, depth: number): Written {
  const items = Array.from({ length: random.integer(0, 5) }, () => randomValue(random, depth + 1))
  return { text: `[${items.map(({ text }) => text).join(',')}]`, value: items.map(({ value }) => value) }
}

function randomObject(random: Random, depth: number): Written {
  const value = {}
  const members = Array.from({ length: random.integer(0, 5) }, () => {
    // Without backslashes: where a text before had a name with one, JSON.parse of Node 24 and 26 can take an escape for
    // that name (nodejs/node#63785).
    const anyName = randomString(random).value.replaceAll('\\', '')
    const name = random.pick([anyName, 'a', '7', '__proto__', LONG, 'toString'])
    const member = randomValue(random, depth + 1)
    const property = { value: member.value, writable: true, enumerable: true, configurable: true }
    Object.defineProperty(value, name, property)
    return `${JSON.stringify(name)}:${member.text}`
  })
  return { text: `{${members.join(',')}}`, value }
}

function randomString(random: Random): { text: string; value: string } {
  const value = random.chance(0.3) ? random.pick(STRINGS) : random.string()
  const text = random.chance(0.8) ? JSON.stringify(value) : `"${value.replace(/[^]/g, asEscape)}"`
  return { text, value }
}

function asEscape(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`
}

function randomWord(random: Random): Written {
  const value = random.pick([true, false, null])
  return { text: String(value), value }
}

function randomNumber(random: Random): Written {
  const int64 = random.int64() >> BigInt(random.integer(0, 63))
  const integer = String(int64)
  const value = Number.isSafeInteger(Number(integer)) ? Number(integer) : int64
  const zeros = random.integer(1, 30)
  const kinds: Written[] = [
    { text: integer, value },
    { text: `${integer}.${'0'.repeat(zeros)}`, value: Number(integer) },
    { text: `${integer}.${'0'.repeat(zeros)}1`, value: NaN },
  ]
  if (int64 !== 0n) {
    kinds.push({ text: `${integer}${'0'.repeat(zeros)}e-${zeros}`, value: Number(integer) })
    kinds.push({ text: `${integer}E-${random.integer(20, 400)}`, value: NaN })
  }
  return random.pick(kinds)
}
