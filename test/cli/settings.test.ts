// Flags and variables: how each is written, what it does, and the line that rejects it.
import assert from 'node:assert/strict'
import { tmpdir } from 'node:os'
import { test, type TestContext } from 'node:test'
import { RULES } from '../../src/petstore/options.ts'
import { ended, type Environment, run, serve, type Serving } from './executable.ts'
import { AUTHORIZATION, bearer, check, KEY, send, temporaryFile, words } from '../support.ts'

const ORIGIN = 'https://a.example'

type Effect = (petstore: Serving, t: TestContext) => Promise<unknown>

function answers(status: number, method: string, path: string, body = ''): Effect {
  return async (petstore) =>
    assert.equal((await send(petstore, method, path, { body })).status, status, path)
}

function carries(name: string, value: string | null): Effect {
  return async ({ url }) => {
    const headers = { authorization: AUTHORIZATION, origin: ORIGIN }
    const response = await fetch(`${url}/pets`, { headers })
    assert.equal(response.headers.get(name), value)
    await response.text()
  }
}

/** A body of this length is read, and one that is a byte longer is not. */
function reads(bytes: number): Effect {
  return async (petstore, t) => {
    await answers(400, 'POST', '/v1/pets', ' '.repeat(bytes))(petstore, t)
    await answers(413, 'POST', '/v1/pets', ' '.repeat(bytes + 1))(petstore, t)
  }
}

function logs(pattern: string): Effect {
  return async ({ process }) => void (await process.stdout.until(new RegExp(pattern)))
}

const starts: Effect = async () => {}
const lists = (path: string) => answers(200, 'GET', path)

const REX = '{"name":"Rex","categoryId":9223372036854775807}' // counted as 154 bytes
const isFull = answers(507, 'POST', '/v1/pets', REX)
const hasRoom = answers(201, 'POST', '/v1/pets', REX)
const getsPet = (status: number) => answers(status, 'GET', '/v1/pets/1')
const allows = (origin: string | null) => carries('access-control-allow-origin', origin)
const HUGE = '9'.repeat(400)
const NO_INTEGERS = ['+5', '05', '0x5', '1e2', '5.0', ' 5', '5\n', '5s', '-1', '٥', HUGE]
const NO_PORTS = [...NO_INTEGERS, '65536']
const NO_SECONDS = [...NO_INTEGERS, '86401']
const NO_BYTES = [...NO_INTEGERS, '0', '0k', '064k', '1.5m', '64kb', '1 k', '1t', 'k', '1025g']

const KEY_MUST_BE = '8 to 256 characters of A-Z a-z 0-9 - . _ ~ + / with = only at the end'
const invalidIn = (line: number) => `must hold one key a line: line ${line} must be ${KEY_MUST_BE}`

type Setting = readonly [mustBe: string, good: Record<string, Effect>, bad: readonly string[]]
const DAY = { 0: starts, 86_400: starts }
const SECONDS: Setting = ['an integer from 0 to 86400 seconds', DAY, NO_SECONDS]
const { apiKeys, basePath, controlHost, controlPort, cors, delay, getPetState, host, log } = RULES
const { maxBody, maxConnections, maxStore, port, teacherKey } = RULES

