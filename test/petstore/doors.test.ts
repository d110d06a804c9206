// Why a request failed, whether a fault was met, and what verify() finds: the same through each
// door of a petstore.
import assert from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import { connectPetstore, createPetstore } from '../../src/index.ts'
import type { Awaitable, Fault, InitialPet, NewPet, PendingFault, Pet } from '../../src/index.ts'
import type { RecordedRequest, WaitOptions } from '../../src/index.ts'
import { bearer, KEY, start } from '../support.ts'

/** A door: what a Petstore and a RemotePetstore have in common. */
interface Door {
  readonly pets: Awaitable<Pet[]>
  readonly requests: Awaitable<RecordedRequest[]>
  readonly pendingFaults: Awaitable<PendingFault[]>
  add(newPets: readonly NewPet[]): Awaitable<Pet[]>
  reset(newPets?: readonly InitialPet[]): Awaitable<void>
  inject(fault: Fault): Awaitable<{ hits: Awaitable<number>; remove(): Awaitable<void> }>
  clearFaults(): Awaitable<void>
  clearRequests(): Awaitable<void>
  waitForRequests(count: number, options?: WaitOptions): Awaitable<RecordedRequest[]>
  verify(): Awaitable<void>
}

interface Opened {
  readonly door: Door
  /** What a client gets. */
  ask(method: string, path: string, body?: string): Promise<Response>
}

const headers = { ...bearer(KEY), 'content-type': 'application/json' }
const clientOf =
  (url: string, send: typeof fetch): Opened['ask'] =>
  (method, path, body) =>
    send(url + path, { method, headers, ...(body === undefined ? {} : { body }) })

function errorIn(body: string): Error {
  const { code, message } = JSON.parse(body)
  const known = { bad_request: 'invalid_option', request_timeout: 'timeout' }
  return Object.assign(new Error(message), {
    code: Object.entries(known).find(([name]) => name === code)?.[1] ?? code,
  })
}

/** As one would write it by hand, in any language. */
function rawDoor(controlUrl: string): Door {
  const send = async (method: string, path: string, content?: unknown) => {
    const body = content === undefined ? null : JSON.stringify(content)
    const response = await fetch(new URL(path, controlUrl), { method, headers, body })
    const text = await response.text()
    if (!response.ok) throw errorIn(text)
    return {
      json: text === '' ? undefined : JSON.parse(text),
      at: response.headers.get('location'),
    }
  }
  const get = async (path: string) => (await send('GET', path)).json
  const change = async (method: string, path: string, content?: unknown) =>
    void (await send(method, path, content))
  return {
    get pets() {
      return get('/pets')
    },
    get requests() {
      return get('/requests')
    },
    get pendingFaults() {
      return get('/faults')
    },
    add: async (pets) => (await send('POST', '/pets', pets)).json,
    reset: (pets) => change('POST', '/reset', pets),
    inject: async (fault) => {
      const { at } = await send('POST', '/faults', fault)
      return {
        get hits() {
          return get(at ?? '').then(({ hits }) => hits)
        },
        remove: () => change('DELETE', at ?? ''),
      }
    },
    clearFaults: () => change('DELETE', '/faults'),
    clearRequests: () => change('DELETE', '/requests'),
    waitForRequests: (count, { timeout = 4_000, ...filters } = {}) => {
      const pairs = Object.entries({ ...filters, count, wait: timeout / 1_000 })
      return get(`/requests?${pairs.map((pair) => pair.join('=')).join('&')}`)
    },
    verify: () => change('GET', '/verify'),
  }
}

async function startWithControls(t: TestContext) {
  const { url, controlUrl = '' } = await start(t, { controlPort: 0 })
  return { url, controlUrl, ask: clientOf(url, fetch) }
}

const DOORS: Readonly<Record<string, (t: TestContext) => Opened | Promise<Opened>>> = {
  'in process': () => {
    const door = createPetstore({ apiKeys: [KEY] })
    return { door, ask: clientOf(door.url, door.fetch) }
  },
  'over a socket': async (t) => {
    const door = await start(t)
    return { door, ask: clientOf(door.url, fetch) }
  },
  'over the controls': async (t) => {
    const { controlUrl, ask } = await startWithControls(t)
    return { door: rawDoor(controlUrl), ask }
  },
  'through connectPetstore': async (t) => {
    const { controlUrl, ask } = await startWithControls(t)
    return { door: connectPetstore({ controlUrl, apiKey: KEY }), ask }
  },
}

const REX = '{"name":"Rex","categoryId":1}'

