import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { STATUS_CODES } from 'node:http'
import { Server as NetServer, Socket } from 'node:net'
import { types } from 'node:util'
import { clearInterval, clearTimeout, nextTurn, setInterval, setTimeout } from '../clock.ts'
import { type ErrorName, refuse } from '../errors.ts'
import { reachableAddress, urlOf } from './addresses.ts'
import { answer, type App, Exchange, respond } from './exchange.ts'
import { headError, headersOf } from './headers.ts'
import type { Reply } from './router.ts'

// What node:http bounds, in bytes and milliseconds.
const LIMITS = {
  maxHeaderSize: 16 * 2 ** 10,
  headersTimeout: 10_000, // from connecting, or from the first byte of a request
  requestTimeout: 30_000, // from the first byte of a request to its last
  connectionsCheckingInterval: 1_000, // between two checks of these
}
const MAX_WAITING = 10 // requests of a connection that wait for the one in progress
const IDLE_INTERVAL = 500 // between two looks for idle connections during a stop
const LINGER = 2_000 // in which a client may read the last response while it still sends

/**
 * The node:http server: bounds what it takes, and stops without losing a request.
 *
 * Each connection has a queue of exchanges. The first one is in progress, the others wait. An
 * exchange leaves it when its response was sent, or when the connection has closed.
 */
export class HttpServer {
  boundUrl = '' // such as http://0.0.0.0:8080
  url = '' // by which this machine reaches it
  readonly #app: App
  readonly #server: Server
  readonly #queues = new Map<Socket, Exchange[]>()
  readonly #latest = new WeakMap<Socket, ServerResponse>() // to the latest request
  #isStopping = false
  #cutOff = 0

