import type { Reply } from '../http/reply.ts'
import type { Handler, Route } from '../http/router.ts'
import { type Context, createPet, getPet, getPetRemoved, listOrders, listPets, livez, readyz } from './operations.ts'
import type { Variant } from './openapi.ts'
import { page } from './page.ts'

/** Which of the routes a server has. */
export interface RouteOptions {
  /** `gone`: getPet answers 410, as after its removal. */
  getPet: 'deprecated' | 'gone'
  /** Whether `/` shows a page for people. */
  page: boolean
}

/** Every route of the service. */
export function routes(context: Context, options: RouteOptions): Route[] {
  const table: Route[] = [
    { method: 'GET', path: '/pets', operation: 'listPets', handle: (call) => listPets(context, call) },
    {
      method: 'POST',
      path: '/pets',
      operation: 'createPet',
      handle: (call) => createPet(context, call),
      takesBody: true,
    },
    {
      method: 'GET',
      path: '/pets/{petId}',
      operation: 'getPet',
      handle: options.getPet === 'gone' ? getPetRemoved : getPet(context),
    },
    { method: 'GET', path: '/store/orders', operation: 'listOrders', handle: listOrders },
    { method: 'GET', path: '/livez', operation: 'livez', handle: livez, open: true, isQuiet: true },
    { method: 'GET', path: '/readyz', operation: 'readyz', handle: () => readyz(context), open: true, isQuiet: true },
  ]
  if (options.page) table.push({ method: 'GET', path: '/', operation: 'page', handle: page, open: true })
  table.push({
    method: 'GET',
    path: '/openapi.json',
    operation: 'openapi',
    handle: openapi({ basePath: context.basePath, getPet: options.getPet }, table),
    open: true,
  })
  return table
}

/** GET /openapi.json: the document is made, and the code that makes it loaded, on the first request. */
export function openapi(variant: Variant, table: readonly Route[]): Handler {
  let reply: Promise<Reply> | undefined
  return () => (reply ??= describe(variant, table))
}

async function describe(variant: Variant, table: readonly Route[]): Promise<Reply> {
  const { describeApi } = await import('./openapi.ts')
  return { status: 200, body: JSON.stringify(describeApi(variant, table)) }
}
