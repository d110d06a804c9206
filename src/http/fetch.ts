import { contentTooLarge } from './body.ts'
import type { RequestHead } from './dispatch.ts'
import type { Service } from './exchange.ts'
import { fieldLines, halfOf, lengthOf, type Reply } from './reply.ts'

/** The `fetch` of a {@link Service}: requests are answered in process, whatever host their URL names. */
export function createFetch(service: Service): typeof globalThis.fetch {
  return async function fetch(input, init) {
    const request = new Request(input, init)
    const { method, signal } = request
    signal.throwIfAborted()
    const { pathname, search } = new URL(request.url)
    const head = { method, target: pathname + search, headers: Object.fromEntries(request.headers) }
    const reply = await Promise.race([serve(service, head, request), rejectedBy(signal)])
    if (reply.breaksOff === 'before') throw failure('fetch failed')
    return toResponse(reply, method, service.echo(head.headers))
  }
}

async function serve(service: Service, head: RequestHead, request: Request): Promise<Reply> {
  const started = performance.now()
  const { route, answer, wantsBody } = service.dispatch(head)
  const content = wantsBody ? await readBody(request, service.maxBody) : undefined
  const reply = wantsBody && content === undefined ? contentTooLarge(service.maxBody) : await answer(content)
  const isLost = reply.breaksOff === 'before'
  if (!route?.isQuiet) {
    service.record?.({
      head,
      operation: route?.operation,
      content,
      status: isLost ? undefined : reply.status,
      ms: performance.now() - started,
      bytes: isLost || head.method === 'HEAD' ? 0 : lengthOf(reply),
    })
  }
  return reply
}

/** The body's bytes; undefined for more than there may be, of which the rest is not read. */
async function readBody({ body }: Request, maxBytes: number): Promise<Uint8Array | undefined> {
  const chunks: Uint8Array[] = []
  let length = 0
  for await (const chunk of body ?? []) {
    length += chunk.length
    if (length > maxBytes) return undefined
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

function rejectedBy(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
}

function toResponse(reply: Reply, method: string, echo: readonly string[]): Response {
  const lines = fieldLines(reply, lengthOf(reply), echo)
  const headers = new Headers()
  for (let at = 0; at < lines.length; at += 2) headers.append(lines[at] ?? '', lines[at + 1] ?? '')
  const content = reply.breaksOff === 'within' ? brokenStream(halfOf(reply)) : reply.body
  return new Response(method === 'HEAD' ? null : (content ?? null), { status: reply.status, headers })
}

function brokenStream(content: Uint8Array): ReadableStream<Uint8Array> {
  const chunks = [content]
  return new ReadableStream({
    pull(controller) {
      const chunk = chunks.pop()
      if (chunk === undefined) controller.error(failure('terminated'))
      else controller.enqueue(chunk)
    },
  })
}

/** The error with which node's own fetch tells that the server closed the connection. */
function failure(message: string): TypeError {
  return new TypeError(message, { cause: Object.assign(new Error('other side closed'), { code: 'UND_ERR_SOCKET' }) })
}
