import type { Keyring } from '../http/bearer.ts'
import type { Reply } from '../http/respond.ts'
import type { Handler } from '../http/router.ts'
import { parseJsonBytes } from '../pets/json.ts'
import { validateNewPet } from '../pets/pet.ts'
import type { AnyStore } from '../pets/store.ts'
import type { Added, Awaitable, GetPetState, Page } from '../types.ts'
import { ADD_ERRORS, refuse } from './errors.ts'
import { readListQuery } from './query.ts'

export interface Context {
  readonly store: AnyStore
  readonly basePath: string
  readonly page: boolean // whether `/` is the page for people
  readonly strict: boolean // whether unknown members are refused, which the document says
  readonly keyring: Pick<Keyring, 'isAnyKeyValid'> // for the page, which may make up a key
  getPetState: GetPetState
  state: 'serving' | 'draining' | 'closed' // while it drains, /readyz is 503
  onReadiness?: ((reply: Reply) => void) | undefined // receives what /readyz changes to
}

const PET_ID = /^[1-9]\d{0,14}$/ // at most MAX_ID: no pet has a greater id
const OK: Reply = { status: 200, body: '{"ok":true}' }

/** GET /pets: a page of pets, and a link to the next one if there is one (RFC 8288). */
export function listPets(context: Context): Handler {
  return ({ query }) => {
    const read = readListQuery(query)
    if (!read.ok) return refuse('badQuery', read.reason)
    return respondWith(context.store.page(read.value), ({ json, next }: Page) => {
      if (next === undefined) return { status: 200, body: json }
      const { limit, status } = read.value
      const filter = status ? `&status=${status}` : ''
      const target = `${context.basePath}/pets?limit=${limit}${filter}&after=${next}`
      return { status: 200, body: json, headers: ['Link', `<${target}>; rel="next"`] }
    })
  }
}

/** Responds to what a store returns, at once unless that is a promise. */
function respondWith<T>(value: Awaitable<T>, respond: (value: T) => Reply): Awaitable<Reply> {
  if (!(value instanceof Promise)) return respond(value)
  return value.then(respond, (cause) => ({ ...refuse('storeUnavailable'), cause }))
}

export function createPet(context: Context): Handler {
  const { basePath, store } = context
  const respond = (added: Added): Reply => {
    if (!added.ok) return { ...refuse(ADD_ERRORS[added.reason]), cause: added.cause }
    return { status: 201, body: added.json, headers: ['Location', `${basePath}/pets/${added.id}`] }
  }
  return ({ body }) => {
    const input = parseJsonBytes(body)
    if (!input.ok) return refuse('badJson', input.reason)
    const pet = validateNewPet(input.value)
    if (!pet.ok) return refuse('badPet', pet.reason)
    if (context.state === 'closed') return refuse('notStored') // it was delayed
    return respondWith(store.add(pet.value), respond)
  }
}

/** The `Link` of getPet: its successor, and where its deprecation is documented. */
function deprecationLinks({ basePath, page }: Context): string {
  const [path, type] = page ? ['/', 'text/html'] : ['/openapi.json', 'application/json']
  return `<${basePath}/pets>; rel="successor-version", <${path}>; rel="deprecation"; type="${type}"`
}

/** GET /pets/{petId}: deprecated by the contract; responds 410 when its removal is rehearsed. */
export function getPet(context: Context): Handler {
  // RFC 8594: the day it is removed. RFC 9745: the day the contract was adopted.
  const removal = ['Sunset', 'Thu, 05 Dec 2030 00:00:00 GMT', 'Link', deprecationLinks(context)]
  const headers = ['Deprecation', '@1795132800', ...removal]
  const gone = { ...refuse('gone'), headers: removal }
  const noPet = { ...refuse('noPet'), headers }
  const respond = (body: string | undefined) =>
    body === undefined ? noPet : { status: 200, body, headers }
  return ({ param: petId }) => {
    if (context.getPetState === 'gone') return gone
    return PET_ID.test(petId) ? respondWith(context.store.get(Number(petId)), respond) : noPet
  }
}

/** GET /store/orders: mentioned by the contract, not specified. */
export function listOrders(): Handler {
  return () => refuse('noOrders')
}

/** GET /livez: whether the server runs at all. */
export function livez(): Handler {
  return () => OK
}

/** GET /readyz: whether pets can be added. Repairs a snapshot that failed. */
export function readyz(context: Context): Handler {
  const reply = async (): Promise<Reply> => {
    if (context.state !== 'serving') return refuse('draining')
    const isWritable = context.store.isWritable()
    return respondWith(isWritable, (isReady) => (isReady ? OK : refuse('storeUnavailable')))
  }
  let before = OK.status
  return async () => {
    const now = await reply()
    if (now.status !== before) context.onReadiness?.(now)
    before = now.status
    return now
  }
}
