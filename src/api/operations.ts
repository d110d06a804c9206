import { errorReply, type Reply } from '../http/reply.ts'
import type { Answer, Call, Handler } from '../http/router.ts'
import { parseJsonBytes } from '../pets/json.ts'
import { describeIssues, type NewPet, readUsualPet, validateNewPet } from '../pets/pet.ts'
import type { Added, PageQuery, PetStore } from '../pets/store.ts'
import type { FullPages } from './full-pages.ts'
import { readListQuery } from './query.ts'

/** What the operations work on. */
export interface Context {
  readonly store: PetStore
  readonly basePath: string
  readonly isDraining: () => boolean
  readonly pages: FullPages
}

const PET_ID = /^[1-9]\d{0,14}$/

const NOT_ADDED = {
  store_full: errorReply('store_full', 'The store has no room for this animal'),
  storage_failed: errorReply('storage_failed', 'The animal could not be kept and was not added: try again'),
}
const NO_PET = errorReply('not_found', 'There is no animal with this id')
const GONE = errorReply('gone', 'This operation is removed: use GET /pets with the status filter')
const WELL: Reply = { status: 200, body: '{"ok":true}' }
const DRAINING = errorReply('not_ready', 'The server is stopping')
const NOT_WRITABLE = errorReply('storage_failed', 'The snapshot cannot be written')
const NO_ORDERS = errorReply('not_implemented', 'Orders are said to exist, but the interface does not specify them')

/** GET /pets: a page of animals, and a link to the next one where there is one (RFC 8288). */
export function listPets({ store, basePath, pages }: Context, { query }: Call): Reply {
  const known = pages.get(query)
  if (known !== undefined) return known
  const read = readListQuery(query)
  if (!read.ok) return errorReply('invalid_parameter', describeIssues(read.issues))
  const { json, next } = store.page(read.value)
  if (next === undefined) return { status: 200, body: json }
  return pages.keep(query, json, ['Link', `<${basePath}/pets?${nextQuery(read.value, next)}>; rel="next"`])
}

function nextQuery({ limit, status }: PageQuery, after: number): string {
  return `limit=${limit}${status === undefined ? '' : `&status=${status}`}&after=${after}`
}

/** POST /pets: adds the animal of the body. */
export function createPet(context: Context, { body }: Call): Answer {
  const usual = readUsualPet(body)
  if (usual !== undefined) return add(context, usual)
  const input = parseJsonBytes(body)
  if (!input.ok) return errorReply('bad_request', `The body must be one JSON object: ${describeIssues(input.issues)}`)
  const pet = validateNewPet(input.value)
  return pet.ok ? add(context, pet.value) : errorReply('invalid_pet', describeIssues(pet.issues))
}

function add({ store, basePath }: Context, pet: NewPet): Answer {
  const added = store.add(pet)
  const answer = (settled: Added) => (settled.ok ? created(basePath, settled) : NOT_ADDED[settled.reason])
  return added instanceof Promise ? added.then(answer) : answer(added)
}

function created(basePath: string, { id, json }: { id: number; json: string }): Reply {
  return { status: 201, body: json, fields: ['Location', `${basePath}/pets/${id}`] }
}

/** When getPet was deprecated (RFC 9745: the day the contract was adopted), and when it is removed (RFC 8594). */
export const DEPRECATION = '@1795132800'
export const SUNSET = 'Thu, 05 Dec 2030 00:00:00 GMT'

/** What replaces getPet, and where its deprecation is told of, as a `Link` field. */
export function deprecationLinks(basePath: string): string {
  return `<${basePath}/pets>; rel="successor-version", </>; rel="deprecation"; type="text/html"`
}

/** GET /pets/{petId}, deprecated by the contract (Versioning). */
export function getPet({ store, basePath }: Context): Handler {
  const fields = ['Deprecation', DEPRECATION, 'Sunset', SUNSET, 'Link', deprecationLinks(basePath)]
  const noPet = { ...NO_PET, fields }
  return ({ params: { petId = '' } }) => {
    const body = PET_ID.test(petId) ? store.get(Number(petId)) : undefined
    return body === undefined ? noPet : { status: 200, body, fields }
  }
}

/** GET /pets/{petId} as it will answer after its removal. */
export function getPetRemoved(): Reply {
  return GONE
}

/** GET /store/orders: said to exist, but not specified. */
export function listOrders(): Reply {
  return NO_ORDERS
}

/** GET /livez: the process runs. */
export function livez(): Reply {
  return WELL
}

/** GET /readyz: whether the server can serve. */
export function readyz({ store, isDraining }: Context): Answer {
  if (isDraining()) return DRAINING
  const isWritable = store.isWritable()
  if (isWritable instanceof Promise) return isWritable.then((is) => (is ? WELL : NOT_WRITABLE))
  return isWritable ? WELL : NOT_WRITABLE
}
