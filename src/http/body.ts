import type { IncomingHttpHeaders } from 'node:http'
import { errorReply, type Reply } from './reply.ts'

const MEDIA_TYPE = /^application\/json\s*(?:;(.*))?$/i
// A quoted value is matched as a whole, for what looks like a parameter inside it is none.
const PARAMETER = /(?:^|;)\s*([^\s;=]+)\s*=\s*("(?:[^"\\]|\\.)*"|[^;]*)/g
const UTF_8 = /^(?:utf-8|"utf-8")\s*$/i
const ACCEPT = ['Accept', 'application/json']

const NOT_JSON = errorReply(
  'unsupported_media_type',
  'Content-Type must be application/json, in charset utf-8 if it names one',
  ACCEPT,
)
const ENCODED = errorReply('unsupported_media_type', 'Content-Encoding must be identity or left out', [
  ...ACCEPT,
  'Accept-Encoding',
  'identity',
])

/** The 415 or 413 that the header section alone calls for, or undefined when the body may be read. */
export function refuseBody(headers: IncomingHttpHeaders, maxBytes: number): Reply | undefined {
  if (!isJson(headers['content-type'])) return NOT_JSON
  const coding = headers['content-encoding']
  if (coding !== undefined && coding.toLowerCase() !== 'identity') return ENCODED
  return Number(headers['content-length'] ?? 0) > maxBytes ? contentTooLarge(maxBytes) : undefined
}

/** The 413 for a body of more than so many bytes. */
export function contentTooLarge(maxBytes: number): Reply {
  return errorReply('content_too_large', `The body must be at most ${maxBytes} bytes long`)
}

function isJson(contentType: string | undefined): boolean {
  if (contentType === undefined || contentType === 'application/json') return true
  const [whole, parameters = ''] = MEDIA_TYPE.exec(contentType) ?? []
  if (whole === undefined) return false
  return [...parameters.matchAll(PARAMETER)].every(
    ([, name = '', value = '']) => name.toLowerCase() !== 'charset' || UTF_8.test(value),
  )
}
