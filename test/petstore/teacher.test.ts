// A class on one server: the teacher's key at the controls, and what it can never do.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import type { Petstore, StartOptions } from '../../src/index.ts'
import { ended, run } from '../cli/executable.ts'
import { assertError, bearer, send, start, startLogging, temporaryFile } from '../support.ts'

const TEACHER = 'the-teachers-key'
const [ADA, BOB, CLEO] = ['ada-lovelace-1', 'ada-byron-1', 'cleo-the-third']
const REX = { name: 'Rex', categoryId: 1 }
const BUSY = { operation: '*', status: 429, code: 'rate_limited', message: 'Wait 5 s' } as const
const MUST_BE = 'must be an integer from 0 to 1000000, the number of a store, or all'
const NEEDS = /^GET \/stores and "stores" need the key of the teacher, set by --teacher-key$/

const CLASS: StartOptions = {
  apiKeys: undefined,
  storePerKey: true,
  controlPort: 0,
  teacherKey: TEACHER,
  pets: [REX],
}

/** Requests of pupils to the API, and of anyone to the controls. */
function callsOf(petstore: Petstore) {
  const controls = { url: String(petstore.controlUrl) }
  const jsonOf = (content: unknown) => (content === undefined ? '' : JSON.stringify(content))
  return {
    pupil: (key: string, path = '/pets', content?: unknown) =>
      send(petstore, content === undefined ? 'GET' : 'POST', `/v1${path}`, {
        headers: bearer(key),
        body: jsonOf(content),
      }),
    control: (key: string, ask: string, content?: unknown) => {
      const [method = '', path = ''] = ask.split(' ')
      return send(controls, method, path, { headers: bearer(key), body: jsonOf(content) })
    },
  }
}

async function startClass(t: TestContext, options: StartOptions = {}) {
  const petstore = await start(t, { ...CLASS, ...options })
  const { pupil, control } = callsOf(petstore)
  const teacher = async (ask: string, content?: unknown) => {
    const { status, body } = await control(TEACHER, ask, content)
    return { status, body, json: body === '' ? undefined : JSON.parse(body) }
  }
  return { petstore, pupil, control, teacher }
}

const statusesOf = (answers: readonly { status: number }[]) => answers.map(({ status }) => status)

test('a lesson: the teacher finds who is stuck, injects a 429, resets one, then all', async (t) => {
  const { pupil, teacher } = await startClass(t)
  const keys = Array.from({ length: 30 }, (_, at) => `pupil-${at + 10}-key`)
  const all = (path?: string, content?: unknown) =>
    Promise.all(keys.map((key) => pupil(key, path, content)))
  for (const key of keys) assert.equal((await pupil(key)).status, 200)
  await all('/pets', REX)
  await pupil('pupil-17-key', '/pets', { ...REX, categoryId: 'one' })

  const { json: stores } = await teacher('GET /stores')
  assert.equal(stores.length, 30)
  const stuck = stores.filter(({ lastStatus }: { lastStatus: number }) => lastStatus >= 400)
  const { since, ...found } = stuck[0]
  const expected = { number: 7, keyStart: 'pupil-17', pets: 2, requests: 3, lastStatus: 400 }
  assert.deepEqual([stuck.length, found], [1, expected])
  assert.equal(new Date(since).toISOString(), since)
  const { json: sent } = await teacher('GET /requests?stores=7&status=400')
  assert.deepEqual([sent[0].key, JSON.parse(sent[0].body).categoryId], [7, 'one'])

  const injected = await teacher('POST /faults', { ...BUSY, retryAfter: 5, stores: 'all' })
  assert.deepEqual([injected.status, Object.keys(injected.json).length], [201, 30])
  for (const { status, headers, body } of await all()) {
    assert.deepEqual([status, headers['retry-after']], [429, '5'])
    assert.deepEqual(JSON.parse(body), { code: 'rate_limited', message: 'Wait 5 s', status: 429 })
  }
  assert.deepEqual(new Set(statusesOf(await all())), new Set([200]))

  const petsOf = async () => {
    const { json } = await teacher('GET /stores')
    return json.map(({ pets }: { pets: number }) => pets)
  }
  assert.equal((await teacher('POST /reset', { stores: 7 })).status, 204)
  assert.deepEqual(
    await petsOf(),
    keys.map((_, at) => (at === 7 ? 1 : 2)),
  )
  assert.equal((await teacher('POST /reset', { stores: 'all', pets: [] })).status, 204)
  assert.deepEqual(
    await petsOf(),
    keys.map(() => 0),
  )
})

