import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseJson } from '../../src/pets/json.ts'
import { type NewPet, PET_STATUSES, petJson, validateNewPet, validateNewPets } from '../../src/pets/pet.ts'

const REX: NewPet = { name: 'Rex', categoryId: 1 }

// Each pet, and its JSON behind `{"id":7,"name":`.
const VALID: [what: string, pet: NewPet, json: string][] = [
  ['without a status', REX, '"Rex","categoryId":1}'],
  ['that is available', { ...REX, status: 'available' }, '"Rex","categoryId":1,"status":"available"}'],
  ['that is pending', { ...REX, status: 'pending' }, '"Rex","categoryId":1,"status":"pending"}'],
  ['in another order', { status: 'sold', categoryId: 1, name: 'Rex' }, '"Rex","categoryId":1,"status":"sold"}'],
  ['with an empty name', { ...REX, name: '' }, '"","categoryId":1}'],
  ['with a long name', { ...REX, name: '🐕'.repeat(10_000) }, `"${'🐕'.repeat(10_000)}","categoryId":1}`],
  ['with lone surrogates', { ...REX, name: '\udc15\ud83d' }, '"\\udc15\\ud83d","categoryId":1}'],
  [
    'with controls and quotes',
    { ...REX, name: '"\\\n\u0000\u007f\u2028é' },
    '"\\"\\\\\\n\\u0000\u007f\u2028é","categoryId":1}',
  ],
  ['with é in two ways', { ...REX, name: 'e\u0301\u00e9' }, '"e\u0301\u00e9","categoryId":1}'],
  ['of category 0', { ...REX, categoryId: 0 }, '"Rex","categoryId":0}'],
  ['of category -1', { ...REX, categoryId: -1 }, '"Rex","categoryId":-1}'],
  ['of category 2^53-1', { ...REX, categoryId: 2 ** 53 - 1 }, '"Rex","categoryId":9007199254740991}'],
  ['of category -(2^53-1)', { ...REX, categoryId: 1 - 2 ** 53 }, '"Rex","categoryId":-9007199254740991}'],
  ['of category 2^53', { ...REX, categoryId: 2n ** 53n }, '"Rex","categoryId":9007199254740992}'],
  ['of category 2^63-1', { ...REX, categoryId: 2n ** 63n - 1n }, '"Rex","categoryId":9223372036854775807}'],
  ['of category -2^63', { ...REX, categoryId: -(2n ** 63n) }, '"Rex","categoryId":-9223372036854775808}'],
]

for (const [what, pet, json] of VALID) {
  test(`a pet ${what} is valid, and its JSON is exact`, () => {
    assert.deepEqual(validateNewPet({ ...pet }), { ok: true, value: pet })
    assert.equal(petJson(7, pet), `{"id":7,"name":${json}`)
    const read = parseJson(petJson(999_999_999_999_999, pet))
    assert.deepEqual(read, { ok: true, value: { id: 999_999_999_999_999, ...pet } })
  })
}

test('minus zero is category 0', () =>
  assert.equal(petJson(1, { name: '', categoryId: -0 }), '{"id":1,"name":"","categoryId":0}'))

const OBJECT = 'a pet must be an object'
const NAME = 'name must be a string'
const NO_NAME = 'name is required and must be a string'
const CATEGORY_ID = 'categoryId must be an integer from -2^63 to 2^63-1, beyond ±(2^53-1) in plain digits'
const NO_CATEGORY_ID = CATEGORY_ID.replace('must', 'is required and must')
const STATUS = 'status must be one of available, pending, sold, or left out'

const INVALID: [issues: string[], ...inputs: unknown[]][] = [
  [[OBJECT], null, undefined, [], [REX], 'Rex', 1, 2n ** 60n, true],
  [[NO_NAME, NO_CATEGORY_ID], {}, JSON.parse('{"__proto__":{"name":"Rex","categoryId":1}}')],
  [[NO_NAME], { categoryId: 1 }, { Name: 'Rex', categoryId: 1 }],
  [[NAME], ...[null, 1, {}, ['Rex']].map((name) => ({ ...REX, name }))],
  [[NO_CATEGORY_ID], { name: 'Rex' }],
  [[CATEGORY_ID], ...[null, '1', [1], true, 1.5, NaN, Infinity].map((categoryId) => ({ ...REX, categoryId }))],
  // Numbers beyond ±(2^53-1) may have been rounded.
  [[CATEGORY_ID], ...[2 ** 53, -(2 ** 53), 2n ** 63n, -(2n ** 63n) - 1n].map((categoryId) => ({ ...REX, categoryId }))],
  [[STATUS], ...[null, '', 'Sold', 'sold ', ['sold'], 0, 'toString'].map((status) => ({ ...REX, status }))],
  [[NAME, CATEGORY_ID, STATUS], { name: 1, categoryId: 'x', status: 7 }],
  [[NO_NAME, STATUS], { categoryId: 1, status: 'dead' }],
  [[CATEGORY_ID, STATUS], { name: 'Rex', categoryId: 1.5, status: 'dead' }],
]

for (const [issues, ...inputs] of INVALID) {
  test(`${inputs.length} inputs are refused: ${issues.join('; ')}`, () => {
    for (const input of inputs) assert.deepEqual(validateNewPet(input), { ok: false, issues })
  })
}

test('unknown members are left behind, and later changes of the input do not reach the pet', () => {
  const input = JSON.parse('{"id":7,"name":"Rex","Name":"x","categoryId":1,"tags":["a"],"__proto__":{"status":"sold"}}')
  const result = validateNewPet(input)
  input.name = 'Bella'
  assert.deepEqual(result, { ok: true, value: REX })
})

test('the statuses are those of the contract', () => assert.deepEqual(PET_STATUSES, ['available', 'pending', 'sold']))

test('validateNewPets() takes an array of pets, in their order and without unknown members', () => {
  const tom: NewPet = { name: 'Tom', categoryId: 2n ** 60n, status: 'sold' }
  assert.deepEqual(validateNewPets([]), { ok: true, value: [] })
  assert.deepEqual(validateNewPets([REX, { ...tom, id: 9 }, REX]), { ok: true, value: [REX, tom, REX] })
})

test('validateNewPets() names the first invalid item by its position, with all that is wrong with it', () => {
  for (const [input, issue] of [
    [{}, 'it is not an array'],
    [{ length: 1, 0: REX }, 'it is not an array'],
    ['[]', 'it is not an array'],
    [null, 'it is not an array'],
    [[REX, { ...REX, name: 1 }, {}], `in item 2, ${NAME}`],
    [[{}, REX], `in item 1, ${NO_NAME}; ${NO_CATEGORY_ID}`],
    [[REX, REX, [REX]], `in item 3, ${OBJECT}`],
    [Array(1), `in item 1, ${OBJECT}`],
  ]) {
    assert.deepEqual(validateNewPets(input), { ok: false, issues: [issue] })
  }
})
