import assert from 'node:assert/strict'
import { once } from 'node:events'
import express from 'express'
import inject from 'light-my-request'
import { createPetstore } from 'petstore-server'

const petstore = createPetstore()
const { headers, listener } = petstore
for (const fault of [{ hangUp: true }, { hangUp: 'reset' }, { body: 'cut' }, { body: 'stalled' }]) {
  petstore.inject({ operation: 'listPets', ...fault })
  const ended = assert.rejects(inject(listener, { url: '/v1/pets', headers }))
  await new Promise((resolve) => setTimeout(resolve, 50))
  petstore.clearFaults() // ends a body that is stalled
  await ended
}
petstore.inject({ operation: 'listPets', body: 'slow', delay: 10 })
assert.equal((await inject(listener, { url: '/v1/pets', headers })).payload, '[]')

const app = express()
app.use(express.json())
app.all('/v1/*rest', listener)
const server = app.listen(0)
await once(server, 'listening')
const type = { 'content-type': 'application/json' }
const create = { method: 'POST', headers: { ...headers, ...type }, body: '{"name":"Rex"}' }
const response = await fetch(`http://127.0.0.1:${server.address().port}/v1/pets`, create)
assert.match((await response.json()).message, /mount the listener before express\.json\(\)/)
server.close()
