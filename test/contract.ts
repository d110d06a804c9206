// Holds answers to the OpenAPI document: an answer may neither lack what is said there, nor have what is not.
import { isDeepStrictEqual } from 'node:util'
import { FullPages } from '../src/api/full-pages.ts'
import { describeApi } from '../src/api/openapi.ts'
import { type RouteOptions, routes } from '../src/api/routes.ts'
import { readTarget, type Route, Router } from '../src/http/router.ts'
import { MemoryStore } from '../src/pets/store.ts'
import type { Answer } from './support.ts'

/** The table of routes of a server, and the document that it gives. */
export interface Contract {
  readonly table: readonly Route[]
  readonly document: unknown
}

export function contractOf(basePath: string, options: RouteOptions): Contract {
  const context = { store: new MemoryStore(1), basePath, isDraining: () => false, pages: new FullPages() }
  const table = routes(context, options)
  return { table, document: JSON.parse(JSON.stringify(describeApi({ basePath, ...options }, table))) }
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The names and values of an object's members, or an array's; none of anything else. */
export function entries(value: unknown): [name: string, value: unknown][] {
  return typeof value === 'object' && value !== null ? Object.entries(value) : []
}

/** What stands in a document behind these keys of one of its nodes, through all references. */
export function find(document: unknown, node: unknown, ...keys: readonly string[]): unknown {
  const members = new Map(entries(node))
  const reference = members.get('$ref')
  if (typeof reference === 'string') return find(document, document, ...reference.slice(2).split('/'), ...keys)
  const [key, ...rest] = keys
  return key === undefined ? node : find(document, members.get(key), ...rest)
}

type Check = (expected: unknown, value: unknown, breaches: (schema: unknown, value: unknown) => string[]) => unknown

/** JSON Schema as far as the document uses it; another keyword makes the check throw. */
const KEYWORDS: Readonly<Record<string, Check>> = {
  type: (type, value) => (type === 'integer' ? Number.isInteger(value) : type === typeOf(value)),
  const: isDeepStrictEqual,
  enum: (values, value) => Array.isArray(values) && values.includes(value),
  required: (names, value) => Array.isArray(names) && isObject(value) && names.every((name) => name in value),
  properties: (schemas, value, breaches) =>
    entries(schemas).flatMap(([name, schema]) =>
      isObject(value) && name in value ? breaches(schema, value[name]) : [],
    ),
  items: (schema, value, breaches) => Array.isArray(value) && value.flatMap((item) => breaches(schema, item)),
  minimum: (minimum, value) => Number(value) >= Number(minimum),
  maximum: (maximum, value) => Number(value) <= Number(maximum),
  maxItems: (most, value) => Array.isArray(value) && value.length <= Number(most),
  pattern: (pattern, value) => new RegExp(String(pattern), 'u').test(String(value)),
  format: (format, value) => format === 'int64' && Math.abs(Number(value)) <= 2 ** 63,
  additionalProperties: () => true,
  description: () => true,
  examples: () => true,
  default: () => true,
}

function typeOf(value: unknown): string {
  return Array.isArray(value) ? 'array' : value === null ? 'null' : typeof value
}

/** Every breach of a schema by a value; members that it does not name are breaches too. */
export function breachesOf(document: unknown, schema: unknown, value: unknown): string[] {
  const keywords = keywordsOf(document, schema)
  const found = keywords.flatMap(([keyword, expected]) => {
    const check = KEYWORDS[keyword]
    if (check === undefined) throw new Error(`the check does not know ${keyword}`)
    const result = check(expected, value, (inner, member) => breachesOf(document, inner, member))
    if (Array.isArray(result)) return result.map(String)
    return result === true ? [] : [`${JSON.stringify(value)} is not of ${keyword} ${JSON.stringify(expected)}`]
  })
  const known = keywords.filter(([keyword]) => keyword === 'properties').flatMap(([, schemas]) => entries(schemas))
  const unknown = entries(value).filter(([name]) => known.length > 0 && known.every(([other]) => other !== name))
  return [...found, ...unknown.map(([name]) => `${name} is not in the schema`)]
}

/** The keywords of a schema, and of those that it is all of. */
function keywordsOf(document: unknown, schema: unknown): [keyword: string, value: unknown][] {
  return entries(find(document, schema)).flatMap(([keyword, value]): [string, unknown][] =>
    keyword === 'allOf' ? entries(value).flatMap(([, one]) => keywordsOf(document, one)) : [[keyword, value]],
  )
}

// HTTP's own, and CORS', which a server has only for the origin that it is set up with.
const NOT_DESCRIBED = /^(?:content-type|content-length|date|connection|keep-alive|vary|access-control-.*)$/

/** Every breach of the document by an answer to one of its operations. */
export function breachesOfOperation({ document }: Contract, route: Route, isHead: boolean, answer: Answer): string[] {
  const { status, headers, body } = answer
  const content: unknown = /json/.test(headers['content-type'] ?? '') && !isHead ? JSON.parse(body) : body
  const isInjected = isObject(content) && content['code'] === 'injected_fault'
  const at = ['paths', route.path, route.method.toLowerCase(), 'responses', isInjected ? 'default' : String(status)]
  const response = find(document, document, ...at)
  if (response === undefined) return [`${at.join(' ')} is not in the document`]
  const fields = new Map(
    entries(find(document, response, 'headers')).map(([name, field]) => [name.toLowerCase(), field]),
  )
  const found = Object.keys(headers)
    .filter((name) => !fields.has(name) && !NOT_DESCRIBED.test(name))
    .map((name) => `${name} is not in the document`)
  for (const [name, field] of fields) {
    const value = headers[name]
    if (value !== undefined) found.push(...breachesOf(document, find(document, field, 'schema'), value))
    else if (find(document, field, 'required') === true) found.push(`${name} is missing`)
  }
  const media = find(document, response, 'content', headers['content-type']?.replace(/;.*/, '') ?? '')
  if (media === undefined) return [...found, `${headers['content-type']} is not in the document`]
  return isHead ? found : [...found, ...breachesOf(document, find(document, media, 'schema'), content)]
}

const contracts = new Map<string, { contract: Contract; router: Router }>()

/** Every breach of the document by an answer that must be an Error, whatever it answers. */
export function breachesOfError({ body }: Answer): string[] {
  const { document } = contractOf('/v1', { getPet: 'deprecated', page: true })
  return breachesOf(document, { $ref: '#/components/schemas/Error' }, JSON.parse(body))
}

/** Every breach of the document by an answer of the server with this base path to any request. */
export function breachesOfAnswer(basePath: string, method: string, target: string, answer: Answer): string[] {
  const getPet = answer.status === 410 ? 'gone' : 'deprecated'
  const key = `${basePath} ${getPet}`
  let known = contracts.get(key)
  if (known === undefined) {
    const contract = contractOf(basePath, { getPet, page: true })
    known = { contract, router: new Router(contract.table, basePath) }
    contracts.set(key, known)
  }
  const { contract, router } = known
  const { resource } = router.match(readTarget(target)?.path ?? '*')
  const isHead = method === 'HEAD'
  const route = resource?.routes.get(isHead ? 'GET' : method)
  if (route !== undefined && !(route.path === '/' && answer.status === 404)) {
    return breachesOfOperation(contract, route, isHead, answer)
  }
  if (isHead) return []
  if (answer.status === 204) return answer.headers.allow === undefined ? ['a 204 without Allow'] : []
  return breachesOf(contract.document, { $ref: '#/components/schemas/Error' }, JSON.parse(answer.body))
}
