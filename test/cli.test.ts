// The executable: what it prints and logs, how it starts, is signalled and ends.
import assert from 'node:assert/strict'
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { Agent, createServer } from 'node:http'
import { createServer as createNetServer } from 'node:net'
import { networkInterfaces } from 'node:os'
import { pid } from 'node:process'
import { describe, test, type TestContext } from 'node:test'
import { fileURLToPath } from 'node:url'
import { main } from '../src/cli.ts'
import { DEFAULTS } from '../src/options.ts'
import { begin, type Ended, FakeProcess, greeted, misuse, run, serve } from './executable.ts'
import { listen, open, postHead, REX } from './http/raw.ts'
import { assertLast, assertNext, FakeStream, RawConnection, send, start } from './support.ts'
import { AUTHORIZATION, folderOf, KEY, temporaryFile } from './support.ts'

const { version }: { version: string } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'))

const hasNoIpv6 = Object.values(networkInterfaces()).every((some) => some?.every(({ address }) => address !== '::1'))
const portOf = ({ url }: { url: string }) => new URL(url).port
const failure = (line: string): Ended => ({ status: 1, stdout: '', stderr: `petstore-server: ${line}\n` })
const greetingOf = (url: string) => `Petstore ${version} listens on ${url}\n`

/** Sends listPets with this key. */
async function statusWith(petstore: { url: string }, key: string): Promise<number> {
  return (await send(petstore, 'GET', '/v1/pets', { headers: { authorization: `Bearer ${key}` } })).status
}

test('--version and -v print the version of package.json, --help and -h the help, whatever else is given', async () => {
  const { stdout: help } = await run(['--help'])
  for (const [printed, ...lines] of [
    [`${version}\n`, '-v', '--version', '--version --port x', '--healthcheck -v'],
    [help, '-h', '--help', '-v --port x --help', '--healthcheck -h'],
  ] as const) {
    const expected: Ended = { status: 0, stdout: printed, stderr: '' }
    for (const line of lines) assert.deepEqual(await run(line.split(' '), { PORT: 'y' }), expected)
  }
  const process = new FakeProcess()
  const status = main(['--help'], {}, process)
  process.stdout.emit('error', new Error('EPIPE')) // nobody reads it to its end
  assert.equal(await status, 0)
})

test('an address that cannot be listened on is named and told why in words, and the exit status is 1', async (t) => {
  const inUse = portOf(await start(t))
  const expected = failure(`Cannot listen on 127.0.0.1:${inUse}: the port is in use`)
  assert.deepEqual(await run(['--port', inUse]), expected)
  assert.deepEqual(await run(['--port', '0', '--control-port', inUse]), expected)
  for (const [host, why] of Object.entries({
    '192.0.2.1': 'this machine does not have the address',
    'none.invalid': 'the host name is unknown',
  })) {
    assert.deepEqual(await run(['--port', '0', '--host', host]), failure(`Cannot listen on ${host}:0: ${why}`))
  }
})

test('a snapshot in a folder that does not exist is refused in words', async (t) => {
  const snapshot = `${folderOf(t)}/none/pets.json`
  const expected = failure(`${snapshot} must be in a folder that exists, and that this user may write to`)
  assert.deepEqual(await run(['--port', '0', '--snapshot', snapshot]), expected)
})

const isRoot = process.getuid?.() === 0 && existsSync('/proc/sys/net/ipv4/ip_unprivileged_port_start')

test('what this user may not do is said in words', { skip: !isRoot && 'only root can be another user' }, async (t) => {
  const snapshot = `${folderOf(t)}/pets.json` // in a folder of root's own
  t.after(() => process.seteuid?.(0))
  process.seteuid?.(65_534)
  const folder = failure(`${snapshot} must be in a folder that exists, and that this user may write to`)
  assert.deepEqual(await run(['--port', '0', '--snapshot', snapshot]), folder)
  const port = failure('Cannot listen on 127.0.0.1:1: this user may not listen on the port')
  assert.deepEqual(await run(['--port', '1']), port)
})

