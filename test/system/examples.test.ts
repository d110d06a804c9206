// The examples, each as its users run it.
import assert from 'node:assert/strict'
import { cpSync, readFileSync, writeFileSync } from 'node:fs'
import { before, describe, test } from 'node:test'
import { launch } from '../process.ts'
import { KEY, send, temporaryFolder } from '../support.ts'
import { BROWSER, folder, install, newestNode, pack, shell } from './consumer.ts'
import { missing } from './programs.ts'

const examples = `${folder}/examples`

let newest = ''
before(async () => {
  newest = await newestNode()
  await pack()
  cpSync('examples', examples, { recursive: true })
  writeFileSync(`${examples}/playwright.config.mjs`, BROWSER)
  await install(examples, 'yaml@2.9.1')
})

describe('a test in', { concurrency: 2 }, () => {
  for (const tool of ['jest', 'node', 'playwright', 'python', 'vitest']) {
    const skip = tool === 'playwright' && missing('chromium')
    test(tool, { skip }, async () => {
      for (const node of ['', newest]) await shell(examples, `npm run ${tool}`, node)
    })
  }
})

for (const file of ['compose.yaml', 'kubernetes.yaml']) {
  test(`a server starts with the settings of ${file}`, async (t) => {
    await shell(examples, `npx yaml valid < ${file}`)
    const volume = temporaryFolder(t)
    writeFileSync(`${volume}/api-keys`, KEY)
    const text = readFileSync(`examples/${file}`, 'utf8')
      .replace('${PETSTORE_API_KEYS:?}', KEY)
      .replace(/\/(data|keys)\//g, `${volume}/`)
    const variables = text.matchAll(/(PETSTORE_\w+)(?:: |, value: )'?([^\s'}]+)/g)
    const env = Object.fromEntries(Array.from(variables, ([, name, value]) => [name, value]))
    const executable = [process.execPath, 'dist/main.js']
    const { url, child, stdout, status } = await launch(t, [], { env, executable })
    const sent = { body: '{"name":"Rex","categoryId":1}' }
    assert.equal((await send({ url }, 'POST', '/v1/pets', sent)).status, 201)
    assert.match(readFileSync(`${volume}/pets.json`, 'utf8'), /Rex/)
    for (const [path] of text.matchAll(/\/(live|ready)z/g)) {
      assert.equal((await send({ url }, 'GET', path)).status, 200)
    }
    child.kill('SIGINT')
    assert.equal(await status, 0)
    assert.doesNotMatch(stdout.text, /"warn"/)
  })
}
