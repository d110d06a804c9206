// The examples for tests, on the oldest and the newest Node, with the packed package.
import assert from 'node:assert/strict'
import { cpSync, writeFileSync } from 'node:fs'
import { before, test } from 'node:test'
import { folder, install, must, pack, run } from './consumer.ts'

const PASSES = {
  'node-test': /pass 3$/m,
  vitest: /Tests +3 passed/,
  jest: /Tests: +3 passed/,
  playwright: /3 passed/,
  python: /Ran 3 tests[^]*OK/,
}
const chromium = run('.', 'command -v chromium').output.trim()
const CONFIG = `export default { use: { launchOptions: { executablePath: '${chromium}' } } }\n`

before(() => {
  pack()
  cpSync('examples', `${folder}/repository/examples`, { recursive: true })
  must(folder, 'mv *.tgz repository')
  writeFileSync(`${folder}/repository/examples/playwright/playwright.config.mjs`, CONFIG)
})

for (const [example, passes] of Object.entries(PASSES)) {
  const skip = example === 'playwright' && chromium === '' && 'there is no chromium'
  test(`examples/${example}`, { skip }, () => {
    const project = `${folder}/repository/examples/${example}`
    install(project)
    for (const node of [20, 26]) assert.match(must(project, 'npm test', node), passes)
  })
}
