// Flags and variables: what each does, which one wins, and what is refused.
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { Agent } from 'node:http'
import { join } from 'node:path'
import { describe, test, type TestContext } from 'node:test'
import { EXECUTABLE, launch, run, type Server } from '../process.ts'
import { send, start, temporaryFolder } from '../support.ts'
import { type Environment, runMain } from './executable.ts'

const KEYS = ['first-key', 'second-key', 'third-key', 'a'.repeat(256)] as const
const REX = '{"name":"Rex","categoryId":9223372036854775807}'
const NO_INTEGERS = ['+5', '5x', '0x5', '1e2', '5.0', ' 5', '-1', '٥']

interface Row {
  readonly flag: string
  readonly variable: string
  readonly right: readonly string[]
  readonly mustBe: RegExp
  readonly wrong: readonly string[]
}

function row(
  flag: string,
  variable: string,
  right: readonly string[],
  mustBe: RegExp,
  wrong: readonly string[],
): Row {
  return { flag, variable, right, mustBe, wrong }
}

const NO_SECONDS = [...NO_INTEGERS, '86401']
const ROWS: readonly Row[] = [
  row('port', 'PORT', [], /integer from 0 to 65535/, [...NO_INTEGERS, '65536']),
  row('host', 'HOST', ['127.0.0.1'], /host name/, ['[::1]', 'http://localhost']),
  row('base-path', 'PETSTORE_BASE_PATH', ['/a/b-1'], /path/, ['v1', '/v1/', '/', '/a b']),
  row('api-key', 'PETSTORE_API_KEYS', ['8.-_~+/=', KEYS[3]], /8 to 256/, [
    '1234567',
    'b'.repeat(257),
    'first-key,',
    'my first key',
  ]),
  row('api-keys-file', 'PETSTORE_API_KEYS_FILE', [], /file/, ['/no/file', __dirname]),
  row('seed', 'PETSTORE_SEED', [], /array of pets/, ['/no/file', __dirname]),
  row('max-store', 'PETSTORE_MAX_STORE', ['1', '64k', '2m'], /1 to \d+/, [
    ...NO_INTEGERS,
    ...['0', '0k', '1.5m', '64kb', '1 k', '1t', 'k', '1025g'],
  ]),
  row('log', 'PETSTORE_LOG', ['text', 'json', 'off'], /text, json/, ['JSON', 'text,json']),
  row('keep-alive', 'PETSTORE_KEEP_ALIVE', ['1', '86400'], /1 to 86400/, [...NO_SECONDS, '0']),
  row('drain', 'PETSTORE_DRAIN', ['0', '86400'], /0 to 86400/, NO_SECONDS),
  row('drain-delay', 'PETSTORE_DRAIN_DELAY', ['0', '86400'], /0 to 86400/, NO_SECONDS),
  row('control-port', 'PETSTORE_CONTROL_PORT', ['0'], /0 to 65535/, [...NO_INTEGERS, '65536']),
]
const SWITCHES = ['PETSTORE_DEMO', 'PETSTORE_CORS']
const VARIABLES = [
  ...ROWS.map(({ variable }) => variable),
  ...SWITCHES,
  'PETSTORE_SNAPSHOT',
  'PETSTORE_STORE',
]

/** The variable of a port in use: what is accepted by mistake fails, and does not start. */
async function usedPort(t: TestContext): Promise<Environment> {
  const { url } = await start(t)
  return { PORT: new URL(url).port }
}

test('a bad value exits 2, and a line names its source, the value and what it must be', async (t) => {
  const used = await usedPort(t)
  for (const { flag, variable, mustBe, wrong } of ROWS) {
    for (const text of wrong) {
      for (const [source, ended] of [
        [`--${flag}`, await runMain(t, [`--${flag}=${text}`], used)],
        [variable, await runMain(t, [], { ...used, [variable]: text })],
      ] as const) {
        const { status, stdout, stderr } = ended
        assert.deepEqual([status, stdout], [2, ''], `${source} ${text}`)
        assert.match(stderr, /^.+\n$/)
        assert.ok(stderr.includes(`${source} `), stderr)
        assert.match(stderr, mustBe)
        assert.equal(stderr.includes(text), flag !== 'api-key', stderr)
      }
    }
  }
})

test('a good value is accepted', async (t) => {
  const used = await usedPort(t)
  const variables = SWITCHES.flatMap((variable) => {
    return ['1', 'true', '0', 'false'].map((text) => ({ [variable]: text }))
  })
  const values = ROWS.flatMap(({ variable, right }) => right.map((text) => ({ [variable]: text })))
  for (const env of [...values, ...variables]) {
    const { status, stderr } = await runMain(t, [], { ...used, ...env })
    assert.equal(status, 1, stderr) // the port is in use
  }
})

