// What a fake does, in an environment of Vitest, in process and over a socket.
import { expect, test, vi } from 'vitest'
import { connectPetstore, createPetstore, startPetstore } from 'petstore-server'

const REX = '{"name":"Rex","categoryId":1}'

async function checkAll(petstore, fetch) {
  const url = `${petstore.url}/pets`
  const type = { 'content-type': 'application/json' }
  const init = { headers: petstore.headers, credentials: 'include' }
  const create = { ...init, method: 'POST', headers: { ...init.headers, ...type }, body: REX }
  expect((await fetch(url, create)).status).toBe(201)

  const fault = petstore.inject({ operation: 'listPets', status: 429, code: 'slow_down' })
  const response = await fetch(url, init)
  expect(response).toBeInstanceOf(Response)
  expect((await response.json()).code).toBe('slow_down')
  expect(fault.hits).toBe(1)

  petstore.inject({ operation: '*', delay: 600_000 })
  const abort = new AbortController()
  setTimeout(() => abort.abort(), 50)
  await expect(fetch(url, { ...init, signal: abort.signal })).rejects.toThrow()

  petstore.inject({ operation: '*', body: 'slow', delay: 20 })
  expect(await (await fetch(url, init)).json()).toHaveLength(1)
  for (const fault of [{ hangUp: 'reset' }, { body: 'cut' }]) {
    petstore.inject({ operation: '*', ...fault })
    await expect(fetch(url, init).then((response) => response.text())).rejects.toThrow()
  }
  const matching = ({ body }) => body.includes('Rex')
  expect(await petstore.waitForRequests(1, { matching })).toHaveLength(1)
  await petstore.close()
}

test('over a socket', async () => {
  const petstore = await startPetstore({ cors: location.origin, controlPort: 0 })
  const { controlUrl, apiKey } = petstore
  const remote = connectPetstore({ controlUrl, apiKey })
  vi.useFakeTimers()
  const fault = await remote.inject({ operation: 'getPet', status: 503 })
  await expect(remote.waitForRequests(0, { matching: () => true })).resolves.toEqual([])
  await expect(remote.waitForRequests(1, { matching: () => true, timeout: 60 })).rejects.toThrow()
  await expect(remote.verify()).rejects.toThrow('1 fault still to come')
  await fault.remove()
  vi.useRealTimers()
  await checkAll(petstore, fetch)
})

test('in process', async () => {
  const petstore = createPetstore()
  const { headers, url } = petstore
  const request = new Request(`${url}/pets?a`, { headers })
  expect((await petstore.fetch(request)).clone().url).toBe(`${url}/pets?a`)
  const signal = AbortSignal.timeout(50)
  petstore.inject({ operation: 'getPet', status: 503, times: 'always' })
  const tryForEver = async () => {
    for (;;) await petstore.fetch(`${url}/pets/1`, { headers, signal })
  }
  await expect(tryForEver()).rejects.toThrow()
  await checkAll(petstore, petstore.fetch)
})