/** What is printed on a terminal, before the log. */
function greetingOnTerminal({ process }: { process: FakeProcess }): string {
  return process.stdout.text.replace(/^20\d\d-[^]*/m, '')
}

test('on a terminal the greeting opens the page with a generated key, and shows a curl line, the pets and the end', async (t) => {
  const petstore = await serve(t, ['--demo'], { isTTY: true })
  const { url } = petstore
  const [, key = ''] = await petstore.process.stdout.until(/^ {2}API key, generated .*: (\S+)$/m)
  assert.match(key, /^[\w-]{32}$/)
  const { origin } = new URL(url)
  assert.equal(
    greetingOnTerminal(petstore),
    `Open ${origin}/#key=${key}\n\n${greetingOf(url)}
  API key, generated and valid until it stops: ${key}

    curl -i -H 'Authorization: Bearer ${key}' ${url}/pets

Pets in memory: 12. Ctrl-C stops the server.\n`,
  )
  assert.deepEqual([await statusWith({ url }, key), await statusWith({ url }, `${key.slice(1)}A`)], [200, 401])
  const other = await serve(t, ['--no-page'], { isTTY: true })
  assert.ok(!other.process.stdout.text.includes(key) && !other.process.stdout.text.includes('Open'))
})

test('with a key of its own the greeting shows the page and a curl line, and not the key', async (t) => {
  const snapshot = `${folderOf(t)}/pets.json`
  const petstore = await serve(t, ['--api-key', KEY, '--snapshot', snapshot], { isTTY: true })
  const greeting = greetingOnTerminal(petstore)
  assert.ok(greeting.startsWith(`Open ${new URL('/', petstore.url)}\n\n${greetingOf(petstore.url)}`), greeting)
  assert.ok(greeting.includes(`\n    curl -i -H "Authorization: Bearer $KEY" ${petstore.url}/pets\n`), greeting)
  assert.ok(greeting.includes(`\nPets in ${snapshot}: 0. `) && !greeting.includes(KEY), greeting)
})

