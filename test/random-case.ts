// Random requests of every kind that HTTP allows, each with the answer that the contract and the decisions call for.
import { randomInt } from 'node:crypto'
import { PET_STATUSES } from '../src/pets/pet.ts'
import { AUTHORIZATION, KEY, Random } from './support.ts'

export const SEED: number = Number(process.env['SEED'] ?? randomInt(2 ** 31))
export const random: Random = new Random(SEED)

export interface Case {
  method: string
  path: string
  headers: Record<string, string>
  body?: Buffer
  /** What the contract and the decisions call for. */
  status: number
  code?: string
  /** The JSON of the pet that is added, behind its id. */
  adds?: { rest: string; status: string | undefined }
}

/** A random request to a server that holds so many animals. */
export function randomCase(size: number): Case {
  const method = random.pick(['GET', 'GET', 'GET', 'HEAD', 'POST', 'POST', 'POST', 'OPTIONS', 'PUT', 'DELETE', 'PATCH'])
  const key = random.pick([
    ...Array<string>(12).fill(AUTHORIZATION),
    `bearer ${KEY}`,
    `Bearer ${KEY}x`,
    `Basic ${KEY}`,
    'Bearer',
    `Bearer ${KEY} ${KEY}`,
  ])
  const headers: Record<string, string> = { authorization: key }
  const place = randomPlace(size)
  const request = { method, path: place.path, headers }
  if (method === 'OPTIONS') return place.exists ? { ...request, status: 204 } : notFound(request)
  const isOurs = /^bearer \S+$/i.test(key) && key.endsWith(` ${KEY}`)
  if (!isOurs && place.secured) return { ...request, status: 401, code: 'unauthorized' }
  if (!place.exists) return notFound(request)
  const isRead = method === 'GET' || method === 'HEAD'
  if (!isRead && !(method === 'POST' && place.takesPost)) {
    return { ...request, status: 405, code: 'method_not_allowed' }
  }
  return isRead ? { ...request, ...place.read } : randomCreate(request)
}

function notFound(request: Pick<Case, 'method' | 'path' | 'headers'>): Case {
  return { ...request, status: 404, code: 'not_found' }
}

interface Place {
  path: string
  secured: boolean
  exists: boolean
  takesPost?: boolean
  /** What a GET of it is answered. */
  read: { status: number; code?: string }
}

function randomPlace(size: number): Place {
  const found = { secured: true, exists: true, read: { status: 200 } }
  const missing = { secured: true, exists: false, read: { status: 404, code: 'not_found' } }
  return random.pick<() => Place>([
    ...Array<() => Place>(8).fill(() => ({ ...found, ...randomList() })),
    () => {
      const id = random.integer(1, size * 2 + 2)
      return { ...found, path: `/v1/pets/${id}?limit=x`, read: id <= size ? found.read : missing.read }
    },
    () => {
      const petId = random.pick(['0', '-1', '01', '1.0', '1e0', 'x', '%31x', '9223372036854775807', '９', 'null'])
      return { ...found, path: `/v1/pets/${encodeURI(petId)}`, read: missing.read }
    },
    () => ({ ...found, path: '/v1/store/orders', read: { status: 501, code: 'not_implemented' } }),
    () => ({
      ...missing,
      path: random.pick(['/v1', '/v1/', '/v1/pets/', '/v1//pets', '/v1/PETS', '/v1/pets/1/2', '/v1/%zz']),
    }),
    () => ({
      ...missing,
      secured: false,
      path: random.pick(['/pets', '//pets', '/V1/pets', '/v1%2Fpets', '/%', '/v2/pets']),
    }),
    () => ({ ...found, secured: false, path: '/' }),
  ])()
}

function randomList(): Omit<Place, 'secured' | 'exists'> {
  const good = [
    'limit=1',
    'limit=100',
    'after=0',
    'after=9223372036854775807',
    'status=sold',
    'other',
    'other=1&other=2',
  ]
  const bad = [
    'limit=0',
    'limit=101',
    'limit=',
    'limit=01',
    'limit=%2B1',
    'after=-1',
    'after=9223372036854775808',
    'status=gone',
  ]
  const names = new Set<string>()
  const parts = Array.from({ length: random.integer(0, 3) }, () => random.pick(random.chance(0.8) ? good : bad))
  let isBad = false
  for (const part of parts) {
    const name = part.split('=')[0] ?? ''
    if (bad.includes(part) || (name !== 'other' && names.has(name))) isBad = true
    names.add(name)
  }
  const path = random.pick(['/v1/pets', '/v1/p%65ts', 'http://elsewhere.example/v1/pets'])
  const read = isBad ? { status: 400, code: 'invalid_parameter' } : { status: 200 }
  return { path: parts.length > 0 ? `${path}?${parts.join('&')}` : path, takesPost: true, read }
}

function randomCreate(request: Pick<Case, 'method' | 'path' | 'headers'>): Case {
  const type = random.pick([
    'application/json',
    'application/json',
    'Application/JSON; charset="UTF-8"',
    '',
    'text/plain',
  ])
  if (type !== '') request.headers['content-type'] = type
  const { body, ...expected } = randomBody()
  if (random.chance(0.2)) request.headers['transfer-encoding'] = 'chunked'
  if (type === 'text/plain') return { ...request, body, status: 415, code: 'unsupported_media_type' }
  if (body.length > 2_000) return { ...request, body, status: 413, code: 'content_too_large' }
  return { ...request, body, ...expected }
}

function randomBody(): Pick<Case, 'status' | 'code' | 'adds'> & { body: Buffer } {
  const name = random.string()
  const categoryId = random.pick([random.integer(-5, 5), random.int64(), 2n ** 63n - 1n, -(2n ** 63n)])
  const status = random.pick([undefined, ...PET_STATUSES])
  const tail = status === undefined ? '' : `,"status":"${status}"`
  const rest = `"name":${JSON.stringify(name)},"categoryId":${categoryId}`
  return random.pick<() => ReturnType<typeof randomBody>>([
    () => ({ body: Buffer.from(`{${rest}${tail}}`), status: 201, adds: { rest: `${rest}${tail}}`, status } }),
    () => ({
      body: Buffer.from(`{"id":7,"x":[${categoryId}],${rest}${tail}}\n`),
      status: 201,
      adds: { rest: `${rest}${tail}}`, status },
    }),
    () => ({
      body: Buffer.from(`{"name":1,"categoryId":"",${rest}${tail}}`),
      status: 201,
      adds: { rest: `${rest}${tail}}`, status },
    }),
    () => ({ body: Buffer.from(`{${rest},"status":null}`), status: 400, code: 'invalid_pet' }),
    () => ({ body: Buffer.from(`{${rest}.5}`), status: 400, code: 'invalid_pet' }),
    () => ({ body: Buffer.from(`{"categoryId":9223372036854775808}`), status: 400, code: 'invalid_pet' }),
    () => ({
      body: Buffer.from(random.pick(['[]', 'null', '"x"', '12345678901234567890'])),
      status: 400,
      code: 'invalid_pet',
    }),
    () => ({ body: Buffer.from(`{${rest}${tail}}}`), status: 400, code: 'bad_request' }),
    () => ({ body: Buffer.from(`{${rest}${tail}`), status: 400, code: 'bad_request' }),
    () => ({ body: Buffer.from([0x22, 0xff, 0x22]), status: 400, code: 'bad_request' }),
    () => ({ body: Buffer.alloc(0), status: 400, code: 'bad_request' }),
  ])()
}
