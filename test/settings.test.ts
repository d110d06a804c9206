// Flags and variables: what each may be, what it does, and the line that refuses it.
import assert from 'node:assert/strict'
import { tmpdir } from 'node:os'
import { test, type TestContext } from 'node:test'
import { getHeapStatistics } from 'node:v8'
import { type Environment, run, serve, type Serving } from './executable.ts'
import { AUTHORIZATION, KEY, send, temporaryFile, words } from './support.ts'

type Effect = (petstore: Serving, t: TestContext) => Promise<unknown>

function answers(status: number, method: string, path: string, body = ''): Effect {
  return async (petstore) => assert.equal((await send(petstore, method, path, { body })).status, status, path)
}

function carries(name: string, value: string | null): Effect {
  return async ({ url }) => {
    const headers = { authorization: AUTHORIZATION, origin: 'https://a.example' }
    const response = await fetch(`${url}/pets`, { headers })
    assert.equal(response.headers.get(name), value)
    await response.text()
  }
}

/** A body of so many bytes is read, and one of a byte more is not. */
function reads(bytes: number): Effect {
  return async (petstore, t) => {
    await answers(400, 'POST', '/v1/pets', ' '.repeat(bytes))(petstore, t)
    await answers(413, 'POST', '/v1/pets', ' '.repeat(bytes + 1))(petstore, t)
  }
}

const starts: Effect = async () => {}

/** The first line of the log has this; http/drain.test.ts has what it does. */
function logs(text: string): Effect {
  return async ({ process }) => void (await process.stdout.until(new RegExp(`${text}"\\}\n`)))
}

const REX = '{"name":"Rex","categoryId":9223372036854775807}' // with its id 54 bytes, and 100 more are counted
const HALF_OF_HEAP = Math.floor(getHeapStatistics().heap_size_limit / 2)
const SEGMENTS = 'A-Z a-z 0-9 - . _ ~, no slash at the end'
const UNITS = 'k, m or g behind it multiplies by 1024'

/** Flag, variable, default as --help shows it, and what the line of a bad value says that it must be. */
const TABLE = `
--port N                  PORT                      8080 | an integer from 0 to 65535
--host ADDRESS            HOST                      127.0.0.1 | a host name or an IP address
--base-path PATH          PETSTORE_BASE_PATH        /v1 | a path such as /v1 or /shop/v1: segments of ${SEGMENTS}
--api-key KEY             PETSTORE_API_KEYS         generated
--api-keys-file FILE      PETSTORE_API_KEYS_FILE    off
--demo                    PETSTORE_DEMO             off
--seed FILE               PETSTORE_SEED             off
--snapshot FILE           PETSTORE_SNAPSHOT         off | the path of a file
--max-body BYTES          PETSTORE_MAX_BODY         64k | an integer from 1 to 268435456; ${UNITS}
--max-store BYTES         PETSTORE_MAX_STORE        a quarter of the heap, 256m at most | an integer from 1 to ${HALF_OF_HEAP}, half of V8's heap limit: node --max-old-space-size=MB raises it; ${UNITS}
--get-pet STATE           PETSTORE_GET_PET          deprecated | one of deprecated, gone
--delay MS                PETSTORE_DELAY            0 | an integer from 0 to 600000, or a range of that: [MIN, MAX], as a flag MIN-MAX
--no-page                 PETSTORE_PAGE             on
--max-connections N       PETSTORE_MAX_CONNECTIONS  10000 | an integer from 1 to 1000000
--log FORMAT              PETSTORE_LOG              text on a terminal, else json | one of text, json, off
--keep-alive SECONDS      PETSTORE_KEEP_ALIVE       75 | an integer from 1 to 86400
--drain SECONDS           PETSTORE_DRAIN            8 | an integer from 0 to 86400
--drain-delay SECONDS     PETSTORE_DRAIN_DELAY      0 | an integer from 0 to 86400
--cors ORIGIN             PETSTORE_CORS             off | an origin such as https://shop.example, without a path, or *
--control-port N          PETSTORE_CONTROL_PORT     off | an integer from 0 to 65535
--control-host ADDRESS    PETSTORE_CONTROL_HOST     127.0.0.1 | a host name or an IP address`

const ALL = [...TABLE.matchAll(/^((--\S+)(?: [A-Z]+)?) +([A-Z_]+) +(.*?)(?: \| (.*))?$/gm)].map(
  ([, flag = '', name = '', variable = '', fallback = '', mustBe = '']) => ({ flag, name, variable, fallback, mustBe }),
)
type Setting = (typeof ALL)[number]

