// What a petstore keeps in memory: ids, pages, and how much.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { InitialPet, Int64, Pet } from '../../src/types.ts'
import { send, start } from '../support.ts'

const NEW = { name: 'new', categoryId: 1 }
const MAX = 2n ** 63n - 1n

test('ids are one above the greatest, up to 2^63-1; then there is no room', async (t) => {
  const petstore = await start(t)
  for (const [last, ...next] of [
    [5, 6, 7],
    [2 ** 53 - 2, 2 ** 53 - 1, 2n ** 53n, 2n ** 53n + 1n],
    [MAX - 2n, MAX - 1n, MAX],
  ] as const) {
    await petstore.reset([
      { id: 2, ...NEW },
      { id: last, ...NEW },
    ])
    for (const id of next) assert.deepEqual(await petstore.add([NEW]), [{ id, ...NEW }])
  }
  await assert.rejects(petstore.add([NEW]), { code: 'store_full' })
  const body = '{"name":"","categoryId":1}'
  assert.equal((await send(petstore, 'POST', '/v1/pets', { body })).status, 507)
  await petstore.reset([{ id: MAX - 2n, ...NEW }])
  await assert.rejects(petstore.add([NEW, NEW, NEW]), { code: 'store_full' })
  const added = await petstore.add([NEW, NEW])
  assert.deepEqual(
    added.map(({ id }) => id),
    [MAX - 1n, MAX],
  )
  await petstore.reset([])
  assert.deepEqual(await petstore.add([NEW]), [{ id: 1, ...NEW }])
})

test('each pet counts as its JSON in UTF-8, and 100 more', async (t) => {
  const pets: InitialPet[] = [
    { name: 'Rex', categoryId: 1 },
    { name: '€\u{1f436}\ud800"\n', categoryId: -(2n ** 63n), status: 'available' },
    { name: '', categoryId: 9 },
  ]
  const json = String.raw`{"id":1,"name":"Rex","categoryId":1}
{"id":2,"name":"€${'\u{1f436}'}\ud800\"\n","categoryId":-9223372036854775808,"status":"available"}
{"id":3,"name":"","categoryId":9}`
  const bytes = Buffer.byteLength(json.replaceAll(/\n/g, '')) + 300
  const petstore = await start(t, { maxStore: bytes })
  const tight = await start(t, { maxStore: bytes - 1 })
  for (const fill of ['add', 'reset'] as const) {
    await petstore.reset([])
    await petstore[fill](pets)
    assert.equal((await petstore.pets()).length, 3)
    const before = await tight.pets()
    await assert.rejects(tight[fill](pets), { code: 'store_full' })
    assert.deepEqual(await tight.pets(), before)
  }
  await assert.rejects(petstore.add([NEW]), { code: 'store_full' })
  await tight.add(pets.slice(0, 2))
  await assert.rejects(tight.add(pets.slice(2)), { code: 'store_full' })
  assert.equal((await tight.pets()).length, 2)
})

test('initial pets that do not fit refuse the start', async (t) => {
  await assert.rejects(start(t, { maxStore: 100, pets: [NEW] }), { code: 'store_full' })
})

test('each page is that of an array', async (t) => {
  const statuses = ['available', 'pending', 'sold', undefined] as const
  const ids: Int64[] = [1, 2, 5, 6, 2 ** 53 - 1, 2n ** 53n, 2n ** 53n + 2n, MAX - 1n, MAX]
  const pets: Pet[] = ids.map((id, at) => ({ id, name: `${at}`, categoryId: 0 }))
  for (const [at, pet] of pets.entries()) {
    const status = statuses[(at * 3) % 4]
    if (status) pet.status = status
  }
  const petstore = await start(t, { pets })
  for (const after of [0, ...ids, 4, 2n ** 53n + 1n]) {
    for (const limit of [1, 2, 100]) {
      for (const status of statuses) {
        const filter = status ? `&status=${status}` : ''
        const path = `/v1/pets?limit=${limit}&after=${after}${filter}`
        const { body, headers } = await send(petstore, 'GET', path)
        const rest = pets.filter((pet) => pet.id > after && (status ?? pet.status) === pet.status)
        const page = rest.slice(0, limit)
        const names = JSON.parse(body).map(({ name }: { name: string }) => name)
        assert.deepEqual(
          names,
          page.map(({ name }) => name),
          path,
        )
        const link = `</v1/pets?limit=${limit}${filter}&after=${page.at(-1)?.id}>; rel="next"`
        assert.equal(headers['link'], rest.length > limit ? link : undefined, path)
      }
    }
  }
})
