// Rules as text: requests, and the response that they get. contract.txt says how they are written.
import { readFileSync } from 'node:fs'
import type { Asked, Client } from './client.ts'

export interface Transcript {
  name: string
  requests: { ask: string; headers: string[]; body?: string }[]
  expected: string[]
}

export function readTranscripts(file: URL): Transcript[] {
  const transcripts: Transcript[] = []
  for (const line of readFileSync(file, 'utf8').split('\n')) {
    const [, mark, text = ''] = /^ {2}([<>|]) (.*)$/.exec(line) ?? []
    const { requests, expected } = transcripts.at(-1) ?? {}
    const [, ask = '', body] = /^([A-Z]+ \S+)(?: (.*))?$/.exec(text) ?? []
    if (/^\w/.test(line)) transcripts.push({ name: line, requests: [], expected: [] })
    else if (mark === '<') expected?.push(text)
    else if (mark === '|') requests?.push(...requests.slice(-1).map((last) => varied(last, text)))
    else if (ask !== '') requests?.push({ ask, headers: [], ...(body !== undefined && { body }) })
    else if (mark === '>') requests?.at(-1)?.headers.push(text)
  }
  return transcripts
}

type Request = Transcript['requests'][number]

/** The request with another value of its last header. */
function varied({ headers, ...request }: Request, value: string): Request {
  const name = headers.at(-1)?.replace(/:.*/, '')
  return { ...request, headers: [...headers.slice(0, -1), `${name}: ${value}`] }
}

/** Checks a rule; `name` is the one of the pets that it adds. */
export async function checkTranscript(
  { requests, expected }: Transcript,
  client: Client,
  name: string,
): Promise<void> {
  const { key, basePath: base, url } = client
  const values = new Map(Object.entries({ base, host: url.host, key, name }))
  const fill = (text: string) =>
    text
      .replace(/\{(\w+)\}/g, (hole, word) => values.get(word) ?? hole)
      .replace(/\\x([\da-f]{2})/g, (_, code) => String.fromCharCode(Number.parseInt(code, 16)))
  for (const { ask, headers, body } of requests) {
    const filled: Asked = { ask: fill(ask), headers: headers.map(fill) }
    const response = await client.ask(body === undefined ? filled : { ...filled, body: fill(body) })
    // The JSON without the spaces between its tokens.
    const compact = response.body.replace(/("(?:[^"\\]|\\.)*")|\s+/g, '$1')
    for (const line of expected.map(fill)) {
      const part = line.slice(1)
      const [, header = '', value] = /^([\w-]+):(?: (.*))?$/.exec(line) ?? []
      if (/^\d/.test(line)) response.shouldBe(line)
      else if (line.startsWith('!')) response.should(`without ${part}`, !response.has(part))
      else if (header !== '') response.shouldHave(header, value)
      else response.should(`with ${part}`, compact.includes(part))
    }
  }
}
