import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdirSync, renameSync } from 'node:fs'
import { PassThrough } from 'node:stream'
import { test } from 'node:test'
import { LIMITS } from '../../src/http/limits.ts'
import { assertError, AUTHORIZATION, folderOf, RawConnection, send, start } from '../support.ts'

const REX = '{"name":"Rex","categoryId":1}'

test('a probe is neither logged nor in the journal, and meets no fault', async (t) => {
  const logStream = new PassThrough()
  const petstore = await start(t, { log: 'json', logStream })
  petstore.inject({ operation: '*', hangUp: true })
  for (const path of ['/livez', '/readyz']) {
    assert.equal((await send(petstore, 'GET', path)).status, 200)
    assert.equal((await petstore.fetch(`http://any.example${path}`, { method: 'HEAD' })).status, 200)
  }
  await send(petstore, 'GET', '/v1/none')
  const [line] = await once(logStream, 'data')
  assert.equal(JSON.parse(line).path, '/v1/none')
  assert.deepEqual([petstore.requests.length, petstore.pendingFaults.length], [1, 1])
})

test('/readyz answers 503 while the snapshot cannot be written, and 200 once it can; /livez 200', async (t) => {
  const folder = `${folderOf(t)}/pets`
  mkdirSync(folder)
  const petstore = await start(t, { snapshot: `${folder}/pets.json` })
  const ask = async (probe: string) => (await send(petstore, 'GET', probe)).status
  const add = async () => (await send(petstore, 'POST', '/v1/pets', { body: REX })).status
  assert.deepEqual([await add(), await ask('/readyz')], [201, 200])
  renameSync(folder, `${folder}-away`)
  assert.deepEqual([await add(), await ask('/readyz'), await ask('/livez')], [503, 503, 200])
  renameSync(`${folder}-away`, folder)
  assert.deepEqual([await ask('/readyz'), await add()], [200, 201])
  await petstore.close()
})

test('/readyz answers 503 from the call of close() on, /livez 200: in process and on a connection that drains', async (t) => {
  const { drainInterval } = LIMITS
  LIMITS.drainInterval = 600_000 // or idle connections are closed
  const petstore = await start(t)
  LIMITS.drainInterval = drainInterval
  const busy = new RawConnection(t, petstore)
  const head = `Authorization: ${AUTHORIZATION}\r\nContent-Length: ${REX.length}\r\nExpect: 100-continue`
  await busy.write(`POST /v1/pets HTTP/1.1\r\nHost: x\r\n${head}\r\n\r\n`)
  assert.equal((await busy.read()).status, 100)
  const [ready, live] = [new RawConnection(t, petstore), new RawConnection(t, petstore)]
  const ask = async (connection: RawConnection, path: string) => {
    await connection.write(`GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`)
    return connection.read()
  }
  for (const connection of [ready, live]) assert.equal((await ask(connection, '/readyz')).status, 200)

  const closing = petstore.close(600)
  assert.equal((await petstore.fetch('http://any.example/readyz')).status, 503)
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
