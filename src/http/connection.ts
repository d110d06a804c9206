import type { Socket } from 'node:net'
import { clearTimeout, setImmediate, setTimeout } from '../runtime.ts'
import type { Exchange, ServerConnection } from './exchange.ts'
import type { ServerOptions } from './limits.ts'

// What a connection takes that is closed, but whose operation goes on.
const CLOSED_BYTES = 4 * 2 ** 10

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
  #running: Exchange | undefined // its operation may go on without its client
  readonly #lingerTime: number
  readonly #stallTimeout: number
  #sent = -1 // bytes that the kernel had taken when resetIfStalled() last looked
  #sentAt = 0 // when it first saw them, by now()

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

  /** Whether it may make room: it sends a response that may never be read, or only waits. */
  get mayGiveWay(): boolean {
    const [first] = this.pending
    return first?.res.headersSent === true || first?.call?.onLeave !== undefined
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
    const first = this.pending.shift()
    if (first?.call) this.#running = first
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
    const running = this.#running ?? this.pending[0]
    if (this.socket.destroyed) return running?.call ? running.bytesHeld + CLOSED_BYTES : 0
    let bytes = this.socket.writableLength
    // The latest request is kept, too, if its response came before the end of its body.
    const kept = this.isIdle && this.latest ? [this.latest] : this.pending
    for (const exchange of kept) bytes += exchange.bytesHeld
    return bytes
  }

  /** Resets the connection. If its operation is delayed, it goes on at once and is soon over. */
  drop(): void {
    this.socket.resetAndDestroy()
    this.abandon()
    const endDelay = this.#running?.call?.endDelay
    if (!endDelay) return
    this.#running = undefined
    endDelay()
  }

  /** Records that the pending requests get no response. */
  abandon(): void {
    for (const exchange of this.pending) exchange.finish()
    this.#running ??= this.pending.find(({ call }) => call)
    this.pending.length = 0
    this.socket.resume() // so that its end is noticed
  }
}

/** What node's handle of a socket has (undocumented). */
interface Handle {
  readonly bytesWritten: number // of the writes that began
  readonly writeQueueSize: number // bytes of these that the kernel has not taken
}

/** The bytes that the kernel has taken so far. */
function sentBytes(socket: Socket): number {
  const { _handle: handle }: Socket & { _handle?: Partial<Handle> } = socket
  const { bytesWritten = socket.bytesWritten, writeQueueSize = socket.writableLength } =
    handle ?? {}
  return bytesWritten - writeQueueSize
}
