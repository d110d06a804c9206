// Runs the conformance suite, as `npm run conformance` does.
import assert from 'node:assert/strict'
import { Running, USER_ENV } from './process.ts'
import { KEY } from './support.ts'

export function verify(url: string, flags: string[], within: string[] = []): Running['exited'] {
  const suite = ['--import', 'tsx', 'test/conformance/main.ts', url, '--reporter', 'tap']
  const env = { ...USER_ENV, PETSTORE_API_KEY: KEY }
  return new Running([...within, process.execPath, ...suite, ...flags], { env }).exited
}

/** Asserts that a server keeps all rules. `within` is a command that runs the suite elsewhere. */
export async function assertConforms(url: string, within: string[] = []): Promise<string> {
  const { status, stdout, stderr } = await verify(url, ['--create', '--decisions'], within)
  const rules = stdout.split(/^(?= {4}# Subtest)/m)
  const broken = rules.filter((rule) => /^ {4}not ok/m.test(rule))
  assert.deepEqual(broken, [])
  assert.equal(status, 0, stderr)
  return stdout
}
