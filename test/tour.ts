import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { promisify } from 'node:util'

const README = readFileSync(new URL('../README.md', import.meta.url), 'utf8')
const run = promisify(execFile)

/**
 * Runs the README's tour at this base address, and asserts that each command prints what is shown; in any case where what
 * stands between writes the names of fields in its own.
 */
export async function runTour(url: string, key: string, inAnyCase = false): Promise<void> {
  const tour = README.slice(README.indexOf('## A tour'), README.indexOf('## Configuration'))
  const steps = [...tour.matchAll(/```sh\n(.*?)\n```(?:\n\n```(?:json|http)\n(.*?)\n```)?/gs)]
  const [[, settings = ''] = [], ...commands] = steps
  assert.equal(commands.length, 7)
  const here = settings.replace('http://127.0.0.1:8080/v1', url).replace('my-secret-key', key)
  assert.ok(here.includes(url) && here.includes(key))
  for (const [, command = '', shown] of commands) {
    const { stdout } = await run('sh', ['-c', `${here}\n${inAnyCase ? command.replace('grep', 'grep -i') : command}`])
    const [printed, expected] = [stdout.replaceAll('\r', '').trim(), shown].map((text) =>
      inAnyCase ? text?.toLowerCase() : text,
    )
    assert.equal(printed, expected, command)
  }
}
