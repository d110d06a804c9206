// The queries of listPets.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readListQuery } from '../../src/api/query.ts'

test('caches no more than 500 queries', () => {
  const first = readListQuery('limit=5')
  for (let after = 1; after < 500; after++) readListQuery(`after=${after}`)
  assert.equal(readListQuery('limit=5'), first)
  readListQuery('after=500')
  assert.notEqual(readListQuery('limit=5'), first)
})

test('asks a store for ids of at most 15 digits, by an object that it cannot change', () => {
  const query = readListQuery('after=9223372036854775807')
  assert.deepEqual(query, { ok: true, value: { limit: 20, after: 999_999_999_999_999 } })
  assert.ok(query.ok && Object.isFrozen(query.value))
})
