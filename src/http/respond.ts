import { IncomingMessage, ServerResponse, STATUS_CODES } from 'node:http'
import { Socket } from 'node:net'
import { clock } from './headers.ts'
import { COMMON, contentLengthOf, headersOf, JSON_TYPE, type Reply } from './reply.ts'

// Up to here, header section and body are one string: node would hold a longer one twice.
const LONG = 16 * 1024

// Sends a reply; returns the bytes of its body. The fast way puts header section and body where node keeps the header
// section (`_header`, undocumented). All else goes the documented way. `keepAlive` (seconds) is absent on a user's server.
export function respond(res: ServerResponse, reply: Reply, headers: readonly string[], keepAlive?: number): number {
  const { status, body, contentLength } = reply
  const length = contentLengthOf(reply)
  const hasBody = body !== undefined && res.req.method !== 'HEAD'
  const isKept = keepAlive !== undefined && res.shouldKeepAlive
  if (canSendAtOnce && '_header' in res && isKept && hasBody && length <= LONG) {
    res.statusCode = status
    const connection = `Connection: keep-alive\r\nKeep-Alive: timeout=${keepAlive}\r\n`
    res._header = responseText(reply, length, headers, connection)
    res.end()
    res._header = 'sent' // a connection would otherwise retain its latest response
  } else {
    const closing = res.shouldKeepAlive === false ? ['Connection', 'close'] : [] // HTTP/2 has no such member
    res.writeHead(status, [...headersOf(reply, length), ...headers, ...closing])
    res.end(body !== undefined && length > LONG ? Buffer.from(body) : body)
  }
  if (contentLength !== undefined) {
    res.shouldKeepAlive = false // whatever its header says: nothing behind it is processed
    res.once('finish', () => res.req.socket.destroySoon?.()) // HTTP/2 shows it by itself
  }
  return hasBody ? length : 0
}

/** A whole response (RFC 9112 §4), each byte a character. Its headers must be ASCII without line breaks. */
export function responseText(reply: Reply, length: number, headers: readonly string[], connection: string): string {
  const { status, body = '', type = JSON_TYPE, headers: own = [] } = reply
  const start = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nContent-Type: ${type}\r\nContent-Length: ${length}\r\n`
  const head = `${start}${textOf(own)}${COMMON_TEXT}${textOf(headers)}`
  const content = body.length === length ? body : Buffer.from(body).toString('latin1')
  return `${head}Date: ${date()}\r\n${connection}\r\n${content}`
}

function textOf(headers: readonly string[]): string {
  let text = ''
  for (let at = 0; at < headers.length; at += 2) text += `${headers[at]}: ${headers[at + 1]}\r\n`
  return text
}

const COMMON_TEXT = textOf(COMMON)
const date = clock(1_000, (time) => time.toUTCString())

/** Whether what is put into `_header` is what goes out. On Bun it is not. */
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

const canSendAtOnce = !('bun' in process.versions) && isHeaderSent()
