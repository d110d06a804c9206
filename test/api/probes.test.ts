import assert from 'node:assert/strict'
import { once } from 'node:events'
import { renameSync, unlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { describe, test } from 'node:test'
import { createPetstore } from '../../src/petstore.ts'
import { LogReader, postHead, REX } from '../http/raw.ts'
import { assertError, folderOf, RawConnection, send, start } from '../support.ts'

const WITHOUT_KEY = { headers: { authorization: '' } }
// Seconds that no test waits for.
const LONG = 600

for (const path of ['/livez', '/readyz']) {
  describe(path, () => {
    test('answers 200 without a key, and says no more than that', async (t) => {
      const petstore = await start(t)
      const { status, body, headers } = await send(petstore, 'GET', path, WITHOUT_KEY)
      assert.deepEqual({ status, body }, { status: 200, body: '{"ok":true}' })
      assert.equal(headers['content-type'], 'application/json')
      assert.equal(headers['cache-control'], 'no-store')
      assert.equal((await send(petstore, 'GET', `${path}?x=1`, WITHOUT_KEY)).status, 200)
    })

    test('stands at the root, whatever the base path is', async (t) => {
      const petstore = await start(t, { basePath: '/shop/v1', page: false })
      assert.equal((await send(petstore, 'GET', path)).status, 200)
      for (const other of [`/shop/v1${path}`, `${path}/`, path.toUpperCase()]) {
        assertError(await send(petstore, 'GET', other), 404, 'not_found')
      }
    })

    test('answers HEAD without a body, OPTIONS with its methods, and any other method 405', async (t) => {
      const petstore = await start(t)
      const head = await send(petstore, 'HEAD', path, WITHOUT_KEY)
      assert.deepEqual([head.status, head.body, head.headers['content-length']], [200, '', '11'])
      const options = await send(petstore, 'OPTIONS', path, WITHOUT_KEY)
      assert.deepEqual([options.status, options.headers.allow], [204, 'GET, HEAD, OPTIONS'])
      for (const method of ['POST', 'PUT', 'DELETE']) {
        const answer = await send(petstore, method, path, { ...WITHOUT_KEY, body: '{}' })
        assertError(answer, 405, 'method_not_allowed')
        assert.equal(answer.headers.allow, 'GET, HEAD, OPTIONS')
      }
    })

    test('is neither logged nor in the journal, and meets no fault', async (t) => {
      const logStream = new LogReader()
      const petstore = await start(t, { log: 'json', logStream })
      petstore.inject({ operation: '*', hangUp: true })
      for (const method of ['GET', 'HEAD']) {
        assert.equal((await send(petstore, method, path)).status, 200)
        assert.equal((await petstore.fetch(`http://any.example${path}`, { method })).status, 200)
      }
      assert.equal(petstore.pendingFaults.length, 1)
      await send(petstore, 'GET', '/v1/none')
      assert.equal((await logStream.next())['path'], '/v1/none')
      assert.equal(logStream.unread, 0)
      assert.deepEqual(
        petstore.requests.map((one) => one.path),
        ['/v1/none'],
      )
    })
  })
}

test('/readyz answers 503 storage_failed while the snapshot cannot be written, and 200 once it can; /livez 200', async (t) => {
  const path = `${folderOf(t)}/pets.json`
  const petstore = await start(t, { snapshot: path })
  const ask = (probe: string) => send(petstore, 'GET', probe, WITHOUT_KEY)
  const add = () => send(petstore, 'POST', '/v1/pets', { body: REX })
  assert.equal((await add()).status, 201)
  assert.equal((await ask('/readyz')).status, 200)
  renameSync(path, `${path}.away`)
  writeFileSync(path, 'something else')
  assert.equal((await add()).status, 503)
  for (let times = 0; times < 3; times++) {
    const answer = await ask('/readyz')
    assert.equal(assertError(answer, 503, 'storage_failed'), 'The snapshot cannot be written')
    assert.equal((await ask('/livez')).status, 200)
  }
  assert.deepEqual((await send(petstore, 'HEAD', '/readyz')).status, 503)
  renameSync(`${path}.away`, path)
  assert.equal((await ask('/readyz')).status, 200)
  assert.equal((await add()).status, 201)
  unlinkSync(path)
  assert.equal((await add()).status, 503)
  assert.equal((await ask('/readyz')).status, 200, 'asking is enough to mend the file')
  assert.equal((await add()).status, 201)
})

test('/readyz answers 503 not_ready from the call of close() on, /livez 200: in process and on a connection that drains', async (t) => {
  const petstore = await start(t, { limits: { drainGrace: 60_000 } })
  const busy = new RawConnection(t, petstore)
  await busy.write(postHead(REX.length, 'Expect: 100-continue'))
  assert.equal((await busy.read()).status, 100)
  const [ready, live] = [new RawConnection(t, petstore), new RawConnection(t, petstore)]
  const ask = async (connection: RawConnection, path: string) => {
    await connection.write(`GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`)
    return connection.read()
  }
  for (const connection of [ready, live]) assert.equal((await ask(connection, '/readyz')).status, 200)

  const closing = petstore.close(LONG)
  const inProcess = await petstore.fetch('http://any.example/readyz')
  assert.deepEqual(
    [inProcess.status, await inProcess.json()],
    [503, { code: 'not_ready', message: 'The server is stopping', status: 503 }],
  )
  assert.equal((await petstore.fetch('http://any.example/livez')).status, 200)
  for (let isLast = false; !isLast;) {
    const answer = await ask(ready, '/readyz')
    assertError(answer, 503, 'not_ready')
    isLast = answer.headers.connection === 'close' // said once the listener is closed
  }
  assert.equal((await ask(live, '/livez')).status, 200)

  await busy.write(REX)
  assert.equal((await busy.read()).status, 201)
  assert.equal(await closing, 0)
})

test('/readyz on a server of the user answers 503 not_ready once the petstore is closed', async (t) => {
  const petstore = createPetstore()
  const server = createServer(petstore.listener).listen(0, '127.0.0.1')
  t.after(() => server.close())
  await once(server, 'listening')
  const address = server.address()
  assert.ok(typeof address === 'object' && address !== null)
  const url = `http://127.0.0.1:${address.port}`
  assert.equal((await send({ url }, 'GET', '/readyz')).status, 200)
  await petstore.close()
  assertError(await send({ url }, 'GET', '/readyz'), 503, 'not_ready')
  assert.equal((await send({ url }, 'GET', '/livez')).status, 200)
})
