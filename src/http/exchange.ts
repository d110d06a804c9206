import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { types } from 'node:util'
import { now } from '../clock.ts'
import { type ErrorName, refuse } from '../errors.ts'
import type { Awaitable } from '../pets/store.ts'
import { bodyError, headError, headersOf, isAllowedPreflight, optionsReply } from './headers.ts'
import { KEY_MUST_BE } from './keys.ts'
import { allowOf, type Asked, type Reply, type Route, type Router } from './router.ts'

/** What a server serves. */
export interface App {
  readonly router: Router
  /** The index of a request's key, if it needs one, or what is wrong with it. */
  readonly authorize: (req: IncomingMessage) => number | ErrorName | undefined
  readonly cors: readonly string[] // the origins whose scripts may call, or `*`
  readonly maxBody: number
  readonly onBug: (error: unknown) => void // takes what an operation throws
  readonly onEnd?: (exchange: Exchange) => void // logs and records it
  /** Takes the reply to a request that could not be read. */
  readonly onRefused?: (reply: Reply, remote: string) => void
}

const NO_BODY: Buffer = Buffer.alloc(0)
const SILENCE_TIMEOUT = 60_000
const ABSOLUTE_FORM = /^https?:\/\/[^/?#]+\/?/i

/** A request, and what becomes of it. */
export class Exchange implements Asked {
  readonly req: IncomingMessage
  readonly res: ServerResponse
  readonly remote: string // the client's address, which the socket forgets when the client leaves
  readonly started: number = now()
  readonly path: string // as it was sent
  readonly query: string // as it was sent, without its question mark
  route: Route | undefined
  param = '' // the last segment of the path, decoded
  key: number | undefined // the index of its valid key
  body: Buffer = NO_BODY
  isExpecting: boolean // whether the client waits for a 100 before it sends the body
  isOver = false // it was answered, or its client left
  reply: Reply | undefined // once it is over; undefined if the client got none
  bytes = 0 // of the body that was sent
  duration = 0 // milliseconds from its head to its response

  constructor(req: IncomingMessage, res: ServerResponse) {
    this.req = req
    this.res = res
    this.remote = req.socket.remoteAddress ?? ''
    const { url = '', headers, httpVersion } = req
    // RFC 9112 §3.2: in origin-form or in absolute-form.
    const target = url.startsWith('/') ? url : url.replace(ABSOLUTE_FORM, '/')
    const mark = target.indexOf('?')
    this.path = mark < 0 ? target : target.slice(0, mark)
    this.query = mark < 0 ? '' : target.slice(mark + 1)
    this.isExpecting = headers.expect !== undefined && httpVersion === '1.1'
  }

  /** @param reply Undefined if the client got none. */
  end(reply: Reply | undefined, bytes: number): void {
    this.isOver = true
    this.reply = reply
    this.bytes = bytes
    this.duration = Math.round((now() - this.started) * 1_000) / 1_000
  }
}

/**
 * Takes a request through the checks in their order: HTTP, key, path, method, media type, size.
 * Then reads its body, if the operation takes one, and runs the operation.
 */
export function answer(app: App, exchange: Exchange): Awaitable<Reply> {
  const { router, cors, maxBody } = app
  const { req } = exchange
  const { method = '', url, headers } = req
  const malformed = headError(req)
  if (malformed) return refuse(malformed)
  if (method === 'OPTIONS' && url === '*') return optionsReply(router.allow, headers, cors)

  const { routes, param, isSecured } = router.find(exchange.path)
  const route = routes.get(method === 'HEAD' ? 'GET' : method)
  exchange.route = route
  exchange.param = param
  const key = isSecured ? app.authorize(req) : undefined
  if (typeof key === 'string') return refuse(key, KEY_MUST_BE)
  exchange.key = key

  const allow = (): string => allowOf(routes.keys())
  const isFound = routes.size > 0
  if (method === 'OPTIONS' && (isFound || isAllowedPreflight(headers, cors))) {
    return optionsReply(allow(), headers, cors)
  }
  if (!isFound) return refuse('notFound', router.base || '/')
  if (!route) return refuse('methodNotAllowed', allow())
  if (route.method !== 'POST') return run(app, exchange, route)

  const wrong = bodyError(headers, maxBody)
  if (wrong) return refuse(wrong, `${maxBody}`)
  return readBody(exchange, maxBody).then((body) => {
    if (!body) return refuse('bodyTooLarge', `${maxBody}`)
    exchange.body = body
    return run(app, exchange, route)
  })
}

/** Runs an operation. If it throws, that is a bug: the client learns nothing about it. */
function run(app: App, exchange: Exchange, { handle }: Route): Awaitable<Reply> {
  const fail = (error: unknown): Reply => {
    app.onBug(error)
    return refuse('internalError')
  }
  try {
    const reply = handle(exchange)
    return types.isPromise(reply) ? reply.catch(fail) : reply
  } catch (error) {
    return fail(error)
  }
}

/** Resolves to the body; to undefined if it is too large. */
function readBody(exchange: Exchange, maxBody: number): Promise<Buffer | undefined> {
  return new Promise((resolve) => {
    const { req, res } = exchange
    if (exchange.isExpecting) res.writeContinue()
    exchange.isExpecting = false
    let chunks: Buffer[] = []
    let length = 0
    req.on('data', (chunk: Buffer) => {
      length += chunk.length
      if (length <= maxBody) return void chunks.push(chunk)
      chunks = []
      resolve(undefined)
    })
    req.on('end', () => resolve(Buffer.concat(chunks)))
  })
}

/**
 * Sends a response, and ends the exchange.
 *
 * @param after What is to become of the connection.
 * @returns What becomes of it: after `close`, nothing more may be served on it.
 */
export function respond(
  exchange: Exchange,
  reply: Reply,
  after: 'keep' | 'close',
  cors: readonly string[],
): 'keep' | 'close' {
  const { req, res } = exchange
  const { status, body, hangUp } = reply
  if (hangUp === true || hangUp === 'reset') {
    hangUpOn(exchange, hangUp)
    return 'close'
  }
  const length = body === undefined ? 0 : Buffer.byteLength(body)
  const fields = headersOf(reply, length, req.headers, cors)
  // A client that waits for a 100 may send the body now, or not: nobody knows what comes next.
  // After an Upgrade, node's parser takes what comes for the other protocol.
  const isUnclear = exchange.isExpecting || req.headers.upgrade !== undefined
  const isLast = after === 'close' || isUnclear
  if (isLast) fields.push('Connection', 'close')
  res.writeHead(status, fields)
  if (hangUp) sendHalf(exchange, body ?? '', hangUp)
  // As Latin-1, which is faster, if it is ASCII.
  else res.end(body, length === body?.length ? 'latin1' : 'utf8')
  closeIfUnread(req.socket)
  exchange.end(reply, req.method === 'HEAD' ? 0 : length)
  return isLast || hangUp ? 'close' : 'keep'
}

/**
 * Lets node close a connection that moves nothing while much of a response is unread. Until then
 * node itself has no time-out, so that a slow store may take its time.
 */
function closeIfUnread(socket: Socket): void {
  if (socket.writableLength > socket.writableHighWaterMark) socket.setTimeout(SILENCE_TIMEOUT)
}

/** Ends the connection without a response. */
function hangUpOn(exchange: Exchange, hangUp: true | 'reset'): void {
  const { socket } = exchange.req
  if (hangUp === 'reset') socket.resetAndDestroy()
  else socket.destroy()
  exchange.end(undefined, 0)
}

/** Sends the head and half of the body. Then the connection ends, or nothing more comes. */
function sendHalf({ req, res }: Exchange, body: string, hangUp: 'halfway' | 'stalled'): void {
  const bytes = Buffer.from(body)
  res.flushHeaders()
  res.write(bytes.subarray(0, bytes.length / 2))
  if (hangUp === 'halfway') req.socket.destroySoon()
}
