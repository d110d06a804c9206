import type { IncomingHttpHeaders } from 'node:http'
import type { Problem } from './respond.ts'

const UTF_8 = /\s*charset\s*=\s*(?:utf-8|"utf-8")\s*/
// Any other parameter, or none. Quoted text may look like one.
const NO_CHARSET = /(?!\s*charset\s*=)(?:[^;"]|"(?:\\.|[^"\\])*")*/
// util.MIMEType ignores parameters that it cannot read: ` charset = latin1` would pass.
const JSON_TYPE = new RegExp(
  `^application/json\\s*(?:;(?:${UTF_8.source}|${NO_CHARSET.source}))*$`,
  'i',
)

/** What the headers say is wrong with the body. */
export function bodyProblem(headers: IncomingHttpHeaders, maxBody: number): Problem | undefined {
  if (!JSON_TYPE.test(headers['content-type'] ?? 'application/json')) return 'badMediaType'
  const coding = headers['content-encoding'] ?? 'identity'
  if (coding.toLowerCase() !== 'identity') return 'badContentCoding'
  return Number(headers['content-length'] ?? 0) > maxBody ? 'bodyTooLarge' : undefined
}

const REQUEST_ID = /^[A-Za-z0-9._-]{1,128}$/
// Headers that scripts may read and send only if CORS allows it (Fetch standard §3.3).
const EXPOSED = [
  'Access-Control-Expose-Headers',
  'Link, Location, Deprecation, Sunset, Retry-After, X-Request-Id',
]
const MAX_AGE = ['Access-Control-Max-Age', '7200'] // seconds, the most that Chromium honours

/** The request id that a proxy sent, if it is safe to log and to send back. */
export function readRequestId({ 'x-request-id': value }: IncomingHttpHeaders): string | undefined {
  return typeof value === 'string' && REQUEST_ID.test(value) ? value : undefined
}

/** Response headers that depend on the request: `X-Request-Id`, and CORS for an allowed origin. */
export function echoedHeaders(
  headers: IncomingHttpHeaders,
  cors: readonly string[] = [],
): readonly string[] {
  const requestId = readRequestId(headers)
  const echoed = requestId === undefined ? [] : ['X-Request-Id', requestId]
  if (cors.length === 0) return echoed
  const isForAll = cors.includes('*')
  const { origin } = headers
  if (origin !== undefined && (isForAll || cors.includes(origin)))
    echoed.push('Access-Control-Allow-Origin', isForAll ? '*' : origin, ...EXPOSED)
  if (!isForAll) echoed.push('Vary', 'Origin')
  return echoed
}

/**
 * The headers of a response to OPTIONS; a preflight's too, if an origin is configured. Scripts may
 * send any header: tracing libraries add their own.
 */
export function optionsHeaders(
  allow: string,
  headers: IncomingHttpHeaders,
  cors: readonly string[] = [],
): string[] {
  const { origin, 'access-control-request-method': method } = headers
  if (cors.length === 0 || origin === undefined || method === undefined) return ['Allow', allow]
  const answer = ['Allow', allow, 'Access-Control-Allow-Methods', allow, ...MAX_AGE]
  const { 'access-control-request-headers': asked } = headers
  if (asked !== undefined) answer.push('Access-Control-Allow-Headers', asked)
  return answer
}
