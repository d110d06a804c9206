import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseJson, parseJsonBytes } from '../../src/pets/json.ts'
import { validateNewPet } from '../../src/pets/pet.ts'
import { Random, SEED, words } from '../support.ts'

const LONG = '9007199254740993'

function parsed(text: string): unknown {
  const result = parseJson(text)
  assert.ok(result.ok, result.ok ? '' : `${result.reason} in ${text.slice(0, 200)}`)
  return result.value
}

function categoryIdOf(source: string): number | bigint | undefined {
  const pet = validateNewPet(parsed(`{"name":"Rex","categoryId":${source}}`))
  return pet.ok ? pet.value.categoryId : undefined
}

const ZEROS = '0'.repeat(60_000)
const TOO_LARGE = `9007199254740992.0 9007199254740992e0 -9007199254740992.0 1e16 1e18 1e400 -1e400
  9223372036854775807.0 123456789012345678e0 1e999999999999999999999 1e${'9'.repeat(60_000)}
  ${'7'.repeat(60_000)} 1${ZEROS}`
const NOT_INTEGRAL = `1.5 -0.5 1.05e1 10.01e1 1e-1 101e-1 1000e-4 1E-400 1e-999999999999999999999
  0.9999999999999999999999 1.0000000000000000000001 1000000000.00000001 4503599627370497.5
  9007199254740990.99999 9007199254740993e-1 0.${ZEROS}1 1.${ZEROS}1 1${ZEROS}e-60001`
/** Numbers with a fraction or an exponent, by the categoryId that they are, if any. */
const NUMBERS: [categoryId: number | undefined, sources: string][] = [
  [1, '1.0 1.000000000000000000000000 1e0 1e+0 10e-1 10E-1 1000.00e-3 0.001e3 0.0010e+3'],
  [1, `1.${ZEROS} 1${ZEROS}e-60000 0.${ZEROS.slice(1)}1e60000`],
  [-1, '-1.0 -1e0 -0.1e1'],
  [125, '12.5e1 1.25E2 1250e-1'],
  [1e15, '1e15 1E+15'],
  [0, '0.0 0e0 0e-5 0e999999999999999999999 0.000e-999999999999999999999'],
  [-0, '-0.0 -0e1'],
  [9_007_199_254_740_991, '9007199254740991.0 9007199254740991e0 90071992547409910e-1'],
  [-9_007_199_254_740_991, '-90071992547409910e-1'],
  [undefined, TOO_LARGE],
  [undefined, NOT_INTEGRAL],
]

for (const [categoryId, sources] of NUMBERS) {
  test(`parseJson() reads ${sources.slice(0, 18)} … as ${categoryId ?? 'no categoryId'}`, () => {
    for (const source of words(sources)) {
      assert.equal(categoryIdOf(source), categoryId, source.slice(0, 100))
      if (categoryId !== undefined) assert.equal(parsed(source), categoryId)
    }
  })
}

test('parseJson() reads a long number among 60,000 short ones and at a depth of 30,000', () => {
  const numbers = parsed(`[${'7,'.repeat(60_000)}${LONG}]`)
  assert.deepEqual(numbers, [...Array<number>(60_000).fill(7), BigInt(LONG)])
  for (const [open, close] of [['[', ']'] as const, ['{"a":', '}'] as const]) {
    let value = parsed(open.repeat(30_000) + LONG + close.repeat(30_000))
    for (let depth = 0; depth < 30_000; depth++) value = Object.values(Object(value))[0]
    assert.equal(value, BigInt(LONG))
  }
})

const STRINGS = [
  ...words(`${LONG} -${LONG} 1.50 1e5 " \\ \\\\ \\"${LONG}\\" ",${LONG}," ${LONG}\\ true${LONG}`),
  ...words(`{"a":${LONG},"b":"\\"${LONG}"} [1.0,${LONG}]`),
  `${LONG} "${LONG}" ${LONG}`,
  `\n${LONG}\t${LONG}\u0000`,
]

test('parseJson() says why a text is not JSON without quoting it', () => {
  // Everything in it but the punctuation is outside ASCII, and so is known again in a message.
  const text = '{"ключ":"тайна","ещё":["тайна","\\"тайна\\"",{"тайна":"тайна"}],"\u2028":"тайна"}'
  let refused = 0
  for (let at = 0; at < text.length; at++) {
    for (const broken of ['', ...'",\\\n]}:7-ж', 'жж', ', "', ', "жж', ',\n..."ж', "'жж'"]) {
      for (const rest of [text.slice(at), text.slice(at + 1), '']) {
        const result = parseJson(text.slice(0, at) + broken + rest)
        if (result.ok) continue
        refused++
        assert.match(result.reason, /^\w[ !#-~]+$/)
      }
    }
  }
  assert.ok(refused > 1_000, `${refused} texts are refused`)
})

test(`parseJson() reads 1,000 texts right and refuses what JSON.parse does (SEED=${SEED})`, () => {
  const random = new Random(SEED)
  for (let count = 0; count < 1_000; count++) {
    const { text, value } = randomJson(random)
    const result = parseJsonBytes(Buffer.from(text))
    assert.deepEqual(result, { ok: true, value }, `SEED=${SEED} count=${count} ${text}`)
    const at = random.integer(0, text.length)
    const mark = random.pick(['"', '\\', '0', '-', '.', 'e', '[', '}', ','])
    const broken = text.slice(0, at) + mark + text.slice(at + 1)
    const label = `SEED=${SEED} count=${count} ${broken}`
    if (parseJson(broken).ok) JSON.parse(broken)
    else assert.throws(() => JSON.parse(broken), label)
  }
})

function randomJson(random: Random, depth = 0): { text: string; value: unknown } {
  const items = Array.from({ length: depth < 4 ? random.integer(0, 4) : 0 }, () =>
    randomJson(random, depth + 1),
  )
  const string = random.chance(0.3) ? random.pick(STRINGS) : random.string()
  // Without backslashes: after a text that had one in a name, JSON.parse of Node 24 and 26 can take
  // an escape for that name (nodejs/node#63785).
  const names = items.map(() =>
    random.pick([string.replaceAll('\\', ''), 'a', '7', '__proto__', LONG, 'toString']),
  )
  const members = items.map(({ text }, at) => `${JSON.stringify(names[at])}:${text}`)
  const pairs = items.map(({ value }, at) => [names[at], value])
  const int64 = random.int64() >> BigInt(random.integer(0, 63))
  const { text, value } = random.pick([
    { text: `[${items.map(({ text }) => text)}]`, value: items.map(({ value }) => value) },
    { text: `{${members}}`, value: Object.fromEntries(pairs) },
    { text: JSON.stringify(string), value: string },
    { text: 'null', value: null },
    { text: `${int64}`, value: Number.isSafeInteger(Number(int64)) ? Number(int64) : int64 },
  ])
  const space = random.pick(['', '', '', ' ', '\n\t', '\r\n'])
  return { text: space + text + space, value }
}
