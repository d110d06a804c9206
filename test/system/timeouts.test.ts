// The time that a client gets, at its real length.
import assert from 'node:assert/strict'
import { readdirSync, readlinkSync } from 'node:fs'
import { describe, test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { launch, type Running } from '../process.ts'
import { KEY, RawConnection, send } from '../support.ts'

const SERVER = [process.execPath, 'dist/main.js', '--port', '0', '--control-port', '0']
const HEAD = `HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${KEY}\r\n`
const LIST = `GET /v1/pets?limit=100 ${HEAD}\r\n`
const NAME = 'x'.repeat(60_000)

describe('a client that does nothing', { concurrency: 10 }, async () => {
  test('is closed in silence after 10 s if it never sent a byte', async (t) => {
    const server = await launch(t, [...SERVER, '--api-key', KEY])
    assert.equal(await new RawConnection(t, server).rest(), '')
    assert.doesNotMatch(server.stdout.text, /"status"/)
  })

  for (const [what, bytes] of Object.entries({
    'a head that is not complete after 10 s': `GET /v1/pets HTTP/1.1\r\nHost:`,
    'a body that is not complete after 30 s': `POST /v1/pets ${HEAD}Content-Length: 9\r\n\r\n{`,
  })) {
    test(`gets a 408 for ${what}`, async (t) => {
      const server = await launch(t, [...SERVER, '--api-key', KEY])
      const connection = new RawConnection(t, server)
      await connection.write(bytes)
      const { status, body } = await connection.read()
      assert.deepEqual([status, JSON.parse(body).code], [408, 'request_timeout'])
    })
  }

  test('is closed if it reads nothing of a large response for 60 s', async (t) => {
    const server = await launch(t, [...SERVER, '--api-key', KEY])
    const [, controls = ''] = await server.stdout.until(/"controlUrl":"([^"]*)"/)
    const pets = Array.from({ length: 100 }, () => ({ name: NAME, categoryId: 1 }))
    await send({ url: controls }, 'POST', '/pets', { body: JSON.stringify(pets) })
    const before = socketsOf(server)
    const connection = new RawConnection(t, server)
    connection.socket.pause()
    await connection.write(LIST)
    await server.stdout.until(/"path":"\/v1\/pets","status":200/)
    while (socketsOf(server) > before) await setTimeout(500)
    connection.socket.resume()
    assert.ok((await connection.rest()).length < 100 * NAME.length)
  })

  test('waits as long as the server does: a delay of 65 s is answered', async (t) => {
    const server = await launch(t, [...SERVER, '--api-key', KEY])
    const [, controls = ''] = await server.stdout.until(/"controlUrl":"([^"]*)"/)
    const fault = '{"operation":"listPets","delay":65000}'
    await send({ url: controls }, 'POST', '/faults', { body: fault })
    const connection = new RawConnection(t, server)
    await connection.write(LIST)
    assert.equal((await connection.read()).status, 200)
  })
})

/** How many sockets a server has open. */
function socketsOf({ child }: Running): number {
  const folder = `/proc/${child.pid}/fd`
  const targets = readdirSync(folder).map((name) => {
    try {
      return readlinkSync(`${folder}/${name}`)
    } catch {
      return '' // it was closed meanwhile
    }
  })
  return targets.filter((target) => target.startsWith('socket:')).length
}