test('a switch takes nothing else in its variable, and no value as a flag', async (t) => {
  const used = await usedPort(t)
  for (const variable of SWITCHES) {
    for (const text of ['2', 'on', ' 1', 'TRUE']) {
      const { status, stderr } = await runMain(t, [], { ...used, [variable]: text })
      assert.equal(status, 2)
      assert.ok(stderr.includes(`${variable} ${JSON.stringify(text)} must be`), stderr)
    }
  }
  assert.equal((await runMain(t, ['--demo=1'], used)).status, 2)
})

test('a file of keys or a seed that cannot be used exits 2, and no key is shown', async (t) => {
  const used = await usedPort(t)
  const folder = temporaryFolder(t)
  for (const [flag, content] of [
    ['api-keys-file', ''],
    ['api-keys-file', '# a-secret-key\n\n'],
    ['api-keys-file', 'a-secret-key\nsecret\n'],
    ['api-keys-file', 'a-secret-key another-secret'],
    ['seed', '[{"name":"Rex"}]'],
    ['seed', `[{"id":2,${REX.slice(1)},{"id":1,${REX.slice(1)}]`],
    ['seed', `[{"id":1,${REX.slice(1)},${REX}]`],
    ['seed', REX],
    ['seed', '[] []'],
    ['seed', Buffer.of(0x5b, 0x22, 0xff, 0x22, 0x5d)],
  ] as const) {
    const file = join(folder, 'file')
    writeFileSync(file, content)
    const { status, stderr } = await runMain(t, [`--${flag}`, file], used)
    assert.deepEqual([status, stderr.includes('secret')], [2, false], stderr)
    assert.ok(stderr.includes(`--${flag} `) && stderr.includes(file), stderr)
  }
  writeFileSync(join(folder, 'file'), 'a-secret-key\nsecret\n')
  const { stderr } = await runMain(t, ['--api-keys-file', join(folder, 'file')], used)
  assert.match(stderr, /line 2\b/)
})

test('an unknown flag, an argument and a missing value are refused, with --help', async (t) => {
  const used = await usedPort(t)
  for (const [named, ...args] of [
    ['--prot', '--help', '--prot'],
    ['--api-kye', '--api-kye=a-secret-key'],
    ['--no-demo', '--no-demo'],
    ['-p', '-p', '80'],
    ['--port', '--port'],
    ['--port', '--port', '--demo'],
    ['must follow its flag', 'serve', '--demo'],
    ['must follow its flag', '--api-key', 'a-secret-key', 'another-secret-key'],
  ] as const) {
    const { status, stdout, stderr } = await runMain(t, args, used)
    assert.deepEqual([status, stdout], [2, ''])
    assert.match(stderr, /^.*--help.*\n$/)
    assert.ok(stderr.includes(named) && !stderr.includes('secret'), stderr)
  }
})

test('--help and --version print and exit 0, whatever else is set', async (t) => {
  const { version } = JSON.parse(readFileSync('package.json', 'utf8'))
  const { stdout: help } = await runMain(t, ['--help'])
  for (const { flag, variable } of ROWS) {
    assert.match(help, new RegExp(`--${flag} \\S+ +${variable}\\n`))
  }
  for (const [stdout, ...args] of [
    [help, '-h', '--port', 'x'],
    [`${version}\n`, '-v', '--healthcheck'],
    [`${version}\n`, '--version', '--snapshot', '/no/no'],
  ] as const) {
    const ended = await runMain(t, args, { PETSTORE_DEMO: '?' })
    assert.deepEqual(ended, { status: 0, stdout, stderr: '' })
  }
})

/** Checks the effect of each option, with the values below. */
async function assertConfigured(t: TestContext, server: Server, snapshot: string): Promise<void> {
  const { pathname: base } = new URL(server.url)
  const path = `${base.replace(/\/$/, '')}/pets`
  const ask = (method: string, key: string, body = '') => {
    const headers = { authorization: `Bearer ${key}`, origin: 'https://a.example' }
    return send(server, method, path, { headers, body, agent })
  }
  const agent = new Agent({ keepAlive: true })
  t.after(() => agent.destroy())
  for (const key of KEYS) {
    const { status, headers } = await ask('GET', key)
    assert.equal(status, 200)
    assert.equal(headers['access-control-allow-origin'], 'https://a.example')
    assert.equal(headers['keep-alive'], 'timeout=9')
  }
  const large = JSON.stringify({ name: 'x'.repeat(4_000), categoryId: 1 })
  assert.equal((await ask('POST', KEYS[0], large)).status, 507)
  assert.equal((await ask('POST', KEYS[0], REX)).status, 201)
  assert.equal(JSON.parse(readFileSync(snapshot, 'utf8')).at(-1).name, 'Rex')
  const controls = { url: String(server.first['controlUrl']) }
  assert.equal((await send(controls, 'GET', '/faults')).body, '[]')
  assert.match(String(server.first['message']), /\b4\b/) // keys
  server.child.kill('SIGTERM')
  await server.stdout.until(/SIGTERM.*\b3 s.*\b7 s/)
  const written = server.stdout.text + server.stderr.text
  for (const key of KEYS) assert.ok(!written.includes(key))
}

