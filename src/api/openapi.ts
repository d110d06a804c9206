import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Reply } from '../http/reply.ts'
import type { Handler } from '../http/router.ts'
import { type Context, deprecationLinks } from './operations.ts'

export type Variant = Pick<Context, 'basePath' | 'page' | 'getPet'>

/** As much of openapi.json as depends on the variant. */
interface Document {
  paths: { '/'?: unknown; '/pets/{petId}': { get: { responses: Record<string, unknown> } } }
  components: { headers: { 'Link.deprecation': { schema: { const: string } } } }
}

/** GET /openapi.json: the file of that name, which holds for /v1 and has what only some variants have. */
export function openapi(variant: Variant): Handler {
  const replies: Partial<Record<Variant['getPet'], Reply>> = {}
  // Read on the first request, so that it costs the start nothing.
  return () => (replies[variant.getPet] ??= { status: 200, body: JSON.stringify(describe(variant)) })
}

function describe({ basePath, getPet, page }: Variant): Document {
  const json = readFileSync(join(import.meta.dirname, 'openapi.json'), 'utf8')
  const document: Document = JSON.parse(json.replaceAll('/v1', basePath))
  document.components.headers['Link.deprecation'].schema.const = deprecationLinks({ basePath, page })
  const { responses } = document.paths['/pets/{petId}'].get
  for (const status of getPet === 'gone' ? [200, 404] : [410]) delete responses[status]
  if (!page) delete document.paths['/']
  return document
}
