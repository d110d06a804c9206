import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Match, readTarget, type Route, Router, type Target } from '../../src/http/router.ts'

function route(method: Route['method'], path: string, operation: string): Route {
  return { method, path, operation, handle: () => ({ status: 204 }) }
}

const TABLE: readonly Route[] = [
  route('GET', '/pets', 'listPets'),
  route('POST', '/pets', 'createPet'),
  route('GET', '/pets/{petId}', 'getPet'),
  route('GET', '/store/orders', 'listOrders'),
  route('POST', '/store/orders/{orderId}', 'createOrder'),
  { ...route('GET', '/', 'page'), open: true },
]

/** The operations of what a path leads to, by method. */
function operations({ resource }: Match): Record<string, string> | undefined {
  return resource && Object.fromEntries([...resource.routes].map(([method, { operation }]) => [method, operation]))
}

const PETS = { GET: 'listPets', POST: 'createPet' }
const PET = { GET: 'getPet' }
const ORDERS = { GET: 'listOrders' }
const ORDER = { POST: 'createOrder' }
const PAGE = { GET: 'page' }

const FOUND: [path: string, operations: Record<string, string>, params?: Record<string, string>][] = [
  ['/v1/pets', PETS],
  ['/v1/p%65ts', PETS],
  ['/v1/%70%65%74%73', PETS],
  ['/%76%31/pets', PETS],
  ['/v%31/pets', PETS],
  ['/v1/store/orders', ORDERS],
  ['/v1/store/%6Frders', ORDERS],
  ['/v1/store/%6frders', ORDERS],
  ['/v1/pets/1', PET, { petId: '1' }],
  ['/v1/pets/%31', PET, { petId: '1' }],
  ['/v1/p%65ts/%31%32', PET, { petId: '12' }],
  ['/v1/pets/9223372036854775807', PET, { petId: '9223372036854775807' }],
  ['/v1/pets/a%2Fb', PET, { petId: 'a/b' }],
  ['/v1/pets/%2F', PET, { petId: '/' }],
  ['/v1/pets/%2f', PET, { petId: '/' }],
  ['/v1/pets/%20', PET, { petId: ' ' }],
  ['/v1/pets/+', PET, { petId: '+' }],
  ['/v1/pets/%00', PET, { petId: '\u0000' }],
  ['/v1/pets/%25', PET, { petId: '%' }],
  ['/v1/pets/%2531', PET, { petId: '%31' }],
  ['/v1/pets/%C3%A9', PET, { petId: 'é' }],
  ['/v1/pets/%F0%9F%90%95', PET, { petId: '🐕' }],
  ['/v1/pets/..', PET, { petId: '..' }],
  ['/v1/pets/.', PET, { petId: '.' }],
  ['/v1/pets/%2E%2E', PET, { petId: '..' }],
  ['/v1/pets/{petId}', PET, { petId: '{petId}' }],
  ['/v1/pets/pets', PET, { petId: 'pets' }],
  ['/v1/pets/constructor', PET, { petId: 'constructor' }],
  ['/v1/pets/__proto__', PET, { petId: '__proto__' }],
  ['/v1/pets/1#2', PET, { petId: '1#2' }],
  ['/v1/pets/1;a=b', PET, { petId: '1;a=b' }],
  ['/v1/store/orders/o', ORDER, { orderId: 'o' }],
  ['/v1/store/orders/orders', ORDER, { orderId: 'orders' }],
  ['/', PAGE],
]

for (const [path, expected, params = {}] of FOUND) {
  test(`match() leads ${path} to ${Object.values(expected).join(' and ')}`, () => {
    const match = new Router(TABLE, '/v1').match(path)
    assert.deepEqual(operations(match), expected)
    assert.deepEqual(match.params, params)
    assert.equal(match.secured, expected !== PAGE)
  })
}

const NOT_FOUND: [path: string, secured: boolean][] = [
  ['/v1', true],
  ['/v1/', true],
  ['/v1//pets', true],
  ['/v1/pets/', true],
  ['/v1/pets//', true],
  ['/v1/pets/1/', true],
  ['/v1/pets//1', true],
  ['/v1/pets/1/2', true],
  ['/v1/Pets', true],
  ['/v1/PETS', true],
  ['/v1/p%45ts', true],
  ['/v1/pet', true],
  ['/v1/petss', true],
  ['/v1/pets%20', true],
  ['/v1/pets%00', true],
  ['/v1/pets%2F', true],
  ['/v1/pets%2F1', true],
  ['/v1/p%2565ts', true],
  ['/v1/./pets', true],
  ['/v1/x/../pets', true],
  ['/v1/%', true],
  ['/v1/pets/%', true],
  ['/v1/pets/%1', true],
  ['/v1/pets/%zz', true],
  ['/v1/pets/%C3', true],
  ['/v1/pets/%FF', true],
  ['/v1/pets/%ED%A0%80', true],
  ['/v1/pets/%C0%AF', true],
  ['/v1/pets%/1', true],
  ['/v1/constructor', true],
  ['/v1/__proto__', true],
  ['/v1/toString', true],
  ['/v1/store', true],
  ['/v1/store//orders/1', true],
  ['/v1/store/orders/', true],
  ['/%76%31/nothing', true],
  ['//', false],
  ['//pets', false],
  ['//v1/pets', false],
  ['/v1%2Fpets', false],
  ['/V1/pets', false],
  ['/v2/pets', false],
  ['/v10/pets', false],
  ['/v1x', false],
  ['/pets', false],
  ['/%zz/pets', false],
  ['/%', false],
  ['/v1%', false],
  ['/./v1/pets', false],
  ['/../v1/pets', false],
  ['/constructor', false],
  ['/__proto__', false],
  ['/%2F', false],
  ['', false],
]

