// npm run conformance -- URL [--create] [--decisions] [--reporter NAME] [--expected-failures FILE]
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import type { Readable, Writable } from 'node:stream'
import { parseArgs } from 'node:util'
import type { Options } from './run.ts'

const USAGE = `PETSTORE_API_KEY=… npm run conformance -- URL [options]

  URL                       the base address, such as https://staging.example/v1
  --create                  check POST too: adds at most ten pets, for which there is no delete
  --decisions               check what the contract leaves open and docs/contract.md decides
  --reporter NAME           a reporter of node:test: spec, tap, junit or dot (spec)
  --expected-failures FILE  the names of rules that fail, one a line`

function readCommand(): Options & { reporter: string } {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      create: { type: 'boolean', default: false },
      decisions: { type: 'boolean', default: false },
      reporter: { type: 'string', default: 'spec' },
      'expected-failures': { type: 'string' },
    },
  })
  const [url = '', ...more] = positionals
  if (!/^https?:\/\//.test(url) || more.length > 0) throw new Error('There must be one http URL')
  const file = values['expected-failures']
  const lines = file === undefined ? [] : readFileSync(file, 'utf8').split(/\r?\n/)
  return { ...values, url, expectedFailures: lines.filter((line) => line.trim() !== '') }
}

/** Runs the rules in a process of their own, so that all it prints passes through here. */
async function run(key: string): Promise<number> {
  const { reporter, ...options } = readCommand()
  const adds = 'Adds at most ten pets, named "petstore-server conformance": there is no delete.'
  console.error(options.create ? adds : 'Only reads. With --create it checks POST too.')
  console.error(`At most 200 requests to ${options.url}, one after another.\n`)
  const rules = import.meta.filename.replace(/main(?=\.\w+$)/, 'run')
  const env: NodeJS.ProcessEnv = { ...process.env, CONFORMANCE: JSON.stringify(options) }
  delete env['NODE_TEST_CONTEXT'] // a test runner may have started this
  const args = [...process.execArgv, `--test-reporter=${reporter}`, rules]
  const child = spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'pipe'] })
  const closed = once(child, 'close')
  const print = async (from: Readable, to: Writable) => {
    for await (const line of createInterface(from)) to.write(`${line.replaceAll(key, '[key]')}\n`)
  }
  await Promise.all([print(child.stdout, process.stdout), print(child.stderr, process.stderr)])
  const [status] = await closed
  return status === 0 ? 0 : 1
}

try {
  const key = process.env['PETSTORE_API_KEY'] ?? ''
  // The characters of RFC 6750. No reporter escapes them, so the key is found in what it prints.
  if (!/^[\w\-.~+/]+=*$/.test(key)) throw new Error('PETSTORE_API_KEY must have the key')
  process.exitCode = await run(key)
} catch (error) {
  console.error(`${error instanceof Error ? error.message : error}\n\n${USAGE}`)
  process.exitCode = 1
}
