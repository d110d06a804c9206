// Runs the rules as tests, in the process that main.ts starts.
import { describe, test } from 'node:test'
import { Client, NotPossible } from './client.ts'
import { type Rule, RULES } from './suite.ts'

export interface Options {
  url: string
  create: boolean
  decisions: boolean
  expectedFailures: readonly string[]
}

const options: Options = JSON.parse(process.env['CONFORMANCE'] ?? '')
const client = new Client({ ...options, key: process.env['PETSTORE_API_KEY'] ?? '' })

function register({ name, check }: Rule): void {
  const isExpectedToFail = options.expectedFailures.includes(name)
  test(name, async (t) => {
    try {
      await check(client)
    } catch (error) {
      if (error instanceof NotPossible) return t.skip(error.message)
      if (!isExpectedToFail) throw error
      return t.diagnostic(`Fails, as expected. ${error}`)
    }
    if (isExpectedToFail) throw new Error('It passes, although it is expected to fail.')
  })
}

for (const level of ['contract', 'http', ...(options.decisions ? ['decisions'] : [])])
  describe(level, () => RULES.filter((rule) => rule.level === level).forEach(register))

const names = new Set(RULES.map(({ name }) => name))
for (const name of options.expectedFailures.filter((one) => !names.has(one)))
  test(name, () => Promise.reject(new Error('It is expected to fail, but is no rule.')))
