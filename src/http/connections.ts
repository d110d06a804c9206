import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { Exchange } from './exchange.ts'
import { LIMITS } from './limits.ts'

export interface ConnectionOptions {
  maxConnections: number
  /** Seconds that an idle connection is kept. */
  keepAlive: number
  /** Receives what happened to a connection that could not be kept. */
  warn: (what: string) => void
}

export interface Connection {
  readonly socket: Socket
  latest?: Exchange
  /** Requests that wait for the responses before theirs. */
  waiting: number
  /** Something on it could not be read as a request: nothing behind that is. */
  failed: boolean
  /** When it became idle, in turns of all connections. */
  turn: number
  /** The bytes that had been read by then; if there are more, a request has begun. */
  bytesRead: number
}

/** The open connections, within a bound on their number and one on what they leave unread. */
export class Connections {
  readonly options: ConnectionOptions
  readonly #unreadBytes = LIMITS.unreadBytes
  /** In the order of their latest responses that had to wait for their client. */
  readonly open: Map<Duplex, Connection> = new Map()
  #turns = 0

  constructor(options: ConnectionOptions) {
    this.options = options
  }

  /** Adds a connection, and closes the longest idle one if there are too many; if none is idle, the new one. */
  add(socket: Socket): void {
    const { maxConnections, warn } = this.options
    if (this.open.size >= maxConnections) {
      const idle = this.#longestIdle()
      if (idle === undefined) {
        warn(`new connections closed, for all ${maxConnections} are in use`)
        return void socket.destroy()
      }
      warn(`idle connections closed to make room, for ${maxConnections} are open`)
      this.open.delete(idle.socket)
      idle.socket.destroy()
    }
    this.open.set(socket, { socket, waiting: 0, failed: false, turn: this.#turns++, bytesRead: 0 })
    socket.once('close', () => this.open.delete(socket))
  }

  #longestIdle(): Connection | undefined {
    let longest: Connection | undefined
    for (const connection of this.open.values()) {
      const { socket, latest, turn, bytesRead } = connection
      if (longest !== undefined && turn > longest.turn) continue
      if (!latest?.isInFlight && socket.bytesRead === bytesRead) longest = connection
    }
    return longest
  }

  /**
   * Called after a response. One that has to wait for its client may be too much: then the connections whose responses have
   * waited the longest are reset, until the others are within their limit.
   */
  onResponse(socket: Socket): void {
    const { open } = this
    const latest = open.get(socket)
    if (latest === undefined) return
    latest.turn = this.#turns++
    latest.bytesRead = socket.bytesRead
    if (socket.writableLength === 0) return
    open.delete(socket)
    open.set(socket, latest)
    let unread = 0
    for (const { socket } of open.values()) unread += socket.writableLength
    for (const { socket } of open.values()) {
      if (unread <= this.#unreadBytes || socket === latest.socket) return
      unread -= socket.writableLength
      if (socket.writableLength > 0) socket.resetAndDestroy()
    }
  }
}
