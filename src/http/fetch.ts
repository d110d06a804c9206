import { STATUS_CODES } from 'node:http'
import { ReadableStream } from 'node:stream/web'
import { URL } from 'node:url'
import { fetchClasses, nextTurn, now } from '../runtime.ts'
import { Abort, throwIfAborted } from './abort.ts'
import { dispatch, NO_BODY, type OpenRequest, reportEnd } from './dispatch.ts'
import type { RequestHead, Service } from './dispatch.ts'
import { echoedHeaders } from './headers.ts'
import { isHeadTooLarge } from './limits.ts'
import { bytesOf, type HangUp, headersOf, type Problem, type Reply } from './respond.ts'
import type { Route } from './router.ts'

type Fetch = typeof globalThis.fetch
type Input = Parameters<Fetch>[0]
type Init = Parameters<Fetch>[1]

/** The `fetch` of a service: in process, whatever host the URL names. */
export function createFetch(root: Service): Fetch {
  return async function fetch(input, init) {
    const signal = init?.signal ?? (isRequest(input) ? input.signal : undefined)
    throwIfAborted(signal)
    const request = await toRequest(input, init)
    // As over a socket, timers and signals have their turn, however often a client tries again.
    await nextTurn()
    throwIfAborted(signal)
    return new InProcessExchange(root, request, new Abort(signal, input)).respond()
  }
}

/** A request in process, from its head to its response. */
class InProcessExchange implements OpenRequest {
  readonly head: RequestHead
  readonly started: number = now()
  route: Route | undefined
  key: number | undefined
  body: Buffer | undefined
  readonly #request: Request
  readonly #url: string
  readonly #abort: Abort
  readonly #service: Service
  #isOver = false

  constructor(root: Service, request: Request, abort: Abort) {
    const { origin, pathname, search } = new URL(request.url)
    const target = pathname + search
    this.head = { method: request.method, target, headers: Object.fromEntries(request.headers) }
    this.#request = request
    this.#url = origin + target
    this.#abort = abort
    this.#service = root.serviceFor?.(this.head) ?? root
  }

  async respond(): Promise<Response> {
    const { body } = this.#request
    this.#service.onBegin?.(this.head)
    try {
      // If the client leaves, the operation runs to its end, as over a socket.
      const reply = await Promise.race([this.#dispatch(), this.#abort.happened])
      if (body && !body.locked) body.cancel().catch(() => {}) // not awaited: may never settle
      if (typeof reply === 'string') throw connectionError('fetch failed', reply)
      return this.#toResponse(reply)
    } catch (error) {
      this.#finish()
      throw error
    }
  }

  async #dispatch(): Promise<Reply | HangUp> {
    const headers = [...this.#request.headers].flat()
    const isTooLarge = isHeadTooLarge(this.head.target, headers)
    return isTooLarge ? this.#service.refuse('headersTooLarge') : dispatch(this.#service, this)
  }

  /** Reads the body, and cancels what it does not read. */
  async readBody(): Promise<Buffer | Problem> {
    const { maxBody } = this.#service
    const reader = this.#request.body?.getReader()
    if (!reader) return NO_BODY
    const cancel = (reason?: unknown) => reader.cancel(reason).catch(() => {})
    this.#abort.happened.catch(cancel)
    const chunks: Uint8Array[] = []
    let length = 0
    for (;;) {
      const { value } = await reader.read()
      if (!value) break
      length += value.length
      if (value.length > 0) chunks.push(value) // of empty ones, there is no end
      if (length <= maxBody) continue
      void cancel()
      return 'bodyTooLarge'
    }
    this.#abort.throwIfHappened()
    return Buffer.concat(chunks)
  }

  #toResponse(reply: Reply): Response {
    const { status, body = null, stream } = reply
    const { method, headers: sent } = this.head
    const bytes = bytesOf(reply)
    const flat = headersOf(reply, bytes, echoedHeaders(sent, this.#service.cors, reply))
    const { Headers, Response } = fetchClasses()
    const headers = new Headers()
    for (let at = 0; at < flat.length; at += 2) headers.append(flat[at] ?? '', flat[at + 1] ?? '')
    const isHead = method === 'HEAD'
    const isSlow = stream !== undefined && !isHead
    if (!isSlow) this.#finish(reply, isHead ? 0 : bytes)
    const content = isSlow ? this.#relay(reply, stream) : body
    const init = { status, statusText: STATUS_CODES[status] ?? '', headers }
    return withUrl(new Response(isHead ? null : content, init), this.#url)
  }

  /** The stream of a reply as a client sees it. It is read without waiting, as into a socket. */
  #relay(reply: Reply, stream: ReadableStream<Uint8Array>): ReadableStream<Uint8Array> {
    const reader = stream.getReader()
    let bytes = 0
    const pump = async (controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> => {
      for (;;) {
        const { value } = await Promise.race([reader.read(), this.#abort.happened])
        if (!value) break
        bytes += value.length
        controller.enqueue(value)
      }
      this.#finish(reply, bytes)
      controller.close()
    }
    const leave = (): void => {
      this.#finish()
      reader.cancel().catch(() => {})
    }
    return new ReadableStream({
      start: (controller) => {
        this.#abort.happened.catch(leave)
        pump(controller).catch((error) => {
          this.#finish(reply, bytes)
          controller.error(error)
        })
      },
      cancel: leave,
    })
  }

  /** Reports what became of the request, once. Without a reply, it got no response. */
  #finish(reply?: Reply, bytes?: number): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#abort.forget()
    reportEnd(this.#service, this, reply, bytes)
  }
}

function isRequest(input: Input): input is Request {
  return typeof input === 'object' && 'headers' in input
}

/** The signal stays with Abort: a Request follows none that is foreign, and one for ever. */
async function toRequest(input: Input, init: Init): Promise<Request> {
  const { Request } = fetchClasses()
  const { method, headers, body, duplex } = init ?? {}
  const members = Object.entries({ method, headers, body, duplex })
  const given = Object.fromEntries(members.filter(([, value]) => value !== undefined))
  const isForeign = isRequest(input) && !(input instanceof Request)
  const own = isForeign ? await copyOf(input) : input
  return new Request(own, { ...given, signal: null })
}

/** A copy of a Request of another library, such as a polyfill. */
async function copyOf(foreign: Request): Promise<Request> {
  const { Request } = fetchClasses()
  const { url, method, headers } = foreign
  const hasBody = method !== 'GET' && method !== 'HEAD'
  const body = hasBody ? await foreign.arrayBuffer() : null
  return new Request(url, { method, headers: [...headers], body })
}

function withUrl(response: Response, url: string): Response {
  const clone = response.clone.bind(response)
  return Object.defineProperties(response, {
    url: { value: url },
    clone: { value: () => withUrl(clone(), url) },
  })
}

/** The error by which node's own fetch reports that the server closed the connection. */
export function connectionError(message: string, how: HangUp = 'end'): TypeError {
  const [reason, code] =
    how === 'end' ? ['other side closed', 'UND_ERR_SOCKET'] : ['read ECONNRESET', 'ECONNRESET']
  return new TypeError(message, { cause: Object.assign(new Error(reason), { code }) })
}
