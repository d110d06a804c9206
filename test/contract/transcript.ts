// Rules as text: requests, and the response that they get. contract.txt says how they are written.
import { readFileSync } from 'node:fs'
import { type Client, NotPossible, type Request, type Response } from './client.ts'
import { checkLine, Failure } from './check.ts'

/** Requests that all get the same response. */
interface Exchange {
  readonly requests: Request[]
  readonly expected: string[]
}

export interface Rule {
  readonly name: string
  readonly exchanges: readonly Exchange[]
}

/** By this name whoever runs the server knows where a pet came from. */
const NAME = 'petstore-server conformance'

export function readRules(name: string): Rule[] {
  const text = readFileSync(`${import.meta.dirname}/${name}.txt`, 'utf8')
  const [, ...blocks] = text.split(/\n(?=\w)/)
  return blocks.map((block) => {
    const [name = '', ...lines] = block.split('\n')
    return { name, exchanges: exchangesIn(lines) }
  })
}

function exchangesIn(lines: readonly string[]): Exchange[] {
  const exchanges: Exchange[] = []
  for (const line of lines) {
    const [, mark, text = ''] = /^ {2}([<>|]) (.*)$/.exec(line) ?? []
    const isNew = exchanges.at(-1)?.expected.length !== 0 && mark === '>'
    if (isNew) exchanges.push({ requests: [], expected: [] })
    const { requests = [], expected = [] } = exchanges.at(-1) ?? {}
    const last = requests.at(-1)
    const request = requestIn(text)
    if (mark === '<') expected.push(text)
    else if (mark === '>' && request) requests.push(request)
    else if (mark === '>' && last) last.headers = [...last.headers, text]
    else if (mark === '|' && last) requests.push(varied(last, text))
  }
  return exchanges
}

function requestIn(text: string): Request | undefined {
  const [, method, target = '', version = 'HTTP/1.1', body] =
    /^([A-Z]+) (\S+)(?: (HTTP\/\S+))?(?: (.*))?$/.exec(text) ?? []
  return method === undefined ? undefined : { method, target, version, headers: [], body }
}

/** The request with another value of its last header. */
function varied(request: Request, value: string): Request {
  const name = request.headers.at(-1)?.replace(/:.*/, '')
  return { ...request, headers: [...request.headers.slice(0, -1), `${name}: ${value}`] }
}

/** Throws a Failure that shows the request, or NotPossible. */
export async function checkRule({ exchanges }: Rule, client: Client): Promise<void> {
  const { key, basePath: base, url } = client
  const values = new Map<string, string | undefined>()
  for (const [hole, value] of Object.entries({ key, base, host: url.host, name: NAME })) {
    values.set(hole, value)
  }
  for (const { requests, expected } of exchanges) {
    for (const { target, headers, body, ...line } of requests) {
      const response = await client.ask({
        ...line,
        target: fill(target, values),
        headers: headers.map((header) => fill(header, values)),
        body: body === undefined ? undefined : fill(body, values),
      })
      if (line.method === 'HEAD' && response.body !== '') fail(response, 'without content', key)
      for (const one of expected) checkFilled(response, one, values, key)
    }
  }
}

function checkFilled(
  response: Response,
  line: string,
  values: Map<string, string | undefined>,
  key: string,
): void {
  try {
    checkLine(response, fill(line, values), values)
  } catch (error) {
    if (error instanceof Failure) fail(response, error.message, key)
    throw error
  }
}

/** Fills in `{holes}`, and decodes `\x20`. */
function fill(text: string, values: ReadonlyMap<string, string | undefined>): string {
  const filled = text.replace(/\{([\w.]+)\}/g, (hole, name) => {
    const value = values.get(name)
    if (value === undefined && values.has(name)) throw new NotPossible(`there is no ${hole} here`)
    return value ?? hole
  })
  return filled.replace(/\\x([\da-f]{2})/g, (_, code) => {
    return String.fromCharCode(Number.parseInt(code, 16))
  })
}

function fail({ sent, head, body }: Response, be: string, key: string): never {
  const answer = `${head}\n\n${body}`.replaceAll(key, '[key]').slice(0, 2_000)
  throw new Failure(`\n\n${sent}\n\nwas answered by\n\n${answer}\n\nIt should have been ${be}.\n`)
}
