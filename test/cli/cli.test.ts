// The executable: what it prints and logs, how it starts, is signalled and ends.
import { mockTimers } from '../mock-timers.ts'
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import dns from 'node:dns'
import { once } from 'node:events'
import fs, { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { Agent } from 'node:http'
import { syncBuiltinESMExports } from 'node:module'
import { createServer as createNetServer } from 'node:net'
import { networkInterfaces } from 'node:os'
import { pid } from 'node:process'
import { describe, test, type TestContext } from 'node:test'
import { main } from '../../src/cli/cli.ts'
import { DEFAULTS } from '../../src/petstore/options.ts'
import { ended, type Ended, FakeProcess, run, serve } from './executable.ts'
import { ask, listen, postHead, REX, within } from '../http/raw.ts'
import { PETSTORE } from '../built.ts'
import { Running } from '../process.ts'
import { assertLast, check, portOf, type RawConnection, send, start } from '../support.ts'
import { AUTHORIZATION, bearer, folderOf, freePort, KEY, temporaryFile } from '../support.ts'

const { version }: { version: string } = JSON.parse(readFileSync('package.json', 'utf8'))
const interfaces = Object.values(networkInterfaces()).flat()
const hasNoIpv6 = interfaces.every((some) => some?.address !== '::1')
const others = interfaces.filter((some) => some?.internal === false && some.family === 'IPv4')
const greetingOf = (url: string) => `Petstore ${version} listens on ${url}\n`

async function statusWith(petstore: { url: string }, key = KEY): Promise<number> {
  return (await send(petstore, 'GET', '/v1/pets', { headers: bearer(key) })).status
}

/** A request that the server is still waiting for: its head is read, its body not sent. */
function openRequest(t: TestContext, petstore: { url: string }): Promise<RawConnection> {
  return ask(t, petstore, postHead(REX.length, 'Expect: 100-continue'), 100)
}

test('the image is labelled with the version of the package', () => {
  const dockerfile = readFileSync('Dockerfile', 'utf8')
  assert.ok(dockerfile.includes(` org.opencontainers.image.version="${version}" `))
})

test('the help wins over the version, and both win over anything else', async () => {
  const { stdout: help } = await run(['--help'])
  for (const [stdout, ...args] of [
    [`${version}\n`, '-v'],
    [`${version}\n`, '--version', '--port', 'x'],
    [`${version}\n`, '--healthcheck', '-v'],
    [help, '-h'],
    [help, '-v', '--port', 'x', '--help'],
    [help, '--healthcheck', '-h'],
  ] as const)
    assert.deepEqual(await run(args, { PORT: 'y' }), { status: 0, stdout, stderr: '' })
})

const noFolder = (path: string) =>
  `${path} must be in a folder that exists, and that this user may write to`

test('names what it cannot open, says why in words, and exits 1', async (t) => {
  const inUse = `${portOf(await start(t))}`
  const snapshot = `${folderOf()}/none/pets.json`
  const noAddress = 'listen EADDRNOTAVAIL: address not available 192.0.2.1'
  const noHost = 'getaddrinfo ENOTFOUND none.invalid'
  const isInUse = `listen EADDRINUSE: address already in use 127.0.0.1:${inUse}`
  const free = `${await freePort()}`
  for (const [why, ...args] of [
    [`${isInUse}; use another --port`, '--port', inUse],
    [`${isInUse}; use another --control-port`, '--control-port', inUse],
    [`${noAddress}; use another --host`, '--host', '192.0.2.1'],
    [
      `${noAddress}:${free}; use another --control-host`,
      '--control-port',
      free,
      '--control-host',
      '192.0.2.1',
    ],
    [`${noHost}; use another --host`, '--host', 'none.invalid'],
    [noFolder(snapshot), '--snapshot', snapshot],
  ] as const)
    assert.deepEqual(await run(['--port', '0', ...args]), ended(1, why))
})

test('SIGHUP does not disturb a start that fails, nor what follows bad flags', async (t) => {
  const process = new FakeProcess()
  assert.equal(await main(['--port', 'x'], {}, process), 2)
  process.emit('SIGHUP')
  const status = main(['--port', `${portOf(await start(t))}`], {}, process)
  process.emit('SIGHUP')
  assert.equal(await status, 1)
})

const isRoot =
  process.getuid?.() === 0 && existsSync('/proc/sys/net/ipv4/ip_unprivileged_port_start')

const skip = !isRoot && 'only root can be another user'
test('says in words what its user may not do', { skip }, async (t) => {
  const snapshot = `${folderOf()}/pets.json` // in a folder that only root may write to
  t.after(() => process.seteuid?.(0))
  process.seteuid?.(65_534)
  const unwritable = await run(['--port', '0', '--snapshot', snapshot])
  assert.deepEqual(unwritable, ended(1, noFolder(snapshot)))
  const why = 'listen EACCES: permission denied 127.0.0.1:1'
  assert.deepEqual(await run(['--port', '1']), ended(1, why))
})

test('without a page, the greeting on a terminal has a generated key, which works', async (t) => {
  const { process, url } = await serve(t, ['--no-page'], { isTTY: true })
  const [, key = ''] = /^ {2}API key, generated .*: ([\w-]{36})$/m.exec(process.stdout.text) ?? []
  assert.equal(await statusWith({ url }, key), 200)
  assert.ok(process.stdout.text.startsWith(greetingOf(url)))
  await process.stdout.until(/ valid keys: 1, generated, /)
})

test('the greeting on a terminal has a link to the page, and no key that was given', async (t) => {
  const snapshot = `${folderOf()}/pets.json`
  const flags = ['--api-key', KEY, '--snapshot', snapshot]
  const { process, url } = await serve(t, flags, { isTTY: true })
  const { text } = process.stdout
  assert.ok(text.startsWith(`Open ${new URL('/', url)}\n\n${greetingOf(url)}`), text)
  assert.ok(text.includes(`\n    curl -i -H "Authorization: Bearer $KEY" ${url}/pets\n`), text)
  assert.ok(text.includes(`\nPets in ${snapshot}: 0. `) && !text.includes(KEY), text)
})

const MOMENTS: Readonly<Record<string, (emit: () => void) => void>> = {
  'the settings are read': (emit) => emit(),
  'it is too busy to notice': (emit) => setImmediate(emit), // after all that needs no wait
}
for (const signal of ['SIGINT', 'SIGTERM']) {
  for (const [moment, at] of Object.entries(MOMENTS)) {
    test(`${signal} while ${moment} ends the start`, within, async () => {
      const process = new FakeProcess()
      const env = {
        PORT: '0',
        get PETSTORE_API_KEYS() {
          at(() => process.emit(signal))
          return KEY
        },
      }
      assert.equal(await main([], env, process), 1)
      const why = `petstore-server: ${signal} received before the start was complete\n`
      assert.deepEqual([process.stdout.text, process.stderr.text], ['', why])
    })
  }
}

test('the first line of the log has the address, whatever the start had to say', async (t) => {
  const snapshot = temporaryFile(`[{"id":1,${REX.slice(1)}]`)
  writeFileSync(`${snapshot}.journal`, '["torn')
  const env = { PETSTORE_API_KEYS: KEY, PETSTORE_MAX_STORE: '150' }
  const { process, url } = await serve(t, ['--snapshot', snapshot, '--log', 'json'], { env })
  await process.stdout.until(/80 % or more of the 150 bytes/)
  const [first = '', ...others] = process.stdout.text.split('\n')
  assert.equal(JSON.parse(first).url, url)
  assert.match(others.join('\n'), /cut off 6 bytes/)
})

test('a seed that takes 80 % or more of the store is warned of', async (t) => {
  const seed = temporaryFile(`[${REX}]`)
  const { process } = await serve(t, ['--api-key', KEY, '--seed', seed, '--max-store', '150'])
  await process.stdout.until(
    / listens on [^]*"warn","message":"pets take 80 % or more of the 150 bytes/,
  )
})

test('the greeting says that each key has a store, where the server gives it one', async (t) => {
  const flags = ['--store-per-key', '--control-port', '0']
  const { process, url } = await serve(t, flags, { isTTY: true })
  const { text } = process.stdout
  assert.ok(text.startsWith(`Open ${new URL('/', url)}\n\n`), text)
  assert.match(text, /\n  Any API key opens a store of its own, such as \S+\n/)
  const configured = await serve(t, ['--store-per-key', '--api-key', KEY], { isTTY: true })
  const own = /\n  Each API key has a store of its own\. With an API key in \$KEY:\n/
  assert.match(configured.process.stdout.text, own)
  const [, key = ''] = /\n +curl .*Bearer ([\w-]+)"/.exec(text) ?? []
  for (const each of [key, 'any-other-key']) assert.equal(await statusWith({ url }, each), 200)
  await process.stdout.until(/ valid keys: any, pets in each store: 0, /)
  assert.doesNotMatch(process.stdout.text, / warn: /)
})

const NETWORK = ['--host', '0.0.0.0', '--control-host', '0.0.0.0', '--control-port', '0']

test('the greeting of a class has the page and the API for the whiteboard', async (t) => {
  const boardOf = async (...args: string[]) => {
    const { process, url } = await serve(t, ['--api-key', KEY, '--store-per-key', ...args])
    const { text } = process.stderr
    const lines = Array.from(text.matchAll(/^On the whiteboard: (.*)\n/gm), ([, line]) => line)
    return { url, text, lines }
  }
  const local = await boardOf()
  assert.deepEqual(local.lines, [`${new URL('/', local.url)} (page), ${local.url} (API)`])
  assert.match(local.text, /\nOnly this machine reaches it: --host 0\.0\.0\.0 opens it /)
  const bare = await boardOf('--no-page')
  assert.deepEqual(bare.lines, [`${bare.url} (API)`])
  const open = await boardOf(...NETWORK, '--base-path', '/shop')
  const networks = others.map((some) => `http://${some?.address}:${portOf(open)}`)
  const expected = networks.map((one) => `${one}/ (page), ${one}/shop (API)`)
  if (networks.length > 0) assert.deepEqual(open.lines, expected)
  assert.doesNotMatch(open.text, /^On the network: /m)
  assert.equal(open.text.includes('Only this machine'), networks.length === 0)
})

for (const [name, keys, warnings] of [
  ['any key', [], ['a store for any key', 'the test controls']],
  ['a given key', ['--api-key', KEY], ['the test controls']],
] as const) {
  test(`the log warns of stores for ${name} that other machines may reach`, async (t) => {
    const { process } = await serve(t, ['--store-per-key', ...NETWORK, ...keys])
    for (const warning of warnings)
      await process.stdout.until(new RegExp(`"warn","message":"other .* reach ${warning} at `))
    assert.equal(process.stdout.text.split('"warn"').length - 1, warnings.length)
  })
}

const isReady: Ended = { status: 0, stdout: '', stderr: '' }
const ready = (port: string, ...args: string[]) => run(['--healthcheck', '--port', port, ...args])

for (const [host, asked, shown] of [
  ['127.0.0.1', 'localhost', '127.0.0.1'],
  ['0.0.0.0', '0.0.0.0', '127.0.0.1'],
  ['::1', '::1', '[::1]'],
  ['::ffff:127.0.0.1', '::ffff:127.0.0.1', '[::ffff:127.0.0.1]'],
  ['::', '::', '[::1]'],
] as const) {
  const isIpv6 = host.includes(':')
  const skip = isIpv6 && hasNoIpv6
  const title = `on ${host} it listens where the greeting says, ready until it ends`
  test(title, { skip }, async (t) => {
    const controls = ['--control-port', '0', '--control-host', host]
    const port = String(await freePort())
    const flags = ['--host', host, '--port', port, '--api-key', KEY, '--base-path', '/shop']
    const { process, url, status } = await serve(t, [...flags, ...controls])
    const [, control = ''] = await process.stderr.until(/test controls.* on (http:\S+)\n/)
    for (const one of [url, control]) assert.ok(one.startsWith(`http://${shown}:`), one)
    const isOpen = host === '0.0.0.0' || host === '::'
    const network = process.stderr.text.match(/(?<=^On the network: ).*$/gm) ?? []
    const ofControls = process.stderr.text.match(/(?<=^Its controls on the network: ).*$/gm) ?? []
    for (const some of [network, ofControls]) assert.equal(some.length, isOpen ? others.length : 0)
    for (const one of ofControls) assert.equal((await fetch(one)).status, 200)
    const headers = { authorization: AUTHORIZATION }
    for (const one of network) assert.equal((await fetch(`${one}/pets`, { headers })).status, 200)
    assert.equal((await fetch(`${control}/requests`)).status, 200)
    assert.equal((await fetch(`${url}/pets`, { headers })).status, 200)
    assert.deepEqual(await ready(port, '--host', asked), isReady)
    process.emit('SIGTERM')
    await status
    const { text } = process.stdout
    const bound = `http://${isIpv6 ? `[${host}]` : host}:${port}/shop`
    assert.ok(text.includes(` listens on ${bound}: `), text)
    assert.ok(text.includes(`,"url":"${url}","controlUrl":"${control}"}\n`), text)
    const warning = /"warn","message":"other machines may reach the test controls at /
    assert.equal(warning.test(text), isOpen)
    const { stderr } = await ready(port, '--host', asked)
    const place = `http://${asked === 'localhost' ? asked : shown}:${port}/readyz`
    assert.ok(stderr.startsWith(`petstore-server: not ready: ${place}: `), stderr)
    assert.ok(stderr.includes('ECONNREFUSED'), stderr)
  })
}

const TEXT_LINE =
  /^\S+Z GET \/v1\/pets 200 \S+ ms 2 B operation=listPets key=0 remote=127\.0\.0\.1\r?$/m

/** What a line of the log says: level and message, or path and status of a request. */
function saidIn(line: string): string {
  if (TEXT_LINE.test(line)) return 'info: /v1/pets 200'
  if (!line.startsWith('{')) return line.replace(/^\S+Z | \d+\.\d s$/g, '')
  const { level, path, status, message = `${path} ${status}` } = JSON.parse(line)
  return `${level}: ${message}`.replace(/(?<=stopped after) \d+\.\d s$/, '')
}

for (const [format, isTTY, ...args] of [
  ['text', true],
  ['json', false],
  ['text', false, '--log', 'text'],
  ['json', true, '--log', 'json'],
  ['off', false, '--log', 'off'],
] as const) {
  const place = isTTY ? 'a terminal' : 'a pipe'
  test(`the log on ${place} with ${args.join(' ') || 'no flag'} is ${format}`, async (t) => {
    const keys = ['--api-key', KEY, '--api-key', KEY] // counted as one
    const { process, url, status } = await serve(t, [...keys, ...args], { isTTY })
    await send({ url }, 'GET', '/v1/pets')
    process.emit('SIGTERM')
    assert.equal(await status, 0)
    const { stdout, stderr } = process
    assert.ok((format === 'json' ? stderr : stdout).text.includes(greetingOf(url)))
    if (format !== 'json') assert.equal(stderr.text, '')
    if (format === 'off') return assert.equal(stdout.text, greetingOf(url))
    const server = `petstore-server ${version}, process ${pid}, listens on ${url}`
    const limits = `--max-store ${DEFAULTS.maxStore}, --max-connections ${DEFAULTS.maxConnections}`
    const lines = stdout.text.match(format === 'json' ? /^\{.*\}$/gm : /^20\d\d-.*$/gm)
    assert.deepEqual(lines?.map(saidIn), [
      `info: ${server}: valid keys: 1, pets in memory: 0, ${limits}`,
      'info: /v1/pets 200',
      'info: SIGTERM received: no request is in flight; open connections: 1',
      'info: stopped after',
      'info: ends with exit status 0',
    ])
  })
}

describe('--healthcheck', () => {
  test('reads only the host and the port, and no file', async (t) => {
    const files = ['--api-keys-file', '/no', '--seed', '/no', '--snapshot', '/no/no']
    const flags = ['--max-body', 'x', '--api-key', 'short', '--base-path', '/']
    const PORT = `${portOf(await start(t))}`
    const env = { PORT, PETSTORE_DEMO: '?', PETSTORE_DRAIN: 'x', PETSTORE_API_KEYS_FILE: '/no' }
    assert.deepEqual(await run(['--healthcheck', ...files, ...flags], env), isReady)
    const mustBe = '--port "x" must be an integer from 0 to 65535'
    assert.deepEqual(await ready('x'), ended(2, mustBe))
    assert.match((await ready('1', '--prot')).stderr, /--prot.* \(see --help\)\n$/)
    assert.match((await ready('0')).stderr, /not ready: http:\/\/127\.0\.0\.1:0\/readyz: connect /)
  })

  test('says of each address of the host why it is not ready', async (t) => {
    const addresses = ['127.0.0.1', '127.0.0.2'].map((address) => ({ address, family: 4 }))
    type Done = (error: null, all: typeof addresses) => void
    t.mock.method(dns, 'lookup', (_: string, __: object, done: Done) => done(null, addresses))
    const reasons = addresses.map(({ address }) => `connect ECONNREFUSED ${address}:1`)
    const line = `not ready: http://two.invalid:1/readyz: ${reasons.join('; ')}`
    assert.deepEqual(await ready('1', '--host', 'two.invalid'), ended(1, line))
  })

  test('asks no proxy of the environment', async (t) => {
    const proxy = createNetServer((socket) => socket.destroy())
    const env = {
      NODE_USE_ENV_PROXY: '1',
      HTTP_PROXY: await listen(t, proxy),
      PATH: process.env['PATH'],
    }
    const port = `${portOf(await start(t))}`
    const args = ['--import', 'tsx', 'src/main.ts', '--healthcheck', '--port', port]
    const { status, stderr } = await new Running([process.execPath, ...args], { env }).exited
    assert.equal(status, 0, stderr)
  })

  test('exits 1 and shows any status but 200, or that there was none in time', async (t) => {
    for (const [response, shown] of [
      ['503 No\r\nContent-Length: 4\r\n\r\nnone', 'status 503'],
      ['302 No\r\nContent-Length: 0\r\nLocation: /livez\r\n\r\n', 'status 302'],
      ['204 No\r\n\r\n', 'status 204'],
      ['', '.*aborted.*'],
    ] as const) {
      const server = createNetServer((socket) => {
        socket.on('error', () => {}).write(`HTTP/1.1 ${response}`)
        t.after(() => socket.destroy())
      })
      const url = await listen(t, server)
      const { status, stderr } = await ready(`${portOf({ url })}`)
      assert.equal(status, 1, response)
      assert.match(stderr, new RegExp(`^petstore-server: not ready: ${url}/readyz: ${shown}\n$`))
    }
  })
})

test('SIGHUP says what the pets of all keys take', async (t) => {
  const { process, url } = await serve(t, ['--store-per-key'])
  for (const key of ['first-key', 'second-key']) assert.equal(await statusWith({ url }, key), 200)
  process.emit('SIGHUP')
  await process.stdout.until(/ received: 0 pets take 32768 bytes of /)
})

test('SIGHUP on a terminal, which is gone then, stops the server', async (t) => {
  const { process, status } = await serve(t, ['--demo'], { isTTY: true })
  process.emit('SIGHUP')
  assert.equal(await status, 0)
  assert.match(
    process.stdout.text,
    / info: SIGHUP received: no request is in flight; open connections: 0\n/,
  )
})

test('SIGHUP rereads the file of keys, and a bad file changes no key', async (t) => {
  const path = temporaryFile('the-old-key')
  const { process, url } = await serve(t, ['--api-key', KEY, '--api-keys-file', path])
  const keys = ['the-old-key', 'the-new-key', KEY]
  const valid = async () => (await Promise.all(keys.map((key) => statusWith({ url }, key)))).join()
  assert.equal(await valid(), '200,401,200')
  const missing = 'must be a file .* ENOENT'
  const damages: [damage: () => void, why: string][] = [
    [() => writeFileSync(path, 'the-new-key\nshort'), 'one key a line: line 2 must be 8 to 256'],
    [() => rmSync(path), missing],
    // Without a writer, a reader would wait for ever.
    [() => assert.equal(spawnSync('mkfifo', [path]).status, 0), 'it is not a regular file'],
    [() => rmSync(path), missing],
  ]
  for (const [damage, why] of damages) {
    damage()
    process.emit('SIGHUP')
    assert.equal(await valid(), '200,401,200')
    const line = `"level":"error","message":"the API keys stay as they were: .*${why}`
    await process.stdout.until(new RegExp(line))
  }
  writeFileSync(path, 'the-new-key # since today\nthe-new-key\n')
  process.emit('SIGHUP')
  assert.equal(await valid(), '401,200,200')
  await process.stdout.until(/"level":"info","message":"[^"]*read again; valid keys: 2"/)
  await send({ url }, 'GET', '/v1/pets/the-new-key')
  await process.stdout.until(/"path":"\/v1\/pets\/\[key\]"/)
  assert.ok(!process.stdout.text.includes('the-new-key'))
})

for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  for (const stream of ['stdout', 'stderr'] as const) {
    test(`${signal} right after the first output on ${stream} makes it exit 0`, async () => {
      const process = new FakeProcess()
      process[stream].once('written', () => process.emit(signal))
      assert.equal(await main(['--api-key', KEY], { PORT: '0' }, process), 0)
    })
  }

  test(`${signal} lets a request in flight end, and completes snapshot and log`, async (t) => {
    const snapshot = `${folderOf()}/pets.json`
    const petstore = await serve(t, ['--api-key', KEY, '--drain', '86400', '--snapshot', snapshot])
    const busy = await openRequest(t, petstore)
    petstore.process.emit(signal)
    await busy.write(REX)
    const { body } = await assertLast(busy, 201)
    assert.equal(await petstore.status, 0)
    assert.equal(petstore.process.stderr.text, greetingOf(petstore.url))
    assert.equal(readFileSync(snapshot, 'utf8'), `[\n${body}\n]\n`)
    assert.match(petstore.process.stdout.text, /"status":201/)
  })

  for (const [drain, delay, ...signals] of [
    ['0', '0', signal],
    ['86400', '0', 'SIGTERM', signal],
    ['86400', '86400', 'SIGTERM', signal],
  ] as const) {
    const flags = ['--drain', drain, '--drain-delay', delay]
    const title = `${signals.join(', ')} with ${flags.join(' ')}`
    test(`${title}: cuts off a request in flight, says so, and exits 1`, within, async (t) => {
      const petstore = await serve(t, ['--api-key', KEY, ...flags])
      const busy = await openRequest(t, petstore)
      for (const one of signals) petstore.process.emit(one)
      assert.equal(await petstore.status, 1)
      await busy.closed
      const cutOff = 'requests in flight that were cut off: 1'
      const again = signals[0] === 'SIGINT' ? 'Ctrl-C again' : 'another signal'
      const waits =
        delay === '0'
          ? `waits up to ${drain} s for 1 request; ${again} stops at once`
          : `serves for ${delay} s more`
      const { stdout, stderr } = petstore.process
      assert.ok(stderr.text.endsWith(`\npetstore-server: ${cutOff}\n`), stderr.text)
      assert.deepEqual(stdout.text.trimEnd().split('\n').slice(-5).map(saidIn), [
        `info: ${signals[0]} received: ${waits}; open connections: 1`,
        'info: /v1/pets null',
        'info: stopped after',
        `error: ${cutOff}`,
        'info: ends with exit status 1',
      ])
    })
  }
}

