import { IncomingMessage, ServerResponse, STATUS_CODES } from 'node:http'
import { Socket } from 'node:net'
import type { ReadableStream } from 'node:stream/web'
import { cachedTimestamp } from './clock.ts'

/** What an operation returns: a response that knows no socket. */
export interface Reply {
  readonly status: number
  readonly headers?: readonly string[] // in addition to common ones: name, value, name, value …
  readonly body?: string // absent if the response has no content (204)
  readonly type?: string // of the body; JSON by default
  readonly code?: string // the code and the message of an Error, for the log and for tests
  readonly message?: string
  readonly cause?: unknown // of the failure, for the log alone
  // Sends the body, if it is not sent at once. An error breaks the response off.
  readonly stream?: ReadableStream<Uint8Array>
}

/** What an operation does instead of a reply: ends the connection, or resets it. */
export type HangUp = 'end' | 'reset'

/** The errors that `http` itself responds with. */
export type Problem =
  | 'badSyntax'
  | 'badVersion'
  | 'badHost'
  | 'badCredentials'
  | 'badFraming'
  | 'badTransferCoding'
  | 'badExpectation'
  | 'requestTimeout'
  | 'headersTooLarge'
  | 'chunkExtensionsTooLarge'
  | 'bodyTooLarge'
  | 'bodyRead'
  | 'badMediaType'
  | 'noCredentials'
  | 'invalidToken'
  | 'malformedToken'
  | 'forbidden'
  | 'notFound'
  | 'methodNotAllowed'
  | 'internalError'

/** Replies to a problem. The detail completes its message: a reason, a limit, or `Allow`. */
export type Refuse = (problem: Problem, detail?: string) => Reply

const JSON_TYPE = 'application/json'
const COMMON = ['Cache-Control', 'no-store', 'X-Content-Type-Options', 'nosniff']
const COMMON_TEXT = textOf(COMMON)
const MAX_AT_ONCE = 16 * 1024 // bytes of a body: until it is sent, node holds a longer one twice

const date = cachedTimestamp(1_000, (time) => time.toUTCString())
const canSendAtOnce = !('bun' in process.versions) && sendsHeaderMember()

/**
 * Sends a reply; returns the bytes of its body.
 *
 * @param keepAlive Milliseconds; absent on a user's server.
 */
export function respond(
  res: ServerResponse,
  reply: Reply,
  echoed: readonly string[],
  keepAlive?: number,
): number {
  const { status, body } = reply
  const bytes = bytesOf(reply)
  const hasBody = body !== undefined && res.req.method !== 'HEAD'
  const isKept = keepAlive !== undefined && res.shouldKeepAlive
  const isShort = bytes <= MAX_AT_ONCE
  if (canSendAtOnce && isKept && hasBody && isShort && '_header' in res) {
    // The fast way: put head and body into `_header` (undocumented), which node writes as Latin-1.
    const connection = `keep-alive\r\nKeep-Alive: timeout=${Math.floor(keepAlive / 1_000)}`
    res.statusCode = status // for observers of responses, such as OpenTelemetry
    res._header = responseText(reply, bytes, echoed, connection)
    res.end()
  } else {
    res.writeHead(status, headersOf(reply, bytes, echoed))
    res.end(body && Buffer.from(body))
  }
  return hasBody ? bytes : 0
}

/** Sends the head of a reply, and then its body as the stream gives it. Returns the bytes sent. */
export async function respondByStream(
  res: ServerResponse,
  reply: Reply,
  echoed: readonly string[],
  stream: ReadableStream<Uint8Array>,
): Promise<number> {
  const reader = stream.getReader()
  res.once('close', () => reader.cancel().catch(() => {})) // the client may leave meanwhile
  res.writeHead(reply.status, headersOf(reply, bytesOf(reply), echoed))
  res.flushHeaders()
  let bytes = 0
  try {
    for (;;) {
      const { value } = await reader.read()
      if (!value) break
      bytes += value.length
      res.write(value)
    }
    res.end()
  } catch {
    breakOff(res)
  }
  return bytes
}

/** Closes the connection once all is sent: a client of HTTP/1.1 would wait for the rest. */
function breakOff(res: ServerResponse): void {
  const { socket } = res.req
  // A user's server may be given a Duplex, which has no destroySoon(), or a mock with neither.
  const close = socket.destroySoon ?? socket.end
  if (!close) return void res.destroy()
  res.once('finish', () => close.call(socket))
  res.end()
}

/** Closes the connection without a response. The socket of a user's server may be a mock. */
export function hangUp(res: ServerResponse, how: HangUp): void {
  const { socket } = res.req
  if (how === 'reset' && socket.resetAndDestroy) socket.resetAndDestroy()
  else res.destroy()
}

/** Whether node sends what is put into `_header`. */
function sendsHeaderMember(): boolean {
  let sent = ''
  const socket = new Socket()
  socket.write = (chunk: unknown) => {
    sent += chunk
    return true
  }
  const res = new ServerResponse(new IncomingMessage(socket))
  res.assignSocket(socket)
  if ('_header' in res) res._header = 'probe'
  res.end()
  return sent === 'probe'
}

/** A response (RFC 9112 §4), a character for each byte. Its headers must be Latin-1. */
export function responseText(
  reply: Reply,
  bytes: number,
  echoed: readonly string[],
  connection: string,
): string {
  const { status, body = '', type = JSON_TYPE, headers = [] } = reply
  const isAscii = body.length === bytes
  const content = isAscii ? body : Buffer.from(body).toString('latin1')
  return `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r
Content-Type: ${type}\r
Content-Length: ${bytes}\r
${textOf(headers)}${COMMON_TEXT}${textOf(echoed)}Date: ${date()}\r
Connection: ${connection}\r
\r
${content}`
}

function textOf(headers: readonly string[]): string {
  let text = ''
  for (let at = 0; at < headers.length; at += 2) text += `${headers[at]}: ${headers[at + 1]}\r\n`
  return text
}

/** All headers of a response; a 204 has neither type nor length. */
export function headersOf(reply: Reply, bytes: number, echoed: readonly string[]): string[] {
  const { body, type = JSON_TYPE, headers = [] } = reply
  const content = ['Content-Type', type, 'Content-Length', String(bytes)]
  return [...(body === undefined ? [] : content), ...headers, ...COMMON, ...echoed]
}

/** The bytes of a body as it is sent. */
export function bytesOf({ body = '' }: Reply): number {
  return Buffer.byteLength(body)
}