// options.test.ts has every value that the rule of an option rejects.
const SETTINGS: Record<string, Setting> = {
  '--port': [port.mustBe, { 0: lists('/v1/pets') }, NO_PORTS],
  '--host': [host.mustBe, { localhost: starts, '0.0.0.0': starts }, ['[::1]']],
  '--base-path': [
    basePath.mustBe,
    { '/shop/v1': lists('/shop/v1/pets'), '/.../~a_b-c.d': lists('/.../~a_b-c.d/pets') },
    ['/v1/'],
  ],
  '--cors': [
    cors.mustBe,
    {
      '*': allows('*'),
      [ORIGIN]: allows(ORIGIN),
      [`https://a.example, ${ORIGIN}`]: allows(ORIGIN),
    },
    ['a.example', `${ORIGIN},`, 'origin,'.repeat(20)],
  ],
  '--api-key': [apiKeys.mustBe, {}, ['1234567', 'a'.repeat(257), 'first-key,', 'one,not a key']],
  '--snapshot': [RULES.snapshot.mustBe, {}, []],
  '--get-pet': [getPetState.mustBe, { deprecated: getsPet(404), gone: getsPet(410) }, ['gone ']],
  '--max-body': [
    maxBody.mustBe,
    { 1: reads(1), 47: reads(47), '64k': reads(2 ** 16), '1M': reads(2 ** 20), '256m': starts },
    [...NO_BYTES, '257m', '268435457', '1g'],
  ],
  '--max-store': [maxStore.mustBe, { 1: isFull, 153: isFull, 154: hasRoom }, NO_BYTES],
  '--max-connections': [
    maxConnections.mustBe,
    { 1: logs('-connections 1",'), 1_000_000: logs('-connections 1000000",') },
    [...NO_INTEGERS, '0'],
  ],
  '--log': [log.mustBe, { text: starts, json: starts, off: starts }, ['JSON', 'text,json', 'a\nb']],
  '--keep-alive': [
    'an integer from 1 to 86400 seconds',
    { 1: carries('keep-alive', 'timeout=1'), 86_400: carries('keep-alive', 'timeout=86400') },
    ['0', ...NO_SECONDS],
  ],
  '--drain': SECONDS,
  '--drain-delay': SECONDS,
  '--delay': [
    delay.mustBe,
    { 0: lists('/v1/pets'), '0-1': lists('/v1/pets'), '0-600000': starts },
    [...NO_INTEGERS, '0-01', '5-4', '1-', '-1-2', '1-2-3', '[1, 2]', '1 - 2', '0-600001'],
  ],
  '--control-port': [controlPort.mustBe, { 0: starts }, NO_PORTS],
  '--teacher-key': [teacherKey.mustBe, {}, ['1234567', 'a'.repeat(257), 'not a key']],
  '--control-host': [controlHost.mustBe, { '0.0.0.0': starts, localhost: starts }, ['[::1]']],
}

const SWITCHES: Record<string, readonly [on: Effect, off: Effect]> = {
  '--demo': [lists('/v1/pets/12'), answers(404, 'GET', '/v1/pets/12')],
  '--no-page': [lists('/'), answers(404, 'GET', '/')],
  '--strict': [answers(400, 'GET', '/v1/pets?statsu=sold'), lists('/v1/pets?statsu=sold')],
  // petstore/key-cores.test.ts shows what it does.
  '--store-per-key': [logs('keys: 1, pets in each store: 0'), logs('keys: 1, pets in memory: 0')],
}

function variableOf(flag: string): string {
  if (flag === '--api-key') return 'PETSTORE_API_KEYS'
  const name = flag.replace(/^--(?:no-)?/, '').toUpperCase()
  return ['PORT', 'HOST'].includes(name) ? name : `PETSTORE_${name.replaceAll('-', '_')}`
}

/** Asserts that the flag and its variable reject a text, which they show, in the same words. */
async function assertRejected(flag: string, text: string, why: string | RegExp): Promise<void> {
  const variable = variableOf(flag)
  const shown = flag.endsWith('-key') ? '' : `${JSON.stringify(text)} `
  const rejections = [[flag, await run([`${flag}=${text}`], { [variable]: '?' })] as const]
  if (text !== '') rejections.push([variable, await run([], { [variable]: text })])
  for (const [given, { status, stdout, stderr }] of rejections) {
    const start = `petstore-server: ${given} ${shown}`
    if (typeof why === 'string') assert.equal(stderr, `${start}${why}\n`)
    else assert.match(stderr, why)
    assert.deepEqual([status, stdout, stderr.startsWith(start)], [2, '', true], stderr)
  }
}

