// The executable: what it prints and logs, how it starts, is signalled and ends.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { Agent } from 'node:http'
import { createServer as createNetServer } from 'node:net'
import { networkInterfaces } from 'node:os'
import { pid } from 'node:process'
import { describe, test, type TestContext } from 'node:test'
import { main } from '../src/cli.ts'
import { DEFAULTS } from '../src/options.ts'
import { type Ended, FakeProcess, run, serve } from './executable.ts'
import { listen, open, postHead, REX } from './http/raw.ts'
import { Running } from './process.ts'
import { assertLast, assertNext, check, send, start } from './support.ts'
import { AUTHORIZATION, folderOf, KEY, temporaryFile } from './support.ts'

const { version }: { version: string } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'))

const hasNoIpv6 = Object.values(networkInterfaces()).every((some) => some?.every(({ address }) => address !== '::1'))
const portOf = ({ url }: { url: string }) => new URL(url).port
const failure = (line: string): Ended => ({ status: 1, stdout: '', stderr: `petstore-server: ${line}\n` })
const greetingOf = (url: string) => `Petstore ${version} listens on ${url}\n`

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
})

const noFolder = (path: string) => `${path} must be in a folder that exists, and that this user may write to`

test('what cannot be opened is named and told why in words, and the exit status is 1', async (t) => {
  const inUse = portOf(await start(t))
  const snapshot = `${folderOf(t)}/none/pets.json`
  for (const [why, ...args] of [
    [`Cannot listen on 127.0.0.1:${inUse}: the port is in use`, '--port', inUse],
    [`Cannot listen on 127.0.0.1:${inUse}: the port is in use`, '--control-port', inUse],
    ['Cannot listen on 192.0.2.1:0: this machine does not have the address', '--host', '192.0.2.1'],
    ['Cannot listen on none.invalid:0: the host name is unknown', '--host', 'none.invalid'],
    [noFolder(snapshot), '--snapshot', snapshot],
  ] as const) {
    assert.deepEqual(await run(['--port', '0', ...args]), failure(why))
  }
})

const isRoot = process.getuid?.() === 0 && existsSync('/proc/sys/net/ipv4/ip_unprivileged_port_start')

test('what this user may not do is said in words', { skip: !isRoot && 'only root can be another user' }, async (t) => {
  const snapshot = `${folderOf(t)}/pets.json` // in a folder of root's own
  t.after(() => process.seteuid?.(0))
  process.seteuid?.(65_534)
  assert.deepEqual(await run(['--port', '0', '--snapshot', snapshot]), failure(noFolder(snapshot)))
  const port = failure('Cannot listen on 127.0.0.1:1: this user may not listen on the port')
  assert.deepEqual(await run(['--port', '1']), port)
})

test('the greeting on a terminal has a generated key that works, or none of its own, and the page if there is one', async (t) => {
  const { process, url } = await serve(t, ['--no-page'], { isTTY: true })
  const [, key = ''] = await process.stdout.until(/^ {2}API key, generated .*: ([\w-]{32})$/m)
  assert.deepEqual([await statusWith({ url }, key), await statusWith({ url }, `${key.slice(1)}A`)], [200, 401])
  assert.ok(process.stdout.text.startsWith(greetingOf(url)))
  const snapshot = `${folderOf(t)}/pets.json`
  const other = await serve(t, ['--api-key', KEY, '--snapshot', snapshot], { isTTY: true })
  const { text } = other.process.stdout
  assert.ok(text.startsWith(`Open ${new URL('/', other.url)}\n\n${greetingOf(other.url)}`), text)
  assert.ok(text.includes(`\n    curl -i -H "Authorization: Bearer $KEY" ${other.url}/pets\n`), text)
  assert.ok(text.includes(`\nPets in ${snapshot}: 0. `) && !text.includes(KEY) && !text.includes(key), text)
})

const isReady: Ended = { status: 0, stdout: '', stderr: '' }
const ready = (port: string, ...args: string[]) => run(['--healthcheck', '--port', port, ...args])

