import type { IncomingMessage, ServerResponse } from 'node:http'
import type { ReadableStream } from 'node:stream/web'
import { now } from '../runtime.ts'
import { dispatch, NO_BODY, reportEnd } from './dispatch.ts'
import type { OpenRequest, RequestHead, Service } from './dispatch.ts'
import { echoedHeaders } from './headers.ts'
import { malformedProblem } from './malformed.ts'
import { hangUp, type HangUp, type Problem, type Reply } from './respond.ts'
import { bytesOf, respond, respondByStream } from './respond.ts'
import type { Call, Route } from './router.ts'

// What a request and its response take besides head and body: a generous estimate. But 10,000
// connections with ordinary heads must stay within maxHeldBytes.
const REQUEST_BYTES = 4 * 2 ** 10
const STRING_BYTES = 64 // a generous estimate of what a string takes besides its characters

/** A connection of HttpServer, as its exchanges see it. */
export interface ServerConnection {
  readonly keepAlive: number // milliseconds that it is kept while it is idle
  reportUse(): void // marks it as used, recounts what it holds; may reset any connection
}

/** A request over a socket, from its head to its response. */
export class Exchange implements OpenRequest {
  readonly req: IncomingMessage
  readonly res: ServerResponse
  readonly head: RequestHead
  readonly started: number = now()
  readonly remote: string | undefined
  route: Route | undefined
  key: number | undefined
  call: Call | undefined // until its operation has settled, even if the client has left
  readonly #headBytes: number // an estimate of what the head takes in memory
  #buffered: Buffer = NO_BODY // the bytes of the body so far, and room for more
  #streamedBytes = 0 // of a response that is not sent at once
  readonly #service: Service
  // Undefined where a user's own server calls `petstore.listener`.
  readonly #connection: ServerConnection | undefined
  #buffering: Promise<number | Problem> | undefined // see bufferBody()
  #isExpecting: boolean // 100-continue, which is sent only if the body is read
  #isOver = false // there was a response, or there will be none

  constructor(
    service: Service,
    req: IncomingMessage,
    res: ServerResponse,
    connection?: ServerConnection,
  ) {
    this.req = req
    this.res = res
    this.head = { method: req.method ?? '', target: req.url ?? '', headers: req.headers }
    this.#headBytes = this.head.target.length + headerBytes(req.rawHeaders)
    this.#service = service.serviceFor?.(this.head) ?? service
    this.#service.onBegin?.(this.head)
    this.#connection = connection
    this.remote = req.socket.remoteAddress
    // On a user's server, node has sent the 100 already.
    this.#isExpecting =
      connection !== undefined && req.httpVersion === '1.1' && 'expect' in req.headers
  }

  /** What it makes the server hold. */
  get bytesHeld(): number {
    return REQUEST_BYTES + this.#headBytes + this.#buffered.length + this.#streamedBytes
  }

