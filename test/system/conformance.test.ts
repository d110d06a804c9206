// npm run conformance, against a server at a URL.
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { test } from 'node:test'
import { run } from '../process.ts'
import { KEY, listen, start } from '../support.ts'

const COMMAND = ['npm', 'run', 'conformance']

test('it only reads, unless PETSTORE_CREATE=1 lets it add animals', async (t) => {
  const petstore = await start(t, { pets: [{ name: 'Rex', categoryId: 1 }] })
  const env = { PETSTORE_URL: petstore.url, PETSTORE_API_KEY: KEY }
  const reading = run(t, COMMAND, env)
  assert.equal(await reading.status, 0, reading.stdout.text)
  const methods = new Set(petstore.requests.map(({ method }) => method))
  assert.deepEqual([...methods], ['GET'])
  const creating = run(t, COMMAND, { ...env, PETSTORE_CREATE: '1' })
  assert.equal(await creating.status, 0, creating.stdout.text)
  assert.ok((await petstore.pets()).length > 1)
})

test('it shows no key, also where the server sends it back', async (t) => {
  const server = createServer(({ headers }, res) => {
    const { authorization = '' } = headers
    res.setHeader('content-type', authorization)
    res.end(JSON.stringify({ code: authorization }))
  })
  const env = {
    PETSTORE_URL: `http://127.0.0.1:${await listen(t, server)}/v1`,
    PETSTORE_CREATE: '1',
  }
  for (const key of [KEY, `${KEY}\n${KEY}`]) {
    const { status, stdout, stderr } = run(t, COMMAND, { ...env, PETSTORE_API_KEY: key })
    assert.equal(await status, 1)
    assert.ok(!`${stdout.text}${stderr.text}`.includes(KEY))
  }
})
