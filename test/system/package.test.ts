// The package as its users install it: its files, its types, and the examples and documents.
import assert from 'node:assert/strict'
import { cpSync, mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { before, test, type TestContext } from 'node:test'
import type { RecordedRequest } from '../../src/types.ts'
import * as documents from '../documents.ts'
import { Running, USER_ENV } from '../process.ts'
import { folderOf, freePort, KEY, words } from '../support.ts'
import { assertConforms } from '../verify.ts'
import { TESTCONTAINERS, TYPES, XDIST } from './consumer-files.ts'
import { isHere, npmInstall, pipInstall } from './packages.ts'

const TESTING = 'docs/testing.md'
const SHARED = 'docs/shared-server.md'
const CLASS = 'docs/class.md'
const LANGUAGES = 'docs/http-controls.md'
const NODES = [20, 22, 24, 26]
const CONFIGS = ['package.json', 'tsconfig.json', 'tsconfig.build.json']
const TEXTS = ['README.md', 'LICENSE', 'CHANGELOG.md', 'CONTRIBUTING.md', 'SECURITY.md']
const SOURCES = [...CONFIGS, ...TEXTS, 'src', 'docs', 'examples']
const DEPENDENCIES = {
  typescript: '7.0.2',
  'typescript-5.0': 'npm:typescript@5.0.4',
  '@types/node': '20.19.43',
  bun: '1.4.5',
  deno: '2.9.6',
}
const PUBLIC_TYPES =
  words(`Added Awaitable BodyEffect BodyFault ConnectOptions Delay DelayFault ErrorFault
  Fault GetPetState HangUpFault InitialPet InjectedFault Int64 NewPet OperationId Page PageQuery
  PendingFault Pet PetStatus Petstore PetstoreErrorCode PetstoreOptions RecordedOperation
  RecordedRequest RemoteFault RemotePetstore StartOptions Store WaitOptions`)
const folder = folderOf()
/** A user's project, outside of the repository, with the packed file installed. */
const consumer = `${folder}/consumer`
let packed = ''

/** Runs a command that must succeed, and returns its standard output. */
async function run(cwd: string, command: string, args: readonly string[], more = {}) {
  const env = { ...USER_ENV, ...more }
  const running = documents.exec(command, args, { cwd, env, maxBuffer: 2 ** 26 })
  const { stdout } = await running.catch((cause) => {
    throw new Error(`${command} ${args.join(' ')}\n${cause.stdout}${cause.stderr}`, { cause })
  })
  return stdout
}

const runNode = (...args: string[]) => run(consumer, process.execPath, args)

async function nodeOf(major: number): Promise<string> {
  if (process.version.startsWith(`v${major}.`)) return process.execPath
  return (await run('.', 'npx', ['--yes', '-p', `node@${major}`, '-c', 'command -v node'])).trim()
}

function write(project: string, files: Readonly<Record<string, string>>): void {
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(join(project, name)), { recursive: true })
    writeFileSync(join(project, name), content)
  }
}

before(async () => {
  // A copy of the repository: packing rebuilds `dist`, and other tests run the existing one.
  const copy = `${folder}/repository`
  write(copy, { 'dist/stale.js': '', 'dist/stale.d.ts': '' })
  for (const name of SOURCES) cpSync(name, join(copy, name), { recursive: true })
  symlinkSync(resolve('node_modules'), `${copy}/node_modules`)
  const printed = await run(copy, 'npm', ['pack', '--pack-destination', folder])
  packed = join(folder, printed.trim().split('\n').at(-1) ?? '')
  write(consumer, { 'package.json': JSON.stringify({ private: true, dependencies: DEPENDENCIES }) })
  npmInstall(consumer, packed)
  await runNode('node_modules/bun/install.js') // moves its binary into place
})

test('the package has only the build, documents and examples, and depends on nothing', async () => {
  const built =
    /^package\/dist\/(?!stale)(?:[\w-]+\.(?:c?js|json|html)|types\/(?:petstore\/)?[\w-]+\.d\.ts)$/
  const files = (await run(folder, 'tar', ['-tzf', packed])).trim().split('\n')
  const others = files.filter((path) => !built.test(path)).sort()
  const listed = await run('.', 'git', ['ls-files', 'docs', 'examples'])
  const wanted = ['package.json', ...TEXTS, ...listed.trim().split('\n')]
  assert.deepEqual(others, wanted.map((path) => `package/${path}`).sort())
  const manifest = readFileSync(join(consumer, 'node_modules/petstore-server/package.json'), 'utf8')
  assert.doesNotMatch(manifest, /^ {2}"(peer|optional|bundled?)?dependencies"/im)
})

