const { startPetstore } = require('petstore-server')
const { addPet } = require('./client')

let petstore
beforeEach(async () => {
  petstore = await startPetstore({ pets: [{ name: 'Rex', categoryId: 1 }] })
})
afterEach(() => petstore.close())

test('a pet is added', async () => {
  expect(await addPet(petstore, { name: 'Tom', categoryId: 2 })).toEqual({ id: 2, name: 'Tom', categoryId: 2 })
  expect(petstore.pets).toHaveLength(2)
})

test('a busy store is asked again', async () => {
  petstore.inject({ operation: 'createPet', times: 2, status: 503 })
  await addPet(petstore, { name: 'Tom', categoryId: 2 })
  expect(petstore.requests.map(({ status }) => status)).toEqual([503, 503, 201])
})
