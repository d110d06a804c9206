import assert from 'node:assert/strict'
import dns from 'node:dns'
import { EventEmitter, once } from 'node:events'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { createServer as createNetServer, type Server, Socket } from 'node:net'
import { networkInterfaces } from 'node:os'
import { describe, test, type TestContext } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { VERSION } from '../src/version.ts'
import { main } from '../src/cli.ts'
import { HELP } from '../src/config.ts'
import { startPetstore } from '../src/petstore.ts'
import { AUTHORIZATION, FakeStream, KEY, RawConnection, send, start, temporaryFile } from './support.ts'

/** What `main` sees of a process: its streams, and its signals as events. */
class FakeProcess extends EventEmitter {
  readonly stdout = new FakeStream()
  readonly stderr = new FakeStream()
}

interface Serving {
  process: FakeProcess
  /** The base address, as the greeting names it. */
  url: string
  /** The exit status, once there is one. */
  status: Promise<number>
}

const GREETING = /^Petstore \S+ listens on (\S+)\n/m

/** Runs `main` until it has greeted; the end of the test stops it. */
async function serve(t: TestContext, args: readonly string[] = ['--api-key', KEY], isTTY = false): Promise<Serving> {
  const process = new FakeProcess()
  process.stdout.isTTY = isTTY
  const status = main(args, { PORT: '0' }, process)
  t.after(async () => {
    process.emit('SIGTERM')
    process.emit('SIGTERM') // the second one waits for nothing
    await status
  })
  const [, url = ''] = await Promise.race([process.stdout.until(GREETING), process.stderr.until(GREETING)])
  await turn() // listeners that come too late fail a test of their own, and hang none
  return { process, url, status }
}

interface Ended {
  status: number
  stdout: string
  stderr: string
}

/** Runs `main` to its end. */
async function run(args: readonly string[], env: Record<string, string> = {}): Promise<Ended> {
  const process = new FakeProcess()
  const status = await main(args, env, process)
  return { status, stdout: process.stdout.text, stderr: process.stderr.text }
}

/** Sends listPets with this key. */
async function statusWith(petstore: { url: string }, key: string): Promise<number> {
  const { status } = await send(petstore, 'GET', '/v1/pets', { headers: { authorization: `Bearer ${key}` } })
  return status
}

/** A connection with a request in flight: its head is read, its body of two bytes is still to come. */
async function begin(t: TestContext, petstore: { url: string }): Promise<RawConnection> {
  const connection = new RawConnection(t, petstore)
  const lines = [
    'POST /v1/pets HTTP/1.1',
    'Host: x',
    `Authorization: ${AUTHORIZATION}`,
    'Content-Length: 2',
    'Expect: 100-continue',
  ]
  await connection.write(`${lines.join('\r\n')}\r\n\r\n`)
  assert.equal((await connection.read()).status, 100)
  return connection
}

/** Lets a server listen until the end of the test; resolves to its port. */
async function listen(t: TestContext, server: Server): Promise<string> {
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.after(() => server.close())
  const address = server.address()
  assert.ok(typeof address === 'object' && address !== null)
  return String(address.port)
}

const hasIpv6 = Object.values(networkInterfaces()).some((one) => one?.some(({ address }) => address === '::1'))

describe('main() that only prints', () => {
  test('prints the help and exits 0', async () => {
    assert.deepEqual(await run(['--help']), { status: 0, stdout: HELP, stderr: '' })
  })

  test('prints the version, which is that of package.json, and exits 0', async () => {
    assert.deepEqual(await run(['--version']), { status: 0, stdout: `${VERSION}\n`, stderr: '' })
    const manifest: unknown = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'))
    assert.ok(typeof manifest === 'object' && manifest !== null && 'version' in manifest)
    assert.equal(manifest.version, VERSION)
  })

  test('exits 0 too where nobody reads on', async () => {
    const process = new FakeProcess()
    const status = main(['--help'], {}, process)
    process.stdout.emit('error', new Error('EPIPE'))
    assert.equal(await status, 0)
  })
})

