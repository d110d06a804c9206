import { IncomingMessage, ServerResponse, STATUS_CODES } from 'node:http'
import { Socket } from 'node:net'
import { COMMON, contentLengthOf, firstHalf, headersOf, JSON_TYPE, type Reply } from './reply.ts'

export interface Delivery {
  readonly headers: readonly string[]
  /** `Connection: close`: the client takes no request behind this one for processed (RFC 9112 §9.6). */
  readonly isLast: boolean
  readonly toHead: boolean
  /** Seconds that an idle connection is kept; absent if the response is not one of our own server's. */
  readonly keepAlive: number | undefined
}

// Beyond what a socket takes at once, so such a response may have to wait for its client to read on.
const LONG = 16 * 1024
// Marks the header as sent; a connection would otherwise retain its latest response.
const SENT = 'sent'

/** Sends a reply; returns whether it is a long one, which may stay in memory until the client reads it. */
export function respond(res: ServerResponse, reply: Reply, delivery: Delivery): boolean {
  const length = contentLengthOf(reply)
  return respondAtOnce(res, reply, length, delivery) ? false : respondPlainly(res, reply, length, delivery)
}

export function respondPlainly(res: ServerResponse, reply: Reply, length: number, delivery: Delivery): boolean {
  const { headers, isLast } = delivery
  const closing = isLast ? ['Connection', 'close'] : []
  res.writeHead(reply.status, [...headersOf(reply, length), ...headers, ...closing])
  if (reply.breaksOff === 'within') {
    res.flushHeaders() // a HEAD response goes out without a write
    res.write(firstHalf(reply), () => res.socket?.destroySoon())
  } else if (length > LONG) {
    res.end(Buffer.from(reply.body ?? '')) // node would hold a string twice
  } else {
    res.end(reply.body)
  }
  return length > LONG
}

/**
 * The fast way: header section and body in one string, where node keeps the header section (`_header`, undocumented).
 * Returns false, with nothing sent, if this response must go the documented way.
 */
export function respondAtOnce(res: ServerResponse, reply: Reply, length: number, delivery: Delivery): boolean {
  const { headers, isLast, toHead, keepAlive } = delivery
  if (!canSendAtOnce || !('_header' in res) || keepAlive === undefined || isLast || toHead) return false
  if (reply.body === undefined || reply.breaksOff !== undefined || length > LONG) return false
  res.statusCode = reply.status
  const connection = `Connection: keep-alive\r\nKeep-Alive: timeout=${keepAlive}\r\n`
  res._header = responseText(reply, length, headers, connection)
  res.end()
  res._header = SENT
  return true
}

/** A whole response as it is sent (RFC 9112 §4), each byte a character. Its headers must be ASCII without line breaks. */
export function responseText(reply: Reply, length: number, headers: readonly string[], connection: string): string {
  const { status, body = '', type = JSON_TYPE, headers: own = [] } = reply
  const start = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nContent-Type: ${type}\r\nContent-Length: ${length}\r\n`
  const content = body.length === length ? body : Buffer.from(body).toString('latin1')
  return `${start}${textOf(own)}${COMMON_TEXT}${textOf(headers)}${dateHeader()}${connection}\r\n${content}`
}

function textOf(headers: readonly string[]): string {
  let text = ''
  for (let at = 0; at < headers.length; at += 2) text += `${headers[at]}: ${headers[at + 1]}\r\n`
  return text
}

const COMMON_TEXT = textOf(COMMON)

let second = 0
let date = ''

function dateHeader(): string {
  const now = Math.floor(Date.now() / 1000)
  if (now !== second) {
    second = now
    date = `Date: ${new Date(now * 1000).toUTCString()}\r\n`
  }
  return date
}

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
