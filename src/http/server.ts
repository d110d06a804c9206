import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { Server as NetServer, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { setImmediate as turn } from 'node:timers/promises'
import type { Service } from './dispatch.ts'
import { Exchange, type ServerHooks } from './exchange.ts'
import { LIMITS } from './limits.ts'
import { malformedProblem, problemOf } from './malformed.ts'
import { contentLengthOf, type Reply } from './reply.ts'
import { responseText } from './respond.ts'

export interface HttpServerOptions {
  service: Service
  maxConnections: number
  /** Seconds that an idle connection is kept. */
  keepAlive: number
}

interface Connection {
  readonly socket: Socket
  latest?: Exchange
  /** Requests that wait for the responses before theirs. */
  waiting: number
  /** Something on it could not be read as a request: nothing behind that is. */
  failed: boolean
}

/** The node:http server: reads requests within {@link LIMITS} and closes connections without losing responses. */
export class HttpServer {
  readonly #service: Service
  readonly #server: Server
  readonly #limits = { ...LIMITS }
  readonly #connections = new Map<Duplex, Connection>()
  readonly #hooks: ServerHooks
  #isDraining = false
  #opened = 0
  #received = 0
  #cutOff = 0

  constructor(options: HttpServerOptions) {
    const { service, maxConnections, keepAlive } = options
    const { headerBytes, headersTimeout, requestTimeout, stallTimeout, checkInterval } = this.#limits
    this.#service = service
    this.#hooks = { keepAlive, onLongResponse: (socket) => this.#limitUnread(socket) }
    this.#server = createServer({
      maxHeaderSize: headerBytes,
      headersTimeout,
      requestTimeout,
      connectionsCheckingInterval: checkInterval,
      keepAliveTimeout: keepAlive * 1000,
      requireHostHeader: false, // node's own 400 has no body; ours is an Error
    })
    this.#server.maxHeadersCount = 0 // a count would silently drop the rest
    this.#server.maxConnections = maxConnections
    this.#server.timeout = stallTimeout
    this.#server.on('connection', (socket) => this.#open(socket))
    this.#server.on('request', (req, res) => this.#receive(req, res, false))
    this.#server.on('checkContinue', (req, res) => this.#receive(req, res, true))
    this.#server.on('checkExpectation', (req, res) => this.#receive(req, res, true))
    this.#server.on('timeout', (socket) => this.#onTimeout(socket))
    this.#server.on('clientError', (error, socket) => this.#onClientError(error, socket))
    this.#server.on('connect', (req, socket) => {
      socket.on('error', () => socket.destroy()).resume()
      this.#fail(socket, service.refuse(malformedProblem(req) ?? 'methodNotAllowed', service.router.allow))
    })
  }

  /** Listens; resolves to the URL of the server's root. Rejects with the system's code. */
  listen(port: number, host: string): Promise<string> {
    return new Promise((resolve, reject) => {
      this.#server.on('error', ({ code, message }: NodeJS.ErrnoException) => {
        const reason = code === 'EADDRINUSE' ? 'the port is in use' : message
        reject(Object.assign(new Error(`Cannot listen on ${host}:${port}: ${reason}`), { code }))
      })
      this.#server.listen(port, host, () => {
        const address = this.#server.address()
        if (typeof address !== 'object' || address === null) return
        resolve(`http://${hostInUrl(address.address)}:${address.port}`)
      })
    })
  }

  /**
   * Stops listening, closes idle connections and lets requests in flight finish. A second call can shorten the wait.
   *
   * @param drain Milliseconds after which the remaining requests are cut off.
   * @returns How many were cut off.
   */
  async stop(drain: number): Promise<number> {
    // Closing the listener resets connections in its backlog, so accept them first: until a turn of the event loop brings none.
    // No response says `Connection: close` before that, because each one that does calls for a new connection.
    await turn()
    for (let turns = 0, opened = -1; turns < 1_000 && opened !== this.#opened; turns++) {
      opened = this.#opened
      await turn()
    }
    // net's close, because http's would destroy connections whose response is still on its way to a slow reader.
    const closed = new Promise((resolve) => NetServer.prototype.close.call(this.#server, resolve))
    this.#isDraining = true
    for (const { latest } of this.#connections.values()) {
      if (latest?.isInFlight && !latest.res.headersSent) latest.isLast = true
    }
    const timer = setTimeout(() => this.#cutOffRest(), Math.min(drain, 2 ** 31 - 1)) // a timer's maximum
    const closing = this.#closeIdle()
    await closed
    clearTimeout(timer)
    clearInterval(closing)
    this.#server.close() // ends node's checks of the timeouts
    return this.#cutOff
  }

  #cutOffRest(): void {
    for (const { socket, latest, waiting } of this.#connections.values()) {
      if (latest?.isInFlight) this.#cutOff += 1 + waiting
      socket.destroy()
    }
  }

  /**
   * Closes idle connections once requests have stopped coming. A proxy that has not noticed the drain may be sending on any of
   * them, and a request that meets a closed connection is lost.
   */
  #closeIdle(): NodeJS.Timeout {
    let looks = 0
    let received = this.#received
    const look = () => {
      const isQuiet = received === this.#received
      received = this.#received
      if (!isQuiet && looks++ < this.#limits.drainLooks) return
      for (const { socket, latest } of this.#connections.values()) {
        if (!latest?.isInFlight && !socket.writableEnded) this.#linger(socket)
      }
    }
    return setInterval(() => setImmediate(look), this.#limits.drainInterval) // what has arrived is read after the timers
  }

  #open(socket: Socket): void {
    this.#opened++
    this.#connections.set(socket, { socket, waiting: 0, failed: false })
    socket.once('close', () => this.#connections.delete(socket))
    // node destroys the socket once the last response is written. If the client is still sending, the kernel then resets the
    // connection and the client loses that response (RFC 9112 §9.6).
    socket.destroySoon = () => this.#linger(socket)
  }

  /** Ends our side; reads on until the client ends its own or the time is up. */
  #linger(socket: Duplex): void {
    if (socket.destroyed) return
    socket.end()
    const timer = setTimeout(() => socket.destroy(), this.#limits.linger)
    socket.once('close', () => clearTimeout(timer))
  }

  #onTimeout(socket: Socket): void {
    const latest = this.#connections.get(socket)?.latest
    const isWaitingForUs = latest?.isInFlight && latest.req.complete && !latest.res.headersSent
    // A reset also frees what the system holds for a client that does not read.
    if (socket.writableLength > 0) socket.resetAndDestroy()
    else if (!isWaitingForUs) socket.destroy()
  }

  /** Resets the connections whose responses have waited the longest to be read, until the others are within their limit. */
  #limitUnread(latest: Socket): void {
    const connections = this.#connections
    const connection = connections.get(latest)
    if (connection !== undefined && connections.delete(latest)) connections.set(latest, connection) // ordered by long responses
    let unread = 0
    for (const { socket } of connections.values()) unread += socket.writableLength
    for (const { socket } of connections.values()) {
      if (unread <= this.#limits.unreadBytes || socket === latest) return
      unread -= socket.writableLength
      if (socket.writableLength > 0) socket.resetAndDestroy()
    }
  }

  #receive(req: IncomingMessage, res: ServerResponse, isExpecting: boolean): void {
    const connection = this.#connections.get(req.socket)
    const before = connection?.latest
    // Behind the connection's last response: what still comes is read and dropped, so that the client gets to reading.
    if (connection === undefined || before?.isLast || req.socket.writableEnded) return void req.resume()
    const exchange = new Exchange(this.#service, req, res, this.#hooks)
    exchange.isLast = this.#isDraining
    this.#received++
    connection.latest = exchange
    if (!before?.isInFlight) return this.#process(exchange, isExpecting)
    // Pipelined: the request before may change what this one sees (RFC 9112 §9.3.2), or its client may not be reading.
    if (++connection.waiting > this.#limits.pipelined) return void req.socket.destroy()
    before.res.once('close', () => {
      connection.waiting--
      if (!before.isInFlight && !before.isLast && !res.headersSent) this.#process(exchange, isExpecting)
    })
  }

  #process(exchange: Exchange, isExpecting: boolean): void {
    const problem = malformedProblem(exchange.req)
    if (problem === undefined) exchange.process(isExpecting)
    else exchange.send(this.#service.refuse(problem), true)
  }

  #onClientError(error: NodeJS.ErrnoException & { reason?: string }, socket: Duplex): void {
    const problem = problemOf(error)
    if (problem === undefined) socket.destroy()
    else this.#fail(socket, this.#service.refuse(problem, error.reason ?? error.message))
  }

  /** Answers what could not be read as a request, or not in time, in its place behind the responses before it. */
  #fail(stream: Duplex, reply: Reply): void {
    const connection = this.#connections.get(stream)
    if (connection === undefined) return void stream.destroy()
    const { socket, latest } = connection
    if (connection.failed || (latest?.isLast && latest.res.headersSent)) return
    connection.failed = true
    if (latest === undefined || latest.req.complete) {
      afterResponse(latest, () => this.#sendRaw(socket, reply))
    } else if (latest.res.headersSent) {
      afterResponse(latest, () => this.#linger(socket)) // refused before its body, which now proves broken or late
    } else {
      latest.send(reply, true)
    }
  }

  #sendRaw(socket: Socket, reply: Reply): void {
    if (!socket.writable) return
    const bytes = contentLengthOf(reply)
    socket.write(responseText(reply, bytes, [], 'Connection: close\r\n'), 'latin1')
    this.#linger(socket)
    this.#service.record?.({ status: reply.status, ms: 0, bytes, remote: socket.remoteAddress })
  }
}

/** Calls back once the responses on a connection, of which this is the latest, have left the process. */
function afterResponse(latest: Exchange | undefined, then: () => void): void {
  if (latest?.isInFlight) latest.res.once('close', then)
  else then()
}

/** The host of a URL by which this machine reaches a server on an address. */
export function hostInUrl(address: string): string {
  if (address === '0.0.0.0') return '127.0.0.1'
  if (address === '::') return '[::1]'
  return address.includes(':') ? `[${address}]` : address
}
