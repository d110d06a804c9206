import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { Server as NetServer } from 'node:net'
import type { Duplex } from 'node:stream'
import { urlOf } from './addresses.ts'
import { emptyBacklog } from './backlog.ts'
import { clearInterval, clearTimeout, setImmediate, setInterval, setTimeout } from '../runtime.ts'
import type { Connection } from './connection.ts'
import { Connections } from './connections.ts'
import type { Service } from './dispatch.ts'
import { Exchange } from './exchange.ts'
import { requestClass } from './late-requests.ts'
import { MAX_HEADERS, type ServerOptions } from './limits.ts'
import { malformedProblem, problemOf } from './malformed.ts'
import { bytesOf, type Problem, type Reply, responseText } from './respond.ts'

/** What a server has open. */
export interface Load {
  readonly connections: number
  readonly requests: number // in flight, and those that wait for them
}

/** The node:http server: bounds what it reads, and closes connections without losing responses. */
export class HttpServer {
  readonly #service: Service
  readonly #options: ServerOptions
  readonly #server: Server
  readonly #connections: Connections
  #requestCount = 0 // in total
  #cutOff = 0 // requests

  constructor(service: Service, options: ServerOptions) {
    this.#service = service
    this.#options = options
    this.#connections = new Connections(options)
    this.#server = createServer({
      ...options, // node's own limits go by the same names
      requireHostHeader: false, // node's own response to a request without Host has no body
      IncomingMessage: requestClass(this.#connections),
    })
    // Node drops headers beyond this count. One to spare lets isHeadTooLarge() see the excess.
    this.#server.maxHeadersCount = MAX_HEADERS + 1
    this.#server.once('listening', this.#checkForStalls)
    this.#server.on('connection', (socket) => {
      this.#connections.add(socket)
      if (options.unref) socket.unref()
    })
    // The last two are for Expect: malformedProblem() admits 100-continue, Exchange sends the 100.
    for (const event of ['request', 'checkContinue', 'checkExpectation']) {
      this.#server.on(event, this.#receive)
    }
    this.#server.on('connect', this.#refuseTunnel)
    this.#server.on('clientError', (error: Error & { reason?: string }, socket) => {
      this.#refuse(socket, problemOf(error), error.reason ?? error.message)
    })
  }

  /** Resolves to the URL as bound, such as http://0.0.0.0:8080. Rejects with the system's code. */
  async listen(port: number, host: string): Promise<string> {
    const server = this.#server.listen({
      port,
      // Node takes no host for all addresses of IPv6 and IPv4, or of IPv4 where there is no IPv6.
      host: host === '::' ? undefined : host,
      backlog: this.#options.maxConnections, // the system has a limit of its own
      exclusive: port === 0, // else the workers of a cluster would share the port that it picks
    })
    await once(server, 'listening') // node's error names the address
    if (this.#options.unref) server.unref()
    server.on('error', ({ message }) => {
      this.#options.warn(`connections that the system refused (${message})`)
    })
    const bound = server.address()
    if (!bound || typeof bound === 'string') throw new Error('not listening')
    return urlOf(bound.address, bound.port)
  }

  /**
   * Stops listening, closes idle connections, and lets requests in flight finish for `drain`
   * milliseconds. A second call can shorten the wait. Returns how many requests were cut off.
   */
  async stop(drain: number): Promise<number> {
    await emptyBacklog(this.#server)
    // http's close() would also cut off clients that still read a response. Bun has no alternative.
    const close: NetServer['close'] =
      'bun' in process.versions ? this.#server.close : NetServer.prototype.close
    const closed = new Promise((resolve) => close.call(this.#server, resolve))
    // Only now: a client that is told `Connection: close` reconnects, which must not be reset.
    for (const { latest } of this.#connections.values()) {
      if (latest?.res.headersSent === false) latest.res.shouldKeepAlive = false
    }
    if (drain === 0) this.#cutOffAll() // a timer takes a millisecond at least
    const timer = setTimeout(() => this.#cutOffAll(), drain)
    // Idle connections stay while requests come: a proxy that has not noticed the stop may be about
    // to send on one. Every late request gets `Connection: close`, so this terminates.
    let countBefore = this.#requestCount
    const checkIdle = () => {
      if (this.#requestCount === countBefore) this.#closeIdle()
      countBefore = this.#requestCount
    }
    // In an immediate, which runs after pending reads: requests that have arrived are counted.
    const idleChecks = setInterval(() => setImmediate(checkIdle), this.#options.idleCheckInterval)
    await closed
    clearTimeout(timer)
    clearInterval(idleChecks)
    this.#server.close() // ends node's checks of the timeouts
    return this.#cutOff
  }

  get load(): Load {
    let requests = 0
    for (const { pending } of this.#connections.values()) requests += pending.length
    return { connections: this.#connections.size, requests }
  }

  #closeIdle(): void {
    for (const connection of this.#connections.values()) {
      if (connection.isIdle) connection.linger()
    }
  }

  #cutOffAll(): void {
    for (const connection of this.#connections.values()) {
      this.#cutOff += connection.pending.length
      connection.abandon()
      connection.socket.destroy()
    }
  }

  readonly #receive = (req: IncomingMessage, res: ServerResponse): void => {
    this.#requestCount++
    const connection = this.#connections.get(req.socket)
    // On Bun, a late request, which gets no response. Node disguises it: see requestClass().
    if (!connection || connection.isEnding) return void req.resume()
    if (!this.#server.listening) res.shouldKeepAlive = false
    connection.enqueue(new Exchange(this.#service, req, res, connection))
    const { maxPipelined, warn } = this.#options
    if (connection.pending.length <= 1 + maxPipelined) return
    connection.socket.destroy()
    warn(`connections closed, because more than ${maxPipelined} requests waited on one`)
  }

  /** Until the server is closed. */
  readonly #checkForStalls = (): void => {
    const resetStalled = () => this.#connections.resetStalled()
    const checks = setInterval(resetStalled, this.#options.stallTimeout / 60).unref()
    this.#server.once('close', () => clearInterval(checks))
  }

  /**
   * Responds to CONNECT, after which node no longer reads the socket. What follows a connection's
   * last request comes here, too (see requestClass()): #refuse() ignores it.
   */
  readonly #refuseTunnel = (req: IncomingMessage, stream: Duplex): void => {
    const { socket } = req // node documents the stream as any Duplex
    stream.on('error', () => {}).resume()
    this.#refuse(socket, malformedProblem(req) ?? 'methodNotAllowed', this.#service.router.allow)
  }

  /** Responds to a malformed or late request, in pipeline order, and closes the connection. */
  #refuse(stream: Duplex, problem: Problem | undefined, detail: string): void {
    const connection = this.#connections.get(stream)
    if (connection === undefined || problem === undefined) return void stream.destroy()
    const { latest } = connection
    const reply = this.#service.refuse(problem, detail)
    const isInBody = latest?.req.complete === false // else the problem is in a new head
    if (isInBody && !latest.res.headersSent) return latest.sendLast(reply)
    if (connection.isEnding) return
    connection.isRefused = true
    // Its response was sent before its body was complete: no other can follow.
    if (isInBody) connection.linger()
    else if (connection.isIdle) this.#sendWithoutExchange(connection, reply)
    else latest?.res.once('close', () => this.#sendWithoutExchange(connection, reply))
  }

  /** Responds to a request that has no Exchange, because its head could not be read. */
  #sendWithoutExchange(connection: Connection, reply: Reply): void {
    const { socket } = connection
    if (!socket.writable) return
    const bytes = bytesOf(reply)
    socket.write(responseText(reply, bytes, [], 'close'), 'latin1')
    this.#service.onEnd?.({ reply, ms: 0, bytes, remote: socket.remoteAddress })
    connection.linger()
  }
}
