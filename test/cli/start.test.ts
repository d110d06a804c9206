// How the executable starts: what it says, what stops the start, --store and --healthcheck.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { KEY, send, start, temporaryFolder } from '../support.ts'
import { run, serve, signal, STORE } from './executable.ts'

const portOf = ({ url }: { url: string }): string => new URL(url).port

test('on a terminal, the greeting opens the page with a key, and has a curl line', async (t) => {
  const { url, stdout, stderr } = await serve(t, [], { isTTY: true })
  const [, page = '', key = ''] = /^Open (\S+\/)#key=(\S+)$/m.exec(stdout.text) ?? []
  const headers = { authorization: `Bearer ${key}` }
  assert.equal((await send({ url }, 'GET', '/v1/pets', { headers })).status, 200)
  assert.match((await send({ url }, 'GET', new URL(page).pathname)).body, /^<!doctype html>/i)
  const curl = `    curl -i -H "Authorization: Bearer ${key}" '${url}/pets'\n`
  assert.ok(stdout.text.includes(curl) && stdout.text.includes('Ctrl-C stops the server'))
  await stdout.until(/^\S+Z info: petstore-server .* valid keys: 1, generated, /m)
  assert.equal(stderr.text, '')
})

test('a key that was given is not shown in the greeting', async (t) => {
  const { url, stdout } = await serve(t, ['--api-key', KEY], { isTTY: true })
  assert.ok(stdout.text.includes(`Bearer $KEY" '${url}/pets'`) && !stdout.text.includes(KEY))
  assert.match(stdout.text, /^Open \S+\/$/m)
})

test('elsewhere, the log is JSON on standard output, and the greeting is beside it', async (t) => {
  const flags = ['--control-port', '0', '--demo', '--snapshot', join(temporaryFolder(t), 'FILE')]
  const { url, stdout, stderr } = await serve(t, flags)
  assert.match(stderr.text, /^ {2}API key, generated .*: \S{36}$/m)
  await stdout.until(/\n/)
  const first = JSON.parse(stdout.text.split('\n', 1)[0] ?? '')
  const { level, message, ...members } = first
  const controlUrl = /^Its test controls listen on (\S+)$/m.exec(stderr.text)?.[1]
  delete members.time
  assert.deepEqual([level, members], ['info', { url, controlUrl }])
  const said = [
    'petstore-server 1.',
    `process ${process.pid}`,
    `listens on ${url}`,
    'valid keys: 1',
    `${flags[4]}: 12`,
  ]
  for (const text of [...said, '--max-store ', '--max-connections '])
    assert.ok(message.includes(text), text)
  assert.equal((await send({ url: String(controlUrl) }, 'GET', '/requests')).status, 200)
})

test('a warning says that the test controls can be reached from beyond loopback', async (t) => {
  const warning = /"level":"warn","message":"other machines may reach the test controls/
  for (const [host, isWarned] of [
    ['0.0.0.0', true],
    ['localhost', false],
  ] as const) {
    const flags = ['--api-key', KEY, '--host', host, '--control-port', '0']
    const { stdout, url, status } = await serve(t, flags)
    assert.equal((await send({ url }, 'GET', '/livez')).status, 200)
    signal('SIGTERM')
    await status
    assert.equal(warning.test(stdout.text), isWarned)
  }
})

test('a start that fails says why in a line, and exits 1', async (t) => {
  const port = portOf(await start(t))
  const missing = join(temporaryFolder(t), 'none', 'pets.json')
  for (const [why, ...args] of [
    [`EADDRINUSE: address already in use 127.0.0.1:${port}`, '--port', port],
    [`EADDRINUSE: address already in use 127.0.0.1:${port}`, '--control-port', port],
    ['EADDRNOTAVAIL: address not available 192.0.2.1', '--host', '192.0.2.1'],
    [missing, '--snapshot', missing],
  ] as const) {
    const { status, stdout, stderr } = await run(t, args)
    assert.deepEqual([status, stdout], [1, ''])
    assert.match(stderr, /^petstore-server: .*\n$/)
    assert.ok(stderr.includes(why), stderr)
  }
})

