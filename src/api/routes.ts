import type { Handler, Route } from '../http/router.ts'
import type { RecordedOperation } from '../types.ts'
import { homePage, openapi } from './documents.ts'
import type { Context } from './operations.ts'
import { createPet, getPet, listOrders, listPets, livez, readyz } from './operations.ts'

type Row = readonly [
  method: Route['method'],
  path: string,
  operation: RecordedOperation | 'livez' | 'readyz',
  makeHandler: (context: Context) => Handler,
  access?: Route['access'],
]

const TABLE: readonly Row[] = [
  ['GET', '/pets', 'listPets', listPets],
  ['POST', '/pets', 'createPet', createPet],
  ['GET', '/pets/{petId}', 'getPet', getPet],
  ['GET', '/store/orders', 'listOrders', listOrders],
  ['GET', '/livez', 'livez', livez, 'probe'],
  ['GET', '/readyz', 'readyz', readyz, 'probe'],
  ['GET', '/openapi.json', 'openapi', openapi, 'public'],
  ['GET', '/', 'page', homePage, 'public'],
]

export function routes(context: Context): Route[] {
  const rows = TABLE.filter(([, path]) => context.page || path !== '/')
  return rows.map(([method, path, operation, makeHandler, access]) => {
    return { method, path, operation, handle: makeHandler(context), access }
  })
}
