import { STATUS_CODES } from 'node:http'
import { handle, type Received, record, type RequestHead, type Service } from './dispatch.ts'
import { echoedHeaders } from './headers.ts'
import { LIMITS } from './limits.ts'
import { contentLengthOf, headersOf, type Reply } from './respond.ts'

/** The `fetch` of a service: it answers requests in process, whatever host their URL names. */
export function createFetch(service: Service): typeof globalThis.fetch {
  return async function fetch(input, init) {
    const request = new Request(input, init)
    const { method, signal, url } = request
    signal.throwIfAborted()
    const { origin, pathname, search } = new URL(url)
    const headers = Object.fromEntries(request.headers)
    const head = { method, target: pathname + search, headers, signal }
    const reply = await serve(service, head, request)
    if (reply === undefined) throw connectionError('fetch failed')
    const response = toResponse(reply, method, echoedHeaders(headers, service.cors))
    return Object.defineProperty(response, 'url', { value: origin + head.target })
  }
}

/** Resolves to undefined to hang up. Rejects if the request is aborted or its body breaks. */
async function serve(
  service: Service,
  head: RequestHead,
  request: Request,
): Promise<Reply | undefined> {
  const readBody = () => readBytes(request, service.maxBody)
  const started = performance.now()
  const received: Received = { head, started, readBody }
  const isOver = Object.keys(head.headers).length > LIMITS.headers
  let reply: Reply | undefined
  try {
    const handled = isOver ? service.refuse('headersTooLarge') : await handle(service, received)
    if (!request.bodyUsed) request.body?.cancel().catch(() => {}) // may never settle
    request.signal.throwIfAborted()
    reply = handled
  } finally {
    const bytes = reply === undefined || head.method === 'HEAD' ? 0 : contentLengthOf(reply)
    record(service, received, { reply, bytes })
  }
  return reply
}

/** The bytes of a body; undefined if there are too many. Cancels what it does not read. */
async function readBytes({ body, signal }: Request, maxBytes: number): Promise<Buffer | undefined> {
  const chunks: Uint8Array[] = []
  let length = 0
  for await (const chunk of body?.pipeThrough<Uint8Array>(new TransformStream(), { signal }) ??
    []) {
    length += chunk.length
    if (length > maxBytes) return undefined
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

function toResponse(reply: Reply, method: string, echoed: readonly string[]): Response {
  const lines = [...headersOf(reply, contentLengthOf(reply)), ...echoed]
  const headers = new Headers()
  for (let at = 0; at < lines.length; at += 2) headers.append(lines[at] ?? '', lines[at + 1] ?? '')
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
function connectionError(message: string): TypeError {
  const cause = Object.assign(new Error('other side closed'), { code: 'UND_ERR_SOCKET' })
  return new TypeError(message, { cause })
}
