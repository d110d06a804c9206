import assert from 'node:assert/strict'
import { randomInt } from 'node:crypto'
import { test } from 'node:test'
import { parseJsonBytes } from '../../src/pets/json.ts'
import {
  describeIssues,
  isPetStatus,
  type Issue,
  type NewPet,
  PET_STATUSES,
  petJson,
  readUsualPet,
  validateNewPet,
} from '../../src/pets/pet.ts'
import { Random } from '../support.ts'

const SEED = Number(process.env['SEED'] ?? randomInt(2 ** 31))

const NAME = 'must be a string'
const CATEGORY_ID = 'must be an integer from -2^63 to 2^63-1, beyond ±(2^53-1) in plain digits'
const STATUS = 'must be one of available, pending, sold, or left out'

const NOT_AN_OBJECT: Issue = { path: '', code: 'type', message: 'a pet must be an object' }
const NAME_REQUIRED: Issue = { path: 'name', code: 'required', message: `name is required and ${NAME}` }
const NAME_INVALID: Issue = { path: 'name', code: 'invalid', message: `name ${NAME}` }
const CATEGORY_ID_REQUIRED: Issue = {
  path: 'categoryId',
  code: 'required',
  message: `categoryId is required and ${CATEGORY_ID}`,
}
const CATEGORY_ID_INVALID: Issue = { path: 'categoryId', code: 'invalid', message: `categoryId ${CATEGORY_ID}` }
const STATUS_INVALID: Issue = { path: 'status', code: 'invalid', message: `status ${STATUS}` }

const VALID: [what: string, pet: NewPet][] = [
  ['without a status', { name: 'Rex', categoryId: 1 }],
  ['that is available', { name: 'Rex', categoryId: 1, status: 'available' }],
  ['that is pending', { name: 'Rex', categoryId: 1, status: 'pending' }],
  ['that is sold', { name: 'Rex', categoryId: 1, status: 'sold' }],
  ['with an empty name', { name: '', categoryId: 1 }],
  ['with a name of 10,000 characters', { name: '🐕'.repeat(10_000), categoryId: 1 }],
  ['with lone surrogates in its name', { name: '\udc15\ud83d', categoryId: 1 }],
  ['with control characters in its name', { name: '\u0000\n\u001f\u007f\u2028', categoryId: 1 }],
  ['with a name that is written in several ways', { name: 'e\u0301 \u00e9', categoryId: 1 }],
  ['of category 0', { name: 'Rex', categoryId: 0 }],
  ['of category -1', { name: 'Rex', categoryId: -1 }],
  ['of category 2^53-1', { name: 'Rex', categoryId: Number.MAX_SAFE_INTEGER }],
  ['of category -(2^53-1)', { name: 'Rex', categoryId: Number.MIN_SAFE_INTEGER }],
  ['of category 2^53', { name: 'Rex', categoryId: 2n ** 53n }],
  ['of category -2^53', { name: 'Rex', categoryId: -(2n ** 53n) }],
  ['of category 2^63-1', { name: 'Rex', categoryId: 2n ** 63n - 1n }],
  ['of category -2^63', { name: 'Rex', categoryId: -(2n ** 63n) }],
]

for (const [what, pet] of VALID) {
  test(`validateNewPet() accepts a pet ${what}`, () => {
    assert.deepEqual(validateNewPet({ ...pet }), { ok: true, value: pet })
  })
}

