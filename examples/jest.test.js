const { startPetstore } = require('petstore-server')
const { addPet } = require('./client.js')

const TOM = { name: 'Tom', categoryId: 2 }

let petstore
beforeEach(async () => {
  petstore = await startPetstore({ pets: [{ name: 'Rex', categoryId: 1 }] })
})
afterEach(() => petstore.close())

test('a busy store is asked again', async () => {
  petstore.inject({ operation: 'createPet', status: 503 })
  expect(await addPet(petstore, TOM)).toEqual({ id: 2, ...TOM })
  const requests = await petstore.waitForRequests(3)
  expect(requests.map(({ status }) => status)).toEqual([503, 200, 201])
})

test('a lost response does not add the pet twice', async () => {
  petstore.inject({ operation: 'createPet', hangUp: true, done: true })
  expect(await addPet(petstore, TOM)).toEqual({ id: 2, ...TOM })
  expect(await petstore.pets()).toHaveLength(2)
})
