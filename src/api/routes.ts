import type { Route } from '../http/router.ts'
import { refuse } from './errors.ts'
import { openapi } from './openapi.ts'
import { type Context, createPet, getPet, listPets, OK, readyz } from './operations.ts'
import { page } from './page.ts'

export function routes(context: Context): Route[] {
  // prettier-ignore
  const table: Route[] = [
    { method: 'GET', path: '/pets', operation: 'listPets', handle: (call) => listPets(context, call) },
    { method: 'POST', path: '/pets', operation: 'createPet', handle: (call) => createPet(context, call), takesBody: true },
    { method: 'GET', path: '/pets/{petId}', operation: 'getPet', handle: getPet(context) },
    { method: 'GET', path: '/store/orders', operation: 'listOrders', handle: () => refuse('noOrders') },
    { method: 'GET', path: '/livez', operation: 'livez', handle: () => OK, open: true, isQuiet: true },
    { method: 'GET', path: '/readyz', operation: 'readyz', handle: () => readyz(context), open: true, isQuiet: true },
    { method: 'GET', path: '/openapi.json', operation: 'openapi', handle: openapi(context), open: true },
  ]
  if (context.page) table.push({ method: 'GET', path: '/', operation: 'page', handle: page, open: true })
  return table
}
