// The document in the hands of others' tools, which npm fetches into a folder of the test's own.
import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { Agent } from 'node:http'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { after, before, test, type TestContext } from 'node:test'
import { promisify } from 'node:util'
import { type Running, run } from '../process.ts'
import { type Case, randomCase, SEED } from '../random-case.ts'
import { KEY, send } from '../support.ts'
import { runTour } from '../tour.ts'

const TOOLS = [
  '@redocly/cli@2.77.0',
  '@stoplight/prism-cli@5.14.2',
  'openapi-typescript@7.13.0',
  'openapi-fetch@0.17.0',
]
const PETSTORE = [process.execPath, resolve('dist/main.js')]
const REQUESTS = 3_000

const exec = promisify(execFile)
const folder = mkdtempSync(join(tmpdir(), 'petstore-openapi-'))
const env = { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' }

/** Runs one of the tools to its end, and returns what it prints. */
async function tool(name: string, ...args: string[]): Promise<string> {
  return (await exec(process.execPath, [join(folder, 'node_modules/.bin', name), ...args], { cwd: folder, env })).stdout
}

/** Starts the built server, and keeps its document in a file of this name. */
async function serve(t: TestContext, document: string, ...flags: string[]): Promise<Running> {
  const server = await run([...PETSTORE, ...flags])
  t.after(() => server.process.kill('SIGKILL'))
  writeFileSync(join(folder, document), (await send(server, 'GET', '/openapi.json')).body)
  return server
}

before(async () => {
  await exec('npm', ['install', '--prefix', folder, '--ignore-scripts', '--no-audit', '--no-fund', ...TOOLS])
})

after(() => rmSync(folder, { recursive: true }))

for (const [flags, unused] of [
  [['--base-path', '/shop/v2'], []],
  [
    ['--get-pet', 'gone', '--no-page'],
    ['Link.deprecation', 'Content-Security-Policy', 'Referrer-Policy', 'Deprecation', 'Sunset'],
  ],
] as const) {
  test(`Redocly's recommended rules find ${unused.length === 0 ? 'nothing' : 'what only getPet and the page had'} (${flags.join(' ')})`, async (t) => {
    await serve(t, 'linted.json', ...flags)
    const report = await tool('redocly', 'lint', 'linted.json', '--extends', 'recommended', '--format', 'json')
    const { problems }: { problems: { message: string }[] } = JSON.parse(report)
    const messages = problems.map(({ message }) => message)
    assert.deepEqual(
      messages,
      unused.map((name) => `Component: "${name}" is never used.`),
    )
  })
}

interface Prism {
  url: string
  /** Ends it, and returns where it found answers or requests that are not as documented, and what is wrong with them. */
  stop: () => Promise<string[]>
}

/** Starts a server with demo animals, and Prism as a proxy that holds all requests and answers to the server's document. */
async function startPrism(t: TestContext): Promise<Prism> {
  const { url } = await serve(t, 'proxied.json', '--demo', '--max-body', '2000')
  const bin = join(folder, 'node_modules/.bin/prism')
  const prism = spawn(process.execPath, [bin, 'proxy', 'proxied.json', url, '--port', '0'], { cwd: folder, env })
  t.after(() => prism.kill('SIGKILL'))
  let output = ''
  const found = await new Promise<string>((resolve, reject) => {
    prism.stdout.on('data', (chunk) => {
      output += chunk
      const [, address] = /Prism is listening on (http:\S+)/.exec(output) ?? []
      if (address !== undefined) resolve(address)
    })
    prism.on('exit', () => reject(new Error(`Prism did not start: ${output}`)))
  })
  async function stop(): Promise<string[]> {
    prism.kill()
    await once(prism, 'close')
    return [...output.matchAll(/Violation: (.*)/g)].map(([, violation]) => violation ?? '')
  }
  return { url: found, stop }
}

test("Prism finds nothing in the README's tour but its mistake", async (t) => {
  const { url, stop } = await startPrism(t)
  await runTour(url, KEY, true)
  assert.deepEqual(await stop(), [
    "request.body Request body must have required property 'name'",
    'request.body.categoryId Request body property categoryId must be integer',
    'request.body.status Request body property status must be equal to one of the allowed values: available, pending, sold',
  ])
})

// Prism hands on neither paths and methods that the document does not have nor what is not JSON; it writes JSON anew, which
// makes it shorter than the 413 would have it; it sends chunked bodies
// with a Content-Length, and others with a Content-Type that was left out. It takes `bearer` for another scheme than `Bearer`, and knows integers to 2^53 only.
function isForPrism({ method, path, headers, body, status, code }: Case): boolean {
  return (
    /^(?:GET|POST)$/.test(method) &&
    /^\/v1\/pets(?:\/[^/?]+)?(?:\?|$)/.test(path) &&
    status !== 405 &&
    status !== 413 &&
    code !== 'bad_request' &&
    headers['transfer-encoding'] === undefined &&
    (body === undefined || headers['content-type'] !== undefined) &&
    !headers['authorization']?.startsWith('bearer') &&
    !/\d{16}/.test(`${path} ${body}`)
  )
}

test(`Prism finds no answer to ${REQUESTS} random requests that is not as documented (SEED=${SEED})`, async (t) => {
  const { url, stop } = await startPrism(t)
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  t.after(() => agent.destroy())
  let size = 12
  const seen = new Set<number>()
  for (let count = 0; count < REQUESTS;) {
    const one = randomCase(size)
    if (!isForPrism(one)) continue
    const { method, path, headers, body, status } = one
    const answer = await send({ url }, method, path.slice('/v1'.length), { headers, agent, ...(body && { body }) })
    const label = JSON.stringify({ SEED, count, ...one, body: body?.toString('latin1'), answer })
    assert.equal(answer.status, status, label)
    if (one.adds !== undefined) size++
    seen.add(status)
    count++
    if (status < 400) assert.equal(answer.headers['sl-violations'], undefined, label)
  }
  assert.deepEqual([...seen].sort(), [200, 201, 400, 401, 404, 415])
  const tooLong = JSON.stringify({ name: 'x'.repeat(3_000), categoryId: 1 })
  const headers = { 'content-type': 'application/json' }
  assert.equal((await send({ url }, 'POST', '/pets', { headers, agent, body: tooLong })).status, 413)
  const violations = await stop()
  assert.deepEqual(
    violations.filter((violation) => !violation.startsWith('request')),
    [],
  )
  assert.notDeepEqual(violations, [])
})

const CLIENT = `import createClient from 'openapi-fetch'
import type { components, paths } from './schema.mjs'

const [, , baseUrl = '', key = ''] = process.argv
const client = createClient<paths>({ baseUrl, headers: { authorization: \`Bearer \${key}\` } })

const rex: components['schemas']['NewPet'] = { name: 'Rex', categoryId: 7, status: 'available' }
const added = await client.POST('/pets', { body: rex })
const id: number | undefined = added.data?.id
const two = await client.GET('/pets', { params: { query: { limit: 2 } } })
const pets: components['schemas']['Pet'][] | undefined = two.data
const sold = await client.GET('/pets', { params: { query: { limit: 2, status: 'sold', after: 6 } } })
const one = await client.GET('/pets/{petId}', { params: { path: { petId: 13 } } })
const none = await client.GET('/pets/{petId}', { params: { path: { petId: 14 } } })
const message: string | undefined = none.error?.message
// @ts-expect-error name is missing, and categoryId a string
const wrong = await client.POST('/pets', { body: { categoryId: '7' } })
const code: 'bad_request' | 'invalid_pet' | undefined = wrong.response.status === 400 ? codeOf(wrong.error) : undefined
// @ts-expect-error limit is a number
const text = await client.GET('/pets', { params: { query: { limit: 'two' } } })
// @ts-expect-error there is no such path
const missing = await client.GET('/dogs')
// @ts-expect-error listOrders never answers 200
const orders: never[] = (await client.GET('/store/orders')).data
const statuses = [added, two, sold, one, none, wrong, text, missing].map(({ response }) => response.status)
console.log(JSON.stringify({ id, pets, sold: sold.data, one: one.data, message, code, orders: orders ?? null, statuses }))

type BadRequest = components['responses']['invalid_pet']['content']['application/json']
function codeOf(error: components['schemas']['Error'] | undefined): BadRequest['code'] | undefined {
  return error?.code === 'invalid_pet' || error?.code === 'bad_request' ? error.code : undefined
}
`

const TSCONFIG = {
  compilerOptions: {
    ...{ strict: true, noEmit: true, exactOptionalPropertyTypes: true, noUncheckedIndexedAccess: true },
    ...{ target: 'es2023', lib: ['es2023', 'dom', 'dom.iterable'], module: 'nodenext' },
    ...{ types: ['node'], typeRoots: [resolve('node_modules/@types')] },
  },
  files: ['client.mts'],
}

test('a client that openapi-typescript makes of it type-checks, and runs the tour', async (t) => {
  const { url } = await serve(t, 'typed.json', '--demo')
  await tool('openapi-typescript', 'typed.json', '-o', 'schema.d.mts')
  writeFileSync(join(folder, 'client.mts'), CLIENT)
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(TSCONFIG))
  const { stdout: errors } = await exec('npx', ['tsc', '-p', folder]).catch((error: { stdout: string }) => error)
  assert.equal(errors, '')
  const { stdout } = await exec(process.execPath, ['--import', 'tsx', join(folder, 'client.mts'), url, KEY])
  const [rex, bella] = [
    { id: 1, name: 'Rex', categoryId: 1, status: 'available' },
    { id: 2, name: 'Bella', categoryId: 1, status: 'sold' },
  ]
  assert.deepEqual(JSON.parse(stdout), {
    id: 13,
    pets: [rex, bella],
    sold: [{ id: 8, name: 'Nemo', categoryId: 3, status: 'sold' }],
    one: { id: 13, name: 'Rex', categoryId: 7, status: 'available' },
    message: 'There is no animal with this id',
    code: 'invalid_pet',
    orders: null,
    statuses: [201, 200, 200, 200, 404, 400, 400, 404],
  })
})
