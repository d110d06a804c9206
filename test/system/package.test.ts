import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { makeConsumer, nodeOf, pack, REPOSITORY, run, write } from './consumer.ts'
import { TESTCONTAINERS, TYPES, USAGE } from './consumer-files.ts'
import { freePort } from './proxies.ts'

const COMMAND = 'petstore-server'
/** The document that shows how a test suite uses it, and its chapter. */
const [DOCUMENT, CHAPTER] = ['README.md', /^## Embedding$.*?(?=^## )/ms]
const NODES = [20, 22, 24, 26]
const TARGET = ['--target', 'es2022'] // and no setting else: neither `types` nor `lib`
const folder = mkdtempSync(join(tmpdir(), 'petstore-'))
let packed: string
let consumer: string

before(async () => {
  packed = await pack(folder)
  consumer = await makeConsumer(folder, packed)
})
after(() => rmSync(folder, { recursive: true }))

test('the package holds what src is built to, README and LICENSE, in less than 70 kB, and depends on nothing', async () => {
  const built = /^package\/dist\/(?!stale)(?:[\w-]+\.(?:js|json|html)|(?:\w+\/)?[\w-]+\.d\.ts)$/
  const files = (await run(folder, 'tar', '-tzf', packed)).trim().split('\n')
  const others = files.filter((path) => !built.test(path)).sort()
  assert.deepEqual(others, ['package/LICENSE', 'package/README.md', 'package/package.json'])
  assert.ok(statSync(packed).size < 70_000)
  const manifest = readFileSync(join(consumer, 'node_modules/petstore-server/package.json'), 'utf8')
  assert.doesNotMatch(manifest, /^ {2}"(peer|optional|bundled?)?dependencies"/im)
})

// The rule of arethetypeswrong that is ignored is that nothing may need `require` of an ES module: every Node that `engines`
// allows can do it, and the tests below do. A second build as CommonJS would make two of every class.
for (const [linter, wellDone, ...args] of [
  ['publint@0.3.25', /All good!/, '--strict'],
  ['@arethetypeswrong/cli@0.18.5', /No problems found/, '--ignore-rules', 'cjs-resolves-to-esm'],
] as const) {
  test(`${linter} finds nothing`, async () => {
    assert.match(await run(folder, 'npx', '--yes', linter, packed, ...args), wellDone)
  })
}

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

test('each option has its doc in the declarations, for editors to show', () => {
  const lines = readFileSync(join(consumer, 'node_modules/petstore-server/dist/types.d.ts'), 'utf8').split('\n')
  const options = lines.flatMap((line, at) => (/^ {4}\w+\?: /.test(line) ? [[line, lines[at - 1]]] : []))
  assert.ok(options.length > 15)
  for (const [option, doc] of options) assert.match(doc ?? '', /\*\/$/, option)
})

const imports = (runner: string) =>
  `import assert from 'node:assert/strict'; import { createPetstore, startPetstore } from 'petstore-server'; ${runner}`
const requires = (runner: string) =>
  `const assert = require('node:assert/strict'), { createPetstore, startPetstore } = require('petstore-server'); ${runner}`
const SUITES = {
  'node.test.mjs': imports("import { test } from 'node:test'"),
  'node.test.cjs': requires("const { test } = require('node:test')"),
  'vitest.test.mjs': imports("import { test } from 'vitest'"),
  'jest.test.mjs': imports(''),
  'jest.test.cjs': requires(''),
}

for (const major of NODES) {
  test(`it works on Node ${major}, imported and required, under node:test, Vitest and Jest`, async () => {
    for (const [name, head] of Object.entries(SUITES)) write(consumer, { [name]: `${head}\n${USAGE}` })
    const node = await nodeOf(major)
    const jestFiles = major < 24 ? 'jest.test.mjs' : 'jest.test.[cm]js' // Jest itself cannot require ES modules before 24.9
    const jest = ['--experimental-vm-modules', 'node_modules/jest/bin/jest.js', '--testMatch', `**/${jestFiles}`]
    assert.match(await run(consumer, node, '--test', 'node.test.mjs', 'node.test.cjs'), /pass 2$/m)
    await run(consumer, node, 'node_modules/vitest/vitest.mjs', 'run', 'vitest.test.mjs')
    await run(consumer, node, ...jest)
  })
}

/** The code blocks of a language in the chapter. */
function blocksOf(language: string): string[] {
  const [chapter = ''] = CHAPTER.exec(readFileSync(join(REPOSITORY, DOCUMENT), 'utf8')) ?? []
  const blocks = chapter.matchAll(new RegExp(`^\`\`\`${language}\n(.*?\n)\`\`\`$`, 'gms'))
  return Array.from(blocks, ([, code = '']) => code)
}

test("the chapter's TypeScript is type-checked and runs", async () => {
  const files = Object.fromEntries(blocksOf('ts').map((code, at) => [`readme-${at}.mts`, code]))
  const names = Object.keys(files)
  assert.ok(names.length >= 3)
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
  const [port, controlPort] = [await freePort(), await freePort()]
  const here = (code: string) => code.replaceAll('8080', `${port}`).replaceAll('8081', `${controlPort}`)
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
  ])
})
