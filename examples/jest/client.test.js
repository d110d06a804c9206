// To run it: in the clone, run `npm ci` and then `npm pack`. In this folder, run
// `npm install --save-dev ../../petstore-server-1.0.0.tgz` and then `npm test`.
const { startPetstore } = require('petstore-server')
const { addPet } = require('./client')

const TOM = { name: 'Tom', categoryId: 2 }

let petstore
beforeEach(async () => {
  petstore = await startPetstore({ pets: [{ name: 'Rex', categoryId: 1 }] })
})
afterEach(async () => {
  await petstore.close()
  petstore.verify()
})

test('a pet is added', async () => {
  expect(await addPet(petstore, TOM)).toEqual({ id: 2, ...TOM })
  expect(petstore.pets).toHaveLength(2)
})

test('a busy store is asked again', async () => {
  const fault = petstore.inject({ operation: 'createPet', times: 2, status: 503 })
  await addPet(petstore, TOM)
  expect(fault.hits).toBe(2)
  expect(petstore.pets).toHaveLength(2)
})

test('a store that stays busy is asked four times', async () => {
  const fault = petstore.inject({ operation: 'createPet', times: 'always', status: 503, retryAfter: 0 })
  await expect(addPet(petstore, TOM)).rejects.toThrow('503')
  expect(fault.hits).toBe(4)
})

test('a store that asks for an hour is not asked again', async () => {
  petstore.inject({ operation: 'createPet', status: 429, retryAfter: 3600 })
  await expect(addPet(petstore, TOM)).rejects.toThrow('429')
  expect(petstore.requests).toHaveLength(1)
})