  constructor(app: App, options: { maxConnections: number; keepAlive: number }) {
    this.#app = app
    this.#server = createServer({
      ...LIMITS,
      keepAliveTimeout: options.keepAlive,
      requireHostHeader: false, // node's own response to a request without Host is no Error
    })
    this.#server.maxConnections = options.maxConnections
    this.#server.maxHeadersCount = 0 // no limit but that of the size: node would drop the rest
    this.#listenToEvents()
  }

  #listenToEvents(): void {
    const server = this.#server
    server.on('connection', (socket) => {
      this.#queues.set(socket, [])
      socket.once('close', () => this.#abandon(socket))
    })
    // The last two are for Expect, which answer() decides.
    for (const event of ['request', 'checkContinue', 'checkExpectation']) {
      server.on(event, (req: IncomingMessage, res: ServerResponse) => this.#receive(req, res))
    }
    server.on('connect', (req) => {
      const { socket } = req
      socket.on('error', () => {}).resume() // node has let go of it
      this.#sendInTurn(socket, refuse(headError(req) ?? 'methodNotAllowed', this.#app.router.allow))
    })
    server.on('clientError', (error, stream) => {
      if (stream instanceof Socket) this.#onClientError(error, stream) // always, without TLS
    })
  }

  /** Rejects with the system's code. */
  async listen(port: number, host: string): Promise<void> {
    // Node takes no host for all addresses of IPv6 and IPv4, or of IPv4 where there is no IPv6.
    this.#server.listen(host === '::' ? { port } : { port, host })
    await once(this.#server, 'listening')
    const bound = this.#server.address()
    if (!bound || typeof bound === 'string') throw new Error('not listening')
    this.boundUrl = urlOf(bound.address, bound.port)
    this.url = urlOf(reachableAddress(bound.address), bound.port)
  }

  /** What is open. */
  get load(): { readonly connections: number; readonly requests: number } {
    let requests = 0
    for (const queue of this.#queues.values()) requests += queue.length
    return { connections: this.#queues.size, requests }
  }

  #receive(req: IncomingMessage, res: ServerResponse): void {
    const { socket } = req
    const queue = this.#queues.get(socket)
    if (!queue || socket.destroyed) return
    const exchange = new Exchange(req, res)
    queue.push(exchange)
    this.#latest.set(socket, res)
    if (queue.length > 1 + MAX_WAITING) socket.destroy()
    else if (queue.length === 1) this.#process(queue, exchange)
  }

  /** Each may depend on the one before (RFC 9112 §9.3.2). */
  #process(queue: Exchange[], exchange: Exchange): void {
    const reply = answer(this.#app, exchange)
    if (types.isPromise(reply)) void reply.then((it) => this.#settle(queue, exchange, it, 'keep'))
    else this.#settle(queue, exchange, reply, 'keep')
  }

  #settle(queue: Exchange[], exchange: Exchange, reply: Reply, after: 'keep' | 'close'): void {
    if (exchange.isOver) return // its client left, or its body was malformed
    const isLast = this.#isStopping && queue.length === 1
    const fate = respond(exchange, reply, isLast ? 'close' : after, this.#app.cors)
    this.#app.onEnd?.(exchange)
    if (exchange === queue[0] && fate === 'keep') this.#processNext(queue)
  }

  #processNext(queue: Exchange[]): void {
    queue.shift()
    const [next] = queue
    if (next?.isOver) this.#processNext(queue)
    else if (next) this.#process(queue, next)
  }

  /** Answers a request that cannot be read, or that did not arrive in time. */
  #onClientError(error: Error & { code?: string; reason?: string }, socket: Socket): void {
    // It comes after a request with Connection: close (RFC 9112 §9.6).
    if (error.code === 'HPE_CLOSED_CONNECTION') return
    const name = errorNameFor(error.code)
    const queue = this.#queues.get(socket)
    if (!name || !queue || socket.bytesRead === 0) return void socket.destroy()
    const reply = refuse(name, error.reason ?? error.message)
    const latest = queue.at(-1)
    const isInBody = this.#latest.get(socket)?.req.complete === false
    if (!isInBody) this.#sendInTurn(socket, reply)
    else if (latest) this.#settle(queue, latest, reply, 'close')
    else socket.destroySoon() // it was answered before its body had come
  }

  /** Sends a last response after those to the requests before it. */
  #sendInTurn(socket: Socket, reply: Reply): void {
    const latest = this.#latest.get(socket)
    if (!latest || latest.closed) this.#sendLast(socket, reply)
    else latest.once('close', () => this.#sendLast(socket, reply))
  }

  /** Sends a response without node's help, which knows no request. */
  #sendLast(socket: Socket, reply: Reply): void {
    if (!socket.writable) return // it was sent already
    const { status, body = '' } = reply
    const headers = headersOf(reply, Buffer.byteLength(body), {}, [])
    headers.push('Date', new Date().toUTCString(), 'Connection', 'close')
    let head = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n`
    for (let at = 0; at < headers.length; at += 2) head += `${headers[at]}: ${headers[at + 1]}\r\n`
    socket.end(`${head}\r\n${body}`)
    // At once, the system would reset a client that still sends, and it would not read this.
    setTimeout(() => socket.destroy(), LINGER).unref()
    this.#app.onRefused?.(reply, socket.remoteAddress ?? '')
  }

  /** Ends the requests of a connection without a response. Returns how many there were. */
  #abandon(socket: Socket): number {
    const queue = this.#queues.get(socket) ?? []
    this.#queues.delete(socket)
    const open = queue.filter(({ isOver }) => !isOver)
    for (const exchange of open) {
      exchange.end(undefined, 0)
      this.#app.onEnd?.(exchange)
    }
    return open.length
  }

  /**
   * Stops listening, closes idle connections, and lets requests in flight finish for `drain`
   * milliseconds. A second call can shorten the wait. Returns how many requests were cut off.
   */
  async stop(drain: number): Promise<number> {
    // http's own close() also cuts idle connections, on which the next request may be coming.
    const closed = new Promise((resolve) => NetServer.prototype.close.call(this.#server, resolve))
    this.#isStopping = true
    if (drain === 0) this.#cutOffAll()
    const idleChecks = setInterval(() => this.#closeIdle(), IDLE_INTERVAL)
    const timer = setTimeout(() => this.#cutOffAll(), drain)
    for (const socket of this.#queues.keys()) {
      if (socket.bytesRead === 0) socket.destroy()
    }
    await closed
    clearInterval(idleChecks)
    clearTimeout(timer)
    this.#server.close() // ends node's checks of the time-outs
    // A client in this process reads in its next turn that a connection has ended. Before that, it
    // would use the connection for another server on this port.
    await nextTurn()
    await nextTurn()
    return this.#cutOff
  }

  #closeIdle(): void {
    for (const [socket, queue] of this.#queues) {
      if (queue.length === 0 && socket.writableLength === 0) socket.destroy()
    }
  }

  #cutOffAll(): void {
    for (const socket of this.#queues.keys()) {
      const isBeingRead = socket.writableLength > 0 // a response, by a slow client
      this.#cutOff += Math.max(this.#abandon(socket), Number(isBeingRead))
      socket.destroy()
    }
  }
}

/** The error for a `clientError` of node:http; undefined if the connection is lost. */
function errorNameFor(code = ''): ErrorName | undefined {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return 'requestTimeout'
  if (code === 'HPE_HEADER_OVERFLOW') return 'headersTooLarge'
  return code.startsWith('HPE_') ? 'badSyntax' : undefined
}
