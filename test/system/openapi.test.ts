// The OpenAPI document in other people's tools, which npm installs into a temporary folder.
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { before, test, type TestContext } from 'node:test'
import { DEMO_PETS } from '../demo.ts'
import { exec } from '../documents.ts'
import { Running, serve } from '../process.ts'
import { check, folderOf, KEY, send, start, words } from '../support.ts'
import { isHere, must, npmInstall, pipInstall } from './packages.ts'

const TOOLS = words(`@redocly/cli@2.77.0 @stoplight/spectral-cli@6.15.0 @stoplight/prism-cli@5.14.2
  openapi-typescript@7.13.0 openapi-fetch@0.17.0`)
const VALIDATOR = 'openapi-spec-validator==0.7.2'

const folder = folderOf()
const env = { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' }

async function tool(name: string, ...args: string[]): Promise<string> {
  const program = `${folder}/node_modules/.bin/${name}`
  const { stdout } = await exec(process.execPath, [program, ...args], { cwd: folder, env })
  return stdout
}

/** Starts the built server, and writes its document to a file. */
async function serveDocument(t: TestContext, document: string, ...flags: string[]) {
  const server = await serve(t, flags)
  writeFileSync(`${folder}/${document}`, (await send(server, 'GET', '/openapi.json')).body)
  return server.url
}

before(() => npmInstall(folder, ...TOOLS))

for (const [flags, ...failing] of [
  [['--base-path', '/shop/v2'], '/store/orders'],
  [['--get-pet', 'gone', '--no-page'], '/pets/{petId}', '/store/orders'],
] as const) {
  test(`linters find only that ${failing.join(' and ')} never succeed (${flags[0]})`, async (t) => {
    await serveDocument(t, 'linted.json', ...flags)
    writeFileSync(`${folder}/rules.json`, '{"extends":["spectral:oas"]}')
    const byRules = ['-r', 'rules.json', '-f', 'json', '--quiet']
    const found = await tool('spectral', 'lint', 'linted.json', ...byRules)
    const issues: { code: string; path: string[] }[] = JSON.parse(found)
    const shown = issues.map(({ code, path }) => `${code} ${path[1]}`)
    const expected = failing.map((path) => `operation-success-response ${path}`)
    assert.deepEqual(shown, expected)
    const recommended = ['--extends', 'recommended', '--format', 'json']
    const report = await tool('redocly', 'lint', 'linted.json', ...recommended)
    const problems: { ruleId: string; location: { pointer: string }[] }[] =
      JSON.parse(report).problems
    const reported = problems.map(({ ruleId, location }) => `${ruleId} ${location[0]?.pointer}`)
    const orders = '#/paths/~1store~1orders/get/responses' // the only ones without a default
    assert.deepEqual(reported, [`operation-2xx-response ${orders}`])
    if (!isHere('pip3', 'python3-pip'))
      return t.diagnostic('there is no pip3 for openapi-spec-validator')
    const validator = ['python3', '-m', 'openapi_spec_validator', `${folder}/linted.json`]
    must('env', `PYTHONPATH=${pipInstall(VALIDATOR)}`, ...validator)
  })
}

test('Prism in front of a server finds bad requests, but no bad response', async (t) => {
  const own = await serveDocument(t, 'proxied.json', '--demo', '--max-body', '2000')
  const args = [`${folder}/node_modules/.bin/prism`, 'proxy', 'proxied.json', own, '--port', '0']
  const prism = new Running([process.execPath, ...args], { cwd: folder, env })
  t.after(() => prism.process.kill('SIGKILL'))
  const [url] = await prism.until(/(?<=Prism is listening on )http:\S+/)
  const headers = { 'content-type': 'application/json' }
  const rex = '{"name":"Rex","categoryId":-1}'
  const large = JSON.stringify({ name: 'x'.repeat(3_000), categoryId: 1 })
  for (const [status, method, path, sent] of [
    [200, 'GET', '/pets?limit=3&status=sold&after=2', { headers: { 'x-request-id': 'any text' } }],
    [200, 'GET', '/pets/12', {}],
    [201, 'POST', '/pets', { headers, body: `{"status":"sold","more":[1.5],${rex.slice(1)}` }],
    [400, 'GET', '/pets?limit=101', {}],
    [401, 'GET', '/pets', { headers: { authorization: 'Bearer another-key' } }],
    [404, 'GET', '/pets/99', {}],
    [413, 'POST', '/pets', { headers, body: large }],
    [415, 'POST', '/pets', { headers: { 'content-type': 'text/plain' }, body: rex }],
  ] as const) {
    const answer = await check({ url }, method, path, status, sent)
    if (status < 400) assert.equal(answer.headers['sl-violations'], undefined, `${method} ${path}`)
  }
  prism.process.kill()
  for (const [, violation = ''] of (await prism.exited).stdout.matchAll(/Violation: (.*)/g))
    assert.match(violation, /^request/)
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
const query = { limit: 2, status: 'sold', after: 6 } as const
const sold = await client.GET('/pets', { params: { query } })
const one = await client.GET('/pets/{petId}', { params: { path: { petId: 13 } } })
const none = await client.GET('/pets/{petId}', { params: { path: { petId: 14 } } })
const message: string | undefined = none.error?.message
// @ts-expect-error name is missing, and categoryId a string
const wrong = await client.POST('/pets', { body: { categoryId: '7' } })
const code: components['schemas']['Error']['code'] | undefined = wrong.error?.code
// @ts-expect-error limit is a number
const text = await client.GET('/pets', { params: { query: { limit: 'two' } } })
// @ts-expect-error listOrders never answers 200
const orders: never[] = (await client.GET('/store/orders')).data
const all = [added, two, sold, one, none, wrong, text]
const statuses = all.map(({ response }) => response.status)
const seen = { id, pets, sold: sold.data, one: one.data, message, code, orders: orders ?? null }
console.log(JSON.stringify({ ...seen, statuses }))
`

const STRICT = words(`--strict --exactOptionalPropertyTypes --noUncheckedIndexedAccess --noEmit
  --ignoreConfig --module nodenext --target es2023 --lib es2023,dom,dom.iterable --types node
  --typeRoots`)

test('a client typed by openapi-typescript compiles and runs', async (t) => {
  const url = await serveDocument(t, 'typed.json', '--demo')
  await tool('openapi-typescript', 'typed.json', '-o', 'schema.d.mts')
  writeFileSync(`${folder}/client.mts`, CLIENT)
  const checked = ['tsc', ...STRICT, resolve('node_modules/@types'), `${folder}/client.mts`]
  await exec('npx', checked).catch(({ stdout }) => assert.fail(stdout))
  const args = ['--import', 'tsx', `${folder}/client.mts`, url, KEY]
  const { stdout } = await exec(process.execPath, args)
  assert.deepEqual(JSON.parse(stdout), {
    id: 13,
    pets: DEMO_PETS.slice(0, 2).map((pet, at) => ({ id: at + 1, ...pet })),
    sold: [{ id: 8, ...DEMO_PETS[7] }],
    one: { id: 13, name: 'Rex', categoryId: 7, status: 'available' },
    message: 'There is no pet with this id',
    code: 'invalid_pet',
    orders: null,
    statuses: [201, 200, 200, 200, 404, 400, 400],
  })
})

const PYTHON_CLIENT = `import sys
from petstore_client import AuthenticatedClient
from petstore_client.api.pets import list_pets

client = AuthenticatedClient(base_url=sys.argv[1], token=sys.argv[2])
print(list_pets.sync(client=client).code, list_pets.sync(client=client))
`

const noPip = !isHere('pip3', 'python3-pip') && 'there is no pip3'
test(
  'a client by openapi-python-client takes a code that a fault made up',
  {
    skip: noPip,
  },
  async (t) => {
    const packages = pipInstall('openapi-python-client==0.29.1')
    const petstore = await start(t)
    writeFileSync(`${folder}/python.json`, (await send(petstore, 'GET', '/openapi.json')).body)
    const paths = [
      `PYTHONPATH=${packages}:${folder}`,
      `PATH=${packages}/bin:${process.env['PATH']}`,
    ]
    const python = (...args: string[]) => exec('env', [...paths, 'python3', ...args])
    const files = ['--path', `${folder}/python.json`, '--output-path', `${folder}/petstore_client`]
    const generate = ['-m', 'openapi_python_client', 'generate', '--meta', 'none', ...files]
    await python(...generate)
    petstore.inject({ operation: 'listPets', status: 429, code: 'rate_limited' })
    writeFileSync(`${folder}/client.py`, PYTHON_CLIENT)
    const { stdout } = await python(`${folder}/client.py`, petstore.url, KEY)
    assert.equal(stdout, 'rate_limited []\n')
  },
)
