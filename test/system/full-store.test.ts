// A full store responds 507 to creates, serves everything else, and never exhausts the heap.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { getHeapStatistics } from 'node:v8'
import { post } from '../http/raw.ts'
import { residentKiB, run, type Running } from '../process.ts'
import { check, RawConnection } from '../support.ts'

/** The greatest `--max-store` that is accepted, as a part of the heap's limit. */
const GREATEST = 1 / 2
/** MiB of `--max-old-space-size`; the last is Node's own choice. */
const HEAPS = [64, 256, undefined]
const CONNECTIONS = 8
const BATCH_BYTES = 512 * 1024
const CLIENTS = 16
/** Bytes of a page of the largest pets. */
const PAGE_BYTES = 100 * 64 * 1024

const SMALLEST = '{"name":"","categoryId":0}'
const PETS = {
  'the smallest': SMALLEST,
  'the smallest, of wide text': '{"name":"ł","categoryId":0}',
  'middling, of wide text': `{"name":"ł${'a'.repeat(940)}","categoryId":0}`,
  'the largest': largest(''),
  // One letter beyond Latin-1, and V8 keeps two bytes for each.
  'the largest, of wide text': largest('ł'),
}

function largest(first: string): string {
  const [head, tail] = [`{"name":"${first}`, '","categoryId":0}']
  return head + 'x'.repeat(64 * 1024 - Buffer.byteLength(head + tail)) + tail
}

/** Adds pets over pipelined connections until the store is full; returns how many were added. */
async function fill(t: TestContext, server: Running, body: string): Promise<number> {
  const request = post(body)
  const count = Math.min(10, Math.ceil(BATCH_BYTES / request.length))
  let added = 0
  const client = async () => {
    const connection = new RawConnection(t, server)
    let isFull = false
    while (!isFull) {
      await connection.write(request.repeat(count))
      for (let read = 0; read < count; read++) {
        const { status } = await connection.read()
        isFull = status !== 201
        if (isFull) assert.equal(status, 507)
        else added++
      }
    }
    connection.socket.destroy()
  }
  await Promise.all(Array.from({ length: CONNECTIONS }, client))
  return added
}

/** Lists, gets and tries to add, by many clients at once, all over the store. */
async function assertServes(server: Running, count: number, body: string, clients: number) {
  const client = async (_: unknown, at: number) => {
    const id = Math.ceil((count * (at + 1)) / (clients + 1))
    const page = await check(server, 'GET', `/v1/pets?limit=100&after=${id - 1}`, 200)
    const pet = await check(server, 'GET', `/v1/pets/${id}`, 200)
    assert.ok(pet.body.startsWith(`{"id":${id},"name":`))
    assert.ok(page.body.startsWith(`[{"id":${id},"name":`))
    await check(server, 'POST', '/v1/pets', '507 store_full', { body })
  }
  await Promise.all(Array.from({ length: clients }, client))
}

for (const heap of HEAPS) {
  const heapFlags = heap === undefined ? [] : [`--max-old-space-size=${heap}`]
  const limit = heap === undefined ? getHeapStatistics().heap_size_limit : heap * 2 ** 20
  // Their pages together stay below what clients may make the server hold.
  const held = Math.min(128 * 2 ** 20, limit / 4)
  const clients = Math.min(CLIENTS, Math.floor(held / PAGE_BYTES))
  const greatest = ['--max-store', `${Math.floor(limit * GREATEST)}`]
  for (const [kind, body] of Object.entries(PETS)) {
    if (body.length < 1_000 && heap !== 64) continue // millions of them would take minutes
    for (const flags of heap === undefined ? [[]] : [[], greatest]) {
      const setting = `${heap ?? "Node's own"} MiB of heap ${flags.join(' ')}`
      test(`a full store still serves: ${setting}, ${kind} pets`, async (t) => {
        const server = await run(t, [process.execPath, ...heapFlags, 'dist/main.js', ...flags])
        try {
          const count = await fill(t, server, body)
          await assertServes(server, count, body, clients)
          const mebibytes = Math.round(residentKiB(server, 'VmHWM') / 1024)
          t.diagnostic(`${count} pets, ${mebibytes} MiB at the peak`)
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
