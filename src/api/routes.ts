import type { Handler, Route } from '../http/router.ts'
import { openapi, website } from './documents.ts'
import type { Context } from './operations.ts'
import { createPet, getPet, listOrders, listPets, livez, readyz } from './operations.ts'

type Row = readonly [
  method: Route['method'],
  path: string,
  operation: string,
  handler: (context: Context) => Handler,
  flags?: Pick<Route, 'takesBody' | 'isPublic' | 'isQuiet'>,
]

const TABLE: readonly Row[] = [
  ['GET', '/pets', 'listPets', listPets],
  ['POST', '/pets', 'createPet', createPet, { takesBody: true }],
  ['GET', '/pets/{petId}', 'getPet', getPet],
  ['GET', '/store/orders', 'listOrders', listOrders],
  ['GET', '/livez', 'livez', livez, { isPublic: true, isQuiet: true }],
  ['GET', '/readyz', 'readyz', readyz, { isPublic: true, isQuiet: true }],
  ['GET', '/openapi.json', 'openapi', openapi, { isPublic: true }],
  ['GET', '/', 'page', website, { isPublic: true }],
]

export function routes(context: Context): Route[] {
  const rows = TABLE.filter(([, path]) => context.page || path !== '/')
  return rows.map(([method, path, operation, handler, flags]) => {
    return { method, path, operation, handle: handler(context), ...flags }
  })
}
