import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Reply } from '../http/respond.ts'
import type { Handler } from '../http/router.ts'
import { type Context, deprecationLinks } from './operations.ts'

export type Variant = Pick<Context, 'basePath' | 'page' | 'getPetState'>

/** The parts that vary. */
interface Document {
  paths: { '/'?: unknown; '/pets/{petId}': { get: { responses: Record<string, unknown> } } }
  components: { headers: { 'Link.deprecation': { schema: { const: string } } } }
}

/** GET /openapi.json: the file of that name, which is read on the first request. */
export function openapi(variant: Variant): Handler {
  const replies: Partial<Record<Variant['getPetState'], Reply>> = {}
  return () => {
    const { getPetState } = variant
    replies[getPetState] ??= { status: 200, body: JSON.stringify(describe(variant)) }
    return replies[getPetState]
  }
}

/** The file describes every variant at /v1; what does not apply is removed. */
function describe(variant: Variant): Document {
  const json = readFileSync(join(import.meta.dirname, 'openapi.json'), 'utf8')
  const document: Document = JSON.parse(json.replaceAll('/v1', variant.basePath))
  const { headers } = document.components
  headers['Link.deprecation'].schema.const = deprecationLinks(variant)
  const { responses } = document.paths['/pets/{petId}'].get
  for (const status of variant.getPetState === 'gone' ? [200, 404] : [410]) delete responses[status]
  if (!variant.page) delete document.paths['/']
  return document
}
