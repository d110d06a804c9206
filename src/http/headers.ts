import type { IncomingHttpHeaders } from 'node:http'
import type { Problem, Reply } from './respond.ts'

const CHARSET = /\s*charset\s*=\s*(?:utf-8|"utf-8")\s*/
// Any other parameter, such as `q=1`: no `charset=` after a `;` or a space, except in quotes.
const OTHER = /(?:(?!(?<=[;\s])charset\s*=)[^;"]|"(?:\\.|[^"\\])*")*/
// Not util.MIMEType, which ignores parameters that it cannot read, such as ` charset = latin1`.
const IS_JSON = new RegExp(`^application/json\\s*(?:;(?:${CHARSET.source}|${OTHER.source}))*$`, 'i')

/** What the headers say is wrong with the body. */
export function bodyProblem(headers: IncomingHttpHeaders, maxBody: number): Problem | undefined {
  if (!IS_JSON.test(headers['content-type'] ?? 'application/json')) return 'badMediaType'
  const coding = headers['content-encoding'] ?? 'identity'
  if (coding.toLowerCase() !== 'identity') return 'badMediaType'
  return Number(headers['content-length'] ?? 0) > maxBody ? 'bodyTooLarge' : undefined
}

const REQUEST_ID = /^[A-Za-z0-9._-]{1,128}$/
const TRACE_ID = /(?<=^[\da-f]{2}-)(?!0{32})[\da-f]{32}(?=-[\da-f]{16}-[\da-f]{2})/
const MAX_AGE = '7200' // seconds, the most that Chromium honours

/** The request id that a proxy sent, if it is safe to log and to send back. */
export function readRequestId({ 'x-request-id': value }: IncomingHttpHeaders): string | undefined {
  return typeof value === 'string' && REQUEST_ID.test(value) ? value : undefined
}

/** The trace id of the W3C's `traceparent`, if there is one. */
export function readTraceId({ traceparent }: IncomingHttpHeaders): string | undefined {
  return TRACE_ID.exec(String(traceparent ?? ''))?.[0]
}

// Scripts may read all headers. The names too: credentials, and jsdom, know no `*`.
const EXPOSED = [
  ...['*', 'Accept', 'Allow', 'Date', 'Deprecation', 'Link', 'Location', 'Retry-After', 'Sunset'],
  ...['WWW-Authenticate', 'X-Request-Id'],
]

/** The value of `Access-Control-Allow-Origin`, if the origin of a request is allowed. */
function allowedOrigin(
  { origin }: IncomingHttpHeaders,
  cors: readonly string[],
): string | undefined {
  if (origin === undefined) return undefined
  if (cors.includes('*')) return '*'
  return cors.includes(origin) ? origin : undefined
}

/** Response headers that depend on the request: `X-Request-Id`, and CORS for an allowed origin. */
export function echoedHeaders(
  headers: IncomingHttpHeaders,
  cors: readonly string[],
  { code, headers: own = [] }: Pick<Reply, 'code' | 'headers'> = {},
): string[] {
  const requestId = readRequestId(headers)
  const echoed = requestId ? ['X-Request-Id', requestId] : []
  if (cors.length === 0) return echoed
  const origin = allowedOrigin(headers, cors)
  if (origin !== undefined) {
    // An Error may have any headers: a test chose them.
    const ownNames = code === undefined ? [] : own.filter((_, at) => at % 2 === 0)
    const exposed = new Set([...EXPOSED, ...ownNames])
    echoed.push('Access-Control-Allow-Origin', origin)
    echoed.push('Access-Control-Expose-Headers', [...exposed].join(', '))
    if (origin !== '*') echoed.push('Access-Control-Allow-Credentials', 'true')
  }
  if (!cors.includes('*')) echoed.push('Vary', 'Origin')
  return echoed
}

/**
 * Whether a request is the preflight of an allowed origin. It is allowed wherever it goes, so that
 * its script sees the 404 or 405 of the request that follows.
 */
export function isAllowedPreflight(
  method: string,
  headers: IncomingHttpHeaders,
  cors: readonly string[],
): boolean {
  const asksForMethod = headers['access-control-request-method'] !== undefined
  return method === 'OPTIONS' && asksForMethod && allowedOrigin(headers, cors) !== undefined
}

/**
 * Responds to OPTIONS; to a preflight too, if an origin is configured. Scripts may send any header:
 * tracing libraries add their own.
 */
export function optionsReply(
  allow: string,
  headers: IncomingHttpHeaders,
  cors: readonly string[],
): Reply {
  const { origin, 'access-control-request-method': method } = headers
  const { 'access-control-request-headers': asked } = headers
  const fields = ['Allow', allow]
  if (cors.length > 0 && origin !== undefined && method !== undefined) {
    const isKnown = allow.split(', ').includes(method)
    const isOther = !isKnown && isAllowedPreflight('OPTIONS', headers, cors)
    fields.push('Access-Control-Allow-Methods', isOther ? `${allow}, ${method}` : allow)
    fields.push('Access-Control-Max-Age', MAX_AGE)
    if (asked !== undefined) fields.push('Access-Control-Allow-Headers', asked)
  }
  return { status: 204, headers: fields }
}
