/** An answer before it meets a socket. */
export interface Reply {
  readonly status: number
  /** Field lines beside those that every answer carries: name, value, name, value … */
  readonly fields?: readonly string[]
  /** The content, text in UTF-8; absent where the answer has none (204). */
  readonly body?: string | Uint8Array
  /** Media type of the content; JSON unless given. */
  readonly type?: string
  /** Where the connection is to break, for a test that asked for it: before the answer, or half-way through its content. */
  readonly breaksOff?: 'before' | 'within'
}

/** The media type of content, unless an answer names another. */
export const JSON_TYPE = 'application/json'

/** Every code that an Error can carry, with its HTTP status. */
export const ERROR_STATUS = {
  bad_request: 400,
  invalid_parameter: 400,
  invalid_pet: 400,
  unauthorized: 401,
  not_found: 404,
  method_not_allowed: 405,
  request_timeout: 408,
  gone: 410,
  content_too_large: 413,
  unsupported_media_type: 415,
  expectation_failed: 417,
  headers_too_large: 431,
  internal_error: 500,
  not_implemented: 501,
  storage_failed: 503,
  not_ready: 503,
  store_full: 507,
  injected_fault: 500,
} as const

/** A machine-readable code of the contract's Error. */
export type ErrorCode = keyof typeof ERROR_STATUS

/** An answer of 400 or above. */
export interface ErrorReply extends Reply {
  readonly body: string
}

/** The one writer of errors: an Error of exactly `code`, `message` and `status`, which is the code's own unless given. */
export function errorReply(
  code: ErrorCode,
  message: string,
  fields: readonly string[] = [],
  status: number = ERROR_STATUS[code],
): ErrorReply {
  return { status, fields, body: JSON.stringify({ code, message, status }) }
}

/** How many bytes of content an answer has. */
export function lengthOf({ body = '' }: Reply): number {
  return typeof body === 'string' ? Buffer.byteLength(body) : body.length
}

/** The first half of an answer's content, for one that breaks off within it. */
export function halfOf({ body = '' }: Reply): Uint8Array {
  const content = typeof body === 'string' ? Buffer.from(body) : body
  return content.subarray(0, content.length >> 1)
}

/** The field lines that every answer carries. */
export const EVERY_ANSWER: readonly string[] = ['Cache-Control', 'no-store', 'X-Content-Type-Options', 'nosniff']
const REQUEST_ID = /^[A-Za-z0-9._-]{1,128}$/

/** The request id that a proxy sent, if it is one that is safe to log and to send back. */
export function readRequestId(value: string | string[] | undefined): string | undefined {
  return typeof value === 'string' && REQUEST_ID.test(value) ? value : undefined
}

/** The field lines of an answer that are its own; a 204 has neither type nor length. */
export function ownLines({ body, type = JSON_TYPE, fields = [] }: Reply, contentLength: number): readonly string[] {
  return body === undefined ? fields : ['Content-Type', type, 'Content-Length', String(contentLength), ...fields]
}
