// Rules as text: requests, and the response that they get. contract.txt says how they are written.
import { readFileSync } from 'node:fs'
import type { Client } from './client.ts'

interface Request {
  ask: string
  headers: string[]
  body?: string
}

export class Transcript {
  readonly name: string
  readonly #requests: Request[] = []
  readonly #expected: string[] = []

  constructor(name: string) {
    this.name = name
  }

  add(mark: string, line: string): void {
    const [isRequest, ask = '', body] = /^([A-Z]+ \S+)(?: (.*))?$/.exec(line) ?? []
    if (mark === '<') this.#expected.push(line)
    else if (isRequest === undefined) this.#requests.at(-1)?.headers.push(line)
    else this.#requests.push({ ask, headers: [], ...(body !== undefined && { body }) })
  }

  async check(client: Client, name: string): Promise<void> {
    const { key, base } = client
    const values = new Map(Object.entries({ base: base.pathname, host: base.host, key, name }))
    const fill = (text: string) =>
      text
        .replace(/\{(\w+)\}/g, (hole, word) => values.get(word) ?? hole)
        .replace(/\\x([\da-f]{2})/g, (_, code) => String.fromCharCode(Number.parseInt(code, 16)))
    for (const { ask, headers, body } of this.#requests) {
      const filled = { ask: fill(ask), headers: headers.map(fill) }
      const sent = body === undefined ? filled : { ...filled, body: fill(body) }
      const response = await client.ask(sent)
      for (const line of this.#expected.map(fill)) {
        const [header = ''] = line.split(':', 1)
        const part = line.slice(1)
        if (/^\d/.test(line)) response.shouldBe(line)
        else if (line.startsWith('…'))
          response.should(`with ${part}`, compact(response.body).includes(part))
        else if (line.startsWith('!')) response.should(`without ${part}`, !response.has(part))
        else response.shouldHave(header, /: (.*)/.exec(line)?.[1])
      }
    }
  }
}

/** JSON without the spaces between its tokens. */
function compact(json: string): string {
  return json.replace(/("(?:[^"\\]|\\.)*")|\s+/g, '$1')
}

export function readTranscripts(file: URL): Transcript[] {
  const transcripts: Transcript[] = []
  for (const line of readFileSync(file, 'utf8').split('\n')) {
    const [, mark, rest = ''] = /^ {2}([<>]) (.*)$/.exec(line) ?? []
    if (mark !== undefined) transcripts.at(-1)?.add(mark, rest)
    else if (/^\w/.test(line)) transcripts.push(new Transcript(line))
  }
  return transcripts
}
