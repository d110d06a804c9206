// Rules as text: requests, and the response that they get. contract.txt says how they are written.
import { readFileSync } from 'node:fs'
import type { Asked, Client } from './client.ts'

interface Request {
  ask: string
  headers: string[]
  body?: string
}

export class Transcript {
  readonly name: string
  readonly #requests: Request[] = []
  readonly #headers: string[] = []
  readonly #parts: string[] = []
  #expected = ''

  constructor(name: string) {
    this.name = name
  }

  add(mark: string, line: string): void {
    const [isRequest, ask = '', body] = /^([A-Z]+ \S+)(?: (.*))?$/.exec(line) ?? []
    if (mark === '<') this.#addExpected(line)
    else if (isRequest === undefined) this.#requests.at(-1)?.headers.push(line)
    else this.#requests.push({ ask, headers: [], ...(body !== undefined && { body }) })
  }

  #addExpected(line: string): void {
    if (/^\d/.test(line)) this.#expected = line
    else if (line.startsWith('…')) this.#parts.push(line.slice(1))
    else this.#headers.push(line)
  }

  async check(client: Client, name: string): Promise<void> {
    const values: Record<string, string> = {
      '{base}': client.basePath,
      '{host}': client.host,
      '{key}': client.key,
      '{name}': name,
    }
    const fill = (text: string) =>
      text
        .replace(/\{\w+\}/g, (hole) => values[hole] ?? hole)
        .replace(/\\x([\da-f]{2})/g, (_, code) => String.fromCharCode(Number.parseInt(code, 16)))
    for (const request of this.#requests) {
      const asked: Asked = JSON.parse(JSON.stringify(request), (_, value) =>
        typeof value === 'string' ? fill(value) : value,
      )
      const response = await client.ask(asked)
      response.shouldBe(this.#expected)
      for (const line of this.#headers) {
        const [header = ''] = line.split(':', 1)
        response.shouldHave(header, fill(line.slice(header.length + 2)) || undefined)
      }
      for (const part of this.#parts)
        response.should(`with ${fill(part)}`, response.body.includes(fill(part)))
    }
  }
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
