import { ERROR_STATUS, type ErrorCode } from '../http/reply.ts'
import type { Route } from '../http/router.ts'
import { answer, components, errorAnswer, json, type Part, ref } from './openapi-parts.ts'
import { SUNSET } from './operations.ts'
import { VERSION } from '../version.ts'

/** What there is to say of an operation beside its row in the table of routes. */
interface Operation {
  readonly summary: string
  readonly description?: string
  readonly deprecated?: true
  readonly parameters?: readonly Part[]
  readonly requestBody?: Part
  /** Its answers that are no errors, by status. */
  readonly answers?: Readonly<Record<string, Part>>
  /** Errors that not every operation has; of those with one status, the last one names the component. */
  readonly errors?: readonly ErrorCode[]
}

const DESCRIPTION = `Lists, adds and fetches the animals of a store.

- **Authentication**: \`Authorization: Bearer <API_KEY>\`. The key comes before all else: without one, every path under the
  base path is answered 401 and says no more.
- **Integers** are int64 and exact. In JSON they are numbers, beyond 2^53 too: read them with a parser that does not round.
- **Pages**: listPets answers at most \`limit\` animals. Follow its \`Link\` with \`rel="next"\` until there is none.
- **Errors**: every answer of 400 or above is an Error of \`code\`, \`message\` and \`status\`. Go by \`code\` where you know it, else by
  \`status\`. Checked are, in this order: HTTP itself, key, path (404 \`not_found\`), method (405 \`method_not_allowed\`), media type,
  size, JSON and members, room in the store, storage.
- **Methods**: HEAD works where GET does. OPTIONS needs no key and is answered 204 with \`Allow\`.
- **Deprecation**: getPet is removed on ${SUNSET}. Use listPets with \`status\` instead.`

const LICENSE = { name: 'MIT', identifier: 'MIT' }
const TAGS = [
  { name: 'pets', description: 'The operations of the contract.' },
  { name: 'server', description: 'Outside the base path, without a key.' },
]

const NEW_REX = { name: 'Rex', categoryId: 7, status: 'available' }
const NEW_TOM = { name: 'Tom', categoryId: -1 }
const REX = { id: 1, ...NEW_REX }
const TOM = { id: 2, ...NEW_TOM }

const PETS = json(ref('schemas', 'Pets'), { some: [REX, TOM], none: [] })
const PET = json(ref('schemas', 'Pet'), { full: REX, least: TOM })
const NEW_PET = json(ref('schemas', 'NewPet'), { full: NEW_REX, least: NEW_TOM })
const YES = json({ type: 'object', required: ['ok'], properties: { ok: { const: true } } }, { yes: { ok: true } })
const HTML = { 'text/html': { schema: { type: 'string' } } }

const GET_PET: Operation = {
  summary: 'Get an animal',
  description: `Removed on ${SUNSET}; from then on it answers 410. Use listPets with \`status\` instead.`,
  deprecated: true,
  parameters: [ref('parameters', 'petId')],
  answers: { 200: answer('The animal.', PET, ['Deprecation', 'Sunset', 'Link.deprecation']) },
  errors: ['not_found'],
}

const OPERATIONS: Readonly<Record<string, Operation>> = {
  listPets: {
    summary: 'List animals',
    description: `In ascending order of \`id\`. To walk on, follow \`Link\` as it stands: it has the same \`limit\` and \`status\`, and \`after\`.
No animal is left out or listed twice on the way, also when others are added. Parameters of other names are ignored.`,
    parameters: ['limit', 'status', 'after'].map((name) => ref('parameters', name)),
    answers: { 200: answer('Animals, or an empty array.', PETS, ['Link.next']) },
    errors: ['invalid_parameter'],
  },
  createPet: {
    summary: 'Add an animal',
    description: `Where the server keeps animals on disk, a 201 means that this one is there. An answer that does not arrive tells
nothing: the animal may have been added, and a second try may add it twice.`,
    requestBody: {
      description: 'In UTF-8. Unknown members are ignored, `id` among them.',
      required: true,
      content: NEW_PET,
    },
    answers: { 201: answer('The animal, with its `id`.', PET, ['Location']) },
    errors: ['invalid_pet', 'content_too_large', 'unsupported_media_type', 'storage_failed', 'store_full'],
  },
  getPet: GET_PET,
  listOrders: { summary: 'List orders: not specified, and not implemented', errors: ['not_implemented'] },
  livez: { summary: 'Whether the process runs, for probes', answers: { 200: answer('It does.', YES) } },
  readyz: {
    summary: 'Whether the server can serve, for probes',
    answers: { 200: answer('It can.', YES) },
    errors: ['storage_failed', 'not_ready'],
  },
  page: {
    summary: 'A page for people',
    answers: { 200: answer('The page.', HTML, ['Content-Security-Policy', 'Referrer-Policy']) },
  },
  openapi: { summary: 'This document', answers: { 200: answer('The document.', json({ type: 'object' })) } },
}

// What any request may meet.
const HTTP_ERRORS: readonly ErrorCode[] = ['bad_request', 'request_timeout', 'expectation_failed', 'headers_too_large']

/** What a document depends on beside the table of routes. */
export interface Variant {
  readonly basePath: string
  readonly getPet: 'deprecated' | 'gone'
}

/** Describes a table of routes in OpenAPI 3.1 (https://spec.openapis.org/oas/v3.1.0). */
export function describeApi({ basePath, getPet }: Variant, table: readonly Route[]): Part {
  const gone: Operation = { ...GET_PET, answers: {}, errors: ['gone'] }
  const operations = getPet === 'gone' ? { ...OPERATIONS, getPet: gone } : OPERATIONS
  const paths: Record<string, Record<string, unknown>> = {}
  const responses: Record<string, Part> = { other: errorAnswer(['method_not_allowed', 'injected_fault']) }
  for (const { method, path, operation: operationId, open } of table) {
    const { answers, errors = [], ...described }: Operation = operations[operationId] ?? { summary: operationId }
    const codes: ErrorCode[] = [...HTTP_ERRORS, ...errors, 'internal_error']
    if (!open) codes.push('unauthorized')
    const byStatus: Record<string, Part> = { ...answers, default: ref('responses', 'other') }
    for (const code of codes) {
      const status = ERROR_STATUS[code]
      const same = codes.filter((other) => ERROR_STATUS[other] === status)
      const name = same.at(-1) ?? code
      responses[name] ??= errorAnswer(same, status)
      byStatus[status] = ref('responses', name)
    }
    paths[path] ??= { ...(open && { servers: [{ url: '/' }] }), parameters: [ref('parameters', 'X-Request-Id')] }
    const placed = open ? { tags: ['server'], security: [] } : { tags: ['pets'] }
    paths[path][method.toLowerCase()] = { operationId, ...placed, ...described, responses: byStatus }
  }
  return {
    openapi: '3.1.0',
    info: { title: 'Pet store', version: VERSION, description: DESCRIPTION, license: LICENSE },
    servers: [{ url: basePath }],
    security: [{ apiKey: [] }],
    tags: TAGS,
    paths,
    components: { ...components(basePath), responses },
  }
}
