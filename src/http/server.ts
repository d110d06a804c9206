import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { Server as NetServer, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { setImmediate as immediate } from 'node:timers/promises'
import {
  type Connection,
  type ConnectionOptions,
  Connections,
  lastMessageOf,
} from './connections.ts'
import type { Service } from './dispatch.ts'
import { Exchange } from './exchange.ts'
import { LIMITS, type Limits, MAX_HEADERS } from './limits.ts'
import { malformedProblem, type ParseError, problemOf } from './malformed.ts'
import { contentLengthOf, type Problem, type Reply, responseText } from './respond.ts'

const MAX_TURNS = 1_000 // so that a flooded listener stops too

/** The node:http server: bounds what it reads, and closes connections without losing responses. */
export class HttpServer {
  readonly #service: Service
  readonly #limits: Limits
  readonly #warn: ConnectionOptions['warn']
  readonly #server: Server
  readonly #connections: Connections
  #accepted = 0 // connections
  #isQuiet = true // no request since the last check of a stop
  #cutOff = 0 // requests

  constructor(service: Service, options: ConnectionOptions, limits: Limits = LIMITS) {
    this.#service = service
    this.#limits = limits
    this.#warn = options.warn
    this.#connections = new Connections(options, limits.heldBytes)
    this.#server = createServer({
      headersTimeout: limits.headersTimeout,
      requestTimeout: limits.requestTimeout,
      keepAliveTimeout: options.keepAlive,
      connectionsCheckingInterval: limits.checkInterval,
      maxHeaderSize: limits.headerBytes,
      requireHostHeader: false, // node's own response to a request without Host is no Error
      IncomingMessage: lastMessageOf(this.#connections),
    })
    // node drops the headers beyond its maximum. We refuse the request instead.
    this.#server.maxHeadersCount = MAX_HEADERS + 1
    this.#server.timeout = limits.stallTimeout
    this.#server.on('connection', (socket) => this.#accept(socket))
    this.#server.on('request', (req, res) => this.#receive(req, res))
    this.#server.on('checkContinue', (req, res) => this.#receive(req, res))
    this.#server.on('checkExpectation', (req, res) => this.#receive(req, res))
    this.#server.on('connect', (req, socket) => this.#refuseTunnel(req, socket))
    this.#server.on('timeout', (socket) => this.#onStall(socket))
    this.#server.on('clientError', (error: ParseError, socket) => {
      this.#fail(socket, problemOf(error), error.reason ?? error.message)
    })
  }

  /**
   * Listens. Rejects with the system's code, and the port.
   *
   * @returns URLs of the root: one that reaches the server, and one as it is bound.
   */
  async listen(port: number, host: string): Promise<{ url: string; bound: string }> {
    const server = this.#server.listen(port, host)
    await once(server, 'listening').catch(({ code, message }: NodeJS.ErrnoException) => {
      const reason = code === 'EADDRINUSE' ? 'the port is in use' : message
      throw Object.assign(new Error(`Cannot listen on ${host}:${port}: ${reason}`), { code, port })
    })
    server.on('error', ({ message }) => {
      this.#warn(`connections that the system refused (${message})`)
    })
    const bound = server.address()
    if (typeof bound !== 'object' || bound === null) throw new Error('The server is closed')
    const own = bound.family === 'IPv6' ? `[${bound.address}]` : bound.address
    const url = `http://${hostInUrl(bound.address)}:${bound.port}`
    return { url, bound: `http://${own}:${bound.port}` }
  }

  /**
   * Stops listening, closes idle connections, and lets requests in flight finish. A second call
   * can shorten the wait.
   *
   * @param drain Milliseconds that requests in flight get.
   * @returns How many were cut off.
   */
  async stop(drain: number): Promise<number> {
    await this.#acceptBacklog()
    // http's close() would cut off slow readers. Bun has no alternative.
    const close: NetServer['close'] =
      'bun' in process.versions ? this.#server.close : NetServer.prototype.close
    const closed = new Promise((resolve) => close.call(this.#server, resolve))
    // Not earlier: a client that is told `Connection: close` connects again.
    for (const { latest } of this.#connections.values()) {
      if (latest?.res.headersSent === false) latest.res.shouldKeepAlive = false
    }
    const timer = setTimeout(() => this.#cutOffAll(), drain)
    const idleChecks = this.#closeIdleOnceQuiet()
    await closed
    clearTimeout(timer)
    clearInterval(idleChecks)
    this.#server.close() // ends node's checks of the timeouts
    return this.#cutOff
  }

  /** Accepts the connections in the listener's backlog, which closing it would reset. */
  async #acceptBacklog(): Promise<void> {
    await immediate() // from here on, each turn accepts one
    let before = -1
    for (let turn = 0; turn < MAX_TURNS && this.#accepted !== before; turn++) {
      before = this.#accepted
      await immediate()
    }
  }

  /**
   * Closes idle connections once no request has come for a while. A proxy that has not noticed
   * the stop may be sending on any of them, and would lose its request. Every late request gets
   * `Connection: close`, so this terminates.
   */
  #closeIdleOnceQuiet(): NodeJS.Timeout {
    this.#isQuiet = true
    const check = () => {
      for (const { socket, isIdle } of this.#connections.values()) {
        if (isIdle && this.#isQuiet) this.#linger(socket)
      }
      this.#isQuiet = true
    }
    // An immediate runs after pending reads.
    return setInterval(() => setImmediate(check), this.#limits.drainInterval)
  }

  #cutOffAll(): void {
    for (const { socket, isIdle, running, waiting } of this.#connections.values()) {
      if (!isIdle) this.#cutOff += 1 + waiting.size
      for (const exchange of [running, ...waiting]) exchange?.abandon()
      socket.destroy()
    }
  }

  #accept(socket: Socket): void {
    this.#accepted++
    this.#connections.add(socket)
    // node destroys the socket once the last response is written. If the client is still sending,
    // the kernel then resets the connection, and the client loses that response (RFC 9112 §9.6).
    socket.destroySoon = () => this.#linger(socket)
  }

  #receive(req: IncomingMessage, res: ServerResponse): void {
    this.#isQuiet = false
    const connection = this.#connections.get(req.socket)
    if (connection === undefined || connection.isEnding) return void req.resume()
    if (!this.#server.listening) res.shouldKeepAlive = false
    const exchange = new Exchange(this.#service, req, res, connection)
    const before = connection.latest
    connection.begin(exchange)
    if (before?.isInFlight) this.#processAfter(before, exchange, connection)
    else connection.run(exchange)
  }

  /**
   * Processes a pipelined request after the one before it, which may change what this one sees
   * (RFC 9112 §9.3.2).
   */
  #processAfter(before: Exchange, exchange: Exchange, connection: Connection): void {
    connection.startWaiting(exchange)
    if (connection.waiting.size > this.#limits.pipelined) return void connection.socket.destroy()
    const run = () => {
      connection.stopWaiting(exchange)
      if (connection.socket.writable && !exchange.res.headersSent) connection.run(exchange)
    }
    // One in each turn of the event loop, so that a pipeline holds up nobody else.
    before.res.once('close', () => setImmediate(run))
  }

  /** Responds to CONNECT, after which node no longer reads the socket or watches its time-out. */
  #refuseTunnel(req: IncomingMessage, stream: Duplex): void {
    const { socket } = req // the stream may be another one
    stream.on('error', () => {}).resume()
    socket.setTimeout(this.#limits.stallTimeout, () => socket.resetAndDestroy())
    this.#fail(socket, malformedProblem(req) ?? 'methodNotAllowed', this.#service.router.allow)
  }

  /** Called when nothing was read or written for the stall timeout. */
  #onStall(socket: Socket): void {
    const { latest, waiting } = this.#connections.get(socket) ?? {}
    if (socket.writableLength > 0) return void socket.resetAndDestroy() // frees the kernel's buffer
    if (waiting !== undefined && waiting.size > 0) return // we have paused the socket ourselves
    if (latest === undefined || latest.res.headersSent) return void socket.destroy()
    if (!latest.req.complete) this.#fail(socket, 'requestTimeout', '')
  }

  /** Responds to a malformed or late request, in pipeline order, and closes the connection. */
  #fail(stream: Duplex, problem: Problem | undefined, detail: string): void {
    const connection = this.#connections.get(stream)
    if (connection === undefined || problem === undefined) return void stream.destroy()
    const { latest } = connection
    const hasLastResponse = latest?.res.headersSent && !latest.res.shouldKeepAlive
    if (connection.hasFailed || hasLastResponse) return
    connection.hasFailed = true
    const reply = this.#service.refuse(problem, detail)
    if (latest === undefined || latest.req.complete) this.#respondAfterLatest(connection, reply)
    else if (!latest.res.headersSent) latest.sendLast(reply)
    else this.#linger(stream) // in the body of a request that has its response
  }

  /** Responds to the failed request after the latest one. */
  #respondAfterLatest({ socket, remote, latest }: Connection, reply: Reply): void {
    const end = () => {
      if (socket.writable) {
        const bytes = contentLengthOf(reply)
        socket.write(responseText(reply, bytes, 'Connection: close\r\n'), 'latin1')
        this.#service.record?.({ reply, ms: 0, bytes, remote })
      }
      this.#linger(socket)
    }
    if (latest?.isInFlight) latest.res.once('close', end)
    else end()
  }

  /** Ends our side of a connection; drains the other until the client ends it or the time is up. */
  #linger(socket: Duplex): void {
    socket.end()
    const timer = setTimeout(() => socket.destroy(), this.#limits.linger).unref()
    socket.once('close', () => clearTimeout(timer))
  }
}

/** The host of a URL by which this machine reaches a server on an address. */
export function hostInUrl(address: string): string {
  const host = address.replace(/^0\.0\.0\.0$/, '127.0.0.1').replace(/^::$/, '::1')
  return host.includes(':') ? `[${host}]` : host
}

/** Whether only this machine reaches a URL as it is bound. */
export function isLoopback(url: string): boolean {
  return /^http:\/\/(?:\[::ffff:)?(?:127\.|\[::1\])/.test(url)
}
