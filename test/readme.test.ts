// The documents: their snippets run as they stand, their tables match the code, their links work.
import assert from 'node:assert/strict'
import { cpSync, existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { test } from 'node:test'
import { INDEX } from './built.ts'
import { DEMO_PETS } from './demo.ts'
import { type Pet, startPetstore } from '../src/index.ts'
import { DEFAULTS, RULES } from '../src/petstore/options.ts'
import { blocksOf, chapterOf, DOCUMENTS, exec, read, runTour } from './documents.ts'
import { run, serve } from './cli/executable.ts'
import { Running, USER_ENV } from './process.ts'
import { folderOf, KEY, send, start, words } from './support.ts'

// Most are run below or in test/system/package.test.ts; .ci/run runs the ones in CONTRIBUTING.md.
test('no document has a block of code in a language that no test runs', () => {
  const known: Record<string, string[]> = {
    'CONTRIBUTING.md': ['sh'],
    'README.md': ['js', 'sh'],
    'docs/architecture.md': ['mermaid'],
    'docs/class.md': ['sh'],
    'docs/conformance.md': ['sh', 'text'],
    'docs/configuration.md': ['sh'],
    'docs/deployment.md': ['sh'],
    'docs/performance.md': ['sh'],
    'docs/postgres.md': ['sh'],
    'docs/faults.md': ['js', 'text'],
    'docs/http-controls.md': ['js', 'json', 'python', 'sh'],
    'docs/shared-server.md': ['js', 'python'],
    'docs/snapshot.md': ['json', 'sh'],
    'docs/testing.md': ['js'],
    'docs/tour.md': ['http', 'json', 'sh', 'text'],
  }
  for (const path of DOCUMENTS) {
    const found = new Set(blocksOf(path).map(({ language }) => language))
    assert.deepEqual([...found].sort(), known[path] ?? [], path)
  }
})

test('no document has more than 100 columns, except in tables and what a server prints', () => {
  for (const path of DOCUMENTS) {
    const lines = read(path).replace(/^```(?:text|json)$.*?^```$/gms, '')
    for (const line of lines.split('\n').filter((one) => !/^ *\|/.test(one)))
      assert.ok(line.length <= 100, `${path}: ${line}`)
  }
})

test('README.md has at most 200 lines', () => {
  const { length } = read('README.md').trimEnd().split('\n')
  assert.ok(length <= 200, `${length} lines`)
})

test('the package is made as README.md says, in every document and example', () => {
  const { version } = JSON.parse(read('package.json'))
  const examples = readdirSync('examples').filter((one) =>
    existsSync(`examples/${one}/package.json`),
  )
  assert.ok(examples.length >= 8)
  const textOf = (example: string) => {
    const files = readdirSync(`examples/${example}`, { recursive: true, encoding: 'utf8' })
    const own = files.filter((one) => /^(?!.*node_modules).*\.(?:mjs|js|ts|py)$/.test(one))
    return own.map((one) => read(`examples/${example}/${one}`)).join('\n')
  }
  const texts = [
    ...['README.md', 'docs/testing.md', 'docs/http-controls.md'].map((path) => [path, read(path)]),
    ...examples.map((example) => [example, textOf(example)]),
  ]
  for (const [name = '', text = ''] of texts) {
    const prose = text.replaceAll(/\n(?:\/\/|#)? */g, ' ')
    assert.match(prose, /in the clone, run `npm ci` and then `npm pack`\./i, name)
    const install = /, run `npm install (?:--save-dev )?\S*\/petstore-server-(.*?)\.tgz`/
    assert.equal(install.exec(prose)?.[1], version, name)
  }
})

test('the package carries what its documents link to', async () => {
  const { stdout } = await exec('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'])
  const [{ files }]: [{ files: { path: string }[] }] = JSON.parse(stdout)
  const carried = files.map(({ path }) => path)
  for (const path of carried.filter((one) => one.endsWith('.md'))) {
    for (const target of linksIn(path)) {
      const linked = normalize(join(dirname(path), target.replace(/#.*/, '')))
      const isCarried = carried.some((one) => one === linked || one.startsWith(`${linked}/`))
      assert.ok(target.startsWith('#') || isCarried, `${path}: ${target}`)
    }
  }
})

/** The text of a document without its blocks of code. */
function proseOf(path: string): string {
  return read(path).replace(/^```.*?^```$/gms, '')
}

function linksIn(path: string): string[] {
  const links = proseOf(path).matchAll(/\]\((?!\w+:)([^)]+)\)/g)
  return Array.from(links, ([, target = '']) => target)
}

function anchorsOf(path: string): string[] {
  const text = read(path).toLowerCase()
  const headings = text.match(/(?<=^#+ ).*$/gm) ?? []
  return headings.map((one) => one.replace(/[^\w\s-]/g, '').replaceAll(' ', '-'))
}

test('every relative link leads to a file or a heading in it, and every path exists', () => {
  for (const path of DOCUMENTS) {
    for (const target of linksIn(path)) {
      const [file = '', anchor] = target.split('#')
      const linked = file === '' ? path : normalize(join(dirname(path), file))
      assert.ok(existsSync(linked), `${path}: ${target}`)
      if (anchor !== undefined) assert.ok(anchorsOf(linked).includes(anchor), `${path}: ${target}`)
    }
    const paths = proseOf(path).match(/(?<=`)(?:src|test|docs|examples|\.github)\/[^`\s*]*(?=`)/g)
    for (const named of paths ?? []) assert.ok(existsSync(named), `${path}: ${named}`)
  }
})

test('every script, variable and flag for the server that the documents name exists', async () => {
  const { stdout: help } = await run(['--help'])
  const { scripts } = JSON.parse(read('package.json'))
  const own = ['cit', 'ci', 'pack', 'install']
  for (const path of DOCUMENTS) {
    const find = (pattern: RegExp) => read(path).match(pattern) ?? []
    for (const name of find(/\bPETSTORE_[A-Z_]+[A-Z]\b/g))
      assert.ok(words(`${help} PETSTORE_API_KEY`).includes(name), `${path}: ${name}`)
    for (const name of find(/(?<=(?:^|`)npm (?:run )?)(?!run )[a-z:]+/gm))
      assert.ok(own.includes(name) || name in scripts, `${path}: npm ${name}`)
    for (const line of find(/\bpetstore-server(?: --[a-z-]+(?: [^-\s]\S*)?)+$/gm))
      for (const flag of line.match(/--[a-z-]+/g) ?? [])
        assert.ok(help.includes(`${flag} `), `${path}: ${flag}`)
  }
})

test('the tour shows what its commands print', async (t) => {
  await runTour((await start(t, { pets: DEMO_PETS })).url, KEY)
})

test('on a terminal the server prints what is shown, except for its key and port', async (t) => {
  const { process, url } = await serve(t, ['--demo'], { isTTY: true })
  const shown = blocksOf('docs/tour.md').find(({ language }) => language === 'text')
  const keyIn = (text = '') => /#key=(\S+)/.exec(text)?.[1] ?? ''
  const { text } = process.stdout
  const atPort = text.replaceAll(new URL(url).host, '127.0.0.1:8080')
  const printed = atPort.replaceAll(keyIn(text), keyIn(shown?.code))
  assert.ok(printed.startsWith(`${shown?.code}\n`), printed)
})

test('npm start serves the demo pets, and ends by Ctrl-C', async (t) => {
  const env = { ...USER_ENV, PORT: '0', PETSTORE_API_KEYS: KEY }
  const server = new Running(['npm', 'start'], { env, detached: true })
  const group = -Number(server.process.pid)
  const { process: npm } = server
  t.after(() => npm.exitCode ?? npm.signalCode ?? process.kill(group, 'SIGKILL'))
  const pets: Pet[] = JSON.parse((await send(await server.serves(), 'GET', '/v1/pets')).body)
  assert.deepEqual([pets.length, new Set(pets.map(({ name }) => name)).size], [12, 12])
  assert.equal(new Set(pets.map(({ status }) => status)).size, 4) // one has none
  process.kill(group, 'SIGINT')
  assert.doesNotMatch((await server.exited).stdout, /^Loading tsx/m) // it is installed
})

test('the first example runs as it stands', async () => {
  const [{ code } = { code: '' }] = blocksOf('README.md')
  const file = join(folderOf(), 'example.test.mjs')
  writeFileSync(file, code.replace("'petstore-server'", `'${INDEX}'`))
  const flags = ['--test', '--test-reporter=tap']
  const { stdout } = await exec(process.execPath, [...flags, file], { env: USER_ENV })
  assert.match(stdout, /^# pass 1$/m)
})

test('the examples in the comments of the public types run as they stand', async () => {
  const files = [
    'src/petstore/launch.ts',
    'src/petstore/connect.ts',
    'src/types.ts',
    'src/fake-types.ts',
    'src/store-types.ts',
  ].map(read)
  const texts = files.flatMap((text) => text.match(/(?<=@example\s)[^]*?(?=\n *\*\/)/g) ?? [])
  assert.equal(texts.length, files.join('').split('@example').length - 1)
  const blocks = texts.map((text) => `{\n${text.replace(/^ *\*/gm, '').replace('8080', '0')}\n}\n`)
  const code = `
    import { createServer } from 'node:http'
    import { afterEach } from 'node:test'
    import { connectPetstore, createPetstore, startPetstore } from '${INDEX}'
    const { controlUrl, apiKey } = await startPetstore({ controlPort: 0 })
    const petstore = createPetstore({ pets: [{ name: 'Rex', categoryId: 1 }] })
    const saved = petstore.pets
    const openStore = () => undefined // memory
    setInterval(() => petstore.fetch(petstore.url + '/pets/1', petstore), 10)
    ${blocks.join('')}
    process.exit()`
  const file = join(folderOf(), 'examples.mjs')
  writeFileSync(file, code)
  await exec(process.execPath, [file], { env: USER_ENV })
})

test('the snapshot is read as shown, and its copies have every acknowledged pet', async (t) => {
  const [shown = '', commands = ''] = blocksOf('docs/snapshot.md')
    .slice(1) // how the server starts
    .map(({ code }) => code)
  const folder = folderOf()
  mkdirSync(join(folder, 'backup'))
  writeFileSync(join(folder, 'pets.json'), shown)
  const petstore = await start(t, { snapshot: join(folder, 'pets.json') })
  await petstore.add([{ name: 'Ada', categoryId: 1 }])
  await exec('sh', ['-ec', commands.replace(/(?<= 2>\/dev\/null) #.*/, ' || :')], { cwd: folder })
  const copy = await startPetstore({ snapshot: join(folder, 'backup', 'pets.json') })
  const names = copy.pets.map(({ name }) => name)
  assert.deepEqual(names, ['Rex', 'Tom', 'Ada'])
  await copy.close()
})

test('before npm ci, npm says to run it first, and leaves dist alone', async () => {
  const folder = folderOf()
  cpSync('package.json', join(folder, 'package.json'))
  mkdirSync(join(folder, 'dist'))
  writeFileSync(join(folder, 'dist/main.js'), '')
  await assert.rejects(exec('npm', ['run', 'build'], { cwd: folder, env: USER_ENV }), {
    message: /\nRun npm ci first: this needs the development packages\.\n(?!.*^ +at )/ms,
  })
  const { scripts } = JSON.parse(read('package.json'))
  assert.equal(scripts.prepack, 'npm run build')
  for (const one of ['pretest', 'preconformance']) assert.equal(scripts[one], scripts.prebuild)
  assert.ok(existsSync(join(folder, 'dist/main.js')))
})

/** The table of a group of settings, from what --help prints of it. */
function tableOf(settings: string): string {
  const rows = settings.replace(
    /^ {2}(--\S+(?: [A-Z]+)?) +([A-Z_]+)\n {6}(.*) \((.*)\)\n/gm,
    '| `$1` | `$2` | $4 | $3 |\n',
  )
  return `| flag | variable | default | meaning |\n| --- | --- | --- | --- |\n${rows}`
}

// Where one differs, put the table that the error shows into the document.
test('the tables of settings say what --help says, and no more', async () => {
  const { stdout: help } = await run(['--help'])
  const groups = help.matchAll(/^(\w+)\n((?: {2}--\S.*\n {6}\S.*\n)+)/gm)
  const tables = Array.from(
    groups,
    ([, name, settings = '']) => `### ${name}\n\n${tableOf(settings)}`,
  )
  assert.equal(tables.length, 6)
  const chapter = chapterOf('docs/configuration.md', 'Which settings are there?')
  const parts = chapter.split(/^(?=### )/m).map((one) => one.replace(/(?<=\|\n)\n[^]*/, ''))
  assert.deepEqual(parts.slice(1, -1), tables) // after the introduction, and before the commands
})

test('the table of options has every option, with its default', () => {
  const chapter = chapterOf('docs/testing.md', 'Which options are there?')
  const rows = chapter.matchAll(/^\| `(\w+)` \| (.*?) \| .*? \|$/gm)
  const shown = new Map(Array.from(rows, ([, name = '', of = '']) => [name, of]))
  assert.deepEqual([...shown.keys()], Object.keys(RULES))
  const ofBigHeap = { maxStore: 'a quarter of the heap', maxConnections: 10_000 }
  for (const [name, value] of Object.entries({ ...DEFAULTS, ...ofBigHeap }))
    assert.equal(shown.get(name)?.replaceAll('`', ''), String(value), name)
})

test('the table of errors has every code of the OpenAPI document with its status', async (t) => {
  const { body } = await send(await start(t), 'GET', '/openapi.json')
  const codes = new Map<string, number>()
  JSON.parse(body, (_, value) => {
    if (typeof value?.code === 'string' && typeof value.status === 'number')
      codes.set(value.code, value.status)
    return value
  })
  assert.ok(codes.size > 10)
  for (const [code, status] of codes) {
    const shown = code === 'injected_fault' ? 'any' : status
    assert.match(read('docs/contract.md'), new RegExp(`^\\| ${shown} \\| .*\`${code}\``, 'm'))
  }
})
