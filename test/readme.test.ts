// The README's tour is run as it stands, and its tables are held to the code.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { HELP } from '../src/config.ts'
import { ERROR_STATUS } from '../src/http/reply.ts'
import { DEMO_PETS } from '../src/pets/demo.ts'
import { KEY, send, start, temporaryFile } from './support.ts'
import { runTour } from './tour.ts'

const README = readFileSync(new URL('../README.md', import.meta.url), 'utf8')

test('the tour shows what its commands print', async (t) => {
  const petstore = await start(t, { pets: DEMO_PETS })
  await runTour(petstore.url, KEY)
})

test('the snapshot that is shown is one', async (t) => {
  const [, shown = ''] = /```text\n(\{"petstore".*?)```/s.exec(README) ?? []
  const snapshot = temporaryFile(t, shown)
  const petstore = await start(t, { snapshot })
  assert.equal(JSON.parse((await send(petstore, 'GET', '/v1/pets')).body).length, 2)
  await petstore.close()
  assert.equal(readFileSync(snapshot, 'utf8'), shown)
})

test('the configuration table has the flags, variables and defaults of --help', () => {
  const rows = HELP.matchAll(/^ {2}(--\S+(?: [A-Z]+)?) {2,}([A-Z_]+) .* \((.*)\)$/gm)
  const help = [...rows].map(([, flag, variable, shown]) => `| \`${flag}\` | \`${variable}\` | ${shown} |`)
  const table = README.match(/^\| `--.*? \| .*? \| .*? \|/gm)
  assert.equal(help.length, 19)
  assert.deepEqual(table, help)
})

test('the table of errors has every code with its status', () => {
  const table = README.slice(README.indexOf('| status | code |'), README.indexOf('## The code'))
  for (const [code, status] of Object.entries(ERROR_STATUS)) {
    const shown = code === 'injected_fault' ? 'any' : status
    assert.match(table, new RegExp(`^\\| ${shown} \\| .*\`${code}\``, 'm'))
  }
})
