// The JavaScript of the documents that needs this package, and no test runner except node:test.
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { environment } from '../process.ts'
import { temporaryFolder } from '../support.ts'

const PACKAGE = pathToFileURL(resolve('dist/index.js')).href
const PAGES = readdirSync('docs').filter((name) => name.endsWith('.md'))

for (const document of ['README.md', ...PAGES.map((name) => join('docs', name))]) {
  const blocks = [...readFileSync(document, 'utf8').matchAll(/^```js\n(.*?)^```/gms)]
  const snippets = blocks.map(([, code = '']) => code)
  const ours = snippets.filter((code) => code.includes(`from 'petstore-server'`))
  for (const [index, code] of ours.filter((code) => !code.includes('vitest')).entries()) {
    // In a process of its own, which ends with another status than 0 if it fails.
    test(`snippet ${index + 1} of ${document} runs`, (t) => {
      const file = join(temporaryFolder(t), 'snippet.mjs')
      writeFileSync(file, code.replace(`from 'petstore-server'`, `from '${PACKAGE}'`))
      execFileSync(process.execPath, [file], { env: environment(), timeout: 30_000 })
    })
  }
}
