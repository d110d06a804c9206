import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { Server as NetServer, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { setImmediate as turn } from 'node:timers/promises'
import type { Service } from './dispatch.ts'
import { Exchange } from './exchange.ts'
import { LIMITS } from './limits.ts'
import { malformedProblem, type ParseError, problemOf } from './malformed.ts'
import { contentLengthOf, type Problem } from './reply.ts'
import { responseText } from './respond.ts'

// prettier-ignore
const REASONS = new Map(Object.entries({
  EADDRINUSE: 'the port is in use', EADDRNOTAVAIL: 'this machine does not have the address',
  EACCES: 'this user may not listen on the port', ENOTFOUND: 'the host name is unknown',
}))

interface ConnectionOptions {
  maxConnections: number
  keepAlive: number // seconds that an idle connection is kept
  warn: (what: string) => void // receives what happened to a connection that could not be kept
}

interface Connection {
  readonly socket: Socket
  latest?: Exchange
  waiting: number // requests that wait for the responses before theirs
  failed: boolean // something on it could not be read as a request: nothing behind that is
  bytesRead: number // at its latest response; if there are more now, a request has begun
}

/** The node:http server: reads requests within {@link LIMITS} and closes connections without losing responses. */
export class HttpServer {
  readonly #service: Service
  readonly #server: Server
  readonly #limits = { ...LIMITS }
  readonly options: ConnectionOptions
  readonly #open = new Map<Duplex, Connection>() // in the order of their latest responses
  #isQuiet = false // nothing came since `stop` last looked: no connection while it listens, no request after that
  #cutOff = 0

  constructor(service: Service, options: ConnectionOptions) {
    const { headerBytes, headers, headersTimeout, requestTimeout, stallTimeout, checkInterval } = this.#limits
    this.#service = service
    this.options = options
    const keepAliveTimeout = options.keepAlive * 1000
    const times = { headersTimeout, requestTimeout, keepAliveTimeout, connectionsCheckingInterval: checkInterval }
    // node's own response to a request without Host has no body; ours is an Error.
    this.#server = createServer({ ...times, maxHeaderSize: headerBytes, requireHostHeader: false })
    this.#server.maxHeadersCount = headers + 1 // node drops those beyond, and that one is refused
    this.#server.timeout = stallTimeout
    this.#server.on('connection', (socket) => {
      this.#isQuiet = false
      this.#add(socket)
      // node destroys the socket once the last response is written. If the client is still sending, the kernel resets the
      // connection then, and the client loses that response (RFC 9112 §9.6).
      socket.destroySoon = () => this.#linger(socket)
    })
    this.#server.on('request', (req, res) => this.#receive(req, res, false))
    this.#server.on('checkContinue', (req, res) => this.#receive(req, res, true))
    this.#server.on('checkExpectation', (req, res) => this.#receive(req, res, true))
    this.#server.on('timeout', (socket) => {
      const latest = this.#open.get(socket)?.latest
      const isWaitingForUs = latest?.isInFlight && latest.req.complete && !latest.res.headersSent
      // A reset also frees what the system holds for a client that does not read.
      if (socket.writableLength > 0) socket.resetAndDestroy()
      else if (!isWaitingForUs) socket.destroy()
    })
    this.#server.on('clientError', (error: ParseError, socket) => {
      this.#fail(socket, problemOf(error), error.reason ?? error.message)
    })
    this.#server.on('connect', (req, socket) => {
      socket.on('error', () => socket.destroy()).resume()
      this.#fail(socket, malformedProblem(req) ?? 'methodNotAllowed', service.router.allow)
    })
  }

  /** Listens; resolves to URLs of its root, one that reaches it and one as it is bound. Rejects with the system's code. */
  async listen(port: number, host: string): Promise<{ url: string; bound: string }> {
    const server = this.#server.listen(port, host)
    await once(server, 'listening').catch(({ code = '', message }: NodeJS.ErrnoException) => {
      throw Object.assign(new Error(`Cannot listen on ${host}:${port}: ${REASONS.get(code) ?? message}`), { code })
    })
    server.on('error', ({ message }) => this.options.warn(`connections that the system refused (${message})`))
    const bound = server.address()
    if (typeof bound !== 'object' || bound === null) throw new Error('The server is closed')
    const own = bound.family === 'IPv6' ? `[${bound.address}]` : bound.address
    return { url: `http://${hostInUrl(bound.address)}:${bound.port}`, bound: `http://${own}:${bound.port}` }
  }

  // Stops listening, closes idle connections and lets requests in flight finish for `drain` milliseconds. Resolves to how
  // many were cut off. A second call can shorten the wait.
  async stop(drain: number): Promise<number> {
    // Closing the listener resets connections in its backlog, so accept them first: until a turn of the event loop brings
    // none. No response says `Connection: close` before that, because each one that does calls for a new connection.
    for (let turns = 0; turns < 1_000 && !this.#isQuiet; turns++) {
      this.#isQuiet = turns > 0 // in the first turn no connection may have been looked for
      await turn()
    }
    // net's close: http's destroys connections whose response is still on its way to a slow reader. Bun has only that.
    const close: NetServer['close'] = 'bun' in process.versions ? this.#server.close : NetServer.prototype.close
    const closed = new Promise((resolve) => close.call(this.#server, resolve))
    for (const { latest } of this.#open.values())
      if (latest?.res.headersSent === false) latest.res.shouldKeepAlive = false
    const cutOffRest = () => {
      for (const { socket, latest, waiting } of this.#open.values()) {
        if (latest?.isInFlight) this.#cutOff += 1 + waiting
        socket.destroy()
      }
    }
    const timer = setTimeout(cutOffRest, Math.min(drain, 2 ** 31 - 1)) // a timer's maximum
    // A proxy that has not noticed the drain may be sending on any idle connection, and a request that meets a closed one
    // is lost. So they close once requests have stopped coming. Each is answered as its connection's last: there is an end.
    const look = () => {
      if (!this.#isQuiet) return void (this.#isQuiet = true)
      for (const { socket, latest } of this.#open.values()) if (!latest?.isInFlight) this.#linger(socket)
    }
    const looks = setInterval(() => setImmediate(look), this.#limits.drainInterval) // after what has arrived is read
    await closed
    clearTimeout(timer)
    clearInterval(looks)
    this.#server.close() // ends node's checks of the timeouts
    return this.#cutOff
  }

  /** Adds a connection, and closes the longest idle one if there are too many; if none is idle, the new one. */
  #add(socket: Socket): void {
    const { maxConnections, warn } = this.options
    if (this.#open.size >= maxConnections) {
      const all = [...this.#open.values()]
      const idle = all.find(({ latest, socket, bytesRead }) => !latest?.isInFlight && socket.bytesRead === bytesRead)
      if (idle === undefined) warn(`new connections closed, for all ${maxConnections} are in use`)
      else warn(`idle connections closed to make room, for ${maxConnections} are open`)
      const closed = idle?.socket ?? socket
      this.#open.delete(closed)
      closed.destroy()
      if (idle === undefined) return
    }
    this.#open.set(socket, { socket, waiting: 0, failed: false, bytesRead: 0 })
    socket.once('close', () => this.#open.delete(socket))
  }

  // Called after a response. One that has to wait for its client may be too much: then the connections whose responses
  // have waited the longest are reset, until the others are within their limit.
  onResponse(socket: Socket): void {
    const connection = this.#open.get(socket)
    if (connection === undefined) return
    connection.bytesRead = socket.bytesRead
    this.#open.delete(socket)
    this.#open.set(socket, connection)
    if (socket.writableLength === 0) return
    let unread = 0
    for (const { socket } of this.#open.values()) unread += socket.writableLength
    for (const { socket } of this.#open.values()) {
      if (unread <= this.#limits.unreadBytes || socket === connection.socket) return
      unread -= socket.writableLength
      if (socket.writableLength > 0) socket.resetAndDestroy()
    }
  }

  /** Ends our side; reads on until the client ends its own or the time is up. */
  #linger(socket: Duplex): void {
    if (socket.destroyed) return
    socket.end()
    const timer = setTimeout(() => socket.destroy(), this.#limits.linger)
    socket.once('close', () => clearTimeout(timer))
  }

  #receive(req: IncomingMessage, res: ServerResponse, isExpecting: boolean): void {
    const connection = this.#open.get(req.socket)
    const before = connection?.latest
    // Behind the connection's last response: what still comes is read and dropped, so that the client gets to reading.
    const isBehindLast = before?.res.shouldKeepAlive === false || !req.socket.writable
    if (connection === undefined || isBehindLast) return void req.resume()
    const exchange = new Exchange(this.#service, req, res, this)
    if (!this.#server.listening) res.shouldKeepAlive = this.#isQuiet = false
    connection.latest = exchange
    if (!before?.isInFlight) return exchange.process(isExpecting)
    // Pipelined: the request before may change what this one sees (RFC 9112 §9.3.2), or its client may not be reading.
    if (++connection.waiting > this.#limits.pipelined) return void req.socket.destroy()
    before.res.once('close', () => {
      connection.waiting--
      if (req.socket.writable && !res.headersSent) exchange.process(isExpecting)
    })
  }

  /** Answers what could not be read as a request, or not in time, in its place behind the responses before it. */
  #fail(stream: Duplex, problem: Problem | undefined, detail: string): void {
    const connection = this.#open.get(stream)
    if (connection === undefined || problem === undefined) return void stream.destroy()
    const { socket, latest } = connection
    if (connection.failed || (latest?.res.headersSent && !latest.res.shouldKeepAlive)) return
    connection.failed = true
    const reply = this.#service.refuse(problem, detail)
    const isInBody = latest !== undefined && !latest.req.complete
    if (isInBody && !latest.res.headersSent) return latest.send(reply, true)
    // A request that was refused before its body has its response: nothing is said of that body.
    const end = () => {
      if (socket.writable && !isInBody) {
        const bytes = contentLengthOf(reply)
        socket.write(responseText(reply, bytes, [], 'Connection: close\r\n'), 'latin1')
        this.#service.record?.({ status: reply.status, ms: 0, bytes, remote: socket.remoteAddress })
      }
      this.#linger(socket)
    }
    if (latest?.isInFlight) latest.res.once('close', end)
    else end()
  }
}

/** The host of a URL by which this machine reaches a server on an address. */
export function hostInUrl(address: string): string {
  const host = address.replace(/^0\.0\.0\.0$/, '127.0.0.1').replace(/^::$/, '::1')
  return host.includes(':') ? `[${host}]` : host
}
