import { inspect, types } from 'node:util'
import type { PetstoreErrorCode } from './types.ts'

/** What a client is told. `%s` in the message stands for a detail. */
export interface ErrorRow {
  readonly status: number
  readonly code: string
  readonly message: string
  readonly headers?: Readonly<Record<string, string>>
}

const CHALLENGE = 'Bearer realm="petstore"'
const CLOSE = { connection: 'close' } // what follows on the connection cannot be read either

/** Every error that a client gets. A thrown error gets the row that is named after its code. */
export const ERRORS = {
  badSyntax: {
    status: 400,
    code: 'bad_request',
    message: 'The request is not valid HTTP/1.1: %s',
    headers: CLOSE,
  },
  noHost: {
    status: 400,
    code: 'bad_request',
    message: 'An HTTP/1.1 request must have a Host header',
  },
  invalid_json: { status: 400, code: 'bad_request', message: 'The body must be JSON in UTF-8: %s' },
  invalid_option: { status: 400, code: 'bad_request', message: '%s' },
  invalid_parameter: { status: 400, code: 'invalid_parameter', message: '%s' },
  invalid_pet: { status: 400, code: 'invalid_pet', message: '%s' },
  noKey: {
    status: 401,
    code: 'unauthorized',
    message: 'An API key is required: Authorization: Bearer <API_KEY>',
    headers: { 'www-authenticate': CHALLENGE },
  },
  wrongKey: {
    status: 401,
    code: 'unauthorized',
    message: 'The API key is not valid here',
    headers: { 'www-authenticate': `${CHALLENGE}, error="invalid_token"` },
  },
  webPage: {
    status: 403,
    code: 'forbidden',
    message: 'Web pages must not use the test controls: leave out Origin',
  },
  noPath: {
    status: 404,
    code: 'not_found',
    message: 'Nothing is at this path. Case and slashes count. The operations are under %s',
  },
  noPet: { status: 404, code: 'not_found', message: 'There is no pet with this id' },
  badMethod: { status: 405, code: 'method_not_allowed', message: 'The method must be one of %s' },
  ERR_HTTP_REQUEST_TIMEOUT: {
    status: 408,
    code: 'request_timeout',
    message: 'The request did not arrive in time',
    headers: CLOSE,
  },
  bodyTooLarge: {
    status: 413,
    code: 'content_too_large',
    message: 'The body must have at most %s bytes',
  },
  badMediaType: {
    status: 415,
    code: 'unsupported_media_type',
    message: 'The body must be sent as Content-Type: application/json',
    headers: { accept: 'application/json' },
  },
  HPE_HEADER_OVERFLOW: {
    status: 431,
    code: 'headers_too_large',
    message: 'The header section must have at most 16 KiB',
    headers: CLOSE,
  },
  bug: { status: 500, code: 'internal_error', message: 'The server failed: see its log' },
  noOrders: {
    status: 501,
    code: 'not_implemented',
    message: 'The contract mentions orders but does not specify them',
  },
  storage_failed: {
    status: 503,
    code: 'storage_failed',
    message: 'The store failed. A new pet may have been added: list the pets before you repeat it',
  },
  stopping: { status: 503, code: 'not_ready', message: 'The server is stopping' },
  store_full: { status: 507, code: 'store_full', message: 'The store has no room for this' },
} satisfies Readonly<Record<string, ErrorRow>>

export type ErrorName = keyof typeof ERRORS

export function isErrorName(name: string): name is ErrorName {
  return Object.hasOwn(ERRORS, name)
}

/** The codes of the errors that we throw. Callers in JavaScript never get the last two. */
type ThrownCode = PetstoreErrorCode | 'invalid_json' | 'invalid_parameter'

/** An error with the code by which callers know it: a TypeError if an argument is invalid. */
export function codedError(code: ThrownCode, message: string, cause?: unknown): Error {
  const Kind = code.startsWith('invalid_') ? TypeError : Error
  return Object.assign(new Kind(message, { cause }), { code })
}

/** Calls a store. What it throws gets the code `storage_failed`, unless it is `store_full`. */
export async function withStorageCode<T>(call: () => Promise<T>): Promise<T> {
  try {
    return await call()
  } catch (error) {
    if (codeOf(error) === 'store_full') throw error
    throw codedError('storage_failed', messageOf(error), error)
  }
}

/** The `code` of anything thrown; empty if it has none. */
export function codeOf(error: unknown): string {
  return types.isNativeError(error) && 'code' in error ? String(error.code) : ''
}

/** The message of anything thrown; for a failed connect, that of each address. */
export function messageOf(error: unknown): string {
  if (!types.isNativeError(error)) return typeof error === 'string' ? error : inspect(error)
  if ('errors' in error && Array.isArray(error.errors)) {
    return error.errors.map(messageOf).join('; ')
  }
  return error.message
}
