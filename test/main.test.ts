import assert from 'node:assert/strict'
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { Agent } from 'node:http'
import { createServer } from 'node:net'
import { describe, test, type TestContext } from 'node:test'
import { fileURLToPath } from 'node:url'
import { folderOf, KEY, RawConnection, send, start, temporaryFile } from './support.ts'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const PETSTORE: readonly string[] = [process.execPath, '--import', 'tsx', 'src/main.ts']

/** The same as a command line for a shell. */
const COMMAND = PETSTORE.map((word) => `'${word}'`).join(' ')

/** This process's environment, without what would set the petstore up. */
function environment(): NodeJS.ProcessEnv {
  const ours = Object.entries(process.env).filter(([name]) => !/^(?:PORT|HOST|PETSTORE_\w+)$/.test(name))
  return { ...Object.fromEntries(ours), PORT: '0' }
}

/** One output of a child, which a test reads, stops reading, or waits on for a text. */
class Output {
  text = ''
  readonly #stream: NodeJS.ReadableStream
  #ended = false
  #wake = () => {}

  constructor(stream: NodeJS.ReadableStream) {
    this.#stream = stream
    stream.setEncoding('utf8')
    stream.on('data', (text: string) => {
      this.text += text
      this.#wake()
    })
    stream.on('end', () => {
      this.#ended = true
      this.#wake()
    })
  }

  stall(): void {
    this.#stream.pause()
  }

  resume(): void {
    this.#stream.resume()
  }

