// The cache of the queries of listPets.
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
