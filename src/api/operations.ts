import { types } from 'node:util'
import { refuse } from '../errors.ts'
import type { Handler, Reply, Route } from '../http/router.ts'
import { parseJsonBytes } from '../pets/json.ts'
import { int64FromDigits, unknownMembers, validateNewPet } from '../pets/pet.ts'
import type { Added, Awaitable, Page, Store } from '../pets/store.ts'
import type { GetPetState } from '../types.ts'
import { homePage, openapi } from './document.ts'
import { LIST_PARAMETERS, readListQuery, unknownParameters } from './query.ts'

/** What the operations work on. */
export interface Service {
  readonly store: Store
  readonly basePath: string
  readonly strict: boolean // whether unknown parameters and members are refused
  readonly getPetState: GetPetState
  readonly isStopping: () => boolean // then /readyz is 503
}

const PET_ID = /^[1-9]\d{0,18}$/
const OK: Reply = { status: 200, body: '{"ok":true}' }

/** The operations of the contract, and what is outside its base path. */
export function routesOf(service: Service): Route[] {
  const { basePath, strict } = service
  return [
    secured('GET', '/pets', 'listPets', listPets(service)),
    secured('POST', '/pets', 'createPet', createPet(service)),
    secured('GET', '/pets/{petId}', 'getPet', getPet(service)),
    secured('GET', '/store/orders', 'listOrders', () => refuse('noOrders')),
    open('/', 'page', homePage()),
    open('/openapi.json', 'openapi', openapi(basePath)),
    { ...open('/livez', 'livez', () => OK), isProbe: true },
    { ...open('/readyz', 'readyz', readyz(service)), isProbe: true },
  ]

  function secured(
    method: Route['method'],
    path: string,
    operation: string,
    handle: Handler,
  ): Route {
    const known = operation === 'listPets' ? LIST_PARAMETERS : []
    const strictly: Handler = (asked) => {
      const unknown = unknownParameters(asked.query, known)
      return unknown.length > 0
        ? refuse('badQuery', `the query ${mustNotHave(unknown)}`)
        : handle(asked)
    }
    return { method, path, operation, handle: strict ? strictly : handle, isSecured: true }
  }
}

function open(path: string, operation: string, handle: Handler): Route {
  return { method: 'GET', path, operation, handle, isSecured: false }
}

function mustNotHave(names: readonly string[]): string {
  const shown = names.map((name) => JSON.stringify(name.slice(0, 100)))
  return `must not have ${shown.slice(0, 10).join(', ')}`
}

/** Responds to what a store returns, at once unless that is a promise. */
function respondTo<T>(value: Awaitable<T>, reply: (value: T) => Reply): Awaitable<Reply> {
  if (!types.isPromise(value)) return reply(value)
  return value.then(reply, (cause) => ({ ...refuse('storageFailed'), cause }))
}

/** GET /pets: a page of pets, and a link to the next one if there is one (RFC 8288). */
function listPets({ store, basePath }: Service): Handler {
  return ({ query }) => {
    const read = readListQuery(query)
    if (!read.ok) return refuse('badQuery', read.reason)
    const { limit, status } = read.value
    const replyWith = ({ json, next }: Page): Reply => {
      if (next === undefined) return { status: 200, body: json }
      const filter = status ? `&status=${status}` : ''
      const target = `${basePath}/pets?limit=${limit}${filter}&after=${next}`
      return { status: 200, body: json, headers: ['Link', `<${target}>; rel="next"`] }
    }
    return respondTo(store.page(read.value), replyWith)
  }
}

const ADD_ERRORS = {
  store_full: 'storeFull',
  storage_failed: 'notStored',
  outcome_unknown: 'outcomeUnknown',
} as const

/** POST /pets. */
function createPet({ store, basePath, strict }: Service): Handler {
  const replyWith = (added: Added): Reply => {
    if (!added.ok) return { ...refuse(ADD_ERRORS[added.reason]), cause: added.cause }
    return { status: 201, body: added.json, headers: ['Location', `${basePath}/pets/${added.id}`] }
  }
  return ({ body }) => {
    const input = parseJsonBytes(body)
    if (!input.ok) return refuse('badJson', input.reason)
    const pet = validateNewPet(input.value)
    if (!pet.ok) return refuse('badPet', pet.reason)
    const unknown = strict ? unknownMembers(input.value) : []
    if (unknown.length > 0) return refuse('badPet', `a pet ${mustNotHave(unknown)}`)
    return respondTo(store.add(pet.value), replyWith)
  }
}

/** GET /pets/{petId}: deprecated by the contract; 410 when its removal is rehearsed. */
function getPet({ store, basePath, getPetState }: Service): Handler {
  const successor = `<${basePath}/pets>; rel="successor-version"`
  const documentation = '</>; rel="deprecation"; type="text/html"'
  // RFC 8594: the day on which it is removed.
  const sunset = ['Sunset', 'Thu, 05 Dec 2030 00:00:00 GMT']
  const headers = [...sunset, 'Link', `${successor}, ${documentation}`]
  const gone = { ...refuse('gone'), headers }
  const noPet = { ...refuse('noPet'), headers }
  if (getPetState === 'gone') return () => gone
  const replyWith = (body: string | undefined): Reply => {
    return body === undefined ? noPet : { status: 200, body, headers }
  }
  return ({ param: petId }) => {
    const id = PET_ID.test(petId) ? int64FromDigits(petId) : undefined
    return id === undefined ? noPet : respondTo(store.get(id), replyWith)
  }
}

/** GET /readyz: whether pets can be added. */
function readyz({ store, isStopping }: Service): Handler {
  return () => {
    if (isStopping()) return refuse('stopping')
    return respondTo(store.isWritable(), (isReady) => (isReady ? OK : refuse('storageFailed')))
  }
}
