// The packed package in the tools of its users.
import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { before, describe, test } from 'node:test'
import { launch } from '../process.ts'
import { folder, install, newestNode, pack, shell } from './consumer.ts'

const TOOLS = [
  'jest@30.5.2 jest-environment-jsdom@30.5.2 ts-jest@29.4.15 @swc/jest@0.2.39 @swc/core@1.16.22',
  '@babel/core@8.1.3 @babel/preset-env@8.0.7 vitest@5.1.2 jsdom@31.0.1 happy-dom@21.0.4',
  'typescript@5.9.3 typescript-7@npm:typescript@7.0.2 ts-node@10.9.2 @types/node@26.6.7',
  'eslint@9.39.5 eslint-plugin-import@2.32.0 @arethetypeswrong/cli@0.18.5 publint@0.3.25',
]

const IMPORT = `import { startPetstore } from 'petstore-server'\n`
const REQUIRE = `const { startPetstore } = require('petstore-server')\n`
const USE = `
async function use() {
  const petstore = await startPetstore({ pets: [{ name: 'Rex', categoryId: 1 }], cors: true })
  petstore.inject({ operation: 'listPets', delay: 1, status: 503, body: 'busy' })
  const { url, headers } = petstore
  const list = async () => (await fetch(url + '/pets', { headers })).text()
  const responses = [await list(), await list()].join()
  if (responses !== 'busy,[{"id":1,"name":"Rex","categoryId":1}]') throw new Error(responses)
  const { code } = await petstore.waitForRequests(9, { timeout: 1 }).catch((error) => error)
  if (code !== 'timeout') throw new Error(code)
  await petstore.close(1000)
}
`
const SCRIPT = `${USE}use()`
const TEST = `${USE}test('a petstore serves', use)\n`

// A petstore keeps node's own timers. Not setImmediate: fetch needs it from Node 26 on.
const FAKED = `['setTimeout', 'setInterval', 'Date']`
const IN_NODE = `import { mock, test } from 'node:test'\n${IMPORT}${TEST}
mock.timers.enable({ apis: ${FAKED} })`
const IN_VITEST = `import { test, vi } from 'vitest'\n${IMPORT}${TEST}
vi.useFakeTimers({ toFake: ${FAKED} })`
const JEST_TEST = `${TEST}jest.useFakeTimers()`
const IN_JEST = REQUIRE + JEST_TEST
const IN_TYPED_JEST = `import { jest, test } from '@jest/globals'\n${IMPORT}${JEST_TEST}`

// Jest's jsdom has no fetch.
const XHR = `
globalThis.fetch = (url, { headers }) => new Promise((resolve, reject) => {
  const request = new XMLHttpRequest()
  request.onload = () => resolve({ text: () => request.responseText })
  request.onerror = reject
  request.open('GET', url)
  request.setRequestHeader('authorization', headers.authorization)
  request.send()
})
`

// What the READMEs of these tools say.
const BABEL = `module.exports = {
  presets: [['@babel/preset-env', { targets: { node: 'current' } }]],
}`
const TS_JEST = `module.exports = {
  transform: require('ts-jest').createDefaultPreset().transform,
}`
const SWC = `module.exports = {
  transform: { '^.+\\\\.(t|j)sx?$': '@swc/jest' },
}`
const TS_NODE = `{ "compilerOptions": { "module": "commonjs", "types": ["node"] } }`
const ESLINT = `module.exports = {
  plugins: { import: require('eslint-plugin-import') },
  rules: { 'import/no-unresolved': 'error', 'import/named': 'error' },
}`

const TYPED = `
import { startPetstore } from 'petstore-server'
import type { Fault, Petstore, RecordedRequest, StartOptions, Store } from 'petstore-server'
export const fault: Fault = { operation: 'createPet', hangUp: 'halfway', done: true }
export const options: StartOptions = { port: undefined, pets: [{ name: 'Rex', categoryId: 1 }] }
// @ts-expect-error: no such status
export const wrong: StartOptions = { pets: [{ name: 'Rex', categoryId: 1, status: 'gone' }] }
export async function requests(store: Store): Promise<RecordedRequest[]> {
  const petstore: Petstore = await startPetstore({ ...options, store })
  petstore.inject(fault)
  return petstore.waitForRequests(1, { matching: ({ status }) => status === null })
}`

interface Consumer {
  command: string
  files: Record<string, string>
  on?: readonly Runtime[] // by default only on the Node that runs the test
}

type Runtime = 'own' | 'newest'

