// A full store answers 507 and everything else, and never ends its process, whatever the heap and the pets.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { connect } from 'node:net'
import { test } from 'node:test'
import { AUTHORIZATION } from '../support.ts'
import { residentKiB, type Server, serve } from './server.ts'

/** The greatest `--max-store` that is accepted, as a part of V8's heap limit. */
const GREATEST = 1 / 2
/** MiB of `--max-old-space-size`; the last is Node's own choice. */
const HEAPS = [64, 256, undefined]
const [CONNECTIONS, BATCH_BYTES] = [8, 512 * 1024]
// Their pages of the largest pets stay below what clients may leave unread in all.
const CLIENTS = 16

const SMALLEST = '{"name":"","categoryId":0}'
const PETS = {
  'the smallest': SMALLEST,
  'the largest': largest(''),
  // One letter beyond Latin-1, and V8 keeps two bytes for each.
  'the largest, of wide text': largest('ł'),
}

/** A body of 64k bytes, the greatest that is allowed by default. */
function largest(first: string): string {
  const [head, tail] = [`{"name":"${first}`, '","categoryId":0}']
  return head + 'x'.repeat(64 * 1024 - Buffer.byteLength(head + tail)) + tail
}

/** Adds pets over pipelined connections until the store is full; returns how many were added. */
async function fill({ url }: Server, body: string): Promise<number> {
  const { hostname, port, pathname } = new URL(url)
  const head = `POST ${pathname}/pets HTTP/1.1\r\nHost: x\r\nAuthorization: ${AUTHORIZATION}\r\n`
  const request = `${head}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`
  const count = Math.min(200, Math.ceil(BATCH_BYTES / request.length))
  const batch = Buffer.from(request.repeat(count))
  const client = async () => {
    const socket = connect(Number(port), hostname)
    const seen: Record<string, number> = {}
    let [tail, answered] = ['', 0]
    socket.write(batch)
    for await (const chunk of socket) {
      const text = tail + chunk.toString('latin1')
      tail = text.slice(-11) // too short for a whole one
      for (const [, status = ''] of text.matchAll(/HTTP\/1\.1 (\d{3})/g)) {
        seen[status] = (seen[status] ?? 0) + 1
        answered++
      }
      if (answered % count > 0) continue
      if (seen['507'] !== undefined) break
      socket.write(batch)
    }
    const { 201: added = 0, ...refused } = seen
    assert.deepEqual(Object.keys(refused), ['507'])
    return added
  }
  const added = await Promise.all(Array.from({ length: CONNECTIONS }, client))
  return added.reduce((sum, each) => sum + each)
}

/** Lists, gets and tries to add, by many clients at once, all over the store. */
async function assertServes({ url }: Server, count: number, body: string): Promise<void> {
  const ask = async (path: string, init: RequestInit = {}) => {
    const headers = { authorization: AUTHORIZATION, 'content-type': 'application/json' }
    const response = await fetch(url + path, { ...init, headers })
    return [response.status, (await response.text()).slice(0, 15)]
  }
  const client = async (_: unknown, at: number) => {
    const id = Math.ceil((count * (at + 1)) / (CLIENTS + 1))
    assert.deepEqual(await ask(`/pets?limit=100&after=${id - 1}`), [200, `[{"id":${id},"name"`.slice(0, 15)])
    assert.deepEqual(await ask(`/pets/${id}`), [200, `{"id":${id},"name"`.slice(0, 15)])
    assert.deepEqual(await ask('/pets', { method: 'POST', body }), [507, '{"code":"store_'])
  }
  await Promise.all(Array.from({ length: CLIENTS }, client))
}

for (const heap of HEAPS) {
  const nodeFlags = heap === undefined ? [] : [`--max-old-space-size=${heap}`]
  const limit = Number(execFileSync(process.execPath, [...nodeFlags, '-p', 'v8.getHeapStatistics().heap_size_limit']))
  const greatest = ['--max-store', `${Math.floor(limit * GREATEST)}`]
  for (const [kind, body] of Object.entries(PETS)) {
    if (body === SMALLEST && heap !== 64) continue // millions of them would take minutes
    for (const flags of heap === undefined ? [[]] : [[], greatest]) {
      test(`${heap ?? "Node's own"} MiB of heap, ${flags.join(' ')} ${kind} pets: it serves on`, async (t) => {
        const server = await serve(t, flags, { nodeFlags })
        try {
          const count = await fill(server, body)
          await assertServes(server, count, body)
          t.diagnostic(`${count} pets, ${Math.round(residentKiB(server, 'VmHWM') / 1024)} MiB at the peak`)
        } catch (cause) {
          server.process.kill('SIGKILL')
          throw new Error(`it does not: ${(await server.exited).stderr}`, { cause })
        }
        server.process.kill('SIGTERM')
        assert.equal((await server.exited).status, 0)
      })
    }
  }
}
