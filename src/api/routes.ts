import type { Handler, Route } from '../http/router.ts'
import type { RecordedOperation } from '../types.ts'
import { homePage, openapi } from './documents.ts'
import * as operations from './operations.ts'

type Row = readonly [
  method: Route['method'],
  path: string,
  operation: RecordedOperation | 'livez' | 'readyz',
  makeHandler: (context: operations.Context) => Handler,
  access?: Route['access'],
]

const TABLE: readonly Row[] = [
  ['GET', '/pets', 'listPets', operations.listPets],
  ['POST', '/pets', 'createPet', operations.createPet],
  ['GET', '/pets/{petId}', 'getPet', operations.getPet],
  ['GET', '/store/orders', 'listOrders', operations.listOrders],
  ['GET', '/livez', 'livez', operations.livez, 'probe'],
  ['GET', '/readyz', 'readyz', operations.readyz, 'probe'],
  ['GET', '/openapi.json', 'openapi', openapi, 'public'],
  ['GET', '/', 'page', homePage, 'public'],
]

export function routes(context: operations.Context): Route[] {
  const rows = TABLE.filter(([, path]) => context.page || path !== '/')
  return rows.map(([method, path, operation, makeHandler, access]) => {
    return { method, path, operation, handle: makeHandler(context), access }
  })
}
