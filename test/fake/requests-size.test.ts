// How much recorded requests take.
import { stopClock } from '../mock-timers.ts'
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'
import { createPetstore } from '../../src/index.ts'
import { INDEX } from '../built.ts'
import { collectGarbage, KEY } from '../support.ts'

for (const options of [{}, { storePerKey: true, maxStore: 2 ** 28 }]) {
  const kind = Object.keys(options).join(' and ') || 'no option'
  test(`recorded requests with ${kind} take 16 MiB at most`, async (t) => {
    stopClock(t) // each duration takes one character
    const petstore = createPetstore({ apiKeys: [KEY], maxBody: 2 ** 20, ...options })
    const headers = { ...petstore.headers, 'content-type': 'application/json' }
    const post = (body: string) =>
      petstore.fetch(`${petstore.url}/pets`, { method: 'POST', headers, body })
    const body = (letter: string, more = 1) => letter.repeat(more) + '\0'.repeat(540_000)
    const seen = () => petstore.requests.map((one) => one.body.slice(0, 1)).join('')
    const sizes = () => petstore.requests.map((one) => JSON.stringify(one).length)
    const size = () => sizes().reduce((sum, one) => sum + one + 300, 0) // 300 for each
    for (const letter of ['a', 'b', 'c', 'd', 'e']) await post(body(letter))
    const [each = 0] = sizes()
    const empty = each - JSON.stringify(body('a')).length + '""'.length
    await post('f'.repeat(2 ** 24 - size() - empty - 300))
    assert.deepEqual([size(), seen()], [2 ** 24, 'abcdef'])
    await post('g') // the oldest goes first
    assert.equal(seen(), 'bcdefg')
  })
}

test('recorded requests of many short headers take no more than what is counted', async () => {
  const petstore = createPetstore()
  const heapUsed = () => {
    collectGarbage()
    return process.memoryUsage().heapUsed
  }
  const record = async (count: number, mark: string) => {
    for (let round = 0; round < count; round++) {
      const names = Array.from({ length: 95 }, (_, at) => [`${mark}${round}-${at}`, ''])
      await petstore.fetch(petstore.url, { headers: Object.fromEntries(names) })
    }
  }
  await record(10, 'a') // warms up
  const before = heapUsed()
  await record(300, 'b')
  const grown = heapUsed() - before
  const counted = JSON.stringify(petstore.requests).length + 310 * 300
  assert.ok(grown < 2 * counted, `${grown} bytes, ${counted} counted`)
})

test('a heap of 64 MB has room for recorded requests of two bytes a character', () => {
  const script = `import { createPetstore } from '${INDEX}'
const petstore = createPetstore()
const headers = { ...petstore.headers, 'content-type': 'application/json' }
const body = '"\\u20ac' + 'x'.repeat(65_000) + '"'
for (let count = 0; count < 300; count++)
  await petstore.fetch(petstore.url + '/pets', { method: 'POST', headers, body })
console.log(petstore.requests.length > 0)`
  const args = ['--max-old-space-size=64', '--input-type=module', '--eval', script]
  const { stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' })
  assert.equal(stdout, 'true\n', stderr)
})