for (const [host, asked, shown] of [
  ['127.0.0.1', 'localhost', '127.0.0.1'],
  ['0.0.0.0', '0.0.0.0', '127.0.0.1'],
  ['::1', '::1', '[::1]'],
  ['::', '::', '[::1]'],
] as const) {
  const skip = host.includes(':') && hasNoIpv6
  test(`what listens on ${host} is where the greeting says, and ready until its end`, { skip }, async (t) => {
    const flags = `--host ${host} --api-key ${KEY} --control-port 0 --control-host ${host} --base-path /shop`
    const { process, url, status } = await serve(t, flags.split(' '))
    const [, control = ''] = await process.stderr.until(/test controls.* on (http:\S+)\n/)
    for (const one of [url, control]) assert.ok(one.startsWith(`http://${shown}:`), one)
    assert.equal((await fetch(`${control}/requests`)).status, 200)
    assert.equal((await fetch(`${url}/pets`, { headers: { authorization: AUTHORIZATION } })).status, 200)
    const { text } = process.stdout
    const port = portOf({ url })
    assert.ok(text.includes(` listens on http://${host.includes(':') ? `[${host}]` : host}:${port}/shop: `))
    const isOpen = /"level":"warn","message":"the test controls on \S+ need no key, and other machines may reach them"/
    assert.equal(isOpen.test(text), host === '0.0.0.0' || host === '::')
    assert.deepEqual(await ready(port, '--host', asked), isReady)
    process.emit('SIGTERM')
    await status
    const ended = await ready(port, '--host', asked)
    const line = `petstore-server: not ready: http://${asked === 'localhost' ? asked : shown}:${port}/readyz: `
    assert.deepEqual([ended.status, ended.stdout], [1, ''])
    assert.ok(ended.stderr.startsWith(line) && ended.stderr.includes('ECONNREFUSED'), ended.stderr)
  })
}

const TEXT_LINE = /^\S+Z GET \/v1\/pets 200 \S+ ms 2 B operation=listPets remote=127\.0\.0\.1\r?$/m

for (const [log, isTTY, ...args] of [
  ['text', true],
  ['json', false],
  ['text', false, '--log', 'text'],
  ['json', true, '--log', 'json'],
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
    if (log === 'off') assert.equal(stdout.text, greetingOf(url))
    const start = `petstore-server ${version}, process ${pid}, listens on ${url}: valid keys: 1, pets in memory: 0`
    const first = `${start}, --max-store ${DEFAULTS.maxStore}, --max-connections 10000`
    const messages = [first, undefined, 'SIGTERM received: --drain-delay 0, --drain 8', 'ends with exit status 0']
    const lines = stdout.text.split('\n').filter((line) => /^(?:20\d\d|\{)/.test(line))
    assert.equal(lines.length, log === 'off' ? 0 : messages.length)
    for (const [at, line] of lines.entries()) {
      if (log === 'json') assert.deepEqual([JSON.parse(line).level, JSON.parse(line).message], ['info', messages[at]])
      else if (at === 1) assert.match(line, TEXT_LINE)
      else assert.ok(line.endsWith(` info: ${messages[at]}`), line)
    }
  })
}

describe('--healthcheck', () => {
  test('reads no other setting: a bad one, or a file that is missing, does not matter', async (t) => {
    const bad = ['--api-keys-file', '/no', '--seed', '/no', '--max-body', 'x', '--api-key', 'short', '--base-path', '/']
    const PORT = portOf(await start(t))
    const env = { PORT, PETSTORE_DEMO: '?', PETSTORE_DRAIN: 'x', PETSTORE_API_KEYS_FILE: '/no' }
    assert.deepEqual(await run(['--healthcheck', ...bad, '--snapshot', '/no/no'], env), isReady)
    assert.match((await ready('x')).stderr, /^petstore-server: --port "x" must be an integer from 0 to 65535\n$/)
    assert.match((await ready('1', '--prot')).stderr, /--prot.*; see --help\n$/)
    assert.match((await ready('0')).stderr, /^petstore-server: not ready: http:\/\/127\.0\.0\.1:0\/readyz: .*port 0/)
  })

  test('exits 1 where no 200 comes, shows what came, and gives up on a server that never ends', async (t) => {
    for (const [response, shown, drips = ''] of [
      ['503 No\r\nContent-Length: 4\r\n\r\nnone', '503 none'],
      ['302 No\r\nContent-Length: 0\r\nLocation: /livez\r\n\r\n', '302 '],
      ['204 No\r\n\r\n', '204 '],
      ['503 No\r\nContent-Length: 99999\r\n\r\n', '.*aborted.*', 'no '],
      ['', '.*aborted.*'],
    ] as const) {
      const server = createNetServer((socket) => {
        socket.on('error', () => {}).write(`HTTP/1.1 ${response}`)
        const timer = setInterval(() => socket.write(drips), 10)
        socket.once('close', () => clearInterval(timer))
        t.after(() => socket.destroy())
      })
      const url = await listen(t, server)
      const { status, stderr } = await ready(portOf({ url }))
      assert.equal(status, 1, response)
      assert.match(stderr, new RegExp(`^petstore-server: not ready: ${url}/readyz: ${shown}\n$`))
    }
  })
})

