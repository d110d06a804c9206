import { IncomingMessage, ServerResponse, STATUS_CODES } from 'node:http'
import { Socket } from 'node:net'
import { clock } from './headers.ts'
import { COMMON, contentLengthOf, firstHalf, headersOf, JSON_TYPE, type Reply } from './reply.ts'

// Up to here, header section and body are one string: node would hold a longer one twice.
const LONG = 16 * 1024

/** Sends a reply; returns the bytes of its body. `keepAlive`, in seconds, is absent on a server that is not our own. */
export function respond(res: ServerResponse, reply: Reply, headers: readonly string[], keepAlive?: number): number {
  const length = contentLengthOf(reply)
  if (!respondAtOnce(res, reply, length, headers, keepAlive)) respondPlainly(res, reply, length, headers)
  return res.req.method === 'HEAD' ? 0 : length
}

export function respondPlainly(res: ServerResponse, reply: Reply, length: number, headers: readonly string[]): void {
  const closing = res.shouldKeepAlive === false ? ['Connection', 'close'] : [] // HTTP/2 has no such member
  res.writeHead(reply.status, [...headersOf(reply, length), ...headers, ...closing])
  if (reply.breaksOff === 'within') {
    res.flushHeaders() // a HEAD response goes out without a write
    res.write(firstHalf(reply), () => res.socket?.destroySoon())
  } else {
    res.end(length > LONG ? Buffer.from(reply.body ?? '') : reply.body)
  }
}

/**
 * The fast way: header section and body in one string, where node keeps the header section (`_header`, undocumented).
 * Returns false, with nothing sent, if this response must go the documented way.
 */
// prettier-ignore
export function respondAtOnce(
  res: ServerResponse, reply: Reply, length: number, headers: readonly string[], keepAlive?: number,
): boolean {
  if (!canSendAtOnce || !('_header' in res) || keepAlive === undefined) return false
  if (!res.shouldKeepAlive || res.req.method === 'HEAD') return false
  if (reply.body === undefined || reply.breaksOff !== undefined || length > LONG) return false
  res.statusCode = reply.status
  const connection = `Connection: keep-alive\r\nKeep-Alive: timeout=${keepAlive}\r\n`
  res._header = responseText(reply, length, headers, connection)
  res.end()
  res._header = 'sent' // a connection would otherwise retain its latest response
  return true
}

/** A whole response as it is sent (RFC 9112 §4), each byte a character. Its headers must be ASCII without line breaks. */
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
  let sent = ''
  const socket = new Socket()
  socket._write = (chunk, _encoding, done) => {
    sent += String(chunk)
    done()
  }
  const res = new ServerResponse(new IncomingMessage(socket))
  res.assignSocket(socket)
  if ('_header' in res) res._header = 'probe'
  res.end()
  return sent === 'probe'
}

const canSendAtOnce = !('bun' in process.versions) && isHeaderSent()
