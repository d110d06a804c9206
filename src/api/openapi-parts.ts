import { ERROR_STATUS, type ErrorCode } from '../http/reply.ts'
import { PET_STATUSES } from '../pets/pet.ts'
import { DEPRECATION, deprecationLinks, SUNSET } from './operations.ts'
import { LIMIT } from './query.ts'

/** An object of the OpenAPI Specification. */
export type Part = Readonly<Record<string, unknown>>

export function ref(kind: string, name: string): Part {
  return { $ref: `#/components/${kind}/${name}` }
}

/** An answer, with components for its fields beside those that every answer has. */
export function answer(description: string, content: Part, fields: readonly string[] = []): Part {
  const names = [...fields, 'Cache-Control', 'X-Content-Type-Options', 'X-Request-Id']
  // Of the two for `Link` each has a name of its own behind a dot.
  const headers = Object.fromEntries(names.map((name) => [name.replace(/\..*/, ''), ref('headers', name)]))
  return { description, headers, content }
}

export function json(schema: Part, values: Part = {}): Part {
  const examples = Object.entries(values).map(([name, value]) => [name, { value }])
  return { 'application/json': { schema, ...(examples.length > 0 && { examples: Object.fromEntries(examples) }) } }
}

/** What each code means, and the message of its example where that is not the same. */
const ERRORS: Readonly<Record<ErrorCode, readonly [meaning: string, message?: string]>> = {
  bad_request: ['The request is not valid HTTP/1.1, or its body is not JSON in UTF-8'],
  invalid_parameter: [
    'A parameter of the query is wrong or given twice; the message names each one and what it must be',
    `limit must be an integer from ${LIMIT.minimum} to ${LIMIT.maximum}, given once`,
  ],
  invalid_pet: [
    'The body is not a NewPet; the message names each member that is wrong and what it must be',
    'name is required and must be a string',
  ],
  unauthorized: ['The API key is missing or not valid'],
  not_found: ['There is no animal with this id'],
  method_not_allowed: ['The path does not have this method'],
  request_timeout: ['The request did not arrive in time'],
  gone: ['This operation is removed: use GET /pets with the status filter'],
  content_too_large: ['The body has more bytes than the server takes'],
  unsupported_media_type: ['The body must be application/json in charset utf-8, and not compressed'],
  expectation_failed: ['Expect must be 100-continue or left out'],
  headers_too_large: ['The request line and header section are too large'],
  internal_error: ['The server failed to answer; its log tells why'],
  not_implemented: ['Orders are said to exist, but the interface does not specify them'],
  storage_failed: ['The animal could not be kept and was not added: try again'],
  not_ready: ['The server is stopping'],
  store_full: ['The store has no room for this animal'],
  injected_fault: ['A test asked for this fault'],
}

const ERROR_FIELDS: { readonly [C in ErrorCode]?: readonly string[] } = {
  unauthorized: ['WWW-Authenticate'],
  not_found: ['Deprecation', 'Sunset', 'Link.deprecation'],
  method_not_allowed: ['Allow'],
  unsupported_media_type: ['Accept', 'Accept-Encoding'],
  injected_fault: ['Retry-After'],
}

/** The answer that is one of these errors, all of one status, or with one that is not given here. */
export function errorAnswer(codes: readonly ErrorCode[], status?: number): Part {
  const one = { type: 'object', properties: { code: { enum: codes }, status: { const: status } } }
  const schema = status === undefined ? ref('schemas', 'Error') : { allOf: [ref('schemas', 'Error'), one] }
  const description = codes.map((code) => `\`${code}\`: ${ERRORS[code][0]}.`).join('\n\n')
  const examples = codes.map((code) => {
    const [meaning, message = meaning] = ERRORS[code]
    return [code, { summary: meaning, value: { code, message, status: ERROR_STATUS[code] } }]
  })
  const fields = codes.flatMap((code) => ERROR_FIELDS[code] ?? [])
  return answer(description, { 'application/json': { schema, examples: Object.fromEntries(examples) } }, fields)
}

function field(description: string, schema: Part, required = true): Part {
  return { description, required, schema: { type: 'string', ...schema } }
}

function parameter(where: 'query' | 'path' | 'header', name: string, description: string, schema: Part): Part {
  return { name, in: where, required: where === 'path', description, schema }
}

function object(description: string, properties: Part, required = Object.keys(properties)): Part {
  return { type: 'object', description, required, properties }
}

