import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DEMO_PETS } from '../../src/pets/demo.ts'
import { PET_STATUSES, validateNewPet } from '../../src/pets/pet.ts'

test('the demo has a dozen animals', () => assert.equal(DEMO_PETS.length, 12))

test('every animal of the demo is one that a client could add', () => {
  for (const pet of DEMO_PETS) assert.deepEqual(validateNewPet(pet), { ok: true, value: pet })
})

test('the demo shows all statuses, and one animal without a status', () => {
  assert.deepEqual(new Set(DEMO_PETS.map(({ status }) => status)), new Set([...PET_STATUSES, undefined]))
  assert.equal(DEMO_PETS.filter(({ status }) => status === undefined).length, 1)
})

test('no two animals of the demo have the same name', () => {
  assert.equal(new Set(DEMO_PETS.map(({ name }) => name)).size, DEMO_PETS.length)
})
