import type { Status } from '../api/errors.ts'
import type { Route } from '../http/router.ts'
import type { PetstoreErrorCode } from '../types.ts'

/** Where a test control is. */
export type Control = readonly [method: Route['method'], path: string]

/** The test controls: the addresses that the server serves and connectPetstore() calls. */
export const CONTROLS = {
  list: ['GET', '/'],
  reset: ['POST', '/reset'],
  pets: ['GET', '/pets'],
  add: ['POST', '/pets'],
  requests: ['GET', '/requests'],
  clearRequests: ['DELETE', '/requests'],
  faults: ['GET', '/faults'],
  inject: ['POST', '/faults'],
  clearFaults: ['DELETE', '/faults'],
  fault: ['GET', '/faults/{id}'],
  removeFault: ['DELETE', '/faults/{id}'],
  getPetState: ['GET', '/get-pet'],
  setGetPetState: ['PUT', '/get-pet'],
} as const

/** Status of the response to each error of a petstore, and its code if it is not the usual one. */
export const RESPONSES: Readonly<Record<PetstoreErrorCode, readonly [Status, code?: string]>> = {
  invalid_option: [400],
  invalid_pet: [400, 'invalid_pet'],
  timeout: [408],
  storage_failed: [503],
  outcome_unknown: [503, 'outcome_unknown'],
  closed: [503, 'not_ready'],
  store_full: [507],
}