const TESTS: Readonly<Record<string, (opened: Opened) => Promise<void>>> = {
  'a request has the code and the message of its Error': async ({ door, ask }) => {
    await door.inject({ operation: 'listPets', status: 429, code: 'slow_down', message: 'Wait' })
    for (const [method, path, body] of [
      ['GET', '/pets'],
      ['GET', '/pets'],
      ['POST', '/pets', '{"name":"Rex","categoryId":"1"}'],
      ['GET', '/pets/1'],
    ] as const)
      await ask(method, path, body)
    const shown = (await door.requests).map(({ status, code, message, fault }) => {
      return [status, code, message, fault]
    })
    assert.deepEqual(shown, [
      [429, 'slow_down', 'Wait', true],
      [200, null, null, false],
      [400, 'invalid_pet', 'categoryId must be an integer', false],
      [404, 'not_found', 'There is no pet with this id', false],
    ])
    await door.clearRequests()
    assert.deepEqual(await door.requests, [])
  },

  'a fault knows its hits, and can be removed': async ({ door, ask }) => {
    const once = await door.inject({ operation: 'getPet', status: 503 })
    const always = await door.inject({ operation: 'listPets', times: 'always', status: 500 })
    const other = await door.inject({ operation: 'listPets', status: 502 })
    const hits = async () => [await once.hits, await always.hits, await other.hits]
    assert.deepEqual(await hits(), [0, 0, 0])
    const statuses: number[] = []
    for (const path of ['/pets/1', '/pets/1', '/pets', '/pets'])
      statuses.push((await ask('GET', path)).status)
    assert.deepEqual(statuses, [503, 404, 500, 500])
    assert.deepEqual(await hits(), [1, 2, 0])
    for (const fault of [once, always, always]) await fault.remove()
    const left = { operation: 'listPets', status: 502, times: 1, hits: 0 }
    assert.deepEqual(await door.pendingFaults, [left])
    assert.equal((await ask('GET', '/pets')).status, 502)
    await door.reset()
    assert.deepEqual(await hits(), [1, 2, 1])
  },

  'each kind of fault does what it says': async ({ door, ask }) => {
    const failed = async (promise: Promise<Response>) =>
      promise.then((response) => response.json()).then(String, () => 'failed')
    const operation = 'listPets'
    const faults: readonly Fault[] = [
      { operation, status: 503 },
      { operation, body: 'garbled' },
      { operation, body: 'cut' },
      { operation, hangUp: true },
      { operation, delay: 1 },
    ]
    for (const fault of faults) await door.inject(fault)
    const seen: string[] = []
    for (const _ of faults) seen.push(await failed(ask('GET', '/pets')))
    assert.deepEqual(seen, ['[object Object]', 'failed', 'failed', 'failed', ''])
    const requests = await door.waitForRequests(5)
    const outcomes = requests.map(({ status, code, fault }) => [status, code, fault])
    assert.deepEqual(outcomes, [
      [503, 'injected_fault', true],
      [200, null, true],
      [200, null, true],
      [null, null, true],
      [200, null, true],
    ])
  },

  'verify() lists the faults still to come and the violations': async ({ door, ask }) => {
    await door.verify()
    const verified = (lines: string) =>
      assert.rejects(async () => door.verify(), {
        code: 'verify_failed',
        message: `verify found ${lines}`,
      })
    await door.inject({ operation: 'listPets', times: 'always', status: 503, headers: { a: 'b' } })
    const always = "{ operation: 'listPets', times: 'always', status: 503, headers: { a: 'b' } }"
    await verified(`1 fault still to come:\n  no request met the fault ${always}`)
    await ask('GET', '/pets')
    await door.verify()
    await door.inject({ operation: 'createPet', times: 2, hangUp: true })
    await assert.rejects(ask('POST', '/pets', REX))
    await door.inject({ operation: 'getPet', delay: [1, 2] })
    await ask('GET', '/pets?statsu=sold&limit=1&limit=2')
    await verified(`2 faults still to come and 1 request with violations:
  1 request met the fault, which waits for more: { operation: 'createPet', times: 1, hangUp: true }
  no request met the fault { operation: 'getPet', delay: [ 1, 2 ], times: 1 }
  GET /v1/pets?statsu=sold&limit=1&limit=2: unknown parameter "statsu"; repeated parameter "limit"`)
    await door.clearFaults()
    await verified(`1 request with violations:
  GET /v1/pets?statsu=sold&limit=1&limit=2: unknown parameter "statsu"; repeated parameter "limit"`)
    await door.reset()
    await door.verify()
  },

  'pets are added, and reset under their ids': async ({ door }) => {
    const [rex, tom] = await door.add([
      { name: 'Rex', categoryId: 1 },
      { name: 'Tom', categoryId: 2, status: 'sold' },
    ])
    const saved = await door.pets
    assert.deepEqual(saved, [rex, tom])
    await door.reset()
    assert.deepEqual(await door.pets, [])
    await door.reset([{ ...saved[1], id: 7, name: 'Tim', categoryId: 3 }])
    assert.deepEqual(await door.pets, [{ id: 7, name: 'Tim', categoryId: 3, status: 'sold' }])
  },

  'errors have a code, and say what was wrong': async ({ door, ask }) => {
    await ask('GET', '/pets?limit=1')
    const bad: Fault = JSON.parse('{"operation":"listPet","status":503}')
    for (const [call, code, message] of [
      [() => door.inject(bad), 'invalid_option', /^operation 'listPet' must be one of listPets, /],
      [() => door.add([JSON.parse('{}')]), 'invalid_pet', /^pets must be .*: in item 1, name is /],
      [() => door.reset([JSON.parse('{"id":0}')]), 'invalid_pet', /^pets must .* in item 1, /],
      [() => door.waitForRequests(1_001), 'invalid_option', /^count 1001 must be .* 1000, the /],
      [
        () => door.waitForRequests(2, { operation: 'listPets', status: 200, timeout: 1 }),
        'timeout',
        /^timeout: waited for 2 requests, operation listPets, status 200; .*:\n {2}GET \S+ 200$/,
      ],
    ] as const)
      await assert.rejects(async () => call(), { code, message })
  },
}

for (const [name, run] of Object.entries(TESTS)) {
  describe(name, () => {
    for (const [way, open] of Object.entries(DOORS)) test(way, async (t) => run(await open(t)))
  })
}