describe('as a process', { concurrency: true }, () => {
  test('each flag does what it says, and wins over its variable', async (t) => {
    const folder = temporaryFolder(t)
    const [keys, seed, snapshot] = ['keys', 'seed', 'pets.json'].map((name) => join(folder, name))
    assert.ok(keys && seed && snapshot)
    writeFileSync(keys, `# Ann's\n\n ${KEYS[2]} # since May\r\n${KEYS[3]}\n`)
    writeFileSync(seed, `[{"id":7,${REX.slice(1)}]`)
    const flags = [
      ...['--port=0', '--host=0.0.0.0', '--control-port=0', '--base-path=', '--cors'],
      ...[`--api-key=${KEYS[0]}`, `--api-key=${KEYS[1]}`, `--api-keys-file=${keys}`],
      ...[`--seed=${seed}`, `--snapshot=${snapshot}`, '--max-store=3k'],
      ...['--keep-alive=9', '--drain=7', '--drain-delay=3'],
    ]
    const env = Object.fromEntries(ROWS.map(({ variable }) => [variable, '?']))
    const server = await launch(t, flags, { env })
    assert.match(String(server.first['message']), /\b0\.0\.0\.0:\d/)
    assert.match(server.url, /^http:\/\/127\.0\.0\.1:\d+\/?$/)
    const { body } = await send(server, 'GET', '/pets', {
      headers: { authorization: `Bearer ${KEYS[0]}` },
    })
    assert.equal(body, `[{"id":7,${REX.slice(1)}]`)
    await assertConfigured(t, server, snapshot)
  })

  test('each variable does the same', async (t) => {
    const folder = temporaryFolder(t)
    const [keys, snapshot] = [join(folder, 'keys'), join(folder, 'pets.json')]
    writeFileSync(keys, `${KEYS[2]}\n${KEYS[3]}`)
    const env: Environment = {
      HOST: '::',
      PETSTORE_BASE_PATH: '/shop/v2',
      PETSTORE_API_KEYS: `${KEYS[0]}, ${KEYS[1]}`,
      PETSTORE_API_KEYS_FILE: keys,
      PETSTORE_DEMO: 'true',
      PETSTORE_SNAPSHOT: snapshot,
      PETSTORE_CORS: '1',
      PETSTORE_MAX_STORE: '3072',
      PETSTORE_KEEP_ALIVE: '9',
      PETSTORE_DRAIN: '7',
      PETSTORE_DRAIN_DELAY: '3',
      PETSTORE_CONTROL_PORT: '0',
    }
    const server = await launch(t, [], { env })
    assert.match(server.url, /^http:\/\/127\.0\.0\.1:\d+\/shop\/v2$/)
    await assertConfigured(t, server, snapshot)
    assert.equal(JSON.parse(readFileSync(snapshot, 'utf8')).length, 13)
  })

  test('an empty variable is unset, and the greeting opens the page with a key', async (t) => {
    const empty = Object.fromEntries(VARIABLES.map((name) => [name, '']))
    const command = [...EXECUTABLE, '--log', 'text']
    const { child, stdout, stderr, status } = run(t, command, { ...empty, PORT: '0' })
    await stderr.until(/Ctrl-C.*\n/)
    const [, page = '', key = ''] = /(http:\S+\/)#key=(\S+)/.exec(stderr.text) ?? []
    const url = `${page}v1`
    assert.ok(stderr.text.includes(`curl -i -H "Authorization: Bearer ${key}" '${url}/pets'`))
    assert.match(stderr.text, new RegExp(`: ${url}$`, 'm'))
    assert.match(stdout.text, /^.* petstore-server .* 127\.0\.0\.1:\d/)
    const agent = new Agent({ keepAlive: true })
    t.after(() => agent.destroy())
    const headers = { authorization: `Bearer ${key}`, origin: 'https://a.example' }
    const list = await send({ url }, 'GET', '/v1/pets', { headers, agent })
    assert.deepEqual([list.status, list.body], [200, '[]'])
    assert.equal(list.headers['access-control-allow-origin'], undefined)
    assert.equal(list.headers['keep-alive'], 'timeout=75')
    assert.match((await send({ url: page }, 'GET', '/')).body, /^<!doctype html>/i)
    agent.destroy()
    child.kill('SIGTERM')
    assert.equal(await status, 0)
    assert.match(stdout.text, /SIGTERM.*\b8 s/)
    assert.match(stdout.text, /^\S+ info GET \/v1\/pets 200 /m)
  })
})
