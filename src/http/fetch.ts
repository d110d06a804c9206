import { STATUS_CODES } from 'node:http'
import { dispatch, done, type RequestHead, type Service } from './dispatch.ts'
import { echoedHeaders } from './headers.ts'
import { LIMITS } from './limits.ts'
import { contentLengthOf, headersOf, type Reply } from './reply.ts'

/** The `fetch` of a service: it answers requests in process, whatever host their URL names. */
export function createFetch(service: Service): typeof globalThis.fetch {
  return async function fetch(input, init) {
    const request = new Request(input, init)
    const { method, signal, url } = request
    signal.throwIfAborted()
    const { origin, pathname, search } = new URL(url)
    const head = { method, target: pathname + search, headers: Object.fromEntries(request.headers), signal }
    const reply = await serve(service, head, request)
    if (reply === undefined) throw connectionError('fetch failed')
    const response = toResponse(reply, method, echoedHeaders(head.headers, service.cors))
    return Object.defineProperty(response, 'url', { value: origin + head.target })
  }
}

async function serve(service: Service, head: RequestHead, request: Request): Promise<Reply | undefined> {
  const started = performance.now()
  const { maxBody, refuse, record } = service
  const isOver = Object.keys(head.headers).length > LIMITS.headers
  const { route, reply: replyTo, wantsBody } = isOver ? done(refuse('headersTooLarge')) : dispatch(service, head)
  let content: Buffer | undefined
  let reply: Reply | undefined
  try {
    if (wantsBody) content = await readBody(request, maxBody)
    else await request.body?.cancel()
    const replied = wantsBody && content === undefined ? refuse('bodyTooLarge', `${maxBody}`) : await replyTo(content)
    request.signal.throwIfAborted()
    return (reply = replied)
  } finally {
    const ms = performance.now() - started
    const bytes = reply === undefined || head.method === 'HEAD' ? 0 : contentLengthOf(reply)
    if (!route?.isQuiet) record?.({ head, operation: route?.operation, content, status: reply?.status, ms, bytes })
  }
}

/** The bytes of a body; undefined if there are too many. What is not read is cancelled. */
async function readBody({ body, signal }: Request, maxBytes: number): Promise<Buffer | undefined> {
  const chunks: Uint8Array[] = []
  let length = 0
  for await (const chunk of body?.pipeThrough<Uint8Array>(new TransformStream(), { signal }) ?? []) {
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
  const content = body !== null && contentLength !== undefined ? ReadableStream.from(breakOff(body)) : body
  return new Response(method === 'HEAD' ? null : content, { status, statusText: STATUS_CODES[status] ?? '', headers })
}

async function* breakOff(body: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(body)
  throw connectionError('terminated')
}

/** The error by which node's own fetch reports that the server closed the connection. */
function connectionError(message: string): TypeError {
  return new TypeError(message, { cause: Object.assign(new Error('other side closed'), { code: 'UND_ERR_SOCKET' }) })
}
