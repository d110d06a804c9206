import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import type { ErrorName } from '../errors.ts'
import type { Reply } from './router.ts'

const JSON_TYPE = 'application/json'
// uri-host [ ":" port ] (RFC 9110 §7.2); an empty one is valid, too.
const HOST = /^(?:[\w.~!$&'()*+,;=%-]*|\[[\w.~:%-]+\])(?::\d*)?$/

/** What is wrong with a head that node's parser accepts. */
export function headError(req: IncomingMessage): ErrorName | undefined {
  const { headers, rawHeaders, httpVersion } = req
  const { host, expect } = headers
  const isHttp10 = httpVersion === '1.0'
  if (httpVersion !== '1.1' && !isHttp10) return 'badVersion'

  // RFC 9112 §3.2: one Host, which HTTP/1.0 may omit. Of several, a proxy might use another one.
  if (host === undefined && !isHttp10) return 'badHost'
  if (!HOST.test(host ?? '') || isRepeated(rawHeaders, 'host')) return 'badHost'

  // RFC 9110 §11.6.2, §5.3: credentials are not a list.
  if (isRepeated(rawHeaders, 'authorization')) return 'badCredentials'

  // RFC 9110 §10.1.1: HTTP/1.0 has no Expect.
  if (isHttp10 || expect === undefined) return undefined
  return expect.toLowerCase() === '100-continue' ? undefined : 'badExpectation'
}

function isRepeated(rawHeaders: readonly string[], name: string): boolean {
  let count = 0
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const other = rawHeaders[at]
    if (other?.length === name.length && other.toLowerCase() === name) count++
  }
  return count > 1
}

const CHARSET = /\s*charset\s*=\s*(?:utf-?8|"utf-?8")\s*/
// Any other parameter, such as `q=1`: no `charset=` after a `;` or a space, except in quotes.
const OTHER = /(?:(?!(?<=[;\s])charset\s*=)[^;"]|"(?:\\.|[^"\\])*")*/
// Not util.MIMEType, which ignores parameters that it cannot read, such as ` charset = latin1`.
const IS_JSON = new RegExp(`^application/json\\s*(?:;(?:${CHARSET.source}|${OTHER.source}))*$`, 'i')

/** What the headers say is wrong with the body, if there is one. */
export function bodyError(headers: IncomingHttpHeaders, maxBody: number): ErrorName | undefined {
  const length = Number(headers['content-length'] ?? 0)
  if (length === 0 && headers['transfer-encoding'] === undefined) return undefined
  const type = headers['content-type'] ?? JSON_TYPE
  if (type !== JSON_TYPE && !IS_JSON.test(type)) return 'badMediaType'
  const coding = headers['content-encoding'] ?? 'identity'
  if (coding.toLowerCase() !== 'identity') return 'badMediaType'
  return length > maxBody ? 'bodyTooLarge' : undefined
}

const REQUEST_ID = /^[A-Za-z0-9._-]{1,128}$/

/** The request id that a proxy sent, if it is safe to log and to send back. */
export function requestIdOf({ 'x-request-id': value }: IncomingHttpHeaders): string | undefined {
  return typeof value === 'string' && REQUEST_ID.test(value) ? value : undefined
}

/**
 * The headers of a response: name, value, name, value …
 *
 * @param length Bytes of the body.
 * @param asked The headers of the request.
 */
export function headersOf(
  reply: Reply,
  length: number,
  asked: IncomingHttpHeaders,
  cors: readonly string[],
): string[] {
  const { headers = [], body, type = JSON_TYPE } = reply
  const fields = [...headers, 'Cache-Control', 'no-store', 'X-Content-Type-Options', 'nosniff']
  if (body !== undefined) fields.push('Content-Type', type, 'Content-Length', `${length}`)
  const requestId = requestIdOf(asked)
  if (requestId !== undefined) fields.push('X-Request-Id', requestId)
  if (cors.length > 0) addCors(fields, asked, cors)
  return fields
}

const MAX_AGE = '7200' // seconds, the most that Chromium honours
// The names, too: `*` does not cover requests with credentials, and jsdom does not know it.
const EXPOSED =
  '*, Allow, Date, Link, Location, Retry-After, Sunset, WWW-Authenticate, X-Request-Id'

/** The value of `Access-Control-Allow-Origin`, if the origin of a request is allowed. */
function allowedOrigin(
  { origin }: IncomingHttpHeaders,
  cors: readonly string[],
): string | undefined {
  if (origin === undefined) return undefined
  if (cors.includes('*')) return '*'
  return cors.includes(origin) ? origin : undefined
}

function addCors(fields: string[], asked: IncomingHttpHeaders, cors: readonly string[]): void {
  const origin = allowedOrigin(asked, cors)
  if (origin !== undefined) {
    fields.push('Access-Control-Allow-Origin', origin, 'Access-Control-Expose-Headers', EXPOSED)
    if (origin !== '*') fields.push('Access-Control-Allow-Credentials', 'true')
  }
  if (!cors.includes('*')) fields.push('Vary', 'Origin')
}

/**
 * Whether OPTIONS is the preflight of an allowed origin. It is allowed wherever it goes, so that
 * its script sees the 404 or 405 of the request that follows.
 */
export function isAllowedPreflight(headers: IncomingHttpHeaders, cors: readonly string[]): boolean {
  const asksForMethod = headers['access-control-request-method'] !== undefined
  return asksForMethod && allowedOrigin(headers, cors) !== undefined
}

/** Responds to OPTIONS. To an allowed preflight, it allows any header: tracing adds its own. */
export function optionsReply(
  allow: string,
  headers: IncomingHttpHeaders,
  cors: readonly string[],
): Reply {
  const fields = ['Allow', allow]
  if (isAllowedPreflight(headers, cors)) {
    const { 'access-control-request-method': method = '' } = headers
    const { 'access-control-request-headers': asked } = headers
    const isKnown = allow.split(', ').includes(method)
    fields.push('Access-Control-Allow-Methods', isKnown ? allow : `${allow}, ${method}`)
    fields.push('Access-Control-Max-Age', MAX_AGE)
    if (asked !== undefined) fields.push('Access-Control-Allow-Headers', asked)
  }
  return { status: 204, headers: fields }
}
