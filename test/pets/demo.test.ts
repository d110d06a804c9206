import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DEMO_PETS } from '../../src/pets/demo.ts'
import { PET_STATUSES, validateNewPets } from '../../src/pets/pet.ts'

test('the demo has a dozen valid pets of different names, of every status, and one without a status', () => {
  assert.deepEqual(validateNewPets(DEMO_PETS), { ok: true, value: DEMO_PETS })
  assert.equal(new Set(DEMO_PETS.map(({ name }) => name)).size, 12)
  assert.deepEqual(new Set(DEMO_PETS.map(({ status }) => status)), new Set([...PET_STATUSES, undefined]))
  assert.equal(DEMO_PETS.filter(({ status }) => status === undefined).length, 1)
})
