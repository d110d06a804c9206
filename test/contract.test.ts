// The transcripts of contract/, held against this server in several configurations.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { after, describe, test } from 'node:test'
import { readPets } from '../src/cli/readers.ts'
import { startPetstore } from '../src/index.ts'
import type { NewPet, StartOptions } from '../src/types.ts'
import { Client } from './contract/client.ts'
import { checkRule, readRules } from './contract/transcript.ts'
import { KEY, start } from './support.ts'

const DEMO = readPets(`${import.meta.dirname}/../src/cli/demo.json`)
const PETS = Array.from({ length: 101 }, (_, at): NewPet => {
  return { name: 'Rex', categoryId: 1, status: at % 3 === 0 ? 'sold' : 'pending' }
})
const INT64_PETS = [
  { id: 9007199254740991, name: 'Rex', categoryId: 1 },
  { id: 9007199254740993n, name: 'Tom', categoryId: 1 },
  { id: 9223372036854775806n, name: 'Mia', categoryId: 1 },
]

const SERVERS: Record<string, StartOptions> = {
  contract: { pets: [...DEMO, ...DEMO] },
  http: { pets: DEMO },
  decisions: { pets: [...DEMO, ...DEMO] },
  'servers/default': { pets: PETS },
  'servers/base-path': { pets: PETS, basePath: '/shop/eu/v1' },
  'servers/no-base-path': { pets: PETS, basePath: '' },
  'servers/int64': { pets: INT64_PETS },
  'servers/strict': { pets: PETS, strict: true },
  'servers/gone': { pets: PETS, getPetState: 'gone' },
  'servers/keys': { apiKeys: [KEY, 'the-long-key-of-ann'] },
  'servers/cors': { cors: 'https://shop.example' },
  'servers/cors-any': { cors: ['https://shop.example', '*'] },
}

for (const [name, options] of Object.entries(SERVERS)) {
  describe(`contract/${name}.txt`, async () => {
    const { url, close } = await startPetstore({ apiKeys: [KEY], ...options })
    after(() => close())
    const client = new Client({ url, key: KEY, isOwn: true })
    for (const rule of readRules(name)) test(rule.name, () => checkRule(rule, client))
  })
}

/** Runs `npm run conformance`. */
function conformance(...args: string[]): Promise<{ status: unknown; output: string }> {
  const env: NodeJS.ProcessEnv = { ...process.env, PETSTORE_API_KEY: KEY }
  delete env['NODE_TEST_CONTEXT'] // it reports to people, not to this test
  const command = ['--import', 'tsx', `${import.meta.dirname}/contract/main.ts`, ...args]
  return new Promise((resolve) => {
    execFile(process.execPath, command, { env }, (error, stdout, stderr) => {
      resolve({ status: error?.code ?? 0, output: stdout + stderr })
    })
  })
}

test('npm run conformance passes here, and changes nothing without --create', async (t) => {
  const petstore = await start(t, { pets: [...DEMO, ...DEMO] })
  const { status, output } = await conformance(petstore.url, '--decisions')
  assert.equal(status, 0, output)
  assert.equal(petstore.pets.length, 2 * DEMO.length)
})

test('it sends any server at most 200 requests and ten POSTs, and shows no key', async (t) => {
  const methods: string[] = []
  const server = createServer(({ method, headers }, res) => {
    methods.push(`${method}`)
    res.writeHead(201).end(JSON.stringify(headers))
  })
  t.after(() => server.close())
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const address = server.address()
  const port = typeof address === 'object' ? address?.port : 0
  const url = `http://127.0.0.1:${port}/v1`
  const { status, output } = await conformance(url, '--create', '--decisions')
  assert.equal(status, 1)
  assert.ok(methods.length <= 200, `${methods.length} requests`)
  assert.equal(methods.filter((method) => method === 'POST').length, 10)
  assert.doesNotMatch(methods.join(), /PUT|PATCH|DELETE/)
  assert.doesNotMatch(output, new RegExp(KEY))
  assert.match(output, /"authorization":"Bearer \[key\]"/)
})
