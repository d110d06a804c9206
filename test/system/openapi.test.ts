// The document, held against the server by Schemathesis, which pip installs.
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { test } from 'node:test'
import { run } from '../process.ts'
import { KEY, start, temporaryFolder } from '../support.ts'

const PACKAGE = 'schemathesis==4.32.5'
const skip = spawnSync('pip3', ['--version']).status !== 0 && 'there is no pip3'

test('Schemathesis finds nothing', { skip }, async (t) => {
  const folder = temporaryFolder(t)
  execFileSync('pip3', ['install', '--quiet', '--target', folder, PACKAGE])
  const { url } = await start(t, { pets: [{ name: 'Rex', categoryId: 1, status: 'sold' }] })
  const document = new URL('/openapi.json', url).href
  const flags = ['-H', `Authorization: Bearer ${KEY}`, '--checks', 'all', '--no-color']
  const inFolder = ['sh', '-c', 'cd "$0" && exec python3 bin/schemathesis "$@"', folder]
  const { stdout, status } = run(t, [...inFolder, 'run', document, ...flags], {
    PYTHONPATH: folder,
  })
  assert.equal(await status, 0, stdout.text)
  assert.match(stdout.text, /Tested: 3/)
})
