import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { http, net, timers } from '../builtins.ts'
import { methodNotAllowed } from './dispatch.ts'
import { Exchange, type Owner, type Service } from './exchange.ts'
import { Held } from './held.ts'
import type { Limits } from './limits.ts'
import { failureReply, malformedReply } from './malformed.ts'
import { rawAnswer, textOf } from './raw.ts'
import { type ErrorReply, lengthOf } from './reply.ts'

const { setImmediate: turn } = timers // taken at once: a test's fake timers come later

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
  /** What was the latest when the server last looked for answers that stall. */
  seen: Exchange | undefined
  /** Something on it could not be read as a request: nothing after that is. */
  failed: boolean
  /** Requests that wait for the answers before theirs. */
  waiting: number
}

const MAX_TURNS = 1_000
// The longest time that a timer takes, in milliseconds.
const MAX_DELAY = 2 ** 31 - 1

/** The node:http server: it reads requests within its limits, sends replies, and ends connections without losing answers. */
export class HttpServer {
  readonly #options: HttpServerOptions
  readonly #server: Server
  readonly #connections = new Map<Duplex, Connection>()
  readonly #owner: Owner
  #looksForStalls: NodeJS.Timeout | undefined
  #draining = false
  #cut = 0
  /** How many connections have come, and how many requests. */
  #opened = 0
  #received = 0
  /** How many requests had come at the drain's last look. */
  #lookedAt = 0
  #looks = 0

  constructor(options: HttpServerOptions) {
    const { limits, keepAlive, maxConnections } = options
    this.#options = options
    const held = new Held(limits.held)
    const keepAliveLines = textOf(['Connection', 'keep-alive', 'Keep-Alive', `timeout=${Math.floor(keepAlive / 1000)}`])
    this.#owner = { keepAliveLines, hold: (exchange) => held.add(exchange) }
    this.#server = http.createServer({
      maxHeaderSize: limits.headerBytes,
      headersTimeout: limits.headersTimeout,
      requestTimeout: limits.requestTimeout,
      connectionsCheckingInterval: limits.checkInterval,
      keepAliveTimeout: keepAlive,
      // node's own answer to a missing Host has no body; ours is an Error.
      requireHostHeader: false,
    })
    this.#server.maxHeadersCount = 0 // headerBytes bounds them; a count would drop the rest silently
    this.#server.maxConnections = maxConnections
    this.#server.on('connection', (socket) => this.#open(socket))
    this.#server.on('request', (req, res) => this.#receive(req, res, false))
    this.#server.on('checkContinue', (req, res) => this.#receive(req, res, true))
    this.#server.on('checkExpectation', (req, res) => this.#receive(req, res, true))
    this.#server.on('timeout', (socket) => {
      const latest = this.#connections.get(socket)?.latest
      const isOurs = isInFlight(latest) && latest.req.complete && !latest.res.headersSent
      if (isOurs && socket.writableLength === 0) return // it is we who take our time
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
        this.#looksForStalls = setInterval(() => this.#timeStalls(), this.#options.limits.checkInterval).unref()
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
    // The connections that the kernel has accepted come in first, for closing resets them: until a whole turn of the loop has
    // brought none. Until then no answer says `Connection: close`, for each that does calls for a new connection.
    await turn()
    for (let turns = 0, opened = -1; turns < MAX_TURNS && opened !== this.#opened; turns++) {
      opened = this.#opened
      await turn()
    }
    // net's close and not http's: that one destroys connections whose answer is still on its way to a slow reader.
    const closed = new Promise((resolve) => net.Server.prototype.close.call(this.#server, resolve))
    this.#draining = true
    for (const { latest } of this.#connections.values()) {
      if (isInFlight(latest) && !latest.res.headersSent) latest.isLast = true
    }
    const timer = setTimeout(
      () => {
        for (const { socket, latest, waiting } of this.#connections.values()) {
          if (isInFlight(latest)) this.#cut += 1 + waiting
          socket.destroy()
        }
      },
      Math.min(drain, MAX_DELAY),
    )
    this.#lookedAt = this.#received
    const looks = setInterval(() => void this.#endIdle(), this.#options.limits.drainGrace)
    await closed
    clearTimeout(timer)
    clearInterval(looks)
    clearInterval(this.#looksForStalls)
    this.#server.close() // http's own after all, to end the checks of the time-outs
    return this.#cut
  }

  /**
   * Ends idle connections, but not while requests still come: a proxy that has not yet heard of the end may be sending on any
   * of them, and a request that meets a closed connection is lost. Each that comes is the last one of its connection.
   */
  async #endIdle(): Promise<void> {
    await turn() // what has arrived is read only behind the timers
    const isQuiet = this.#lookedAt === this.#received
    this.#lookedAt = this.#received
    if (!isQuiet && this.#looks++ < this.#options.limits.drainLooks) return
    for (const { socket, latest } of this.#connections.values()) {
      if (!isInFlight(latest) && !socket.writableEnded) this.#linger(socket)
    }
  }

  /** Times the exchanges that were here at the last look. By node's `server.timeout` every request would cost 0.3 µs more. */
  #timeStalls(): void {
    for (const connection of this.#connections.values()) {
      const { socket, latest, seen } = connection
      if (isInFlight(latest) && latest === seen && !socket.timeout) socket.setTimeout(this.#options.limits.stallTimeout)
      connection.seen = latest
    }
  }

  #open(socket: Socket): void {
    this.#opened++
    const connection: Connection = { socket, latest: undefined, seen: undefined, failed: false, waiting: 0 }
    this.#connections.set(socket, connection)
    socket.setTimeout(this.#options.limits.stallTimeout) // until the first answer has left
    socket.once('close', () => {
      this.#connections.delete(socket)
      connection.latest?.leave() // once for a connection: a listener for each request costs 1 % of one that creates
    })
    // After `Connection: close` node destroys the socket as soon as the answer is written. If the client is still sending,
    // the kernel then resets the connection and the client loses the answer (RFC 9112 §9.6).
    socket.destroySoon = () => this.#linger(socket)
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
    exchange.owner = this.#owner // no closure of this call: it would keep all requests of a connection, each the one before
    exchange.isLast = this.#draining
    this.#received++
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

  /** Answers what node could not read as a request, or not in time, in its place behind the answers before it. */
  #fail(stream: Duplex, reply: ErrorReply | undefined): void {
    const connection = this.#connections.get(stream)
    if (connection === undefined || reply === undefined) return void stream.destroy()
    const { socket, latest } = connection
    if (connection.failed || (latest?.isLast && latest.res.headersSent)) return
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
    const bytes = lengthOf(reply)
    const time = Date.now()
    socket.write(rawAnswer(reply, bytes, 'Connection: close\r\n', time), 'latin1')
    this.#linger(socket)
    this.#options.service.record?.({ status: reply.status, time, ms: 0, bytes, remote: socket.remoteAddress })
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
