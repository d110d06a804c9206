// The links, snippets and commands of README and docs/, and the examples of the doc comments.
//   ```js that begins with the name of a file: such a file, run by the runner that it imports
//   any other ```js: run with a petstore, its `url` and `headers`, and `assert`
//   ```python: run by unittest
//   ```console: commands and what they print, in turn, with the server that README starts
//   a table's cell with a `curl` command, next to one with the status that it gets
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { before, test, type TestContext } from 'node:test'
import { launch } from '../process.ts'
import { BROWSER, folder, install, pack, shell } from './consumer.ts'
import { missing } from './programs.ts'

const NAMES = ['README.md', ...readdirSync('docs').map((name) => `docs/${name}`)]

before(async () => {
  const { devDependencies } = JSON.parse(readFileSync('examples/package.json', 'utf8'))
  const packages = { ...devDependencies, 'petstore-server': `file:${await pack()}` }
  await install(folder, ...Object.entries(packages).map((entry) => entry.join('@')))
  writeFileSync(`${folder}/playwright.config.mjs`, BROWSER)
})

for (const document of NAMES.filter((name) => name.endsWith('.md'))) {
  const text = readFileSync(document, 'utf8')

  test(`the links of ${document} lead somewhere`, () => {
    const links = [...text.matchAll(/\]\((?!\w+:)([^)\s]+)\)/g)].map(([, link = '']) => link)
    const broken = links.filter((link) => !leadsSomewhere(document, link))
    assert.deepEqual(broken, [])
  })

  for (const [index, code] of fences(text, 'js').entries()) {
    const skip = code.includes('@playwright/test') && missing('chromium')
    test(`snippet ${index + 1} of ${document} runs`, { skip }, () => runSnippet(code))
  }

  for (const code of fences(text, 'python')) {
    test(`the Python of ${document} runs`, async () => {
      writeFileSync(`${folder}/test_pets.py`, code)
      await shell(folder, 'python3 -m unittest test_pets')
    })
  }

  const session = fences(text, 'console').join('')
  const commands = [...session.matchAll(/^\$ (.*)$/gm)].map(([, command = '']) => command)
  if (session !== '') {
    test(`the commands of ${document} print what it says`, async (t) => {
      const printed = await runCommands(t, ['curl() { command curl -sS "$@"; echo; }', ...commands])
      assert.equal(printed.replace(/\n+/g, '\n'), session.replace(/^\$ .*\n/gm, ''))
    })
  }

  const cells = [...text.matchAll(/\| `(curl .*?)` \| (\d+)/g)]
  if (cells.length > 0) {
    test(`the commands in tables of ${document} run`, async (t) => {
      const setting = [
        `curl() { command curl -sS -o /dev/null -w '%{http_code}\\n' "$@"; }`,
        'CONTROLS=http://127.0.0.1:8081',
      ]
      const asked = cells.map(([, command = '']) => command)
      const printed = await runCommands(t, [...setting, ...asked])
      assert.equal(printed, cells.map(([, , expected]) => `${expected}\n`).join(''))
    })
  }
}

test('the examples of the doc comments run', async () => {
  const files = readdirSync('src', { recursive: true, encoding: 'utf8' })
  const sources = files.filter((file) => file.endsWith('.ts'))
  const code = sources.map((file) => readFileSync(`src/${file}`, 'utf8')).join('')
  const found = [...code.matchAll(/^ *\* @example *\n?(.*?)\*\//gms)]
  const examples = found.map(([, example = '']) => `{ ${example.replace(/^ *\* ?/gm, '')} }`)
  assert.ok(examples.length > 0)
  const setting = `
    petstore.inject({ operation: 'listPets', status: 503 })
    await fetch(url + '/pets', { headers })
    const idle = async () => []
    const openStore = async () => ({ list: idle, get: idle, add: idle, reset: idle, close: idle })
  `
  await runSnippet([setting, ...examples].join('\n'))
})

/** The code of the fences of a language. */
function fences(text: string, language: string): string[] {
  const found = text.matchAll(new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\``, 'gms'))
  return Array.from(found, ([, code = '']) => code)
}

async function runSnippet(code: string): Promise<void> {
  const name = /^\/\/ (\S+\.m?js)\n/.exec(code)?.[1]
  writeFileSync(join(folder, name ?? 'snippet.mjs'), name === undefined ? withPetstore(code) : code)
  let runner = name?.endsWith('.js') ? 'jest' : 'node'
  if (code.includes(`from 'vitest'`)) runner = 'vitest run'
  if (code.includes(`from '@playwright/test'`)) runner = 'playwright test'
  await shell(folder, `${runner} ${name ?? 'snippet.mjs'}`)
}

/** Runs commands with the server that README starts, but on free ports. */
async function runCommands(t: TestContext, commands: readonly string[]): Promise<string> {
  const [, flags = ''] = /^npm start -- (.*)$/m.exec(readFileSync('README.md', 'utf8')) ?? []
  const { first, url } = await launch(t, ['--demo', ...flags.replace('8081', '0').split(' ')])
  const script = commands
    .join('\n')
    .replaceAll('http://127.0.0.1:8080', new URL(url).origin)
    .replaceAll('http://127.0.0.1:8081', String(first['controlUrl']))
  return shell('.', script)
}

function withPetstore(code: string): string {
  return `
    import assert from 'node:assert/strict'
    import { startPetstore } from 'petstore-server'
    const pets = [{ name: 'Rex', categoryId: 1 }, { name: 'Tom', categoryId: 2 }]
    const petstore = await startPetstore({ pets })
    const { url, headers } = petstore
    { ${code} }
    process.exit()
  `
}

function leadsSomewhere(document: string, link: string): boolean {
  const [path = '', anchor] = link.split('#')
  const target = path === '' ? document : join(dirname(document), path)
  if (!existsSync(target)) return false
  return anchor === undefined || anchorsOf(readFileSync(target, 'utf8')).includes(anchor)
}

/** The anchors that headings get. */
function anchorsOf(text: string): string[] {
  const headings = [...text.replace(/^```.*?^```/gms, '').matchAll(/^#+ (.*)$/gm)]
  return headings.map(([, title = '']) => {
    const kept = title.toLowerCase().replace(/[^\p{L}\p{N} _-]/gu, '')
    return kept.replaceAll(' ', '-')
  })
}
