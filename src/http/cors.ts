import type { IncomingHttpHeaders } from 'node:http'

// Field lines beyond those that a script may read and send anyway (Fetch standard §3.3).
const EXPOSED = 'Link, Location, Deprecation, Sunset, Retry-After, X-Request-Id'
const SENT = 'Authorization, Content-Type, X-Request-Id'
const MAX_AGE = '7200' // seconds: the longest that Chromium keeps

/** The field lines that let scripts of an origin (`*`: of any) read an answer. */
export function corsFields(allowed: string, { origin }: IncomingHttpHeaders): readonly string[] {
  const vary = allowed === '*' ? [] : ['Vary', 'Origin']
  if (origin === undefined || (allowed !== '*' && origin !== allowed)) return vary
  return ['Access-Control-Allow-Origin', allowed, 'Access-Control-Expose-Headers', EXPOSED, ...vary]
}

/** The field lines that answer a preflight, beside those of every answer; none where this OPTIONS request is no preflight. */
export function preflightFields(allow: string, headers: IncomingHttpHeaders): readonly string[] {
  if (headers.origin === undefined || headers['access-control-request-method'] === undefined) return []
  const lists = ['Access-Control-Allow-Methods', allow, 'Access-Control-Allow-Headers', SENT]
  return [...lists, 'Access-Control-Max-Age', MAX_AGE]
}
