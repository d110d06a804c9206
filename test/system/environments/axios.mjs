import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { JSDOM } from 'jsdom'
import { startPetstore } from 'petstore-server'

const SHOP = 'https://shop.example'
const pets = Array.from({ length: 45 }, () => ({ name: 'Rex', categoryId: 1 }))
const script = readFileSync('node_modules/axios/dist/axios.min.js', 'utf8')
for (const [cors, withCredentials] of [
  ['*', false],
  [SHOP, true],
]) {
  const petstore = await startPetstore({ cors, pets })
  const { window } = new JSDOM('', { url: SHOP, runScripts: 'outside-only' })
  window.eval(script)
  const { axios } = window
  const init = { headers: petstore.headers, withCredentials, adapter: 'xhr' }
  let count = 0
  let url = `${petstore.url}/pets`
  while (url) {
    const { data, headers } = await axios.get(url, init)
    count += data.length
    const [, next] = /<(.*)>/.exec(headers.link ?? '') ?? []
    url = next && new URL(next, url).href
  }
  assert.equal(count, 45)
  const statusOf = (path, method) =>
    axios({ ...init, method, url: petstore.url + path }).catch(({ response }) => response?.status)
  assert.deepEqual([await statusOf('/cats', 'get'), await statusOf('/pets', 'put')], [404, 405])
  window.close()
  await petstore.close()
}
