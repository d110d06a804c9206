import type { IncomingHttpHeaders, OutgoingHttpHeader } from 'node:http'
import { codeOf, type ErrorName, type ErrorRow, ERRORS, isErrorName, messageOf } from '../errors.ts'

/** By lower-case names. */
export type Headers = Readonly<Record<string, OutgoingHttpHeader>>

/** What an operation returns: a response without its connection. */
export interface Reply {
  readonly status: number
  readonly headers?: Headers // they replace the common ones of the same name
  readonly body?: string // left out if the response has no content
  readonly error?: { readonly code: string; readonly message: string } // in the body
  readonly cause?: unknown // of the failure, for the log alone
  readonly hangUp?: 'halfway' | 'stalled' // what a test does to the connection
}

/** The reply for an error of the table. */
export function errorReply(name: ErrorName, detail = ''): Reply {
  const { status, code, message: text, headers = {} }: ErrorRow = ERRORS[name]
  const message = text.replace('%s', () => detail)
  const body = JSON.stringify({ code, message, status })
  return { status, headers, body, error: { code, message } }
}

/** The reply for whatever was thrown on the way of a request. */
export function failureReply(error: unknown): Reply {
  const code = codeOf(error)
  const other = code.startsWith('HPE_') ? 'badSyntax' : 'bug' // HPE_: from node's parser
  const reply = errorReply(isErrorName(code) ? code : other, messageOf(error))
  return reply.status < 500 ? reply : { ...reply, cause: error }
}

const REQUEST_ID = /^[A-Za-z0-9._-]{1,128}$/

/** The request id that a proxy sent, if it is safe to log and to send back. */
export function requestIdOf({ 'x-request-id': value }: IncomingHttpHeaders): string | undefined {
  return typeof value === 'string' && REQUEST_ID.test(value) ? value : undefined
}

/**
 * The headers of a response: those of its reply, and the common ones.
 *
 * @param bytes The length of the body.
 * @param requestHeaders The headers of the request.
 * @param cors Whether scripts of web pages may call.
 * @returns Name, value, name, value …: node sends such a list much faster than an object.
 */
export function headerList(
  { headers = {}, body }: Reply,
  bytes: number,
  requestHeaders: IncomingHttpHeaders,
  cors: boolean,
): OutgoingHttpHeader[] {
  const list: OutgoingHttpHeader[] = []
  const add = (name: string, value: OutgoingHttpHeader): void => {
    if (headers[name] === undefined) list.push(name, value)
  }
  add('cache-control', 'no-store')
  add('x-content-type-options', 'nosniff')
  if (body !== undefined) {
    add('content-type', 'application/json')
    add('content-length', bytes)
  }
  const requestId = requestIdOf(requestHeaders)
  if (requestId !== undefined) add('x-request-id', requestId)
  if (cors) {
    for (const [name, value] of Object.entries(corsHeaders(requestHeaders))) add(name, value)
  }
  for (const [name, value] of Object.entries(headers)) list.push(name, value)
  return list
}

const EXPOSED = 'Allow, Date, Link, Location, Retry-After, Sunset, WWW-Authenticate, X-Request-Id'
const MAX_AGE = '7200' // seconds, the most that Chromium honours

function corsHeaders({ origin }: IncomingHttpHeaders): Headers {
  if (origin === undefined) return { vary: 'Origin' }
  return {
    vary: 'Origin',
    'access-control-allow-origin': origin,
    'access-control-allow-credentials': 'true',
    'access-control-expose-headers': EXPOSED,
  }
}

/** Allows what a preflight asks for at every path, so that a script sees the 404 itself. */
export function preflightReply(requestHeaders: IncomingHttpHeaders): Reply {
  const headers = {
    'access-control-allow-methods': requestHeaders['access-control-request-method'] ?? '',
    'access-control-allow-headers': requestHeaders['access-control-request-headers'] ?? '',
    'access-control-max-age': MAX_AGE,
  }
  return { status: 204, headers }
}