const BYTES = '0|0k|-1|1.5m|64kb|1 k|1t|k| 1|1\n|unlimited'
const HOSTS = '[::1]|http://127.0.0.1|127.0.0.1/8|a b|a,b|::1\n'
const BAD: Record<string, string> = {
  '--host': HOSTS,
  '--base-path': '/|v1|/v1/|//v1|/a//b|/.|/v1/..|/../v1|/v 1|/v%31|/v1?|/{a}|/v1\n',
  '--max-body': `${BYTES}|257m|268435457|1g|${'9'.repeat(400)}`,
  '--max-store': `${BYTES}|${HALF_OF_HEAP + 1}|1024g|1025g`,
  '--get-pet': 'Gone|removed|gone ',
  '--delay': '-1|600001|5-4|1-|-1-2|1-2-3|1.5|0-600001|[1, 2]|1 - 2',
  '--log': 'JSON|on|text,json',
  '--cors': 'a.example|https://a.example/|https://a.example/a|https://A.example|https://a.example:443|null|**',
  '--control-host': HOSTS,
}

/** What a setting must not be: the empty text, and for an integer what is beyond its bounds or written otherwise. */
function badOf({ name, mustBe }: Setting): string[] {
  const [, min, max] = /from (\d+) to (\d+)$/.exec(mustBe) ?? []
  const integers = `${Number(min) - 1}|${Number(max) + 1}|+50|0x50|1e2|50.0| 50|50\n|50s|٥٠|${'9'.repeat(400)}`
  return ['', ...(BAD[name] ?? (min === undefined ? '' : integers)).split('|')]
}

const list = (path: string) => answers(200, 'GET', path)
const isFull = answers(507, 'POST', '/v1/pets', REX)
const hasRoom = answers(201, 'POST', '/v1/pets', REX)
const ALLOWED = 'access-control-allow-origin'
const GOOD: Record<string, Record<string, Effect>> = {
  '--port': { 0: list('/v1/pets') },
  '--host': { '127.0.0.1': starts, localhost: starts, '0.0.0.0': starts },
  '--base-path': { '/shop/v1': list('/shop/v1/pets'), '/.../~a_b-c.d': list('/.../~a_b-c.d/pets') },
  '--max-body': { 1: reads(1), 47: reads(47), '64k': reads(2 ** 16), '1M': reads(2 ** 20), '256m': starts },
  '--max-store': { 1: isFull, 153: isFull, 154: hasRoom, [HALF_OF_HEAP]: hasRoom },
  '--get-pet': { deprecated: answers(404, 'GET', '/v1/pets/1'), gone: answers(410, 'GET', '/v1/pets/1') },
  '--delay': { 0: list('/v1/pets'), 1: list('/v1/pets'), '0-1': list('/v1/pets'), '0-600000': starts },
  '--max-connections': { 1: logs('--max-connections 1'), 1_000_000: logs('--max-connections 1000000') },
  '--log': { text: starts, json: starts, off: starts },
  '--keep-alive': { 1: carries('keep-alive', 'timeout=1'), 86_400: carries('keep-alive', 'timeout=86400') },
  '--drain': { 0: starts, 86_400: starts },
  '--drain-delay': { 0: starts, 86_400: starts },
  '--cors': { '*': carries(ALLOWED, '*'), 'https://a.example': carries(ALLOWED, 'https://a.example') },
  '--control-port': { 0: starts },
  '--control-host': { '0.0.0.0': starts, localhost: starts },
}

/** What is there only where a switch is on. */
const SWITCHES: Record<string, string> = { '--demo': '/v1/pets/12', '--no-page': '/' }

/** Asserts that a text is refused in the same words in the flag and in the variable, and shown as it is unless told how. */
async function assertRefused(flag: string, text: string, why: string | RegExp, shown?: string): Promise<void> {
  const { name = '', variable = '' } = ALL.find((setting) => setting.name === flag) ?? {}
  for (const given of text === '' ? [name] : [name, variable]) {
    const ended = await (given === name ? run([`${name}=${text}`], { [variable]: '?' }) : run([], { [variable]: text }))
    const prefix = `petstore-server: ${given} ${shown ?? JSON.stringify(text)} `
    assert.deepEqual([ended.status, ended.stdout, ended.stderr.slice(0, prefix.length)], [2, '', prefix])
    const rest = ended.stderr.slice(prefix.length)
    if (typeof why === 'string') assert.equal(rest, `${why}\n`)
    else assert.match(rest, why)
  }
}

