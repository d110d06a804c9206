import type { IncomingMessage } from 'node:http'
import type { Problem } from './reply.ts'

// uri-host [ ":" port ] (RFC 9110 §7.2); an empty one is valid too.
const HOST = /^(?:[\w.~!$&'()*+,;=%-]*|\[[\w.~:%-]+\])(?::\d*)?$/

/** What is wrong with a request that node:http accepts but HTTP does not. */
export function malformedProblem({ headers, rawHeaders, httpVersion }: IncomingMessage): Problem | undefined {
  const isOld = httpVersion === '1.0'
  if (httpVersion !== '1.1' && !isOld) return 'badVersion'
  // `headers` holds only the first Host; a proxy that reads the last one would see another request.
  const hosts = rawHeaders.filter((name, at) => at % 2 === 0 && name.length === 4 && name.toLowerCase() === 'host')
  if (!HOST.test(headers.host ?? (isOld ? '' : '/')) || hosts.length > 1) return 'badHost'
  // Whoever forwarded an HTTP/1.0 request may have framed its body otherwise (RFC 9112 §6.1). It knows no Expect either.
  if (isOld) return headers['transfer-encoding'] === undefined ? undefined : 'badFraming'
  const { expect = '100-continue' } = headers
  return expect.toLowerCase() === '100-continue' ? undefined : 'badExpectation'
}

/** What node:http reports by `clientError`, as a problem; undefined if the connection is lost. */
export function problemOf({ code = '' }: NodeJS.ErrnoException): Problem | undefined {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return 'requestTimeout'
  if (code === 'HPE_HEADER_OVERFLOW') return 'headersTooLarge'
  if (code === 'HPE_CHUNK_EXTENSIONS_OVERFLOW') return 'chunkExtensionsTooLarge'
  return code.startsWith('HPE_') ? 'badSyntax' : undefined
}
