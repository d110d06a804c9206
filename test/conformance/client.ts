// Sends requests byte for byte, one after another, each on a connection of its own.
import { connect, isIP } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import { connect as connectTls } from 'node:tls'
import { Response } from './response.ts'

const TIMEOUT = 10_000 // ms
const MAX_RETRY_AFTER = 60 // seconds
const METHODS = ['GET', 'HEAD', 'OPTIONS', 'PROPFIND', 'POST'] // all but POST are safe
const MAX_REQUESTS = 200
const MAX_PETS = 10

/** A request, with the key and as HTTP/1.1 unless it says otherwise. */
export interface Asked {
  /** Method and path: `/pets` is under the base address, `~/pets` at the root of the server. */
  ask: string
  /** Each replaces the default headers of its name; without a value it only removes them. */
  headers?: readonly string[]
  body?: string
  version?: '1.0'
}

/** A rule cannot be checked here: why. */
export class NotPossible extends Error {}

export interface ClientOptions {
  url: string
  key: string
  create: boolean
  isOwn?: boolean // of the tests themselves: takes any method, without bounds
}

export class Client {
  readonly key: string
  readonly url: URL
  readonly basePath: string
  readonly #options: ClientOptions
  #requests = 0
  #pets = 0
  #unreachable: Error | undefined

  constructor(options: ClientOptions) {
    this.key = options.key
    this.url = new URL(options.url)
    this.basePath = this.url.pathname.replace(/\/$/, '')
    this.#options = options
  }

  /** Sends a request, and again where the server asks for patience. */
  async ask(asked: string | Asked): Promise<Response> {
    const request = typeof asked === 'string' ? { ask: asked } : asked
    const { create, isOwn = false } = this.#options
    const isPost = request.ask.startsWith('POST ') && !isOwn
    if (isPost && !create) throw new NotPossible('needs --create')
    for (;;) {
      if (isPost && this.#pets === MAX_PETS) throw new Error(`${MAX_PETS} pets were added already.`)
      if (isPost) this.#pets++ // if its response is lost, it was added
      const response = await this.#send(request)
      if (isPost && response.status >= 300) this.#pets--
      const retryAfter = retryAfterOf(response)
      if (retryAfter === undefined || retryAfter > MAX_RETRY_AFTER) return response
      await wait(retryAfter * 1000)
    }
  }

  async #send(request: Asked): Promise<Response> {
    if (this.#unreachable !== undefined) throw this.#unreachable
    const { isOwn = false } = this.#options
    const isTooMany = this.#requests === MAX_REQUESTS && !isOwn
    if (isTooMany) throw new Error(`${MAX_REQUESTS} requests were sent.`)
    this.#requests++
    const curl = this.#curl(request)
    try {
      return new Response(curl, await exchange(this.url, this.#bytes(request)))
    } catch (cause) {
      const failure = new Error(`\n\nThe request\n\n    ${curl}\n\ngot no response: ${cause}\n`)
      if (this.#requests === 1) this.#unreachable = failure
      throw failure
    }
  }

  #partsOf({ ask, headers = [], body }: Asked) {
    const [, method = '', place = ''] = /^(\w+) (.*)$/s.exec(ask) ?? []
    if (!METHODS.includes(method) && !this.#options.isOwn)
      throw new Error(`${method} can change something`)
    const defaults = [`Authorization: Bearer ${this.key}`]
    if (body !== undefined) defaults.push('Content-Type: application/json')
    const replaced = headers.map(nameOf)
    const lines = [...defaults.filter((line) => !replaced.includes(nameOf(line))), ...headers]
    const target = place.startsWith('/') ? this.basePath + place : place.replace(/^~/, '')
    return { method, target, lines }
  }

  #bytes(request: Asked): Buffer {
    const { method, target, lines } = this.#partsOf(request)
    const { body, version = '1.1' } = request
    const names = lines.map(nameOf)
    const isChunked = names.includes('transfer-encoding')
    const length = Buffer.byteLength(body ?? '')
    if (!names.includes('host')) lines.unshift(`Host: ${this.url.host}`)
    if (body !== undefined && !isChunked) lines.push(`Content-Length: ${length}`)
    const sent = lines.filter((line) => !/^[^:]+:$/.test(line))
    const head = [`${method} ${target} HTTP/${version}`, ...sent, 'Connection: close', '', '']
    const content = isChunked ? `${length.toString(16)}\r\n${body}\r\n0\r\n\r\n` : (body ?? '')
    return Buffer.concat([Buffer.from(head.join('\r\n'), 'latin1'), Buffer.from(content)])
  }

  /** The request for a shell that has the key in PETSTORE_API_KEY. */
  #curl(request: Asked): string {
    const { method, target, lines } = this.#partsOf(request)
    const { body, version } = request
    const quote = (text: string) =>
      `'${text.replaceAll("'", "'\\''")}'`
        .replaceAll(this.key, `'"$PETSTORE_API_KEY"'`)
        .replace(/(?<=")''$/, '')
    const words = ['curl -i --path-as-is']
    if (version !== undefined) words.push(`--http${version}`)
    if (method === 'HEAD') words.push('-I')
    else if (method !== 'GET') words.push(`-X ${method}`)
    for (const line of lines) words.push(`-H ${quote(line)}`)
    if (body !== undefined) words.push(`--data-binary ${quote(body)}`)
    if (target.startsWith('/')) words.push(quote(this.url.origin + target))
    else words.push(`--request-target ${quote(target)}`, quote(this.url.origin))
    return words.join(' ')
  }
}

function nameOf(line: string): string {
  return line.replace(/:.*/s, '').toLowerCase()
}

/** Seconds to wait before the request is sent again; undefined if there is no need to. */
function retryAfterOf(response: Response): number | undefined {
  const value = response.header('retry-after')
  if (response.status === 429 && value === undefined) return 1
  if (value === undefined || ![429, 503].includes(response.status)) return undefined
  if (/^\d+$/.test(value)) return Number(value)
  const date = Date.parse(value)
  return Number.isNaN(date) ? 1 : Math.max(0, date - Date.now()) / 1000
}

/** Writes the bytes and reads until the server closes the connection, as it was asked to. */
async function exchange({ protocol, hostname, port }: URL, bytes: Buffer): Promise<Buffer> {
  const host = hostname.replace(/^\[|\]$/g, '')
  const servername = isIP(host) ? '' : host
  const socket =
    protocol === 'https:'
      ? connectTls({ host, port: Number(port || 443), servername })
      : connect({ host, port: Number(port || 80) })
  const tooLate = new Error(`the connection was not closed within ${TIMEOUT} ms`)
  const timer = setTimeout(() => socket.destroy(tooLate), TIMEOUT)
  socket.write(bytes)
  const chunks: Buffer[] = []
  try {
    for await (const chunk of socket) chunks.push(chunk)
  } catch (error) {
    // A reset after the response is as good as an end.
    if (error === tooLate || chunks.length === 0) throw error
  } finally {
    clearTimeout(timer)
  }
  return Buffer.concat(chunks)
}
