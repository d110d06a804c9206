import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { BOOLEAN, checkMembers, integer, oneOf, type Rules, shape, text } from '../src/rules.ts'

const RULES: Rules = {
  count: integer(-1, 3),
  word: text(/^[a-z]+$/, 'a word in small letters'),
  side: oneOf(['left', 'right']),
  isOn: BOOLEAN,
  list: shape('a list', (value): value is unknown[] => Array.isArray(value)),
  secret: { ...text(/^x+$/, 'a text of x'), isSecret: true },
}

function check(input: unknown): void {
  checkMembers('things', input, RULES)
}

describe('checkMembers()', () => {
  const good: object[] = [
    {},
    { count: -1, word: 'a', side: 'left', isOn: false, list: [], secret: 'xx' },
    { count: 3, word: 'abc', side: 'right', isOn: true, list: [undefined] },
    { count: undefined, secret: undefined },
    Object.assign(Object.create(null), { count: 0 }),
  ]
  for (const input of good) test(`takes ${JSON.stringify(input)}`, () => check(input))

  const refused: readonly [input: unknown, error: typeof TypeError | typeof RangeError, message: string][] = [
    [undefined, TypeError, 'things undefined must be an object'],
    [null, TypeError, 'things null must be an object'],
    ['count', TypeError, "things 'count' must be an object"],
    [7n, TypeError, 'things 7n must be an object'],
    [{ size: 1 }, TypeError, "things must not have 'size'; known are count, word, side, isOn, list, secret"],
    [{ toString: 1 }, TypeError, "things must not have 'toString'; known are count, word, side, isOn, list, secret"],
    [['a'], TypeError, "things must not have '0'; known are count, word, side, isOn, list, secret"],
    [{ count: '1' }, TypeError, "count '1' must be an integer from -1 to 3"],
    [{ count: 1n }, TypeError, 'count 1n must be an integer from -1 to 3'],
    [{ count: null }, TypeError, 'count null must be an integer from -1 to 3'],
    [{ count: -2 }, RangeError, 'count -2 must be an integer from -1 to 3'],
    [{ count: 4 }, RangeError, 'count 4 must be an integer from -1 to 3'],
    [{ count: 0.5 }, RangeError, 'count 0.5 must be an integer from -1 to 3'],
    [{ count: Number.NaN }, RangeError, 'count NaN must be an integer from -1 to 3'],
    [{ count: Infinity }, RangeError, 'count Infinity must be an integer from -1 to 3'],
    [{ word: ['a'] }, TypeError, "word [ 'a' ] must be a word in small letters"],
    [{ word: '' }, RangeError, "word '' must be a word in small letters"],
    [{ word: 'a\n' }, RangeError, "word 'a\\n' must be a word in small letters"],
    [{ side: 1 }, TypeError, 'side 1 must be one of left, right'],
    [{ side: 'Left' }, RangeError, "side 'Left' must be one of left, right"],
    [{ isOn: 1 }, TypeError, 'isOn 1 must be true or false'],
    [{ list: { length: 0 } }, TypeError, 'list { length: 0 } must be a list'],
    [{ list: new Map() }, TypeError, 'list Map(0) {} must be a list'],
    [{ secret: ['xyz'] }, TypeError, 'secret must be a text of x'],
    [{ secret: 'xyz' }, RangeError, 'secret must be a text of x'],
    [{ count: 0, word: 'A', side: 'up' }, RangeError, "word 'A' must be a word in small letters"],
  ]
  for (const [input, error, message] of refused) {
    test(`throws a ${error.name}: ${message}`, () => assert.throws(() => check(input), { name: error.name, message }))
  }

  test('shows of a long value only its beginning, on one line', () => {
    assert.throws(
      () => check({ word: 'A'.repeat(10_000) }),
      ({ message }: Error) => message.length < 200,
    )
    assert.throws(() => check({ count: Array(10_000).fill(1) }), {
      message: 'count [ 1, 1, 1, ... 9997 more items ] must be an integer from -1 to 3',
    })
    assert.throws(() => check({ count: { a: { b: { c: 1 } } } }), {
      message: 'count { a: [Object] } must be an integer from -1 to 3',
    })
  })
})
