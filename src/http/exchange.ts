import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { dispatch, type Dispatched, type RequestHead, type Service } from './dispatch.ts'
import { echoedHeaders } from './headers.ts'
import { type Awaitable, contentLengthOf, type Reply } from './reply.ts'
import { respond } from './respond.ts'

/** What an exchange asks of its server, if that is one of our own. */
export interface ServerHooks {
  /** Seconds that an idle connection is kept. */
  readonly keepAlive: number
  /** Called after a response that may have to wait for its client to read on. */
  onLongResponse(socket: Socket): void
}

/** The request listener of a service, for any node:http server. */
export function createListener(service: Service): (req: IncomingMessage, res: ServerResponse) => void {
  return (req, res) => new Exchange(service, req, res).process()
}

/** One request to a node:http server and its response. */
export class Exchange {
  readonly req: IncomingMessage
  readonly res: ServerResponse
  isLast = false
  readonly #head: RequestHead
  readonly #service: Service
  readonly #hooks: ServerHooks | undefined
  readonly #started: number
  #dispatched: Dispatched | undefined
  #content: Buffer | undefined

  constructor(service: Service, req: IncomingMessage, res: ServerResponse, hooks?: ServerHooks) {
    this.#head = { method: req.method ?? '', target: req.url ?? '', headers: req.headers }
    this.req = req
    this.res = res
    this.#service = service
    this.#hooks = hooks
    this.#started = service.record === undefined ? 0 : performance.now()
  }

  get isInFlight(): boolean {
    return !this.res.writableFinished
  }

  /** Takes the request to its response; a client that expects 100-continue gets it only if the body is wanted. */
  process(isExpecting = false): void {
    const dispatched = dispatch(this.#service, this.#head)
    this.#dispatched = dispatched
    if (!dispatched.wantsBody) return this.#settle(dispatched.reply(), isExpecting)
    if (isExpecting) this.res.writeContinue()
    this.#readBody((body) => this.#settle(dispatched.reply(body), false))
  }

  /** Sends the response, unless one was sent: a request can prove broken while its operation still runs. */
  send(reply: Reply, close: boolean): void {
    const { req, res } = this
    if (res.headersSent) return
    if (reply.breaksOff === 'before') req.socket.destroy()
    if (req.socket.destroyed) return this.#record(undefined, 0)
    this.isLast ||= close || res.shouldKeepAlive === false // HTTP/2 has no such member
    const toHead = this.#head.method === 'HEAD'
    const headers = echoedHeaders(this.#head.headers, this.#service.cors)
    const delivery = { headers, isLast: this.isLast, toHead, keepAlive: this.#hooks?.keepAlive }
    if (respond(res, reply, delivery)) this.#hooks?.onLongResponse(req.socket)
    this.#record(reply.status, toHead ? 0 : contentLengthOf(reply))
  }

  #settle(reply: Awaitable<Reply>, close: boolean): void {
    if (reply instanceof Promise) void reply.then((settled) => this.send(settled, close))
    else this.send(reply, close)
  }

  /** Reads the body. One that grows too large is refused at once; the rest is read and dropped, within requestTimeout. */
  #readBody(done: (body: Buffer) => void): void {
    const { req, res } = this
    const { maxBody, refuse } = this.#service
    const chunks: Buffer[] = []
    let length = 0
    req.on('data', (chunk: Buffer) => {
      length += chunk.length
      if (length <= maxBody) chunks.push(chunk)
      else this.send(refuse('bodyTooLarge', `${maxBody}`), false)
    })
    req.on('end', () => {
      if (res.headersSent) return
      this.#content = Buffer.concat(chunks)
      done(this.#content)
    })
    if (this.#service.record !== undefined) req.on('close', () => this.#onClose())
  }

  /** Records a request whose connection ended before all of its body had come. */
  #onClose(): void {
    if (!this.req.complete && !this.res.headersSent) this.#record(undefined, 0)
  }

  #record(status: number | undefined, bytes: number): void {
    const { record } = this.#service
    const route = this.#dispatched?.route
    if (record === undefined || route?.isQuiet) return
    record({
      head: this.#head,
      operation: route?.operation,
      content: this.#content,
      status,
      ms: performance.now() - this.#started,
      bytes,
      remote: this.req.socket.remoteAddress,
    })
  }
}
