import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { dispatch, type Dispatched, type RequestHead, type Service } from './dispatch.ts'
import { echoedHeaders } from './headers.ts'
import { malformedProblem } from './malformed.ts'
import { type Awaitable, type Reply } from './reply.ts'
import { respond } from './respond.ts'

/** What an exchange needs of the connections of our own server. */
type OwnConnections = { options: { keepAlive: number }; onResponse: (socket: Socket) => void }

/** The request listener of a service, for any node:http server. */
export function createListener(service: Service): (req: IncomingMessage, res: ServerResponse) => void {
  return (req, res) => new Exchange(service, req, res).process()
}

export class Exchange {
  readonly req: IncomingMessage
  readonly res: ServerResponse
  readonly #head: RequestHead
  readonly #service: Service
  readonly #connections: OwnConnections | undefined
  readonly #started: number
  #dispatched: Dispatched | undefined
  #content: Buffer | undefined

  /** @param connections Those of our own server; absent in a user's. */
  constructor(service: Service, req: IncomingMessage, res: ServerResponse, connections?: OwnConnections) {
    this.#head = { method: req.method ?? '', target: req.url ?? '', headers: req.headers }
    this.req = req
    this.res = res
    this.#service = service
    this.#connections = connections
    this.#started = service.record === undefined ? 0 : performance.now()
  }

  get isInFlight(): boolean {
    return !this.res.writableFinished
  }

  /** Takes the request to its response; a client that expects 100-continue gets it only if the body is wanted. */
  process(isExpecting = false): void {
    // HTTP/2 has rules of its own, which node keeps.
    const problem = 'stream' in this.req ? undefined : malformedProblem(this.req)
    if (problem !== undefined) return this.send(this.#service.refuse(problem), true)
    const dispatched = (this.#dispatched = dispatch(this.#service, this.#head))
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
    if (close) res.shouldKeepAlive = false
    const headers = echoedHeaders(this.#head.headers, this.#service.cors)
    const bytes = respond(res, reply, headers, this.#connections?.options.keepAlive)
    this.#connections?.onResponse(req.socket)
    this.#record(reply.status, bytes)
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
    req.on('close', () => {
      if (!req.complete && !res.headersSent) this.#record(undefined, 0) // the connection ended within the body
    })
  }

  #record(status: number | undefined, bytes: number): void {
    const { record } = this.#service
    const route = this.#dispatched?.route
    if (record === undefined || route?.isQuiet) return
    const ms = performance.now() - this.#started
    const remote = this.req.socket.remoteAddress
    record({ head: this.#head, operation: route?.operation, content: this.#content, status, ms, bytes, remote })
  }
}
