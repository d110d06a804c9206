import { once } from 'node:events'
import { STATUS_CODES } from 'node:http'
import { dispatch, type OpenRequest, reportEnd, type Service } from './dispatch.ts'
import { echoedHeaders } from './headers.ts'
import { isHeadTooLarge } from './limits.ts'
import { bytesOf, headersOf, type Reply } from './respond.ts'

// Keeps requests alive: the signal of a garbage-collected Request no longer follows the caller's.
const inFlight = new Set<Request>()

/** The `fetch` of a service: in process, whatever host the URL names. */
export function createFetch(root: Service): typeof globalThis.fetch {
  return async function fetch(input, init) {
    const request = new Request(input, init)
    const { method, signal } = request
    signal.throwIfAborted()
    const { origin, pathname, search } = new URL(request.url)
    const target = pathname + search
    const headers = Object.fromEntries(request.headers)
    const head = { method, target, headers }
    const service = root.serviceFor?.(head) ?? root
    const readBody = () => readBytes(request, service.maxBody)
    const openRequest: OpenRequest = { head, started: performance.now(), readBody }
    const isTooLarge = isHeadTooLarge(target, [...request.headers].flat())
    let reply: Reply | undefined
    inFlight.add(request)
    service.onBegin?.(head)
    try {
      const handled = isTooLarge
        ? service.refuse('headersTooLarge')
        : dispatch(service, openRequest)
      // If the client leaves, the operation runs to its end, as over a socket.
      await Promise.race([handled, once(signal, 'abort')])
      signal.throwIfAborted()
      reply = await handled
    } finally {
      inFlight.delete(request)
      reportEnd(service, openRequest, reply, reply && method !== 'HEAD' ? bytesOf(reply) : 0)
    }
    if (!request.bodyUsed) request.body?.cancel().catch(() => {}) // not awaited: may never settle
    if (!reply) throw connectionError('fetch failed')
    const response = toResponse(reply, method, echoedHeaders(headers, service.cors))
    return Object.defineProperty(response, 'url', { value: origin + target })
  }
}

/** The bytes of a body; undefined if there are too many. Cancels what it does not read. */
async function readBytes({ body, signal }: Request, maxBytes: number): Promise<Buffer | undefined> {
  const chunks: Uint8Array[] = []
  let length = 0
  // The signal ends a stream that is piped with it, but not request.body itself.
  for await (const chunk of body?.pipeThrough(new TransformStream(), { signal }) ?? []) {
    length += chunk.length
    if (length > maxBytes) return undefined
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

function toResponse(reply: Reply, method: string, echoed: readonly string[]): Response {
  const flat = headersOf(reply, bytesOf(reply), echoed)
  const headers = new Headers()
  for (let at = 0; at < flat.length; at += 2) headers.append(flat[at] ?? '', flat[at + 1] ?? '')
  const { status, body = null, contentLength } = reply
  const isCut = body !== null && contentLength !== undefined
  const content = isCut ? ReadableStream.from(breakOff(body)) : body
  const init = { status, statusText: STATUS_CODES[status] ?? '', headers }
  return new Response(method === 'HEAD' ? null : content, init)
}

async function* breakOff(body: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(body)
  throw connectionError('terminated')
}

/** The error by which node's own fetch reports that the server closed the connection. */
export function connectionError(message: string): TypeError {
  const cause = Object.assign(new Error('other side closed'), { code: 'UND_ERR_SOCKET' })
  return new TypeError(message, { cause })
}
