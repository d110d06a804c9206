import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { makeConsumer, nodeOf, type Packed, pack, REPOSITORY, run, write } from './consumer.ts'
import { COMPLETE, TESTCONTAINERS, TYPES, USAGE } from './consumer-files.ts'

const NODES = [20, 22, 24, 26]
// What index.ts leads to; the type checks below, without skipLibCheck, find what is missing.
const DECLARED = [
  ...['index', 'options', 'petstore', 'rules', 'pets/pet', 'testing/faults', 'testing/journal'],
  ...['bearer', 'dispatch', 'exchange', 'limits', 'log', 'reply', 'router'].map((name) => `http/${name}`),
]
const TARGET = ['--target', 'es2022'] // and no setting else: neither `types` nor `lib`
const folder = mkdtempSync(join(tmpdir(), 'petstore-'))
let packed: Packed
let consumer: string

before(async () => {
  packed = await pack(folder)
  consumer = await makeConsumer(folder, packed)
})
after(() => rmSync(folder, { recursive: true }))

test('the package holds what src is built to, README and LICENSE, in less than 60 kB, and depends on nothing', () => {
  const files = packed.files.map((path) => path.replace(/^(dist\/[\w-]+)-[A-Z\d]{8}\.js$/, '$1.js'))
  const built = ['main', 'index', 'chunk', 'openapi', 'snapshot-store'].map((name) => `dist/${name}.js`)
  const declarations = DECLARED.map((name) => `dist/${name}.d.ts`)
  const expected = [...built, ...declarations, 'LICENSE', 'README.md', 'package.json']
  assert.deepEqual([...new Set(files)].sort(), expected.sort())
  assert.ok(packed.bytes < 60_000, `${packed.bytes} bytes`)
  const manifest = JSON.parse(readFileSync(join(consumer, 'node_modules/petstore-server/package.json'), 'utf8'))
  for (const name of Object.keys(manifest)) assert.doesNotMatch(name, /^(peer|optional|bundle.*)?dependencies/i)
})

// The script `bundle` lets what is loaded later import all the rest: esbuild then puts what they share in one file and not four.
test('a start loads three files, and no module of node by an import, which would load what nobody asked for', () => {
  const loaded = new Set(['main.js'])
  for (const file of loaded) {
    const code = readFileSync(join(consumer, 'node_modules/petstore-server/dist', file), 'utf8')
    for (const [, specifier = ''] of code.matchAll(/(?:from|import) "([^"]+)";$/gm)) {
      assert.match(specifier, /^\.\/chunk-/)
      loaded.add(specifier.slice('./'.length))
    }
  }
  assert.equal(loaded.size, 3)
})

test('publint finds nothing', async () => {
  assert.match(await run(folder, 'npx', '--yes', 'publint@0.3.25', '--strict', packed.path), /All good!/)
})

test('arethetypeswrong finds nothing', async () => {
  // Its one rule that we break is that nothing may need `require` of an ES module: every Node that `engines` allows can do
  // it, and the tests below do. A second build as CommonJS would make two of every class in a process that loads both.
  const args = ['@arethetypeswrong/cli@0.18.5', packed.path, '--ignore-rules', 'cjs-resolves-to-esm']
  assert.match(await run(folder, 'npx', '--yes', ...args), /No problems found/)
})

/** Type-checks files of the project as strictly as can be, with two compilers and two ways to resolve. */
async function typeCheck(...files: readonly string[]): Promise<void> {
  const strict = ['--strict', '--exactOptionalPropertyTypes', '--noUncheckedIndexedAccess', '--skipLibCheck', 'false']
  for (const compiler of ['typescript', 'typescript-5']) {
    const tsc = [`node_modules/${compiler}/bin/tsc`, ...TARGET, ...strict, '--noEmit', ...files]
    await run(consumer, process.execPath, ...tsc, '--module', 'nodenext')
    await run(consumer, process.execPath, ...tsc, '--module', 'preserve', '--moduleResolution', 'bundler')
  }
}

test('its types are exact, for ES modules and CommonJS, by nodenext and bundler', async () => {
  write(consumer, { 'types.mts': TYPES, 'types.cts': TYPES })
  await typeCheck('types.mts', 'types.cts')
})

