// The petstore called in process: as the global fetch would over a socket.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { createPetstore } from '../../src/petstore.ts'
import type { Petstore } from '../../src/types.ts'
import { AUTHORIZATION, KEY } from '../support.ts'
import { REX } from './raw.ts'

const BEARER = { authorization: AUTHORIZATION }
const JSON_TYPE = { ...BEARER, 'content-type': 'application/json' }

/** A body that is read chunk by chunk, and tells how many chunks were, and whether it was cancelled. */
function streamOf(chunks: readonly Uint8Array[]) {
  const seen = { pulled: 0, cancelled: false }
  const source = {
    pull(controller: ReadableStreamDefaultController<Uint8Array>) {
      const chunk = chunks[seen.pulled++]
      if (chunk === undefined) controller.close()
      else controller.enqueue(chunk)
    },
    cancel: () => void (seen.cancelled = true),
  }
  return { stream: new ReadableStream<Uint8Array>(source, { highWaterMark: 0 }), seen }
}

function upload(petstore: Petstore, body: ReadableStream, init: RequestInit = {}): Promise<Response> {
  return petstore.fetch(`${petstore.url}/pets`, { method: 'POST', headers: JSON_TYPE, body, duplex: 'half', ...init })
}

describe('fetch in process', () => {
  test('takes a text, a URL, a Request with its body once, and a Request with an init', async () => {
    const petstore = createPetstore({ apiKeys: [KEY] })
    const url = `${petstore.url}/pets`
    const init = { method: 'POST', headers: JSON_TYPE, body: REX }
    const calls = [[url, init], [new URL(url), init], [new Request(url, init)], [new Request(url), init]] as const
    for (const [at, [input, more]] of calls.entries()) {
      const response = await petstore.fetch(input, more)
      assert.deepEqual([response.status, await response.json()], [201, { id: at + 1, name: 'Rex', categoryId: 1 }])
    }
    const [used] = calls[2]
    assert.ok(used.bodyUsed)
    await assert.rejects(petstore.fetch(used), { name: 'TypeError' })
    assert.equal(petstore.pets.length, 4)
  })

  test('does not mind the host, needs no `this`, and takes no credentials from the URL', async () => {
    const { fetch: inProcess } = createPetstore({ apiKeys: [KEY] })
    for (const origin of ['http://petstore.invalid', 'https://prod.example:8443', 'http://[::1]:1']) {
      const response = await inProcess(`${origin}/v1/pets?a=b#here`, { headers: BEARER })
      assert.deepEqual([response.status, response.url], [200, `${origin}/v1/pets?a=b`])
      assert.ok(response instanceof Response && response.ok && response.body instanceof ReadableStream)
      assert.equal(await response.clone().text(), await response.text())
    }
    for (const input of ['/v1/pets', 'http://user:pass@petstore.invalid/v1/pets', '']) {
      await assert.rejects(inProcess(input), { name: 'TypeError' })
    }
  })

  test('refuses more than 100 headers', async () => {
    const { fetch: inProcess, url } = createPetstore({ apiKeys: [KEY] })
    for (const [count, status] of Object.entries({ 100: 200, 101: 431 })) {
      const more = Object.fromEntries(Array.from({ length: Number(count) - 1 }, (_, at) => [`x-${at}`, 'y']))
      assert.equal((await inProcess(`${url}/pets`, { headers: { ...BEARER, ...more } })).status, status)
    }
  })

  test('reads a body that comes in chunks, across a character that is split, up to maxBody', async () => {
    const bytes = new TextEncoder().encode('{"name":"ü","categoryId":12}')
    const chunks = [bytes.subarray(0, 10), new Uint8Array(0), bytes.subarray(10)]
    for (const [maxBody, status] of Object.entries({ 29: 201, 28: 413 })) {
      const petstore = createPetstore({ apiKeys: [KEY], maxBody: Number(maxBody) })
      const { stream, seen } = streamOf(chunks)
      assert.equal((await upload(petstore, stream)).status, status)
      assert.deepEqual([seen.cancelled, petstore.pets.length], status === 201 ? [false, 1] : [true, 0])
    }
  })

  test('reads no more than it needs of a body that is refused, and cancels it', async () => {
    const petstore = createPetstore({ apiKeys: [KEY], maxBody: 10 })
    for (const [headers, status, pulled] of [
      [JSON_TYPE, 413, 3],
      [{}, 401, 0],
      [{ ...BEARER, 'content-type': 'text/plain' }, 415, 0],
      [{ ...JSON_TYPE, 'content-length': '11' }, 413, 0],
    ] as const) {
      const { stream, seen } = streamOf(Array.from({ length: 1_000 }, () => new Uint8Array(4)))
      assert.equal((await upload(petstore, stream, { headers })).status, status)
      assert.ok(seen.cancelled && seen.pulled >= pulled && seen.pulled <= 2 * pulled, `${seen.pulled} chunks were read`)
    }
  })

  test('rejects where the body breaks or is aborted before its end, and adds nothing', async () => {
    const petstore = createPetstore({ apiKeys: [KEY] })
    const broken = new ReadableStream({ pull: (controller) => controller.error(new Error('no more')) })
    await assert.rejects(upload(petstore, broken))
    for (const begun of ['', REX]) {
      const controller = new AbortController()
      let reason: unknown
      const body = new ReadableStream({
        start: (stream) => stream.enqueue(new TextEncoder().encode(begun)),
        pull: () => setImmediate(() => controller.abort(new Error('enough'))) && new Promise(() => {}),
        cancel: (why) => void (reason = why),
      })
      await assert.rejects(upload(petstore, body, { signal: controller.signal }), { message: 'enough' })
      await turn()
      assert.ok(reason instanceof Error)
    }
    const aborted = petstore.fetch(petstore.url, { signal: AbortSignal.abort(new Error('before')) })
    await assert.rejects(aborted, { message: 'before' })
    assert.deepEqual([petstore.pets, petstore.requests.length], [[], 3]) // it was no request
  })
})
