// Flags and variables: what each does, and which one wins.
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { Agent } from 'node:http'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { RawConnection, send, temporaryFolder } from '../support.ts'
import { type Environment, run, serve, type Serving, signal } from './executable.ts'

const KEYS = ['first-key', 'second-key', 'third-key', 'a'.repeat(256)] as const
const ORIGINS = ['https://a.example', 'http://b.example:81'] as const
const REX = '{"name":"Rex","categoryId":9223372036854775807}' // counted as 154 bytes

type Effect = (server: Serving) => Promise<unknown>

interface Setting {
  readonly flag: string
  readonly variable: string
  readonly values: readonly string[] // of repeated flags; in the variable, between commas
  readonly effect: Effect
}

function row(flag: string, variable: string, value: string, effect: Effect): Setting {
  return { flag, variable, values: [value], effect }
}

/** A request with the first key, under the base path `/shop/v2` by default. */
async function ask(
  server: { url: string },
  method: string,
  path: string,
  { body = '', headers = {} }: { body?: string; headers?: Record<string, string> } = {},
) {
  const sent = { body, headers: { authorization: `Bearer ${KEYS[0]}`, ...headers } }
  return send(server, method, new URL(server.url).pathname.replace(/\/$/, '') + path, sent)
}

function answers(status: number, method: string, path: string, body?: string): Effect {
  return async (server) => {
    const answer = await ask(server, method, path, body === undefined ? {} : { body })
    assert.equal(answer.status, status, `${method} ${path}: ${answer.body}`)
  }
}

async function acceptsAllKeys(server: Serving): Promise<void> {
  for (const key of KEYS) {
    const { status } = await ask(server, 'GET', '/pets', {
      headers: { authorization: `Bearer ${key}` },
    })
    assert.equal(status, 200, key)
  }
  assert.doesNotMatch(server.stdout.text + server.stderr.text, new RegExp(KEYS.join('|')))
}

async function allowsBothOrigins(server: Serving): Promise<void> {
  for (const origin of ORIGINS) {
    const { headers } = await ask(server, 'GET', '/pets', { headers: { origin } })
    assert.equal(headers['access-control-allow-origin'], origin)
  }
}

async function keepsConnections(server: Serving): Promise<void> {
  const agent = new Agent({ keepAlive: true })
  const { headers } = await send(server, 'GET', '/livez', { agent })
  agent.destroy()
  assert.equal(headers['keep-alive'], 'timeout=9')
}

async function offersControls({ stderr, stdout }: Serving): Promise<void> {
  const [, url = ''] = /^Its test controls listen on (\S+)$/m.exec(stdout.text + stderr.text) ?? []
  assert.equal((await send({ url }, 'GET', '/faults')).body, '[]')
}

