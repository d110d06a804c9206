import type { IncomingHttpHeaders } from 'node:http'
import type { Problem } from './reply.ts'

/** What the headers alone say against reading the body. */
export function bodyProblem(headers: IncomingHttpHeaders, maxBody: number): Problem | undefined {
  if (!isJson(headers['content-type'])) return 'badMediaType'
  if ((headers['content-encoding'] ?? 'identity').toLowerCase() !== 'identity') return 'badContentCoding'
  return Number(headers['content-length'] ?? 0) > maxBody ? 'bodyTooLarge' : undefined
}

// util.MIMEType ignores parameters that it cannot read: ` charset = latin1` would pass.
const MEDIA_TYPE = /^application\/json\s*(?:;(.*))?$/i
// A quoted value is matched whole: what looks like a parameter inside it is none.
const PARAMETER = /\s*([^\s;=]+)\s*=\s*("(?:[^"\\]|\\.)*"|[^;]*)/g
const UTF_8 = /^(?:utf-8|"utf-8")\s*$/i

function isJson(contentType = 'application/json'): boolean {
  if (contentType === 'application/json') return true
  const [whole, parameters = ''] = MEDIA_TYPE.exec(contentType) ?? []
  const isRight = ([, name = '', value = '']: string[]) => name.toLowerCase() !== 'charset' || UTF_8.test(value)
  return whole !== undefined && [...parameters.matchAll(PARAMETER)].every(isRight)
}

/** A text that tells the time, formatted once in so many milliseconds. */
export function clock(period: number, format: (time: Date) => string): () => string {
  let last = -1
  let text = ''
  return () => {
    const now = Math.floor(Date.now() / period)
    if (now !== last) text = format(new Date((last = now) * period))
    return text
  }
}

const REQUEST_ID = /^[A-Za-z0-9._-]{1,128}$/
// Headers beyond those that a script may read and send anyway (Fetch standard §3.3).
const EXPOSED = ['Access-Control-Expose-Headers', 'Link, Location, Deprecation, Sunset, Retry-After, X-Request-Id']
const ACCEPTED = ['Access-Control-Allow-Headers', 'Authorization, Content-Type, X-Request-Id']
const MAX_AGE = ['Access-Control-Max-Age', '7200'] // seconds, the most that Chromium honours

/** The request id that a proxy sent, if it is safe to log and to send back. */
export function readRequestId({ 'x-request-id': value }: IncomingHttpHeaders): string | undefined {
  return typeof value === 'string' && REQUEST_ID.test(value) ? value : undefined
}

/** The headers of a response that depend on those of its request: `X-Request-Id`, and CORS for an allowed origin. */
export function echoedHeaders(headers: IncomingHttpHeaders, cors: string | undefined): readonly string[] {
  const requestId = readRequestId(headers)
  const echoed = requestId === undefined ? [] : ['X-Request-Id', requestId]
  if (cors === undefined) return echoed
  const isAllowed = headers.origin !== undefined && (cors === '*' || cors === headers.origin)
  if (isAllowed) echoed.push('Access-Control-Allow-Origin', cors, ...EXPOSED)
  if (cors !== '*') echoed.push('Vary', 'Origin')
  return echoed
}

/** The headers of a response to OPTIONS, with those of CORS if it is a preflight and an origin is allowed. */
export function optionsHeaders(allow: string, headers: IncomingHttpHeaders, cors: string | undefined): string[] {
  const { origin, 'access-control-request-method': method } = headers
  if (cors === undefined || origin === undefined || method === undefined) return ['Allow', allow]
  return ['Allow', allow, 'Access-Control-Allow-Methods', allow, ...ACCEPTED, ...MAX_AGE]
}
