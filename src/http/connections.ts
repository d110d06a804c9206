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
  readonly #stallTimeout: number
  #sent = -1 // bytes that the kernel had taken when resetIfStalled() last looked
  #sentAt = 0 // when it first saw them, by performance.now()

  constructor(socket: Socket, options: ServerOptions, reportUse: () => void) {
    this.socket = socket
    this.keepAlive = options.keepAliveTimeout
    this.reportUse = reportUse
    this.#lingerTime = options.linger
    this.#stallTimeout = options.stallTimeout
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

  /** Whether it has a response that its client is slow to read, and waits for nothing else. */
  get isUnread(): boolean {
    return this.pending[0]?.res.writableEnded === true
  }

  /**
   * Resets the connection if its client has read nothing of a response for stallTimeout. The
   * timeout of a socket does not tell: whatever the client sends renews it.
   */
  resetIfStalled(now: number): void {
    const sent = sentBytes(this.socket)
    if (this.socket.writableLength === 0 || sent !== this.#sent) {
      this.#sent = sent
      this.#sentAt = now
    } else if (now - this.#sentAt >= this.#stallTimeout) {
      this.socket.resetAndDestroy() // frees the buffer of the kernel, too
    }
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

/** The bytes that the kernel has taken so far: socket.bytesWritten counts all that wait, too. */
function sentBytes(socket: Socket): number {
  const { _handle }: Socket & { _handle?: Partial<Queue> } = socket // undocumented
  const { bytesWritten = socket.bytesWritten, writeQueueSize = socket.writableLength } =
    _handle ?? {}
  return bytesWritten - writeQueueSize
}

interface Queue {
  readonly bytesWritten: number
  readonly writeQueueSize: number
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

  /** Drops the longest idle connection; if none is, one that is not read; if none is, the new. */
  #makeRoomFor(added: Connection): void {
    const { maxConnections, warn } = this.#options
    let idle: Connection | undefined
    let unread: Connection | undefined
    for (const connection of this.values()) {
      if (connection.isIdle) idle = earlierUsed(idle, connection)
      else if (connection.isUnread) unread = earlierUsed(unread, connection)
    }
    if (idle && idle !== added) {
      warn(`idle connections closed to make room, because ${maxConnections} are open`)
      idle.socket.destroy()
    } else if (unread) {
      warn(`connections that are not read reset to make room, because ${maxConnections} are open`)
      unread.socket.resetAndDestroy()
    } else {
      warn(`new connections closed, because all ${maxConnections} are in use`)
      added.socket.destroy()
    }
  }

  /** Resets the connections whose clients do not read. To be called again and again. */
  resetStalled(): void {
    const now = performance.now()
    for (const connection of this.values()) connection.resetIfStalled(now)
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

function earlierUsed(known: Connection | undefined, other: Connection): Connection {
  return known && known.lastUse < other.lastUse ? known : other
}
