import { http } from '../builtins.ts'
import { contentTooLarge } from './body.ts'
import type { RequestHead } from './dispatch.ts'
import type { Service } from './exchange.ts'
import { EVERY_ANSWER, halfOf, lengthOf, ownLines, type Reply } from './reply.ts'

/** The `fetch` of a {@link Service}: requests are answered in process, whatever host their URL names. */
export function createFetch(service: Service): typeof globalThis.fetch {
  return async function fetch(input, init) {
    const request = new Request(input, init)
    const { method, signal, url } = request
    signal.throwIfAborted()
    const { origin, pathname, search } = new URL(url)
    const head = { method, target: pathname + search, headers: Object.fromEntries(request.headers), signal }
    const reply = await Promise.race([serve(service, head, request), rejectedBy(signal)])
    if (reply.breaksOff === 'before') throw failure('fetch failed')
    return Object.defineProperty(toResponse(reply, method, service.echo(head.headers)), 'url', {
      value: origin + head.target,
    })
  }
}

async function serve(service: Service, head: RequestHead, request: Request): Promise<Reply> {
  const started = performance.now()
  const { route, answer, wantsBody } = service.dispatch(head)
  let content: Buffer | undefined
  let reply: Reply | undefined
  try {
    if (wantsBody) content = await readBody(request, service.maxBody)
    else await request.body?.cancel()
    reply = wantsBody && content === undefined ? contentTooLarge(service.maxBody) : await answer(content)
    return reply
  } finally {
    const isAnswered = reply !== undefined && reply.breaksOff !== 'before' && !request.signal.aborted
    if (!route?.isQuiet) {
      service.record?.({
        head,
        operation: route?.operation,
        content,
        status: isAnswered ? reply?.status : undefined,
        time: Date.now(),
        ms: performance.now() - started,
        bytes: reply === undefined || !isAnswered || head.method === 'HEAD' ? 0 : lengthOf(reply),
      })
    }
  }
}

/** The body's bytes; undefined for more than there may be. What is not read is cancelled. */
async function readBody({ body, signal }: Request, maxBytes: number): Promise<Buffer | undefined> {
  const chunks: Uint8Array[] = []
  if (body === null) return Buffer.concat(chunks)
  const reader = body.getReader()
  const cancel = () => void reader.cancel(signal.reason).catch(() => {})
  signal.addEventListener('abort', cancel)
  let length = 0
  for (;;) {
    const { done, value } = await reader.read()
    signal.throwIfAborted() // a cancelled body ends as a whole one does
    if (done) return Buffer.concat(chunks)
    length += value.length
    if (length > maxBytes) return cancel()
    chunks.push(value)
  }
}

function rejectedBy(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
}

function toResponse(reply: Reply, method: string, echo: readonly string[]): Response {
  const lines = [...ownLines(reply, lengthOf(reply)), ...EVERY_ANSWER, ...echo]
  const headers = new Headers()
  for (let at = 0; at < lines.length; at += 2) headers.append(lines[at] ?? '', lines[at + 1] ?? '')
  const content = reply.breaksOff === 'within' ? brokenStream(halfOf(reply)) : reply.body
  return new Response(method === 'HEAD' ? null : (content ?? null), {
    status: reply.status,
    statusText: http.STATUS_CODES[reply.status] ?? '',
    headers,
  })
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
