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

/** The request id that a proxy sent, if it is safe to log and to send back. */
export function readRequestId({ 'x-request-id': value }: IncomingHttpHeaders): string | undefined {
  return typeof value === 'string' && REQUEST_ID.test(value) ? value : undefined
}

const NONE: readonly string[] = []

/** The headers of a response that depend on those of its request: `X-Request-Id`, and CORS for an allowed origin. */
export function echoedHeaders(headers: IncomingHttpHeaders, cors: string | undefined): readonly string[] {
  const requestId = readRequestId(headers)
  const echoed = requestId === undefined ? NONE : ['X-Request-Id', requestId]
  return cors === undefined ? echoed : [...echoed, ...corsHeaders(cors, headers)]
}

// Headers beyond those that a script may read and send anyway (Fetch standard §3.3).
const EXPOSED = 'Link, Location, Deprecation, Sunset, Retry-After, X-Request-Id'
const ACCEPTED = 'Authorization, Content-Type, X-Request-Id'
const MAX_AGE = '7200' // seconds, the most that Chromium honours

function corsHeaders(allowed: string, { origin }: IncomingHttpHeaders): readonly string[] {
  const vary = allowed === '*' ? NONE : ['Vary', 'Origin']
  if (origin === undefined || (allowed !== '*' && origin !== allowed)) return vary
  return ['Access-Control-Allow-Origin', allowed, 'Access-Control-Expose-Headers', EXPOSED, ...vary]
}

/** The headers that answer a CORS preflight; none if this OPTIONS request is no preflight. */
export function preflightHeaders(allow: string, headers: IncomingHttpHeaders): readonly string[] {
  if (headers.origin === undefined || headers['access-control-request-method'] === undefined) return NONE
  const methods = ['Access-Control-Allow-Methods', allow, 'Access-Control-Allow-Headers', ACCEPTED]
  return [...methods, 'Access-Control-Max-Age', MAX_AGE]
}
