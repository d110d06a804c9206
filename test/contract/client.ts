// Sends requests byte for byte, one after another, each on a connection of its own.
import { connect, isIP } from 'node:net'
import { connect as connectTls } from 'node:tls'

const TIMEOUT = 10_000 // ms
const SAFE = ['GET', 'HEAD', 'OPTIONS', 'PROPFIND']
const MAX_REQUESTS = 200
const MAX_PETS = 10

/** A request, to which the client adds the key and what frames the message. */
export interface Request {
  method: string
  target: string // `/pets` is under the base address, `~/pets` at the root of the server
  version: string
  headers: readonly string[] // each replaces the default of its name; without a value it removes it
  body: string | undefined
}

/** What a request got. */
export interface Response {
  status: number
  head: string
  body: string
  sent: string // the request, without the key
}

/** A rule cannot be checked here: why. */
export class NotPossible extends Error {}

export interface ClientOptions {
  url: string
  key: string
  create?: boolean // whether POST is allowed
  isOwn?: boolean // whether any method is allowed, without bounds
}

export class Client {
  readonly key: string
  readonly url: URL
  readonly basePath: string
  readonly #options: ClientOptions
  #requests = 0
  #pets = 0

  constructor(options: ClientOptions) {
    this.key = options.key
    this.url = new URL(options.url)
    this.basePath = this.url.pathname.replace(/\/$/, '')
    this.#options = options
  }

  async ask(request: Request): Promise<Response> {
    if (!this.#options.isOwn) this.#checkBounds(request)
    const bytes = this.#bytes(request)
    const sent = bytes.toString().trim().replaceAll(this.key, '[key]')
    if (request.method === 'POST') this.#pets++ // if its response is lost, it was added
    const [head, body] = split(await exchange(this.url, bytes))
    const status = Number(head.split(' ')[1])
    if (request.method === 'POST' && status >= 300) this.#pets--
    return { status, head, body, sent }
  }

  #checkBounds({ method }: Request): void {
    const isPost = method === 'POST'
    if (isPost && !this.#options.create) throw new NotPossible('needs --create')
    if (!isPost && !SAFE.includes(method)) throw new Error(`${method} can change something`)
    if (isPost && this.#pets === MAX_PETS) throw new Error(`${MAX_PETS} pets were added already`)
    if (++this.#requests > MAX_REQUESTS) throw new Error(`${MAX_REQUESTS} requests were sent`)
  }

  #bytes({ method, target, version, headers, body }: Request): Buffer {
    const length = Buffer.byteLength(body ?? '')
    const isChunked = headers.some((line) => /^transfer-encoding:/i.test(line))
    const defaults = [`Host: ${this.url.host}`, `Authorization: Bearer ${this.key}`]
    if (body !== undefined) defaults.push('Content-Type: application/json')
    if (body !== undefined && !isChunked) defaults.push(`Content-Length: ${length}`)
    const replaced = headers.map(nameOf)
    const kept = defaults.filter((line) => !replaced.includes(nameOf(line)))
    const lines = [...kept, ...headers.filter((line) => !/^[^:]+:$/.test(line))]
    const path = target.startsWith('/') ? this.basePath + target : target.replace(/^~/, '')
    const head = [`${method} ${path} ${version}`, ...lines, 'Connection: close', '', '']
    const content = isChunked ? `${length.toString(16)}\r\n${body}\r\n0\r\n\r\n` : (body ?? '')
    return Buffer.concat([Buffer.from(head.join('\r\n'), 'latin1'), Buffer.from(content)])
  }
}

function nameOf(line: string): string {
  return line.replace(/:.*/s, '').toLowerCase()
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

/** The head, and the body without its chunks. */
function split(bytes: Buffer): [head: string, body: string] {
  const end = bytes.indexOf('\r\n\r\n')
  if (end < 0) throw new Error(`no head of a response: ${JSON.stringify(`${bytes}`)}`)
  const head = bytes.toString('latin1', 0, end)
  const content = bytes.subarray(end + 4)
  if (/^HTTP\/1\.1 1/.test(head)) return split(content)
  const isChunked = /^transfer-encoding: *chunked/im.test(head)
  return [head, (isChunked ? withoutChunks(content) : content).toString()]
}

function withoutChunks(bytes: Buffer): Buffer {
  const end = bytes.indexOf('\r\n')
  const length = Number.parseInt(bytes.toString('latin1', 0, end), 16)
  if (end < 0 || !(length > 0)) return Buffer.alloc(0)
  const start = end + 2
  const chunk = bytes.subarray(start, start + length)
  return Buffer.concat([chunk, withoutChunks(bytes.subarray(start + length + 2))])
}