describe('main() that cannot start', () => {
  const misuses: readonly [what: string, args: string[], env: Record<string, string>, line: string][] = [
    ['an unknown flag', ['--prot', '1'], {}, 'unknown flag --prot; did you mean --port?'],
    ['a bad flag', ['--port', '65536'], {}, '--port "65536" must be an integer from 0 to 65535'],
    ['a bad variable', [], { PORT: 'x' }, 'PORT "x" must be an integer from 0 to 65535'],
    ['an argument', ['serve'], {}, 'unexpected argument "serve"'],
  ]
  for (const [what, args, env, line] of misuses) {
    test(`exits 2 for ${what}, with one line that says why`, async () => {
      assert.deepEqual(await run(args, env), { status: 2, stdout: '', stderr: `petstore: ${line}\n` })
    })
  }

  test('exits 1 where the port is in use, with one line that says so', async (t) => {
    const { port } = new URL((await start(t)).url)
    assert.deepEqual(await run(['--port', port]), {
      status: 1,
      stdout: '',
      stderr: `petstore: Cannot listen on 127.0.0.1:${port}: the port is in use\n`,
    })
  })

  test('exits 1 where the address is not one of this machine, with one line that says so', async () => {
    const { status, stdout, stderr } = await run(['--port', '0', '--host', '192.0.2.1'])
    assert.equal(status, 1)
    assert.equal(stdout, '')
    assert.match(stderr, /^petstore: Cannot listen on 192\.0\.2\.1:0: .*EADDRNOTAVAIL.*\n$/)
  })

  test('exits 1 where the animals do not fit into the store', async () => {
    const { status, stderr } = await run(['--port', '0', '--demo', '--max-store', '100'])
    assert.equal(status, 1)
    assert.match(stderr, /^petstore: .*\b12 animals\b.* do not fit into 100 bytes.*\n$/)
  })

  test('exits 1 and tells what was thrown, also where that is no Error', async () => {
    const process = new FakeProcess()
    Object.defineProperty(process.stdout, 'isTTY', {
      get() {
        throw 'a mistake'
      },
    })
    assert.equal(await main(['--port', '0'], {}, process), 1)
    assert.equal(process.stderr.text, 'petstore: a mistake\n')
  })
})