test('each minute a line says what came and what is open, unless nothing did', async (t) => {
  mockTimers(t, 'setInterval')
  const { process, url } = await serve(t)
  t.mock.timers.tick(60_000)
  const agent = new Agent({ keepAlive: true })
  t.after(() => agent.destroy())
  for (const path of ['/v1/pets', '/v1/pets', '/v1/none', '/v1/store/orders'])
    await send({ url }, 'GET', path, { agent })
  t.mock.timers.tick(60_000)
  await process.stdout.until(/the last minute/)
  t.mock.timers.tick(60_000)
  await openRequest(t, { url })
  t.mock.timers.tick(60_000)
  await process.stdout.until(/the last minute[^]*the last minute/)
  const lines = process.stdout.text.match(/^.*the last minute.*$/gm) ?? []
  const [first = {}, second = {}, ...others] = lines.map((line) => JSON.parse(line))
  assert.deepEqual(others, [])
  const { time, message, loopDelayMs, heapBytes, ...rest } = first
  const known = { connections: 1, inFlight: 0, petBytes: 0, '2xx': 2, '4xx': 1, '5xx': 1 }
  assert.deepEqual(rest, { level: 'info', ...known })
  assert.ok(loopDelayMs >= 0 && heapBytes > 2 ** 20)
  const shown = /: connections=1 inFlight=0 loopDelayMs=.* petBytes=0 2xx=2 4xx=1 5xx=1$/
  assert.match(message, shown)
  assert.deepEqual([second.inFlight, second['2xx']], [1, undefined])
})

