import { IncomingMessage, ServerResponse, STATUS_CODES } from 'node:http'
import { Socket } from 'node:net'
import { clock } from './clock.ts'

/** A response before it meets a socket: what an operation returns. */
export interface Reply {
  readonly status: number
  readonly headers?: readonly string[] // beyond those of every response: name, value, name, value …
  readonly body?: string // absent if the response has no content (204)
  readonly type?: string // of the body; JSON by default
  readonly code?: string // of an Error
  readonly contentLength?: number // announced for a body that is cut short on purpose
}

/** What HTTP itself can find wrong with a request. */
export type Problem =
  | 'badSyntax'
  | 'badVersion'
  | 'badHost'
  | 'badCredentials'
  | 'badFraming'
  | 'badTransferCoding'
  | 'badTarget'
  | 'badExpectation'
  | 'requestTimeout'
  | 'headersTooLarge'
  | 'chunkExtensionsTooLarge'
  | 'bodyTooLarge'
  | 'badMediaType'
  | 'badContentCoding'
  | 'noCredentials'
  | 'invalidToken'
  | 'forbidden'
  | 'notFound'
  | 'methodNotAllowed'
  | 'internalError'

/** Replies to a problem. The detail completes its message: a reason, a limit, or `Allow`. */
export type Refuse = (problem: Problem, detail?: string) => Reply

export type Awaitable<T> = T | Promise<T>

/** Uses a value at once or, if it is a promise, when it resolves. */
export function whenReady<T, U>(value: Awaitable<T>, use: (value: T) => U): Awaitable<U> {
  return value instanceof Promise ? value.then(use) : use(value)
}

const JSON_TYPE = 'application/json'
const COMMON = ['Cache-Control', 'no-store', 'X-Content-Type-Options', 'nosniff']
const COMMON_TEXT = textOf(COMMON)
// A string up to this length is sent as it is: node would hold a longer one twice.
const MAX_STRING = 16 * 1024

const date = clock(1_000, (time) => time.toUTCString())
const canSendAtOnce = !('bun' in process.versions) && isHeaderSent()

/**
 * Sends a reply; returns the bytes of its body.
 *
 * @param keepAlive Seconds; absent on a user's server.
 */
export function respond(
  res: ServerResponse,
  reply: Reply,
  headers: readonly string[],
  keepAlive?: number,
): number {
  const { body } = reply
  const length = contentLengthOf(reply)
  const hasBody = body !== undefined && res.req.method !== 'HEAD'
  const isKept = keepAlive !== undefined && res.shouldKeepAlive
  if (canSendAtOnce && '_header' in res && isKept && hasBody && length <= MAX_STRING) {
    const connection = `Connection: keep-alive\r\nKeep-Alive: timeout=${keepAlive}\r\n`
    sendAtOnce(res, reply.status, responseText(reply, length, headers, connection))
  } else {
    send(res, reply, length, headers)
  }
  if (reply.contentLength !== undefined) closeAfter(res)
  return hasBody ? length : 0
}

/** The documented way. */
function send(res: ServerResponse, reply: Reply, length: number, headers: readonly string[]): void {
  const { status, body } = reply
  // HTTP/2 has no `shouldKeepAlive`.
  const connection = res.shouldKeepAlive === false ? ['Connection', 'close'] : []
  res.writeHead(status, [...headersOf(reply, length), ...headers, ...connection])
  res.end(body !== undefined && length > MAX_STRING ? Buffer.from(body) : body)
}

/** The fast way: puts all of it where node keeps the headers (`_header`, undocumented). */
function sendAtOnce(
  res: ServerResponse & { _header: unknown },
  status: number,
  response: string,
): void {
  res.statusCode = status
  res._header = response
  res.end()
  res._header = 'sent' // otherwise an idle connection retains its latest response
}

/** Ends the connection after a response whose body is cut short. HTTP/2 shows that by itself. */
function closeAfter(res: ServerResponse): void {
  res.shouldKeepAlive = false // the server processes nothing after it
  res.once('finish', () => res.req.socket.destroySoon?.())
}

/** Whether what is put into `_header` is what goes out. */
function isHeaderSent(): boolean {
  const sent: unknown[] = []
  const socket = new Socket()
  socket.write = (chunk: unknown) => sent.push(chunk) > 0
  const res = new ServerResponse(new IncomingMessage(socket))
  res.assignSocket(socket)
  if ('_header' in res) res._header = 'probe'
  res.end()
  return sent.join('') === 'probe'
}

/** A response (RFC 9112 §4), a character for each byte. Headers must be ASCII, no line breaks. */
export function responseText(
  reply: Reply,
  length: number,
  headers: readonly string[],
  connection: string,
): string {
  const { status, body = '', type = JSON_TYPE, headers: own = [] } = reply
  const content = body.length === length ? body : Buffer.from(body).toString('latin1')
  return `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r
Content-Type: ${type}\r
Content-Length: ${length}\r
${textOf(own)}${COMMON_TEXT}${textOf(headers)}Date: ${date()}\r
${connection}\r
${content}`
}

function textOf(headers: readonly string[]): string {
  let text = ''
  for (let at = 0; at < headers.length; at += 2) text += `${headers[at]}: ${headers[at + 1]}\r\n`
  return text
}

/** All headers of a reply; a 204 has neither type nor length. */
export function headersOf(reply: Reply, contentLength: number): string[] {
  const { body, type = JSON_TYPE, headers = [] } = reply
  if (body === undefined) return [...headers, ...COMMON]
  const content = ['Content-Type', type, 'Content-Length', String(contentLength)]
  return [...content, ...headers, ...COMMON]
}

export function contentLengthOf({ body = '', contentLength }: Reply): number {
  return contentLength ?? Buffer.byteLength(body)
}
