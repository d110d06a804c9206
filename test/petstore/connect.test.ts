// connectPetstore: what doors.test.ts does not show.
import assert from 'node:assert/strict'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import http from 'node:http'
import { test, type TestContext } from 'node:test'
import { inspect } from 'node:util'
import { connectPetstore, type RemotePetstore, type StartOptions } from '../../src/index.ts'
import { exec } from '../documents.ts'
import { KEY, start, words } from '../support.ts'

async function connect(t: TestContext, options: StartOptions = {}) {
  const petstore = await start(t, { controlPort: 0, ...options })
  const { url, controlUrl } = petstore
  return { petstore, remote: connectPetstore({ url, controlUrl, apiKey: KEY }) }
}

const list = (remote: RemotePetstore, query = '') => fetch(`${remote.url}/pets${query}`, remote)

test('pets keep every int64', async (t) => {
  const { petstore, remote } = await connect(t)
  const bounds = [-(2n ** 63n), 2n ** 63n - 1n]
  const added = await remote.add(bounds.map((categoryId) => ({ name: '\ud800', categoryId })))
  assert.deepEqual(added, petstore.pets)
  assert.deepEqual(await remote.pets, petstore.pets)
  const saved = added.map((pet) => ({ ...pet, id: pet.id + 5 }))
  await remote.reset(saved)
  assert.deepEqual(petstore.pets, saved)
})

test('it changes getPet, and tells its state', async (t) => {
  const { petstore, remote } = await connect(t)
  await remote.setGetPetState('gone')
  assert.deepEqual([petstore.getPetState, await remote.getPetState], ['gone', 'gone'])
  await remote.reset()
  assert.equal(await remote.getPetState, 'deprecated')
  const wrong = Reflect.apply(remote.setGetPetState, undefined, ['Gone'])
  await assert.rejects(wrong, { name: 'RangeError', code: 'invalid_option' })
})

test('`matching` sees each request once it came, also those behind a filter', async (t) => {
  const { remote } = await connect(t)
  const seen = new Set<string>()
  const matching = ({ query }: { query: string }) => seen.add(query) && query.startsWith('limit')
  const wait = remote.waitForRequests(2, { operation: 'listPets', matching, timeout: 600_000 })
  const queries = words('?after=1 ?limit=1 ?after=2 ?after=3 ?limit=2')
  for (const query of queries) await list(remote, query)
  assert.deepEqual(
    (await wait).map(({ query }) => query),
    ['limit=1', 'limit=2'],
  )
  assert.deepEqual(
    [...seen].map((query) => `?${query}`),
    queries,
  )
  const both = await remote.waitForRequests(0, { matching })
  assert.equal(both.length, 2)
})

test('a wait by `matching` that fails says what it waited for, and what came', async (t) => {
  const { petstore, remote } = await connect(t)
  await list(remote)
  const failed = { operation: 'listPets', key: 0, timeout: 1, matching: () => false } as const
  for (const count of [1, 2]) {
    const error = await petstore.waitForRequests(count, failed).catch((error) => error)
    assert.match(error.message, /operation listPets, key 0, matching \(\) ?=> ?false; these came/)
    const { code, message } = error
    const stack = /connect\.test\.ts/ // whoever waits
    await assert.rejects(remote.waitForRequests(count, failed), { code, message, stack })
  }
  const matching = () => {
    throw new Error('from matching')
  }
  await assert.rejects(remote.waitForRequests(1, { matching }), { message: 'from matching' })
})

test('with a store for each key, the key chooses the store', async (t) => {
  const { petstore, remote } = await connect(t, { storePerKey: true, apiKeys: [KEY, 'second-key'] })
  const { controlUrl } = remote
  const second = connectPetstore({ controlUrl, apiKey: 'second-key' })
  await second.add([{ name: 'Tom', categoryId: 1 }])
  assert.deepEqual([await remote.pets, await second.pets], [[], petstore.of('second-key').pets])
  const stranger = connectPetstore({ controlUrl, apiKey: 'third-key' })
  const message = /^GET http:\S+\/pets responded 401: unauthorized: The API key is not valid here$/
  await assert.rejects(stranger.pets, { code: 'invalid_option', message })
})

test('pets that do not fit are `store_full`', async (t) => {
  const { petstore, remote } = await connect(t, { maxStore: 200 })
  const pets = [1, 2, 3].map((categoryId) => ({ name: 'Rex', categoryId }))
  const error = await petstore.add(pets).catch((error) => error)
  await petstore.reset()
  const { name, code, message } = error
  assert.equal(code, 'store_full')
  await assert.rejects(remote.add(pets), { name, code, message })
})

