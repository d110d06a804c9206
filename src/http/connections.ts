import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { clearTimeout, setImmediate, setTimeout } from './clock.ts'
import type { Exchange, ServerConnection } from './exchange.ts'
import type { Limits } from './limits.ts'

// What a pending request and its response take besides head and body: a generous estimate. But
// 10,000 connections with ordinary heads must stay within maxHeldBytes.
const REQUEST_BYTES = 4 * 2 ** 10

export interface ServerOptions extends Limits {
  readonly maxConnections: number
  readonly keepAliveTimeout: number // milliseconds that an idle connection is kept
  readonly unref: boolean // whether it lets the process end
  readonly warn: (what: string) => void // counts each connection that is dropped
}

/** An open connection of HttpServer. */
export class Connection implements ServerConnection {
  readonly socket: Socket
  readonly keepAlive: number
  readonly reportUse: () => void
  readonly pending: Exchange[] = [] // the one in progress, then those that wait for it
  latest: Exchange | undefined // received last; forgotten after its response, if it is complete
  isRefused = false // once HttpServer has refused a request, it ignores the rest
  lastUse = 0 // a number that rises with each reportUse of any connection
  lastHeld = 0 // bytesHeld when Connections last counted them
  readonly #lingerTime: number

  constructor(socket: Socket, { keepAliveTimeout, linger }: ServerOptions, reportUse: () => void) {
    this.socket = socket
    this.keepAlive = keepAliveTimeout
    this.reportUse = reportUse
    this.#lingerTime = linger
    void socket.remoteAddress // node keeps it once asked for, even if the client leaves
    socket.destroySoon = () => this.linger() // node calls this after the last response
    // node resumes the socket by itself, for example after each request: pause it again. Emit
    // 'pause', too: only then does node:http stop reading, and pause() emits none if it is paused.
    socket.on('resume', () => {
      if (this.pending.length > 1) socket.pause().emit('pause')
    })
  }

  /**
   * Ends our side, and discards input until the client ends or time is up. If the socket were
   * destroyed while the client is still sending, the kernel would reset the connection, and the
   * client would lose the last response (RFC 9112 §9.6).
   */
  linger(): void {
    const { socket } = this
    if (!socket.writable) return // it lingers already
    socket.end()
    const timer = setTimeout(() => socket.destroy(), this.#lingerTime).unref()
    socket.once('close', () => clearTimeout(timer))
  }

  get isIdle(): boolean {
    return this.pending.length === 0
  }

  /** Whether the last request has come: its response closes the connection. Ignore what follows. */
  get isEnding(): boolean {
    return this.isRefused || this.latest?.res.shouldKeepAlive === false || !this.socket.writable
  }

  /** Processes requests one at a time: each may depend on the one before (RFC 9112 §9.3.2). */
  enqueue(exchange: Exchange): void {
    this.latest = exchange
    this.pending.push(exchange)
    exchange.res.on('close', this.#finishFirst)
    if (this.pending.length === 1) return exchange.process()
    this.socket.pause() // while a request waits, nothing more is read
    void exchange.bufferBody() // into one buffer: node would keep chunks, however small
    this.reportUse()
  }

  /** Called when the first pending request is over, with a response or without. */
  readonly #finishFirst = (): void => {
    this.pending.shift()
    // Otherwise an idle connection would keep the head and the response.
    if (this.isIdle && this.latest?.req.complete) this.latest = undefined
    if (!this.socket.writable) return this.abandon() // no response can follow
    // One in each turn of the event loop, so that a pipeline holds up nobody else.
    if (!this.isIdle) setImmediate(() => this.#processFirst())
  }

  #processFirst(): void {
    const [first] = this.pending
    this.socket.resume() // the listener of 'resume' pauses it again while others wait
    if (first?.res.headersSent === false) first.process() // else it has been refused
  }

  /** Bytes held for the client: unread responses, requests that are pending, and their bodies. */
  get bytesHeld(): number {
    if (this.socket.destroyed) return 0
    let bytes = this.socket.writableLength
    // The latest request is kept, too, if its response came before the end of its body.
    const kept = this.isIdle && this.latest ? [this.latest] : this.pending
    for (const { buffered, headBytes } of kept) bytes += REQUEST_BYTES + headBytes + buffered.length
    return bytes
  }

  /** Records that the pending requests get no response. */
  abandon(): void {
    for (const exchange of this.pending) exchange.finish()
    this.pending.length = 0
    this.socket.resume() // so that its end is noticed
  }
}

/**
 * The open connections by socket. Bounds their number, and the bytes that all clients together make
 * the server hold: unread responses, pending requests, and their bodies.
 */
export class Connections extends Map<Duplex, Connection> {
  readonly #options: ServerOptions
  #uses = 0
  #held = 0 // an upper bound: nothing tells when a client has read a response

  constructor(options: ServerOptions) {
    super()
    this.#options = options
  }

  add(socket: Socket): void {
    const connection = new Connection(socket, this.#options, () => this.#onUse(connection))
    connection.reportUse()
    this.set(socket, connection)
    socket.once('close', () => {
      this.delete(socket)
      this.#recount(connection)
      connection.abandon()
    })
    if (this.size > this.#options.maxConnections) this.#makeRoomFor(connection)
  }

  /** Drops the longest idle connection, which is the new one if all others are in use. */
  #makeRoomFor(added: Connection): void {
    const { maxConnections, warn } = this.#options
    let oldest = added
    for (const connection of this.values()) {
      if (connection.isIdle && connection.lastUse < oldest.lastUse) oldest = connection
    }
    if (oldest === added) warn(`new connections closed, because all ${maxConnections} are in use`)
    else warn(`idle connections closed to make room, because ${maxConnections} are open`)
    oldest.socket.destroy()
  }

  /** Marks a connection as used, and recounts what it holds. Sheds what exceeds the bound. */
  #onUse(connection: Connection): void {
    this.#uses++
    connection.lastUse = this.#uses
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
    for (const connection of this.values()) this.#recount(connection)
    if (this.#held <= maxHeldBytes) return
    const largestFirst = [...this.values()].sort((a, b) => b.lastHeld - a.lastHeld)
    for (const connection of largestFirst) {
      if (this.#held <= maxHeldBytes * (7 / 8)) return
      warn('connections reset, because they made the server hold too much')
      connection.socket.resetAndDestroy()
      this.#recount(connection)
    }
  }
}
