// What src/ takes from the global object. A test environment may replace it: jsdom, happy-dom, and
// fake timers do.
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { test } from 'node:test'
import { INDEX } from './built.ts'
import { exec } from './documents.ts'
import { USER_ENV } from './process.ts'
import { folderOf } from './support.ts'

/** Each global of the package that is not the language's, and why it may be read. */
const READ: Readonly<Record<string, string>> = {
  Buffer: 'jsdom and happy-dom leave it alone, and Jest hands on its own',
  __dirname: 'a part of CommonJS, and no global',
  process: 'Jest hands on a copy of it; what the package reads of it is the same',
  console: 'a runner that replaces it shows a bug next to the test',
  Request: 'once, when the package is loaded: runtime.ts says why',
  Response: 'once, when the package is loaded: runtime.ts says why',
}

// Without node's types, the compiler names all that is not the language's.
const NO_TYPES = {
  compilerOptions: {
    allowJs: true,
    checkJs: true,
    noEmit: true,
    types: [],
    lib: ['es2023', 'esnext.disposable'],
    module: 'nodenext',
    strict: false,
  },
  files: ['index.mjs'],
}
const UNKNOWN = [
  /Cannot find name '(?!node:)(\w+)'/g,
  /Property '(\w+)' does not exist on type 'typeof globalThis'/g,
]

test('the package reads only globals that tests leave alone, or takes at load', async () => {
  const folder = folderOf()
  const target = ['src/index.ts', '--format=esm', `--outfile=${folder}/index.mjs`]
  const env = USER_ENV // npx would take its own settings for those of the script
  await exec('npm', ['run', '--silent', 'bundle', '--', ...target], { env })
  writeFileSync(`${folder}/tsconfig.json`, JSON.stringify(NO_TYPES))
  const tsc = ['--no', 'tsc', '--', '--project', folder, '--pretty', 'false']
  const { stdout } = await exec('npx', tsc, { env }).catch((failed) => failed)
  const names = UNKNOWN.flatMap((one) => [...String(stdout).matchAll(one)].map(([, name]) => name))
  assert.deepEqual([...new Set(names)].sort(), Object.keys(READ).sort())
})

test('the package takes the classes of fetch when it is loaded', async () => {
  const script = `import { createPetstore } from '${INDEX}'
const own = Response
for (const name of ['Headers', 'Request', 'Response']) globalThis[name] = class {}
const petstore = createPetstore()
const response = await petstore.fetch(petstore.url + '/pets', { headers: petstore.headers })
console.log(response.status, response instanceof own)`
  const { stdout } = await exec(process.execPath, ['--input-type=module', '--eval', script])
  assert.equal(stdout, '200 true\n')
})
