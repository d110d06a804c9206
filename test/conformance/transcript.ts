// Rules as text: requests, and the response that they get. contract.txt says how they are written.
import { readFileSync } from 'node:fs'
import type { Asked, Client } from './client.ts'
import type { Response } from './response.ts'

/** Requests that all get the same response. */
export interface Exchange {
  requests: { ask: string; headers: string[]; body?: string }[]
  expected: string[]
}

export interface Transcript {
  name: string
  exchanges: Exchange[]
}

export function readTranscripts(file: URL): Transcript[] {
  const blocks = readFileSync(file, 'utf8').split(/\n(?=\w)/)
  return blocks.slice(1).map((block) => {
    const [name = '', ...lines] = block.split('\n')
    return { name, exchanges: exchangesIn(lines) }
  })
}

function exchangesIn(lines: readonly string[]): Exchange[] {
  const exchanges: Exchange[] = []
  for (const line of lines) {
    const [, mark, text = ''] = /^ {2}([<>|]) (.*)$/.exec(line) ?? []
    const [, ask = '', body] = /^([A-Z]+ \S+)(?: (.*))?$/.exec(text) ?? []
    const isNew = exchanges.at(-1)?.expected.length !== 0 && mark === '>'
    if (isNew) exchanges.push({ requests: [], expected: [] })
    const { requests = [], expected = [] } = exchanges.at(-1) ?? {}
    if (mark === '<') expected.push(text)
    else if (mark === '|') requests.push(...requests.slice(-1).map((last) => varied(last, text)))
    else if (ask !== '') requests.push({ ask, headers: [], ...(body !== undefined && { body }) })
    else if (mark === '>') requests.at(-1)?.headers.push(text)
  }
  return exchanges
}

type Request = Exchange['requests'][number]

/** The request with another value of its last header. */
function varied({ headers, ...request }: Request, value: string): Request {
  const name = headers.at(-1)?.replace(/:.*/, '')
  return { ...request, headers: [...headers.slice(0, -1), `${name}: ${value}`] }
}

/** Decodes `\x20`. */
export function decode(text: string): string {
  return text.replace(/\\x([\da-f]{2})/g, (_, code) =>
    String.fromCharCode(Number.parseInt(code, 16)),
  )
}

/** Checks a rule; `name` is the one of the pets that it adds. */
export async function checkTranscript(
  { exchanges }: Transcript,
  client: Client,
  name: string,
  controls?: Client,
): Promise<void> {
  const { key, basePath: base, url } = client
  const values = new Map(Object.entries({ base, host: url.host, key, name }))
  const fill = (text: string) =>
    decode(text.replace(/\{(\w+)\}/g, (hole, word) => values.get(word) ?? hole))
  for (const { requests, expected } of exchanges) {
    for (const { ask, headers, body } of requests) {
      const isControl = controls !== undefined && ask.includes(' @/')
      const asked: Asked = {
        ask: fill(isControl ? ask.replace('@', '') : ask),
        headers: headers.map(fill),
        ...(body !== undefined && { body: fill(body) }),
      }
      const response = await (isControl ? controls : client).ask(asked)
      for (const line of expected) checkLine(response, fill(line))
    }
  }
}

function checkLine(response: Response, line: string): void {
  // The JSON without the spaces between its tokens.
  const compact = response.body.replace(/("(?:[^"\\]|\\.)*")|\s+/g, '$1')
  const part = line.slice(1)
  const [, status = '', message] = /^(\d[^:]*)(?:: (.*))?$/.exec(line) ?? []
  const [, header = '', value] = /^([\w-]+):(?: (.*))?$/.exec(line) ?? []
  if (status !== '') {
    response.shouldBe(status)
    const told = `"message":${JSON.stringify(message)}`
    if (message !== undefined) response.should(`with ${told}`, compact.includes(told))
  } else if (/^[[{]/.test(line)) response.should(line, compact === line)
  else if (line.startsWith('!')) response.should(`without ${part}`, !response.has(part))
  else if (header !== '') response.shouldHave(header, value)
  else response.should(`with ${part}`, compact.includes(part))
}
