import { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { Exchange, OwnConnection } from './exchange.ts'

// Generous estimates: a waiting request with its share of the chunk it came in, and the overhead of
// each string in the latest request's head, which an idle connection keeps.
const WAITING_REQUEST_BYTES = 16 * 2 ** 10
const STRING_BYTES = 100

let uses = 0 // orders the connections by their latest use

export interface ConnectionOptions {
  readonly maxConnections: number
  readonly keepAlive: number // milliseconds that an idle connection is kept
  readonly warn: (what: string) => void // called for each connection that is dropped
}

/** An open connection of our own server. */
export class Connection implements OwnConnection {
  readonly socket: Socket
  readonly remote: string | undefined // the socket forgets it when the client leaves
  readonly keepAlive: number
  readonly #recount: (connection: Connection) => void
  running: Exchange | undefined
  latest: Exchange | undefined
  readonly waiting: Set<Exchange> = new Set() // pipelined requests whose turn has not come
  hasFailed = false // after a parse error, everything else is ignored
  lastUse = 0
  held = 0 // bytes at the last count
  #headBytes = 0

  constructor(socket: Socket, keepAlive: number, recount: (changed: Connection) => void) {
    this.socket = socket
    this.remote = socket.remoteAddress
    this.keepAlive = keepAlive
    this.#recount = recount
    // node resumes the socket on its own, for example after each request. Pause it again. If it
    // already counts as paused, pause() does nothing, but the event stops the reading.
    socket.on('resume', () => {
      if (this.waiting.size === 0) return
      if (socket.isPaused()) socket.emit('pause')
      else socket.pause()
    })
    this.touch()
  }

  get isIdle(): boolean {
    return !this.latest?.isInFlight
  }

  /** True from the last response on. Later requests are ignored. */
  get isEnding(): boolean {
    return this.latest?.res.shouldKeepAlive === false || !this.socket.writable
  }

  /** Bytes that the client makes the server hold. */
  count(): number {
    const waitingBytes = this.waiting.size * WAITING_REQUEST_BYTES
    const bodyBytes = this.running?.body.length ?? 0
    return this.socket.writableLength + waitingBytes + bodyBytes + this.#headBytes
  }

  begin(exchange: Exchange): void {
    this.latest = exchange
    this.#headBytes = 0
    for (const text of exchange.req.rawHeaders) this.#headBytes += text.length + STRING_BYTES
    this.#recount(this)
  }

  run(exchange: Exchange): void {
    this.running = exchange
    exchange.process()
  }

  /** Adds a waiting request. While there is one, nothing more is read. */
  startWaiting(exchange: Exchange): void {
    this.waiting.add(exchange)
    this.socket.pause()
    this.#recount(this)
  }

  stopWaiting(exchange: Exchange): void {
    this.waiting.delete(exchange)
    if (this.waiting.size === 0) this.socket.resume()
    this.#recount(this)
  }

  touch(): void {
    uses++
    this.lastUse = uses
    this.#recount(this)
  }
}

/**
 * The open connections. Bounds their number, and the bytes that all clients together make the
 * server hold: unread responses, waiting requests, and incomplete bodies.
 */
export class Connections {
  readonly #options: ConnectionOptions
  readonly #maxHeldBytes: number
  readonly #open = new Map<Duplex, Connection>()
  #held = 0 // an upper bound: nothing tells when a client has read a response

  constructor(options: ConnectionOptions, maxHeldBytes: number) {
    this.#options = options
    this.#maxHeldBytes = maxHeldBytes
  }

  get(socket: Duplex): Connection | undefined {
    return this.#open.get(socket)
  }

  values(): Iterable<Connection> {
    return this.#open.values()
  }

  /** Adds a connection. Beyond the maximum, drops the longest idle one, or else the new one. */
  add(socket: Socket): void {
    const { maxConnections, keepAlive, warn } = this.#options
    if (this.#open.size >= maxConnections) {
      const idle = this.#longestIdle()
      if (idle === undefined) {
        warn(`new connections closed, for all ${maxConnections} are in use`)
        return void socket.destroy()
      }
      warn(`idle connections closed to make room, for ${maxConnections} are open`)
      idle.socket.destroy()
    }
    const connection = new Connection(socket, keepAlive, (changed) => this.#recount(changed))
    this.#open.set(socket, connection)
    socket.once('close', () => this.#delete(connection))
  }

  #longestIdle(): Connection | undefined {
    let longest: Connection | undefined
    for (const connection of this.#open.values()) {
      const isLonger = longest === undefined || connection.lastUse < longest.lastUse
      if (isLonger && connection.isIdle) longest = connection
    }
    return longest
  }

  #recount(connection: Connection): void {
    if (!this.#open.has(connection.socket)) return
    this.#count(connection)
    if (this.#held > this.#maxHeldBytes) this.#shed()
  }

  #count(connection: Connection): void {
    this.#held -= connection.held
    connection.held = connection.count()
    this.#held += connection.held
  }

  /** Resets the connections that hold the most. Leaves some room, so that this stays rare. */
  #shed(): void {
    for (const connection of this.#open.values()) this.#count(connection)
    if (this.#held <= this.#maxHeldBytes) return
    const largestFirst = [...this.#open.values()].sort((a, b) => b.held - a.held)
    for (const connection of largestFirst) {
      if (this.#held <= this.#maxHeldBytes * (7 / 8)) return
      this.#options.warn('connections reset, for they made the server hold too much')
      this.#delete(connection)
      connection.socket.resetAndDestroy()
    }
  }

  #delete(connection: Connection): void {
    if (!this.#open.delete(connection.socket)) return
    this.#held -= connection.held
    for (const exchange of connection.waiting) exchange.abandon()
  }
}

/**
 * The class of a server's requests. Node parses all that it has read from a socket, which may be
 * thousands of requests, even after the socket is destroyed. It stops only at a CONNECT, so the
 * request after the last one of a connection is disguised as one, which the server then ignores.
 */
export function lastMessageOf(connections: Connections): typeof IncomingMessage {
  return class extends IncomingMessage {
    constructor(...args: [Socket]) {
      super(...args) // Bun passes more of them
      const [socket] = args
      // Bun has not announced the connection yet.
      const isEnding = connections.get(socket)?.isEnding ?? socket.destroyed
      if (!isEnding) return
      Object.defineProperty(this, 'upgrade', { get: () => true, set() {} })
      Object.defineProperty(this, 'method', { get: () => 'CONNECT', set() {} })
    }
  }
}
