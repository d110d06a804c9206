// Signals: what a stop waits for, what it cuts off, and with which status it exits.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { get, openInFlight, REX } from '../http/raw.ts'
import { launch } from '../process.ts'
import { KEY, RawConnection, send } from '../support.ts'

const CUT_OFF = /"level":"error".*cut off: 1\b/

describe('a stop', { concurrency: true }, () => {
  test('answers what is in flight, ends what is idle, and exits 0; SIGINT has no delay', async (t) => {
    const flags = ['--api-key', KEY, '--drain', '86400', '--drain-delay', '86400']
    const server = await launch(t, [...flags, '--control-port', '0'])
    await send(server, 'GET', '/livez') // on a connection that ends
    const silent = new RawConnection(t, server)
    const idle = new RawConnection(t, server)
    await idle.write(get())
    assert.equal((await idle.read()).status, 200)
    const sending = await openInFlight(t, server)
    server.child.kill('SIGINT')
    await server.stdout.until(/SIGINT.*\b86400.*"connections":3,"requests":1/)
    assert.equal(await silent.rest(), '')
    await assert.rejects(send(server, 'GET', '/livez'), { code: 'ECONNREFUSED' })
    assert.equal(await idle.rest(), '')
    await sending.write(REX)
    const { status, headers } = await sending.read()
    assert.deepEqual([status, headers.connection], [201, 'close'])
    sending.socket.end()
    assert.equal(await server.status, 0)
    assert.match(server.stdout.text, /stopped after \d+(?:\.\d+)? s/)
    assert.doesNotMatch(server.stdout.text, /"level":"(?:warn|error)"/)
    assert.equal(server.stderr.text, '')
  })

  test('cuts requests off after --drain seconds, says so, and exits 1', async (t) => {
    const server = await launch(t, ['--api-key', KEY, '--drain', '0'])
    const sending = await openInFlight(t, server)
    server.child.kill('SIGTERM')
    assert.equal(await sending.rest(), '')
    assert.equal(await server.status, 1)
    assert.match(server.stdout.text, CUT_OFF)
    assert.equal(server.stderr.text, '')
  })

  test('after SIGTERM it serves for --drain-delay, except /readyz; a second signal ends it', async (t) => {
    const server = await launch(t, ['--api-key', KEY, '--demo', '--drain-delay', '86400'])
    assert.equal((await send(server, 'GET', '/readyz')).status, 200)
    const open = new RawConnection(t, server)
    await open.write(get())
    await open.read()
    server.child.kill('SIGTERM')
    await server.stdout.until(/SIGTERM.*\b86400/)
    const { status, body } = await send(server, 'GET', '/readyz')
    assert.deepEqual([status, JSON.parse(body).code], [503, 'not_ready'])
    assert.equal((await send(server, 'GET', '/livez')).status, 200)
    await open.write(get())
    const list = await open.read()
    assert.deepEqual([list.headers.connection, JSON.parse(list.body).length], ['keep-alive', 12])
    server.child.kill('SIGINT')
    assert.equal(await server.status, 1)
  })
})
