import { KEY_MUST_BE } from '../http/bearer.ts'
import type { Problem, Reply } from '../http/respond.ts'

type Row = readonly [status: number, code: string, message: string, headers?: readonly string[]]

const CHALLENGE = ['WWW-Authenticate', 'Bearer realm="petstore"']
const INVALID_TOKEN = ['WWW-Authenticate', 'Bearer realm="petstore", error="invalid_token"']
const ACCEPT_JSON = ['Accept', 'application/json']
const IDENTITY = [...ACCEPT_JSON, 'Accept-Encoding', 'identity']

/** HTTP's own errors: status, code, message, headers. `%s` stands for the detail. */
const HTTP_ERRORS: Readonly<Record<Problem, Row>> = {
  badSyntax: [400, 'bad_request', 'The request is not valid HTTP/1.1: %s'],
  badVersion: [400, 'bad_request', 'The version must be HTTP/1.1 or HTTP/1.0'],
  badHost: [400, 'bad_request', 'There must be one Host header, naming a host'],
  badCredentials: [400, 'bad_request', 'There must be at most one Authorization header'],
  badFraming: [
    400,
    'bad_request',
    'Transfer-Encoding must be a single chunked, and only in HTTP/1.1',
  ],
  badTarget: [400, 'bad_request', 'The target must be a path or an http URL; * is for OPTIONS'],
  noCredentials: [
    401,
    'unauthorized',
    'An API key is required: Authorization: Bearer <API_KEY>',
    CHALLENGE,
  ],
  invalidToken: [401, 'unauthorized', 'The API key is not valid here', INVALID_TOKEN],
  malformedToken: [401, 'unauthorized', `The API key must be ${KEY_MUST_BE}`, INVALID_TOKEN],
  forbidden: [
    403,
    'forbidden',
    'Not for web pages: send no Origin, no Sec-Fetch-Site, and as Host localhost or an IP address',
  ],
  notFound: [404, 'not_found', 'There is nothing at this path. The operations are under %s'],
  methodNotAllowed: [405, 'method_not_allowed', 'The method must be one of %s', ['Allow', '%s']],
  requestTimeout: [408, 'request_timeout', 'The request did not arrive in time'],
  bodyTooLarge: [413, 'content_too_large', 'The body must have at most %s bytes'],
  chunkExtensionsTooLarge: [413, 'content_too_large', 'The chunk extensions are too large'],
  badMediaType: [
    415,
    'unsupported_media_type',
    'Content-Type must be application/json, in charset utf-8 if it names one',
    ACCEPT_JSON,
  ],
  badContentCoding: [415, 'unsupported_media_type', 'Content-Encoding must be identity', IDENTITY],
  badExpectation: [417, 'expectation_failed', 'Expect must be 100-continue or left out'],
  headersTooLarge: [
    431,
    'headers_too_large',
    'There must be at most 100 headers, of 16 KiB together, and 16 KiB of target',
  ],
  internalError: [500, 'internal_error', 'The server failed to answer; its log has the cause'],
  badTransferCoding: [501, 'not_implemented', 'Transfer-Encoding must be chunked or left out'],
}

// The names in snake case are the reasons of a store. Its failures share a code by contract: their
// messages say whether a repeated create may add a second pet.
const OPERATION_ERRORS = {
  badJson: [400, 'bad_request', 'The body must be one JSON object: %s'],
  badQuery: [400, 'invalid_parameter', '%s'],
  badPet: [400, 'invalid_pet', '%s'],
  noPet: [404, 'not_found', 'There is no pet with this id'],
  gone: [410, 'gone', 'This operation is removed: use GET /pets with the status filter'],
  noOrders: [501, 'not_implemented', 'The interface mentions orders but does not specify them'],
  storage_failed: [503, 'storage_failed', 'The pet was not added: try again'],
  outcome_unknown: [503, 'storage_failed', 'The store failed: the pet may have been added'],
  noStore: [503, 'storage_failed', 'The store cannot be used: try again'],
  draining: [503, 'not_ready', 'The server is stopping'],
  store_full: [507, 'store_full', 'The store has no room for this pet'],
} as const

type ErrorName = Problem | keyof typeof OPERATION_ERRORS

const ERRORS: Readonly<Record<ErrorName, Row>> = { ...HTTP_ERRORS, ...OPERATION_ERRORS }

export function refuse(error: ErrorName, detail = ''): Reply {
  const [status, code, message, headers = []] = ERRORS[error]
  const complete = (text: string) => text.replace('%s', () => detail)
  return errorReply(status, code, complete(message), headers.map(complete))
}

export function errorReply(
  status: number,
  code: string,
  message: string,
  headers: readonly string[] = [],
): Reply {
  return { status, headers, code, body: JSON.stringify({ code, message, status }) }
}