const BOTH: readonly Runtime[] = ['own', 'newest']
const CONSUMERS: Record<string, Consumer> = {
  import: { on: BOTH, command: 'node use.mjs', files: { 'use.mjs': IMPORT + SCRIPT } },
  require: { on: BOTH, command: 'node use.cjs', files: { 'use.cjs': REQUIRE + SCRIPT } },
  'node:test': { on: BOTH, command: 'node --test', files: { 'use.test.mjs': IN_NODE } },
  'Jest, with no setting': { on: BOTH, command: 'jest', files: { 'use.test.js': IN_JEST } },
  'Jest, jsdom': { on: BOTH, command: 'jest --env jsdom', files: { 'use.test.js': XHR + IN_JEST } },
  'babel-jest': {
    command: 'jest',
    files: { 'use.test.js': IMPORT + JEST_TEST, 'babel.config.js': BABEL },
  },
  'ts-jest': {
    command: 'jest',
    files: { 'use.test.ts': IN_TYPED_JEST, 'jest.config.js': TS_JEST },
  },
  '@swc/jest': {
    command: 'jest',
    files: { 'use.test.ts': IN_TYPED_JEST, 'jest.config.js': SWC },
  },
  'ts-node': {
    command: 'ts-node use.ts',
    files: { 'use.ts': IMPORT + SCRIPT, 'tsconfig.json': TS_NODE },
  },
  ESLint: {
    command: 'eslint use.js',
    files: { 'use.js': IMPORT + SCRIPT, 'eslint.config.js': ESLINT },
  },
  attw: { command: 'attw ../*.tgz', files: {} },
  publint: { command: 'publint --strict ../*.tgz', files: {} },
}

const FLAGS_OF_VITEST = [
  ...['threads', 'forks', 'vmThreads', 'vmForks'].map((pool) => `--pool ${pool}`),
  ...['jsdom', 'happy-dom'].map((environment) => `--environment ${environment}`),
]
for (const flag of FLAGS_OF_VITEST) {
  CONSUMERS[`Vitest ${flag}`] = {
    on: ['newest'],
    command: `vitest run ${flag}`,
    files: { 'use.test.mjs': IN_VITEST },
  }
}

const RESOLUTIONS = [
  { compiler: 'typescript', module: 'commonjs', moduleResolution: 'node10' },
  { compiler: 'typescript-7', module: 'node16', moduleResolution: 'node16' },
  { compiler: 'typescript-7', module: 'nodenext', moduleResolution: 'nodenext' },
  { compiler: 'typescript-7', module: 'esnext', moduleResolution: 'bundler' },
]
for (const { compiler, ...resolution } of RESOLUTIONS) {
  const strict = { strict: true, exactOptionalPropertyTypes: true, skipLibCheck: false }
  const compilerOptions = { noEmit: true, target: 'es2017', types: [], ...strict, ...resolution }
  CONSUMERS[`tsc, ${resolution.moduleResolution}`] = {
    command: `node ../node_modules/${compiler}/bin/tsc -p .`,
    files: {
      'tsconfig.json': JSON.stringify({ compilerOptions }),
      'typed.ts': TYPED,
      'typed.mts': TYPED,
      'typed.cts': TYPED,
    },
  }
}

let newest = ''
before(async () => {
  newest = await newestNode()
  await install(folder, await pack(), ...TOOLS)
})

test('it has what is built and its documents, and depends on nothing', async () => {
  const paths = await shell(folder, 'tar -tzf *.tgz')
  const top = new Set(
    paths
      .trim()
      .split('\n')
      .map((path) => path.split('/')[1]),
  )
  const documents = ['CHANGELOG.md', 'LICENSE', 'README.md', 'docs']
  assert.deepEqual([...top].sort(), [...documents, 'dist', 'package.json'].sort())
  assert.doesNotMatch(paths, /\.test\./)
  const manifest = JSON.parse(readFileSync('package.json', 'utf8'))
  const kinds = Object.keys(manifest).filter((name) => /dependencies/i.test(name))
  assert.deepEqual(kinds, ['devDependencies'])
})

test('it has a command', async (t) => {
  const executable = [`${folder}/node_modules/.bin/petstore-server`]
  const { url, first } = await launch(t, ['--demo'], { executable })
  assert.match(String(first['message']), /pets: 12 /)
  for (const path of ['/', '/openapi.json'])
    assert.equal((await fetch(new URL(path, url))).status, 200)
})

describe('it works in', { concurrency: 2 }, () => {
  for (const [name, { on = ['own'], command, files }] of Object.entries(CONSUMERS)) {
    const project = `${folder}/${name.replace(/\W+/g, '-')}`
    for (const node of on) {
      test(`${name} (${node} Node)`, async () => {
        mkdirSync(project, { recursive: true })
        const all = Object.entries({ 'package.json': '{}', ...files })
        for (const [file, text] of all) writeFileSync(`${project}/${file}`, text)
        await shell(project, command, node === 'newest' ? newest : '')
      })
    }
  }
})