test('Node 18 is told which Node is needed, by the executable and by the package', async () => {
  const old = ['--yes', '-p', 'node@18', 'node']
  const why = /petstore-server needs Node 20\.19 or later; this is 18\./
  const main = 'node_modules/petstore-server/dist/main.js'
  await assert.rejects(run(consumer, 'npx', [...old, main]), { message: why })
  const load = [...old, '-p', "require('petstore-server')"]
  await assert.rejects(run(consumer, 'npx', load), { message: why })
})

for (const [linter, wellDone, ...args] of [
  ['publint@0.3.25', /All good!/, '--strict'],
  ['@arethetypeswrong/cli@0.18.5', /No problems found/],
] as const) {
  test(`${linter} finds nothing`, async () => {
    assert.match(await run(folder, 'npx', ['--yes', linter, packed, ...args]), wellDone)
  })
}

/** Type-checks files as strictly as possible, with each way to resolve modules. */
async function typeCheck(compiler: string, ...files: readonly string[]): Promise<void> {
  const strict = words(`--target es2022 --strict --exactOptionalPropertyTypes --noEmit
    --noUncheckedIndexedAccess --skipLibCheck false`)
  const tsc = [`node_modules/${compiler}/bin/tsc`, ...strict, ...files]
  for (const modules of [['node16'], ['nodenext'], ['esnext', '--moduleResolution', 'bundler']])
    await runNode(...tsc, '--module', ...modules)
}

test('its types are exact, for ES modules and CommonJS, from TypeScript 5.0 on', async () => {
  const old = TYPES.replace('await using', 'const')
  write(consumer, { 'types.mts': TYPES, 'types.cts': TYPES, 'old.mts': old, 'old.cts': old })
  await typeCheck('typescript-5.0', 'old.mts', 'old.cts')
  await typeCheck('typescript', 'old.mts', 'old.cts', 'types.mts', 'types.cts')
})

