import assert from 'node:assert/strict'
import { Window } from 'happy-dom'
import { createPetstore, startPetstore } from 'petstore-server'

const { fetch } = globalThis
const window = new Window()
for (const name of ['AbortController', 'AbortSignal', 'Request', 'Response', 'Headers'])
  globalThis[name] = window[name]
globalThis.structuredClone = undefined
const petstore = await startPetstore()
const { headers } = petstore
petstore.inject({ operation: 'listPets', status: 503, delay: 1 })
assert.equal((await fetch(`${petstore.url}/pets`, { headers })).status, 503)
assert.equal(petstore.requests.length, 1)
const abort = new AbortController() // a foreign one
petstore.inject({ operation: 'listPets', delay: 600_000 })
const { signal } = abort
const aborted = assert.rejects(petstore.fetch(`${petstore.url}/pets`, { headers, signal }))
while (petstore.pendingFaults.length > 0) await new Promise((resolve) => setImmediate(resolve))
abort.abort()
await aborted
await petstore.close()
assert.equal((await createPetstore().fetch('http://any.example/readyz')).status, 200)
await window.happyDOM.close()