test('each minute a line says whether the process can open no more files', async (t) => {
  mockTimers(t, 'setInterval')
  const { process } = await serve(t)
  const fail = () => {
    throw Object.assign(new Error('EMFILE: too many open files'), { code: 'EMFILE' })
  }
  const { mock } = t.mock.method(fs, 'openSync', fail)
  syncBuiltinESMExports()
  t.mock.timers.tick(60_000)
  mock.restore()
  syncBuiltinESMExports()
  t.mock.timers.tick(60_000)
  await process.stdout.until(/"warn","message":"no file can be opened, so .*: EMFILE: too many/)
  process.emit('SIGTERM')
  await process.stdout.until(/ends with exit status/)
  assert.equal(process.stdout.text.split('no file can be opened').length, 2)
})

test('a start warns that the process may open fewer files than connections', async (t) => {
  const { process } = await serve(t, ['--api-key', KEY, '--max-connections', '1000000'])
  const warning =
    /"warn","message":"this process may open \d+ files, and --max-connections 1000000 /
  await process.stdout.until(warning)
  const enough = await serve(t, ['--api-key', KEY, '--max-connections', '10'])
  assert.doesNotMatch(enough.process.stdout.text, /may open/)
})

test('one signal cuts off the drain after a --drain-delay that ended by itself', async (t) => {
  const petstore = await serve(t, ['--api-key', KEY, '--drain', '86400', '--drain-delay', '1'])
  await openRequest(t, petstore)
  petstore.process.emit('SIGTERM')
  const listens = () => statusWith(petstore).then(Boolean, () => false)
  while (await listens());
  petstore.process.emit('SIGTERM')
  assert.equal(await petstore.status, 1)
})

test('it warns once that pets take four fifths of --max-store', async (t) => {
  const body = '{"name":"Rex","categoryId":9223372036854775807}' // counted as 154 bytes
  for (const flags of [[], ['--snapshot', `${folderOf()}/pets.json`]]) {
    const petstore = await serve(t, ['--api-key', KEY, '--max-store', '1540', ...flags])
    const { stdout } = petstore.process
    for (let count = 1; count <= 9; count++) {
      await check(petstore, 'POST', '/v1/pets', 201, { body })
      if (count === 7) stdout.write('seven\n')
      if (count === 8) await stdout.until(/80 %/)
    }
    petstore.process.emit('SIGTERM')
    assert.equal(await petstore.status, 0)
    const warning = /seven\n[^]*"warn","message":"pets take 80 % or more of the 1540 bytes .* 507"/
    assert.match(stdout.text, warning)
    assert.equal(stdout.text.split('"warn"').length, 2)
  }
})

const COMMAND = [...PETSTORE, '--port', '0']
const SHELL = `exec ${COMMAND.map((word) => `'${word}'`).join(' ')}`
const lacks = (command: string) =>
  spawnSync('sh', ['-c', `command -v ${command}`]).status !== 0 && `no ${command} here`

function runProgram(t: TestContext, command: readonly string[]): Running {
  const program = new Running(command)
  t.after(async () => {
    program.process.kill('SIGKILL')
    await program.exited
  })
  return program
}

test('a start that fails logs what it has cut off', async (t) => {
  const snapshot = temporaryFile('[]')
  writeFileSync(`${snapshot}.journal`, 'torn')
  const args = ['--snapshot', snapshot, '--host', '192.0.2.1']
  const { status, stdout } = await runProgram(t, [...COMMAND, ...args]).exited
  assert.equal(status, 1)
  assert.match(
    stdout,
    /"warn","message":"\S+ cut off 4 bytes after the last complete write, kept as \S+"/,
  )
})

test('a create that the disk refuses is a warning with its cause and its request', async (t) => {
  const flags = ['--api-key', KEY, '--snapshot', `${folderOf()}/pets.json`]
  const smallFiles = `ulimit -f 8; ${SHELL} "$0" "$@"` // 8 kB at most
  const server = await runProgram(t, ['sh', '-c', smallFiles, ...flags]).serves()
  const create = async (requestId: string) => {
    const body = JSON.stringify({ name: 'x'.repeat(20_000), categoryId: 1 })
    const headers = { 'x-request-id': requestId }
    await check(server, 'POST', '/v1/pets', '503 storage_failed', { headers, body })
    const [line] = await server.stdout.until(new RegExp(`^.*"requestId":"${requestId}".*$`, 'm'))
    const { level, status, code, cause } = JSON.parse(line)
    assert.deepEqual([level, status, code], ['warn', 503, 'storage_failed'])
    assert.match(cause, /^EFBIG: /)
  }
  for (const requestId of ['first', 'second']) await create(requestId)
})

/** Starts the executable, and waits for its greeting. */
const launch = (t: TestContext, args = ['--api-key', KEY]) =>
  runProgram(t, [...COMMAND, ...args]).serves()

/** Fills the pipe of the log, which then nobody reads; returns the paths of the requests. */
async function fillLog(t: TestContext, server: Running): Promise<string[]> {
  const agent = new Agent({ keepAlive: true, maxSockets: 4 })
  t.after(() => agent.destroy())
  server.process.stdout?.pause()
  const headers = { 'x-forwarded-for': 'x'.repeat(15_000) } // 1.5 MB in all, more than a pipe takes
  const paths = Array.from({ length: 100 }, (_, at) => `/v1/pets/${at}`)
  await Promise.all(paths.map((path) => send(server, 'GET', path, { agent, headers })))
  return paths
}

function end({ process, exited }: Running, signal: NodeJS.Signals = 'SIGTERM') {
  process.kill(signal)
  return exited.then(({ status }) => status)
}

describe('the process', { concurrency: 2 }, () => {
  const noCurl = { skip: lacks('curl') }
  test('prints a curl line that SIGHUP leaves valid, and ends by SIGINT', noCurl, async (t) => {
    const server = await launch(t, [])
    const [, line = ''] = await server.stderr.until(/^ +(curl .*)\n/m)
    server.process.kill('SIGHUP')
    const received = /"SIGHUP received: 0 pets take 0 bytes of .*\n.*there is no file of API keys"/
    await server.stdout.until(received)
    const { status, stdout } = await runProgram(t, ['sh', '-c', line]).exited
    assert.equal(status, 0)
    assert.match(stdout, /^HTTP\/1\.1 200 OK\r\n[^]*\r\n\r\n\[\]$/)
    assert.equal(await end(server, 'SIGINT'), 0)
  })

  test('serves on after its standard output is closed, and exits 0', async (t) => {
    const server = await launch(t)
    server.process.stdout?.destroy()
    for (let count = 0; count < 5; count++) assert.equal(await statusWith(server), 200)
    assert.equal(await end(server), 0)
    const told = 'petstore-server: the log has ended: write EPIPE\n'
    assert.equal(server.stderr.text, greetingOf(server.url) + told)
  })

  test('serves on after its standard error is closed', async (t) => {
    const { process, url } = await serve(t)
    process.stderr.destroy(new Error('EPIPE'))
    assert.equal(await statusWith({ url }), 200)
  })

  const noLimit = lacks('prlimit')
  test('counts the lines of its log that a full disk lost', { skip: noLimit }, async (t) => {
    const file = `${folderOf()}/log`
    const command = `${SHELL} --api-key ${KEY} > '${file}'`
    const server = await runProgram(t, ['sh', '-c', command]).serves()
    const limit = (bytes: string) => {
      const args = [`--fsize=${bytes}:`, `--pid=${server.process.pid}`]
      assert.equal(spawnSync('prlimit', args).status, 0)
    }
    const until = async (isSo: (log: string) => boolean) => {
      while (!isSo(readFileSync(file, 'utf8'))) await new Promise(setImmediate)
    }
    await until((log) => log.endsWith('\n'))
    const room = readFileSync(file).length + 50 // for a part of the next line
    limit(`${room}`)
    assert.equal(await statusWith(server), 200)
    await until((log) => log.length === room)
    for (let count = 0; count < 59; count++) assert.equal(await statusWith(server), 200)
    limit('unlimited')
    assert.equal(await statusWith(server), 200)
    assert.equal(await end(server), 0)
    const [first = '', torn = '', ...lines] = readFileSync(file, 'utf8').trimEnd().split('\n')
    assert.match(first, /listens on/)
    assert.throws(() => JSON.parse(torn))
    const kept = lines.map((line) => JSON.parse(line))
    const warning = kept.findIndex(({ level }) => level === 'warn')
    const [, dropped] = /^(\d+) lines were dropped: EFBIG/.exec(kept[warning]?.message) ?? []
    assert.ok(Number(dropped) > 0)
    assert.equal(kept.filter(({ status }) => status === 200).length + Number(dropped), 60)
  })

  test('loses no line of its log if the reader stalls until the end', async (t) => {
    const server = await launch(t)
    const paths = await fillLog(t, server)
    server.process.kill('SIGTERM')
    server.process.stdout?.resume()
    const { status, stdout } = await server.exited
    assert.equal(status, 0)
    const logged = [...stdout.matchAll(/^\{.*"path":"(.*?)".*\}$/gm)].map(([, path]) => path)
    assert.deepEqual(logged.sort(), paths.sort())
  })

  test('ends even if nobody reads its log and its errors any more', async (t) => {
    const command = `${SHELL} --api-key ${KEY} --drain 0 2>&1`
    const server = await runProgram(t, ['sh', '-c', command]).serves()
    await fillLog(t, server)
    await openRequest(t, server)
    server.process.kill('SIGTERM')
    assert.deepEqual(await once(server.process, 'exit'), [1, null])
    server.process.stdout?.resume()
  })

  test('SIGTERM fails /readyz, but it serves on for --drain-delay', async (t) => {
    const server = await launch(t, ['--api-key', KEY, '--drain-delay', '86400'])
    const statusOf = async (path: string) => (await send(server, 'GET', path)).status
    assert.equal(await statusOf('/readyz'), 200)
    server.process.kill('SIGTERM')
    while ((await statusOf('/readyz')) === 200);
    const agent = new Agent({ keepAlive: true })
    t.after(() => agent.destroy())
    for (let count = 0; count < 3; count++) {
      assert.deepEqual([await statusOf('/readyz'), await statusOf('/livez')], [503, 200])
      const { status, headers } = await send(server, 'GET', '/v1/pets', { agent })
      assert.deepEqual([status, headers.connection], [200, 'keep-alive'])
    }
    assert.equal(await end(server), 0)
  })

  test('logs as text on a terminal, and ends by Ctrl-C', { skip: lacks('script') }, async (t) => {
    const program = runProgram(t, ['script', '-qec', `${SHELL} --api-key ${KEY}`, '/dev/null'])
    assert.equal(await statusWith(await program.serves(), KEY), 200)
    await program.stdout.until(TEXT_LINE)
    program.process.stdin?.write('\u0003')
    assert.equal((await program.exited).status, 0)
  })

  test('prints and logs an unhandled rejection with its stack, and exits 1', async (t) => {
    const mistake = `process.on('SIGUSR2', () => { Promise.reject(new Error('a mistake')) })`
    const [node = '', ...rest] = COMMAND
    const flags = ['--import', `data:text/javascript,${encodeURIComponent(mistake)}`, ...rest]
    const server = await runProgram(t, [node, ...flags, '--api-key', KEY]).serves()
    assert.equal(await end(server, 'SIGUSR2'), 1)
    assert.match(server.stderr.text, /^petstore-server: uncaught: Error: a mistake\n +at /m)
    const logged =
      /"error","message":"uncaught: Error: a mistake\\n +at .*\n.*"ends with exit status 1"/
    assert.match(server.stdout.text, logged)
  })
})
