import { CODES, type Status } from '../api/errors.ts'
import { isRecord } from '../guards.ts'
import type { Route } from '../http/router.ts'
import { parseJson } from '../pets/json.ts'
import { petJson } from '../pets/pet.ts'
import { misuse } from '../rules.ts'
import type { InitialPet, PetstoreErrorCode } from '../types.ts'

/** Where a test control is. */
export type Control = readonly [method: Route['method'], path: string]

/** The test controls: the addresses that the server serves and connectPetstore() calls. */
export const CONTROLS = {
  list: ['GET', '/'],
  stores: ['GET', '/stores'],
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
  verify: ['GET', '/verify'],
  getPetState: ['GET', '/get-pet'],
  setGetPetState: ['PUT', '/get-pet'],
} as const

/** Pets as the controls take and return them: with exact integers, unlike JSON.stringify. */
export function jsonOf(pets: readonly InitialPet[]): string {
  const items = pets.map((pet) => {
    return pet.id === undefined ? petJson(0, pet).replace('"id":0,', '') : petJson(pet.id, pet)
  })
  return `[${items.join(',')}]`
}

/** Status of the response to each error of a petstore, and its code if it is not the usual one. */
export const RESPONSES: Readonly<Record<PetstoreErrorCode, readonly [Status, code?: string]>> = {
  invalid_option: [400],
  invalid_pet: [400, 'invalid_pet'],
  timeout: [408],
  verify_failed: [400, 'verify_failed'],
  storage_failed: [503],
  outcome_unknown: [503, 'outcome_unknown'],
  closed: [503, 'not_ready'],
  store_full: [507],
}

const ERROR_CLASSES: Readonly<Record<string, typeof Error>> = {
  invalid_option: TypeError,
  invalid_pet: TypeError,
  store_full: RangeError,
}

/** The error of a petstore that is in a response. @param what Begins the message of any other. */
export function errorIn(text: string, what: string): Error {
  const parsed = parseJson(text)
  const { code, message } = parsed.ok && isRecord(parsed.value) ? parsed.value : {}
  for (const [known, [status, own = CODES[status]]] of Object.entries(RESPONSES)) {
    if (own !== code) continue
    const ErrorClass = ERROR_CLASSES[known] ?? Error
    return Object.assign(new ErrorClass(String(message)), { code: known })
  }
  return misuse(code === undefined ? what : `${what}: ${code}: ${message}`)
}
