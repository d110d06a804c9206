import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { blocksOf } from './documents.ts'

const run = promisify(execFile)

/** Runs the README's tour at this base address, and asserts that its commands print what is shown. */
export async function runTour(url: string, key: string): Promise<void> {
  const [settings, ...blocks] = blocksOf('README.md', 'A tour')
  const here = settings?.code.replace('http://127.0.0.1:8080/v1', url).replace('my-secret-key', key) ?? ''
  assert.ok(here.includes(url) && here.includes(key))
  assert.equal(blocks.length, 2 * 5)
  for (let at = 0; at < blocks.length; at += 2) {
    const { language, code = '' } = blocks[at] ?? {}
    assert.equal(language, 'sh')
    const { stdout } = await run('sh', ['-c', `${here}\n${code}`])
    assert.equal(stdout.replaceAll('\r', '').trim(), blocks[at + 1]?.code, code)
  }
}