/** Each setting with a value that is not its default. */
function settingsIn(t: TestContext): Setting[] {
  const folder = temporaryFolder(t)
  const path = (name: string): string => join(folder, name)
  writeFileSync(path('keys'), `# Ann's\n\n ${KEYS[2]} # since May\r\n${KEYS[3]}\n`)
  writeFileSync(path('seed'), `[{"id":7,${REX.slice(1)}]`)
  const all: Setting[] = [
    row('port', 'PORT', '0', async ({ url }) => assert.notEqual(new URL(url).port, '8080')),
    row('host', 'HOST', '127.0.0.2', async ({ url }) => assert.match(url, /\/127\.0\.0\.2:/)),
    row('base-path', 'PETSTORE_BASE_PATH', '/shop/v2', async ({ url }) => {
      assert.match(url, /\/shop\/v2$/)
    }),
    {
      flag: 'api-key',
      variable: 'PETSTORE_API_KEYS',
      values: KEYS.slice(0, 2),
      effect: acceptsAllKeys,
    },
    row('api-keys-file', 'PETSTORE_API_KEYS_FILE', path('keys'), acceptsAllKeys),
    row('seed', 'PETSTORE_SEED', path('seed'), async (server) => {
      assert.equal((await ask(server, 'GET', '/pets')).body, `[{"id":7,${REX.slice(1)}]`)
    }),
    row('snapshot', 'PETSTORE_SNAPSHOT', path('pets.json'), async () => {
      assert.match(readFileSync(path('pets.json'), 'utf8'), /^\[\n?\{"id":7,/)
    }),
    row('get-pet', 'PETSTORE_GET_PET', 'gone', answers(410, 'GET', '/pets/7')),
    row('strict', 'PETSTORE_STRICT', '', answers(400, 'GET', '/pets?statsu=sold')),
    { flag: 'cors', variable: 'PETSTORE_CORS', values: ORIGINS, effect: allowsBothOrigins },
    row('max-body', 'PETSTORE_MAX_BODY', '1k', async (server) => {
      await answers(400, 'POST', '/pets', ' '.repeat(1_024))(server)
      await answers(413, 'POST', '/pets', ' '.repeat(1_025))(server)
    }),
    row('max-store', 'PETSTORE_MAX_STORE', '309', async (server) => {
      await answers(201, 'POST', '/pets', REX)(server)
      await answers(507, 'POST', '/pets', REX)(server)
    }),
    row('log', 'PETSTORE_LOG', 'text', ({ stdout }) => stdout.until(/^\S+Z info GET \/shop\/v2/m)),
    row('keep-alive', 'PETSTORE_KEEP_ALIVE', '9', keepsConnections),
    row('control-port', 'PETSTORE_CONTROL_PORT', '0', offersControls),
    row('max-connections', 'PETSTORE_MAX_CONNECTIONS', '3', async (server) => {
      const connections = Array.from({ length: 4 }, () => new RawConnection(t, server))
      await Promise.any(connections.map(({ closed }) => closed))
      for (const { socket } of connections) socket.destroy()
    }),
    row('drain', 'PETSTORE_DRAIN', '0', async ({ stdout }) => {
      signal('SIGTERM')
      await stdout.until(/ waits up to 0 s/)
    }),
    row('drain-delay', 'PETSTORE_DRAIN_DELAY', '1', async ({ stdout, status }) => {
      await stdout.until(/serves for 1 s more/)
      signal('SIGTERM')
      assert.equal(await status, 0)
    }),
  ]
  return all
}

test('each flag does what it says, and wins over its variable', async (t) => {
  const settings = settingsIn(t)
  const args = settings.flatMap(({ flag, values }) => {
    return values.map((value) => (value === '' ? `--${flag}` : `--${flag}=${value}`))
  })
  const env = Object.fromEntries(settings.map(({ variable }) => [variable, '?']))
  const server = await serve(t, args, { env })
  for (const { effect } of settings) await effect(server)
})

test('each variable does the same', async (t) => {
  const settings = settingsIn(t)
  const texts = settings.map(({ variable, values }) => [variable, values.join(', ') || 'true'])
  const server = await serve(t, [], { env: Object.fromEntries(texts) })
  for (const { effect } of settings) await effect(server)
})

test('an empty variable is unset', async (t) => {
  const variables = settingsIn(t).map(({ variable }) => variable)
  const env = Object.fromEntries(
    [...variables, 'PETSTORE_DEMO', 'PETSTORE_STORE'].map((name) => [name, '']),
  )
  const server = await serve(t, ['--port', '0', '--api-key', KEYS[0]], { env })
  assert.match(server.url, /^http:\/\/127\.0\.0\.1:\d+\/v1$/)
  await answers(404, 'GET', '/pets/1')(server)
  await answers(200, 'GET', '/pets?statsu=sold')(server)
  await answers(400, 'POST', '/pets', ' '.repeat(2 ** 16))(server)
  await answers(413, 'POST', '/pets', ' '.repeat(2 ** 16 + 1))(server)
  await server.stdout.until(
    /^\{"time".*valid keys: 1, pets in memory: 0, .*--max-connections 10000"/m,
  )
  assert.doesNotMatch(server.stderr.text, /controls|warning/)
})

test('a switch is 1 or true, 0 or false, in its variable; the last flag counts', async (t) => {
  const flags = ['--api-key', KEYS[0], '--base-path', '/last', '--base-path', '']
  for (const [text, pets] of Object.entries({ 1: 12, true: 12, 0: 0, false: 0 })) {
    const server = await serve(t, flags, { env: { PETSTORE_DEMO: text } })
    assert.match(server.url, /:\d+$/) // the base path may be empty
    assert.equal(JSON.parse((await ask(server, 'GET', '/pets')).body).length, pets)
    signal('SIGTERM')
    await server.status
  }
})

test('--demo and --seed fill only a store that is empty, and --seed wins', async (t) => {
  const folder = temporaryFolder(t)
  const [seed, snapshot] = [join(folder, 'seed'), join(folder, 'pets.json')]
  writeFileSync(seed, `[${REX}]`)
  const flags = ['--api-key', KEYS[0], '--demo', '--snapshot', snapshot]
  for (const more of [['--seed', seed], []]) {
    const server = await serve(t, [...flags, ...more])
    assert.equal((await ask(server, 'GET', '/pets')).body, `[{"id":1,${REX.slice(1)}]`)
    signal('SIGTERM')
    await server.status
  }
})

test('an unknown PETSTORE_ variable is warned of, unless Kubernetes makes it', async (t) => {
  const env: Environment = {
    PETSTORE_COLOR: 'a-secret',
    PETSTORE_API_KEY: 'a-secret',
    PETSTOREX: '1',
    PETSTORE_PORT: 'tcp://10.0.0.1:80',
    PETSTORE_PORT_80_TCP_ADDR: '10.0.0.1',
    PETSTORE_SERVICE_HOST: '10.0.0.1',
    PETSTORE_SERVICE_PORT: '80',
  }
  const { stderr } = await serve(t, ['--api-key', KEYS[0]], { env })
  const warned = ['PETSTORE_COLOR', 'PETSTORE_API_KEY'].map((name) => {
    return `petstore-server: warning: unknown variable ${name}; see --help\n`
  })
  assert.ok(stderr.text.startsWith(`${warned.join('')}Petstore `), stderr.text)
})

test('--help and --version print and exit 0, whatever else is set', async (t) => {
  const { version } = JSON.parse(readFileSync('package.json', 'utf8'))
  const help = await run(t, ['--help'])
  for (const { flag, variable } of settingsIn(t)) {
    assert.match(help.stdout, new RegExp(`^  --${flag} .* ${variable}\n      \\w.* \\(.+\\)$`, 'm'))
  }
  for (const [stdout, ...args] of [
    [help.stdout, '-h', '-v', '--port', 'x'],
    [`${version}\n`, '-v', '--healthcheck'],
    [`${version}\n`, '--version', '--snapshot', '/no/no'],
  ]) {
    assert.deepEqual(await run(t, args, { PORT: 'y' }), { status: 0, stdout, stderr: '' })
  }
})
