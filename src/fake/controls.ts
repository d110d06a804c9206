import { errorReply } from '../api/errors.ts'
import { hasCode, isRecord, messageOf } from '../guards.ts'
import type { Reply } from '../http/respond.ts'
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

/** The response to each error of a petstore, and the class of the error in another process. */
const RESPONSES: Readonly<
  Record<PetstoreErrorCode, { status: number; code: string; ErrorClass: typeof Error }>
> = {
  invalid_option: { status: 400, code: 'bad_request', ErrorClass: TypeError },
  invalid_pet: { status: 400, code: 'invalid_pet', ErrorClass: TypeError },
  verify_failed: { status: 400, code: 'verify_failed', ErrorClass: Error },
  timeout: { status: 408, code: 'request_timeout', ErrorClass: Error },
  storage_failed: { status: 503, code: 'storage_failed', ErrorClass: Error },
  outcome_unknown: { status: 503, code: 'outcome_unknown', ErrorClass: Error },
  closed: { status: 503, code: 'not_ready', ErrorClass: Error },
  store_full: { status: 507, code: 'store_full', ErrorClass: RangeError },
}

/** The response to an error of a petstore. Throws any other error: it is a bug. */
export function responseTo(error: unknown): Reply {
  const known = Object.entries(RESPONSES).find(([code]) => hasCode(error, code))
  if (!known) throw error
  const [, { status, code }] = known
  return errorReply(status, code, messageOf(error))
}

/** The error of a petstore that is in a response. @param what Begins the message of any other. */
export function errorIn(text: string, what: string): Error {
  const parsed = parseJson(text)
  const { code, message } = parsed.ok && isRecord(parsed.value) ? parsed.value : {}
  const known = Object.entries(RESPONSES).find(([, response]) => response.code === code)
  if (!known) return misuse(code === undefined ? what : `${what}: ${code}: ${message}`)
  const [ownCode, { ErrorClass }] = known
  return Object.assign(new ErrorClass(String(message)), { code: ownCode })
}
