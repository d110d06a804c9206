import type { IncomingMessage, ServerResponse } from 'node:http'
import { handle, type Received, record, type RequestHead, type Service } from './dispatch.ts'
import { echoedHeaders } from './headers.ts'
import { malformedProblem } from './malformed.ts'
import { type Awaitable, type Reply, respond } from './respond.ts'
import type { Route } from './router.ts'

/** A connection of our own server, as its exchanges see it. */
export interface OwnConnection {
  readonly remote: string | undefined
  readonly keepAlive: number // seconds, for the Keep-Alive header
  touch(): void // called when the body grew, and after the response
}

/** A request over a socket, from its head to its response. */
export class Exchange implements Received {
  readonly req: IncomingMessage
  readonly res: ServerResponse
  readonly head: RequestHead
  readonly started: number = performance.now()
  route: Route | undefined
  key: number | undefined
  content: Buffer | undefined
  readonly #service: Service
  readonly #connection: OwnConnection | undefined // undefined on a user's server
  #isExpecting: boolean // 100-continue, which only a wanted body gets
  #body: Body | undefined
  #isRecorded = false

  constructor(service: Service, req: IncomingMessage, res: ServerResponse, own?: OwnConnection) {
    this.req = req
    this.res = res
    this.head = { method: req.method ?? '', target: req.url ?? '', headers: req.headers }
    this.#service = service.pick?.(this.head) ?? service
    this.#connection = own
    // On a user's server, node has sent the 100 already.
    this.#isExpecting = own !== undefined && req.httpVersion === '1.1' && 'expect' in req.headers
  }

  get isInFlight(): boolean {
    return !this.res.writableFinished
  }

  /** Bytes that the body takes. */
  get bodyBytes(): number {
    return this.#body?.size ?? 0
  }

  process(): void {
    const isHttp2 = 'stream' in this.req // node enforces its rules itself
    const problem = isHttp2 ? undefined : malformedProblem(this.req)
    if (problem !== undefined) return this.sendLast(this.#service.refuse(problem))
    // Upgrade is ignored (RFC 9110 §7.8), but node drops what follows it.
    if (this.head.headers.upgrade !== undefined) this.res.shouldKeepAlive = false
    this.#send(handle(this.#service, this))
  }

  /** Sends the last response of the connection. */
  sendLast(reply: Reply): void {
    this.res.shouldKeepAlive = false
    this.#send(reply)
  }

  /** Reads the body. If it grows too large, drops the rest as it arrives, within requestTimeout. */
  readBody(): Promise<Buffer | undefined> {
    const { req, res } = this
    const { maxBody } = this.#service
    this.#body = new Body()
    let received = 0
    if (this.#isExpecting) res.writeContinue()
    this.#isExpecting = false
    return new Promise((resolve) => {
      req.on('data', (chunk: Buffer) => {
        received += chunk.length
        if (received > maxBody) return resolve(undefined)
        this.#body?.append(chunk, maxBody)
        this.#connection?.touch()
      })
      req.on('end', () => {
        if (!res.headersSent) resolve(this.#body?.bytes)
      })
    })
  }

  /** Records that there will be no response. */
  abandon(): void {
    if (!this.res.headersSent) this.#record(undefined, 0)
  }

  #send(reply: Awaitable<Reply | undefined>): void {
    if (!(reply instanceof Promise)) return this.#respond(reply)
    this.res.on('close', () => this.#record(undefined, 0)) // the client may leave meanwhile
    void reply.then((settled) => this.#respond(settled))
  }

  /** Responds, unless the client has left or the request proved malformed in the meantime. */
  #respond(reply: Reply | undefined): void {
    const { req, res } = this
    if (this.#isRecorded) return
    if (reply === undefined) req.socket.destroy()
    if (reply === undefined || req.socket.destroyed) return this.abandon()
    // A client that still waits for 100-continue may send its body next, or another request.
    if (this.#isExpecting) res.shouldKeepAlive = false
    const headers = echoedHeaders(this.head.headers, this.#service.cors)
    const bytes = respond(res, reply, headers, this.#connection?.keepAlive)
    this.#record(reply, bytes)
    this.#connection?.touch()
  }

  #record(reply: Reply | undefined, bytes: number): void {
    if (this.#isRecorded) return
    this.#isRecorded = true
    const remote = this.#connection?.remote ?? this.req.socket.remoteAddress
    record(this.#service, this, { reply, bytes, remote })
    this.#body = undefined // otherwise an idle connection retains it
    this.content = undefined
  }
}

/** Collects a body in one buffer: a Buffer for each chunk takes more than a chunk of one byte. */
class Body {
  #buffer: Buffer = Buffer.alloc(0)
  #length = 0

  get bytes(): Buffer {
    return this.#buffer.subarray(0, this.#length)
  }

  /** Bytes allocated. */
  get size(): number {
    return this.#buffer.length
  }

  append(chunk: Buffer, maxBytes: number): void {
    const length = this.#length + chunk.length
    if (this.#length === 0) {
      this.#buffer = chunk // most bodies arrive as one
    } else if (length > this.#buffer.length) {
      this.#buffer = Buffer.concat([this.bytes, chunk], Math.min(2 * length, maxBytes))
    } else {
      chunk.copy(this.#buffer, this.#length)
    }
    this.#length = length
  }
}
