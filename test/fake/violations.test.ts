// Violations: what the service ignores of a request is told to a test, and refused if it is strict.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createPetstore } from '../../src/index.ts'
import { JSON_HEADERS, KEY, start } from '../support.ts'

const PET = '"name":"Rex","categoryId":1'

/** Violations of requests, a list or a create, and what the strict service makes of them. */
const ROWS: Readonly<Record<string, [query: string, body: string | null, ...found: string[]]>> = {
  'a misspelled parameter': ['?statsu=sold', null, 'unknown parameter "statsu"'],
  'every known parameter': ['?limit=1&after=0&status=sold', null],
  'two unknown parameters': ['?b&%61=1&b', null, 'unknown parameter "b"', 'unknown parameter "a"'],
  'a repeated parameter': ['?limit=1&limit=1', null, 'repeated parameter "limit"'],
  'a second question mark': ['??limit=1', null, 'unknown parameter "?limit"'],
  'a parameter without a name': ['?=1', null, 'unknown parameter ""'],
  'a parameter of a create': ['?limit=1', `{${PET}}`, 'unknown parameter "limit"'],
  'every known member': ['', `{${PET},"status":"sold"}`],
  'an id': ['', `{"id":1,${PET}}`, 'unknown member "id"'],
  'a name that is escaped': ['', `{${PET},"\\u0061\\"\\\\":1}`, 'unknown member "a\\"\\\\"'],
  'a repeated member': ['', `{${PET}, "n\\u0061me" :"Tom"}`, 'repeated member "name"'],
  'members of members': ['', `{${PET},"x":[{"name":1,"y":{"z":1}}]}`, 'unknown member "x"'],
  'a name like a member': ['', '{"name":"{\\"x\\":1,\\"x","categoryId":1}'],
  __proto__: ['', `{${PET},"__proto__":{}}`, 'unknown member "__proto__"'],
  'an array': ['', `[{"x":1}]`],
  'broken JSON': ['', `{"x":1`],
  'a long name': ['', `{${PET},"${'x'.repeat(101)}":1}`, `unknown member "${'x'.repeat(100)}"`],
  both: ['?$%26', '{"y":1}', 'unknown parameter "$&"', 'unknown member "y"'],
}

for (const [name, [query, body, ...found]] of Object.entries(ROWS)) {
  test(`the violations in ${name} are told, and refused if strict, at both doors`, async (t) => {
    const init = { method: body === null ? 'GET' : 'POST', headers: JSON_HEADERS, body }
    for (const strict of [false, true]) {
      const petstore = await start(t, { strict })
      for (const call of [fetch, petstore.fetch]) {
        const response = await call(`${petstore.url}/pets${query}`, init)
        const answer: { code?: string; message?: string } = JSON.parse(await response.text())
        const ofParameters = found.filter((one) => one.includes(' parameter '))
        const [told, code] =
          ofParameters.length > 0 ? [ofParameters, 'invalid_parameter'] : [found, 'invalid_pet']
        if (strict && found.length > 0) {
          assert.deepEqual(answer, { code, message: told.join('; '), status: 400 })
          assert.equal(petstore.pets.length, 0)
        } else for (const one of found) assert.ok(!answer.message?.includes(one))
      }
      const recorded = petstore.requests.map(({ violations }) => violations)
      assert.deepEqual(recorded, [found, found])
    }
  })
}

test('a string of eight million characters has no violation', async () => {
  const petstore = createPetstore({ apiKeys: [KEY], maxBody: 2 ** 24, maxStore: 2 ** 25 })
  const body = JSON.stringify({ name: '\n'.repeat(2 ** 22), categoryId: 1 })
  const create = { method: 'POST', headers: JSON_HEADERS, body }
  const added = await petstore.fetch('http://localhost/v1/pets', create)
  assert.equal(added.status, 201)
  assert.deepEqual(petstore.requests[0]?.violations, [])
})

test('strict refuses a parameter of getPet, and none of the page or an unknown path', async () => {
  const pets = [{ name: 'Rex', categoryId: 1 }]
  const petstore = createPetstore({ strict: true, apiKeys: [KEY], pets })
  for (const [path, status] of Object.entries({
    '/v1/pets/1': 200,
    '/v1/pets/1?x': 400,
    '/v1/store/orders?x': 400,
    '/v1/cats?x': 404,
    [`/v1/pets?${KEY}`]: 400,
    '/?x': 200,
    '/openapi.json?x': 200,
    '/livez?x': 200,
  })) {
    const url = new URL(path, petstore.url)
    const response = await petstore.fetch(url, petstore)
    assert.equal(response.status, status, path)
    assert.ok(!(await response.text()).includes(KEY))
  }
  const create = { method: 'POST', headers: JSON_HEADERS, body: `{${PET},"${KEY}":1}` }
  const refused = await petstore.fetch(`${petstore.url}/pets`, create)
  assert.match(await refused.text(), /unknown member \\"\[key\]\\"/)
})
