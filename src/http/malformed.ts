import type { IncomingMessage } from 'node:http'
import { type ErrorReply, errorReply } from './reply.ts'

// uri-host [ ":" port ] (RFC 9110 §7.2); an empty one is valid too.
const HOST = /^(?:[\w.~!$&'()*+,;=%-]*|\[[\w.~:%-]+\])(?::\d*)?$/

const BAD_HOST = errorReply('bad_request', 'There must be one Host field, naming a host; HTTP/1.0 may leave it out')
const BAD_VERSION = errorReply('bad_request', 'The HTTP version must be 1.1 or 1.0')
const BAD_FRAMING = errorReply('bad_request', 'An HTTP/1.0 request must not have a Transfer-Encoding')
const BAD_EXPECTATION = errorReply('expectation_failed', 'Expect must be 100-continue or left out')
const HEADERS_TOO_LARGE = errorReply('headers_too_large', 'The request line and header section are too large')
const EXTENSIONS_TOO_LARGE = errorReply('content_too_large', 'The chunk extensions of the body are too large')
const TIMED_OUT = errorReply('request_timeout', 'The request did not arrive in time')

/** The answer to a request that node:http reads but HTTP does not allow, or undefined. */
export function malformedReply({ headers, rawHeaders, httpVersion }: IncomingMessage): ErrorReply | undefined {
  const isOld = httpVersion === '1.0'
  if (httpVersion !== '1.1' && !isOld) return BAD_VERSION
  if (!HOST.test(headers.host ?? (isOld ? '' : '/')) || isGivenTwice(rawHeaders, 'host')) return BAD_HOST
  // Whoever forwarded this may have seen other bounds of the body (RFC 9112 §6.1). HTTP/1.0 knows no Expect either.
  if (isOld) return headers['transfer-encoding'] === undefined ? undefined : BAD_FRAMING
  if (headers.expect !== undefined && headers.expect.toLowerCase() !== '100-continue') return BAD_EXPECTATION
  return undefined
}

// `headers` holds only the first Host; what reads the last one, a proxy say, would take the request for another.
function isGivenTwice(rawHeaders: readonly string[], name: string): boolean {
  let count = 0
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const field = rawHeaders[at] ?? ''
    if (field.length === name.length && field.toLowerCase() === name) count++
  }
  return count > 1
}

/** The answer to what node:http reports by `clientError`; undefined where the connection is lost and none can be given. */
export function failureReply(error: NodeJS.ErrnoException & { reason?: string }): ErrorReply | undefined {
  switch (error.code) {
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return TIMED_OUT
    case 'HPE_HEADER_OVERFLOW':
      return HEADERS_TOO_LARGE
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return EXTENSIONS_TOO_LARGE
    default:
      if (!error.code?.startsWith('HPE_')) return undefined
      return errorReply('bad_request', `The request is not valid HTTP/1.1: ${error.reason ?? error.message}`)
  }
}
