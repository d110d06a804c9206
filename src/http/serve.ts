import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import { now } from '../clock.ts'
import type { ErrorName } from '../errors.ts'
import { errorReply, failureReply, headerList, preflightReply, type Reply } from './reply.ts'
import { allowOf, type Request, type Resource, type Route } from './router.ts'

/** What a server serves. */
export interface App {
  readonly base: string // the base path
  readonly find: (path: string) => Resource
  /** The place of a request's key in the list, if it has one, or what is wrong with it. */
  readonly authorize: (request: Request) => number | ErrorName | undefined
  readonly cors: boolean // whether scripts of web pages may call
  readonly maxBody: number
  /** Takes a request that is over. The reply is undefined if the client got none. */
  readonly onEnd: (request: Request, reply: Reply | undefined, bytes: number) => void
  /** Takes the reply to a request that could not be read. */
  readonly onRefused: (reply: Reply, remote: string) => void
}

const NO_BODY: Buffer = Buffer.alloc(0)
const ABSOLUTE_FORM = /^https?:\/\/[^/?#]+\/?/i

/**
 * Serves one request: checks it, carries out its operation, responds, and reports it to `onEnd`.
 *
 * @param isLast Whether the connection ends with the response.
 */
export async function serve(app: App, res: ServerResponse, isLast: () => boolean): Promise<void> {
  const { req } = res
  const { method = '', headers } = req
  const { path, query } = targetOf(req.url ?? '')
  const resource = app.find(path)
  const route = resource.routes.get(method === 'HEAD' ? 'GET' : method)
  const request: Request = {
    operation: route?.operation,
    method,
    path,
    query,
    headers,
    remote: req.socket.remoteAddress ?? '',
    started: now(),
    keyIndex: undefined,
    body: NO_BODY,
  }
  const onLeft = (): void => app.onEnd(request, undefined, 0)
  const respond = (reply: Reply | undefined): void => {
    if (res.destroyed) return // the client has left
    if (!reply || res.headersSent) {
      req.socket.destroy() // then the response closes, too
      return
    }
    const bytes = send(res, reply, app.cors, isLast())
    res.off('close', onLeft)
    app.onEnd(request, reply, bytes)
  }
  res.once('close', onLeft)
  try {
    respond(await replyTo(app, resource, route, request, req))
  } catch (error) {
    respond(failureReply(error))
  }
}

/** RFC 9112 §3.2: in origin-form or in absolute-form. */
function targetOf(url: string): { path: string; query: string } {
  const target = url.startsWith('/') ? url : url.replace(ABSOLUTE_FORM, '/')
  const mark = target.indexOf('?')
  if (mark < 0) return { path: target, query: '' }
  return { path: target.slice(0, mark), query: target.slice(mark + 1) }
}

/** Takes a request through the checks in their order, and through its operation. */
async function replyTo(
  { base, cors, maxBody, authorize }: App,
  { routes, isSecured }: Resource,
  route: Route | undefined,
  request: Request,
  req: IncomingMessage,
): Promise<Reply | undefined> {
  const { method, headers } = request
  // RFC 9112 §3.2
  if (headers.host === undefined && req.httpVersion === '1.1') return errorReply('noHost')

  const key = isSecured ? authorize(request) : undefined
  if (typeof key === 'string') return errorReply(key)
  request.keyIndex = key

  const isOptions = method === 'OPTIONS'
  const isPreflight = isOptions && headers['access-control-request-method'] !== undefined
  if (cors && isPreflight) return preflightReply(headers)
  if (routes.size === 0) return errorReply('noPath', base || '/')
  if (!route) {
    const allow = allowOf(routes.keys())
    if (isOptions) return { status: 204, headers: { allow } }
    return { ...errorReply('badMethod', allow), headers: { allow } }
  }
  if (route.method !== 'POST') return route.handle(request)

  if (!isJson(headers)) return errorReply('badMediaType')
  const isTooLarge = Number(headers['content-length'] ?? 0) > maxBody
  const body = isTooLarge ? undefined : await readBody(req, maxBody)
  if (!body) return errorReply('bodyTooLarge', `${maxBody}`)
  request.body = body
  return route.handle(request)
}

/** Whether the body, if there is one, is sent as JSON. */
function isJson(headers: IncomingHttpHeaders): boolean {
  const { 'content-type': type, 'content-length': length = '0' } = headers
  if (length === '0' && headers['transfer-encoding'] === undefined) return true
  return type === undefined || /^application\/json\s*(?:;|$)/i.test(type)
}

/** Resolves to the body; to undefined if it is too large. */
function readBody(req: IncomingMessage, maxBody: number): Promise<Buffer | undefined> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let length = 0
    req.on('data', (chunk: Buffer) => {
      length += chunk.length
      if (length > maxBody) resolve(undefined)
      else chunks.push(chunk)
    })
    req.on('end', () => resolve(Buffer.concat(chunks)))
    req.on('error', reject) // the client has left, or the server cannot read on
  })
}

/** Sends a response. Returns the bytes of its body. */
function send(res: ServerResponse, reply: Reply, cors: boolean, isLast: boolean): number {
  const { method, socket, headers } = res.req
  const { status, body = '', hangUp } = reply
  const bytes = Buffer.byteLength(body)
  const list = headerList(reply, bytes, headers, cors)
  // After an Upgrade, node's parser takes what comes for the other protocol.
  const isClosing = isLast || headers.upgrade !== undefined
  if (isClosing && reply.headers?.['connection'] === undefined) list.push('connection', 'close')
  res.writeHead(status, list)
  if (hangUp) {
    res.flushHeaders()
    res.write(Buffer.from(body).subarray(0, bytes / 2))
    if (hangUp === 'halfway') socket.destroySoon()
  } else {
    res.end(body, bytes === body.length ? 'latin1' : 'utf8') // Latin-1, if it is ASCII, is faster
  }
  return method === 'HEAD' ? 0 : bytes
}
