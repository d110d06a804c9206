// What a fake does, in Jest's jsdom, which has no Request, Response and structuredClone.
const { get } = require('node:http')
const { connectPetstore, createPetstore, startPetstore } = require('petstore-server')

test('over a socket and the controls', async () => {
  const petstore = await startPetstore({ controlPort: 0 })
  const { controlUrl, apiKey } = petstore
  const remote = connectPetstore({ controlUrl, apiKey })
  const fault = await remote.inject({ operation: 'listPets', status: 503 })
  const status = await new Promise((resolve, reject) => {
    const request = get(`${petstore.url}/pets`, { headers: petstore.headers })
    request.on('response', (response) => resolve(response.resume().statusCode))
    request.on('error', reject)
  })
  expect(status).toBe(503)
  expect(petstore.requests[0].code).toBe('injected_fault')
  jest.useFakeTimers()
  expect(await remote.requests).toEqual(petstore.requests)
  await expect(remote.waitForRequests(1, { matching: () => false, timeout: 60 })).rejects.toThrow()
  jest.useRealTimers()
  expect(await fault.hits).toBe(1)
  await remote.verify()
  await petstore.close()
})

test('in process, with the signals of jsdom and fake timers', async () => {
  const petstore = createPetstore()
  const { headers } = petstore
  const url = `${petstore.url}/pets`
  const type = { 'content-type': 'application/json' }
  const create = { method: 'POST', headers: { ...headers, ...type }, body: '{"categoryId":1}' }
  expect((await petstore.fetch(url, create)).status).toBe(400)
  for (const fault of [{ delay: 600_000 }, { body: 'stalled' }]) {
    petstore.inject({ operation: '*', ...fault })
    const abort = new AbortController()
    setTimeout(() => abort.abort(), 50)
    const { signal } = abort
    const text = petstore.fetch(url, { headers, signal }).then((response) => response.text())
    await expect(text).rejects.toThrow(/abort/i)
  }
  jest.useFakeTimers()
  petstore.inject({ operation: '*', body: 'slow', delay: 20 })
  const response = await petstore.fetch(url, { headers })
  expect(await response.clone().json()).toEqual([])
  expect(response.clone().url).toBe(url)
  jest.useRealTimers()
  expect(petstore.requests.map(({ status }) => status)).toEqual([400, null, null, 200])
  await petstore.close()
})