test('GET /stores has as much of each key as tells it from the others, one a line', async (t) => {
  const { petstore, pupil, teacher } = await startClass(t)
  assert.deepEqual(await teacher('GET /stores'), { status: 200, body: '[]', json: [] })
  for (const key of [CLEO, ADA, BOB, '12345678', '12345679']) await pupil(key)
  petstore.of(CLEO).clearRequests()
  const { body, json } = await teacher('GET /stores')
  assert.equal(body.split('\n').length, 5)
  const starts = json.map(({ number, keyStart }: Record<string, unknown>) => [number, keyStart])
  assert.deepEqual(starts, [
    [0, 'cleo'],
    [1, 'ada-l'],
    [2, 'ada-b'],
    [3, '1234567'],
    [4, '1234567'],
  ])
  const { requests, lastStatus, since } = json[0]
  assert.deepEqual([requests, lastStatus, since], [0, null, null])
})

test('with configured keys, a store has the place of its key as its number only', async (t) => {
  const { petstore, pupil, teacher } = await startClass(t, { apiKeys: [ADA, BOB, CLEO] })
  for (const key of [CLEO, BOB]) await pupil(key)
  const seen = async () => {
    const { json } = await teacher('GET /stores')
    return json.map(({ number, keyStart }: Record<string, unknown>) => [number, keyStart])
  }
  assert.deepEqual(await seen(), [
    [1, null],
    [2, null],
  ])
  assert.equal((await teacher('GET /requests?stores=2')).json[0].key, 2)
  petstore.replaceKeys([CLEO])
  assert.deepEqual(await seen(), [[0, null]])
})

test('a pupil sees no list of stores, and acts on no store of others', async (t) => {
  for (const options of [{}, { apiKeys: [ADA, BOB] }, { teacherKey: undefined }]) {
    const { petstore, pupil, control } = await startClass(t, options)
    for (const key of [ADA, BOB]) await pupil(key)
    for (const [ask, content] of [
      ['GET /stores'],
      ['POST /faults', { ...BUSY, stores: 'all' }],
      ['POST /faults', { ...BUSY, stores: 0 }],
      ['POST /faults?stores=1', BUSY],
      ['POST /reset', { stores: 'all' }],
      ['POST /reset', { stores: 1, pets: [] }],
      ['POST /reset?stores=all'],
      ['GET /requests?stores=1'],
      ['DELETE /faults?stores=all'],
    ] as const)
      assert.match(assertError(await control(ADA, ask, content), 403, 'forbidden', ask), NEEDS)
    for (const key of ['short', ''])
      assertError(await control(key, 'GET /stores'), 401, 'unauthorized')
    for (const key of [ADA, BOB]) {
      const { pets, requests, pendingFaults } = petstore.of(key)
      assert.deepEqual([pets.length, requests.length, pendingFaults.length], [1, 1, 0])
    }
  }
})

test('without a store for each key, nobody has a list of stores', async (t) => {
  const { control } = callsOf(await start(t, { controlPort: 0 }))
  for (const [ask, content] of [['GET /stores'], ['POST /reset', { stores: 'all' }]] as const)
    assert.match(assertError(await control(TEACHER, ask, content), 403, 'forbidden'), NEEDS)
})

