// The package in test environments, which replace globals: each at a pinned version.
import assert from 'node:assert/strict'
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, test } from 'node:test'
import { blocksOf, exec } from '../documents.ts'
import { USER_ENV } from '../process.ts'
import { folderOf, start, words } from '../support.ts'
import { launch } from './browser.ts'
import { isHere, npmInstall } from './packages.ts'

const PACKAGES = words(`happy-dom@20.0.10 jsdom@26.1.0 vitest@4.1.12 jest@30.5.2
  jest-environment-jsdom@30.5.2 axios@1.21.1 light-my-request@6.8.1 express@5.3.0 sinon@22.1.0`)
const FILES = 'test/system/environments'
const folder = folderOf()
const bin = `${folder}/node_modules/.bin`

/** Runs a program in the folder; a test that hangs is ended. */
async function run(program: string, ...args: string[]): Promise<string> {
  const options = { cwd: folder, env: { ...USER_ENV, NO_COLOR: '1' }, timeout: 120_000 }
  const { stdout, stderr } = await exec(program, args, options).catch((cause) => {
    throw new Error(`${program} ${args.join(' ')}\n${cause.stdout}${cause.stderr}`, { cause })
  })
  return stdout + stderr
}

before(() => {
  npmInstall(folder, ...PACKAGES)
  const installed = `${folder}/node_modules/petstore-server`
  mkdirSync(installed)
  cpSync('package.json', `${installed}/package.json`)
  cpSync('dist', `${installed}/dist`, { recursive: true })
  cpSync(FILES, folder, { recursive: true })
  for (const { code } of blocksOf('docs/testing.md', 'Does it run in my test environment?')) {
    const [, name = ''] = /^\/\/ ([\w.]+)/.exec(code) ?? []
    writeFileSync(join(folder, name), code)
  }
})

for (const environment of ['happy-dom', 'jsdom']) {
  test(`Vitest with ${environment}: the recipe, and all that a fake does`, async () => {
    const flags = ['--environment', environment, 'pets.test.mjs', 'all.test.mjs']
    assert.match(await run(`${bin}/vitest`, 'run', ...flags), /Tests +3 passed/)
  })
}

test('Jest with jsdom: the recipe, and all that a fake does', async () => {
  writeFileSync(`${folder}/package.json`, '{}')
  const flags = ['--env', 'jsdom', '--testMatch', '**/*.test.cjs']
  assert.match(await run(`${bin}/jest`, ...flags), /Tests: +3 passed/)
})

for (const [name, what] of Object.entries({
  'sinon.mjs': 'the recipe for fake timers of sinon',
  'port.mjs': 'the recipe for a fixed port',
  'cluster.mjs': 'the recipe for node:cluster',
  'late.mjs': 'happy-dom, whose AbortController comes before the package',
  'inject.mjs': 'light-my-request and Express',
  'axios.mjs': 'axios in a page of jsdom walks all pages, with credentials too',
})) {
  test(what, async () => void (await run(process.execPath, name)))
}

for (const major of [20, 22, 24, 26]) {
  test(`200 rounds of close() and start on one port, on Node ${major}`, async () => {
    const node = ['--yes', '-p', `node@${major}`, 'node']
    assert.equal((await run('npx', ...node, 'rounds.mjs', '200')).trim(), 'no request failed')
  })
}

test('a bundle by esbuild has the page and the document', async () => {
  const esbuild = join(process.cwd(), 'node_modules/.bin/esbuild')
  const away = folderOf()
  await run(esbuild, 'bundle.mjs', '--bundle', '--platform=node', `--outfile=${away}/bundle.cjs`)
  assert.equal((await run(process.execPath, `${away}/bundle.cjs`)).trim(), '200 200')
})

const CALLS = readFileSync(`${FILES}/page.js`, 'utf8')
const noChromium = !isHere('chromium') && 'there is no chromium'
test(
  'a page in Chromium sees the 404 and the 405 behind its preflights, with credentials',
  {
    skip: noChromium,
  },
  async (t) => {
    const chromium = await launch(t)
    const site = await start(t)
    const petstore = await start(t, { cors: new URL(site.url).origin })
    const page = await chromium.visit(new URL('/livez', site.url).href) // it has no policy
    const [url, headers] = [petstore.url, petstore.headers].map((one) => JSON.stringify(one))
    const call = `${CALLS}\nstatusesOf(${url}, ${headers})`
    assert.deepEqual(await page.evaluate(call), [200, 404, 405, 200])
  },
)
