// The workflows, held to actionlint and zizmor at pinned versions.
import { execFile, spawnSync } from 'node:child_process'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { folderOf } from '../support.ts'
import { isHere } from './packages.ts'

const exec = promisify(execFile)
const WORKFLOWS = '.github/workflows'

test('actionlint finds nothing', { skip: spawnSync('go', ['version']).status !== 0 && 'there is no go' }, async (t) => {
  const folder = folderOf(t)
  const env = { ...process.env, GOBIN: folder, GOFLAGS: '-modcacherw' }
  await exec('go', ['install', 'github.com/rhysd/actionlint/cmd/actionlint@v1.7.12'], { env })
  await exec(`${folder}/actionlint`, [`${WORKFLOWS}/ci.yml`, `${WORKFLOWS}/release.yml`])
})

test('zizmor finds nothing', { skip: !isHere('pip3', 'python3-pip') && 'there is no pip3' }, async (t) => {
  const folder = folderOf(t)
  await exec('pip3', ['install', '--quiet', '--target', folder, 'zizmor==1.32.0'])
  await exec(`${folder}/bin/zizmor`, ['--offline', '--persona=auditor', WORKFLOWS])
})
