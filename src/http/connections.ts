import { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { Exchange, ServerConnection } from './exchange.ts'
import type { Limits } from './limits.ts'

// A generous estimate of a request and its response, with its share of the chunk that it came in.
const REQUEST_BYTES = 12 * 2 ** 10

export interface ServerOptions extends Limits {
  readonly maxConnections: number
  readonly keepAliveTimeout: number // milliseconds that an idle connection is kept
  readonly warn: (what: string) => void // called for each connection that is dropped
}

/** An open connection of our own server. */
export class Connection implements ServerConnection {
  readonly socket: Socket
  readonly keepAlive: number
  readonly touch: () => void
  readonly pending: Exchange[] = [] // one in progress, and those that wait behind it
  latest: Exchange | undefined // the last one received, until it is complete and has its response
  hasFailed = false // after a parse error, everything else is ignored
  lastTouch = 0 // a number that rises with each touch of any connection
  lastHeld = 0 // bytesHeld when Connections last counted them

  constructor(socket: Socket, { keepAliveTimeout, linger }: ServerOptions, touch: () => void) {
    this.socket = socket
    this.keepAlive = keepAliveTimeout
    this.touch = touch
    void socket.remoteAddress // read once, it is known even after the client has left
    // node destroys the socket once the last response is written. If the client is still sending,
    // the kernel then resets the connection, and the client loses that response (RFC 9112 §9.6).
    // So we end our side, and drain the other until the client ends it or the time is up.
    socket.destroySoon = () => {
      socket.end()
      const timer = setTimeout(() => socket.destroy(), linger).unref()
      socket.once('close', () => clearTimeout(timer))
    }
    // node resumes the socket on its own, for example after each request. Pause it again. If the
    // stream still counts as paused, pause() emits no event, at which node:http stops reading.
    socket.on('resume', () => {
      if (this.pending.length > 1) socket.pause().emit('pause')
    })
  }

  get isIdle(): boolean {
    return this.pending.length === 0
  }

  /** True from the last request on. Later ones are ignored. */
  get isEnding(): boolean {
    return this.hasFailed || this.latest?.res.shouldKeepAlive === false || !this.socket.writable
  }

  /** Processes a request after the one before, which may change what it sees (RFC 9112 §9.3.2). */
  begin(exchange: Exchange): void {
    this.latest = exchange
    this.pending.push(exchange)
    exchange.res.on('close', this.#endFirst)
    if (this.pending.length === 1) return exchange.process()
    this.socket.pause() // while a request waits, nothing more is read
    void exchange.collectBody() // node would hold each chunk of it, however small
    this.touch()
  }

  /** Called when the first pending request has its response. */
  readonly #endFirst = (): void => {
    this.pending.shift()
    // An idle connection would keep its head and response.
    if (this.isIdle && this.latest?.req.complete) this.latest = undefined
    if (!this.socket.writable) return this.abandon() // no response follows the last one
    // One in each turn of the event loop, so that a pipeline holds up nobody else.
    if (!this.isIdle) setImmediate(() => this.#processFirst())
  }

  #processFirst(): void {
    const [first] = this.pending
    this.socket.resume() // which is undone while others wait
    if (first?.res.headersSent === false) first.process() // else its body is malformed
  }

  /** Bytes held for the client: unread responses, requests that are pending, and their bodies. */
  get bytesHeld(): number {
    if (this.socket.destroyed) return 0
    let bytes = this.socket.writableLength
    for (const { arrived } of this.pending) bytes += REQUEST_BYTES + arrived.length
    return bytes
  }

  /** Records that the pending requests get no response. */
  abandon(): void {
    for (const exchange of this.pending) exchange.end()
    this.pending.length = 0
    this.socket.resume()
  }
}

/**
 * The open connections. Bounds their number, and the bytes that all clients together make the
 * server hold: unread responses, waiting requests, and incomplete bodies.
 */
export class Connections {
  readonly open: Map<Duplex, Connection> = new Map()
  readonly #options: ServerOptions
  #touches = 0
  #held = 0 // an upper bound: nothing tells when a client has read a response

  constructor(options: ServerOptions) {
    this.#options = options
  }

  add(socket: Socket): void {
    const connection = new Connection(socket, this.#options, () => this.#touch(connection))
    connection.touch()
    this.open.set(socket, connection)
    socket.once('close', () => {
      this.open.delete(socket)
      this.#recount(connection)
      connection.abandon()
    })
    if (this.open.size > this.#options.maxConnections) this.#makeRoomFor(connection)
  }

  /** Drops the longest idle connection, which is the new one if all others are in use. */
  #makeRoomFor(added: Connection): void {
    const { maxConnections, warn } = this.#options
    let longest = added
    for (const connection of this.open.values()) {
      if (connection.isIdle && connection.lastTouch < longest.lastTouch) longest = connection
    }
    if (longest === added) warn(`new connections closed, because all ${maxConnections} are in use`)
    else warn(`idle connections closed to make room, because ${maxConnections} are open`)
    longest.socket.destroy()
  }

  #touch(connection: Connection): void {
    this.#touches++
    connection.lastTouch = this.#touches
    this.#recount(connection)
    if (this.#held > this.#options.maxHeldBytes) this.#shed()
  }

  #recount(connection: Connection): void {
    this.#held -= connection.lastHeld
    connection.lastHeld = connection.bytesHeld
    this.#held += connection.lastHeld
  }

  /** Resets the connections that hold the most. Leaves some room, so that this stays rare. */
  #shed(): void {
    const { maxHeldBytes, warn } = this.#options
    for (const connection of this.open.values()) this.#recount(connection)
    if (this.#held <= maxHeldBytes) return
    const largestFirst = [...this.open.values()].sort((a, b) => b.lastHeld - a.lastHeld)
    for (const connection of largestFirst) {
      if (this.#held <= maxHeldBytes * (7 / 8)) return
      warn('connections reset, because they made the server hold too much')
      connection.socket.resetAndDestroy()
      this.#recount(connection)
    }
  }
}

/**
 * The class of a server's requests. Node parses all that it has read from a socket, which may be
 * thousands of requests, even after the socket is destroyed. Only a CONNECT stops it, so a request
 * after the last one of its connection claims to be a CONNECT. HttpServer drops it.
 */
export function requestClassOf({ open }: Connections): typeof IncomingMessage {
  class Request extends IncomingMessage {
    constructor(...args: [Socket]) {
      super(...args) // Bun passes more of them
      const [socket] = args
      // On Bun, the connection of a first request is not open yet.
      const isEnding = open.get(socket)?.isEnding ?? socket.destroyed
      if (!isEnding) return
      // node assigns both later; setters that do nothing keep these.
      Object.defineProperties(this, {
        upgrade: { get: () => true, set() {} },
        method: { get: () => 'CONNECT', set() {} },
      })
    }
  }
  // Nobody reads trailers, so a connection need not keep them.
  Object.defineProperty(Request.prototype, 'rawTrailers', { get: () => [], set() {} })
  return Request
}
