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

function categoryIdOf(source: string): number | bigint | undefined {
  const pet = validateNewPet(parsed(`{"name":"Rex","categoryId":${source}}`))
  return pet.ok ? pet.value.categoryId : undefined
}

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
  [undefined, '9007199254740992.0', '9007199254740992e0', '-9007199254740992.0', '9223372036854775807.0', '1e16'],
  [undefined, '123456789012345678e0', '1e18', '1e400', '-1e400', '1e999999999999999999999', `1e${'9'.repeat(60_000)}`],
  [undefined, '7'.repeat(60_000), `1${ZEROS}`],
  [undefined, '1.5', '-0.5', '1.05e1', '1e-1', '1E-400', '1e-999999999999999999999', '1000e-4', '101e-1', '10.01e1'],
  [undefined, '0.9999999999999999999999', '1.0000000000000000000001', '1000000000.00000001', '4503599627370497.5'],
  [undefined, '9007199254740990.99999', '9007199254740993e-1', `0.${ZEROS}1`, `1.${ZEROS}1`, `1${ZEROS}e-60001`],
]

test('parseJson() reads a number with a fraction or an exponent as the int64 that it is, or as none', () => {
  for (const [categoryId, ...sources] of WITH_FRACTION_OR_EXPONENT) {
    for (const source of sources) {
      assert.equal(categoryIdOf(source), categoryId, source.slice(0, 100))
      if (categoryId !== undefined) assert.equal(parsed(source), categoryId)
    }
  }
})

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

test('parseJson() quotes at most one character of what is not JSON', () => {
  for (const text of ['nul', 'hunter2', '[object Object]', "'a'", '{a:1}', '01', '{}{}', '"a\nb"', '\ufeff{}']) {
    const result = parseJson(text)
    assert.match(result.ok ? '' : (result.issues[0] ?? ''), /^\w(?!yntaxError).+/)
    assert.ok(result.ok || text.length <= 3 || !result.issues[0]?.includes(text))
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

/** A number that is no integer, though it may be rounded to one. */
function unlessRounded(text: string): { text: string; value: number } {
  return { text, value: Number.isSafeInteger(Number(text)) ? NaN : Number(text) }
}

test(`parseJson() reads 2,000 random texts as they are meant, and refuses what JSON.parse refuses (SEED=${SEED})`, () => {
  const random = new Random(SEED)
  for (let count = 0; count < 2_000; count++) {
    const { text, value } = randomJson(random)
    assert.deepEqual(parseJsonBytes(Buffer.from(text)), { ok: true, value }, `SEED=${SEED} count=${count} ${text}`)
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
  const bound =
    random.pick([2n ** 53n, -(2n ** 53n), 2n ** 63n - 2n, -(2n ** 63n) + 1n]) + BigInt(random.integer(-1, 1))
  const int64 = random.chance(0.2) ? bound : random.int64() >> BigInt(random.integer(0, 63))
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
