import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import { contentTooLarge } from './body.ts'
import type { RequestHead, Verdict } from './dispatch.ts'
import { rawAnswer, textOf } from './raw.ts'
import { EVERY_ANSWER, halfOf, lengthOf, ownLines, type Reply } from './reply.ts'
import type { Answer } from './router.ts'

/** What became of a request. */
export interface Outcome {
  /** Absent where the request could not be read. */
  readonly head?: RequestHead
  readonly operation?: string | undefined
  /** The content that was read of the request; absent where none was wanted. */
  readonly content?: Uint8Array | undefined
  /** Absent where the connection ended before an answer. */
  readonly status?: number | undefined
  /** When it was answered, in milliseconds since 1970. */
  readonly time: number
  /** Milliseconds from the head of the request to its answer. */
  readonly ms: number
  /** Bytes of content in the answer. */
  readonly bytes: number
  readonly remote?: string | undefined
}

/** What answers requests, whichever way they come in: over a socket, through a user's own server, in process. */
export interface Service {
  dispatch: (head: RequestHead) => Verdict
  /** The field lines of an answer that depend on the request's. */
  echo: (headers: IncomingHttpHeaders) => readonly string[]
  /** Bytes that a body may have. */
  maxBody: number
  /** Told of every request; nothing is gathered where it is absent. */
  record: ((outcome: Outcome) => void) | undefined
}

const NO_CONTENT = Buffer.alloc(0)
// What stands, for `headersSent`, in the place of an answer that was handed to node: a connection keeps its latest one.
const SENT = 'sent'
// What may have to wait for its client to read on: the system takes a shorter answer, if it takes anything.
export const LONG_BYTES: number = 16 * 1024

/** The request listener of a {@link Service}, for any node:http server. */
export function createListener(service: Service): (req: IncomingMessage, res: ServerResponse) => void {
  return (req, res) => new Exchange(service, req, res).process()
}

/** What an exchange asks of its server, where that is one of this package. */
export interface Owner {
  /** The field lines of an answer that keep its connection. */
  readonly keepAliveLines: string
  /** Told of a long answer, which may have to wait for its client to read on. */
  hold(exchange: Exchange): void
}

/** One request to a node:http server, from its head to its answer. */
export class Exchange implements RequestHead {
  readonly method: string
  readonly target: string
  readonly headers: IncomingHttpHeaders
  readonly req: IncomingMessage
  readonly res: ServerResponse
  /** Its answer says `Connection: close`: the client takes no request behind it for processed (RFC 9112 §9.6). */
  isLast = false
  /** Present where nobody else stands between its response and the socket. */
  owner: Owner | undefined
  readonly #service: Service
  readonly #started: number
  #verdict: Verdict | undefined
  #content: Uint8Array | undefined
  #isRecorded = false

  constructor(service: Service, req: IncomingMessage, res: ServerResponse) {
    const { method = '', url: target = '', headers } = req
    this.#service = service
    this.req = req
    this.res = res
    this.method = method
    this.target = target
    this.headers = headers
    this.#started = service.record === undefined ? 0 : performance.now()
  }

  /** Leads the request to its answer; one that is `expecting` is told to go on only when its body is wanted. */
  process(isExpecting = false): void {
    const verdict = this.#service.dispatch(this)
    this.#verdict = verdict
    if (!verdict.wantsBody) return this.#finish(verdict.answer(), isExpecting)
    if (isExpecting) this.res.writeContinue()
    this.#readBody((body) => this.#finish(verdict.answer(body), false))
  }

  /** Answers the request, unless it is answered: one that proves broken is, while its operation still runs. */
  send(reply: Reply, close: boolean): void {
    const { req, res } = this
    if (res.headersSent) return
    if (reply.breaksOff === 'before') req.socket.destroy()
    if (req.socket.destroyed) return this.#record(undefined, 0)
    const length = lengthOf(reply)
    const time = Date.now()
    this.isLast ||= close || res.shouldKeepAlive === false
    const echo = this.#service.echo(this.headers)
    if (this.owner !== undefined && '_header' in res && !this.isLast && this.#isWhole(reply, length)) {
      // In one piece with a head of our own: by writeHead and end, the head takes 5 % of a request more, and to send it apart 5 %.
      res.statusCode = reply.status
      res._header = rawAnswer(reply, length, `${textOf(echo)}${this.owner.keepAliveLines}`, time)
      res.end()
      res._header = SENT
    } else {
      const more = this.isLast ? ['Connection', 'close'] : []
      res.writeHead(reply.status, [...ownLines(reply, length), ...EVERY_ANSWER, ...echo, ...more])
      this.#end(reply, length)
    }
    this.#record(reply.status, this.method === 'HEAD' ? 0 : length, time)
  }

  /** Whether an answer is short and a text, and all of it is to be sent. */
  #isWhole(reply: Reply, length: number): reply is Reply & { body: string } {
    const { body, breaksOff } = reply
    return typeof body === 'string' && length <= LONG_BYTES && breaksOff === undefined && this.method !== 'HEAD'
  }

  #end(reply: Reply, length: number): void {
    const { req, res } = this
    if (reply.breaksOff === 'within') {
      res.flushHeaders() // that of an answer to HEAD goes out with no content
      res.write(halfOf(reply), () => req.socket.destroySoon())
    } else if (length > LONG_BYTES) {
      res.end(typeof reply.body === 'string' ? Buffer.from(reply.body) : reply.body) // a string would be held twice
      this.owner?.hold(this)
    } else {
      res.end(reply.body)
    }
  }

  #finish(reply: Answer, close: boolean): void {
    if (reply instanceof Promise) void reply.then((settled) => this.send(settled, close))
    else this.send(reply, close)
  }

  /** Gathers the body; one that grows too large is answered at once, and its rest read within requestTimeout and dropped. */
  #readBody(done: (body: Buffer) => void): void {
    const { req, res } = this
    const { maxBody } = this.#service
    const chunks: Buffer[] = []
    let length = 0
    req.on('data', (chunk: Buffer) => {
      length += chunk.length
      if (length <= maxBody) chunks.push(chunk)
      else if (!res.headersSent) this.send(contentTooLarge(maxBody), false)
    })
    req.on('end', () => {
      if (res.headersSent) return
      const [only = NO_CONTENT, ...more] = chunks
      const body = more.length === 0 ? only : Buffer.concat(chunks)
      this.#content = body
      done(body)
    })
    if (this.#service.record !== undefined && this.owner === undefined) req.on('close', () => this.leave())
  }

  /** Told that the connection ended: records the request if its body was still coming, and had no answer. */
  leave(): void {
    if (this.#verdict?.wantsBody && !this.req.complete && !this.res.headersSent) this.#record(undefined, 0)
  }

  #record(status: number | undefined, bytes: number, time: number = Date.now()): void {
    const { record } = this.#service
    if (record === undefined || this.#isRecorded || this.#verdict?.route?.isQuiet) return
    this.#isRecorded = true
    record({
      head: this,
      operation: this.#verdict?.route?.operation,
      content: this.#content,
      status,
      time,
      ms: performance.now() - this.#started,
      bytes,
      remote: this.req.socket.remoteAddress,
    })
  }
}