/** Asserts that one line rejects a command line, names what is wrong and points to the help. */
async function assertMisuse(args: readonly string[], named: string): Promise<void> {
  const { status, stdout, stderr } = await run(args)
  assert.deepEqual([status, stdout], [2, ''])
  assert.match(stderr, /^petstore-server: .* \(see --help\)\n$/)
  assert.ok(stderr.includes(named) && !stderr.includes('secret'), stderr)
}

for (const [name, [mustBe, good, bad]] of Object.entries(SETTINGS)) {
  const variable = variableOf(name)
  const isList = name === '--cors'
  for (const [text, effect] of Object.entries(good)) {
    const counts = isList ? 'each flag counts' : 'the last flag counts'
    test(`${name} and ${variable} may be ${text}; ${counts}`, async (t) => {
      const given = async (env: Environment, ...args: string[]) =>
        effect(await serve(t, ['--api-key', KEY, ...args], { env }), t)
      await given({}, name, text)
      const repeated = isList ? [text, 'https://other.example'] : ['?', text]
      await given({ [variable]: '?' }, ...repeated.map((one) => `${name}=${one}`))
      await given({ [variable]: text })
    })
  }

  test(`${name} and ${variable} reject any other value and say what it must be`, async () => {
    const empty = name === '--base-path' ? [] : [''] // which is the root
    // The message names the item that is no key.
    const why =
      name === '--api-key' ? /at the end \(item \d has \d+ characters\)\n$/ : `must be ${mustBe}`
    for (const text of [...empty, ...bad]) await assertRejected(name, text, why)
    for (const args of [[name], [name, '--demo']]) await assertMisuse(args, name)
  })
}

for (const [name, [on, off]] of Object.entries(SWITCHES)) {
  const variable = variableOf(name)
  const isOnByDefault = name.startsWith('--no-')

  test(`${variable} is 1 or true, 0 or false, or empty for the default`, async (t) => {
    const { stdout: help } = await run(['--help'])
    assert.match(help, new RegExp(` ${variable}\\n.* \\(${isOnByDefault ? 'page on' : 'off'}\\)`))
    const effects = { 1: on, true: on, 0: off, false: off, '': isOnByDefault ? on : off }
    for (const [text, effect] of Object.entries(effects))
      await effect(await serve(t, ['--api-key', KEY], { env: { [variable]: text } }), t)
    for (const text of ['2', 'on', ' 1', '01', 'truefalse']) {
      const line = `${variable} "${text}" must be true or false`
      assert.deepEqual(await run([], { [variable]: text }), ended(2, line))
    }
  })

  test(`${name} wins over ${variable} and takes no value`, async (t) => {
    for (const text of ['', '0', '1', '?']) {
      const petstore = await serve(t, ['--api-key', KEY, name, name], { env: { [variable]: text } })
      await (isOnByDefault ? off : on)(petstore, t)
    }
    for (const text of ['1', 'true', '']) await assertMisuse([`${name}=${text}`], name)
  })
}

