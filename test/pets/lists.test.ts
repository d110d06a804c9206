import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Numbers, Texts } from '../../src/pets/lists.ts'

function textsOf(texts: readonly string[]): Texts {
  const kept = new Texts()
  for (const text of texts) kept.push(text, Buffer.byteLength(text))
  return kept
}

test('Numbers keeps numbers of up to 53 bits over many chunks', () => {
  const numbers = new Numbers()
  const value = (index: number) => index * 2_000_000_000 + 1
  for (let index = 0; index < 3_000; index++) numbers.push(value(index))
  assert.equal(numbers.length, 3_000)
  for (let index = 0; index < 3_000; index++) assert.equal(numbers.at(index), value(index))
})

test('Numbers.firstAbove() finds the place of what is there, of what is between, and of what is beyond', () => {
  const numbers = new Numbers()
  assert.equal(numbers.firstAbove(0), 0)
  for (let index = 0; index < 2_049; index++) numbers.push(index * 10)
  for (const index of [0, 1, 1_022, 1_023, 1_024, 2_047, 2_048]) {
    assert.equal(numbers.firstAbove(index * 10 - 1), index)
    assert.equal(numbers.firstAbove(index * 10), index + 1)
    assert.equal(numbers.firstAbove(index * 10 + 9), index + 1)
  }
  assert.equal(numbers.firstAbove(2 ** 63), 2_049)
  assert.equal(numbers.firstAbove(-1), 0)
})

// The first slab has 4 KiB and the largest usual one 1 MiB; a comma stands before each text.
for (const length of [0, 1, 100, 4_094, 4_095, 4_096, 5_000, 2 ** 20 - 1, 2 ** 20, 3 * 2 ** 20]) {
  test(`Texts keeps texts of ${length} bytes among short ones, each alone and joined to its neighbours`, () => {
    const texts = Array.from({ length: 9 }, (_, at) => (at % 3 === 1 ? String(at).repeat(length) : `{"é":${at}}`))
    const kept = textsOf(texts)
    assert.equal(kept.length, 9)
    for (let from = 0; from < 9; from++) {
      assert.ok(kept.at(from) === texts[from])
      for (let to = from; to <= 9; to++) assert.ok(kept.join(from, to) === texts.slice(from, to).join(','))
    }
  })
}

test('Texts joins texts over slabs of all sizes', () => {
  const texts = Array.from({ length: 60_000 }, (_, at) => `{"id":${at},"name":"漢字"}`)
  assert.ok(textsOf(texts).join(0, texts.length) === texts.join(','))
})