test('what JSON cannot say is refused as in process', async (t) => {
  const { petstore, remote } = await connect(t)
  const fault = { operation: 'listPets', status: 503 }
  for (const given of [
    { ...fault, status: NaN },
    { ...fault, headers: new Map([['a', 'b']]) },
    { ...fault, retryAfter: 1n },
    () => fault,
  ]) {
    const local = async () => Reflect.apply(petstore.inject, undefined, [given])
    const { name, code, message } = await local().catch((error) => error)
    assert.equal(code, 'invalid_option')
    await assert.rejects(Reflect.apply(remote.inject, undefined, [given]), { name, code, message })
  }
})

test('a petstore that is closed, or that nobody started, is `closed`', async (t) => {
  const { petstore, remote } = await connect(t)
  const pending = assert.rejects(remote.waitForRequests(1, { timeout: 600_000 }), {
    code: 'closed',
    message: /^no petstore responds at http:\S+: (?:socket hang up|.*ECONN)/,
  })
  await remote.clearFaults()
  await petstore.close()
  await pending
  const message = /^no petstore responds at http:\S+: connect ECONNREFUSED/
  await assert.rejects(remote.reset(), { code: 'closed', message })
})

test('the address of something else is told', async (t) => {
  const { petstore } = await connect(t)
  const { origin } = new URL(petstore.url)
  const other = connectPetstore({ controlUrl: `${origin}/`, apiKey: KEY })
  const message = new RegExp(`^POST ${origin}/reset responded 404: not_found: .* are under /v1$`)
  await assert.rejects(other.reset(), { code: 'invalid_option', message })
  const server = http.createServer((req, res) => {
    if (req.url === '/verify') return void res.writeHead(500).end('Oops')
    const reset = () => req.socket.resetAndDestroy()
    subscribe('http.client.response.finish', reset) // once the client has the head
    t.after(() => unsubscribe('http.client.response.finish', reset))
    res.writeHead(200, { 'content-length': 9 }).write('[')
  })
  server.listen(0)
  t.after(() => server.close())
  await new Promise((resolve) => server.once('listening', resolve))
  const address = server.address()
  const port = typeof address === 'object' ? address?.port : 0
  const mute = connectPetstore({ controlUrl: `http://localhost:${port}`, apiKey: KEY })
  await assert.rejects(mute.verify(), { message: /^GET \S+\/verify responded 500$/ })
  await assert.rejects(mute.pets, { code: 'closed', message: /^no petstore responds at / })
})

test('it names the option that is wrong', () => {
  for (const [given, message] of [
    [{ apiKey: KEY }, 'controlUrl is required and must be a URL such as http://127.0.0.1:8081'],
    [{ controlUrl: ':8081', apiKey: KEY }, /^controlUrl ':8081' must be a URL such as http/],
    [{ controlUrl: 'http://a' }, /^apiKey must be 8 to 256 characters of /],
    [{ controlUrl: 'http://a', apiKey: 12345678 }, /^apiKey must be 8 to 256 characters of /],
    [{ controlUrl: 'http://a', apiKey: 'short' }, /^apiKey must be 8 to 256 characters of /],
    [{ controlUrl: 'http://a', port: 1 }, /^options must not have 'port'; known are controlUrl, /],
  ] as const) {
    const connect = () => Reflect.apply(connectPetstore, undefined, [given])
    assert.throws(connect, { code: 'invalid_option', message })
  }
})

test('no mock of node:http that comes later is in its way, and no log shows its key', async (t) => {
  const { remote } = await connect(t)
  t.mock.method(http, 'request', () => assert.fail('the mock was asked'))
  assert.deepEqual(await remote.pets, [])
  assert.doesNotMatch(inspect(remote), new RegExp(KEY))
  const { add, pets } = { ...remote, pets: remote.pets }
  await add([{ name: 'Rex', categoryId: 1 }])
  assert.deepEqual(await pets, [])
})

test('it does not keep a process running, and asks no proxy of the environment', async (t) => {
  const { remote, petstore } = await connect(t)
  const script = `
    import { connectPetstore } from './src/index.ts'
    const petstore = connectPetstore({ controlUrl: '${remote.controlUrl}', apiKey: '${KEY}' })
    await petstore.add([{ name: 'Rex', categoryId: 1 }])
    console.log((await petstore.pets).length)`
  const args = ['--import', 'tsx', '--input-type=module', '-e', script]
  const proxy = { NODE_USE_ENV_PROXY: '1', HTTP_PROXY: 'http://127.0.0.1:1', NO_PROXY: '' }
  const { stdout } = await exec(process.execPath, args, { env: { ...process.env, ...proxy } })
  assert.equal(stdout, '1\n')
  assert.equal(petstore.pets.length, 1)
})
