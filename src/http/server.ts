import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { Server as NetServer, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { setImmediate as turn } from 'node:timers/promises'
import { methodNotAllowed } from './dispatch.ts'
import { Exchange, type Service } from './exchange.ts'
import type { Limits } from './limits.ts'
import { failureReply, malformedReply, rawAnswer } from './malformed.ts'
import type { ErrorReply } from './reply.ts'

/** What an {@link HttpServer} is made of. */
export interface HttpServerOptions {
  service: Service
  /** Methods of all resources, for the `Allow` of a refused CONNECT. */
  allow: string
  /** Connections beyond these are closed at once. */
  maxConnections: number
  /** Milliseconds that an idle connection is kept. */
  keepAlive: number
  limits: Limits
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
  /** Bytes of answers that the system has not taken, the oldest first. */
  readonly #held = new Map<Exchange, number>()
  #heldBytes = 0
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
    this.#server.on('timeout', (socket) => {
      const latest = this.#connections.get(socket)?.latest
      if (isInFlight(latest) && latest.req.complete && !latest.res.headersSent) return // it is we who take our time
      // A reset frees what the system holds for a client that does not read, too.
      if (socket.writableLength > 0) socket.resetAndDestroy()
      else socket.destroy()
    })
    this.#server.on('clientError', (error, socket) => this.#fail(socket, failureReply(error)))
    this.#server.on('connect', (req, socket) => {
      socket.on('error', () => socket.destroy()).resume()
      this.#fail(socket, malformedReply(req) ?? methodNotAllowed(options.allow))
    })
  }

  /** Listens, and tells the URL of the server's root. Rejects, with the system's code, where that cannot be. */
  listen(port: number, host: string): Promise<string> {
    return new Promise((resolve, reject) => {
      // What fails later, the taking of a connection, is for its client to try again.
      this.#server.on('error', ({ code, message }: NodeJS.ErrnoException) => {
        const why = code === 'EADDRINUSE' ? 'the port is in use' : message
        reject(Object.assign(new Error(`Cannot listen on ${host}:${port}: ${why}`), { code }))
      })
      this.#server.listen(port, host, () => {
        const address = this.#server.address()
        if (typeof address === 'object' && address !== null)
          resolve(`http://${hostInUrl(address.address)}:${address.port}`)
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
    for (const connection of this.#connections.values()) this.#drain(connection)
    await turn() // connections that the kernel has accepted come in: closing would reset them
    // net's close and not http's: that one destroys connections whose answer is still on its way to a slow reader.
    const closed = new Promise((resolve) => NetServer.prototype.close.call(this.#server, resolve))
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
    const connection: Connection = { socket, latest: undefined, failed: false, waiting: 0 }
    this.#connections.set(socket, connection)
    socket.once('close', () => this.#connections.delete(socket))
    // After `Connection: close` node destroys the socket as soon as the answer is written. If the client is still sending,
    // the kernel then resets the connection and the client loses the answer (RFC 9112 §9.6).
    socket.destroySoon = () => this.#linger(socket)
    if (this.#draining) this.#drain(connection)
  }

  /** Ends a connection behind the answer in flight. An idle one gives a request that is on its way to it time to arrive. */
  #drain(connection: Connection): void {
    const { socket, latest } = connection
    if (isInFlight(latest)) {
      latest.isLast = true
      return afterAnswer(latest, () => this.#linger(socket))
    }
    const timer = setTimeout(() => {
      if (connection.latest === latest) this.#linger(socket)
    }, this.#options.limits.drainGrace)
    socket.once('close', () => clearTimeout(timer))
  }

  /** Ends our side, and reads on until the client ends its own or the time is over. */
  #linger(socket: Duplex): void {
    if (socket.destroyed) return
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
    const exchange = new Exchange(this.#options.service, req, res)
    exchange.isLast = this.#draining
    exchange.onHeld = () => this.#hold(exchange)
    connection.latest = exchange
    if (!isInFlight(before)) return process(exchange, isExpecting)
    // Pipelined behind a request that may yet change what this one sees (RFC 9112 §9.3.2), or whose answer nobody reads:
    // node stops reading only for answers that it holds, so what waits must be bounded here.
    if (++connection.waiting > this.#options.limits.pipelined) return void req.socket.destroy()
    before.res.once('close', () => {
      connection.waiting--
      if (before.res.writableFinished && !before.isLast && !res.headersSent) process(exchange, isExpecting)
    })
  }

  /** Bounds what is held for clients that do not read: the one that has kept it waiting the longest makes room. */
  #hold(exchange: Exchange): void {
    const bytes = exchange.req.socket.writableLength
    this.#held.set(exchange, bytes)
    this.#heldBytes += bytes
    exchange.res.once('close', () => this.#release(exchange))
    for (const oldest of this.#held.keys()) {
      if (this.#heldBytes <= this.#options.limits.held || oldest === exchange) return
      this.#release(oldest)
      oldest.req.socket.resetAndDestroy()
    }
  }

  #release(exchange: Exchange): void {
    this.#heldBytes -= this.#held.get(exchange) ?? 0
    this.#held.delete(exchange)
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
      latest.send(reply, true)
    }
  }

  #sendRaw(socket: Socket, reply: ErrorReply): void {
    if (!socket.writable) return
    socket.write(rawAnswer(reply))
    this.#linger(socket)
    const bytes = Buffer.byteLength(reply.body)
    this.#options.service.record?.({ status: reply.status, ms: 0, bytes, remote: socket.remoteAddress })
  }
}

/** Leads a request that HTTP allows to its answer. */
function process(exchange: Exchange, isExpecting: boolean): void {
  const malformed = malformedReply(exchange.req)
  if (malformed === undefined) exchange.process(isExpecting)
  else exchange.send(malformed, true)
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

/** An address that a server listens on, as the host of a URL by which this machine reaches it. */
export function hostInUrl(address: string): string {
  if (address === '0.0.0.0') return '127.0.0.1'
  if (address === '::') return '[::1]'
  return address.includes(':') ? `[${address}]` : address
}