describe('the greeting', () => {
  test('names the address, a generated key, and a curl line with both', async (t) => {
    const { process, url } = await serve(t, [], true)
    const [, key = ''] = await process.stdout.until(/^ {2}API key, generated and valid until the server stops: (\S+)$/m)
    assert.match(key, /^[\w-]{32}$/)
    assert.ok(process.stdout.text.includes(`\n    curl -i -H 'Authorization: Bearer ${key}' ${url}/pets\n`))
    assert.equal(await statusWith({ url }, key), 200)
    assert.equal(await statusWith({ url }, `${key.slice(1)}A`), 401)
  })

  test('shows another key at every start', async (t) => {
    const greetings = await Promise.all(['first', 'second'].map(() => serve(t, [], true)))
    const [first, second] = greetings.map(({ process }) => /Bearer (\S+)'/.exec(process.stdout.text)?.[1])
    assert.ok(first)
    assert.ok(second)
    assert.notEqual(first, second)
  })

  for (const [what, args] of [
    ['by flag', ['--api-key', KEY]],
    ['by file', ['--api-keys-file', '']],
  ] as const) {
    test(`shows no key that was given ${what}`, async (t) => {
      const given = args.map((arg) => (arg === '' ? temporaryFile(t, KEY) : arg))
      const { process, url } = await serve(t, given)
      assert.equal(process.stderr.text, `Petstore ${VERSION} listens on ${url}\n`)
      assert.ok(!process.stdout.text.includes(KEY))
      assert.equal(await statusWith({ url }, KEY), 200)
    })
  }

  const hosts: readonly [host: string, shown: string][] = [
    ['127.0.0.1', '127.0.0.1'],
    ['0.0.0.0', '127.0.0.1'],
    ['::1', '[::1]'],
    ['::', '[::1]'],
  ]
  for (const [host, shown] of hosts) {
    const skip = host.includes(':') && !hasIpv6 && 'there is no IPv6 here'
    test(`names an address that works where the server listens on ${host}`, { skip }, async (t) => {
      const { url } = await serve(t, ['--host', host, '--api-key', KEY])
      assert.match(url, /^http:\/\/(?:127\.0\.0\.1|\[::1\]):\d+\/v1$/)
      assert.ok(url.startsWith(`http://${shown}:`))
      const response = await fetch(`${url}/pets`, { headers: { authorization: AUTHORIZATION } })
      assert.equal(await response.text(), '[]')
    })
  }
})

describe('the log', () => {
  const GREETS = /^Petstore .* listens on /
  const TEXT = /^\S+Z GET \/v1\/pets 200 \S+ ms 2 B operation=listPets remote=127\.0\.0\.1$/m
  const JSON_LINES = /^(\{.*\}\n){2}$/

  interface Case {
    args: string[]
    isTTY: boolean
    log: 'text' | 'json' | 'off'
  }
  const cases: readonly Case[] = [
    { args: [], isTTY: true, log: 'text' },
    { args: [], isTTY: false, log: 'json' },
    { args: ['--log', 'text'], isTTY: false, log: 'text' },
    { args: ['--log', 'json'], isTTY: true, log: 'json' },
    { args: ['--log', 'off'], isTTY: true, log: 'off' },
    { args: ['--log', 'off'], isTTY: false, log: 'off' },
  ]
  for (const { args, isTTY, log } of cases) {
    test(`is ${log} ${isTTY ? 'on a terminal' : 'elsewhere'} with ${args.join(' ') || 'no flag'}`, async (t) => {
      const { process, url, status } = await serve(t, ['--api-key', KEY, ...args], isTTY)
      await send({ url }, 'GET', '/v1/pets')
      process.emit('SIGTERM')
      assert.equal(await status, 0)
      const { stdout, stderr } = process
      assert.match(log === 'json' ? stderr.text : stdout.text, GREETS)
      if (log === 'text') assert.match(stdout.text, TEXT)
      if (log === 'json') assert.match(stdout.text, JSON_LINES)
      if (log === 'off') assert.equal(stdout.text, `Petstore ${VERSION} listens on ${url}\n`)
      if (log !== 'json') assert.equal(stderr.text, '')
    })
  }

  test('in JSON is JSON from its first line, which names the address', async (t) => {
    const { process, url } = await serve(t)
    const [line] = await process.stdout.until(/^.*\n/)
    const event: unknown = JSON.parse(line)
    assert.ok(typeof event === 'object' && event !== null && 'time' in event)
    assert.deepEqual(event, { time: event.time, level: 'info', message: `listening on ${url}` })
  })

  test('that nobody reads on stops nothing', async (t) => {
    const { process, url, status } = await serve(t)
    for (const stream of [process.stdout, process.stderr]) stream.emit('error', new Error('EPIPE'))
    assert.equal(await statusWith({ url }, KEY), 200)
    process.emit('SIGTERM')
    assert.equal(await status, 0)
  })
})

describe('the settings', () => {
  test('--api-key given twice makes both keys valid', async (t) => {
    const { url } = await serve(t, ['--api-key', 'first-key', '--api-key', 'second-key'])
    assert.equal(await statusWith({ url }, 'first-key'), 200)
    assert.equal(await statusWith({ url }, 'second-key'), 200)
    assert.equal(await statusWith({ url }, 'third-key'), 401)
  })

  const REX = '{"name":"Rex","categoryId":9223372036854775807}'

  const cases: readonly [args: string[], method: 'GET' | 'POST', path: string, status: number, body: RegExp][] = [
    [[], 'GET', '/', 200, /<!doctype html>/],
    [['--no-page'], 'GET', '/', 404, /not_found/],
    [['--base-path', '/shop/v2'], 'GET', '/shop/v2/pets', 200, /^\[\]$/],
    [['--base-path', '/shop/v2'], 'GET', '/v1/pets', 404, /not_found/],
    [['--get-pet', 'gone', '--demo'], 'GET', '/v1/pets/1', 410, /gone/],
    [['--demo'], 'GET', '/v1/pets/12', 200, /^\{"id":12,"name":"[^"]+","categoryId":\d+\}$/],
    [['--demo'], 'GET', '/v1/pets/13', 404, /not_found/],
    [['--max-body', '47'], 'POST', '/v1/pets', 201, /"categoryId":9223372036854775807/],
    [['--max-body', '46'], 'POST', '/v1/pets', 413, /content_too_large/],
    [['--max-store', '54'], 'POST', '/v1/pets', 201, /"id":1/],
    [['--max-store', '53'], 'POST', '/v1/pets', 507, /store_full/],
  ]
  for (const [args, method, path, status, body] of cases) {
    test(`${args.join(' ') || 'none'} make ${method} ${path} answer ${status}`, async (t) => {
      const petstore = await serve(t, ['--api-key', KEY, ...args])
      const answer = await send(petstore, method, path, method === 'POST' ? { body: REX } : {})
      assert.equal(answer.status, status)
      assert.match(answer.body, body)
    })
  }

  test('--seed begins with the animals of a file, exact, and wins over --demo', async (t) => {
    const path = temporaryFile(t, `[${REX}]`)
    const petstore = await serve(t, ['--api-key', KEY, '--demo', '--seed', path])
    assert.equal((await send(petstore, 'GET', '/v1/pets')).body, `[{"id":1,${REX.slice(1)}]`)
  })

  test('--keep-alive tells the client how long an idle connection is kept', async (t) => {
    const { url } = await serve(t, ['--api-key', KEY, '--keep-alive', '7'])
    const response = await fetch(`${url}/pets`, { headers: { authorization: AUTHORIZATION } })
    assert.equal(response.headers.get('keep-alive'), 'timeout=7')
    await response.text()
  })

  test('--max-connections closes further connections at once', async (t) => {
    const petstore = await serve(t, ['--api-key', KEY, '--max-connections', '1'])
    const held = await begin(t, petstore)
    await new RawConnection(t, petstore).closed
    await held.write('{}')
    assert.equal((await held.read()).status, 400)
  })
})

describe('the settings --cors and --control-port', () => {
  test('--cors lets the scripts of an origin call', async (t) => {
    for (const [given, allowed] of [
      [['--cors', 'https://shop.example'], 'https://shop.example'],
      [['--cors', '*'], '*'],
      [[], undefined],
    ] as const) {
      const petstore = await serve(t, ['--api-key', KEY, ...given])
      const { headers } = await send(petstore, 'GET', '/v1/pets', { headers: { origin: 'https://shop.example' } })
      assert.equal(headers['access-control-allow-origin'], allowed)
    }
  })

  const CONTROLS = /^Its test controls, for whoever can reach them, listen on (http:\S+)\n/m

  for (const [host, shown] of [
    [undefined, '127.0.0.1'],
    ['0.0.0.0', '127.0.0.1'],
    ['::1', '[::1]'],
  ] as const) {
    const skip = host === '::1' && !hasIpv6 && 'there is no IPv6 here'
    const given = host === undefined ? [] : ['--control-host', host]
    test(
      `--control-port ${given.join(' ')} is greeted with a second address, on which the controls answer`,
      { skip },
      async (t) => {
        const { process, url } = await serve(t, ['--api-key', KEY, '--demo', '--control-port', '0', ...given])
        const [greeting, control = ''] = await process.stderr.until(CONTROLS)
        assert.equal(process.stderr.text, `Petstore ${VERSION} listens on ${url}\n${greeting}`)
        assert.match(control, /^http:\/\/(?:127\.0\.0\.1|\[::1\]):\d+$/)
        assert.ok(control.startsWith(`http://${shown}:`))
        assert.notEqual(new URL(control).port, new URL(url).port)
        await send({ url }, 'GET', '/v1/pets')
        const requests: unknown = await (await fetch(`${control}/requests`)).json()
        assert.ok(Array.isArray(requests) && requests.length === 1)
        const headers = { 'content-type': 'application/json' }
        assert.equal((await fetch(`${control}/reset`, { method: 'POST', headers, body: '[]' })).status, 204)
        assert.equal((await send({ url }, 'GET', '/v1/pets')).body, '[]')
        for (const path of ['/reset', '/requests', '/faults'])
          assert.equal((await send({ url }, 'GET', path)).status, 404)
      },
    )
  }

  test('no second address is greeted without --control-port', async (t) => {
    const { process } = await serve(t, ['--api-key', KEY, '--control-host', '127.0.0.1'])
    assert.doesNotMatch(process.stderr.text, CONTROLS)
  })

  test('a control port that is in use, or that of the API, is named by the line that says so; nothing stays open', async (t) => {
    const inUse = new URL((await start(t)).url).port
    const petstore = await startPetstore()
    const free = new URL(petstore.url).port
    await petstore.close()
    for (const [port, controlPort] of [
      [free, inUse],
      [free, free],
      [inUse, free],
    ] as const) {
      assert.deepEqual(await run(['--port', port, '--control-port', controlPort]), {
        status: 1,
        stdout: '',
        stderr: `petstore: Cannot listen on 127.0.0.1:${port === free ? controlPort : port}: the port is in use\n`,
      })
    }
    await (await startPetstore({ port: Number(free) })).close()
  })
})

describe('--healthcheck', () => {
  const portOf = ({ url }: { url: string }) => new URL(url).port

  test('exits 0 without a word where the server is ready, whatever else is set', async (t) => {
    const port = portOf(await start(t, { basePath: '/shop/v2' }))
    const well = { status: 0, stdout: '', stderr: '' }
    assert.deepEqual(await run(['--healthcheck', '--port', port]), well)
    assert.deepEqual(await run(['--healthcheck'], { PORT: port }), well)
    assert.deepEqual(await run(['--port', port, '--healthcheck'], { PORT: '1', HOST: '127.0.0.1' }), well)
    const bad = ['--api-keys-file', '/no', '--seed', '/no', '--max-body', 'x', '--api-key', 'short', '--base-path', '/']
    assert.deepEqual(
      await run(['--healthcheck', ...bad], { PORT: port, PETSTORE_DEMO: '?', PETSTORE_DRAIN: 'x' }),
      well,
    )
    assert.deepEqual(await run(['--healthcheck', '--control-port', port, '--snapshot', '/no/no'], { PORT: port }), well)
  })

  for (const [listening, asked, shown] of [
    ['0.0.0.0', '0.0.0.0', '127.0.0.1'],
    ['127.0.0.1', 'localhost', 'localhost'],
    ['::1', '::1', '[::1]'],
    ['::', '::', '[::1]'],
  ] as const) {
    const skip = listening.includes(':') && !hasIpv6 && 'there is no IPv6 here'
    test(`reaches a server that listens on ${listening} by --host ${asked}`, { skip }, async (t) => {
      const petstore = await start(t, { host: listening })
      const args = ['--healthcheck', '--port', portOf(petstore), '--host', asked]
      assert.deepEqual(await run(args), { status: 0, stdout: '', stderr: '' })
      await petstore.close()
      const { status, stderr } = await run(args)
      assert.equal(status, 1)
      assert.ok(stderr.startsWith(`petstore: not ready: http://${shown}:${portOf(petstore)}/readyz: `), stderr)
      assert.match(stderr, /ECONNREFUSED/)
    })
  }

  test('exits 1 and says why where the server is not ready', async (t) => {
    const path = temporaryFile(t, '')
    const petstore = await start(t, { snapshot: `${path}.json` })
    const ready = () => run(['--healthcheck', '--port', portOf(petstore)])
    rmSync(`${path}.json`)
    writeFileSync(`${path}.json`, 'something else')
    await assert.rejects(petstore.add({ name: 'Rex', categoryId: 1 }))
    const why = '{"code":"storage_failed","message":"The snapshot cannot be written","status":503}'
    const line = `petstore: not ready: http://127.0.0.1:${portOf(petstore)}/readyz: 503 ${why}\n`
    assert.deepEqual(await ready(), { status: 1, stdout: '', stderr: line })
    rmSync(`${path}.json`)
    assert.equal((await ready()).status, 0)
  })

  test('exits 1 where another server answers, and shows what', async (t) => {
    for (const [status, body] of [
      [404, 'nothing here'],
      [302, ''],
      [204, ''],
    ] as const) {
      const server = createServer((_, res) => res.writeHead(status, { location: '/livez' }).end(body))
      const port = await listen(t, server)
      const stderr = `petstore: not ready: http://127.0.0.1:${port}/readyz: ${status} ${body}\n`
      assert.deepEqual(await run(['--healthcheck', '--port', port]), { status: 1, stdout: '', stderr })
    }
  })

  test('exits 1 where nothing listens, and asks at no other port where that is 0', async (t) => {
    const port = portOf(await startPetstore().then(async (petstore) => (await petstore.close(), petstore)))
    assert.deepEqual(await run(['--healthcheck', '--port', port]), {
      status: 1,
      stdout: '',
      stderr: `petstore: not ready: http://127.0.0.1:${port}/readyz: connect ECONNREFUSED 127.0.0.1:${port}\n`,
    })
    const connected = t.mock.method(Socket.prototype, 'connect')
    assert.notEqual((await run(['--healthcheck', '--port', '0'])).status, 0)
    for (const { arguments: given } of connected.mock.calls) assert.doesNotMatch(JSON.stringify(given), /"port":80\b/)
  })

  test('says why also where a name has two addresses, and nothing listens on either', async (t) => {
    const lookup = (_host: string, _options: object, done: (error: null, addresses: object[]) => void) => {
      done(
        null,
        ['127.0.0.1', '127.0.0.2'].map((address) => ({ address, family: 4 })),
      )
    }
    const port = portOf(await startPetstore().then(async (petstore) => (await petstore.close(), petstore)))
    t.mock.method(dns, 'lookup', lookup)
    const { status, stderr } = await run(['--healthcheck', '--port', port, '--host', 'pets.example'])
    assert.equal(status, 1)
    assert.match(stderr, /^petstore: not ready: http:\/\/pets\.example:\d+\/readyz: .*ECONNREFUSED.*\n$/)
  })

  const SILENT: Record<string, (socket: Socket) => void> = {
    'never answers': () => {},
    'never ends its head': (socket) => socket.write('HTTP/1.1 200 OK\r\n'),
    'never ends its body': (socket) => socket.write('HTTP/1.1 503 No\r\nContent-Length: 9\r\n\r\nnot'),
    'sends on and on': (socket) => {
      socket.write('HTTP/1.1 503 No\r\n\r\n')
      const timer = setInterval(() => socket.write('no '), 10)
      socket.once('close', () => clearInterval(timer))
    },
  }
  describe('gives up within seconds', { concurrency: true, timeout: 60_000 }, () => {
    for (const [what, answer] of Object.entries(SILENT)) {
      test(`on a server that ${what}`, async (t) => {
        const server = createNetServer((socket) => {
          socket.on('error', () => {})
          socket.once('data', () => answer(socket))
          t.after(() => socket.destroy())
        })
        const port = await listen(t, server)
        const { status, stderr } = await run(['--healthcheck', '--port', port])
        assert.equal(status, 1)
        assert.match(stderr, /^petstore: not ready: http:\/\/127\.0\.0\.1:\d+\/readyz: .+\n$/)
      })
    }
  })

  const misuses: readonly [args: string[], line: string][] = [
    [['--port', '65536'], '--port "65536" must be an integer from 0 to 65535'],
    [['--host', '[::1]'], '--host "[::1]" must be a host name or an IP address'],
    [['--prot', '1'], 'unknown flag --prot; did you mean --port?'],
    [['--healthcheck=1'], '--healthcheck "1" must be without a value'],
  ]
  for (const [args, line] of misuses) {
    test(`exits 2 with ${args.join(' ')}`, async () => {
      const ended = { status: 2, stdout: '', stderr: `petstore: ${line}\n` }
      assert.deepEqual(await run(['--healthcheck', ...args]), ended)
    })
  }
})

describe('an error that nothing caught', () => {
  const thrown: readonly [what: string, error: unknown, shown: string][] = [
    ['an Error', new Error('a mistake'), 'uncaught: Error: a mistake\n    at '],
    ['another value', 'a mistake', 'uncaught: a mistake'],
    ['nothing at all', undefined, 'uncaught: undefined'],
  ]
  for (const [what, error, shown] of thrown) {
    for (const log of ['json', 'text', 'off']) {
      test(`that is ${what} ends it with 1, is logged as ${log} and told on standard error`, async (t) => {
        const { process, status } = await serve(t, ['--api-key', KEY, '--log', log])
        process.emit('uncaughtException', error)
        assert.equal(await status, 1)
        assert.ok(process.stderr.text.includes(`petstore: ${shown}`))
        const line = process.stdout.text.slice(process.stdout.text.search(/^.*uncaught: /m))
        if (log === 'off') assert.doesNotMatch(process.stdout.text, /uncaught/)
        if (log === 'text') assert.match(line, /^\S+Z error: uncaught: /)
        if (log !== 'json') return
        const { level, message }: { level: string; message: string } = JSON.parse(line)
        assert.equal(level, 'error')
        assert.ok(message.startsWith(shown))
      })
    }
  }
})

describe('SIGHUP', () => {
  test('reads the file of keys again: the new ones and those of --api-key are valid, no others', async (t) => {
    const path = temporaryFile(t, 'the-old-key')
    const { process, url } = await serve(t, ['--api-key', KEY, '--api-keys-file', path])
    assert.equal(await statusWith({ url }, 'the-old-key'), 200)
    writeFileSync(path, 'the-new-key # since today\n')
    process.emit('SIGHUP')
    assert.equal(await statusWith({ url }, 'the-new-key'), 200)
    assert.equal(await statusWith({ url }, KEY), 200)
    assert.equal(await statusWith({ url }, 'the-old-key'), 401)
    await process.stdout.until(/"level":"info","message":"[^"]*read again; valid keys: 2"/)
    assert.ok(!process.stdout.text.includes('the-new-key'))
  })

  const bad: readonly [what: string, damage: (path: string) => void, why: RegExp][] = [
    [
      'holds a bad line',
      (path) => writeFileSync(path, 'the-new-key\nshort'),
      /one key a line: line 2 must be 8 to 256/,
    ],
    ['holds no key', (path) => writeFileSync(path, '# none\n'), /must hold at least one key/],
    ['holds what is not UTF-8', (path) => writeFileSync(path, Buffer.of(0xff)), /must be a file of UTF-8 text/],
    ['is gone', (path) => rmSync(path), /must be a file .* ENOENT/],
  ]
  for (const [what, damage, why] of bad) {
    test(`changes nothing where the file ${what}, and the log says so`, async (t) => {
      const path = temporaryFile(t, 'the-old-key')
      const { process, url } = await serve(t, ['--api-keys-file', path])
      damage(path)
      process.emit('SIGHUP')
      assert.equal(await statusWith({ url }, 'the-old-key'), 200)
      assert.equal(await statusWith({ url }, 'the-new-key'), 401)
      const [line] = await process.stdout.until(/.*"level":"error","message":"the API keys stay as they were: .*/)
      assert.match(line, why)
      assert.doesNotMatch(line, /the-new-key/)

      writeFileSync(path, 'the-new-key')
      process.emit('SIGHUP')
      assert.equal(await statusWith({ url }, 'the-new-key'), 200)
    })
  }

  test('is left to the system where no file of keys is given', async (t) => {
    const { process } = await serve(t)
    assert.equal(process.listenerCount('SIGHUP'), 0)
  })
})

test('a signal that comes before the server listens stops it as soon as it does', async () => {
  const process = new FakeProcess()
  const status = main(['--api-key', KEY, '--log', 'off'], { PORT: '0' }, process)
  process.emit('SIGTERM')
  assert.equal(await status, 0)
  assert.match(process.stdout.text, GREETING)
})

for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  describe(signal, () => {
    test('has its listener as soon as the address can be read', async (t) => {
      const process = new FakeProcess()
      let listeners = 0
      process.stderr.once('written', () => {
        listeners = process.listenerCount(signal)
      })
      const status = main(['--port', '0', '--api-key', KEY], {}, process)
      t.after(async () => {
        await turn()
        process.emit(signal)
      })
      await process.stderr.until(GREETING)
      process.emit(signal)
      assert.equal(listeners, 1)
      assert.equal(await status, 0)
    })

    test('exits 0, and waits for no idle connection', async (t) => {
      const petstore = await serve(t)
      const idle = new RawConnection(t, petstore)
      await idle.write('OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n')
      assert.equal((await idle.read()).status, 204)
      petstore.process.emit(signal)
      await idle.closed
      idle.socket.end()
      assert.equal(await petstore.status, 0)
      assert.equal(petstore.process.stderr.text, `Petstore ${VERSION} listens on ${petstore.url}\n`)
    })

    test('lets a request in flight be answered, and exits 0', async (t) => {
      const petstore = await serve(t, ['--api-key', KEY, '--drain', '86400'])
      const busy = await begin(t, petstore)
      petstore.process.emit(signal)
      await busy.write('{}')
      assert.equal((await busy.read()).status, 400)
      busy.socket.end()
      assert.equal(await petstore.status, 0)
    })

    test('cuts off what is in flight when --drain is over, says so, and exits 1', async (t) => {
      const petstore = await serve(t, ['--api-key', KEY, '--drain', '0'])
      const busy = await begin(t, petstore)
      petstore.process.emit(signal)
      assert.equal(await petstore.status, 1)
      await busy.closed
      assert.match(petstore.process.stderr.text, /\npetstore: requests in flight that were cut off: 1\n$/)
    })

    test('given twice does not wait for what is in flight', async (t) => {
      const petstore = await serve(t, ['--api-key', KEY, '--drain', '86400'])
      const busy = await begin(t, petstore)
      petstore.process.emit('SIGTERM')
      petstore.process.emit(signal)
      assert.equal(await petstore.status, 1)
      await busy.closed
    })
  })
}