const INVALID: [what: string, input: unknown, issues: Issue[]][] = [
  ['null', null, [NOT_AN_OBJECT]],
  ['undefined', undefined, [NOT_AN_OBJECT]],
  ['an empty array', [], [NOT_AN_OBJECT]],
  ['an array of a pet', [{ name: 'Rex', categoryId: 1 }], [NOT_AN_OBJECT]],
  ['a string', 'Rex', [NOT_AN_OBJECT]],
  ['a number', 1, [NOT_AN_OBJECT]],
  ['a bigint', 2n ** 60n, [NOT_AN_OBJECT]],
  ['true', true, [NOT_AN_OBJECT]],
  ['an empty object', {}, [NAME_REQUIRED, CATEGORY_ID_REQUIRED]],
  ['no name', { categoryId: 1 }, [NAME_REQUIRED]],
  ['a name of null', { name: null, categoryId: 1 }, [NAME_INVALID]],
  ['a name that is a number', { name: 1, categoryId: 1 }, [NAME_INVALID]],
  ['a name that is an object', { name: {}, categoryId: 1 }, [NAME_INVALID]],
  ['a name in an array', { name: ['Rex'], categoryId: 1 }, [NAME_INVALID]],
  ['a name in other letters', { Name: 'Rex', categoryId: 1 }, [NAME_REQUIRED]],
  ['no categoryId', { name: 'Rex' }, [CATEGORY_ID_REQUIRED]],
  ['a categoryId of null', { name: 'Rex', categoryId: null }, [CATEGORY_ID_INVALID]],
  ['a categoryId in a string', { name: 'Rex', categoryId: '1' }, [CATEGORY_ID_INVALID]],
  ['a categoryId in an array', { name: 'Rex', categoryId: [1] }, [CATEGORY_ID_INVALID]],
  ['a categoryId of true', { name: 'Rex', categoryId: true }, [CATEGORY_ID_INVALID]],
  ['a categoryId of 1.5', { name: 'Rex', categoryId: 1.5 }, [CATEGORY_ID_INVALID]],
  ['a categoryId of NaN', { name: 'Rex', categoryId: NaN }, [CATEGORY_ID_INVALID]],
  ['a categoryId of Infinity', { name: 'Rex', categoryId: Infinity }, [CATEGORY_ID_INVALID]],
  ['a categoryId of 2^53 that may be rounded', { name: 'Rex', categoryId: 2 ** 53 }, [CATEGORY_ID_INVALID]],
  ['a categoryId of -2^53 that may be rounded', { name: 'Rex', categoryId: -(2 ** 53) }, [CATEGORY_ID_INVALID]],
  ['a categoryId of 2^63', { name: 'Rex', categoryId: 2n ** 63n }, [CATEGORY_ID_INVALID]],
  ['a categoryId of -2^63-1', { name: 'Rex', categoryId: -(2n ** 63n) - 1n }, [CATEGORY_ID_INVALID]],
  ['a status of null', { name: 'Rex', categoryId: 1, status: null }, [STATUS_INVALID]],
  ['an empty status', { name: 'Rex', categoryId: 1, status: '' }, [STATUS_INVALID]],
  ['a status in other letters', { name: 'Rex', categoryId: 1, status: 'Sold' }, [STATUS_INVALID]],
  ['a status with a space', { name: 'Rex', categoryId: 1, status: 'sold ' }, [STATUS_INVALID]],
  ['a status in an array', { name: 'Rex', categoryId: 1, status: ['sold'] }, [STATUS_INVALID]],
  ['a status that is a number', { name: 'Rex', categoryId: 1, status: 0 }, [STATUS_INVALID]],
  ['a status that every object inherits', { name: 'Rex', categoryId: 1, status: 'toString' }, [STATUS_INVALID]],
  ['no name and a wrong status', { categoryId: 1, status: 'dead' }, [NAME_REQUIRED, STATUS_INVALID]],
  [
    'nothing that is right',
    { name: 1, categoryId: 'x', status: 7 },
    [NAME_INVALID, CATEGORY_ID_INVALID, STATUS_INVALID],
  ],
  [
    'members in __proto__ only',
    JSON.parse('{"__proto__":{"name":"Rex","categoryId":1}}'),
    [NAME_REQUIRED, CATEGORY_ID_REQUIRED],
  ],
]

for (const [what, input, issues] of INVALID) {
  test(`validateNewPet() names every wrong member of a pet that is or has ${what}`, () => {
    assert.deepEqual(validateNewPet(input), { ok: false, issues })
  })
}

test('validateNewPet() leaves unknown members behind, an id among them', () => {
  const input: unknown = JSON.parse(
    '{"id":7,"name":"Rex","Name":"x","categoryId":1,"tags":["a"],"__proto__":{"status":"sold"}}',
  )
  const result = validateNewPet(input)
  assert.deepEqual(result, { ok: true, value: { name: 'Rex', categoryId: 1 } })
})

test('validateNewPet() makes a new pet, which later changes of the input do not reach', () => {
  const input = { name: 'Rex', categoryId: 1, status: 'sold' }
  const result = validateNewPet(input)
  input.name = 'Bella'
  assert.ok(result.ok, 'the pet is valid')
  assert.equal(result.value.name, 'Rex')
})

test('describeIssues() joins the sentences of all issues', () => {
  assert.equal(describeIssues([]), '')
  assert.equal(describeIssues([NAME_INVALID]), 'name must be a string')
  assert.equal(
    describeIssues([NAME_REQUIRED, STATUS_INVALID]),
    'name is required and must be a string; status must be one of available, pending, sold, or left out',
  )
})

test('isPetStatus() accepts the three statuses of the contract and nothing else', () => {
  assert.deepEqual(PET_STATUSES, ['available', 'pending', 'sold'])
  assert.equal(PET_STATUSES.every(isPetStatus), true)
  for (const value of ['', 'Sold', 'dead', 'constructor', null, undefined, 0, ['sold'], new String('sold')]) {
    assert.equal(isPetStatus(value), false, String(value))
  }
})

