// Checks responses against the OpenAPI document: nothing may be missing, nothing undocumented.
import assert from 'node:assert/strict'
import { isDeepStrictEqual } from 'node:util'
import { openapi, type Variant } from '../src/api/documents.ts'
import type { Answer } from './support.ts'

const documents = new Map<string, unknown>()

export function documentOf(variant: Variant): unknown {
  const key = JSON.stringify(variant)
  if (!documents.has(key)) {
    const reply = openapi(variant)({ param: '', query: '', body: Buffer.alloc(0) })
    assert.ok(!(reply instanceof Promise) && typeof reply?.body === 'string')
    documents.set(key, JSON.parse(reply.body))
  }
  return documents.get(key)
}

export function entries(value: unknown): [name: string, value: unknown][] {
  return typeof value === 'object' && value !== null ? Object.entries(value) : []
}

/** Follows keys from a node of a document, through all references. */
export function find(document: unknown, node: unknown, ...keys: readonly string[]): unknown {
  const members = new Map(entries(node))
  const reference = members.get('$ref')
  if (typeof reference === 'string')
    return find(document, document, ...reference.slice(2).split('/'), ...keys)
  const [key, ...rest] = keys
  return key === undefined ? node : find(document, members.get(key), ...rest)
}

type Check = (
  expected: unknown,
  value: unknown,
  breaches: (schema: unknown, value: unknown) => string[],
) => unknown

const pass = () => true

function typeOf(value: unknown): string {
  if (value === null) return 'null'
  return Array.isArray(value) ? 'array' : typeof value
}

/** The keywords of JSON Schema that the document uses. Any other makes the check throw. */
const KEYWORDS: Readonly<Record<string, Check>> = {
  type: (type, value) => (type === 'integer' ? Number.isInteger(value) : type === typeOf(value)),
  const: isDeepStrictEqual,
  enum: (values, value) => entries(values).some(([, one]) => one === value),
  required: (names, value) =>
    entries(names).every(([, name]) => new Map(entries(value)).has(String(name))),
  properties: (schemas, value, breaches) => {
    const known = new Map(entries(schemas))
    return entries(value).flatMap(([name, member]) => {
      return known.has(name) ? breaches(known.get(name), member) : [`${name} is not in the schema`]
    })
  },
  items: (schema, value, breaches) => entries(value).flatMap(([, item]) => breaches(schema, item)),
  minimum: (minimum, value) => Number(value) >= Number(minimum),
  maximum: (maximum, value) => Number(value) <= Number(maximum),
  maxItems: (most, value) => entries(value).length <= Number(most),
  pattern: (pattern, value) => new RegExp(String(pattern), 'u').test(String(value)),
  format: (format, value) => format === 'int64' && Math.abs(Number(value)) <= 2 ** 63,
  description: pass,
  examples: pass,
  default: pass,
}

/** Every breach of a schema by a value; unknown members count. */
export function breachesOf(document: unknown, schema: unknown, value: unknown): string[] {
  return entries(find(document, schema)).flatMap(([keyword, expected]) => {
    const check = KEYWORDS[keyword]
    if (check === undefined) throw new Error(`the check does not know ${keyword}`)
    const result = check(expected, value, (inner, member) => breachesOf(document, inner, member))
    if (Array.isArray(result)) return result.map(String)
    if (result === true) return []
    return [`${JSON.stringify(value)} breaks ${keyword} ${JSON.stringify(expected)}`]
  })
}

// HTTP's own headers, and those of CORS, which the document leaves out.
const NOT_DESCRIBED =
  /^(?:content-type|content-length|date|connection|keep-alive|vary|access-control-.*)$/

export function breachesOfOperation(
  document: unknown,
  operation: unknown,
  answer: Answer,
  isHead = false,
): string[] {
  const { status, headers, body } = answer
  const key = body.startsWith('{"code":"injected_fault"') ? 'default' : String(status)
  const response = find(document, operation, 'responses', key)
  const type = headers['content-type']?.replace(/;.*/, '') ?? ''
  const media = find(document, response, 'content', type)
  if (media === undefined) return [`${key} ${type} is not in the document`]
  const described = new Map<string, unknown>()
  for (const [name, header] of entries(find(document, response, 'headers')))
    described.set(name.toLowerCase(), header)
  const found = Object.keys(headers)
    .filter((name) => !described.has(name) && !NOT_DESCRIBED.test(name))
    .map((name) => `${name} is not in the document`)
  for (const [name, header] of described) {
    const value = headers[name]
    if (value !== undefined)
      found.push(...breachesOf(document, find(document, header, 'schema'), value))
    else if (find(document, header, 'required') === true) found.push(`${name} is missing`)
  }
  if (isHead) return found
  const content: unknown = type === 'application/json' ? JSON.parse(body) : body
  found.push(...breachesOf(document, find(document, media, 'schema'), content))
  if (status < 400) return found
  const codes = entries(find(document, media, 'examples')).map(([, one]) =>
    find(document, one, 'value', 'code'),
  )
  if (!codes.includes(find({}, content, 'code')))
    found.push(`the code in ${body} is not in the document`)
  return [...found, ...breachesOfError(answer)]
}

/** Every breach of the Error schema by a response. */
export function breachesOfError({ status, headers, body }: Answer): string[] {
  if (headers['content-type'] !== 'application/json')
    return [`${headers['content-type']} is not application/json`]
  const document = documentOf({ basePath: '/v1', getPetState: 'deprecated', page: true })
  const found = breachesOf(document, { $ref: '#/components/schemas/Error' }, JSON.parse(body))
  if (find({}, JSON.parse(body), 'status') !== status)
    found.push(`${body} has a status other than ${status}`)
  return found
}

/** The operation at a request target, which is decoded except for its slashes. */
function operationAt(document: unknown, method: string, target: string): unknown {
  const [path = ''] = target.replace(/^https?:\/\/[^/?#]+/i, '').split('?')
  const decoded = path.replace(/^$/, '/').replaceAll(/%(?!2f)[2-7][\da-f]/gi, decodeURIComponent)
  const found = entries(find(document, document, 'paths')).find(([template, item]) => {
    const url =
      find(document, item, 'servers', '0', 'url') ?? find(document, document, 'servers', '0', 'url')
    const pattern = `^${url}${template}$`.replace('//', '/').replace(/\{\w+\}/, '[^/%]+')
    return new RegExp(pattern).test(decoded)
  })
  return find(document, found?.[1], method.toLowerCase())
}

export const VARIANTS: readonly Omit<Variant, 'basePath'>[] = [true, false].flatMap((page) => {
  return (['deprecated', 'gone'] as const).map((getPetState) => ({ getPetState, page }))
})

/** Every breach of the document by a response, of the variant with the fewest breaches. */
export function breachesOfAnswer(
  basePath: string,
  method: string,
  target: string,
  answer: Answer,
): string[] {
  const isHead = method === 'HEAD'
  const byVariant = VARIANTS.map((variant) => {
    const document = documentOf({ basePath, ...variant })
    const operation = operationAt(document, isHead ? 'GET' : method, target)
    if (operation !== undefined) return breachesOfOperation(document, operation, answer, isHead)
    if (answer.status === 204)
      return answer.headers.allow === undefined ? ['a 204 without Allow'] : []
    return isHead ? [] : breachesOfError(answer)
  })
  return byVariant.reduce((least, breaches) => (breaches.length < least.length ? breaches : least))
}
