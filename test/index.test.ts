import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as petstoreServer from '../src/index.ts'

test('the package gives createPetstore() and startPetstore(), and nothing that is not meant for its users', async () => {
  assert.deepEqual(Object.keys(petstoreServer), ['createPetstore', 'startPetstore'])
  const petstore = await petstoreServer.startPetstore({ pets: [{ name: 'Rex', categoryId: 1 }] })
  const headers = { authorization: `Bearer ${petstore.apiKey}` }
  const response = await fetch(`${petstore.url}/pets`, { headers })
  assert.deepEqual(await response.json(), [{ id: 1, name: 'Rex', categoryId: 1 }])
  await petstore.close()
})
