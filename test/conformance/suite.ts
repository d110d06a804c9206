// What every level registers its rules with.
import { describe, test } from 'node:test'
import { Client, NotPossible } from './client.ts'
import type { Pet } from './response.ts'
import { checkTranscript, readTranscripts } from './transcript.ts'

export interface Options {
  url: string
  create: boolean
  decisions: boolean
  expectedFailures: readonly string[]
}

/** By this name whoever runs the server knows where a pet came from. */
export const NAME = 'petstore-server conformance'

const options: Options = JSON.parse(process.env['CONFORMANCE'] ?? '')
const key = process.env['PETSTORE_API_KEY'] ?? ''
export const client: Client = new Client({ ...options, key })
const names = new Set<string>()
let isRun = true

/** Registers the rules of a level: first the ones in code, then its transcript. */
export function level(name: 'contract' | 'http' | 'decisions', register: () => void): void {
  const registerAll = () => {
    register()
    for (const transcript of readTranscripts(new URL(`${name}.txt`, import.meta.url)))
      rule(transcript.name, () => checkTranscript(transcript, client, NAME))
  }
  isRun = name !== 'decisions' || options.decisions
  if (isRun) describe(name, registerAll)
  else registerAll()
}

export function rule(name: string, check: () => Promise<void>): void {
  names.add(name)
  if (!isRun) return
  const isExpectedToFail = options.expectedFailures.includes(name)
  test(name, async (t) => {
    try {
      await check()
    } catch (error) {
      if (error instanceof NotPossible) return t.skip(error.message)
      if (!isExpectedToFail) throw error
      return t.diagnostic(`Fails, as expected. ${error}`)
    }
    if (isExpectedToFail) throw new Error('It passes, although it is expected to fail.')
  })
}

export function refuseUnknownNames(): void {
  for (const name of options.expectedFailures.filter((one) => !names.has(one)))
    test(name, () => Promise.reject(new Error('It is expected to fail, but is no rule.')))
}

/** The first pets, 100 at most. Skips the rule if there are less than this. */
export async function atLeast(count: number): Promise<readonly Pet[]> {
  const { pets } = await client.ask('GET /pets?limit=100')
  if (pets.length < count) throw new NotPossible(`needs ${count} pets, but sees ${pets.length}`)
  return pets
}
