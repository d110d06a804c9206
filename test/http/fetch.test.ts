// The petstore called in process, as by the global fetch over a socket.
import assert from 'node:assert/strict'
import { EventEmitter, getEventListeners } from 'node:events'
import { describe, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { createPetstore } from '../../src/petstore/launch.ts'
import type { Petstore } from '../../src/types.ts'
import { AUTHORIZATION, collectGarbage, KEY } from '../support.ts'
import { REX } from './raw.ts'

const BEARER = { authorization: AUTHORIZATION }
const JSON_TYPE = { ...BEARER, 'content-type': 'application/json' }

/** A body that counts the chunks that are read, and knows whether it was cancelled. */
function streamOf(chunks: readonly Uint8Array[]) {
  const seen = { pulled: 0, isCancelled: false }
  const source = {
    pull(controller: ReadableStreamDefaultController<Uint8Array>) {
      const chunk = chunks[seen.pulled]
      seen.pulled++
      if (chunk === undefined) controller.close()
      else controller.enqueue(chunk)
    },
    cancel() {
      seen.isCancelled = true
      return new Promise<void>(() => {})
    },
  }
  return { stream: new ReadableStream<Uint8Array>(source, { highWaterMark: 0 }), seen }
}

function upload(petstore: Petstore, body: ReadableStream, init: RequestInit = {}) {
  const create = { method: 'POST', headers: JSON_TYPE, body, duplex: 'half' as const }
  return petstore.fetch(`${petstore.url}/pets`, { ...create, ...init })
}

describe('fetch in process', () => {
  const INIT = { method: 'POST', headers: JSON_TYPE, body: REX }
  test('takes a Request, which an init may change, and rejects one that is used', async () => {
    const petstore = createPetstore({ apiKeys: [KEY] })
    const url = `${petstore.url}/pets`
    const request = new Request(url, INIT)
    const responses = [petstore.fetch(request), petstore.fetch(new Request(url), INIT)]
    for (const { status } of await Promise.all(responses)) assert.equal(status, 201)
    assert.ok(request.bodyUsed)
    await assert.rejects(petstore.fetch(request), { name: 'TypeError' })
    assert.equal(petstore.pets.length, 2)
  })

  for (const origin of ['http://petstore.invalid', 'https://prod.example:8443', 'http://[::1]:1']) {
    test(`takes any origin, and needs no this: ${origin}`, async () => {
      const { fetch: inProcess } = createPetstore({ apiKeys: [KEY] })
      const response = await inProcess(`${origin}/v1/pets?a=b#here`, { headers: BEARER })
      assert.equal(`${response.status} ${response.statusText}`, '200 OK')
      assert.equal(response.url, `${origin}/v1/pets?a=b`)
      assert.ok(response instanceof Response && response.ok)
      assert.ok(response.body instanceof ReadableStream)
      assert.equal(response.clone().clone().url, response.url)
      assert.equal(await response.clone().text(), await response.text())
    })
  }

  for (const input of ['/v1/pets', 'http://user:pass@petstore.invalid/v1/pets', '']) {
    test(`rejects a URL that fetch would reject: '${input}'`, async () => {
      const { fetch: inProcess } = createPetstore({ apiKeys: [KEY] })
      await assert.rejects(inProcess(input), { name: 'TypeError' })
    })
  }

  test('reads a body of maxBody in chunks, and refuses a larger one', async () => {
    const bytes = new TextEncoder().encode('{"name":"ü","categoryId":12}')
    const chunks = [bytes.subarray(0, 10), new Uint8Array(0), bytes.subarray(10)] // splits the ü
    const petstore = createPetstore({ apiKeys: [KEY], maxBody: bytes.length })
    assert.equal((await upload(petstore, streamOf(chunks).stream)).status, 201)
    const larger = streamOf([...chunks, new Uint8Array(1)])
    assert.equal((await upload(petstore, larger.stream)).status, 413)
    assert.equal(petstore.pets.length, 1)
  })

  test('keeps no empty chunk of a body', async () => {
    const petstore = createPetstore({ apiKeys: [KEY] })
    const kept: WeakRef<object>[] = []
    let living = 0
    const body = new ReadableStream<Uint8Array>({
      async pull(controller) {
        if (kept.length < 100) {
          const chunk = new Uint8Array(0)
          kept.push(new WeakRef(chunk))
          return controller.enqueue(chunk)
        }
        await turn()
        collectGarbage()
        living = kept.filter((reference) => reference.deref() !== undefined).length
        controller.enqueue(new TextEncoder().encode(REX))
        controller.close()
      },
    })
    assert.equal((await upload(petstore, body)).status, 201)
    assert.ok(living < 10, `${living} of 100 are alive`)
  })

  const TEXT = { ...BEARER, 'content-type': 'text/plain' }
  const LONG = { ...JSON_TYPE, 'content-length': '11' }
  for (const [what, headers, status, pulled] of [
    ['beyond maxBody', JSON_TYPE, 413, 3],
    ['without a key', {}, 401, 0],
    ['of another type', TEXT, 415, 0],
    ['declared too large', LONG, 413, 0],
  ] as const) {
    test(`reads no more than it needs of a body ${what}, and cancels it`, async () => {
      const petstore = createPetstore({ apiKeys: [KEY], maxBody: 10 })
      const { stream, seen } = streamOf(Array.from({ length: 1_000 }, () => new Uint8Array(4)))
      assert.equal((await upload(petstore, stream, { headers })).status, status)
      assert.ok(seen.isCancelled)
      assert.ok(seen.pulled >= pulled && seen.pulled <= 2 * pulled, `${seen.pulled} chunks read`)
    })
  }

  for (const [when, begun] of Object.entries({ 'before its first byte': '', 'at its end': REX })) {
    test(`rejects if it is aborted while it waits for a body, ${when}`, async () => {
      const petstore = createPetstore({ apiKeys: [KEY] })
      const abort = new AbortController()
      let reason: unknown
      const body = new ReadableStream({
        start: (stream) => stream.enqueue(new TextEncoder().encode(begun)),
        pull() {
          setImmediate(collectGarbage) // only the signal must be left to reach the request by
          setImmediate(() => abort.abort(new Error('enough')))
          return new Promise(() => {})
        },
        cancel(why) {
          reason = why
        },
      })
      const response = upload(petstore, body, { signal: abort.signal })
      await assert.rejects(response, { message: 'enough' })
      await turn()
      assert.ok(reason instanceof Error)
      assert.deepEqual(petstore.pets, [])
      assert.equal(petstore.requests.length, 1)
    })
  }

  test('rejects if it is aborted during a delay; its operation runs to its end', async () => {
    const petstore = createPetstore({ apiKeys: [KEY], delay: 600_000 })
    const abort = new AbortController()
    const { stream, seen } = streamOf([new TextEncoder().encode(REX)])
    const response = upload(petstore, stream, { signal: abort.signal })
    while (seen.pulled < 2) await turn()
    await turn()
    abort.abort(new Error('enough'))
    await assert.rejects(response, { message: 'enough' })
    const [request] = await petstore.waitForRequests(1, { status: null, timeout: 0 })
    assert.deepEqual([request?.operation, petstore.pets], ['createPet', []])
    petstore.clearFaults() // ends the delay
    while (petstore.pets.length === 0) await turn()
  })

  test('refuses more than 100 headers, and more than 16 KiB of headers or target', async () => {
    const { fetch, headers, url } = createPetstore({ apiKeys: [KEY] })
    const statusOf = async (others: Record<string, string>, targetLength = 9) => {
      const target = `${url}/pets?${'x'.repeat(targetLength - '/v1/pets?'.length)}`
      return (await fetch(target, { headers: { ...others, ...headers } })).status
    }
    const many = Object.fromEntries(Array.from({ length: 99 }, (_, at) => [`x-${at}`, '']))
    const long = { x: 'x'.repeat(16_383 - `authorization${headers.authorization}`.length) }
    const atLimits = [statusOf(many), statusOf({}, 16_384), statusOf(long), statusOf(long, 511)]
    assert.deepEqual(await Promise.all(atLimits), [200, 200, 200, 200])
    const above = [statusOf({ ...many, x: '' }), statusOf({}, 16_385), statusOf(long, 512)]
    above.push(statusOf({ x: `${long.x}x` }))
    assert.deepEqual(await Promise.all(above), [431, 431, 431, 431])
  })

  test('lets the event loop turn, so that a client that tries for ever is stopped', async () => {
    const petstore = createPetstore({ apiKeys: [KEY] })
    petstore.inject({ operation: '*', status: 503, times: 'always' })
    const init = { headers: BEARER, signal: AbortSignal.timeout(50) }
    const tryForEver = async () => {
      for (;;) await petstore.fetch(`${petstore.url}/pets`, init)
    }
    await assert.rejects(tryForEver(), { name: 'TimeoutError' })
  })

  test('leaves no listener at a signal that many calls share', async () => {
    const petstore = createPetstore({ apiKeys: [KEY] })
    const { signal } = new AbortController()
    const request = new Request(`${petstore.url}/pets`, { headers: BEARER, signal })
    petstore.inject({ operation: '*', body: 'slow', delay: 1, times: 10 })
    for (let times = 0; times < 20; times++) {
      await (await petstore.fetch(petstore.url, { signal })).text()
      await (await petstore.fetch(request)).text()
    }
    assert.deepEqual(getEventListeners(signal, 'abort').length, 1) // the request's own
    assert.equal(getEventListeners(request.signal, 'abort').length, 0)
  })

  test('takes a foreign signal, and a foreign Request', async () => {
    const petstore = createPetstore({ apiKeys: [KEY] })
    const signal = Object.assign(new EventEmitter(), {
      aborted: false,
      reason: new Error('enough'),
    })
    const listening = {
      addEventListener: signal.on.bind(signal),
      removeEventListener: signal.off.bind(signal),
    }
    const foreign = {
      url: `${petstore.url}/pets`,
      method: 'POST',
      headers: new Map(Object.entries(JSON_TYPE)),
      arrayBuffer: async () => new TextEncoder().encode(REX).buffer,
      signal: Object.assign(signal, listening),
    }
    const fetchAny = (input: unknown): Promise<Response> =>
      Reflect.apply(petstore.fetch, undefined, [input])
    assert.equal((await fetchAny(foreign)).status, 201)
    petstore.inject({ operation: '*', delay: 600_000 })
    const aborted = assert.rejects(fetchAny(foreign), { message: 'enough' })
    while (petstore.pendingFaults.length > 0) await turn()
    signal.emit('abort')
    await aborted
    assert.equal(signal.listenerCount('abort'), 0)
    await petstore.close()
  })

  test('rejects if it was aborted before, and records no request', async () => {
    const petstore = createPetstore({ apiKeys: [KEY] })
    const signal = AbortSignal.abort(new Error('before'))
    await assert.rejects(petstore.fetch(petstore.url, { signal }), { message: 'before' })
    assert.deepEqual(petstore.requests, [])
  })
})
