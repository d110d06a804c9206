import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { isHeadTooLarge } from './limits.ts'
import type { Problem } from './respond.ts'

// uri-host [ ":" port ] (RFC 9110 §7.2); an empty one is valid too.
const HOST = /^(?:[\w.~!$&'()*+,;=%-]*|\[[\w.~:%-]+\])(?::\d*)?$/

/** What HTTP forbids in a request that node:http accepts. */
export function malformedProblem(req: IncomingMessage): Problem | undefined {
  const { headers, rawHeaders, httpVersion } = req
  const { host, expect } = headers
  const isHttp10 = httpVersion === '1.0'
  if (httpVersion !== '1.1' && !isHttp10) return 'badVersion'
  if (isHttp10 && isOtherProtocol(req)) return 'badVersion'
  if (isHeadTooLarge(req.url ?? '', rawHeaders)) return 'headersTooLarge'

  // RFC 9112 §3.2: one Host, which HTTP/1.0 may omit. Of several, a proxy might use another one.
  if (host === undefined && !isHttp10) return 'badHost'
  if (!HOST.test(host ?? '')) return 'badHost'
  if (countOf(rawHeaders, 'host') > 1) return 'badHost'

  // RFC 9110 §11.6.2, §5.3: credentials are not a list.
  if (countOf(rawHeaders, 'authorization') > 1) return 'badCredentials'

  const coding = headers['transfer-encoding']
  const problem = coding === undefined ? undefined : codingProblem(coding, isHttp10)
  if (problem) return problem

  // RFC 9110 §10.1.1: HTTP/1.0 has no Expect.
  if (isHttp10 || expect === undefined) return undefined
  return expect.toLowerCase() === '100-continue' ? undefined : 'badExpectation'
}

function countOf(rawHeaders: readonly string[], name: string): number {
  let count = 0
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const other = rawHeaders[at]
    if (other?.length === name.length && other.toLowerCase() === name) count++
  }
  return count
}

function codingProblem(coding: string, isHttp10: boolean): Problem | undefined {
  const codings = coding.toLowerCase().split(/,[ \t]*/)
  // RFC 9112 §6.3: without a final `chunked`, nobody knows where the body ends.
  if (codings.at(-1) !== 'chunked' || codings.includes('')) return 'badFraming'
  // A second `chunked` is refused by node's parser.
  if (codings.length > 1) return 'badTransferCoding'
  // RFC 9112 §6.1: an HTTP/1.0 proxy may have framed the body differently.
  return isHttp10 ? 'badFraming' : undefined
}

/**
 * Whether the request line names RTSP/1.0, which node's parser reports as HTTP/1.0. Only
 * the parser's current bytes show it (undocumented). False if the line is no longer among them, or
 * follows another one with the same method and target.
 */
function isOtherProtocol({ method, url, socket }: IncomingMessage): boolean {
  const { parser }: Socket & { parser?: { getCurrentBuffer?: () => Buffer } } = socket
  const [, version = ''] = `${parser?.getCurrentBuffer?.()}`.split(`${method} ${url} `)
  return /^RTSP\//.test(version)
}

/** The problem in a `clientError` of node:http; undefined if the connection is lost. */
export function problemOf({ code = '' }: NodeJS.ErrnoException): Problem | undefined {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return 'requestTimeout'
  if (code === 'HPE_HEADER_OVERFLOW') return 'headersTooLarge'
  if (code === 'HPE_CHUNK_EXTENSIONS_OVERFLOW') return 'chunkExtensionsTooLarge'
  return code.startsWith('HPE_') ? 'badSyntax' : undefined
}