for (const [host, shown] of [
  ['0.0.0.0', '127.0.0.1'],
  ['::1', '[::1]'],
  ['::', '[::1]'],
] as const) {
  const skip = host.includes(':') && hasNoIpv6
  test(`the greeting names addresses that work where both listen on ${host}`, { skip }, async (t) => {
    const args = ['--host', host, '--api-key', KEY, '--demo', '--control-port', '0', '--control-host', host]
    const { process, url } = await serve(t, args)
    const [, control = ''] = await process.stderr.until(/test controls.* on (http:\S+)\n/)
    await process.stdout.until(/"level":"info".*"message":".* listens on (\S+)\/v1: /)
    const isOpen = /"level":"warn","message":"the test controls on \S+ need no key, and other machines may reach them"/
    const bound = host.includes(':') ? `[${host}]` : host
    assert.ok(process.stdout.text.includes(` listens on http://${bound}:${new URL(url).port}/v1: `))
    assert.equal(isOpen.test(process.stdout.text), host !== '::1')
    for (const one of [url, control]) assert.ok(one.startsWith(`http://${shown}:`), one)
    assert.equal((await fetch(`${control}/requests`)).status, 200)
    assert.equal((await fetch(`${url}/pets`, { headers: { authorization: AUTHORIZATION } })).status, 200)
  })
}

const TEXT_LINE = /^\S+Z GET \/v1\/pets 200 \S+ ms 2 B operation=listPets remote=127\.0\.0\.1\r?$/m

for (const [log, isTTY, ...args] of [
  ['text', true],
  ['json', false],
  ['text', false, '--log', 'text'],
  ['json', true, '--log', 'json'],
  ['off', true, '--log', 'off'],
  ['off', false, '--log', 'off'],
] as const) {
  test(`the log is ${log} ${isTTY ? 'on a terminal' : 'elsewhere'} with ${args.join(' ') || 'no flag'}`, async (t) => {
    const { process, url, status } = await serve(t, ['--api-key', KEY, ...args], { isTTY })
    await send({ url }, 'GET', '/v1/pets')
    process.emit('SIGTERM')
    assert.equal(await status, 0)
    const { stdout, stderr } = process
    assert.ok((log === 'json' ? stderr : stdout).text.includes(greetingOf(url)))
    if (log !== 'json') assert.equal(stderr.text, '')
    if (log === 'off' && !isTTY) assert.equal(stdout.text, greetingOf(url))
    if (log === 'off') return
    const lines = stdout.text.split('\n').filter((line) => /^(?:20\d\d|\{)/.test(line))
    const limits = `--max-store ${DEFAULTS.maxStore}, --max-connections 10000`
    const what = `petstore-server ${version}, process ${pid}, listens on ${url}`
    const messages = [
      `${what}: valid keys: 1, pets in memory: 0, ${limits}`,
      undefined,
      'SIGTERM received: --drain-delay 0, --drain 8',
      'ends with exit status 0',
    ]
    assert.equal(lines.length, messages.length)
    for (const [at, line] of lines.entries()) {
      if (log === 'text') assert.match(line, messages[at] === undefined ? TEXT_LINE : / info: /)
      if (log === 'text') assert.ok(line.endsWith(messages[at] ?? ''))
      if (log === 'json') assert.deepEqual([JSON.parse(line).level, JSON.parse(line).message], ['info', messages[at]])
    }
  })
}

describe('--healthcheck', () => {
  const ready = (port: string, ...args: string[]) => run(['--healthcheck', '--port', port, ...args])

  for (const [listening, asked, shown] of [
    ['0.0.0.0', '0.0.0.0', '127.0.0.1'],
    ['127.0.0.1', 'localhost', 'localhost'],
    ['::1', '::1', '[::1]'],
    ['::', '::', '[::1]'],
  ] as const) {
    const skip = listening.includes(':') && hasNoIpv6
    test(`exits 0 where a server on ${listening} is ready by --host ${asked}, 1 where none is`, { skip }, async (t) => {
      const petstore = await start(t, { host: listening, basePath: '/shop' })
      const port = portOf(petstore)
      assert.deepEqual(await ready(port, '--host', asked), { status: 0, stdout: '', stderr: '' })
      await petstore.close()
      const { status, stderr } = await ready(port, '--host', asked)
      assert.equal(status, 1)
      assert.ok(stderr.startsWith(`petstore-server: not ready: http://${shown}:${port}/readyz: `), stderr)
      assert.match(stderr, /ECONNREFUSED/)
    })
  }

  test('reads no other setting: a bad one, or a file that is missing, does not matter', async (t) => {
    const port = portOf(await start(t))
    const bad = ['--api-keys-file', '/no', '--seed', '/no', '--max-body', 'x', '--api-key', 'short', '--base-path', '/']
    const env = { PORT: port, PETSTORE_DEMO: '?', PETSTORE_DRAIN: 'x', PETSTORE_API_KEYS_FILE: '/no' }
    const expected: Ended = { status: 0, stdout: '', stderr: '' }
    assert.deepEqual(await run(['--healthcheck', ...bad, '--snapshot', '/no/no'], env), expected)
    assert.deepEqual(await ready('x'), misuse('--port "x" must be an integer from 0 to 65535'))
    assert.match((await ready('1', '--prot')).stderr, /--prot.*; see --help\n$/)
    assert.match((await ready('0')).stderr, /^petstore-server: not ready: http:\/\/127\.0\.0\.1:0\/readyz: .*port 0/)
  })

  test('exits 1 where something else than a 200 comes, and shows what', async (t) => {
    for (const [status, body] of Object.entries({ 503: '{"code":"not_ready"}', 404: 'nothing', 302: '', 204: '' })) {
      const server = createServer((_, res) => res.writeHead(Number(status), { location: '/livez' }).end(body))
      const port = portOf({ url: await listen(t, server) })
      assert.deepEqual(await ready(port), failure(`not ready: http://127.0.0.1:${port}/readyz: ${status} ${body}`))
    }
  })

  test('gives up on a server that answers nothing or has no end', async (t) => {
    const head = 'HTTP/1.1 503 No\r\n'
    const endless = { '': '', [head]: '', [`${head}Content-Length: 9\r\n\r\nnot`]: '', [`${head}\r\n`]: 'no ' }
    const checks = Object.entries(endless).map(async ([begun, more]) => {
      const server = createNetServer((socket) => {
        socket.on('error', () => {}).once('data', () => socket.write(begun))
        const timer = setInterval(() => socket.write(more), 10)
        socket.once('close', () => clearInterval(timer))
        t.after(() => socket.destroy())
      })
      const { status, stderr } = await ready(portOf({ url: await listen(t, server) }))
      assert.equal(status, 1, begun)
      assert.match(stderr, /^petstore-server: not ready: http:\/\/127\.0\.0\.1:\d+\/readyz: .+\n$/)
    })
    await Promise.all(checks)
  })
})

for (const [log, error, shown] of [
  ['json', new Error('a mistake'), 'uncaught: Error: a mistake\n    at '],
  ['json', undefined, 'uncaught: undefined'],
  ['text', 'a mistake', 'uncaught: a mistake'],
  ['off', new Error('a mistake'), 'uncaught: Error: a mistake\n    at '],
] as const) {
  test(`${String(error)} that nothing caught ends it with 1, is told and, by --log ${log}, logged`, async (t) => {
    const { process, status } = await serve(t, ['--api-key', KEY, '--log', log])
    process.emit('uncaughtException', error)
    assert.equal(await status, 1)
    assert.ok(process.stderr.text.includes(`petstore-server: ${shown}`))
    const logged = {
      json: `Z","level":"error","message":${JSON.stringify(shown).slice(0, -1)}`,
      text: `Z error: ${shown}\n`,
      off: '',
    }
    assert.ok(process.stdout.text.includes(logged[log]))
    assert.equal(process.stdout.text.includes('uncaught'), log !== 'off')
  })
}

test('SIGHUP reads the file of keys again, beside those of --api-key; a bad file changes nothing and says so', async (t) => {
  const path = temporaryFile(t, 'the-old-key')
  const { process, url } = await serve(t, ['--api-key', KEY, '--api-keys-file', path])
  const valid = async () => {
    const statuses = ['the-old-key', 'the-new-key', KEY].map((key) => statusWith({ url }, key))
    return (await Promise.all(statuses)).join()
  }
  assert.equal(await valid(), '200,401,200')
  const damages: [damage: () => void, why: string][] = [
    [() => writeFileSync(path, 'the-new-key\nshort'), 'one key a line: line 2 must be 8 to 256'],
    [() => writeFileSync(path, '# none\n'), 'must hold at least one key'],
    [() => writeFileSync(path, Buffer.of(0xff)), 'must be a file of UTF-8 text'],
    [() => rmSync(path), 'must be a file .* ENOENT'],
  ]
  for (const [damage, why] of damages) {
    damage()
    process.emit('SIGHUP')
    assert.equal(await valid(), '200,401,200')
    await process.stdout.until(new RegExp(`"level":"error","message":"the API keys stay as they were: .*${why}`))
  }
  writeFileSync(path, 'the-new-key # since today\n')
  process.emit('SIGHUP')
  assert.equal(await valid(), '401,200,200')
  await process.stdout.until(/"level":"info","message":"[^"]*read again; valid keys: 2"/)
  await send({ url }, 'GET', '/v1/pets/the-new-key')
  await process.stdout.until(/"path":"\/v1\/pets\/\[key\]"/)
  assert.ok(!process.stdout.text.includes('the-new-key'))
})

for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  for (const moment of ['before it listens', 'stdout', 'stderr'] as const) {
    test(`${signal} ends it with 0 ${moment.startsWith('std') ? `as soon as ${moment} can be read` : moment}`, async (t) => {
      const process = new FakeProcess()
      if (moment !== 'before it listens') process[moment].once('written', () => process.emit(signal))
      const status = main(['--api-key', KEY], { PORT: '0' }, process)
      if (moment === 'before it listens') process.emit(signal)
      t.after(() => process.emit(signal))
      assert.equal(await status, 0)
    })
  }

  test(`${signal} lets a request in flight be answered, and waits for no idle connection; snapshot and log are whole`, async (t) => {
    const snapshot = `${folderOf(t)}/pets.json`
    const petstore = await serve(t, ['--api-key', KEY, '--drain', '86400', '--snapshot', snapshot])
    const unused = new RawConnection(t, petstore)
    const idle = new RawConnection(t, petstore)
    await idle.write('OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n')
    assert.equal((await idle.read()).status, 204)
    const busy = await open(t, petstore, postHead(REX.length, 'Expect: 100-continue'))
    await assertNext(busy, 100)
    petstore.process.emit(signal)
    await Promise.all([idle.closed, unused.closed])
    await busy.write(REX)
    const { body } = await assertLast(busy, 201)
    for (const { socket } of [idle, unused]) socket.end()
    assert.equal(await petstore.status, 0)
    assert.equal(petstore.process.stderr.text, greetingOf(petstore.url))
    assert.equal(readFileSync(snapshot, 'utf8'), `[\n${body}\n]\n`)
    const logged = [...petstore.process.stdout.text.matchAll(/"status":(\d+)/g)].map(([, status]) => status)
    assert.deepEqual(logged, ['204', '201'])
  })

  for (const [drain, delay, ...signals] of [
    ['0', '0', signal],
    ['86400', '0', 'SIGTERM', signal],
    ['86400', '86400', 'SIGTERM', 'SIGINT', signal],
  ] as const) {
    test(`${signals.join(' and ')} with --drain ${drain} --drain-delay ${delay} cut off what is in flight: it says so, and exits 1`, async (t) => {
      const petstore = await serve(t, ['--api-key', KEY, '--drain', drain, '--drain-delay', delay])
      const busy = await begin(t, petstore)
      for (const one of signals) petstore.process.emit(one)
      assert.equal(await petstore.status, 1)
      await busy.closed
      assert.match(petstore.process.stderr.text, /\npetstore-server: requests in flight that were cut off: 1\n$/)
      const lines = petstore.process.stdout.text.split('\n').map((line) => line.slice(line.indexOf('"level"')))
      assert.deepEqual(lines.slice(-4), [
        `"level":"info","message":"${signals[0]} received: --drain-delay ${delay}, --drain ${drain}"}`,
        '"level":"error","message":"requests in flight that were cut off: 1"}',
        '"level":"info","message":"ends with exit status 1"}',
        '',
      ])
    })
  }
}

test('it warns once when pets take four fifths of --max-store, with and without a snapshot', async (t) => {
  const body = '{"name":"Rex","categoryId":9223372036854775807}' // counted as 154 bytes
  for (const flags of [[], ['--snapshot', `${folderOf(t)}/pets.json`]]) {
    const petstore = await serve(t, ['--api-key', KEY, '--max-store', '1540', ...flags])
    const statuses: number[] = []
    for (let count = 1; count <= 9; count++) {
      statuses.push((await send(petstore, 'POST', '/v1/pets', { body })).status)
      if (count === 7) petstore.process.stdout.write('seven\n')
    }
    assert.deepEqual(new Set(statuses), new Set([201]))
    petstore.process.emit('SIGTERM')
    assert.equal(await petstore.status, 0)
    const warned =
      /seven\n[^]*"level":"warn","message":"pets take 80 % of the 1540 bytes of the store, beyond which .* 507"/
    assert.match(petstore.process.stdout.text, warned)
    assert.equal(petstore.process.stdout.text.split('"warn"').length, 2)
  }
})

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const PETSTORE = [process.execPath, '--import', 'tsx', 'src/main.ts', '--port', '0']
const SHELL = `exec ${PETSTORE.map((word) => `'${word}'`).join(' ')}`
const lacks = (command: string) => spawnSync('sh', ['-c', `command -v ${command}`]).status !== 0 && `no ${command} here`

/** A process that runs; the end of the test kills it. */
class Program {
  url = ''
  readonly process: ChildProcess
  readonly stdout: FakeStream = new FakeStream()
  readonly stderr: FakeStream = new FakeStream()
  /** The exit status, or the signal that ended it. */
  readonly ended: Promise<unknown>

  constructor(t: TestContext, [command = '', ...args]: readonly string[]) {
    const env = Object.entries(process.env).filter(([name]) => !/^(?:PORT|HOST|PETSTORE_\w+)$/.test(name))
    const child = spawn(command, args, { cwd: ROOT, env: Object.fromEntries(env) })
    for (const name of ['stdout', 'stderr'] as const) {
      child[name].setEncoding('utf8').on('data', (text) => this[name].write(text, () => {}))
    }
    this.process = child
    this.ended = once(child, 'close').then(([code, signal]) => code ?? signal)
    t.after(async () => {
      child.kill('SIGKILL')
      await this.ended
    })
  }

  /** Resolves once it has greeted. */
  async serves(): Promise<this> {
    this.url = await greeted(this.ended, this.stdout, this.stderr)
    return this
  }
}

/** Starts the executable, and waits for its greeting, which stands on standard error: the log is JSON here. */
function launch(t: TestContext, args = ['--api-key', KEY]): Promise<Program> {
  return new Program(t, [...PETSTORE, ...args]).serves()
}

describe('the process', { concurrency: 2 }, () => {
  test('prints a curl line that works as it stands, and ends by SIGINT', { skip: lacks('curl') }, async (t) => {
    const server = await launch(t, [])
    const [, line = ''] = await server.stderr.until(/^ +(curl .*)\n/m)
    const curl = new Program(t, ['sh', '-c', line])
    assert.equal(await curl.ended, 0)
    assert.match(curl.stdout.text, /^HTTP\/1\.1 200 OK\r\n[^]*\r\n\r\n\[\]$/)
    server.process.kill('SIGINT')
    assert.equal(await server.ended, 0)
  })

  const stripsTypes = 'typescript' in process.features && process.features.typescript !== false
  test('runs by node alone, which strips the types, and exits 2 for a bad flag', { skip: !stripsTypes }, async (t) => {
    const program = new Program(t, [process.execPath, 'src/main.ts', '--prot'])
    assert.equal(await program.ended, 2)
    assert.match(program.stderr.text, /^petstore-server: .*--prot.*; see --help\n$/)
  })

  test('serves on where its standard output is closed, says once that the log has ended, and exits 0', async (t) => {
    const server = await launch(t)
    server.process.stdout?.destroy()
    for (let count = 0; count < 5; count++) assert.equal(await statusWith(server, KEY), 200)
    server.process.kill('SIGTERM')
    assert.equal(await server.ended, 0)
    assert.equal(server.stderr.text, `${greetingOf(server.url)}petstore-server: the log has ended: write EPIPE\n`)
  })

  test(
    'drops what a full disk does not take of its log, and counts it once there is room',
    { skip: lacks('prlimit') },
    async (t) => {
      const file = `${folderOf(t)}/log`
      const server = await new Program(t, ['sh', '-c', `${SHELL} --api-key ${KEY} > '${file}'`]).serves()
      const limit = (bytes: string) => spawnSync('prlimit', [`--fsize=${bytes}:`, '--pid', `${server.process.pid}`])
      assert.equal(limit('4096').status, 0)
      for (let count = 0; count < 60; count++) assert.equal(await statusWith(server, KEY), 200)
      limit('unlimited')
      assert.equal(await statusWith(server, KEY), 200)
      server.process.kill('SIGTERM')
      assert.equal(await server.ended, 0)
      const [before = '', after = ''] = readFileSync(file, 'utf8').split(/\n(?=[^\n]*\n[^\n]* lines were dropped)/)
      const [request, warning] = after.split('\n').map((line) => (line === '' ? line : JSON.parse(line)))
      const [, dropped] = /^(\d+) lines were dropped: EFBIG/.exec(warning.message) ?? []
      const kept = before.split('\n').length - 2 // the first tells of the start, the last is cut off
      assert.deepEqual([request.status, kept + Number(dropped)], [200, 59])
    },
  )

  test('loses no line of its log where the reader stalls until the end', async (t) => {
    const server = await launch(t)
    const agent = new Agent({ keepAlive: true, maxSockets: 4 })
    t.after(() => agent.destroy())
    server.process.stdout?.pause()
    const headers = { 'x-forwarded-for': 'x'.repeat(4_000) } // 2 MB in all: more than any pipe takes
    const paths = Array.from({ length: 500 }, (_, at) => `/v1/pets/${at}`)
    await Promise.all(paths.map((path) => send(server, 'GET', path, { agent, headers })))
    server.process.kill('SIGTERM')
    server.process.stdout?.resume()
    assert.equal(await server.ended, 0)
    const logged = [...server.stdout.text.matchAll(/^\{.*"path":"(.*?)".*\}$/gm)].map(([, path]) => path)
    assert.deepEqual(logged.sort(), paths.sort())
  })

  test('by SIGTERM fails /readyz and serves on for --drain-delay, which a second signal ends; SIGHUP does nothing', async (t) => {
    const server = await launch(t, ['--api-key', KEY, '--drain-delay', '86400'])
    server.process.kill('SIGHUP')
    await server.stdout.until(/"level":"info","message":"SIGHUP: there is no file of API keys to read again"/)
    const statusOf = async (path: string) => (await send(server, 'GET', path)).status
    assert.deepEqual([await statusOf('/readyz'), await statusOf('/v1/pets')], [200, 200])
    server.process.kill('SIGTERM')
    while ((await statusOf('/readyz')) === 200);
    const agent = new Agent({ keepAlive: true })
    t.after(() => agent.destroy())
    for (let count = 0; count < 3; count++) {
      assert.deepEqual(
        [await statusOf('/readyz'), await statusOf('/livez'), await statusOf('/v1/pets')],
        [503, 200, 200],
      )
      const { status, headers } = await send(server, 'GET', '/v1/pets', { agent })
      assert.deepEqual([status, headers.connection], [200, 'keep-alive'])
    }
    server.process.kill('SIGTERM')
    assert.equal(await server.ended, 0)
  })

  test('drains by itself when --drain-delay is over', async (t) => {
    const server = await launch(t, ['--api-key', KEY, '--drain-delay', '1'])
    server.process.kill('SIGTERM')
    assert.equal(await server.ended, 0)
  })

  test('reads a file of keys that is a pipe, which gives its text only once', async (t) => {
    const script = `${SHELL} --api-keys-file /dev/fd/3 3<<END\n${KEY}\nEND\n`
    assert.equal(await statusWith(await new Program(t, ['sh', '-c', script]).serves(), KEY), 200)
  })

  test('logs as text on a terminal, and ends by Ctrl-C', { skip: lacks('script') }, async (t) => {
    const program = new Program(t, ['script', '-qec', `${SHELL} --api-key ${KEY}`, '/dev/null'])
    assert.equal(await statusWith(await program.serves(), KEY), 200)
    await program.stdout.until(TEXT_LINE)
    program.process.stdin?.write('\u0003')
    assert.equal(await program.ended, 0)
  })

  test('exits 1 when a rejection is not caught, told and logged with its stack', async (t) => {
    const mistake = `process.on('SIGUSR2', () => { Promise.reject(new Error('a mistake')) })`
    const [node = '', ...rest] = PETSTORE
    const flags = ['--import', `data:text/javascript,${encodeURIComponent(mistake)}`, ...rest]
    const server = await new Program(t, [node, ...flags, '--api-key', KEY]).serves()
    server.process.kill('SIGUSR2')
    assert.equal(await server.ended, 1)
    assert.match(server.stderr.text, /^petstore-server: uncaught: Error: a mistake\n +at /m)
    const logged = /"level":"error","message":"uncaught: Error: a mistake\\n +at .*\n.*"ends with exit status 1"\}\n$/
    assert.match(server.stdout.text, logged)
  })
})
