import type { Awaitable, Reply } from '../http/reply.ts'
import type { Call, Handler } from '../http/router.ts'
import { parseJsonBytes } from '../pets/json.ts'
import { validateNewPet } from '../pets/pet.ts'
import type { Added, MemoryStore } from '../pets/store.ts'
import { refuse } from './errors.ts'
import { readListQuery } from './query.ts'

export interface Context {
  store: MemoryStore
  readonly basePath: string
  readonly page: boolean
  getPet: 'deprecated' | 'gone'
  isDraining: boolean
}

const PET_ID = /^[1-9]\d{0,14}$/
export const OK: Reply = { status: 200, body: '{"ok":true}' }

/** GET /pets: a page of pets, and a link to the next one if there is one (RFC 8288). */
export function listPets({ store, basePath }: Context, { query }: Call): Reply {
  const read = readListQuery(query)
  if (!read.ok) return refuse('badQuery', read.issues.join('; '))
  const { limit, status } = read.value
  const { json, next } = store.page(read.value)
  if (next === undefined) return { status: 200, body: json }
  const nextQuery = `limit=${limit}${status === undefined ? '' : `&status=${status}`}&after=${next}`
  return { status: 200, body: json, headers: ['Link', `<${basePath}/pets?${nextQuery}>; rel="next"`] }
}

export function createPet({ store, basePath }: Context, { body }: Call): Awaitable<Reply> {
  const input = parseJsonBytes(body)
  if (!input.ok) return refuse('badJson', input.issues.join('; '))
  const pet = validateNewPet(input.value)
  if (!pet.ok) return refuse('badPet', pet.issues.join('; '))
  const added = store.add(pet.value)
  return added instanceof Promise ? added.then((settled) => created(basePath, settled)) : created(basePath, added)
}

function created(basePath: string, added: Added): Reply {
  if (!added.ok) return refuse(added.reason === 'store_full' ? 'full' : 'notStored')
  return { status: 201, body: added.json, headers: ['Location', `${basePath}/pets/${added.id}`] }
}

/** When getPet was deprecated (RFC 9745: the day the contract was adopted), and when it is removed (RFC 8594). */
const DEPRECATION = '@1795132800'
const SUNSET = 'Thu, 05 Dec 2030 00:00:00 GMT'

/** The `Link` of getPet: its successor, and where its deprecation is documented. */
export function deprecationLinks({ basePath, page }: Pick<Context, 'basePath' | 'page'>): string {
  const [path, type] = page ? ['/', 'text/html'] : ['/openapi.json', 'application/json']
  return `<${basePath}/pets>; rel="successor-version", <${path}>; rel="deprecation"; type="${type}"`
}

/** GET /pets/{petId}, which the contract deprecates (Versioning), or as after its removal. */
export function getPet(context: Context): Handler {
  const removal = ['Sunset', SUNSET, 'Link', deprecationLinks(context)]
  const gone = { ...refuse('gone'), headers: removal }
  const headers = ['Deprecation', DEPRECATION, ...removal]
  const noPet = { ...refuse('noPet'), headers }
  return ({ param: petId }) => {
    if (context.getPet === 'gone') return gone
    const body = PET_ID.test(petId) ? context.store.get(Number(petId)) : undefined
    return body === undefined ? noPet : { status: 200, body, headers }
  }
}

export async function readyz({ store, isDraining }: Context): Promise<Reply> {
  if (isDraining) return refuse('draining')
  return (await store.isWritable()) ? OK : refuse('notWritable')
}