  /** Resolves with the match once the output holds one. */
  async until(pattern: RegExp): Promise<RegExpExecArray> {
    for (;;) {
      const match = pattern.exec(this.text)
      if (match !== null) return match
      assert.ok(!this.#ended, `the output ended after ${JSON.stringify(this.text)}`)
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
  }
}

interface Ended {
  /** The exit status, or the signal that ended the process. */
  status: number | string | null
  stdout: string
  stderr: string
}

/** A program that runs; the end of the test kills it. */
class Program {
  readonly process: ChildProcess
  readonly stdout: Output
  readonly stderr: Output
  /** Resolves when it has ended and all its output is read. */
  readonly ended: Promise<Ended>

  constructor(t: TestContext, [command = '', ...args]: readonly string[]) {
    const child = spawn(command, args, { cwd: ROOT, env: environment() })
    this.process = child
    this.stdout = new Output(child.stdout)
    this.stderr = new Output(child.stderr)
    this.ended = once(child, 'close').then(([code, signal]: (number | string | null)[]) => {
      return { status: code ?? signal ?? null, stdout: this.stdout.text, stderr: this.stderr.text }
    })
    t.after(async () => {
      child.kill('SIGKILL')
      await this.ended
    })
  }
}

interface Server extends Program {
  readonly url: string
}

/** Starts the executable, and waits for its greeting, which stands on standard error: the log is JSON here. */
async function serve(t: TestContext, args: readonly string[] = ['--api-key', KEY]): Promise<Server> {
  const program = new Program(t, [...PETSTORE, ...args])
  const [, url = ''] = await program.stderr.until(/ listens on (\S+)\n/)
  return Object.assign(program, { url })
}

/** The lines of a log, each a JSON object. */
function parseLines(text: string): object[] {
  assert.ok(text.endsWith('\n'))
  return text
    .trimEnd()
    .split('\n')
    .map((line) => {
      const value: unknown = JSON.parse(line)
      assert.ok(typeof value === 'object' && value !== null)
      return value
    })
}

function hasCommand(name: string): boolean {
  return spawnSync('sh', ['-c', `command -v ${name}`]).status === 0
}

/** Whether this node runs TypeScript as it stands. */
function stripsTypes(): boolean {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
  return major > 22 || (major === 22 && minor >= 18)
}

describe('the executable', { concurrency: 3 }, () => {
  test(
    'prints its address, a key, and a curl line that works as it stands',
    {
      skip: !hasCommand('curl') && 'there is no curl here',
    },
    async (t) => {
      const server = await serve(t, [])
      const [, line = ''] = await server.stderr.until(/^ +(curl .*)\n/m)
      const pasted = new Program(t, ['sh', '-c', line])
      const { status, stdout } = await pasted.ended
      assert.equal(status, 0)
      assert.match(stdout, /^HTTP\/1\.1 200 OK\r\n[^]*\r\n\r\n\[\]$/)
    },
  )

  test('begins with a dozen animals where --demo is given: of all three statuses, and one of none', async (t) => {
    const server = await serve(t, ['--api-key', KEY, '--demo'])
    const pets: unknown = JSON.parse((await send(server, 'GET', '/v1/pets')).body)
    assert.ok(Array.isArray(pets))
    assert.equal(pets.length, 12)
    const statuses = pets.map((pet: unknown) => {
      return typeof pet === 'object' && pet !== null && 'status' in pet ? pet.status : 'none'
    })
    assert.deepEqual(new Set(statuses), new Set(['available', 'pending', 'sold', 'none']))
    assert.equal(statuses.filter((status) => status === 'none').length, 1)
  })

  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    test(`exits 0 on a ${signal} that comes as soon as the address can be read`, async (t) => {
      const server = await serve(t)
      server.process.kill(signal)
      const { status, stdout, stderr } = await server.ended
      assert.equal(status, 0)
      assert.equal(parseLines(stdout).length, 1)
      assert.match(stderr, /^Petstore \S+ listens on \S+\n$/)
    })
  }

  test('exits 1 where the port is in use, with one line that says so', async (t) => {
    const { port } = new URL((await start(t)).url)
    assert.deepEqual(await new Program(t, [...PETSTORE, '--port', port]).ended, {
      status: 1,
      stdout: '',
      stderr: `petstore: Cannot listen on 127.0.0.1:${port}: the port is in use\n`,
    })
  })

  test('exits 2 for a bad flag, with one line that says why', async (t) => {
    assert.deepEqual(await new Program(t, [...PETSTORE, '--prot', '0']).ended, {
      status: 2,
      stdout: '',
      stderr: 'petstore: unknown flag --prot; did you mean --port?\n',
    })
  })

  test('exits 0 quietly where nobody reads its help', async (t) => {
    const pipeline = `{ ${COMMAND} --help; echo "$?" >&2; } | true`
    assert.deepEqual(await new Program(t, ['sh', '-c', pipeline]).ended, { status: 0, stdout: '', stderr: '0\n' })
  })

  test('runs by node alone, which strips the types', { skip: !stripsTypes() && 'this node does not' }, async (t) => {
    const { status, stdout } = await new Program(t, [process.execPath, 'src/main.ts', '--version']).ended
    assert.equal(status, 0)
    assert.match(stdout, /^\d+\.\d+\.\d+\n$/)
  })

  test('serves on where its standard output is closed, and exits 0', async (t) => {
    const server = await serve(t)
    server.process.stdout?.destroy()
    for (let count = 0; count < 5; count++) assert.equal((await send(server, 'GET', '/v1/pets')).status, 200)
    server.process.kill('SIGTERM')
    const { status, stderr } = await server.ended
    assert.equal(status, 0)
    assert.match(stderr, /^Petstore \S+ listens on \S+\n$/)
  })

  for (const reader of ['reads along', 'stalls until the end'] as const) {
    test(`answers and logs 500 requests whose log's reader ${reader}, and exits with no line lost`, async (t) => {
      const server = await serve(t)
      const agent = new Agent({ keepAlive: true, maxSockets: 4 })
      t.after(() => agent.destroy())
      if (reader !== 'reads along') server.stdout.stall()
      const headers = { 'x-forwarded-for': 'x'.repeat(4_000) } // 2 MB in all: more than any pipe takes
      const answers = await Promise.all(
        Array.from({ length: 500 }, (_, at) => send(server, 'GET', `/v1/pets/${at}`, { agent, headers })),
      )
      assert.ok(answers.every(({ status }) => status === 404))
      server.process.kill('SIGTERM')
      server.stdout.resume()
      const { status, stdout } = await server.ended
      assert.equal(status, 0)
      const requests = parseLines(stdout).flatMap((line) => ('path' in line ? [line.path] : []))
      assert.deepEqual(new Set(requests), new Set(answers.map((_, at) => `/v1/pets/${at}`)))
      assert.equal(requests.length, 500)
    })
  }

  test('ends, although the reader of its log has stalled for good', async (t) => {
    const server = await serve(t)
    server.stdout.stall()
    const headers = { 'x-forwarded-for': 'x'.repeat(15_000) }
    for (let count = 0; count < 100; count++) await send(server, 'GET', '/v1/pets', { headers })
    server.process.kill('SIGTERM')
    assert.deepEqual(await once(server.process, 'exit'), [0, null])
    server.stdout.resume()
  })

  test('reads its file of keys again on a SIGHUP; a bad file changes nothing and the log says so', async (t) => {
    const path = temporaryFile(t, 'the-old-key')
    const server = await serve(t, ['--api-keys-file', path])
    const statusWith = async (key: string) => {
      return (await send(server, 'GET', '/v1/pets', { headers: { authorization: `Bearer ${key}` } })).status
    }
    assert.equal(await statusWith('the-old-key'), 200)

    writeFileSync(path, 'the-new-key\n')
    server.process.kill('SIGHUP')
    await server.stdout.until(/read again; valid keys: 1/)
    assert.equal(await statusWith('the-new-key'), 200)
    assert.equal(await statusWith('the-old-key'), 401)

    writeFileSync(path, 'bad')
    server.process.kill('SIGHUP')
    await server.stdout.until(/the API keys stay as they were/)
    assert.equal(await statusWith('the-new-key'), 200)
  })

  test('reads a file of keys that is a pipe, which gives its text only once', async (t) => {
    const script = `exec ${COMMAND} --api-keys-file /dev/fd/3 3<<END\n${KEY}\nEND\n`
    const program = new Program(t, ['sh', '-c', script])
    const [, url = ''] = await program.stderr.until(/ listens on (\S+)\n/)
    assert.equal((await send({ url }, 'GET', '/v1/pets')).status, 200)
  })

  test(
    'logs as text on a terminal, and stops at once by Ctrl-C',
    {
      skip: !hasCommand('script') && 'there is no script (util-linux) here',
    },
    async (t) => {
      // A shell that stays between would be ended by Ctrl-C too, and its status told instead.
      const command = `exec ${COMMAND} --api-key ${KEY}`
      const program = new Program(t, ['script', '-qec', command, '/dev/null'])
      const [, url = ''] = await program.stdout.until(/^Petstore \S+ listens on (\S+)\r?\n/m)
      await send({ url }, 'GET', '/v1/pets')
      await program.stdout.until(/^\S+Z GET \/v1\/pets 200 \S+ ms 2 B operation=listPets remote=127\.0\.0\.1\r?\n/m)
      program.process.stdin?.write('\u0003')
      assert.equal((await program.ended).status, 0)
    },
  )

  test('shows no key in any line of its log, wherever the client sends it', async (t) => {
    const key = 'a+secret/key=='
    const server = await serve(t, ['--api-key', key, '--base-path', '/shop'])
    const encoded = encodeURIComponent(key)
    const headers = { authorization: `Bearer ${key}`, 'x-request-id': key, 'x-forwarded-for': `${key}, 127.0.0.1` }
    const paths = [
      key,
      encoded,
      `?api_key=${key}`,
      `?${key}`,
      `?${encoded}=1&${encoded}`,
      `${key}?a=b&c=${key}`,
      `%${key}`,
    ]
    for (const path of paths) {
      await send(server, 'GET', `/shop/pets/${path}`, { headers })
      await send(server, 'GET', `/${path}`, { headers: { ...headers, authorization: `Basic ${key}` } })
      await send(server, 'POST', `/shop/pets${path}`, { headers, body: `{"name":"${key}"` })
    }
    const broken = new RawConnection(t, server)
    await broken.write(`GET /${key} HTTP/1.1\r\nHost: x\r\nbroken ${key}\r\n\r\n`)
    assert.equal((await broken.read()).status, 400)
    broken.socket.end()
    server.process.kill('SIGTERM')
    const { status, stdout, stderr } = await server.ended
    assert.equal(status, 0)
    assert.equal(parseLines(stdout).length, 1 + 3 * paths.length + 1)
    for (const text of [stdout, stderr]) {
      assert.doesNotMatch(text, /secret/)
      assert.ok(!decodeURIComponent(text.replaceAll('%[key]', '')).includes(key))
    }
  })

  test('blots a key out of a request id too', async (t) => {
    const server = await serve(t)
    const headers = { 'x-request-id': `before-${KEY}-behind` }
    assert.equal((await send(server, 'GET', '/v1/pets', { headers })).headers['x-request-id'], headers['x-request-id'])
    await server.stdout.until(/"requestId":"before-\[key\]-behind"/)
    assert.ok(!server.stdout.text.includes(KEY))
  })
})

describe('the executable asked for its health', { concurrency: 3 }, () => {
  const check = (t: TestContext, env: readonly string[], ...args: string[]) =>
    new Program(t, ['env', ...env, ...PETSTORE, '--healthcheck', ...args]).ended

  test('exits 0 without a word where the server of the same configuration is ready', async (t) => {
    const { port } = new URL((await start(t, { basePath: '/shop' })).url)
    const well = { status: 0, stdout: '', stderr: '' }
    assert.deepEqual(await check(t, [], '--port', port), well)
    const env = [`PORT=${port}`, 'HOST=127.0.0.1', 'PETSTORE_BASE_PATH=/shop', 'PETSTORE_API_KEYS_FILE=/no']
    assert.deepEqual(await check(t, env), well)
  })

  test('exits 1 and says why where there is no server', async (t) => {
    const petstore = await start(t)
    const { port } = new URL(petstore.url)
    await petstore.close()
    assert.deepEqual(await check(t, [`PORT=${port}`]), {
      status: 1,
      stdout: '',
      stderr: `petstore: not ready: http://127.0.0.1:${port}/readyz: connect ECONNREFUSED 127.0.0.1:${port}\n`,
    })
  })

  test('exits 1 where the server never answers', { timeout: 60_000 }, async (t) => {
    const silent = createServer((socket) => t.after(() => socket.destroy())).listen(0, '127.0.0.1')
    t.after(() => silent.close())
    await once(silent, 'listening')
    const address = silent.address()
    assert.ok(typeof address === 'object' && address !== null)
    const { status, stderr } = await check(t, [], '--port', String(address.port))
    assert.equal(status, 1)
    assert.match(stderr, /^petstore: not ready: \S+: .*(?:abort|timeout)/)
  })
})

describe('an error that nothing caught', { concurrency: 3 }, () => {
  /** The executable with a mistake in it, which a SIGUSR2 brings to light. */
  function mistaken(mistake: string): string[] {
    const code = `process.on('SIGUSR2', () => { ${mistake} })`
    const [node = '', ...rest] = PETSTORE
    return [node, '--import', `data:text/javascript,${encodeURIComponent(code)}`, ...rest, '--api-key', KEY]
  }

  const mistakes: readonly [what: string, mistake: string, shown: RegExp][] = [
    ['thrown', `throw new Error('a mistake')`, /uncaught: Error: a mistake\\?\n +at /],
    ['rejected', `Promise.reject(new Error('a mistake'))`, /uncaught: Error: a mistake\\?\n +at /],
    ['thrown and no Error', `throw 'a mistake'`, /uncaught: a mistake/],
  ]
  for (const [what, mistake, shown] of mistakes) {
    for (const log of ['json', 'text', 'off']) {
      test(`that is ${what} ends the process with 1, is logged as ${log} and told on standard error`, async (t) => {
        const program = new Program(t, [...mistaken(mistake), '--log', log])
        await (log === 'json' ? program.stderr : program.stdout).until(/ listens on (\S+)\n/)
        program.process.kill('SIGUSR2')
        const { status, stdout, stderr } = await program.ended
        assert.equal(status, 1)
        assert.match(stderr, new RegExp(`^petstore: ${shown.source}`, 'm'))
        if (log === 'off') assert.match(stdout, /^Petstore .*\n$/)
        if (log === 'text') assert.match(stdout, new RegExp(`Z error: ${shown.source}`))
        if (log !== 'json') return
        const last = parseLines(stdout).at(-1)
        assert.ok(last !== undefined && 'level' in last && 'message' in last)
        assert.equal(last.level, 'error')
        assert.match(String(last.message), shown)
      })
    }
  }

  test('leaves every animal that was acknowledged in the snapshot, which the next process uses', async (t) => {
    const snapshot = `${folderOf(t)}/pets.json`
    const program = new Program(t, [...mistaken(`throw new Error('a mistake')`), '--snapshot', snapshot])
    const [, url = ''] = await program.stderr.until(/ listens on (\S+)\n/)
    const acknowledged: unknown[] = []
    const agent = new Agent({ keepAlive: true })
    t.after(() => agent.destroy())
    const clients = Array.from({ length: 8 }, async (_, at) => {
      for (;;) {
        const body = JSON.stringify({ name: 'x'.repeat(100), categoryId: at })
        const answer = await send({ url }, 'POST', '/v1/pets', { agent, body }).catch(() => undefined)
        if (answer === undefined) return
        acknowledged.push(JSON.parse(answer.body))
        if (acknowledged.length === 500) program.process.kill('SIGUSR2')
      }
    })
    assert.equal((await program.ended).status, 1)
    await Promise.all(clients)
    assert.ok(acknowledged.length >= 500)
    const { pets } = await start(t, { snapshot })
    const kept = new Set(pets.map((pet) => JSON.stringify(pet)))
    for (const pet of acknowledged) assert.ok(kept.has(JSON.stringify(pet)))
  })
})
