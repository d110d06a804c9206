// Runs the conformance suite, here or as `npm run conformance` does.
import assert from 'node:assert/strict'
import { bundle } from './bundle.ts'
import { Client, NotPossible } from './conformance/client.ts'
import { RULES } from './conformance/suite.ts'
import { Running, USER_ENV } from './process.ts'
import { KEY } from './support.ts'

/** Asserts that a server keeps all rules. Returns the ones that cannot be checked there. */
export async function assertConforms(url: string, create = true): Promise<string[]> {
  const client = new Client({ url, key: KEY, create })
  const skipped: string[] = []
  const broken: string[] = []
  for (const { name, check } of RULES) {
    try {
      await check(client)
    } catch (error) {
      if (error instanceof NotPossible) skipped.push(name)
      else broken.push(`${name}: ${error}`)
    }
  }
  assert.deepEqual(broken, [])
  return skipped
}

const FOLDER = 'test/conformance'
const LEVELS = ['contract', 'http', 'decisions'].map((level) => `${FOLDER}/${level}.txt`)
let folder: string | undefined

/** Runs the command; `within` is one that runs it elsewhere. */
export function verify(url: string, flags: string[], within: string[] = []): Running['exited'] {
  folder ??= bundle([`${FOLDER}/main.ts`, `${FOLDER}/run.ts`], LEVELS)
  const suite = [`${folder}/main.mjs`, url, '--reporter', 'tap']
  const env = { ...USER_ENV, PETSTORE_API_KEY: KEY }
  return new Running([...within, process.execPath, ...suite, ...flags], { env }).exited
}
