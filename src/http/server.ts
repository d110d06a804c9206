import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { Server as NetServer, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { setImmediate as turn } from 'node:timers/promises'
import { type ConnectionOptions, Connections } from './connections.ts'
import type { Service } from './dispatch.ts'
import { Exchange } from './exchange.ts'
import { LIMITS } from './limits.ts'
import { malformedProblem, type ParseError, problemOf } from './malformed.ts'
import { contentLengthOf, type Problem, type Reply } from './reply.ts'
import { responseText } from './respond.ts'

// prettier-ignore
const REASONS = new Map(Object.entries({
  EADDRINUSE: 'the port is in use', EADDRNOTAVAIL: 'this machine does not have the address',
  EACCES: 'this user may not listen on the port', ENOTFOUND: 'the host name is unknown',
}))

/** The node:http server: reads requests within {@link LIMITS} and closes connections without losing responses. */
export class HttpServer {
  readonly #service: Service
  readonly #server: Server
  readonly #limits = { ...LIMITS }
  readonly #connections: Connections
  #opened = 0
  #isQuiet = true
  #cutOff = 0

  constructor(service: Service, options: ConnectionOptions) {
    const { headerBytes, headers, headersTimeout, requestTimeout, stallTimeout, checkInterval } = this.#limits
    this.#service = service
    this.#connections = new Connections(options)
    this.#server = createServer({
      maxHeaderSize: headerBytes,
      headersTimeout,
      requestTimeout,
      connectionsCheckingInterval: checkInterval,
      keepAliveTimeout: options.keepAlive * 1000,
      requireHostHeader: false, // node's own 400 has no body; ours is an Error
    })
    this.#server.maxHeadersCount = headers + 1 // node drops those beyond, and that one is refused
    this.#server.timeout = stallTimeout
    this.#server.on('connection', (socket) => {
      this.#opened++
      this.#connections.add(socket)
      // node destroys the socket once the last response is written. If the client is still sending, the kernel then resets
      // the connection and the client loses that response (RFC 9112 §9.6).
      socket.destroySoon = () => this.#linger(socket)
    })
    this.#server.on('request', (req, res) => this.#receive(req, res, false))
    this.#server.on('checkContinue', (req, res) => this.#receive(req, res, true))
    this.#server.on('checkExpectation', (req, res) => this.#receive(req, res, true))
    this.#server.on('timeout', (socket) => this.#onTimeout(socket))
    this.#server.on('clientError', (error: ParseError, socket) => {
      this.#fail(socket, problemOf(error), error.reason ?? error.message)
    })
    this.#server.on('connect', (req, socket) => {
      socket.on('error', () => socket.destroy()).resume()
      this.#fail(socket, malformedProblem(req) ?? 'methodNotAllowed', service.router.allow)
    })
  }

  /** Listens; resolves to URLs of the server's root: one that reaches it, and one as it is bound. Rejects with the system's code. */
  async listen(port: number, host: string): Promise<{ url: string; bound: string }> {
    const server = this.#server.listen(port, host)
    await once(server, 'listening').catch(({ code = '', message }: NodeJS.ErrnoException) => {
      throw Object.assign(new Error(`Cannot listen on ${host}:${port}: ${REASONS.get(code) ?? message}`), { code })
    })
    const { warn } = this.#connections.options
    server.on('error', ({ message }) => warn(`connections that the system refused (${message})`))
    const bound = server.address()
    if (typeof bound !== 'object' || bound === null) throw new Error('The server is closed')
    const own = bound.family === 'IPv6' ? `[${bound.address}]` : bound.address
    return { url: `http://${hostInUrl(bound.address)}:${bound.port}`, bound: `http://${own}:${bound.port}` }
  }

  /**
   * Stops listening, closes idle connections and lets requests in flight finish for `drain` milliseconds. Returns how many
   * were cut off. A second call can shorten the wait.
   */
  async stop(drain: number): Promise<number> {
    // Closing the listener resets connections in its backlog, so accept them first: until a turn of the event loop brings none.
    // No response says `Connection: close` before that, because each one that does calls for a new connection.
    await turn()
    for (let turns = 0, opened = -1; turns < 1_000 && opened !== this.#opened; turns++) {
      opened = this.#opened
      await turn()
    }
    // net's close, because http's would destroy connections whose response is still on its way to a slow reader. Bun has only that.
    const close: NetServer['close'] = 'bun' in process.versions ? this.#server.close : NetServer.prototype.close
    const closed = new Promise((resolve) => close.call(this.#server, resolve))
    for (const { latest } of this.#connections.open.values()) {
      if (latest?.isInFlight && !latest.res.headersSent) latest.res.shouldKeepAlive = false
    }
    const cutOffRest = () => {
      for (const { socket, latest, waiting } of this.#connections.open.values()) {
        if (latest?.isInFlight) this.#cutOff += 1 + waiting
        socket.destroy()
      }
    }
    const timer = setTimeout(cutOffRest, Math.min(drain, 2 ** 31 - 1)) // a timer's maximum
    const closing = this.#closeIdle()
    await closed
    clearTimeout(timer)
    clearInterval(closing)
    this.#server.close() // ends node's checks of the timeouts
    return this.#cutOff
  }

  /**
   * Closes idle connections once requests have stopped coming. A proxy that has not noticed the drain may be sending on any of
   * them, and a request that meets a closed connection is lost. Each is answered as the connection's last, so there is an end.
   */
  #closeIdle(): NodeJS.Timeout {
    this.#isQuiet = true
    const look = () => {
      if (!this.#isQuiet) return void (this.#isQuiet = true)
      for (const { socket, latest } of this.#connections.open.values()) {
        if (!latest?.isInFlight && !socket.writableEnded) this.#linger(socket)
      }
    }
    return setInterval(() => setImmediate(look), this.#limits.drainInterval) // what has arrived is read after the timers
  }

  /** Ends our side; reads on until the client ends its own or the time is up. */
  #linger(socket: Duplex): void {
    if (socket.destroyed) return
    socket.end()
    const timer = setTimeout(() => socket.destroy(), this.#limits.linger)
    socket.once('close', () => clearTimeout(timer))
  }

  #onTimeout(socket: Socket): void {
    const latest = this.#connections.open.get(socket)?.latest
    const isWaitingForUs = latest?.isInFlight && latest.req.complete && !latest.res.headersSent
    // A reset also frees what the system holds for a client that does not read.
    if (socket.writableLength > 0) socket.resetAndDestroy()
    else if (!isWaitingForUs) socket.destroy()
  }

  #receive(req: IncomingMessage, res: ServerResponse, isExpecting: boolean): void {
    const connection = this.#connections.open.get(req.socket)
    const before = connection?.latest
    // Behind the connection's last response: what still comes is read and dropped, so that the client gets to reading.
    const isBehindLast = before?.res.shouldKeepAlive === false || !req.socket.writable
    if (connection === undefined || isBehindLast) return void req.resume()
    const exchange = new Exchange(this.#service, req, res, this.#connections)
    if (!this.#server.listening) res.shouldKeepAlive = false
    this.#isQuiet = false
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
    const connection = this.#connections.open.get(stream)
    if (connection === undefined || problem === undefined) return void stream.destroy()
    const { socket, latest } = connection
    if (connection.failed || (latest?.res.headersSent && !latest.res.shouldKeepAlive)) return
    connection.failed = true
    const reply = this.#service.refuse(problem, detail)
    const isInBody = latest !== undefined && !latest.req.complete
    if (isInBody && !latest.res.headersSent) return latest.send(reply, true)
    // A request that was refused before its body has its response: nothing is said of that body.
    const then = () => (isInBody ? this.#linger(socket) : this.#sendRaw(socket, reply))
    if (latest?.isInFlight) latest.res.once('close', then)
    else then()
  }

  #sendRaw(socket: Socket, reply: Reply): void {
    if (!socket.writable) return
    const bytes = contentLengthOf(reply)
    socket.write(responseText(reply, bytes, [], 'Connection: close\r\n'), 'latin1')
    this.#linger(socket)
    this.#service.record?.({ status: reply.status, ms: 0, bytes, remote: socket.remoteAddress })
  }
}

/** The host of a URL by which this machine reaches a server on an address. */
export function hostInUrl(address: string): string {
  if (address === '0.0.0.0') return '127.0.0.1'
  if (address === '::') return '[::1]'
  return address.includes(':') ? `[${address}]` : address
}
