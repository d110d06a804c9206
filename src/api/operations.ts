import { URLSearchParams } from 'node:url'
import { codedError } from '../errors.ts'
import { errorReply, type Reply } from '../http/reply.ts'
import type { Handler, Route } from '../http/router.ts'
import { readJson } from '../pets/json.ts'
import {
  checkNewPet,
  int64FromDigits,
  isPetStatus,
  keptJson,
  PET_STATUSES,
  petJson,
} from '../pets/pet.ts'
import type { ListQuery, Store } from '../pets/store.ts'
import { homePage, openapi } from './documents.ts'

const OK: Reply = { status: 200, body: '{"ok":true}' }

/** The operations of the contract, and what is outside its base path. */
export function routesOf(store: Store, basePath: string, isReady: () => boolean): Route[] {
  const secured = { isSecured: true }
  const open = { isSecured: false }
  const list = listPets(store, basePath)
  const create = createPet(store, basePath)
  const get = getPet(store, basePath)
  const noOrders: Handler = async () => errorReply('noOrders')
  const page = homePage(basePath)
  const document = openapi(basePath)
  const livez: Handler = async () => OK
  const readyz: Handler = async () => (isReady() ? OK : errorReply('stopping'))
  return [
    { ...secured, method: 'GET', path: '/pets', operation: 'listPets', handle: list },
    { ...secured, method: 'POST', path: '/pets', operation: 'createPet', handle: create },
    { ...secured, method: 'GET', path: '/pets/*', operation: 'getPet', handle: get },
    { ...secured, method: 'GET', path: '/store/orders', operation: 'listOrders', handle: noOrders },
    { ...open, method: 'GET', path: '/', operation: 'page', handle: page },
    { ...open, method: 'GET', path: '/openapi.json', operation: 'openapi', handle: document },
    { ...open, method: 'GET', path: '/livez', operation: 'livez', handle: livez },
    { ...open, method: 'GET', path: '/readyz', operation: 'readyz', handle: readyz },
  ]
}

/** GET /pets: a page of pets, and a link to the next one if there is one (RFC 8288). */
function listPets(store: Store, basePath: string): Handler {
  return async ({ query }) => {
    const { limit, after, status } = readListQuery(query)
    const pets = await store.list({ limit: limit + 1, after, status })
    const page = pets.slice(0, limit)
    const body = `[${page.map(keptJson).join(',')}]`
    const last = pets.length > limit ? page.at(-1) : undefined
    if (!last) return { status: 200, body }
    const filter = status ? `&status=${status}` : ''
    const next = `${basePath}/pets?limit=${limit}${filter}&after=${last.id}`
    return { status: 200, body, headers: { link: `<${next}>; rel="next"` } }
  }
}

/** The query of listPets. Ignores unknown parameters; the error names each that is wrong. */
function readListQuery(query: string): ListQuery {
  const parameters = new URLSearchParams(`?${query}`) // which drops a leading question mark
  const issues: string[] = []
  function read<T>(name: string, mustBe: string, parse: (text: string) => T | undefined) {
    const [text, ...more] = parameters.getAll(name)
    if (text === undefined) return undefined
    const value = more.length === 0 ? parse(text) : undefined
    if (value === undefined) issues.push(`${name} must be given once, as ${mustBe}`)
    return value
  }
  const limit = read('limit', 'an integer from 1 to 100', toLimit)
  const after = read('after', 'an integer from 0 to 9223372036854775807', int64FromDigits)
  const status = read('status', `one of ${PET_STATUSES.join(', ')}`, (text) =>
    isPetStatus(text) ? text : undefined,
  )
  if (issues.length > 0) throw codedError('invalid_parameter', issues.join('; '))
  return { limit: limit ?? 20, after: after ?? 0, status }
}

function toLimit(text: string): number | undefined {
  return /^(?:[1-9]\d?|100)$/.test(text) ? Number(text) : undefined
}

/** POST /pets. */
function createPet(store: Store, basePath: string): Handler {
  return async ({ body }) => {
    const pet = checkNewPet(readJson(body))
    const [added] = await store.add([pet])
    // Unreachable, because every store adds what it is given or rejects. TypeScript cannot know.
    if (!added) throw new Error('the store has added nothing')
    const headers = { location: `${basePath}/pets/${added.id}` }
    return { status: 201, body: petJson(added), headers }
  }
}

/** GET /pets/{petId}: deprecated by the contract. */
function getPet(store: Store, basePath: string): Handler {
  const headers = {
    sunset: 'Thu, 05 Dec 2030 00:00:00 GMT', // RFC 8594: the day on which it is removed
    link: `<${basePath}/pets>; rel="successor-version", </>; rel="deprecation"; type="text/html"`,
  }
  return async ({ path }) => {
    const id = int64FromDigits(path.slice(path.lastIndexOf('/') + 1))
    const pet = id === undefined ? undefined : await store.get(id)
    return pet ? { status: 200, body: keptJson(pet), headers } : { ...errorReply('noPet'), headers }
  }
}
