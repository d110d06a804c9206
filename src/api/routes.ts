import type { Handler, Route } from '../http/router.ts'
import type { RecordedOperation } from '../types.ts'
import { homePage, openapi } from './documents.ts'
import * as operations from './operations.ts'

type Row = readonly [
  method: Route['method'],
  path: string,
  operation: RecordedOperation | 'livez' | 'readyz',
  makeHandler: (context: operations.Context) => Handler,
  scope: Route['scope'],
]

const TABLE: readonly Row[] = [
  ['GET', '/pets', 'listPets', operations.listPets, 'base'],
  ['POST', '/pets', 'createPet', operations.createPet, 'base'],
  ['GET', '/pets/{petId}', 'getPet', operations.getPet, 'base'],
  ['GET', '/store/orders', 'listOrders', operations.listOrders, 'base'],
  ['GET', '/livez', 'livez', operations.livez, 'root'],
  ['GET', '/readyz', 'readyz', operations.readyz, 'root'],
  ['GET', '/openapi.json', 'openapi', openapi, 'root'],
  ['GET', '/', 'page', homePage, 'root'],
]

export function routes(context: operations.Context): Route[] {
  const rows = TABLE.filter(([, path]) => context.page || path !== '/')
  return rows.map(([method, path, operation, makeHandler, scope]) => {
    const isProbe = operation === 'livez' || operation === 'readyz'
    return { method, path, operation, handle: makeHandler(context), scope, isProbe }
  })
}
