import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { now } from '../runtime.ts'
import { Connection } from './connection.ts'
import type { ServerOptions } from './limits.ts'

/**
 * The open connections by socket. Bounds their number, and the bytes that all clients together make
 * the server hold: unread responses, pending requests, and their bodies.
 */
export class Connections extends Map<Duplex, Connection> {
  readonly #options: ServerOptions
  readonly #closed = new Set<Connection>() // whose operations go on
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
      connection.abandon()
      this.#closed.add(connection)
      this.#onUse(connection)
    })
    if (this.size > this.#options.maxConnections) this.#makeRoomFor(connection)
  }

  /** Closes the longest idle connection; else one that may give way; else the new one. */
  #makeRoomFor(added: Connection): void {
    const { maxConnections, warn } = this.#options
    let idle: Connection | undefined
    let waiting: Connection | undefined
    for (const connection of this.values()) {
      if (connection.isIdle) idle = earlierUsed(idle, connection)
      else if (connection.mayGiveWay) waiting = earlierUsed(waiting, connection)
    }
    if (idle && idle !== added) {
      warn(`idle connections closed to make room, because ${maxConnections} are open`)
      idle.socket.destroy()
    } else if (waiting) {
      warn(
        `waits and unfinished responses cut off to make room, because ${maxConnections} are open`,
      )
      waiting.socket.resetAndDestroy()
    } else {
      warn(`new connections closed, because all ${maxConnections} are in use`)
      added.socket.destroy()
    }
  }

  /** Resets the connections whose clients do not read. To be called again and again. */
  resetStalled(): void {
    const time = now()
    for (const connection of this.values()) connection.resetIfStalled(time)
  }

  /** Marks a connection as used, and recounts what it holds. Sheds what exceeds the bound. */
  #onUse(connection: Connection): void {
    this.#uses++
    connection.lastUse = this.#uses
    this.#recount(connection)
    if (connection.lastHeld === 0) this.#closed.delete(connection)
    if (this.#held > this.#options.maxHeldBytes) this.#shed()
  }

  #recount(connection: Connection): void {
    this.#held -= connection.lastHeld
    connection.lastHeld = connection.bytesHeld
    this.#held += connection.lastHeld
  }

  /**
   * Ends the delays of clients that left, then resets the connections that hold the most. Leaves
   * some room, so that this stays rare.
   */
  #shed(): void {
    const { maxHeldBytes, warn } = this.#options
    for (const connection of [...this.values(), ...this.#closed]) this.#recount(connection)
    if (this.#held <= maxHeldBytes) return
    const largestFirst = [...this.values()].sort((a, b) => b.lastHeld - a.lastHeld)
    for (const connection of [...this.#closed, ...largestFirst]) {
      if (this.#held <= maxHeldBytes * (7 / 8)) return
      const before = this.#held
      connection.drop()
      this.#recount(connection)
      if (this.#held === before) continue // its operation is not delayed: it takes its time
      const what = this.#closed.has(connection) ? 'delays ended early' : 'connections reset'
      warn(`${what}, because they made the server hold too much`)
    }
  }
}

function earlierUsed(known: Connection | undefined, other: Connection): Connection {
  return known && known.lastUse < other.lastUse ? known : other
}
