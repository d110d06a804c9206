import type { Problem, Reply } from '../http/respond.ts'

/** What the operations refuse, in addition to HTTP's own problems. */
type Refusal =
  | 'badJson'
  | 'badQuery'
  | 'badPet'
  | 'noPet'
  | 'gone'
  | 'noOrders'
  | 'full'
  | 'notStored'
  | 'notWritable'
  | 'draining'

type Row = readonly [status: number, code: string, message: string, headers?: readonly string[]]

const CHALLENGE = ['WWW-Authenticate', 'Bearer realm="petstore"']
const INVALID_TOKEN = ['WWW-Authenticate', 'Bearer realm="petstore", error="invalid_token"']
const ACCEPT_JSON = ['Accept', 'application/json']
const ACCEPT_PLAIN_JSON = [...ACCEPT_JSON, 'Accept-Encoding', 'identity']

/** Status, code, message and headers of every error; `%s` stands for the detail. */
const ERRORS: Readonly<Record<Problem | Refusal, Row>> = {
  badSyntax: [400, 'bad_request', 'The request is not valid HTTP/1.1: %s'],
  badVersion: [400, 'bad_request', 'The version must be HTTP/1.1 or HTTP/1.0'],
  badHost: [400, 'bad_request', 'There must be one Host header, naming a host'],
  badCredentials: [400, 'bad_request', 'There must be at most one Authorization header'],
  badFraming: [400, 'bad_request', 'Transfer-Encoding must be one chunked, and in HTTP/1.1'],
  badTarget: [400, 'bad_request', 'The target must be a path or an http URL; * is for OPTIONS'],
  badJson: [400, 'bad_request', 'The body must be one JSON object: %s'],
  badQuery: [400, 'invalid_parameter', '%s'],
  badPet: [400, 'invalid_pet', '%s'],
  noCredentials: [
    401,
    'unauthorized',
    'An API key is required: Authorization: Bearer <API_KEY>',
    CHALLENGE,
  ],
  invalidToken: [401, 'unauthorized', 'The API key is not valid here', INVALID_TOKEN],
  forbidden: [
    403,
    'forbidden',
    'Send no Origin, and localhost or an IP address as Host: web pages may not use the controls',
  ],
  notFound: [404, 'not_found', 'There is nothing at this path'],
  noPet: [404, 'not_found', 'There is no pet with this id'],
  methodNotAllowed: [405, 'method_not_allowed', 'The method must be one of %s', ['Allow', '%s']],
  requestTimeout: [408, 'request_timeout', 'The request did not arrive in time'],
  gone: [410, 'gone', 'This operation is removed: use GET /pets with the status filter'],
  bodyTooLarge: [413, 'content_too_large', 'The body must have at most %s bytes'],
  chunkExtensionsTooLarge: [413, 'content_too_large', 'The chunk extensions are too large'],
  badMediaType: [
    415,
    'unsupported_media_type',
    'Content-Type must be application/json, in charset utf-8 if it names one',
    ACCEPT_JSON,
  ],
  badContentCoding: [
    415,
    'unsupported_media_type',
    'Content-Encoding must be identity or left out',
    ACCEPT_PLAIN_JSON,
  ],
  badExpectation: [417, 'expectation_failed', 'Expect must be 100-continue or left out'],
  headersTooLarge: [
    431,
    'headers_too_large',
    'The request line and headers must have at most 16 KiB, and there must be at most 100 headers',
  ],
  internalError: [500, 'internal_error', 'The server failed to answer; its log has the cause'],
  badTransferCoding: [501, 'not_implemented', 'Transfer-Encoding must be chunked or left out'],
  noOrders: [501, 'not_implemented', 'The interface mentions orders but does not specify them'],
  notStored: [503, 'storage_failed', 'The pet could not be stored and was not added: try again'],
  notWritable: [503, 'storage_failed', 'The snapshot cannot be written'],
  draining: [503, 'not_ready', 'The server is stopping'],
  full: [507, 'store_full', 'The store has no room for this pet'],
}

export function refuse(error: Problem | Refusal, detail = ''): Reply {
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