test("the teacher's key opens no store, and is no key of the API", async (t) => {
  for (const options of [{}, { apiKeys: [ADA] }]) {
    const { petstore, pupil, teacher, control } = await startClass(t, options)
    assertError(await pupil(TEACHER), 401, 'unauthorized')
    assertError(await pupil(TEACHER, '/pets', REX), 401, 'unauthorized')
    assert.throws(() => petstore.of(TEACHER), { code: 'invalid_option' })
    assert.deepEqual((await teacher('GET /stores')).json, [])
    for (const ask of ['GET /pets', 'POST /reset', 'GET /requests?count=0', 'DELETE /faults']) {
      const message = assertError(await control(TEACHER, ask), 400, 'bad_request', ask)
      assert.equal(message, `stores ${MUST_BE}`)
    }
    const web = { headers: { ...bearer(TEACHER), origin: 'https://evil.example' } }
    assertError(
      await send({ url: `${petstore.controlUrl}` }, 'GET', '/stores', web),
      403,
      'forbidden',
    )
  }
})

test("the teacher's key is in no log, no Error and no recorded request", async (t) => {
  for (const apiKeys of [undefined, [ADA]]) {
    const { petstore, logStream } = await startLogging(t, 'json', { ...CLASS, apiKeys })
    const { pupil, control } = callsOf(petstore)
    const seen: string[] = []
    for (const path of [`/pets/${TEACHER}`, `/pets?status=${TEACHER}&${TEACHER}`]) {
      for (const key of [ADA, TEACHER]) seen.push((await pupil(key, path)).body)
    }
    await pupil(ADA, '/pets', { ...REX, name: TEACHER.toUpperCase(), [TEACHER]: 1 })
    for (const stores of [TEACHER, 7]) {
      seen.push((await control(TEACHER, 'POST /faults', { ...BUSY, stores })).body)
      seen.push((await control(TEACHER, `GET /requests?stores=${stores}`)).body)
    }
    seen.push((await control(TEACHER, 'GET /requests?stores=0')).body)
    seen.push((await control(TEACHER, 'GET /stores')).body)
    const { requests } = petstore.of(ADA)
    await petstore.log.flush()
    assert.equal(requests.length, 3)
    assert.match(logStream.text, /\/v1\/pets\/\[key\]/)
    for (const text of [JSON.stringify(requests), logStream.text])
      assert.ok(!text.toLowerCase().includes(TEACHER), text)
    for (const text of seen) assert.ok(!text.includes(TEACHER), text)
  }
})

test('stores may be one, by number, or all that are open, but none opened later', async (t) => {
  const { petstore, pupil, teacher } = await startClass(t)
  for (const key of [ADA, BOB]) await pupil(key)
  const large = `{"name":"Max","categoryId":${2n ** 63n - 1n}}`
  const { control } = callsOf(petstore)
  const one = await control(TEACHER, 'POST /faults', { ...BUSY, stores: 1, times: 'always' })
  assert.deepEqual([one.status, one.headers.location], [201, undefined])
  assert.equal(JSON.parse(one.body).code, 'rate_limited')
  assert.deepEqual(statusesOf([await pupil(ADA), await pupil(BOB)]), [200, 429])
  await teacher('POST /faults', { ...BUSY, stores: 'all', times: 'always' })
  const answers = [await pupil(ADA), await pupil(BOB), await pupil(CLEO)]
  assert.deepEqual(statusesOf(answers), [429, 429, 200])
  const { json: faults } = await teacher('GET /faults?stores=all')
  const counts = Object.entries<unknown[]>(faults).map(([number, { length }]) => [number, length])
  assert.deepEqual(counts, [
    ['0', 1],
    ['1', 2],
    ['2', 0],
  ])
  assert.equal((await teacher('DELETE /faults?stores=all')).status, 204)
  assert.deepEqual(statusesOf([await pupil(ADA), await pupil(BOB)]), [200, 200])
  const url = String(petstore.controlUrl)
  const body = `{"stores":"all","pets":[${large}]}`
  assert.equal(
    (await send({ url }, 'POST', '/reset', { headers: bearer(TEACHER), body })).status,
    204,
  )
  for (const key of [ADA, BOB, CLEO])
    assert.equal((await pupil(key)).body, `[{"id":1,${large.slice(1)}]`)
  assert.equal((await teacher('POST /pets?stores=2', [REX])).status, 201)
  assert.equal((await teacher('PUT /get-pet?stores=all', 'gone')).status, 204)
  assert.deepEqual([petstore.of(CLEO).pets.length, petstore.of(ADA).getPetState], [2, 'gone'])
})

