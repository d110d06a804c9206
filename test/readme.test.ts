// The documents: their snippets are run as they stand, their tables are held to the code, and their links lead somewhere.
import assert from 'node:assert/strict'
import { cpSync, existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { test } from 'node:test'
import { DEMO_PETS } from './demo.ts'
import { type Pet, startPetstore } from '../src/index.ts'
import { blocksOf, DOCUMENTS, exec, read, runTour } from './documents.ts'
import { run, serve } from './executable.ts'
import { Running } from './process.ts'
import { folderOf, KEY, send, start, words } from './support.ts'

/** The environment of a user, without what this test runner and npm have set up. */
const ENV = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => !/^(npm_|NODE_TEST_CONTEXT$|NODE_V8_)/.test(name)),
)

// Most are run below or in test/system/package.test.ts, those of CONTRIBUTING.md in .ci/run.
test('no document has a block of code in a language that no test runs', () => {
  const found = new Set(DOCUMENTS.flatMap((path) => blocksOf(path).map(({ language }) => `${path} ${language}`)))
  const known = 'README.md:http,js,json,sh,text CONTRIBUTING.md:sh docs/architecture.md:mermaid docs/deployment.md:sh'
  for (const one of words(`${known} docs/snapshot.md:json,sh docs/testing.md:js,sh,ts`)) {
    const [path = '', languages = ''] = one.split(':')
    for (const language of languages.split(',')) assert.ok(found.delete(`${path} ${language}`), one)
  }
  assert.deepEqual([...found], [])
})

test('README.md has at most 200 lines of at most 110 characters', () => {
  const lines = read('README.md').trimEnd().split('\n')
  assert.ok(lines.length <= 200, `${lines.length} lines`)
  for (const line of lines) assert.ok(line.length <= 110, line)
})

function anchorsOf(path: string): string[] {
  const headings = Array.from(read(path).matchAll(/^#+ (.*)$/gm), ([, heading = '']) => heading.toLowerCase())
  return headings.map((heading) => heading.replace(/[^\w\s-]/g, '').replaceAll(' ', '-'))
}

test('every relative link leads to a file, and to a heading in it; every path in code exists', () => {
  for (const path of DOCUMENTS) {
    const prose = read(path).replace(/^```.*?^```$/gms, '')
    for (const [, target = ''] of prose.matchAll(/\]\((?!\w+:)([^)]+)\)/g)) {
      const [file = '', anchor] = target.split('#')
      const linked = file === '' ? path : normalize(join(dirname(path), file))
      assert.ok(existsSync(linked), `${path}: ${target}`)
      if (anchor !== undefined) assert.ok(anchorsOf(linked).includes(anchor), `${path}: ${target}`)
    }
    for (const [, named = ''] of prose.matchAll(/`((?:src|test|docs|examples|\.github)\/[^`\s*]*)`/g)) {
      assert.ok(existsSync(named), `${path}: ${named}`)
    }
  }
})

test('every script, variable and flag for the server that the documents name exists', async () => {
  const { stdout: help } = await run(['--help'])
  const { scripts } = JSON.parse(read('package.json'))
  const own = ['cit', 'ci', 'pack', 'install']
  for (const path of DOCUMENTS) {
    const names = (pattern: RegExp) => Array.from(read(path).matchAll(pattern), ([, name = '']) => name)
    for (const name of names(/\b(PETSTORE_[A-Z_]+[A-Z])\b/g))
      assert.ok(help.match(/\w+/g)?.includes(name), `${path}: ${name}`)
    for (const name of names(/(?:^|`)npm (?:run )?([a-z:]+)/gm)) {
      assert.ok(own.includes(name) || name in scripts, `${path}: npm ${name}`)
    }
    for (const flags of names(/\bpetstore-server((?: --[a-z-]+(?: [^-\s]\S*)?)+)$/gm)) {
      for (const flag of flags.match(/--[a-z-]+/g) ?? []) assert.ok(help.includes(`${flag} `), `${path}: ${flag}`)
    }
  }
})

test('the tour shows what its commands print', async (t) => {
  await runTour((await start(t, { pets: DEMO_PETS })).url, KEY)
})