test('its declarations have a doc for each option, and name nothing that is not public', () => {
  const folder = join(consumer, 'node_modules/petstore-server/dist/types')
  const declarations = (name: string) => readFileSync(join(folder, `${name}.d.ts`), 'utf8')
  const index = declarations('index')
  const petstore = declarations('petstore/launch') + declarations('petstore/connect')
  const types = ['types', 'fake-types', 'store-types'].map(declarations).join('')
  assert.equal(readdirSync(folder).length, 5)
  const lines = types.split('\n')
  for (const [at, line] of lines.entries())
    if (/^ {4}\w+\?: (?!undefined|false)/.test(line))
      assert.match(lines[at - 1] ?? '', /\*\/$/, line)
  const namesIn = (code: string) =>
    Array.from(code.matchAll(/^export (?:declare )?\w+ (\w+)/gm), ([, name = '']) => name).sort()
  assert.deepEqual(namesIn(petstore), ['connectPetstore', 'createPetstore', 'startPetstore'])
  assert.deepEqual(namesIn(types), PUBLIC_TYPES.sort())
  const imported = `${index}${petstore}${types}`.matchAll(/(?:from |import\()'(.*?)'/g)
  const published = words(`./petstore/launch.ts ./petstore/connect.ts ./types.ts
    ./fake-types.ts ./store-types.ts ../types.ts node:http node:stream`)
  for (const [, path = ''] of imported) assert.ok(published.includes(path), path)
})

for (const [example, passes] of Object.entries({
  'node-test': /pass 4$/m,
  vitest: /4 passed/,
  jest: /4 passed/,
  mocha: /4 passing/,
  playwright: /4 passed/,
  browser: /pass 4$/m,
  python: /Ran 4 tests/,
})) {
  const skip = example === 'browser' && !isHere('chromium') && 'there is no chromium'
  test(`examples/${example} runs on every Node`, { skip }, async () => {
    const project = join(folder, example)
    cpSync(`examples/${example}`, project, { recursive: true })
    npmInstall(project, packed)
    for (const major of NODES) {
      const PATH = `${dirname(await nodeOf(major))}:${process.env['PATH']}`
      const more = { PATH, NO_COLOR: '1', CHROME: '/usr/bin/chromium' }
      assert.match(await run(project, 'sh', ['-c', 'npm test 2>&1'], more), passes)
    }
  })
}

function blocksOf(language: string, document: string): string[] {
  const blocks = documents.blocksOf(document)
  return blocks.filter((block) => block.language === language).map(({ code }) => code)
}

test("the documents' JavaScript compiles as TypeScript, and runs on every Node", async () => {
  const port = `${await freePort()}`
  const blocks = documents.DOCUMENTS.flatMap((document) => blocksOf('js', document))
  const unnamed = blocks.filter((code) => !code.startsWith('// ')) // others have their own tests
  assert.ok(unnamed.length >= 15)
  const codes = unnamed.map((code) => code.replaceAll('3000', port))
  const files = (extension: string) =>
    Object.fromEntries(codes.map((code, at) => [`document-${at}.${extension}`, code]))
  write(consumer, { ...files('mts'), ...files('mjs') })
  await typeCheck('typescript', ...Object.keys(files('mts')))
  for (const major of NODES) {
    const node = await nodeOf(major)
    for (const file of Object.keys(files('mjs'))) await run(consumer, node, [file])
  }
})

test("the document's server in another process runs the tests, on every Node", async () => {
  const project = join(folder, 'other-process')
  const [runner = '', tests = ''] = blocksOf('js', SHARED)
  write(project, { 'run-tests.mjs': runner, 'pets.test.mjs': tests })
  npmInstall(project, packed)
  for (const major of NODES) {
    const node = await nodeOf(major)
    const PATH = `${dirname(node)}:${process.env['PATH']}`
    assert.match(await run(project, node, ['run-tests.mjs'], { PATH }), /pass 1$/m)
  }
})

test('the executable does not load fetch, a sixth of its start, on every Node', async (t) => {
  const report = `console.log(process.moduleLoadList.filter((name) => name.includes('undici')))`
  write(consumer, { 'report.cjs': `process.on('exit', () => ${report})\n` })
  const executable = join(consumer, 'node_modules/petstore-server/dist/main.js')
  const command = ['--require', join(consumer, 'report.cjs'), executable, '--api-key', KEY]
  for (const major of NODES) {
    const server = new Running([await nodeOf(major), ...command, '--port', '0', '--log', 'off'])
    t.after(() => server.process.kill('SIGKILL'))
    await server.serves()
    server.process.kill('SIGTERM')
    assert.match((await server.exited).stdout, /\n\[\]\n$/)
  }
})

for (const [runtime, evaluate, runs, tests] of [
  ['bun', '-e', ['run'], ['test', './first.test.mjs']],
  ['deno', 'eval', ['run', '-A'], ['test', '-A', '--no-check', 'first.test.mjs']],
] as const) {
  test(`${runtime} runs the package, and serves the tour and all rules`, async (t) => {
    const wrapper = join(consumer, 'node_modules/.bin', runtime) // it hands on no signals
    const printed = await run(consumer, wrapper, [evaluate, 'console.log(process.execPath)'])
    const command = printed.trim()
    const blocks = blocksOf('js', TESTING)
    const [first = ''] = blocks
    const client = blocks.find((code) => code.includes('// The client under test')) ?? ''
    const required = client
      .replace(/^import (.*) from (.*)$/gm, 'const $1 = require($2)')
      .replace(' as ', ': ')
    write(consumer, {
      'first.test.mjs': first,
      'client.mts': client,
      'client.cjs': `(async () => {${required}})()`,
    })
    await run(consumer, command, tests)
    for (const file of ['client.mts', 'client.cjs']) await run(consumer, command, [...runs, file])
    const snapshot = `${consumer}/${runtime}.json`
    const key = 'my-secret-key' // the tour's
    const settings = { PETSTORE_API_KEYS: `${key},${KEY}`, PETSTORE_SNAPSHOT: snapshot }
    const env = { ...USER_ENV, PORT: '0', ...settings }
    const main = 'node_modules/petstore-server/dist/main.js'
    const args = [...runs, main, '--demo', '--log', 'json']
    const server = new Running([command, ...args], { cwd: consumer, env })
    t.after(() => server.process.kill('SIGKILL'))
    const { url } = await server.serves()
    await documents.runTour(url, key)
    await assertConforms(url)
    server.process.kill('SIGTERM')
    assert.equal((await server.exited).status, 0)
    assert.match(readFileSync(snapshot, 'utf8'), /"id":13,/)
  })
}

const noPip = !isHere('pip3', 'python3-pip') && 'there is no pip3'
test("the document's pytest example runs", { skip: noPip }, async () => {
  const [code = '', ...more] = blocksOf('python', LANGUAGES)
  assert.deepEqual(more, [])
  write(consumer, { 'test_pets.py': code })
  const env = { PYTHONPATH: pipInstall('pytest==8.4.2'), HOST: 'host.invalid' }
  const printed = await run(consumer, 'python3', ['-m', 'pytest', 'test_pets.py'], env)
  assert.match(printed, /1 passed/)
})

test("the document's conftest.py shares a server among workers", { skip: noPip }, async () => {
  const [code = '', ...more] = blocksOf('python', SHARED)
  assert.deepEqual(more, [])
  const project = join(folder, 'xdist')
  write(project, { 'conftest.py': code, 'test_shared.py': XDIST })
  npmInstall(project, packed)
  const env = { PYTHONPATH: pipInstall('pytest==8.4.2', 'pytest-xdist==3.8.0') }
  for (const flags of [[], ['-n', '2']])
    assert.match(await run(project, 'python3', ['-m', 'pytest', ...flags], env), /4 passed/)
})

test("the document's Testcontainers example runs", async () => {
  const [code = '', ...more] = blocksOf('js', LANGUAGES)
  assert.match(code, /GenericContainer/)
  assert.deepEqual(more, [])
  const manifest = { name: 'testcontainers', type: 'module', exports: './index.js' }
  const files = { 'package.json': JSON.stringify(manifest), 'index.js': TESTCONTAINERS }
  write(join(consumer, 'node_modules/testcontainers'), files)
  write(consumer, { 'containers.mjs': code })
  await runNode('containers.mjs')
})

/** Starts the server of a document, and runs its last commands. Returns what they print. */
async function runCommands(t: TestContext, document: string, cwd: string, prelude = '') {
  const [command = '', ...others] = blocksOf('sh', document)
  const commands = others.pop() ?? ''
  const ports = { 8080: `${await freePort()}`, 8081: `${await freePort()}` }
  const here = (code: string) =>
    code.replaceAll('8080', ports[8080]).replaceAll('8081', ports[8081])
  const env = { ...USER_ENV, PORT: ports[8080] }
  const logged = here(command).replace(' > server.log', '')
  const server = new Running(['sh', '-c', logged], { cwd, env, detached: true })
  t.after(() => process.kill(-Number(server.process.pid)))
  await server.serves()
  const shown = await run(consumer, 'sh', ['-c', `${prelude}\n${here(commands)}`])
  return { command, printed: shown.split('\n').filter(Boolean) }
}

test('the commands for other languages run', async (t) => {
  const strict = 'set -e; curl() { command curl --fail-with-body "$@"; };'
  const { command, printed } = await runCommands(t, LANGUAGES, consumer, strict)
  assert.match(command, /^node_modules\/\.bin\/petstore-server --port 8080 .* --control-port 8081$/)
  const [controls = '', ...others] = printed
  assert.match(controls, /^\[\{"method":"GET","path":"\/"\},.*\{"method":"POST","path":"\/reset"\}/)
  assert.match(others.pop() ?? '', /^\[\{"operation":"listPets","method":"GET",/)
  assert.deepEqual(others, [
    '[{"id":2,"name":"Tom","categoryId":2}]',
    '{"operation":"createPet","times":2,"status":503,"retryAfter":1,"hits":0}',
    '[{"operation":"createPet","times":2,"status":503,"retryAfter":1,"hits":0}]',
    '{"hits":0}',
    '"deprecated"',
    '[]',
    '[{"id":1,"name":"Rex","categoryId":1},{"id":2,"name":"Tom","categoryId":2}]',
  ])
})

test('the commands for a class run', async (t) => {
  const { command, printed } = await runCommands(t, CLASS, '.')
  assert.match(
    command,
    /^PETSTORE_TEACHER_KEY=\S+ npm start -- .*--store-per-key .* > server\.log$/s,
  )
  const luna = '{"id":13,"name":"Luna","categoryId":1}'
  const requests: RecordedRequest[] = JSON.parse(printed.pop() ?? '')
  assert.deepEqual(
    requests.map(({ status, code }) => [status, code]),
    [
      [201, null],
      [503, 'injected_fault'],
    ],
  )
  const store = (pets: number, status: number) =>
    `{"number":N,"keyStart":K,"pets":${pets},"requests":1,"lastStatus":${status},"since":S}`
  const limit = '"code":"rate_limited","message":"Too many requests: wait"'
  const limits = `{"operation":"*","status":429,"retryAfter":5,${limit},"times":1,"hits":0}`
  const slow = '{"operation":"*","delay":1500,"times":"always","hits":0}'
  const shown = printed.map((line) =>
    line
      .replace(/"number":\d/, '"number":N')
      .replace(/"(keyStart|since)":"[^"]+"/g, (_, name) =>
        name === 'since' ? '"since":S' : '"keyStart":K',
      ),
  )
  assert.deepEqual(shown, [
    luna,
    '[]',
    `[${store(13, 201)},`,
    `${store(12, 200)}]`,
    '{"operation":"listPets","status":503,"times":1,"hits":0}',
    '{"code":"injected_fault","message":"A test asked for this fault","status":503}',
    `{"0":${limits},`,
    `"1":${limits}}`,
    '{"code":"rate_limited","message":"Too many requests: wait","status":429}',
    `{"0":${slow},`,
    `"1":${slow}}`,
  ])
})

test('no other command is in these documents, except that of the image', () => {
  const [, image, ...others] = blocksOf('sh', CLASS)
  assert.match(image ?? '', /^docker run .*\\\n {2}petstore-server --demo /)
  assert.equal(others.length, 1)
  assert.equal(blocksOf('sh', LANGUAGES).length, 2)
})
