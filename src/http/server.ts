import { once } from 'node:events'
import { createServer, type Server, type ServerResponse, STATUS_CODES } from 'node:http'
import { type AddressInfo, Server as NetServer, Socket } from 'node:net'
import { clearInterval, clearTimeout, nextTurn, setInterval, setTimeout } from '../clock.ts'
import { codeOf } from '../errors.ts'
import { failureReply, headerList } from './reply.ts'
import { type App, serve } from './serve.ts'

// What node:http bounds, in bytes and milliseconds.
const LIMITS = {
  maxHeaderSize: 16 * 2 ** 10,
  headersTimeout: 10_000, // from connecting, or from the first byte of a request
  requestTimeout: 30_000, // from the first byte of a request to its last
  connectionsCheckingInterval: 1_000, // between two checks of these
}
const MAX_CONNECTIONS = 10_000
const IDLE_INTERVAL = 500 // between two looks for idle connections during a stop
const LINGER = 2_000 // in which a client may read the last response while it still sends

/** The node:http server: bounds what it takes, and stops without losing a request. */
export class HttpServer {
  readonly #app: App
  readonly #server: Server
  readonly #latest = new Map<Socket, ServerResponse | undefined>() // on each open connection
  #cutOff = 0

  constructor(app: App, keepAliveTimeout: number) {
    this.#app = app
    // Node's own response to a request without Host is no Error.
    const server = createServer({ ...LIMITS, keepAliveTimeout, requireHostHeader: false })
    server.maxConnections = MAX_CONNECTIONS
    server.on('connection', (socket) => {
      this.#latest.set(socket, undefined)
      socket.once('close', () => this.#latest.delete(socket))
    })
    server.on('request', (_, res) => this.#receive(res))
    server.on('checkExpectation', (_, res) => this.#receive(res))
    server.on('clientError', (error, stream) => {
      if (stream instanceof Socket) this.#refuse(error, stream) // always, without TLS
    })
    this.#server = server
  }

  /** Resolves to the address as bound. Rejects with the system's code. */
  async listen(port: number, host: string): Promise<AddressInfo> {
    // Node takes no host for all addresses of IPv6 and IPv4, or of IPv4 where there is no IPv6.
    this.#server.listen(host === '::' ? { port } : { port, host })
    await once(this.#server, 'listening')
    const bound = this.#server.address()
    if (!bound || typeof bound === 'string') throw new Error('not listening')
    return bound
  }

  /** How much is open. */
  get load(): { readonly connections: number; readonly requests: number } {
    const busy = [...this.#latest.values()].filter((res) => res && !res.closed)
    return { connections: this.#latest.size, requests: busy.length }
  }

  /** The requests of a connection are carried out one after another (RFC 9112 §9.3.2). */
  #receive(res: ServerResponse): void {
    const { socket } = res.req
    const before = this.#latest.get(socket)
    this.#latest.set(socket, res)
    const begin = (): void => {
      if (!res.socket) return // the response before was the last of the connection
      void serve(this.#app, res, () => !this.#server.listening && this.#latest.get(socket) === res)
    }
    if (before && !before.closed) before.once('close', begin)
    else begin()
  }

  /** Responds to a request that cannot be read, or that did not arrive in time. */
  #refuse(error: Error, socket: Socket): void {
    const code = codeOf(error)
    // Bytes after a request with Connection: close are ignored (RFC 9112 §9.6).
    if (code === 'HPE_CLOSED_CONNECTION') return
    const latest = this.#latest.get(socket)
    const isInBody = latest?.req.complete === false
    const isRead = isInBody && !latest.headersSent && latest.req.listenerCount('error') > 0
    if (isRead) {
      latest.req.emit('error', error) // readBody rejects, and serve responds
    } else if (latest && !latest.closed) {
      latest.once('close', () => this.#refuse(error, socket))
    } else if (isInBody || socket.bytesRead === 0 || !isOfParser(code)) {
      socket.destroy() // responded to already, or silent, or broken
    } else {
      this.#respond(error, socket)
    }
  }

  /** Responds where node has made no response object. */
  #respond(error: Error, socket: Socket): void {
    if (!socket.writable) return
    const reply = failureReply(error)
    const { status, body = '' } = reply
    const list = headerList(reply, Buffer.byteLength(body), {}, false)
    list.push('date', new Date().toUTCString())
    let head = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n`
    for (let at = 0; at < list.length; at += 2) head += `${list[at]}: ${list[at + 1]}\r\n`
    socket.end(`${head}\r\n${body}`)
    // An immediate destroy resets a client that is still sending: it would never read this.
    setTimeout(() => socket.destroy(), LINGER).unref()
    this.#app.onRefused(reply, socket.remoteAddress ?? '')
  }

  /**
   * Stops listening, closes idle connections, and lets requests in flight finish for `drain`
   * milliseconds. A second call can shorten the wait. Returns how many requests were cut off.
   */
  async stop(drain: number): Promise<number> {
    // http's own close() also cuts idle connections, on which the next request may be coming.
    const closed = new Promise((resolve) => NetServer.prototype.close.call(this.#server, resolve))
    for (const socket of this.#latest.keys()) {
      if (socket.bytesRead === 0) socket.destroy()
    }
    const idleChecks = setInterval(() => this.#closeIdle(), IDLE_INTERVAL)
    const timer = setTimeout(() => this.#cutOffAll(), drain)
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

  /** To node, a connection is idle once its response has ended, even if it is not sent yet. */
  #closeIdle(): void {
    const isSending = [...this.#latest.keys()].some((socket) => socket.writableLength > 0)
    if (!isSending) this.#server.closeIdleConnections()
  }

  #cutOffAll(): void {
    this.#cutOff += this.load.requests
    for (const socket of this.#latest.keys()) socket.destroy()
  }
}

/** Whether an error comes from node's parser, or from its time-out of a request. */
function isOfParser(code: string): boolean {
  return code.startsWith('HPE_') || code === 'ERR_HTTP_REQUEST_TIMEOUT'
}

/** The address by which this machine reaches a server that listens on an address. */
export function urlOf({ address, port }: Pick<AddressInfo, 'address' | 'port'>): string {
  const isEvery = address === '::' || address === '0.0.0.0'
  return `http://${hostAndPort(isEvery ? '127.0.0.1' : address, port)}`
}

export function hostAndPort(address: string, port: number): string {
  return `${address.includes(':') ? `[${address}]` : address}:${port}`
}