test('a failure in all stores names each store that it is of', async (t) => {
  const { pupil, teacher } = await startClass(t)
  await pupil(ADA, '/pets?statsu=sold')
  await pupil(BOB)
  await pupil(CLEO, '/pets?statsu=sold')
  const { status, json } = await teacher('GET /verify?stores=all')
  const found = (number: number) =>
    `store ${number}: verify found 1 request with violations:
  GET /v1/pets?statsu=sold: unknown parameter "statsu"`
  const message = [found(0), found(2)].join('\n')
  assert.deepEqual([status, json], [400, { code: 'verify_failed', message, status }])
})

test('what the teacher cannot mean is refused, in words, and changes nothing', async (t) => {
  const { petstore, pupil, control } = await startClass(t)
  const none = assertError(
    await control(TEACHER, 'POST /reset', { stores: 'all' }),
    404,
    'not_found',
  )
  assert.match(none, /^No store is open/)
  await pupil(ADA)
  for (const [ask, content, message] of [
    ['POST /reset', { stores: 'All' }, `stores ${MUST_BE}`],
    ['POST /reset', { stores: [0] }, `stores ${MUST_BE}`],
    ['POST /reset', { stores: -1 }, `stores ${MUST_BE}`],
    ['GET /requests?stores=-1', undefined, `stores ${MUST_BE}`],
    ['GET /requests?stores=0&stores=0', undefined, 'query must name each parameter once'],
    ['GET /pets?stores=0&x=1', undefined, 'query must be empty'],
    ['POST /reset', { stores: 0, pet: [] }, 'body must have no members but stores and pets'],
    ['POST /faults?stores=0', { ...BUSY, stores: 'everyone' }, `stores ${MUST_BE}`],
    ['POST /faults', { stores: 'all', status: 429 }, /^operation is required/],
    ['POST /faults', [BUSY], `stores ${MUST_BE}`],
  ] as const) {
    const answer = await control(TEACHER, ask, content)
    const said = assertError(answer, 400, 'bad_request', ask)
    if (typeof message === 'string') assert.equal(said, message)
    else assert.match(said, message)
  }
  const bad = await control(TEACHER, 'POST /reset', { stores: 'all', pets: [{ name: 1 }] })
  assertError(bad, 400, 'invalid_pet')
  const far = await control(TEACHER, 'POST /reset', { stores: 1 })
  assert.match(assertError(far, 404, 'not_found'), /^No open store has this number/)
  const ada = petstore.of(ADA)
  assert.deepEqual([ada.pets.length, ada.requests.length, ada.pendingFaults.length], [1, 1, 0])
})

test("a teacher's key needs stores and controls, and must be no API key", async (t) => {
  const name = 'teacherKey (--teacher-key)'
  const flags = ['--teacher-key', TEACHER]
  for (const [why, ...args] of [
    [`${name} must be given with storePerKey (--store-per-key)`, '--control-port', '0'],
    [`${name} must be given with controlPort (--control-port)`, '--store-per-key'],
    [
      `${name} must be none of the API keys`,
      ...['--store-per-key', '--control-port', '0', '--api-key', ADA, '--api-key', TEACHER],
    ],
    [
      `${name} must be none of the API keys`,
      ...['--store-per-key', '--control-port', '0', '--api-keys-file', temporaryFile(TEACHER)],
    ],
  ] as const) {
    assert.deepEqual(await run([...flags, ...args]), ended(2, why))
    assert.deepEqual(await run(args, { PETSTORE_TEACHER_KEY: TEACHER }), ended(2, why))
  }
  const { petstore, pupil } = await startClass(t)
  const error = { name: 'TypeError', message: `${name} must be none of the API keys` }
  assert.throws(() => petstore.replaceKeys([ADA, TEACHER]), error)
  assert.equal((await pupil(BOB)).status, 200) // any key is still valid
})
