const assert = require('node:assert/strict')
const { startPetstore } = require('petstore-server')
const { addPet } = require('../client')

let petstore
beforeEach(async () => {
  petstore = await startPetstore({ pets: [{ name: 'Rex', categoryId: 1 }] })
})
afterEach(() => petstore.close())

it('adds a pet', async () => {
  assert.deepEqual(await addPet(petstore, { name: 'Tom', categoryId: 2 }), { id: 2, name: 'Tom', categoryId: 2 })
  assert.equal(petstore.pets.length, 2)
})

it('asks a busy store again', async () => {
  petstore.inject({ operation: 'createPet', times: 2, status: 503 })
  await addPet(petstore, { name: 'Tom', categoryId: 2 })
  assert.deepEqual(
    petstore.requests.map(({ status }) => status),
    [503, 503, 201],
  )
})