  process(): void {
    const problem = malformedProblem(this.req)
    if (problem) return this.sendLast(this.#service.refuse(problem))
    // Upgrade is ignored (RFC 9110 §7.8), but node drops what follows it.
    if (this.head.headers.upgrade !== undefined) this.res.shouldKeepAlive = false
    const reply = dispatch(this.#service, this)
    if (!(reply instanceof Promise)) return this.#settle(reply)
    this.#connection?.reportUse()
    this.res.on('close', () => this.finish()) // the client may leave meanwhile
    if (this.req.readableFlowing === null) this.req.resume() // else its body hides that it left
    void reply.then((settled) => this.#settle(settled)) // never rejects, like readBody()
  }

  /** Sends the last response of the connection. */
  sendLast(reply: Reply): void {
    this.res.shouldKeepAlive = false
    this.#respond(reply)
    this.#connection?.reportUse()
  }

  #settle(reply: Reply | HangUp): void {
    this.#respond(reply)
    this.#release()
    this.#connection?.reportUse()
  }

  readBody(): Promise<Buffer | Problem> {
    if (this.#isExpecting) this.res.writeContinue()
    this.#isExpecting = false
    return this.bufferBody().then((length) =>
      typeof length === 'string' ? length : this.#buffered.subarray(0, length),
    )
  }

  /**
   * Collects the body in `buffered`. Resolves to its length, and not to the body, which `req` would
   * keep. Drops the rest of one that is too large. Never settles if the client leaves.
   */
  bufferBody(): Promise<number | Problem> {
    this.#buffering ??= new Promise((resolve) => {
      const { req } = this
      const { maxBody } = this.#service
      if (req.readableEnded) return resolve('bodyRead') // by a user's server
      let length = 0
      req.on('data', (chunk: Buffer) => {
        if (this.#isOver) return // it is only discarded
        const start = length
        length += chunk.length
        if (length > maxBody) return resolve('bodyTooLarge')
        const before = this.#buffered
        this.#buffered = append(before, start, chunk, maxBody)
        if (this.#buffered !== before) this.#connection?.reportUse()
      })
      req.on('end', () => {
        if (!this.#isOver) resolve(length) // else it has its response, or was cut off
      })
    })
    return this.#buffering
  }

  /** Reports what became of the request, once. Without a reply, it gets no response. */
  finish(reply?: Reply, bytes?: number): void {
    if (this.#isOver) return
    this.#isOver = true
    reportEnd(this.#service, this, reply, bytes)
    this.#streamedBytes = 0
    this.#endWait()
    if (!this.call) this.#release() // else its operation goes on
  }

  /** Ends an operation that only waits: nobody is left to get its reply. */
  #endWait(): void {
    const onLeave = this.call?.onLeave
    if (!onLeave) return
    this.call = undefined
    onLeave()
  }

  /** Drops the body, which would stay until the response has been read. */
  #release(): void {
    this.#buffered = NO_BODY
    this.call = undefined
  }

  /** Responds, unless the client has left or the request proved malformed in the meantime. */
  #respond(reply: Reply | HangUp): void {
    const { req, res } = this
    if (this.#isOver) return
    if (res.headersSent) return this.finish() // a user's server has responded itself
    if (typeof reply === 'string' || req.socket.destroyed) {
      hangUp(res, typeof reply === 'string' ? reply : 'end')
      return this.finish()
    }
    // Without a 100, the client may send the body or leave it out: nothing tells which.
    if (this.#isExpecting) res.shouldKeepAlive = false
    const headers = echoedHeaders(this.head.headers, this.#service.cors, reply)
    if (reply.stream && req.method !== 'HEAD') {
      return void this.#respondByStream(reply, headers, reply.stream)
    }
    const bytes = respond(res, reply, headers, this.#connection?.keepAlive)
    this.finish(reply, bytes)
  }

  async #respondByStream(
    reply: Reply,
    headers: readonly string[],
    stream: ReadableStream<Uint8Array>,
  ): Promise<void> {
    this.#streamedBytes = bytesOf(reply)
    this.#connection?.reportUse()
    const bytes = await respondByStream(this.res, reply, headers, stream)
    this.finish(reply, bytes)
    this.#connection?.reportUse()
  }
}

/** @param headers Names and values in turn. */
function headerBytes(headers: readonly string[]): number {
  let bytes = STRING_BYTES * headers.length
  for (let at = 0; at < headers.length; at += 2) {
    const name = headers[at] ?? ''
    const value = headers[at + 1] ?? ''
    bytes += 2 * name.length + value.length // node keeps names in lower case, too
  }
  return bytes
}

/** Appends to the first `length` bytes. A list would take much more for chunks of one byte. */
function append(buffer: Buffer, length: number, chunk: Buffer, maxBytes: number): Buffer {
  if (length === 0) return chunk // most bodies arrive as one
  const total = length + chunk.length
  let target = buffer
  if (total > buffer.length) {
    target = Buffer.alloc(Math.min(2 * total, maxBytes))
    buffer.copy(target)
  }
  chunk.copy(target, length)
  return target
}
