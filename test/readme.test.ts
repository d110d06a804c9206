// The README's tour is run as it stands, and its tables are held to the code.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { HELP } from '../src/config.ts'
import { ERROR_STATUS } from '../src/http/reply.ts'
import { DEMO_PETS } from '../src/pets/demo.ts'
import { send, start, temporaryFile } from './support.ts'

const README = readFileSync(new URL('../README.md', import.meta.url), 'utf8')
const run = promisify(execFile)

test('the tour shows what its commands print', async (t) => {
  const petstore = await start(t, { apiKeys: ['my-secret-key'], pets: DEMO_PETS })
  const tour = README.slice(README.indexOf('## A tour'), README.indexOf('## Configuration'))
  const steps = [...tour.matchAll(/```sh\n(.*?)\n```(?:\n\n```(?:json|http)\n(.*?)\n```)?/gs)]
  const [[, settings = ''] = [], ...commands] = steps
  assert.equal(commands.length, 7)
  const here = settings.replace('http://127.0.0.1:8080/v1', petstore.url)
  assert.notEqual(here, settings)
  for (const [, command = '', shown] of commands) {
    const { stdout } = await run('sh', ['-c', `${here}\n${command}`])
    assert.equal(stdout.replaceAll('\r', '').trim(), shown, command)
  }
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
