import assert from 'node:assert/strict'
import { test } from 'node:test'
import { send, start } from './support.ts'
test('smoke', async (t) => {
  const petstore = await start(t, { pets: [{ name: 'Rex', categoryId: 1 }] })
  assert.equal((await send(petstore, 'GET', '/v1/pets')).body, '[{"id":1,"name":"Rex","categoryId":1}]')
})
