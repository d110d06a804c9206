// The executable as users start it: `npm start` in a terminal, and what the build made.
import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { constants, mkdirSync, openSync, renameSync } from 'node:fs'
import { symlinkSync, writeFileSync, writeSync } from 'node:fs'
import { join, relative } from 'node:path'
import { describe, test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { openInFlight, REX } from '../http/raw.ts'
import { launch, run } from '../process.ts'
import { KEY, send, temporaryFolder } from '../support.ts'
import { freePort } from './programs.ts'

const BUILT = { executable: [process.execPath, 'dist/main.js', '--api-key', KEY] }
const STORE = `() => ({
  list: async () => [{ id: 1, name: 'Ours', categoryId: 1 }],
  get: async () => null,
  add: async () => [],
  reset: async () => {},
  close: async () => {},
})`
const MODULES = {
  'store.mjs': `export default async ${STORE}`,
  'store.cjs': `module.exports = ${STORE}`,
  'compiled.cjs': `Object.defineProperty(exports, '__esModule', { value: true })
    exports.default = ${STORE}`,
}

describe('the process', { concurrency: 2 }, () => {
  test('npm start logs text on a terminal, and Ctrl-C answers what is in flight', async (t) => {
    const env = { PORT: String(await freePort()), PETSTORE_API_KEYS: KEY }
    const url = `http://127.0.0.1:${env.PORT}`
    const { child, stdout, status } = run(t, ['script', '-qec', 'npm start', '/dev/null'], env)
    await stdout.until(/Ctrl-C/)
    const sending = await openInFlight(t, { url })
    child.stdin?.write('\u0003')
    await stdout.until(/info.*SIGINT/)
    await sending.write(REX)
    assert.equal((await sending.read()).status, 201)
    sending.socket.end()
    await status
    assert.match(stdout.text, /^\S+Z info POST \/v1\/pets 201 .*\r?\n\S+Z info stopped after/m)
  })

  test('--store takes every kind of module, by a path from the working directory', async (t) => {
    const folder = temporaryFolder(t)
    for (const [name, source] of Object.entries(MODULES)) {
      const module = join(folder, name)
      writeFileSync(module, source)
      const server = await launch(t, ['--store', relative('', module)], BUILT)
      const { body } = await send(server, 'GET', '/v1/pets')
      assert.equal(body, '[{"id":1,"name":"Ours","categoryId":1}]')
    }
  })

  test('a signal before the first line is read lets requests finish', async (t) => {
    const pipe = join(temporaryFolder(t), 'pipe')
    execFileSync('mkfifo', [pipe])
    const full = openSync(pipe, constants.O_RDWR | constants.O_NONBLOCK)
    writeSync(full, Buffer.alloc(65_536)) // so the first line waits
    const port = await freePort()
    const [node = '', ...args] = [...BUILT.executable, '--port', `${port}`]
    const child = spawn(node, args, { stdio: ['ignore', full, 'ignore'] })
    t.after(() => child.kill('SIGKILL'))
    const server = { url: `http://127.0.0.1:${port}` }
    const isListening = () => send(server, 'GET', '/livez').then(Boolean, () => false)
    while (!(await isListening())) await setTimeout(5)
    const sending = await openInFlight(t, server)
    child.kill('SIGTERM')
    while (await isListening()) await setTimeout(5)
    await sending.write(REX)
    assert.equal((await sending.read()).status, 201)
    const [status] = await once(child, 'exit')
    assert.equal(status, 0)
  })

  test('the file of keys is read again, also where the link of a Secret moves', async (t) => {
    const folder = temporaryFolder(t)
    const put = (version: string, content?: string): void => {
      mkdirSync(join(folder, version))
      if (content !== undefined) writeFileSync(join(folder, version, 'keys'), content)
      symlinkSync(version, join(folder, '..new'))
      renameSync(join(folder, '..new'), join(folder, '..data'))
    }
    put('..1', 'first-key')
    symlinkSync('..data/keys', join(folder, 'keys'))
    const server = await launch(t, ['--api-keys-file', join(folder, 'keys')], BUILT)
    const isValid = async (key: string): Promise<boolean> => {
      const headers = { authorization: `Bearer ${key}` }
      return (await send(server, 'GET', '/v1/pets', { headers })).status === 200
    }
    assert.ok(await isValid('first-key'))
    put('..2', 'second-key # since May')
    while (!(await isValid('second-key'))) await setTimeout(20)
    assert.deepEqual([await isValid('first-key'), await isValid(KEY)], [false, true])
    for (const [at, content] of ['third-key\nshort', '# third-key', undefined].entries()) {
      put(`..bad-${at}`, content)
      await server.stdout.until(new RegExp(`("level":"error".*keys[^]*){${at + 1}}`))
      assert.deepEqual([await isValid('second-key'), await isValid('third-key')], [true, false])
    }
    put('..3', 'third-key')
    while (!(await isValid('third-key'))) await setTimeout(20)
    assert.doesNotMatch(server.stdout.text, /(?:first|second|third)-key|short/)
  })
})
