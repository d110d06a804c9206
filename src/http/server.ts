import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { type AddressInfo, Server as NetServer, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { contentTooLarge } from './body.ts'
import { methodNotAllowed, type RequestHead, type Verdict } from './dispatch.ts'
import type { Limits } from './limits.ts'
import type { Log } from './log.ts'
import { failureReply, malformedReply, rawAnswer } from './malformed.ts'
import { type ErrorReply, fieldLines, readRequestId, type Reply } from './reply.ts'

/** What an {@link HttpServer} is made of. */
export interface HttpServerOptions {
  dispatch: (head: RequestHead) => Verdict
  log: Log
  /** Methods of all resources, for the `Allow` of a refused CONNECT. */
  allow: string
  /** Bytes that a body may have. */
  maxBody: number
  /** Connections beyond these are closed at once. */
  maxConnections: number
  /** Milliseconds that an idle connection is kept. */
  keepAlive: number
  limits: Limits
}

/** One request, from its head to its answer. */
interface Exchange {
  readonly req: IncomingMessage
  readonly res: ServerResponse
  readonly requestId: string | undefined
  readonly started: number
  operation: string | undefined
  /** Its answer says `Connection: close`: the client takes no request behind it for processed (RFC 9112 §9.6). */
  isLast: boolean
}

interface Connection {
  readonly socket: Socket
  latest: Exchange | undefined
  /** Something on it could not be read as a request: nothing after that is. */
  failed: boolean
  /** Requests that wait for the answers before theirs. */
  waiting: number
}

/** The node:http server: it reads requests within its limits, sends replies, and ends connections without losing answers. */
export class HttpServer {
  readonly #options: HttpServerOptions
  readonly #server: Server
  readonly #connections = new Map<Duplex, Connection>()
  #draining = false
  #cut = 0

  constructor(options: HttpServerOptions) {
    const { limits, keepAlive, maxConnections } = options
    this.#options = options
    this.#server = createServer({
      maxHeaderSize: limits.headerBytes,
      headersTimeout: limits.headersTimeout,
      requestTimeout: limits.requestTimeout,
      connectionsCheckingInterval: limits.checkInterval,
      keepAliveTimeout: keepAlive,
      // node's own answer to a missing Host has no body; ours is an Error.
      requireHostHeader: false,
    })
    this.#server.timeout = limits.stallTimeout
    this.#server.maxHeadersCount = 0 // headerBytes bounds them; a count would drop the rest silently
    this.#server.maxConnections = maxConnections
    this.#server.on('connection', (socket) => this.#open(socket))
    this.#server.on('request', (req, res) => this.#receive(req, res, false))
    this.#server.on('checkContinue', (req, res) => this.#receive(req, res, true))
    this.#server.on('checkExpectation', (req, res) => this.#receive(req, res, true))
    this.#server.on('clientError', (error, socket) => this.#fail(socket, failureReply(error)))
    this.#server.on('connect', (req, socket) => {
      socket.on('error', () => socket.destroy()).resume()
      this.#fail(socket, malformedReply(req) ?? methodNotAllowed(options.allow))
    })
  }

  /** Listens, and tells the port. Rejects with the system's error where that cannot be. */
  listen(port: number, host: string): Promise<AddressInfo> {
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject)
      this.#server.listen(port, host, () => {
        this.#server.off('error', reject)
        const address = this.#server.address()
        if (typeof address === 'object' && address !== null) resolve(address)
      })
    })
  }

  /**
   * Stops listening, closes idle connections and lets requests in flight be answered. A second call can shorten the wait.
   *
   * @param drain Milliseconds after which what is left is cut off.
   * @returns How many requests in flight were cut off.
   */
  async stop(drain: number): Promise<number> {
    this.#draining = true
    // net's close and not http's: that one destroys connections whose answer is still on its way to a slow reader.
    const closed = new Promise((resolve) => NetServer.prototype.close.call(this.#server, resolve))
    for (const { socket, latest } of this.#connections.values()) afterAnswer(latest, () => this.#linger(socket))
    const timer = setTimeout(() => {
      for (const { socket, latest } of this.#connections.values()) {
        if (isInFlight(latest)) this.#cut++
        socket.destroy()
      }
    }, drain)
    await closed
    clearTimeout(timer)
    this.#server.close() // http's own after all, to end the checks of the time-outs
    return this.#cut
  }

  #open(socket: Socket): void {
    this.#connections.set(socket, { socket, latest: undefined, failed: false, waiting: 0 })
    socket.once('close', () => this.#connections.delete(socket))
    // After `Connection: close` node destroys the socket as soon as the answer is written. If the client is still sending,
    // the kernel then resets the connection and the client loses the answer (RFC 9112 §9.6).
    socket.destroySoon = () => this.#linger(socket)
  }

  /** Ends our side, and reads on until the client ends its own or the time is over. */
  #linger(socket: Duplex): void {
    socket.end()
    const { drainLinger, linger } = this.#options.limits
    const timer = setTimeout(() => socket.destroy(), this.#draining ? drainLinger : linger)
    socket.once('close', () => clearTimeout(timer))
  }

  #receive(req: IncomingMessage, res: ServerResponse, isExpecting: boolean): void {
    const connection = this.#connections.get(req.socket)
    const before = connection?.latest
    // The connection's last answer is given: what still comes is read, so that the client gets to reading, and dropped.
    if (connection === undefined || before?.isLast || req.socket.writableEnded) return void req.resume()
    const started = this.#options.log.on ? performance.now() : 0
    const requestId = readRequestId(req.headers['x-request-id'])
    const exchange: Exchange = { req, res, requestId, started, operation: undefined, isLast: false }
    connection.latest = exchange
    if (!isInFlight(before)) return this.#process(exchange, isExpecting)
    // Pipelined behind a request that may yet change what this one sees (RFC 9112 §9.3.2), or whose answer nobody reads:
    // node stops reading only for answers that it holds, so what waits must be bounded here.
    if (++connection.waiting > this.#options.limits.pipelined) return void req.socket.destroy()
    before.res.once('close', () => {
      connection.waiting--
      if (!before.isLast && !res.headersSent) this.#process(exchange, isExpecting)
    })
  }

  #process(exchange: Exchange, isExpecting: boolean): void {
    const { req, res } = exchange
    const malformed = malformedReply(req)
    if (malformed !== undefined) return this.#send(exchange, malformed, true)
    const { method = '', url: target = '', headers } = req
    const { operation, answer, wantsBody } = this.#options.dispatch({ method, target, headers })
    exchange.operation = operation
    if (!wantsBody) return this.#finish(exchange, answer(), isExpecting)
    if (isExpecting) res.writeContinue()
    this.#readBody(exchange, (body) => this.#finish(exchange, answer(body), false))
  }

  #finish(exchange: Exchange, reply: Reply | Promise<Reply>, close: boolean): void {
    if (reply instanceof Promise) void reply.then((settled) => this.#send(exchange, settled, close))
    else this.#send(exchange, reply, close)
  }

  /** Gathers the body; one that grows too large is answered at once, and its rest read within requestTimeout and dropped. */
  #readBody(exchange: Exchange, done: (body: Buffer) => void): void {
    const { req, res } = exchange
    const { maxBody } = this.#options
    const chunks: Buffer[] = []
    let length = 0
    req.on('data', (chunk: Buffer) => {
      length += chunk.length
      if (length <= maxBody) chunks.push(chunk)
      else if (!res.headersSent) this.#send(exchange, contentTooLarge(maxBody), false)
    })
    req.on('end', () => {
      if (!res.headersSent) done(Buffer.concat(chunks))
    })
    req.on('close', () => {
      if (!req.complete && !res.headersSent) this.#record(exchange, undefined, 0)
    })
  }

  #send(exchange: Exchange, reply: Reply, close: boolean): void {
    const { res, requestId } = exchange
    const length = reply.body === undefined ? 0 : Buffer.byteLength(reply.body)
    const lines = fieldLines(reply, length, requestId)
    exchange.isLast = close || this.#draining || !res.shouldKeepAlive
    if (exchange.isLast) lines.push('Connection', 'close')
    res.writeHead(reply.status, lines).end(reply.body)
    this.#record(exchange, reply.status, exchange.req.method === 'HEAD' ? 0 : length)
  }

  /** Answers what node could not read as a request, or not in time, in its place behind the answers before it. */
  #fail(stream: Duplex, reply: ErrorReply | undefined): void {
    const connection = this.#connections.get(stream)
    if (connection === undefined || reply === undefined) return void stream.destroy()
    const { socket, latest } = connection
    if (connection.failed || latest?.isLast) return
    connection.failed = true
    if (latest === undefined || latest.req.complete) {
      afterAnswer(latest, () => this.#sendRaw(socket, reply))
    } else if (latest.res.headersSent) {
      afterAnswer(latest, () => this.#linger(socket)) // refused before its body, which now proves broken or late
    } else {
      this.#send(latest, reply, true)
    }
  }

  #sendRaw(socket: Socket, reply: ErrorReply): void {
    if (!socket.writable) return
    socket.write(rawAnswer(reply))
    this.#linger(socket)
    const bytes = Buffer.byteLength(reply.body)
    this.#options.log.request({ status: reply.status, ms: 0, bytes, remote: socket.remoteAddress })
  }

  #record({ req, requestId, started, operation }: Exchange, status: number | undefined, bytes: number): void {
    const { log } = this.#options
    if (!log.on) return
    log.request({
      method: req.method,
      target: req.url,
      operation,
      status,
      ms: performance.now() - started,
      bytes,
      requestId,
      remote: req.socket.remoteAddress,
      forwardedFor: req.headers['x-forwarded-for']?.toString(),
    })
  }
}

/** Whether there are answers on a connection, of which this is the latest, that have not left the process. */
function isInFlight(latest: Exchange | undefined): latest is Exchange {
  return latest !== undefined && !latest.res.writableFinished
}

/** Calls back once all answers on a connection, of which this is the latest, have left the process. */
function afterAnswer(latest: Exchange | undefined, then: () => void): void {
  if (isInFlight(latest)) latest.res.once('close', then)
  else then()
}
