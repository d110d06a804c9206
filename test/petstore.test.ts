import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { startPetstore } from '../src/petstore.ts'
import { type Answer, AUTHORIZATION, folderOf, RawConnection, send, start } from './support.ts'

const REX = { name: 'Rex', categoryId: 1 }

test('animals that do not all fit are refused, and none of them is kept', async (t) => {
  const snapshot = `${folderOf(t)}/pets.json`
  const message = 'Cannot begin with 3 animals: they do not fit into 80 bytes'
  await assert.rejects(startPetstore({ snapshot, pets: [REX, REX, REX], maxStore: 80 }), {
    name: 'RangeError',
    message,
  })
  assert.deepEqual(JSON.parse(readFileSync(snapshot, 'utf8')).pets, [])
})

test('animals to begin with are for an empty store only', async (t) => {
  const snapshot = `${folderOf(t)}/pets.json`
  for (let times = 0; times < 2; times++) {
    const petstore = await startPetstore({ snapshot, pets: [REX, REX] })
    await petstore.close()
    assert.equal(JSON.parse(readFileSync(snapshot, 'utf8')).pets.length, 2)
  }
})

test('an address that cannot be listened on leaves the snapshot unlocked', async (t) => {
  const snapshot = `${folderOf(t)}/pets.json`
  const { url } = await start(t)
  await assert.rejects(startPetstore({ snapshot, port: Number(new URL(url).port) }), { code: 'EADDRINUSE' })
  await (await startPetstore({ snapshot })).close()
})

const GET = `GET /v1/pets?limit=100 HTTP/1.1\r\nHost: x\r\nAuthorization: ${AUTHORIZATION}\r\n\r\n`

test('a client that pipelines more behind a create than may wait is cut off; one that stays below is answered', async (t) => {
  const petstore = await start(t, { snapshot: `${folderOf(t)}/pets.json`, limits: { pipelined: 3 } })
  const body = JSON.stringify(REX)
  const post = GET.replace(/^GET (.*)\?limit=100/, 'POST $1').replace(
    /\r\n$/,
    `Content-Length: ${body.length}\r\n\r\n${body}`,
  )
  const modest = new RawConnection(t, petstore)
  await modest.write(post + GET.repeat(3))
  assert.equal((await modest.read()).status, 201)
  for (let count = 0; count < 3; count++)
    assert.equal((await modest.read()).body, '[{"id":1,"name":"Rex","categoryId":1}]')
  const greedy = new RawConnection(t, petstore)
  await greedy.write(post + GET.repeat(4))
  await greedy.closed
  await assert.rejects(greedy.read(), /the connection ended after ""/)
})

test('a client that does not read its answers is cut off, and its pages are not made', async (t) => {
  const pets = Array.from({ length: 100 }, () => ({ name: 'x'.repeat(60_000), categoryId: 1 }))
  const petstore = await start(t, { pets, maxConnections: 1, limits: { stallTimeout: 200, checkInterval: 10 } })
  const { rss } = process.memoryUsage()
  const stalled = new RawConnection(t, petstore)
  stalled.socket.pause()
  await stalled.write(GET.repeat(500)) // 3 GB of pages
  let answer: Answer | undefined
  while (answer === undefined) answer = await send(petstore, 'GET', '/v1/pets?limit=1').catch(() => undefined)
  assert.equal(answer.status, 200)
  assert.ok(process.memoryUsage().rss - rss < 500 * 2 ** 20)
})

test('where clients leave more unread than may be held, the one that has done so the longest is cut off', async (t) => {
  const pets = Array.from({ length: 100 }, () => ({ name: 'x'.repeat(60_000), categoryId: 1 }))
  const petstore = await start(t, { pets, limits: { held: 1_000_000 } })
  const stalled: RawConnection[] = []
  for (let count = 1; count <= 2; count++) {
    const connection = new RawConnection(t, petstore)
    connection.socket.pause()
    await connection.write(GET)
    while (petstore.requests.length < count) await turn()
    stalled.push(connection)
  }
  const [first, second] = stalled
  second?.socket.resume()
  assert.equal(JSON.parse((await second?.read())?.body ?? '').length, 100)
  first?.socket.resume()
  await assert.rejects(async () => first?.read(), /the connection ended/)
})