test('on a terminal the server prints what is shown, but for its key and port', async (t) => {
  const { process, url } = await serve(t, ['--demo'], { isTTY: true })
  const [shown] = blocksOf('README.md', 'Two commands').filter(({ language }) => language === 'text')
  const [, key = ''] = /#key=(\S+)/.exec(shown?.code ?? '') ?? []
  const [, ownKey = ''] = /#key=(\S+)/.exec(process.stdout.text) ?? []
  const printed = process.stdout.text.replaceAll(new URL(url).host, '127.0.0.1:8080').replaceAll(ownKey, key)
  assert.ok(printed.startsWith(`${shown?.code}\n`), printed)
})

test('npm start says at once what it waits for, serves the demo pets, and ends by Ctrl-C', async (t) => {
  const env = { ...ENV, PORT: '0', PETSTORE_API_KEYS: KEY }
  const server = new Running(['npm', 'start'], { env, detached: true })
  const group = -Number(server.process.pid)
  t.after(() => server.process.exitCode ?? server.process.signalCode ?? process.kill(group, 'SIGKILL'))
  const pets: Pet[] = JSON.parse((await send(await server.serves(), 'GET', '/v1/pets')).body)
  assert.deepEqual([pets.length, new Set(pets.map(({ name }) => name)).size], [12, 12])
  assert.equal(new Set(pets.map(({ status }) => status)).size, 4) // one has none
  process.kill(group, 'SIGINT')
  assert.match((await server.exited).stdout, /^Loading tsx/m)
})

test('the first example runs as it stands', async (t) => {
  const [{ code } = { code: '' }] = blocksOf('README.md', 'In a test suite')
  const file = join(folderOf(t), 'example.test.mjs')
  writeFileSync(file, code.replace("'petstore-server'", `'${new URL('../src/index.ts', import.meta.url)}'`))
  const flags = ['--import', 'tsx', '--test', '--test-reporter=tap']
  const { stdout } = await exec(process.execPath, [...flags, file], { env: ENV })
  assert.match(stdout, /^# pass 1$/m)
})

test('the snapshot is read as it is shown, and its copies have what was acknowledged', async (t) => {
  const [{ code: shown } = { code: '' }, { code: commands } = { code: '' }] = blocksOf('docs/snapshot.md')
  const folder = folderOf(t)
  mkdirSync(join(folder, 'backup'))
  writeFileSync(join(folder, 'pets.json'), shown)
  const petstore = await start(t, { snapshot: join(folder, 'pets.json') })
  await petstore.add({ name: 'Ada', categoryId: 1 })
  await exec('sh', ['-ec', commands.replace(/(?<= 2>\/dev\/null) #.*/, ' || :')], { cwd: folder })
  const copy = await startPetstore({ snapshot: join(folder, 'backup', 'pets.json') })
  const names = copy.pets.map(({ name }) => name)
  assert.deepEqual(names, ['Rex', 'Tom', 'Ada'])
  await copy.close()
})

test('in a fresh clone npm pack says to run npm ci first, and leaves what was built before', async (t) => {
  const folder = folderOf(t)
  cpSync('package.json', join(folder, 'package.json'))
  mkdirSync(join(folder, 'dist'))
  writeFileSync(join(folder, 'dist/main.js'), '')
  await assert.rejects(exec('npm', ['pack'], { cwd: folder, env: ENV }), /Run npm ci first/)
  assert.ok(existsSync(join(folder, 'dist/main.js')))
})

test('the table of settings has the flags, variables and defaults of --help', async () => {
  const { stdout } = await run(['--help'])
  const rows = stdout.matchAll(/^ {2}(--\S+(?: [A-Z]+)?) +([A-Z_]+)\s.* \((.*)\)$/gm)
  const help = [...rows].map(([, flag, variable, fallback]) => `| \`${flag}\` | \`${variable}\` | ${fallback} |`)
  const rowsIn = read('docs/configuration.md').match(/^\| `--.*? \| .*? \| .*? \|/gm)
  assert.deepEqual(rowsIn?.sort(), help.sort())
})

test('the table of errors has every code of the OpenAPI document with its status', async (t) => {
  const { body } = await send(await start(t), 'GET', '/openapi.json')
  const codes = new Map<string, number>()
  JSON.parse(body, (_, value) => {
    if (typeof value?.code === 'string' && typeof value.status === 'number') codes.set(value.code, value.status)
    return value
  })
  assert.ok(codes.size > 10)
  for (const [code, status] of codes) {
    const row = new RegExp(`^\\| ${code === 'injected_fault' ? 'any' : status} \\| .*\`${code}\``, 'm')
    assert.match(read('docs/contract.md'), row)
  }
})