test('the highest port is 65535, and the default address is 127.0.0.1:8080', async () => {
  const highest = await run(['--healthcheck', '--port', '65535'])
  assert.match(highest.stderr, /http:\/\/127\.0\.0\.1:65535\//)
  assert.equal((await run(['--control-port', '65535', '--host', '192.0.2.1'])).status, 1)
  const { status, stderr } = await run(['--healthcheck'], { PORT: '', HOST: '' })
  assert.ok(status === 0 || stderr.includes('http://127.0.0.1:8080/'), stderr)
})

test('a variable that is empty or undefined leaves the default', async (t) => {
  const pages = [lists('/'), lists('/v1/pets'), getsPet(404)]
  const effects = [...pages, carries('keep-alive', 'timeout=75'), allows(null), reads(2 ** 16)]
  const { stdout } = await run(['--help'])
  const variables = Array.from(stdout.matchAll(/^ {2}--.* ([A-Z_]+)$/gm), ([, name]) => name)
  assert.equal(variables.length, Object.keys({ ...SETTINGS, ...SWITCHES }).length + 2)
  for (const text of ['', undefined]) {
    const env = Object.fromEntries(variables.map((variable) => [variable, text]))
    const petstore = await serve(t, ['--port', '0', '--api-key', KEY], { env })
    for (const effect of effects) await effect(petstore, t)
    assert.doesNotMatch(petstore.process.stderr.text, /control|warning/)
  }
})

test('--snapshot is the file that keeps the pets, and wins over --seed and --demo', async (t) => {
  const path = temporaryFile(`[{"id":12,${REX.slice(1)}]`)
  const given = ['--api-key', KEY, '--demo', '--seed', temporaryFile(`[${REX}]`)]
  const rounds = [
    { id: 13, args: ['--snapshot', path], variable: '/no/no' },
    { id: 14, args: [], variable: path },
  ]
  for (const { id, args, variable } of rounds) {
    const petstore = await serve(t, [...given, ...args], { env: { PETSTORE_SNAPSHOT: variable } })
    await answers(201, 'POST', '/v1/pets', REX)(petstore, t)
    await answers(200, 'GET', `/v1/pets/${id}`)(petstore, t)
    await getsPet(404)(petstore, t)
    petstore.process.emit('SIGTERM')
    assert.equal(await petstore.status, 0)
  }
})

test('an unknown flag, an argument that is no flag and a missing value are rejected', async () => {
  const misuses: [named: string, ...args: string[]][] = [
    ['--prot', '--prot', '--help'],
    ['--prot', '--help', '--prot'],
    ['--Port', '--Port=1'],
    ['--api-kye', '--api-kye=a-secret-key'],
    ['--no-demo', '--no-demo'],
    ['--constructor', '--constructor'],
    ['-p', '-p', '80'],
    ['--healthcheck', '--healthcheck=1'],
    ['--port', '--port', '--1'],
    ["'serve'", 'serve', '--demo'],
    ["'--demo'", '--', '--demo'],
    ["''", ''],
    ["'-'", '-'],
    ["'--port 80'", '--port 80'],
  ]
  for (const [named, ...args] of misuses) await assertMisuse(args, named)
})

test('a value may begin with a dash', async (t) => {
  const { url } = await serve(t, ['--api-key', `-${KEY}`])
  await check({ url }, 'GET', '/v1/pets', 200, { headers: bearer(`-${KEY}`) })
  const why = '--port "-1" must be an integer from 0 to 65535'
  assert.deepEqual(await run(['--port', '-1', '--demo']), ended(2, why))
  assert.equal((await run(['--seed', 'seed', '-v'])).status, 0) // a file with the name of a flag
})

test('an unknown PETSTORE_ variable is warned about by name, never with its value', async (t) => {
  const hints = {
    PETSTORE_API_KEY: ' (did you mean PETSTORE_API_KEYS?)',
    PETSTORE_COLOR: '',
    PETSTORE_CONTROL_PORTS: ' (did you mean PETSTORE_CONTROL_PORT?)',
    PETSTORE_DEMO_PETS: ' (did you mean PETSTORE_DEMO?)',
    PETSTORE_PORT: ' (did you mean PORT?)',
  }
  const unknown = Object.fromEntries(Object.keys(hints).map((name) => [name, 'a-secret-key']))
  const env = { ...unknown, PETSTOREX: '1', MY_PETSTORE_X: 'x' }
  const { stdout, stderr } = (await serve(t, ['--api-key', KEY], { env })).process
  const warned = stderr.text.matchAll(/^petstore-server: warning: (.*)$/gm)
  assert.deepEqual(
    Array.from(warned, ([, warning]) => warning).sort(),
    Object.entries(hints).map(([name, hint]) => `unknown variable ${name}${hint}; see --help`),
  )
  assert.doesNotMatch(stderr.text + stdout.text, /a-secret-key|PETSTOREX|MY_/)
})

test('a flag that npm start took for itself is refused, with what would be right', async () => {
  const npm = (name: string, value: string) => ({
    npm_lifecycle_event: 'start',
    [`npm_config_${name}`]: value,
  })
  const took = (name: string, flag: string) =>
    ended(2, `npm took --${name} for itself: npm start -- --${flag}`)
  // As of `npm start --port 9000`, and of `npm start --max-body=1m`.
  assert.deepEqual(await run(['--demo', '9000'], npm('port', 'true')), took('port', 'port 9000'))
  assert.deepEqual(await run([], npm('max_body', '1m')), took('max-body', 'max-body 1m'))
  assert.deepEqual(await run([], npm('strict', 'true')), took('strict', 'strict'))
  assert.deepEqual(await run([], npm('api_key', 'a-secret-key')), took('api-key', 'api-key KEY'))
  const given = await run(['--port', '0', '--log', 'off'], npm('port', '9000'))
  assert.equal(given.status, 0, given.stderr)
})

test('the variables of a Kubernetes Service are no settings, which a warning says', async (t) => {
  const links = {
    PETSTORE_PORT: 'tcp://10.0.0.1:80',
    PETSTORE_PORT_80_TCP_ADDR: '10.0.0.1',
    PETSTORE_SERVICE_HOST: '10.0.0.1',
    PETSTORE_CONTROL_PORT: 'tcp://10.0.0.2:80', // the name of a setting
    PETSTORE_CONTROL_SERVICE_PORT_HTTP: '80',
  }
  const { stdout, stderr } = (await serve(t, ['--api-key', KEY], { env: links })).process
  const names = Object.keys(links).join(', ')
  const why = 'no settings, because Kubernetes made them for a Service'
  assert.ok(stderr.text.startsWith(`petstore-server: warning: ${why}: ${names}\n`), stderr.text)
  assert.doesNotMatch(stdout.text, /controlUrl/)
  const { status } = await run([], { PETSTORE_CONTROL_PORT: 'udp' })
  assert.equal(status, 2)
})

const KEYS = ['first-key', 'second-key', 'AZaz09-._~+/==', 'a'.repeat(8), 'b'.repeat(256)]
const NO_KEYS = ['b'.repeat(255), 'other-key', '# comment']

/** Asserts that only these keys are valid, and that the petstore prints none. */
async function assertKeys(t: TestContext, args: string[], env: Environment, ...valid: string[]) {
  const petstore = await serve(t, args, { env })
  for (const key of [...KEYS, KEY, ...NO_KEYS]) {
    const { status } = await send(petstore, 'GET', '/v1/pets', { headers: bearer(key) })
    assert.equal(status, valid.includes(key) ? 200 : 401, key)
  }
  const { stdout, stderr } = petstore.process
  for (const key of ['API key', ...KEYS]) assert.ok(!(stdout.text + stderr.text).includes(key))
}

test('keys come from --api-key, repeated, or PETSTORE_API_KEYS; the flag wins', async (t) => {
  const flags = KEYS.flatMap((key) => ['--api-key', key])
  await assertKeys(t, flags, {}, ...KEYS)
  await assertKeys(t, [], { PETSTORE_API_KEYS: KEYS.join(', ') }, ...KEYS)
  await assertKeys(t, ['--api-key=first-key'], { PETSTORE_API_KEYS: 'second-key' }, 'first-key')
})

test('a file of keys has one a line, and adds them to those of --api-key', async (t) => {
  const [, , , shortest = '', longest = ''] = KEYS
  const files: [content: string, ...keys: string[]][] = [
    [`${shortest}\n${longest}`, shortest, longest],
    ['# comment\n\n  first-key \t# Ann\n\tsecond-key#Bob\n   \n', 'first-key', 'second-key'],
    ['\ufefffirst-key\r\n# comment\r\nsecond-key\r\n', 'first-key', 'second-key'],
  ]
  for (const [content, ...keys] of files) {
    const path = temporaryFile(content)
    const flags = ['--api-keys-file', path, '--api-key', KEY]
    await assertKeys(t, flags, { PETSTORE_API_KEYS_FILE: '/no' }, KEY, ...keys)
    await assertKeys(t, [], { PETSTORE_API_KEYS_FILE: path }, ...keys)
  }
})

test('a seed is an array of NewPet, exact over int64, and wins over --demo', async (t) => {
  const pets = [
    '"name":"Søren 😀","categoryId":-9223372036854775808,"status":"sold"',
    '"name":"","categoryId":9007199254740993',
    '"name":"Rex","categoryId":9223372036854775807,"status":"available"',
  ]
  const members = pets.map((pet) => `{${pet}, "tag": null}`)
  const path = temporaryFile(`\ufeff[ ${members.join('\n,')} ]\n`)
  const empty = temporaryFile('[]')
  const rows = [
    { args: ['--demo', '--seed', path], variable: '/no', seeded: pets },
    { args: [], variable: path, seeded: pets },
    { args: ['--demo', '--seed', empty], variable: '', seeded: [] },
  ]
  for (const { args, variable, seeded } of rows) {
    const env = { PETSTORE_SEED: variable }
    const petstore = await serve(t, ['--api-key', KEY, ...args], { env })
    const { body } = await send(petstore, 'GET', '/v1/pets')
    assert.equal(body, `[${seeded.map((pet, at) => `{"id":${at + 1},${pet}}`).join(',')}]`)
  }
})

test('a file that holds no keys, or no seed, is rejected, and no key shown', async () => {
  const unreadable = (why: string) =>
    new RegExp(` must be a file of UTF-8 text that can be read: .*${why}`)
  const noSeed = (why: string) => new RegExp(` must hold a JSON array of NewPet: ${why}`)
  const all = 'in item 2, name must .*; categoryId is required .*; status must be .*\n'
  const files: [path: string, ofKeys: string | RegExp, ofSeed?: RegExp][] = [
    ['', unreadable('ENOENT')],
    ['/no/such/file', unreadable('ENOENT')],
    [tmpdir(), unreadable('it is not a regular file')], // cli.test.ts has a pipe
    [temporaryFile(Buffer.of(0x5b, 0xff)), unreadable('utf-8')],
    [temporaryFile('# first-key\n\n'), 'must hold a key', noSeed('.')],
    [temporaryFile('a-good-key\n\nshorter'), invalidIn(3), noSeed('.')],
    [temporaryFile('first-key second-key'), invalidIn(1), noSeed('.')],
    [temporaryFile('[] []'), invalidIn(1), noSeed('.')],
    [temporaryFile(REX), invalidIn(1), noSeed('.')],
    [temporaryFile(`[${REX},{"name":2,"status":"lost"}]`), invalidIn(1), noSeed(all)],
  ]
  for (const [path, ofKeys, ofSeed = ofKeys] of files) {
    await assertRejected('--api-keys-file', path, ofKeys)
    await assertRejected('--seed', path, ofSeed)
  }
})

// readme.test.ts compares its rows with docs/configuration.md.
test('the help has every flag, in groups and in 80 columns', async () => {
  const { stdout } = await run(['--help'])
  assert.ok(stdout.startsWith('Usage: petstore-server [flag …]\n'), stdout)
  for (const line of stdout.split('\n')) assert.ok(line.length <= 80, line)
  const settings = Object.keys({ ...SETTINGS, ...SWITCHES })
  const others = words('--api-keys-file --seed --healthcheck --help --version')
  assert.deepEqual(
    Array.from(stdout.matchAll(/^ +(?:-\w, )?(--[\w-]+)/gm), ([, flag]) => flag).sort(),
    [...settings, ...others].sort(),
  )
  const headings = Array.from(stdout.matchAll(/^(\w+)\n/gm), ([, heading]) => heading)
  assert.deepEqual(headings, words('Address Keys Pets Limits Operation Tests Commands'))
})