const REQUEST_ID = { type: 'string', pattern: '^[A-Za-z0-9._-]{1,128}$', examples: ['3f2a-77'] }
const INT64 = { type: 'integer', format: 'int64' }
const AFTER = { ...INT64, minimum: 0, default: 0 }
const ID = { ...INT64, minimum: 1, description: 'Assigned by the service: 1, 2, 3 …; never used twice.', examples: [1] }
const STATUS = { type: 'string', enum: PET_STATUSES, description: 'Availability; left out where none was given.' }
const NEW_PET = {
  name: { type: 'string', description: 'Any string, the empty one too.', examples: ['Rex'] },
  categoryId: {
    ...INT64,
    description: `Identifier of the category, from -2^63 to 2^63-1 and exact: 9223372036854775807 comes back as it was sent.
Beyond ±(2^53-1) send plain digits, and read them with a parser that keeps them: JavaScript's \`JSON.parse\` rounds.`,
    examples: [7, -1, Number.MAX_SAFE_INTEGER],
  },
  status: ref('schemas', 'PetStatus'),
}

/** What operations refer to, but for the answers that are errors. */
export function components(basePath: string): Readonly<Record<string, Part>> {
  const apiKey = { type: 'http', scheme: 'bearer', description: '`Authorization: Bearer <API_KEY>`' }
  const page = `<${basePath}/pets?limit=2&status=sold&after=6>; rel="next"`
  const challenge = 'Bearer realm="petstore"'
  return {
    securitySchemes: { apiKey },
    schemas: {
      PetStatus: STATUS,
      NewPet: object('An animal to add.', NEW_PET, ['name', 'categoryId']),
      Pet: object('An animal. It never changes.', { id: ID, ...NEW_PET }, ['id', 'name', 'categoryId']),
      Pets: { type: 'array', maxItems: LIMIT.maximum, items: ref('schemas', 'Pet'), description: 'A page of animals.' },
      Error: object('The content of every answer of 400 or above.', {
        code: { type: 'string', enum: Object.keys(ERRORS), description: 'What went wrong, for programs.' },
        message: { type: 'string', description: 'What went wrong, for people: its wording may change.' },
        status: { type: 'integer', minimum: 400, maximum: 599, description: 'The HTTP status code.' },
      }),
    },
    parameters: {
      limit: parameter('query', 'limit', 'The most animals to list, in plain digits.', { type: 'integer', ...LIMIT }),
      status: parameter('query', 'status', 'Only animals with this status.', ref('schemas', 'PetStatus')),
      after: parameter('query', 'after', 'Only animals with a greater `id`; in plain digits. `Link` has it.', AFTER),
      petId: parameter('path', 'petId', 'The `id` of the animal. Whatever is none in the store is answered 404.', ID),
      'X-Request-Id': parameter('header', 'X-Request-Id', 'Logged and sent back; ignored in other forms.', REQUEST_ID),
    },
    headers: {
      'Cache-Control': field('No answer is to be cached.', { const: 'no-store' }),
      'X-Content-Type-Options': field('The content is of the type that it is said to be.', { const: 'nosniff' }),
      'X-Request-Id': field('The one of the request.', REQUEST_ID, false),
      'Link.next': field('The next page (RFC 8288); the last one has none.', { examples: [page] }, false),
      'Link.deprecation': field('The successor, and a page about it.', { const: deprecationLinks(basePath) }),
      'Content-Security-Policy': field('The style and script of the page alone, by their hashes.', {}),
      'Referrer-Policy': field('Nobody learns of the page.', { const: 'no-referrer' }),
      Location: field('The path of the new animal.', { examples: [`${basePath}/pets/1`] }),
      Deprecation: field('Since when it is deprecated (RFC 9745).', { const: DEPRECATION }),
      Sunset: field('When it is removed (RFC 8594).', { const: SUNSET }),
      'WWW-Authenticate': field('As RFC 6750 has it.', { enum: [challenge, `${challenge}, error="invalid_token"`] }),
      Allow: field('With 405: the methods that the path has.', { examples: ['GET, HEAD, OPTIONS'] }, false),
      Accept: field('What the body must be.', { const: 'application/json' }),
      'Accept-Encoding': field('For a body that was compressed: it must not be.', { const: 'identity' }, false),
      'Retry-After': field('Seconds to wait, for a test.', { pattern: '^\\d+$', examples: ['1'] }, false),
    },
  }
}