test('a signal before the start is complete ends it', async (t) => {
  const module = join(temporaryFolder(t), 'store.mjs')
  const source = `export default () => new Promise(() => process.emit('SIGINT', 'SIGINT'))`
  writeFileSync(module, source)
  const { status, stderr } = await run(t, ['--store', module])
  assert.equal(status, 1)
  assert.equal(stderr, 'petstore-server: SIGINT received before the start was complete\n')
})

test('--store is a path or a package, whose default export opens the store', async (t) => {
  const folder = temporaryFolder(t)
  const module = join(folder, 'node_modules/our-store/index.mjs')
  mkdirSync(join(folder, 'node_modules/our-store'), { recursive: true })
  writeFileSync(module, STORE)
  writeFileSync(join(folder, 'node_modules/our-store/package.json'), '{"main":"index.mjs"}')
  const before = process.cwd()
  process.chdir(folder)
  t.after(() => process.chdir(before))
  for (const name of ['our-store', module, 'node_modules/our-store/index.mjs']) {
    const { url, stdout, status } = await serve(t, ['--api-key', KEY, '--store', name])
    const { body } = await send({ url }, 'GET', '/v1/pets')
    assert.equal(body, '[{"id":1,"name":"Ours","categoryId":1}]')
    const created = await send({ url }, 'POST', '/v1/pets', { body: '{"name":"","categoryId":1}' })
    assert.equal(JSON.parse(created.body).code, 'outcome_unknown')
    await stdout.until(/"level":"warn".*"cause":"a full disk"/)
    signal('SIGTERM')
    assert.equal(await status, 0)
  }
})

test('a --store that cannot be opened is named, says why, and exits 1', async (t) => {
  const folder = temporaryFolder(t)
  for (const [source, why] of [
    ['export default 1', 'its default export is no function'],
    ['export default () => ({})', 'must be an object with the functions page, get, add'],
    ['export default async () => { throw new Error("no database") }', 'no database'],
    ['throw new Error("no package")', 'no package'],
    ['', 'its default export is no function'],
  ]) {
    const module = join(folder, `${Math.random()}.mjs`)
    writeFileSync(module, String(source))
    const { status, stderr } = await run(t, ['--store', module])
    assert.equal(status, 1)
    assert.ok(stderr.startsWith(`petstore-server: --store ${module}: `), stderr)
    assert.ok(stderr.includes(String(why)) && stderr.endsWith('\n'), stderr)
  }
  const { status, stderr } = await run(t, ['--store', 'no-such-package'])
  assert.equal(status, 1)
  assert.match(stderr, /^petstore-server: --store no-such-package: Cannot find module .*\n$/)
})

test('--healthcheck asks for /readyz, reads no other setting, and exits 0 or 1', async (t) => {
  const server = createServer((socket) => {
    socket.end('HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n')
  }).listen(0, '127.0.0.1')
  t.after(() => server.close())
  await once(server, 'listening')
  const address = server.address()
  assert.ok(address !== null && typeof address === 'object')
  const others = ['--max-body', 'x', '--snapshot', '/no/no', '--api-keys-file', '/no']
  const check = (PORT: string) => run(t, ['--healthcheck', ...others], { PORT, PETSTORE_DEMO: '?' })
  assert.deepEqual(await check(portOf(await start(t))), { status: 0, stdout: '', stderr: '' })
  const unready = await check(String(address.port))
  const line = `petstore-server: not ready: http://127.0.0.1:${address.port}/readyz: status 503\n`
  assert.deepEqual([unready.status, unready.stderr], [1, line])
  server.close()
  assert.match((await check(String(address.port))).stderr, /not ready: .*ECONNREFUSED/)
})