test('what nothing caught ends it with 1, is told and logged, even where it is nothing', async (t) => {
  const { process, status } = await serve(t, ['--api-key', KEY, '--log', 'text'])
  process.emit('uncaughtException', undefined)
  assert.equal(await status, 1)
  assert.match(process.stderr.text, /^petstore-server: uncaught: undefined$/m)
  assert.match(process.stdout.text, /Z error: uncaught: undefined$/m)
})

test('SIGHUP reads the file of keys again, beside those of --api-key; a bad file changes nothing and says so', async (t) => {
  const path = temporaryFile(t, 'the-old-key')
  const { process, url } = await serve(t, ['--api-key', KEY, '--api-keys-file', path])
  const keys = ['the-old-key', 'the-new-key', KEY]
  const valid = async () => (await Promise.all(keys.map((key) => statusWith({ url }, key)))).join()
  assert.equal(await valid(), '200,401,200')
  const damages: [damage: () => void, why: string][] = [
    [() => writeFileSync(path, 'the-new-key\nshort'), 'one key a line: line 2 must be 8 to 256'],
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

  test(`${signal} lets a request in flight be answered; snapshot and log are whole`, async (t) => {
    const snapshot = `${folderOf(t)}/pets.json`
    const petstore = await serve(t, ['--api-key', KEY, '--drain', '86400', '--snapshot', snapshot])
    const busy = await open(t, petstore, postHead(REX.length, 'Expect: 100-continue'))
    await assertNext(busy, 100)
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
    ['86400', '86400', 'SIGTERM', 'SIGINT', signal],
  ] as const) {
    test(`${signals.join(' and ')} with --drain ${drain} --drain-delay ${delay} cut off what is in flight: it says so, and exits 1`, async (t) => {
      const petstore = await serve(t, ['--api-key', KEY, '--drain', drain, '--drain-delay', delay])
      const busy = await open(t, petstore, postHead(2, 'Expect: 100-continue'))
      await assertNext(busy, 100)
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
    const { stdout } = petstore.process
    for (let count = 1; count <= 9; count++) {
      await check(petstore, 'POST', '/v1/pets', 201, { body })
      if (count === 7) stdout.write('seven\n')
    }
    petstore.process.emit('SIGTERM')
    assert.equal(await petstore.status, 0)
    assert.match(stdout.text, /seven\n[^]*"level":"warn","message":"pets take 80 % of the 1540 bytes .* 507"/)
    assert.equal(stdout.text.split('"warn"').length, 2)
  }
})

const PETSTORE = [process.execPath, '--import', 'tsx', 'src/main.ts', '--port', '0']
const SHELL = `exec ${PETSTORE.map((word) => `'${word}'`).join(' ')}`
const lacks = (command: string) => spawnSync('sh', ['-c', `command -v ${command}`]).status !== 0 && `no ${command} here`

function runProgram(t: TestContext, command: readonly string[]): Running {
  const program = new Running(command)
  t.after(async () => {
    program.process.kill('SIGKILL')
    await program.exited
  })
  return program
}

/** Starts the executable, and waits for its greeting, which stands on standard error: the log is JSON here. */
const launch = (t: TestContext, args = ['--api-key', KEY]) => runProgram(t, [...PETSTORE, ...args]).serves()

async function end({ process, exited }: Running, signal: NodeJS.Signals = 'SIGTERM'): Promise<number | null> {
  process.kill(signal)
  return (await exited).status
}

describe('the process', { concurrency: 2 }, () => {
  test('prints a curl line that works as it stands, and ends by SIGINT', { skip: lacks('curl') }, async (t) => {
    const server = await launch(t, [])
    const [, line = ''] = await server.stderr.until(/^ +(curl .*)\n/m)
    const { status, stdout } = await runProgram(t, ['sh', '-c', line]).exited
    assert.equal(status, 0)
    assert.match(stdout, /^HTTP\/1\.1 200 OK\r\n[^]*\r\n\r\n\[\]$/)
    assert.equal(await end(server, 'SIGINT'), 0)
  })

  const stripsTypes = 'typescript' in process.features && process.features.typescript !== false
  test('runs by node alone, which strips the types, and exits 2 for a bad flag', { skip: !stripsTypes }, async (t) => {
    const { status, stderr } = await runProgram(t, [process.execPath, 'src/main.ts', '--prot']).exited
    assert.equal(status, 2)
    assert.match(stderr, /^petstore-server: .*--prot.*; see --help\n$/)
  })

  test('serves on where its standard output is closed, says once that the log has ended, and exits 0', async (t) => {
    const server = await launch(t)
    server.process.stdout?.destroy()
    for (let count = 0; count < 5; count++) assert.equal(await statusWith(server, KEY), 200)
    assert.equal(await end(server), 0)
    assert.equal(server.stderr.text, `${greetingOf(server.url)}petstore-server: the log has ended: write EPIPE\n`)
  })

  const skip = lacks('prlimit')
  test('drops what a full disk does not take of its log, and counts it once there is room', { skip }, async (t) => {
    const file = `${folderOf(t)}/log`
    const server = await runProgram(t, ['sh', '-c', `${SHELL} --api-key ${KEY} > '${file}'`]).serves()
    const limit = (bytes: string) => spawnSync('prlimit', [`--fsize=${bytes}:`, '--pid', `${server.process.pid}`])
    assert.equal(limit('4096').status, 0)
    for (let count = 0; count < 60; count++) assert.equal(await statusWith(server, KEY), 200)
    limit('unlimited')
    assert.equal(await statusWith(server, KEY), 200)
    assert.equal(await end(server), 0)
    const [before = '', after = ''] = readFileSync(file, 'utf8').split(/\n(?=[^\n]*\n[^\n]* lines were dropped)/)
    const [request, warning] = after.split('\n').map((line) => (line === '' ? line : JSON.parse(line)))
    const [, dropped] = /^(\d+) lines were dropped: EFBIG/.exec(warning.message) ?? []
    const kept = before.split('\n').length - 2 // the first tells of the start, the last is cut off
    assert.deepEqual([request.status, kept + Number(dropped)], [200, 59])
  })

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
    const { status, stdout } = await server.exited
    assert.equal(status, 0)
    const logged = [...stdout.matchAll(/^\{.*"path":"(.*?)".*\}$/gm)].map(([, path]) => path)
    assert.deepEqual(logged.sort(), paths.sort())
  })

  test('by SIGTERM fails /readyz and serves on for --drain-delay, which a second signal ends; SIGHUP does nothing', async (t) => {
    const server = await launch(t, ['--api-key', KEY, '--drain-delay', '86400'])
    const statusOf = async (path: string) => (await send(server, 'GET', path)).status
    server.process.kill('SIGHUP')
    await server.stdout.until(/"level":"info","message":"SIGHUP: there is no file of API keys to read again"/)
    assert.deepEqual([await statusOf('/readyz'), await statusOf('/v1/pets')], [200, 200])
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

  test('drains by itself when --drain-delay is over', async (t) => {
    assert.equal(await end(await launch(t, ['--api-key', KEY, '--drain-delay', '1'])), 0)
  })

  test('reads a file of keys that is a pipe, which gives its text only once', async (t) => {
    const script = `${SHELL} --api-keys-file /dev/fd/3 3<<END\n${KEY}\nEND\n`
    assert.equal(await statusWith(await runProgram(t, ['sh', '-c', script]).serves(), KEY), 200)
  })

  test('logs as text on a terminal, and ends by Ctrl-C', { skip: lacks('script') }, async (t) => {
    const program = runProgram(t, ['script', '-qec', `${SHELL} --api-key ${KEY}`, '/dev/null'])
    assert.equal(await statusWith(await program.serves(), KEY), 200)
    await program.stdout.until(TEXT_LINE)
    program.process.stdin?.write('\u0003')
    assert.equal((await program.exited).status, 0)
  })

  test('exits 1 when a rejection is not caught, told and logged with its stack', async (t) => {
    const mistake = `process.on('SIGUSR2', () => { Promise.reject(new Error('a mistake')) })`
    const [node = '', ...rest] = PETSTORE
    const flags = ['--import', `data:text/javascript,${encodeURIComponent(mistake)}`, ...rest]
    const server = await runProgram(t, [node, ...flags, '--api-key', KEY]).serves()
    assert.equal(await end(server, 'SIGUSR2'), 1)
    assert.match(server.stderr.text, /^petstore-server: uncaught: Error: a mistake\n +at /m)
    const logged = /"level":"error","message":"uncaught: Error: a mistake\\n +at .*\n.*"ends with exit status 1"\}\n$/
    assert.match(server.stdout.text, logged)
  })
})
