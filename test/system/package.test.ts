// The package as its users install it: what it holds, its types, and the projects and documents that show its use.
import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { before, test } from 'node:test'
import { promisify } from 'node:util'
import * as documents from '../documents.ts'
import { greetingIn } from '../process.ts'
import { folderOf, words } from '../support.ts'
import { TESTCONTAINERS, TS_JEST, TYPES } from './consumer-files.ts'
import { freePort } from './proxies.ts'

const DOCUMENT = 'docs/testing.md'
const NODES = [20, 22, 24, 26]
const SOURCES = words('src package.json tsconfig.json tsconfig.build.json README.md LICENSE CHANGELOG.md')
const DEPENDENCIES = {
  typescript: '7.0.2',
  'typescript-5.0': 'npm:typescript@5.0.4',
  '@types/node': '20.19.43',
  bun: '1.4.5',
  deno: '2.9.6',
}
const folder = folderOf()
/** The project of somebody who uses the package: outside of the repository, with the packed file installed. */
const consumer = `${folder}/consumer`
let packed = ''

/** Runs a command to its end, and gives what it prints to standard output; rejects where it fails. */
async function run(cwd: string, command: string, args: readonly string[], more: Record<string, string> = {}) {
  // Not what npm and the test runner have set up for this process: the project is somebody else's.
  const isOurs = /^(npm_|NODE_TEST_CONTEXT$|NODE_OPTIONS$|NODE_V8_)/
  const env = Object.fromEntries(Object.entries({ ...process.env, ...more }).filter(([name]) => !isOurs.test(name)))
  const running = promisify(execFile)(command, args, { cwd, env, maxBuffer: 2 ** 26 })
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

function install(project: string): Promise<string> {
  return run(project, 'npm', words(`install --no-audit --no-fund --prefer-offline --ignore-scripts ${packed}`))
}

before(async () => {
  // Packs a copy of the repository: packing makes `dist` anew, and other tests run the one that is there.
  const copy = `${folder}/repository`
  write(copy, { 'dist/stale.js': '', 'dist/stale.d.ts': '' })
  for (const name of SOURCES) cpSync(name, join(copy, name), { recursive: true })
  symlinkSync(resolve('node_modules'), `${copy}/node_modules`)
  const printed = await run(copy, 'npm', ['pack', '--pack-destination', folder])
  packed = join(folder, printed.trim().split('\n').at(-1) ?? '')
  write(consumer, { 'package.json': JSON.stringify({ private: true, dependencies: DEPENDENCIES }) })
  await install(consumer)
  await runNode('node_modules/bun/install.js') // puts the binary that npm has installed in its place
})

test('the package holds what src is built to, README and LICENSE, in less than 100 kB, and depends on nothing', async () => {
  const built = /^package\/dist\/(?!stale)(?:[\w-]+\.(?:[cm]?js|json|html)|index\.d\.[cm]ts)$/
  const files = (await run(folder, 'tar', ['-tzf', packed])).trim().split('\n')
  const others = files.filter((path) => !built.test(path)).sort()
  assert.deepEqual(others, ['package/LICENSE', 'package/README.md', 'package/package.json'])
  assert.ok(statSync(packed).size < 100_000)
  const manifest = readFileSync(join(consumer, 'node_modules/petstore-server/package.json'), 'utf8')
  assert.doesNotMatch(manifest, /^ {2}"(peer|optional|bundled?)?dependencies"/im)
})

for (const [linter, wellDone, ...args] of [
  ['publint@0.3.25', /All good!/, '--strict'],
  ['@arethetypeswrong/cli@0.18.5', /No problems found/],
] as const) {
  test(`${linter} finds nothing`, async () => {
    assert.match(await run(folder, 'npx', ['--yes', linter, packed, ...args]), wellDone)
  })
}

/** Type-checks files of the project as strictly as can be, with the oldest compiler too, in each way to resolve. */
async function typeCheck(files: readonly string[], compilers = ['typescript', 'typescript-5.0']): Promise<void> {
  const strict = words(`--target es2022 --strict --exactOptionalPropertyTypes --noUncheckedIndexedAccess
    --skipLibCheck false --noEmit`)
  for (const compiler of compilers) {
    for (const ways of ['node16', 'nodenext', 'esnext --moduleResolution bundler']) {
      await runNode(`node_modules/${compiler}/bin/tsc`, ...strict, ...files, '--module', ...words(ways))
    }
  }
}

test('its types are exact, for ES modules and CommonJS, from TypeScript 5.0 on', async () => {
  const old = TYPES.replace('await using', 'const')
  write(consumer, { 'types.mts': TYPES, 'types.cts': TYPES, 'old.mts': old, 'old.cts': old })
  await typeCheck(['old.mts', 'old.cts'])
  await typeCheck(['types.mts', 'types.cts'], ['typescript'])
})

test('both entries have one declaration file, with a doc for each option and nothing that is not public', () => {
  const [esm, cjs] = ['mts', 'cts'].map((end) =>
    readFileSync(join(consumer, `node_modules/petstore-server/dist/index.d.${end}`), 'utf8'),
  )
  assert.equal(esm, cjs)
  const lines = esm?.split('\n') ?? []
  const options = lines.flatMap((line, at) => (/^ {4}\w+\?: /.test(line) ? [[line, lines[at - 1]]] : []))
  assert.ok(options.length > 25)
  for (const [option, doc] of options) assert.match(doc ?? '', /\*\/$/, option)
  const names = lines.flatMap((line) => /^export (?:declare )?\w+ (\w+)/.exec(line)?.[1] ?? [])
  const types = 'CreateOptions Fault Int64 NewPet OperationId Pet PetStatus Petstore PetstoreOptions RecordedRequest'
  assert.deepEqual(names.sort(), [...types.split(' '), 'WaitOptions', 'createPetstore', 'startPetstore'])
  assert.doesNotMatch(esm ?? '', /^import .*'\.|import\(/m)
})

for (const [example, passes] of Object.entries({
  'node-test': /pass 2$/m,
  vitest: /2 passed/,
  jest: /2 passed/,
  mocha: /2 passing/,
  playwright: /2 passed/,
  python: /Ran 2 tests/,
  'ts-jest': /1 passed/,
})) {
  test(`examples/${example} runs on every Node`, async () => {
    const project = join(folder, example)
    if (example === 'ts-jest') write(project, TS_JEST)
    else cpSync(`examples/${example}`, project, { recursive: true })
    await install(project)
    for (const major of NODES) {
      const PATH = `${dirname(await nodeOf(major))}:${process.env['PATH']}`
      assert.match(await run(project, 'sh', ['-c', 'npm test 2>&1'], { PATH, NO_COLOR: '1' }), passes)
    }
  })
}

function blocksOf(language: string, document: string): string[] {
  return documents.blocksOf(document).flatMap((block) => (block.language === language ? block.code : []))
}

test("the documents' TypeScript is type-checked and runs: the first example on every Node as it stands", async () => {
  const blocks = [DOCUMENT, 'README.md'].flatMap((document) => blocksOf('ts', document))
  const files = Object.fromEntries(blocks.map((code, at) => [`document-${at}.mts`, code]))
  const names = Object.keys(files)
  assert.ok(names.length >= 5)
  write(consumer, { ...files, 'first.mjs': blocks[0] ?? '' })
  await typeCheck(names, ['typescript'])
  const tsc = words('node_modules/typescript/bin/tsc --target es2022 --module nodenext --outDir compiled')
  await runNode(...tsc, ...names)
  for (const major of NODES) {
    const node = await nodeOf(major)
    const compiled = names.map((name) => `compiled/${name.replace('.mts', '.mjs')}`)
    for (const file of ['first.mjs', ...compiled, ...(major >= 24 ? names : [])]) await run(consumer, node, [file])
  }
})

for (const [runtime, evaluate, runs, tests] of [
  ['bun', '-e', ['run'], ['test', './first.test.mjs']],
  ['deno', 'eval', ['run', '-A'], ['test', '-A', '--no-check', 'first.test.mjs']],
] as const) {
  test(`${runtime} runs the first example, what requires the package, and the server with the README's tour`, async (t) => {
    const wrapper = join(consumer, 'node_modules/.bin', runtime) // it hands on no signals
    const command = (await run(consumer, wrapper, [evaluate, 'console.log(process.execPath)'])).trim()
    const [first = '', , client = ''] = blocksOf('ts', DOCUMENT)
    const required = client
      .replace(/^import (.*) from (.*)$/gm, 'const $1 = require($2)')
      .replaceAll(/: (string|Promise<Response>)/g, '')
    write(consumer, { 'first.test.mjs': first, 'client.mts': client, 'client.cjs': `(async () => {${required}})()` })
    await run(consumer, command, tests)
    for (const file of ['client.mts', 'client.cjs']) await run(consumer, command, [...runs, file])
    const snapshot = `${consumer}/${runtime}.json`
    const env = { ...process.env, PORT: '0', PETSTORE_API_KEYS: 'my-secret-key', PETSTORE_SNAPSHOT: snapshot }
    const main = 'node_modules/petstore-server/dist/main.js'
    const server = spawn(command, [...runs, main, '--demo', '--log', 'json'], { cwd: consumer, env })
    t.after(() => server.kill('SIGKILL'))
    const exited = once(server, 'exit')
    await documents.runTour(await greetingIn(server.stdout, /http:[^" ]+\/v1/), 'my-secret-key')
    server.kill('SIGTERM')
    assert.deepEqual(await exited, [0, null])
    assert.match(readFileSync(snapshot, 'utf8'), /"id":13,/)
  })
}

test("the document's Testcontainers example runs", async () => {
  const [code = '', ...more] = blocksOf('js', DOCUMENT)
  assert.match(code, /GenericContainer/)
  assert.deepEqual(more, [])
  write(join(consumer, 'node_modules/testcontainers'), {
    'package.json': JSON.stringify({ name: 'testcontainers', type: 'module', exports: './index.js' }),
    'index.js': TESTCONTAINERS,
  })
  write(consumer, { 'containers.mjs': code })
  await runNode('containers.mjs')
})

test("the document's commands run", async (t) => {
  const [command = '', commands = '', ...more] = blocksOf('sh', DOCUMENT)
  assert.deepEqual(more, [])
  const [port, controlPort] = [await freePort(), await freePort()]
  const here = (code: string) =>
    code.replaceAll('8080', `${port}`).replaceAll('8081', `${controlPort}`).replace('count=2', 'count=0')
  assert.match(here(command), new RegExp(`^npx petstore-server --port ${port} .* --control-port ${controlPort}$`))
  const server = spawn('sh', ['-c', here(command)], { cwd: consumer, detached: true })
  t.after(() => server.pid !== undefined && process.kill(-server.pid))
  await greetingIn(server.stderr, new RegExp(`:${controlPort}\n`))
  const strict = 'set -e; curl() { command curl --fail-with-body "$@" && echo; };'
  const shown = await run(consumer, 'sh', ['-c', `${strict}\n${here(commands)}`])
  assert.deepEqual(shown.split('\n').filter(Boolean), [
    '[{"id":2,"name":"Tom","categoryId":2}]',
    '[{"id":1,"name":"Rex","categoryId":1},{"id":2,"name":"Tom","categoryId":2}]',
    '{"operation":"createPet","times":2,"status":503,"retryAfter":1}',
    '[{"operation":"createPet","times":2,"status":503,"retryAfter":1}]',
    '[]',
    '[]',
  ])
})