for (const [path, secured] of NOT_FOUND) {
  test(`match() finds nothing at ${JSON.stringify(path)}, ${secured ? 'under' : 'outside'} the base path`, () => {
    assert.deepEqual(new Router(TABLE, '/v1').match(path), { secured, params: {} })
  })
}

test('match() decodes the segments of a base path of several segments', () => {
  const router = new Router(TABLE, '/shop/api/v1')
  assert.deepEqual(operations(router.match('/shop/api/v1/pets')), PETS)
  assert.deepEqual(operations(router.match('/sh%6Fp/%61pi/v1/pets')), PETS)
  assert.deepEqual(router.match('/shop/api/v1/pets/7').params, { petId: '7' })
  assert.deepEqual(operations(router.match('/')), PAGE)
})

for (const [path, secured] of [
  ['/shop/api/v1', true],
  ['/shop/api/v1/', true],
  ['/shop/%61pi/v1/x', true],
  ['/shop/api', false],
  ['/shop/api/', false],
  ['/shop/api/pets', false],
  ['/shop/api/v2/pets', false],
  ['/shop%2Fapi/v1/pets', false],
  ['/api/v1/pets', false],
  ['/v1/pets', false],
] as const) {
  test(`match() finds nothing at ${path}, ${secured ? 'under' : 'outside'} the base path /shop/api/v1`, () => {
    assert.deepEqual(new Router(TABLE, '/shop/api/v1').match(path), { secured, params: {} })
  })
}

test('match() gives one path the parameters of its own and no others', () => {
  const router = new Router(TABLE, '/v1')
  const first = router.match('/v1/pets/1')
  const second = router.match('/v1/pets/2')
  assert.deepEqual([first.params, second.params], [{ petId: '1' }, { petId: '2' }])
})

for (const [path, allow] of [
  ['/v1/pets', 'GET, HEAD, OPTIONS, POST'],
  ['/v1/pets/1', 'GET, HEAD, OPTIONS'],
  ['/v1/store/orders/o', 'OPTIONS, POST'],
  ['/', 'GET, HEAD, OPTIONS'],
] as const) {
  test(`${path} allows ${allow}`, () => {
    assert.equal(new Router(TABLE, '/v1').match(path).resource?.allow, allow)
  })
}

for (const [what, table, allow] of [
  ['GET and POST', TABLE, 'GET, HEAD, OPTIONS, POST'],
  ['GET only', TABLE.slice(2, 4), 'GET, HEAD, OPTIONS'],
  ['POST only', TABLE.slice(1, 2), 'OPTIONS, POST'],
  ['no route', [], 'OPTIONS'],
] as const) {
  test(`a router of ${what} allows ${allow}`, () => assert.equal(new Router(table, '/v1').allow, allow))
}

test('a path has no route for a method that it only inherits from Object', () => {
  const { resource } = new Router(TABLE, '/v1').match('/v1/pets')
  for (const method of ['constructor', '__proto__', 'toString', 'get', 'DELETE', '']) {
    assert.equal(resource?.routes.get(method), undefined)
  }
})

const TARGETS: [target: string, expected: Target | undefined][] = [
  ['/', { path: '/', query: '' }],
  ['/v1/pets', { path: '/v1/pets', query: '' }],
  ['/v1/pets?', { path: '/v1/pets', query: '' }],
  ['/v1/pets?limit=1&status=sold', { path: '/v1/pets', query: 'limit=1&status=sold' }],
  ['/v1/pets?a?b', { path: '/v1/pets', query: 'a?b' }],
  ['/v1/pets?a=/b', { path: '/v1/pets', query: 'a=/b' }],
  ['/v1/p%65ts%3Fa?b%3Fc', { path: '/v1/p%65ts%3Fa', query: 'b%3Fc' }],
  ['//pets', { path: '//pets', query: '' }],
  ['//host/v1/pets', { path: '//host/v1/pets', query: '' }],
  ['/http://host/v1/pets', { path: '/http://host/v1/pets', query: '' }],
  ['*', { path: '*', query: '' }],
  ['http://host/v1/pets', { path: '/v1/pets', query: '' }],
  ['http://host/v1/pets?limit=1', { path: '/v1/pets', query: 'limit=1' }],
  ['https://host:8443/v1/pets', { path: '/v1/pets', query: '' }],
  ['HTTP://HOST/v1/PETS', { path: '/v1/PETS', query: '' }],
  ['http://[::1]:8080/v1/pets', { path: '/v1/pets', query: '' }],
  ['http://user:pass@host/v1/pets', { path: '/v1/pets', query: '' }],
  ['http://host', { path: '/', query: '' }],
  ['http://host/', { path: '/', query: '' }],
  ['http://host?limit=1', { path: '/', query: 'limit=1' }],
  ['http://host//pets', { path: '//pets', query: '' }],
  ['http://host/http://other/', { path: '/http://other/', query: '' }],
  ['http:///v1/pets', undefined],
  ['http://', undefined],
  ['http:/v1/pets', undefined],
  ['ftp://host/v1/pets', undefined],
  ['host:443', undefined],
  ['v1/pets', undefined],
  ['?limit=1', undefined],
  ['**', undefined],
  ['*?a', undefined],
  ['', undefined],
]

for (const [target, expected] of TARGETS) {
  const what = expected === undefined ? 'refuses' : `finds ${expected.path} and the query "${expected.query}" in`
  test(`readTarget() ${what} ${JSON.stringify(target)}`, () => assert.deepEqual(readTarget(target), expected))
}
