// npm run conformance -- URL [--create] [--decisions]
import { describe, test } from 'node:test'
import { parseArgs } from 'node:util'
import { Client, NotPossible } from './client.ts'
import { checkRule, readRules } from './transcript.ts'

const USAGE = `PETSTORE_API_KEY=… npm run conformance -- URL [options]

  URL          the base address, such as https://staging.example/v1
  --create     check POST too: adds at most ten pets, for which there is no delete
  --decisions  check what the contract leaves open and docs/contract.md decides
`

function register(level: string, client: Client): void {
  describe(level, () => {
    for (const rule of readRules(level)) {
      test(rule.name, async (t) => {
        try {
          await checkRule(rule, client)
        } catch (error) {
          if (!(error instanceof NotPossible)) throw error
          t.skip(error.message)
        }
      })
    }
  })
}

function run(): void {
  const options = { create: { type: 'boolean' }, decisions: { type: 'boolean' } } as const
  const { values, positionals } = parseArgs({ options, allowPositionals: true })
  const { create = false, decisions = false } = values
  const [url = '', ...more] = positionals
  if (!/^https?:\/\//.test(url) || more.length > 0) throw new Error('There must be one http URL')
  const key = process.env['PETSTORE_API_KEY'] ?? ''
  if (key === '') throw new Error('PETSTORE_API_KEY must have the key')
  const adds = 'Adds at most ten pets, named "petstore-server conformance": there is no delete.'
  console.error(create ? adds : 'Only reads. With --create it checks POST too.')
  console.error(`At most 200 requests to ${url}, one after another.\n`)
  const client = new Client({ url, key, create })
  for (const level of ['contract', 'http', ...(decisions ? ['decisions'] : [])]) {
    register(level, client)
  }
}

try {
  run()
} catch (error) {
  console.error(`${error instanceof Error ? error.message : error}\n\n${USAGE}`)
  process.exitCode = 1
}
