// The served document, held against the server by Schemathesis, which pip installs.
import assert from 'node:assert/strict'
import { execFile, execFileSync, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { test } from 'node:test'
import { text } from 'node:stream/consumers'
import { KEY, start, temporaryFolder } from '../support.ts'

const PACKAGE = 'schemathesis==4.32.5'
const hasPip = spawnSync('pip3', ['--version']).status === 0
const skip = !hasPip && 'there is no pip3'

test('Schemathesis finds only that orders are not implemented', { skip }, async (t) => {
  const folder = temporaryFolder(t)
  execFileSync('pip3', ['install', '--quiet', '--target', folder, PACKAGE])
  const { url } = await start(t, { pets: [{ name: 'Rex', categoryId: 1, status: 'sold' }] })
  const document = new URL('/openapi.json', url).href
  const key = `Authorization: Bearer ${KEY}`
  const flags = ['-H', key, '--checks', 'all', '--continue-on-failure', '--no-color']
  const program = `${folder}/bin/schemathesis`
  const env = { ...process.env, PYTHONPATH: folder }
  const run = execFile('python3', [program, 'run', document, ...flags], { cwd: folder, env })
  assert.ok(run.stdout)
  const [output] = await Promise.all([text(run.stdout), once(run, 'exit')])
  t.diagnostic(/\d+ generated.*/.exec(output)?.[0] ?? '')
  const failing = output.match(/(?<=^_+ ).*(?= _+$)/gm)
  assert.deepEqual(failing, ['GET /store/orders'], output)
  assert.deepEqual(output.match(/(?<=^- )ST\d+ .*/gm), ['ST101 Server error'], output)
  assert.match(output, /Tested: 4/)
})
