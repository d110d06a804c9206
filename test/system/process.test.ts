// The executable as a process of its own: real signals, pipes and terminals.
import assert from 'node:assert/strict'
import { Agent } from 'node:http'
import { describe, test } from 'node:test'
import { launch, run } from '../process.ts'
import { KEY, RawConnection, send } from '../support.ts'

const NODE = [process.execPath]
const FLAGS = ['dist/main.js', '--port', '0', '--api-key', KEY]

describe('the process', { concurrency: 2 }, () => {
  test('SIGTERM makes /readyz 503, and it serves on for --drain-delay', async (t) => {
    const server = await launch(t, [...NODE, ...FLAGS, '--drain-delay', '86400'])
    const statusOf = async (path: string) => (await send(server, 'GET', path)).status
    assert.equal(await statusOf('/readyz'), 200)
    server.child.kill('SIGTERM')
    await server.stdout.until(/SIGTERM received: serves for 86400 s more, then waits up to 8 s/)
    const { body } = await send(server, 'GET', '/readyz')
    assert.equal(JSON.parse(body).code, 'not_ready')
    const agent = new Agent({ keepAlive: true })
    t.after(() => agent.destroy())
    const { headers } = await send(server, 'GET', '/v1/pets', { agent })
    assert.deepEqual([await statusOf('/livez'), headers.connection], [200, 'keep-alive'])
    const sending = new RawConnection(t, server)
    const head = `HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${KEY}\r\nContent-Length: 9`
    await sending.write(`POST /v1/pets ${head}\r\nExpect: 100-continue\r\n\r\n`)
    await sending.read()
    server.child.kill('SIGTERM')
    assert.equal(await server.exited, 1)
    await server.stderr.until(/cut off: 1\n/)
  })

  test('a bug that nothing caught is printed and logged, and ends it with status 1', async (t) => {
    const mistake = `process.on('SIGUSR2', () => { Promise.reject(new Error('a mistake')) })`
    const preload = ['--import', `data:text/javascript,${encodeURIComponent(mistake)}`]
    const server = await launch(t, [...NODE, ...preload, ...FLAGS])
    server.child.kill('SIGUSR2')
    assert.equal(await server.exited, 1)
    await server.stderr.until(/^petstore-server: uncaught: Error: a mistake\n +at /m)
    await server.stdout.until(/"level":"error","message":"uncaught: Error: a mistake\\n/)
  })

  test('on a terminal it logs text, and Ctrl-C stops it', async (t) => {
    const shell = [...NODE, ...FLAGS].map((word) => `'${word}'`).join(' ')
    const server = await launch(t, ['script', '-qec', `exec ${shell}`, '/dev/null'])
    assert.equal((await send(server, 'GET', '/v1/pets')).status, 200)
    await server.stdout.until(
      /^\S+Z info GET \/v1\/pets 200 \S+ ms 2 B key=0 remote=127\.0\.0\.1\r?$/m,
    )
    server.child.stdin?.write('\u0003')
    assert.equal(await server.exited, 0)
  })

  test('--healthcheck asks no proxy of the environment', async (t) => {
    const server = await launch(t, [...NODE, ...FLAGS])
    const proxy = { NODE_USE_ENV_PROXY: '1', HTTP_PROXY: 'http://127.0.0.1:1' }
    const port = new URL(server.url).port
    const command = [...NODE, 'dist/main.js', '--healthcheck', '--port', port]
    assert.equal(await run(t, command, proxy).exited, 0)
  })

  test('a closed pipe ends the log, not the server', async (t) => {
    const server = await launch(t, [...NODE, ...FLAGS])
    const { child, stderr } = server
    child.stdout?.destroy()
    const ended = stderr.until(/the log has ended/)
    while (!stderr.text.includes('the log has ended')) await send(server, 'GET', '/v1/pets')
    await ended
    assert.equal((await send(server, 'GET', '/v1/pets')).status, 200)
    child.kill('SIGTERM')
    assert.equal(await server.exited, 0)
    assert.equal(stderr.text.match(/the log has ended/g)?.length, 1)
  })

  test('a reader that is too slow loses lines, which are counted and said', async (t) => {
    const server = await launch(t, [...NODE, ...FLAGS])
    const { child, stdout } = server
    child.stdout?.pause()
    // Each letter is six characters of the log.
    const forwarded = Buffer.from(`X-Forwarded-For: ${'\xe9'.repeat(1_000)}`, 'latin1')
    const path = `/v1/${'x'.repeat(2_000)}`
    const head = `GET ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${KEY}\r\n`
    const bytes = Buffer.concat([Buffer.from(head), forwarded, Buffer.from('\r\n\r\n')])
    const connection = new RawConnection(t, server)
    const count = 1_500
    for (let round = 0; round < count / 50; round++) {
      await connection.write(Buffer.concat(Array<Buffer>(50).fill(bytes)))
      for (let at = 0; at < 50; at++) assert.equal((await connection.read()).status, 404)
    }
    child.stdout?.resume()
    const said = /"level":"warn","message":"lines that were lost[^"]*: (\d+)"/
    while (!said.test(stdout.text)) await send(server, 'GET', '/v1/pets')
    child.kill('SIGTERM')
    await server.exited
    const shown = stdout.text.match(/"status":404/g)?.length ?? 0
    const lost = Number(said.exec(stdout.text)?.[1])
    assert.ok(lost > 0)
    assert.ok(shown + lost >= count, `${shown} shown, ${lost} lost`)
  })
})
