// All rules, by level.
import type { Client } from './client.ts'
import { contract, decisions, http, NAME } from './rules.ts'
import { checkTranscript, readTranscripts } from './transcript.ts'

export interface Rule {
  level: string
  name: string
  check(client: Client): Promise<void>
}

/** First the rules in code of each level, then its transcripts. */
export const RULES: readonly Rule[] = Object.entries({ contract, http, decisions }).flatMap(
  ([level, checks]) => {
    const transcripts = readTranscripts(new URL(`${level}.txt`, import.meta.url))
    return [
      ...Object.entries(checks).map(([name, check]) => ({ level, name, check })),
      ...transcripts.map((transcript) => ({
        level,
        name: transcript.name,
        check: (client: Client) => checkTranscript(transcript, client, NAME),
      })),
    ]
  },
)