test('an editor completes the options, each with its doc', async () => {
  write(consumer, { 'complete.cjs': COMPLETE })
  const docs: Record<string, string> = JSON.parse(await run(consumer, process.execPath, 'complete.cjs'))
  const options = readFileSync(join(REPOSITORY, 'src/options.ts'), 'utf8').matchAll(/^ {2}(\w+)\?: /gm)
  const names = Array.from(options, ([, name = '']) => name).sort()
  assert.deepEqual(Object.keys(docs).sort(), names)
  for (const [name, doc] of Object.entries(docs)) assert.match(doc, /^[A-Z`].{15,}\.$/s, name)
})

const HEADS = {
  'node.test.mjs': "import { createPetstore, startPetstore } from 'petstore-server'; import { test } from 'node:test'",
  'node.test.cjs':
    "const { createPetstore, startPetstore } = require('petstore-server'), { test } = require('node:test')",
  'vitest.test.mjs': "import { createPetstore, startPetstore } from 'petstore-server'; import { test } from 'vitest'",
  'vitest.require.test.mjs':
    "import { createRequire } from 'node:module'; import { test } from 'vitest';" +
    "const { createPetstore, startPetstore } = createRequire(import.meta.url)('petstore-server')",
  'jest.test.mjs': "import { createPetstore, startPetstore } from 'petstore-server'",
  'jest.test.cjs': "const { createPetstore, startPetstore } = require('petstore-server')",
}

for (const major of NODES) {
  test(`it works on Node ${major}, imported and required, under node:test, Vitest and Jest`, async () => {
    for (const [name, head] of Object.entries(HEADS)) {
      const assertion = name.endsWith('.cjs')
        ? "const assert = require('node:assert/strict')"
        : "import assert from 'node:assert/strict'"
      write(consumer, { [name]: `${assertion}\n${head}\n${USAGE}` })
    }
    const node = await nodeOf(major)
    const jestFiles = major < 24 ? 'jest.test.mjs' : 'jest.test.[cm]js' // Jest itself cannot require ES modules before 24.9
    const vitest = 'node_modules/vitest/vitest.mjs'
    const jest = ['--experimental-vm-modules', 'node_modules/jest/bin/jest.js']
    assert.match(await run(consumer, node, '--test', 'node.test.mjs', 'node.test.cjs'), /pass 2$/m)
    await run(consumer, node, vitest, 'run', 'vitest.test.mjs', 'vitest.require.test.mjs')
    await run(consumer, node, ...jest, '--testMatch', `**/${jestFiles}`)
  })
}

/** The code blocks of a language in the README's chapter. */
function blocksOf(language: string): string[] {
  const readme = readFileSync(join(REPOSITORY, 'README.md'), 'utf8')
  const [chapter = ''] = /^## Embedding$.*?(?=^## )/ms.exec(readme) ?? []
  return Array.from(chapter.matchAll(/^```(\w+)\n(.*?\n)```$/gms)).flatMap(([, is, code = '']) =>
    is === language ? code : [],
  )
}

test("the chapter's TypeScript is type-checked and runs", async () => {
  const files = Object.fromEntries(blocksOf('ts').map((code, at) => [`readme-${at}.mts`, code]))
  const names = Object.keys(files)
  assert.equal(names.length, 3)
  write(consumer, files)
  await typeCheck(...names)
  const tsc = ['node_modules/typescript/bin/tsc', ...TARGET, '--module', 'nodenext', '--outDir', 'compiled', ...names]
  await run(consumer, process.execPath, ...tsc)
  for (const major of NODES) {
    const node = await nodeOf(major)
    for (const name of names) {
      await run(consumer, node, `compiled/${name.replace('.mts', '.mjs')}`)
      if (major >= 24) await run(consumer, node, name)
    }
  }
})

test("the chapter's Testcontainers example runs", async () => {
  const [code = '', ...more] = blocksOf('js')
  assert.match(code, /GenericContainer/)
  assert.deepEqual(more, [])
  write(join(consumer, 'node_modules/testcontainers'), {
    'package.json': JSON.stringify({ name: 'testcontainers', type: 'module', exports: './index.js' }),
    'index.js': TESTCONTAINERS,
  })
  write(consumer, { 'containers.mjs': code })
  await run(consumer, process.execPath, 'containers.mjs')
})

test("the chapter's commands run", async (t) => {
  const [command = '', commands = '', ...more] = blocksOf('sh')
  assert.deepEqual(more, [])
  const port = await freePort()
  const controlPort = await freePort()
  const here = (code: string) => code.replaceAll('8080', String(port)).replaceAll('8081', String(controlPort))
  assert.equal(here(command), `npx petstore --port ${port} --api-key my-secret-key --control-port ${controlPort}\n`)
  const server = spawn('sh', ['-c', here(command)], {
    cwd: consumer,
    detached: true,
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  t.after(() => server.pid !== undefined && process.kill(-server.pid))
  let greeting = ''
  for await (const chunk of server.stderr) {
    greeting += chunk
    if (/test controls.*\n/.test(greeting)) break
  }
  const strict = 'set -e; curl() { command curl --fail-with-body "$@" && echo; };'
  const shown = await run(consumer, 'sh', '-c', `${strict}\n${here(commands)}`)
  assert.deepEqual(
    shown.split('\n').filter((line) => line !== ''),
    [
      '[{"id":2,"name":"Tom","categoryId":2}]',
      '[{"id":1,"name":"Rex","categoryId":1},{"id":2,"name":"Tom","categoryId":2}]',
      '{"operation":"createPet","times":2,"status":503,"retryAfter":1}',
      '[{"operation":"createPet","times":2,"status":503,"retryAfter":1}]',
      '[]',
    ],
  )
})

/** A port that nothing listens on; the chapter's own may be taken. */
async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  assert.ok(typeof address === 'object' && address !== null)
  return address.port
}
