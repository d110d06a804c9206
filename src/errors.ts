import { types } from 'node:util'
import type { Reply } from './http/router.ts'
import type { PetstoreErrorCode } from './types.ts'

/** The code of each status; a row of ERRORS may have another one. */
const CODES = {
  400: 'bad_request',
  401: 'unauthorized',
  403: 'forbidden',
  404: 'not_found',
  405: 'method_not_allowed',
  408: 'request_timeout',
  410: 'gone',
  413: 'content_too_large',
  415: 'unsupported_media_type',
  417: 'expectation_failed',
  431: 'headers_too_large',
  500: 'internal_error',
  501: 'not_implemented',
  503: 'storage_failed',
  507: 'store_full',
} as const

type Row = readonly [
  status: keyof typeof CODES,
  message: string,
  headers?: readonly string[],
  code?: string,
]

const CHALLENGE = ['WWW-Authenticate', 'Bearer realm="petstore"']
const INVALID_TOKEN = ['WWW-Authenticate', 'Bearer realm="petstore", error="invalid_token"']
const MEDIA_TYPE =
  'The body must be sent as Content-Type: application/json, in UTF-8, without Content-Encoding'
const UNKNOWN_OUTCOME =
  'The store failed, and the pet may have been added: list the pets before you repeat it'
const WEB_PAGE =
  'Web pages must not use the test controls: omit Origin and Sec-Fetch-Site, and call them ' +
  'by an IP address or as localhost'

/** Every error that the server responds with. `%s` stands for a detail. */
const ERRORS = {
  badSyntax: [400, 'The request is not valid HTTP/1.1: %s'],
  badVersion: [400, 'The version must be HTTP/1.1 or HTTP/1.0'],
  badHost: [400, 'There must be exactly one Host header, and it must name a host'],
  badCredentials: [400, 'There must be at most one Authorization header'],
  badJson: [400, 'The body must be one JSON object: %s'],
  badQuery: [400, '%s', [], 'invalid_parameter'],
  badPet: [400, '%s', [], 'invalid_pet'],
  noCredentials: [401, 'An API key is required: Authorization: Bearer <API_KEY>', CHALLENGE],
  invalidToken: [401, 'The API key is not valid here', INVALID_TOKEN],
  malformedToken: [401, 'The API key must be %s', INVALID_TOKEN],
  forbidden: [403, WEB_PAGE],
  notFound: [404, 'Nothing is at this path (case and slashes count). The operations are under %s'],
  noPet: [404, 'There is no pet with this id'],
  methodNotAllowed: [405, 'The method must be one of %s', ['Allow', '%s']],
  requestTimeout: [408, 'The request did not arrive in time'],
  gone: [410, 'This operation has been removed: use GET /pets with the status filter'],
  bodyTooLarge: [413, 'The body must have at most %s bytes'],
  badMediaType: [415, MEDIA_TYPE, ['Accept', 'application/json']],
  badExpectation: [417, 'Expect must be 100-continue or left out'],
  headersTooLarge: [431, 'The header section must have at most 16 KiB'],
  internalError: [500, 'The server failed: see its log'],
  noOrders: [501, 'The contract mentions orders but does not specify them'],
  notStored: [503, 'The pet was not added: try again'],
  storageFailed: [503, 'The store cannot be used: try again'],
  outcomeUnknown: [503, UNKNOWN_OUTCOME, [], 'outcome_unknown'],
  stopping: [503, 'The server is stopping', [], 'not_ready'],
  storeFull: [507, 'The store has no room for this pet'],
} satisfies Readonly<Record<string, Row>>

export type ErrorName = keyof typeof ERRORS

/** The reply for an error of the table. */
export function refuse(error: ErrorName, detail = ''): Reply {
  const row: Row = ERRORS[error]
  const [status, message, headers = [], code = CODES[status]] = row
  const complete = (text: string): string => text.replace('%s', () => detail)
  return errorReply(status, code, complete(message), headers.map(complete))
}

/** The reply with the contract's Error. */
export function errorReply(
  status: number,
  code: string,
  message: string,
  headers: readonly string[] = [],
): Reply {
  const body = JSON.stringify({ code, message, status })
  return { status, headers, body, error: { code, message } }
}

/** An error with the code by which callers know it. */
export function codedError(code: PetstoreErrorCode, message: string, cause?: unknown): Error {
  return Object.assign(new Error(message, { cause }), { code })
}

/** Whether an error has one of these codes. */
export function hasCode(error: unknown, ...codes: string[]): boolean {
  return types.isNativeError(error) && 'code' in error && codes.includes(String(error.code))
}

/** The message of anything thrown; for a failed connect, that of each address. */
export function messageOf(error: unknown): string {
  if (!types.isNativeError(error)) return String(error)
  if ('errors' in error && Array.isArray(error.errors)) {
    return error.errors.map(messageOf).join('; ')
  }
  return error.message
}