const WRITTEN: [what: string, id: number, pet: NewPet, json: string][] = [
  ['without a status', 1, { name: 'Rex', categoryId: 2 }, '{"id":1,"name":"Rex","categoryId":2}'],
  [
    'whatever order its members have',
    7,
    { status: 'sold', categoryId: 2, name: 'Rex' },
    '{"id":7,"name":"Rex","categoryId":2,"status":"sold"}',
  ],
  [
    'with the greatest id and categoryId',
    Number.MAX_SAFE_INTEGER,
    { name: '', categoryId: 2n ** 63n - 1n },
    '{"id":9007199254740991,"name":"","categoryId":9223372036854775807}',
  ],
  [
    'with the least categoryId',
    1,
    { name: '', categoryId: -(2n ** 63n) },
    '{"id":1,"name":"","categoryId":-9223372036854775808}',
  ],
  ['with minus zero, which is zero', 1, { name: '', categoryId: -0 }, '{"id":1,"name":"","categoryId":0}'],
  [
    'with quotes, backslashes and controls in its name',
    1,
    { name: '"\\\n\u0000é🐕', categoryId: 1 },
    '{"id":1,"name":"\\"\\\\\\n\\u0000é🐕","categoryId":1}',
  ],
  [
    'with lone surrogates, which UTF-8 cannot carry, as escapes',
    1,
    { name: '\udc15\ud83d', categoryId: 1 },
    '{"id":1,"name":"\\udc15\\ud83d","categoryId":1}',
  ],
]

for (const [what, id, pet, json] of WRITTEN) {
  test(`petJson() writes a pet ${what}: id, name, categoryId, status`, () => {
    assert.equal(petJson(id, pet), json)
    const read: unknown = JSON.parse(json)
    assert.ok(typeof read === 'object' && read !== null && 'name' in read, 'it is an object with a name')
    assert.equal(read.name, pet.name)
  })
}

const USUAL: [json: string, pet: NewPet][] = [
  ['{"name":"Rex","categoryId":1}', { name: 'Rex', categoryId: 1 }],
  ['{"name":"","categoryId":0,"status":"sold"}', { name: '', categoryId: 0, status: 'sold' }],
  [
    '{"name": "Rex of Ur", "categoryId": -7, "status": "available"}',
    { name: 'Rex of Ur', categoryId: -7, status: 'available' },
  ],
  ['{"name":"Rex","categoryId":999999999999999}', { name: 'Rex', categoryId: 999_999_999_999_999 }],
  [`{"name":"${'x'.repeat(998)}","categoryId":1}`, { name: 'x'.repeat(998), categoryId: 1 }],
]

for (const [json, pet] of USUAL) {
  test(`readUsualPet() reads ${json.slice(0, 70)}`, () => {
    assert.deepEqual(readUsualPet(Buffer.from(json)), pet)
  })
}

const UNUSUAL: [what: string, json: string][] = [
  ['members in another order', '{"categoryId":1,"name":"Rex"}'],
  ['a member more', '{"name":"Rex","categoryId":1,"age":2}'],
  ['a member twice', '{"name":"Rex","name":"Rex","categoryId":1}'],
  ['an escape', '{"name":"R\\u0065x","categoryId":1}'],
  ['another script', '{"name":"Рекс","categoryId":1}'],
  ['a tab in the name', '{"name":"R\tx","categoryId":1}'],
  ['a category of 16 digits', '{"name":"Rex","categoryId":1000000000000000}'],
  ['category -0', '{"name":"Rex","categoryId":-0}'],
  ['a leading zero', '{"name":"Rex","categoryId":01}'],
  ['a fraction', '{"name":"Rex","categoryId":1.0}'],
  ['a status that is none', '{"name":"Rex","categoryId":1,"status":"lost"}'],
  ['a line break at the end', '{"name":"Rex","categoryId":1}\n'],
  ['1,025 bytes', `{"name":"${'x'.repeat(999)}","categoryId":1}`],
]

for (const [what, json] of UNUSUAL) {
  test(`readUsualPet() leaves ${what} to the parser`, () => {
    assert.equal(readUsualPet(Buffer.from(json)), undefined)
  })
}

test(`readUsualPet() takes no text for another pet than the parser and the validator do (SEED=${SEED})`, () => {
  const random = new Random(SEED)
  let read = 0
  for (let round = 0; round < 20_000; round++) {
    const [json = ''] = random.pick(USUAL.slice(0, 4))
    const bytes = Buffer.from(json)
    if (round % 2) bytes[random.integer(0, bytes.length - 1)] = random.integer(0, 255)
    const pet = readUsualPet(bytes)
    if (pet === undefined) continue
    read++
    const parsed = parseJsonBytes(bytes)
    assert.ok(parsed.ok, bytes.toString())
    assert.deepEqual(validateNewPet(parsed.value), { ok: true, value: pet })
  }
  assert.ok(read > 10_000)
})
