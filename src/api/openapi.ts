import { readFileSync } from 'node:fs'
import type { Reply } from '../http/reply.ts'
import type { Handler } from '../http/router.ts'
import { deprecationLinks } from './operations.ts'

export interface Variant {
  readonly basePath: string
  readonly getPet: 'deprecated' | 'gone'
  readonly page: boolean
}

/** As much of openapi.json as depends on the variant. */
interface Document {
  paths: { '/'?: unknown; '/pets/{petId}': { get: { responses: Record<string, unknown> } } }
  components: { headers: { 'Link.deprecation': { schema: { const: string } } } }
}

/** GET /openapi.json: the file of that name, which holds for /v1 and has what only some variants have. */
export function openapi(variant: Variant): Handler {
  let reply: Reply | undefined
  // Read on the first request, so that it costs the start nothing.
  return () => (reply ??= { status: 200, body: JSON.stringify(describe(variant)) })
}

function describe({ basePath, getPet, page }: Variant): Document {
  const json = readFileSync(new URL('openapi.json', import.meta.url), 'utf8')
  const document: Document = JSON.parse(json.replaceAll('/v1', basePath))
  document.components.headers['Link.deprecation'].schema.const = deprecationLinks({ basePath, page })
  const { responses } = document.paths['/pets/{petId}'].get
  for (const status of getPet === 'gone' ? [200, 404] : [410]) delete responses[status]
  if (!page) delete document.paths['/']
  return document
}