/** Asserts that a command line is refused by one line that names what is wrong and points to the help. */
async function assertMisuse(args: readonly string[], names: string): Promise<void> {
  const { status, stdout, stderr } = await run(args)
  assert.deepEqual([status, stdout], [2, ''])
  assert.match(stderr, /^petstore-server: .*; see --help\n$/)
  assert.ok(stderr.includes(names) && !stderr.includes('secret'), stderr)
}

for (const setting of ALL.filter(({ mustBe }) => mustBe !== '')) {
  const { name, variable, mustBe } = setting
  for (const [text, effect] of Object.entries(GOOD[name] ?? {})) {
    test(`${name} and ${variable} may be ${text}; the flag wins, the last one`, async (t) => {
      const given = async (env: Environment, ...args: string[]) =>
        effect(await serve(t, ['--api-key', KEY, ...args], { env }), t)
      await given({}, name, text)
      await given({ [variable]: '?' }, `${name}=?`, `${name}=${text}`)
      await given({ [variable]: text })
    })
  }

  test(`${name} and ${variable} must be ${mustBe}`, async () => {
    for (const text of badOf(setting)) await assertRefused(name, text, `must be ${mustBe}`)
    for (const args of [[name], [name, '--demo']]) await assertMisuse(args, name)
  })
}

for (const { name, variable, fallback } of ALL.filter(({ name }) => name in SWITCHES)) {
  const path = SWITCHES[name] ?? ''
  const [on, off] = [answers(200, 'GET', path), answers(404, 'GET', path)]
  test(`${variable} is 1 or true, 0 or false, and ${fallback} where it is empty; ${name} wins, and takes no value`, async (t) => {
    const effects = { 1: on, true: on, 0: off, false: off, '': fallback === 'on' ? on : off }
    for (const [text, effect] of Object.entries(effects)) {
      await effect(await serve(t, ['--api-key', KEY], { env: { [variable]: text } }), t)
    }
    for (const text of ['2', 'on', ' 1', '01', 'truefalse']) {
      const { status, stderr } = await run([], { [variable]: text })
      assert.equal(status, 2)
      assert.match(stderr, new RegExp(`^petstore-server: ${variable} ${JSON.stringify(text)} must be .*\n$`))
    }
    for (const text of ['', '0', '1', '?']) {
      const petstore = await serve(t, ['--api-key', KEY, name, name], { env: { [variable]: text } })
      await (name.startsWith('--no-') ? off : on)(petstore, t)
    }
    for (const text of ['1', 'true', '']) await assertMisuse([`${name}=${text}`], name)
  })
}

