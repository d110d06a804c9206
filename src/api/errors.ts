import { KEY_MUST_BE } from '../http/bearer.ts'
import type { Problem, Reply } from '../http/respond.ts'
import type { Added } from '../types.ts'

/** The code of each status; a row of ERRORS may have another. */
export const CODES = {
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

export type Status = keyof typeof CODES
type Row = readonly [status: Status, message: string, headers?: readonly string[], code?: string]

const CHALLENGE = ['WWW-Authenticate', 'Bearer realm="petstore"']
const INVALID_TOKEN = ['WWW-Authenticate', 'Bearer realm="petstore", error="invalid_token"']
const ACCEPT_JSON = ['Accept', 'application/json']

type ErrorName =
  | Problem
  | 'badJson'
  | 'badQuery'
  | 'badPet'
  | 'noPet'
  | 'gone'
  | 'noOrders'
  | 'notStored'
  | 'outcomeUnknown'
  | 'storeUnavailable'
  | 'draining'
  | 'storeFull'
  | 'noRoomForStore'

/** `%s` stands for the detail. */
export const ERRORS: Readonly<Record<ErrorName, Row>> = {
  badSyntax: [400, 'The request is not valid HTTP/1.1: %s'],
  badVersion: [400, 'The version must be HTTP/1.1 or HTTP/1.0'],
  badHost: [400, 'There must be one Host header, naming a host'],
  badCredentials: [400, 'There must be at most one Authorization header'],
  badFraming: [400, 'Transfer-Encoding must be a single chunked, and only in HTTP/1.1'],
  noCredentials: [401, 'An API key is required: Authorization: Bearer <API_KEY>', CHALLENGE],
  invalidToken: [401, 'The API key is not valid here', INVALID_TOKEN],
  malformedToken: [401, `The API key must be ${KEY_MUST_BE}`, INVALID_TOKEN],
  forbidden: [403, 'Not for web pages: omit Origin and Sec-Fetch-Site, call localhost or an IP'],
  notFound: [404, 'Nothing is at this path (case and slashes count). The operations are under %s'],
  methodNotAllowed: [405, 'The method must be one of %s', ['Allow', '%s']],
  requestTimeout: [408, 'The request did not arrive in time'],
  bodyTooLarge: [413, 'The body must have at most %s bytes'],
  chunkExtensionsTooLarge: [413, 'The chunk extensions are too large'],
  badMediaType: [
    415,
    'The body must be sent as Content-Type: application/json, in UTF-8, without Content-Encoding',
    ACCEPT_JSON,
  ],
  badExpectation: [417, 'Expect must be 100-continue or left out'],
  headersTooLarge: [431, 'At most 100 headers, 16 KiB of them, 16.5 KiB with the target'],
  internalError: [500, 'The server failed: see its log'],
  bodyRead: [
    500,
    'The body was read before petstore.listener got it: mount the listener before express.json()',
  ],
  badTransferCoding: [501, 'Transfer-Encoding must be chunked or left out'],
  badJson: [400, 'The body must be one JSON object: %s'],
  badQuery: [400, '%s', [], 'invalid_parameter'],
  badPet: [400, '%s', [], 'invalid_pet'],
  noPet: [404, 'There is no pet with this id'],
  gone: [410, 'This operation is removed: use GET /pets with the status filter'],
  noOrders: [501, 'The contract mentions orders but does not specify them'],
  notStored: [503, 'The pet was not added: try again'],
  outcomeUnknown: [
    503,
    'The store failed, and the pet may have been added: list the pets before you repeat it',
    [],
    'outcome_unknown',
  ],
  storeUnavailable: [503, 'The store cannot be used: try again'],
  draining: [503, 'The server is stopping', [], 'not_ready'],
  storeFull: [507, 'The store has no room for this pet'],
  noRoomForStore: [507, 'The server has no room for the store of another key'],
}

/** The error for each reason why a store did not add a pet. */
export const ADD_ERRORS: Readonly<Record<Extract<Added, { ok: false }>['reason'], ErrorName>> = {
  store_full: 'storeFull',
  storage_failed: 'notStored',
  outcome_unknown: 'outcomeUnknown',
}

export function refuse(error: ErrorName, detail = ''): Reply {
  const [status, message, headers = [], code = CODES[status]] = ERRORS[error]
  const complete = (text: string) => text.replace('%s', () => detail)
  return errorReply(status, code, complete(message), headers.map(complete))
}

export function errorReply(
  status: number,
  code: string,
  message: string,
  headers: readonly string[] = [],
): Reply {
  return { status, headers, code, message, body: JSON.stringify({ code, message, status }) }
}
