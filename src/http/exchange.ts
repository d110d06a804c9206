import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { dispatch, type RequestHead, type Service } from './dispatch.ts'
import { echoedHeaders } from './headers.ts'
import { malformedProblem } from './malformed.ts'
import { respond } from './respond.ts'
import type { Handler, Route } from './router.ts'

/** What an exchange needs of our own server. */
type OwnServer = { options: { keepAlive: number }; onResponse(socket: Socket): void }

export class Exchange {
  readonly req: IncomingMessage
  readonly res: ServerResponse
  readonly #head: RequestHead
  readonly #service: Service
  readonly #server: OwnServer | undefined
  readonly #started: number
  #route: Route | undefined
  #content: Buffer | undefined

  /** @param server Our own; absent on a user's. */
  constructor(service: Service, req: IncomingMessage, res: ServerResponse, server?: OwnServer) {
    this.#head = { method: req.method ?? '', target: req.url ?? '', headers: req.headers }
    this.req = req
    this.res = res
    this.#service = service
    this.#server = server
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
    const { route, wantsBody, reply } = dispatch(this.#service, this.#head)
    this.#route = route
    if (!wantsBody) return this.send(reply(), isExpecting)
    if (isExpecting) this.res.writeContinue()
    this.#readBody((body) => this.send(reply(body)))
  }

  /** Sends the response, unless one was sent: a request can prove broken while its operation still runs. */
  send(reply: ReturnType<Handler>, isLast = false): void {
    const { req, res } = this
    if (reply instanceof Promise) return void reply.then((settled) => this.send(settled, isLast))
    if (res.headersSent) return
    if (reply === undefined) req.socket.destroy()
    if (reply === undefined || req.socket.destroyed) return this.#record(undefined, 0)
    if (isLast) res.shouldKeepAlive = false
    const headers = echoedHeaders(this.#head.headers, this.#service.cors)
    const bytes = respond(res, reply, headers, this.#server?.options.keepAlive)
    this.#server?.onResponse(req.socket)
    this.#record(reply.status, bytes)
  }

  /** Reads the body. One that grows too large is refused at once, and its rest read and dropped within requestTimeout. */
  #readBody(done: (body: Buffer) => void): void {
    const { req, res } = this
    const { maxBody, refuse } = this.#service
    const chunks: Buffer[] = []
    let length = 0
    req.on('data', (chunk: Buffer) => {
      length += chunk.length
      if (length <= maxBody) chunks.push(chunk)
      else this.send(refuse('bodyTooLarge', `${maxBody}`))
    })
    req.on('end', () => {
      if (!res.headersSent) done((this.#content = Buffer.concat(chunks)))
    })
    req.on('close', () => {
      if (!req.complete && !res.headersSent) this.#record(undefined, 0) // the connection ended within the body
    })
  }

  #record(status: number | undefined, bytes: number): void {
    const { record } = this.#service
    if (record === undefined || this.#route?.isQuiet) return
    const ms = performance.now() - this.#started
    const remote = this.req.socket.remoteAddress
    record({ head: this.#head, operation: this.#route?.operation, content: this.#content, status, ms, bytes, remote })
  }
}