test('the highest port is a port, 8080 on 127.0.0.1 is the default, and the test controls must have another', async () => {
  assert.match((await run(['--healthcheck', '--port', '65535'])).stderr, /http:\/\/127\.0\.0\.1:65535\//)
  assert.equal((await run(['--control-port', '65535', '--host', '192.0.2.1'])).status, 1)
  const { status, stderr } = await run(['--healthcheck'], { PORT: '', HOST: '' })
  assert.ok(status === 0 || stderr.includes('http://127.0.0.1:8080/'), stderr)
  for (const [port, ...args] of [['8080'], ['8091', '--port', '8091']] as const) {
    const stderr = `petstore-server: --control-port ${port} must not be that of --port\n`
    assert.deepEqual(await run(['--control-port', port, ...args]), { status: 2, stdout: '', stderr })
  }
})

test('an empty variable, and one that is undefined, count as none: every default holds', async (t) => {
  const pages = [answers(200, 'GET', '/'), answers(200, 'GET', '/v1/pets'), answers(404, 'GET', '/v1/pets/1')]
  const headers = [carries('keep-alive', 'timeout=75'), carries(ALLOWED, null)]
  for (const text of ['', undefined]) {
    const env = Object.fromEntries(ALL.map(({ variable }) => [variable, text]))
    const petstore = await serve(t, ['--port', '0', '--api-key', KEY], { env })
    for (const effect of [...pages, ...headers, reads(2 ** 16)]) await effect(petstore, t)
    assert.doesNotMatch(petstore.process.stderr.text, /control|warning/)
  }
})

test('--snapshot is the file that keeps the pets, and wins over --seed and --demo', async (t) => {
  const path = temporaryFile(t, `[{"id":12,${REX.slice(1)}]`)
  const given = ['--api-key', KEY, '--demo', '--seed', temporaryFile(t, `[${REX}]`)]
  for (const [at, args] of [['--snapshot', path], []].entries()) {
    const env = { PETSTORE_SNAPSHOT: at === 0 ? '/no/no' : path }
    const petstore = await serve(t, [...given, ...args], { env })
    await answers(201, 'POST', '/v1/pets', REX)(petstore, t)
    await answers(200, 'GET', `/v1/pets/${13 + at}`)(petstore, t)
    await answers(404, 'GET', '/v1/pets/1')(petstore, t)
    petstore.process.emit('SIGTERM')
    assert.equal(await petstore.status, 0)
  }
})

const MISUSES = `--prot 1|--Port=1|--api-kye=a-secret-key|--no-demo|--__proto__|--constructor|-p 80|--prot --help|
serve --demo|8080 --demo|-- --demo|--healthcheck=1|--port -1`

test('an unknown flag, a word that is none and a value that is missing are refused, whatever else is given', async () => {
  for (const line of MISUSES.split(/\|\s*/)) await assertMisuse(line.split(' '), /^[^ =]+/.exec(line)?.[0] ?? '')
  for (const word of ['', '-']) await assertMisuse([word], `'${word}'`)
  await assertMisuse(['--help', '--prot'], '--prot')
})

test('an unknown PETSTORE_ variable is warned of by name, never its value, and the server starts', async (t) => {
  const env = { PETSTORE_API_KEY: 'a-secret-key', PETSTORE_PORT: '1', PETSTOREX: '1', MY_PETSTORE_X: 'x' }
  const { stdout, stderr } = (await serve(t, ['--api-key', KEY], { env })).process
  const warned = stderr.text.matchAll(/^petstore-server: warning: unknown variable (\w+); see --help$/gm)
  assert.deepEqual([...warned].map(([, name]) => name).sort(), ['PETSTORE_API_KEY', 'PETSTORE_PORT'])
  assert.doesNotMatch(stderr.text + stdout.text, /a-secret-key|PETSTOREX|MY_/)
})

const KEYS = ['first-key', 'second-key', 'AZaz09-._~+/==', 'a'.repeat(8), 'b'.repeat(256)]

/** Asserts that of all KEYS and some others a petstore takes these, and that it prints none. */
async function assertKeys(t: TestContext, args: string[], env: Environment, keys: readonly string[]): Promise<void> {
  const petstore = await serve(t, args, { env })
  for (const key of [...KEYS, KEY, 'b'.repeat(255), 'other-key', '# comment']) {
    const { status } = await send(petstore, 'GET', '/v1/pets', { headers: { authorization: `Bearer ${key}` } })
    assert.equal(status, keys.includes(key) ? 200 : 401, key)
  }
  const { stdout, stderr } = petstore.process
  for (const key of ['API key', ...KEYS]) assert.ok(!stdout.text.includes(key) && !stderr.text.includes(key))
}

test('--api-key, again and again, or PETSTORE_API_KEYS, with commas, are the keys; the flag wins', async (t) => {
  const flags = KEYS.flatMap((key) => ['--api-key', key])
  await assertKeys(t, flags, {}, KEYS)
  await assertKeys(t, [], { PETSTORE_API_KEYS: KEYS.join(', ') }, KEYS)
  await assertKeys(t, ['--api-key=first-key'], { PETSTORE_API_KEYS: 'second-key' }, ['first-key'])
})

test('--api-keys-file or PETSTORE_API_KEYS_FILE is a file of keys, one a line, beside those of --api-key', async (t) => {
  const files: readonly [content: string, ...keys: string[]][] = [
    [`${'a'.repeat(8)}\n${'b'.repeat(256)}`, 'a'.repeat(8), 'b'.repeat(256)],
    ['# comment\n\n  first-key \t# Ann\n\tsecond-key#Bob\n   \n', 'first-key', 'second-key'],
    ['\ufefffirst-key\r\n# comment\r\nsecond-key\r\n', 'first-key', 'second-key'],
  ]
  for (const [content, ...keys] of files) {
    const path = temporaryFile(t, content)
    await assertKeys(t, ['--api-keys-file', path, '--api-key', KEY], { PETSTORE_API_KEYS_FILE: '/no' }, [KEY, ...keys])
    await assertKeys(t, [], { PETSTORE_API_KEYS_FILE: path }, keys)
  }
})

test('--seed or PETSTORE_SEED is an array of NewPet, exact over int64, and wins over --demo', async (t) => {
  const pets = [
    '"name":"Søren 😀","categoryId":-9223372036854775808,"status":"sold"',
    '"name":"","categoryId":9007199254740993',
    '"name":"Rex","categoryId":9223372036854775807,"status":"available"',
  ]
  const path = temporaryFile(t, `\ufeff[ ${pets.map((pet) => `{${pet}, "tag": null}`).join('\n,')} ]\n`)
  for (const [args, env, expected] of [
    [['--demo', '--seed', path], { PETSTORE_SEED: '/no' }, pets],
    [[], { PETSTORE_SEED: path }, pets],
    [['--demo', '--seed', temporaryFile(t, '[]')], {}, []],
  ] as const) {
    const { body } = await send(await serve(t, ['--api-key', KEY, ...args], { env }), 'GET', '/v1/pets')
    assert.equal(body, `[${expected.map((pet, at) => `{"id":${at + 1},${pet}}`).join(',')}]`)
  }
})

test('a key that is wrong is refused, and the line shows its length and three characters; of a file nothing', async (t) => {
  const mustBe = 'must be 8 to 256 characters of A-Z a-z 0-9 - . _ ~ + / with = only at the end'
  for (const [text, shown] of [
    ['', '"" (0 characters)'],
    ['1234567', '"1234567" (7 characters)'],
    ['a'.repeat(257), '"aaa…" (257 characters)'],
    ['first-key,', '"" (0 characters)'],
    ['first-key,not a key', '"not…" (9 characters)'],
  ] as const) {
    await assertRefused('--api-key', text, mustBe, shown)
  }
  for (const [content, why] of [
    ['', 'must hold at least one key'],
    ['# first-key\n\n', 'must hold at least one key'],
    ['a-good-key\n\nshorter', `must hold one key a line: line 3 ${mustBe}`],
    ['first-key second-key', `must hold one key a line: line 1 ${mustBe}`],
  ] as const) {
    await assertRefused('--api-keys-file', temporaryFile(t, content), why)
  }
})

test('a seed that is not an array of NewPet is refused', async (t) => {
  const wrong = `[${REX},{"name":2,"status":"lost"}]`
  const reason = 'in item 2, name must .*; categoryId is required .*; status must be .*\n'
  const tooGreat = `[${REX.replace('7}', '8}')}]`
  const rows = { '': '.', '[] []': '.', [REX]: '.', [wrong]: reason, [tooGreat]: 'in item 1, categoryId must .*\n' }
  for (const [content, why] of Object.entries(rows)) {
    await assertRefused('--seed', temporaryFile(t, content), new RegExp(`^must hold a JSON array of NewPet: ${why}`))
  }
})

test('a file of keys and a seed must be a file of UTF-8 that can be read', async (t) => {
  const notUtf8 = temporaryFile(t, Buffer.of(0x5b, 0xff))
  const rows = { '': 'ENOENT', '/no/such/file': 'ENOENT', [tmpdir()]: 'EISDIR', [notUtf8]: 'utf-8' }
  for (const [path, why] of Object.entries(rows)) {
    const message = new RegExp(`^must be a file of UTF-8 text that can be read: .*${why}`)
    for (const flag of ['--api-keys-file', '--seed']) await assertRefused(flag, path, message)
  }
})

test('the help lists every flag with its variable and its default, in groups and in 80 columns', async () => {
  const { stdout } = await run(['--help'])
  assert.ok(stdout.startsWith('Usage: petstore-server [flag …]\n'), stdout)
  for (const { flag, variable, fallback } of ALL) {
    const [, line] = new RegExp(`^  ${flag} +${variable}\n(.*)`, 'm').exec(stdout) ?? []
    assert.ok(line?.endsWith(` (${fallback})`), `${flag} ${line}`)
  }
  for (const flag of ['--healthcheck', '--help', '--version']) assert.match(stdout, new RegExp(`^ .*${flag}\\b`, 'm'))
  assert.equal(stdout.match(/^ +-/gm)?.length, ALL.length + 3)
  for (const line of stdout.split('\n')) assert.ok(line.length <= 80, line)
  const headings = [...stdout.matchAll(/^(\w+)\n/gm)].map(([, heading]) => heading)
  assert.deepEqual(headings, words('Address Keys Pets Limits Operation Tests Commands Examples'))
  const examples = [...stdout.matchAll(/^ {2}petstore-server (.*)$/gm)].map(([, line = '']) => line.split(' '))
  assert.equal(examples.length, 2)
  for (const args of examples) assert.equal((await run(['--help', ...args])).status, 0)
})
