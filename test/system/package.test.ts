// The package as its users install it: what it holds, its types, and the projects and documents that show its use.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, before, test } from 'node:test'
import { runTour } from '../tour.ts'
import { install, makeConsumer, nodeOf, pack, REPOSITORY, run, runWith, write } from './consumer.ts'
import { TESTCONTAINERS, TS_JEST, TYPES } from './consumer-files.ts'
import { freePort } from './proxies.ts'

const COMMAND = 'petstore-server'
const DOCUMENT = 'docs/testing.md'
const NODES = [20, 22, 24, 26]
const folder = mkdtempSync(join(tmpdir(), 'petstore-'))
let packed: string
let consumer: string

before(async () => {
  packed = await pack(folder)
  consumer = await makeConsumer(folder, packed)
})
after(() => rmSync(folder, { recursive: true }))

test('the package holds what src is built to, README and LICENSE, in less than 100 kB, and depends on nothing', async () => {
  const built = /^package\/dist\/(?!stale)(?:[\w-]+\.(?:[cm]?js|json|html)|index\.d\.[cm]ts)$/
  const files = (await run(folder, 'tar', '-tzf', packed)).trim().split('\n')
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
    assert.match(await run(folder, 'npx', '--yes', linter, packed, ...args), wellDone)
  })
}

/** Type-checks files of the project as strictly as can be, with the oldest compiler too, in each way to resolve. */
async function typeCheck(files: readonly string[], compilers = ['typescript', 'typescript-5.0']): Promise<void> {
  const strict = ['--strict', '--exactOptionalPropertyTypes', '--noUncheckedIndexedAccess', '--skipLibCheck', 'false']
  for (const compiler of compilers) {
    const tsc = [`node_modules/${compiler}/bin/tsc`, '--target', 'es2022', ...strict, '--noEmit', ...files]
    await run(consumer, process.execPath, ...tsc, '--module', 'node16')
    await run(consumer, process.execPath, ...tsc, '--module', 'nodenext')
    await run(consumer, process.execPath, ...tsc, '--module', 'esnext', '--moduleResolution', 'bundler')
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
  'ts-jest': /2 passed/,
})) {
  test(`examples/${example} runs on every Node`, async () => {
    const project = join(folder, example)
    if (example === 'ts-jest') write(project, TS_JEST)
    else cpSync(join(REPOSITORY, 'examples', example), project, { recursive: true })
    await install(project, packed)
    for (const major of NODES) {
      const PATH = `${dirname(await nodeOf(major))}:${process.env['PATH']}`
      assert.match(await runWith({ PATH, NO_COLOR: '1' }, project, 'sh', '-c', 'npm test 2>&1'), passes)
    }
  })
}

/** The code blocks of a language in a document. */
function blocksOf(language: string, document: string): string[] {
  const blocks = readFileSync(join(REPOSITORY, document), 'utf8').matchAll(
    new RegExp(`^\`\`\`${language}\n(.*?\n)\`\`\`$`, 'gms'),
  )
  return Array.from(blocks, ([, code = '']) => code)
}

test("the documents' TypeScript is type-checked and runs: the first example on every Node as it stands", async () => {
  const blocks = [DOCUMENT, 'README.md'].flatMap((document) => blocksOf('ts', document))
  const files = Object.fromEntries(blocks.map((code, at) => [`document-${at}.mts`, code]))
  const names = Object.keys(files)
  assert.ok(names.length >= 5)
  write(consumer, { ...files, 'first.mjs': blocks[0] ?? '' })
  await typeCheck(names, ['typescript'])
  const tsc = ['node_modules/typescript/bin/tsc', '--target', 'es2022', '--module', 'nodenext', '--outDir', 'compiled']
  await run(consumer, process.execPath, ...tsc, ...names)
  for (const major of NODES) {
    const node = await nodeOf(major)
    await run(consumer, node, 'first.mjs')
    for (const name of names) {
      await run(consumer, node, `compiled/${name.replace('.mts', '.mjs')}`)
      if (major >= 24) await run(consumer, node, name)
    }
  }
})

for (const [runtime, evaluate, runs, tests] of [
  ['bun', '-e', ['run'], ['test', './first.test.mjs']],
  ['deno', 'eval', ['run', '-A'], ['test', '-A', '--no-check', 'first.test.mjs']],
] as const) {
  test(`${runtime} runs the first example, what requires the package, and the server with the README's tour`, async (t) => {
    const wrapper = join(consumer, 'node_modules/.bin', runtime) // it hands on no signals
    const command = (await run(consumer, wrapper, evaluate, 'console.log(process.execPath)')).trim()
    const [first = '', , client = ''] = blocksOf('ts', DOCUMENT)
    const required = client
      .replace(/^import (.*) from (.*)$/gm, 'const $1 = require($2)')
      .replaceAll(/: (string|Promise<Response>)/g, '')
    write(consumer, { 'first.test.mjs': first, 'client.mts': client, 'client.cjs': `(async () => {${required}})()` })
    await run(consumer, command, ...tests)
    for (const file of ['client.mts', 'client.cjs']) await run(consumer, command, ...runs, file)
    const env = {
      ...process.env,
      PORT: '0',
      PETSTORE_API_KEYS: 'my-secret-key',
      PETSTORE_SNAPSHOT: `${consumer}/${runtime}.json`,
    }
    const main = 'node_modules/petstore-server/dist/main.js'
    const server = spawn(command, [...runs, main, '--demo', '--log', 'json'], { cwd: consumer, env })
    t.after(() => server.kill('SIGKILL'))
    const exited = once(server, 'exit')
    let log = ''
    while (!/http:[^" ]+\/v1/.test(log)) log += (await once(server.stdout, 'data'))[0]
    server.stdout.resume()
    await runTour(/http:[^" ]+\/v1/.exec(log)?.[0] ?? '', 'my-secret-key')
    server.kill('SIGTERM')
    assert.deepEqual(await exited, [0, null])
    assert.match(readFileSync(`${consumer}/${runtime}.json`, 'utf8'), /"id":13,/)
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
  await run(consumer, process.execPath, 'containers.mjs')
})

test("the document's commands run", async (t) => {
  const [command = '', commands = '', ...more] = blocksOf('sh', DOCUMENT)
  assert.deepEqual(more, [])
  const [port, controlPort] = [await freePort(), await freePort()]
  const here = (code: string) =>
    code.replaceAll('8080', `${port}`).replaceAll('8081', `${controlPort}`).replace('count=2', 'count=0')
  assert.equal(here(command), `npx ${COMMAND} --port ${port} --api-key my-secret-key --control-port ${controlPort}\n`)
  const server = spawn('sh', ['-c', here(command)], { cwd: consumer, detached: true })
  t.after(() => server.pid !== undefined && process.kill(-server.pid))
  let greeting = ''
  for await (const chunk of server.stderr) {
    greeting += chunk
    if (greeting.includes(`:${controlPort}\n`)) break
  }
  const strict = 'set -e; curl() { command curl --fail-with-body "$@" && echo; };'
  const shown = await run(consumer, 'sh', '-c', `${strict}\n${here(commands)}`)
  assert.deepEqual(shown.split('\n').filter(Boolean), [
    '[{"id":2,"name":"Tom","categoryId":2}]',
    '[{"id":1,"name":"Rex","categoryId":1},{"id":2,"name":"Tom","categoryId":2}]',
    '{"operation":"createPet","times":2,"status":503,"retryAfter":1}',
    '[{"operation":"createPet","times":2,"status":503,"retryAfter":1}]',
    '[]',
    '[]',
  ])
})
