// The documents: their snippets are run as they stand, their tables are held to the code, and their links lead somewhere.
import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { text } from 'node:stream/consumers'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { DEMO_PETS } from '../src/pets/demo.ts'
import { startPetstore } from '../src/petstore.ts'
import { blocksOf, DOCUMENTS, read } from './documents.ts'
import { run, serve } from './executable.ts'
import { greetingIn } from './process.ts'
import { folderOf, KEY, send, start } from './support.ts'
import { runTour } from './tour.ts'

const exec = promisify(execFile)
/** The environment of a user, without what this test runner and npm have set up. */
const ENV = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => !/^(npm_|NODE_TEST_CONTEXT$|NODE_V8_)/.test(name)),
)

/** Which test runs the blocks of a document in a language. */
const RUN_BY: Readonly<Record<string, string>> = {
  'README.md sh': 'below: the tour, npm start, and the commands for containers',
  'README.md json': 'below: the tour',
  'README.md http': 'below: the tour',
  'README.md js': 'below',
  'README.md text': 'below: the greeting',
  'CONTRIBUTING.md sh': '.ci/run',
  'docs/architecture.md mermaid': 'none: drawings; test/rooms.test.ts',
  'docs/deployment.md sh': 'below: the commands for containers',
  'docs/snapshot.md json': 'below',
  'docs/snapshot.md sh': 'below',
  'docs/testing.md js': 'test/system/package.test.ts',
  'docs/testing.md sh': 'test/system/package.test.ts',
  'docs/testing.md ts': 'test/system/package.test.ts',
}

test('every block of code is run by a test', () => {
  const found = DOCUMENTS.flatMap((path) => blocksOf(path).map(({ language }) => `${path} ${language}`))
  assert.deepEqual([...new Set(found)].sort(), Object.keys(RUN_BY).sort())
})

test('README.md has at most 200 lines of at most 110 characters', () => {
  const lines = read('README.md').trimEnd().split('\n')
  assert.ok(lines.length <= 200, `${lines.length} lines`)
  assert.deepEqual(
    lines.filter((line) => line.length > 110),
    [],
  )
})

/** The anchors of a document, as GitHub makes them of its headings. */
function anchorsOf(path: string): string[] {
  const headings = read(path).matchAll(/^#+ (.*)$/gm)
  return Array.from(headings, ([, heading = '']) =>
    heading
      .toLowerCase()
      .replace(/[^\w\s-]/g, '')
      .replaceAll(' ', '-'),
  )
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
  const server = spawn('npm', ['start'], { env: { ...ENV, PORT: '0', PETSTORE_API_KEYS: KEY }, detached: true })
  const group = -Number(server.pid)
  t.after(() => server.exitCode ?? server.signalCode ?? process.kill(group, 'SIGKILL'))
  const closed = once(server, 'close')
  const output = text(server.stdout)
  const url = await greetingIn(server.stderr) // not a terminal: standard output has the log
  assert.equal(JSON.parse((await send({ url }, 'GET', '/v1/pets')).body).length, DEMO_PETS.length)
  process.kill(group, 'SIGINT')
  await closed
  assert.match(await output, /^Loading tsx/m)
})

test('the first example runs as it stands', async (t) => {
  const [{ code } = { code: '' }] = blocksOf('README.md', 'In a test suite')
  const file = join(folderOf(t), 'example.test.mjs')
  writeFileSync(file, code.replace("'petstore-server'", `'${new URL('../src/index.ts', import.meta.url)}'`))
  const { stdout } = await exec(process.execPath, ['--import', 'tsx', '--test', '--test-reporter=tap', file], {
    env: ENV,
  })
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
  assert.deepEqual(
    copy.pets.map(({ name }) => name),
    ['Rex', 'Tom', 'Ada'],
  )
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
  assert.deepEqual(
    read('docs/configuration.md')
      .match(/^\| `--.*? \| .*? \| .*? \|/gm)
      ?.sort(),
    help.sort(),
  )
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
