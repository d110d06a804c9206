// How the executable starts: what it prints, what fails, --store and --healthcheck.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { EXECUTABLE, run } from '../process.ts'
import { listen, send, start, temporaryFolder } from '../support.ts'
import { runMain } from './executable.ts'

const portOf = ({ url }: { url: string }): string => new URL(url).port

describe('as a process', { concurrency: true }, () => {
  test('without a terminal it prints nothing but JSON, first of all where it listens', async (t) => {
    const file = join(temporaryFolder(t), 'pets.json')
    writeFileSync(file, '[{"id":7,"name":"Rex","categoryId":1}]')
    const flags = ['--host', '0.0.0.0', '--control-port', '0', '--snapshot', file, '--demo']
    const ofKubernetes = {
      PETSTORE_PORT: 'tcp://10.0.0.1:80',
      PETSTORE_PORT_80_TCP_ADDR: '10.0.0.1',
      PETSTORE_SERVICE_HOST: '10.0.0.1',
    }
    const unknown = { PETSTORE_COLOR: 'a-secret', PETSTORE_API_KEY: 'a-secret' }
    const env = { PORT: '0', PETSTORE_LOG: '', ...ofKubernetes, ...unknown }
    const { child, stdout, stderr, status } = run(t, [...EXECUTABLE, ...flags], env)
    const [line] = await stdout.until(/^.*\n/)
    const { time, level, message, ...members } = JSON.parse(line)
    const { url, controlUrl, generatedKey } = members
    assert.ok(Date.parse(time) > 0)
    assert.deepEqual(Object.keys(members), ['url', 'controlUrl', 'generatedKey'])
    assert.equal(level, 'info')
    for (const said of ['1.', child.pid, `0.0.0.0:${portOf({ url })}`, 'keys: 1', '1 in ', file]) {
      assert.ok(message.includes(String(said)), message)
    }
    const headers = { authorization: `Bearer ${generatedKey}` }
    const list = await send({ url }, 'GET', '/v1/pets', { headers })
    assert.equal(list.body, '[{"id":7,"name":"Rex","categoryId":1}]') // without --demo's
    assert.equal((await send({ url: controlUrl }, 'GET', '/requests')).status, 200)
    child.kill('SIGTERM')
    assert.equal(await status, 0)
    const lines = stdout.text.trim().split('\n')
    const warnings = lines.map((text) => JSON.parse(text)).filter((one) => one.level === 'warn')
    const warned = warnings.map((one) => one.message).join('\n')
    assert.equal(warnings.length, 3, warned)
    assert.match(warned, /test controls/)
    assert.match(warned, /PETSTORE_COLOR\b[^]*PETSTORE_API_KEY\b/)
    assert.doesNotMatch(stdout.text, /a-secret/)
    assert.equal(stderr.text, '')
  })

  test('--healthcheck asks no proxy of the environment', async (t) => {
    const proxy = { NODE_USE_ENV_PROXY: '1', HTTP_PROXY: 'http://127.0.0.1:1' }
    const env = { ...proxy, PORT: portOf(await start(t)), NO_PROXY: '', no_proxy: '' }
    assert.equal(await run(t, [...EXECUTABLE, '--healthcheck'], env).status, 0)
  })
})

test('a start that fails says why in a line, and exits 1', async (t) => {
  const port = portOf(await start(t))
  const missing = join(temporaryFolder(t), 'none', 'pets.json')
  for (const [why, ...args] of [
    ['--port', '--port', port],
    ['--control-port', '--port', '0', '--control-port', port],
    ['192.0.2.1', '--port', '0', '--host', '192.0.2.1'],
    [missing, '--port', '0', '--snapshot', missing],
  ] as const) {
    const { status, stdout, stderr } = await runMain(t, args)
    assert.deepEqual([status, stdout], [1, ''])
    assert.match(stderr, /^.+\n$/)
    assert.ok(stderr.includes(why), stderr)
  }
})

test('a --store that cannot be opened is named, says why, and exits 1', async (t) => {
  const folder = temporaryFolder(t)
  for (const [at, [source, why]] of [
    ['export default 1', 'function'],
    ['export const open = () => {}', 'function'],
    ['export default () => ({ list() {}, get() {}, add() {}, reset() {} })', 'close'],
    ['export default async () => { throw new Error("no database") }', 'no database'],
    ['throw new Error("no driver")', 'no driver'],
    ['import "no-package"', 'no-package'],
  ].entries()) {
    const module = join(folder, `${at}.mjs`)
    writeFileSync(module, String(source))
    const { status, stdout, stderr } = await runMain(t, ['--store', module], { PORT: '0' })
    assert.deepEqual([status, stdout], [1, ''])
    assert.match(stderr, /^.+\n$/)
    assert.ok(stderr.includes(`--store ${module}`) && stderr.includes(String(why)), stderr)
  }
})

test('--store goes without the options of a store of ours', async (t) => {
  const module = join(temporaryFolder(t), 'store.mjs')
  const members = ['list', 'get', 'add', 'reset', 'close'].map((name) => `async ${name}() {}`)
  writeFileSync(module, `export default () => ({ ${members.join(', ')} })`)
  for (const other of ['--demo', '--snapshot=pets.json', '--max-store=1m']) {
    const { status, stderr } = await runMain(t, ['--store', module, other], { PORT: '0' })
    assert.equal(status, 2)
    assert.match(stderr, /--store|store must/)
  }
})

test('--healthcheck asks a server of the same configuration, and exits 0 or 1', async (t) => {
  const check = (PORT: string, ...args: readonly string[]) => {
    return runMain(t, ['--healthcheck', ...args], { PORT })
  }
  const port = portOf(await start(t))
  for (const host of ['127.0.0.1', '::', '0.0.0.0']) {
    assert.deepEqual(await check(port, '--host', host), { status: 0, stdout: '', stderr: '' })
  }
  const stopping = createServer((_, res) => void res.writeHead(503).end())
  const unready = String(await listen(t, stopping))
  const answers = await check(unready)
  stopping.close()
  await once(stopping, 'close')
  for (const { status, stdout, stderr } of [
    answers,
    await check(unready), // nothing listens
    await check('x'),
    await check(port, '--port', '0x'),
  ]) {
    assert.deepEqual([status, stdout], [1, ''])
    assert.match(stderr, /^.+\n$/)
  }
})

test('the defaults of --port and --host are 8080 and 127.0.0.1', async (t) => {
  const { status, stderr } = await runMain(t, ['--healthcheck'], { PORT: '', HOST: '' })
  if (status !== 0) assert.match(stderr, /127\.0\.0\.1:8080/) // unless a server is ready there
})
