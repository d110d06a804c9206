import type { IncomingMessage } from 'node:http'
import { LIMITS } from './limits.ts'
import type { Problem } from './reply.ts'

// uri-host [ ":" port ] (RFC 9110 §7.2); an empty one is valid too.
const HOST = /^(?:[\w.~!$&'()*+,;=%-]*|\[[\w.~:%-]+\])(?::\d*)?$/

/** What is wrong with a request that node:http accepts but HTTP does not. */
export function malformedProblem({ headers, rawHeaders, httpVersion }: IncomingMessage): Problem | undefined {
  const isOld = httpVersion === '1.0'
  if (httpVersion !== '1.1' && !isOld) return 'badVersion'
  if (rawHeaders.length > 2 * LIMITS.headers) return 'headersTooLarge'
  // `headers` holds only the first of each; a proxy that reads the last one would see another request.
  let hosts = 0
  let credentials = 0
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] ?? ''
    if (name.length === 4 && name.toLowerCase() === 'host') hosts++
    else if (name.length === 13 && name.toLowerCase() === 'authorization') credentials++
  }
  if (!HOST.test(headers.host ?? (isOld ? '' : '/')) || hosts > 1) return 'badHost'
  if (credentials > 1) return 'badCredentials'
  const { expect = '100-continue', 'transfer-encoding': coding = 'chunked' } = headers
  if (coding.toLowerCase() !== 'chunked') return coding === '' ? 'badFraming' : 'badTransferCoding'
  // Whoever forwarded an HTTP/1.0 request may have framed its body otherwise (RFC 9112 §6.1). It has no Expect either.
  if (isOld) return headers['transfer-encoding'] === undefined ? undefined : 'badFraming'
  return expect.toLowerCase() === '100-continue' ? undefined : 'badExpectation'
}

/** An error of node's parser; the reason says what it could not read. */
export type ParseError = NodeJS.ErrnoException & { reason?: string }

/** What node:http reports by `clientError`, as a problem; undefined if the connection is lost. */
export function problemOf({ code = '', reason = '' }: ParseError): Problem | undefined {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return 'requestTimeout'
  if (code === 'HPE_HEADER_OVERFLOW') return 'headersTooLarge'
  if (code === 'HPE_CHUNK_EXTENSIONS_OVERFLOW') return 'chunkExtensionsTooLarge'
  if (code === 'HPE_INVALID_TRANSFER_ENCODING' && /invalid/i.test(reason)) return 'badTransferCoding'
  return code.startsWith('HPE_') ? 'badSyntax' : undefined
}
