// The README's tour is run as it stands, and its tables are held to the code.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { DEMO_PETS } from '../src/pets/demo.ts'
import { run } from './executable.ts'
import { KEY, send, start } from './support.ts'
import { runTour } from './tour.ts'

const README = readFileSync(new URL('../README.md', import.meta.url), 'utf8')

test('the tour shows what its commands print', async (t) => {
  await runTour((await start(t, { pets: DEMO_PETS })).url, KEY)
})

test('the table of settings has the flags, variables and defaults of --help', async () => {
  const { stdout } = await run(['--help'])
  const rows = stdout.matchAll(/^ {2}(--\S+(?: [A-Z]+)?) {2,}([A-Z_]+) .* \((.*)\)$/gm)
  const help = [...rows].map(([, flag, variable, fallback]) => `| \`${flag}\` | \`${variable}\` | ${fallback} |`)
  assert.deepEqual(README.match(/^\| `--.*? \| .*? \| .*? \|/gm), help)
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
    assert.match(README, new RegExp(`^\\| ${code === 'injected_fault' ? 'any' : status} \\| .*\`${code}\``, 'm'))
  }
})
