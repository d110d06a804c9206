// The lines that refuse a flag, a variable or a file, each with exit status 2.
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from '../support.ts'
import { run, STORE } from './executable.ts'

const REX = '{"name":"Rex","categoryId":1}'
const NO_INTEGERS = ['+5', '05', '0x5', '1e2', '5.0', ' 5', '5s', '-1', '٥', '9'.repeat(400)]
const NO_SIZES = [...NO_INTEGERS, '0', '0k', '064k', '1.5m', '64kb', '1 k', '1t', 'k']
const PORT = 'must be an integer from 0 to 65535'
const SECONDS = 'must be an integer from 0 to 86400 seconds'
const A_KEY = '8 to 256 characters of A-Z a-z 0-9 - . _ ~ + / with = only at the end'

/** What each value must be, and values that are something else. */
const WRONG: Readonly<Record<string, readonly [mustBe: string, wrong: readonly string[]]>> = {
  'port PORT': [PORT, [...NO_INTEGERS, '65536']],
  'host HOST': ['must be a host name or an IP address', ['[::1]', 'http://localhost']],
  'base-path PETSTORE_BASE_PATH': [
    'must be empty, or a path such as /shop/v1',
    ['v1', '/v1/', '/', '/a b'],
  ],
  'api-key PETSTORE_API_KEYS': [
    `each ${A_KEY}`,
    ['1234567', 'b'.repeat(257), 'first-key,', 'my first key'],
  ],
  'get-pet PETSTORE_GET_PET': ['must be one of deprecated, gone', ['Gone', 'gone ']],
  'cors PETSTORE_CORS': [
    'must be origins such as https://shop.example',
    ['a.example', 'https://a.example/', '*.example'],
  ],
  'max-body PETSTORE_MAX_BODY': [
    'must be an integer from 1 to 268435456',
    [...NO_SIZES, '257m', '1g'],
  ],
  'max-store PETSTORE_MAX_STORE': ['must be an integer from 1 to ', [...NO_SIZES, '1025g']],
  'max-connections PETSTORE_MAX_CONNECTIONS': [
    'must be an integer from 1 to 1000000',
    [...NO_INTEGERS, '0'],
  ],
  'log PETSTORE_LOG': ['must be one of text, json, off', ['JSON', 'text,json', 'a\nb']],
  'keep-alive PETSTORE_KEEP_ALIVE': [
    'must be an integer from 1 to 86400 seconds',
    [...NO_INTEGERS, '0', '86401'],
  ],
  'drain PETSTORE_DRAIN': [SECONDS, [...NO_INTEGERS, '86401']],
  'drain-delay PETSTORE_DRAIN_DELAY': [SECONDS, [...NO_INTEGERS, '86401']],
  'control-port PETSTORE_CONTROL_PORT': [PORT, [...NO_INTEGERS, '65536']],
}

test('a line refuses a value by its flag or variable, and says what it must be', async (t) => {
  for (const [names, [mustBe, wrong]] of Object.entries(WRONG)) {
    const [flag = '', variable = ''] = names.split(' ')
    for (const text of wrong) {
      const byFlag = await run(t, [`--${flag}=${text}`])
      const byVariable = await run(t, [], { [variable]: text })
      const shown = flag === 'api-key' ? '' : `${JSON.stringify(text)} `
      for (const [source, ended] of [
        [`--${flag}`, byFlag],
        [variable, byVariable],
      ] as const) {
        const start = `petstore-server: ${source} ${shown}must be `
        assert.deepEqual([ended.status, ended.stdout], [2, ''], `${source} ${text}`)
        assert.ok(ended.stderr.startsWith(start) && ended.stderr.includes(mustBe), ended.stderr)
        assert.match(ended.stderr, /^.*\n$/)
        if (flag === 'api-key') assert.ok(!ended.stderr.includes(text))
      }
    }
  }
})

test('a switch refuses any other text, and its flag takes none', async (t) => {
  for (const variable of ['PETSTORE_DEMO', 'PETSTORE_STRICT']) {
    for (const text of ['2', 'on', ' 1', '01', 'TRUE']) {
      const { status, stderr } = await run(t, [], { [variable]: text })
      const given = `${variable} ${JSON.stringify(text)}`
      const line = `petstore-server: ${given} must be 1 or true, 0 or false\n`
      assert.deepEqual([status, stderr], [2, line])
    }
  }
  assert.equal((await run(t, ['--demo=1'])).status, 2)
})

test('settings that exclude each other are refused', async (t) => {
  const module = join(temporaryFolder(t), 'store.mjs')
  writeFileSync(module, STORE)
  const store = ['--store', module]
  for (const [args, line] of [
    [[...store, '--max-store', '1m'], 'maxStore must be left out with store (--store)'],
    [[...store, '--snapshot', 'pets.json'], 'snapshot must be left out with store (--store)'],
  ] as const) {
    const { status, stderr } = await run(t, args)
    assert.deepEqual([status, stderr], [2, `petstore-server: ${line}\n`])
  }
})

test('a file of keys or a seed that cannot be used is refused, and no key is shown', async (t) => {
  const folder = temporaryFolder(t)
  const noKey = (line: number) => `must hold one key a line: line ${line} must be ${A_KEY}`
  const noPets = 'must be a JSON array of pets: '
  const files: Record<string, [content: string | Buffer, ofKeys: string, ofSeed: string]> = {
    binary: [Buffer.of(0x5b, 0xff), 'must be a file of UTF-8 text', 'must be a file of UTF-8 text'],
    none: ['# first-key\n\n', 'must hold a key', noPets],
    short: ['good-key\n\nshorter', noKey(3), noPets],
    object: [REX, noKey(1), noPets],
    pets: [`[${REX},{"name":2}]`, noKey(1), noPets],
  }
  const refuses = async (flag: string, path: string, why: string) => {
    const { status, stderr } = await run(t, [flag, path])
    assert.equal(status, 2)
    const start = `petstore-server: ${flag} ${JSON.stringify(path)} ${why}`
    assert.ok(stderr.startsWith(start) && !/first-key|shorter/.test(stderr), stderr)
  }
  for (const [name, [content, ofKeys, ofSeed]] of Object.entries(files)) {
    const path = join(folder, name)
    writeFileSync(path, content)
    await refuses('--api-keys-file', path, ofKeys)
    await refuses('--seed', path, ofSeed)
  }
  for (const path of [folder, join(folder, 'missing')]) {
    for (const flag of ['--api-keys-file', '--seed']) {
      await refuses(flag, path, 'must be a file of UTF-8 text that can be read')
    }
  }
})

test('an unknown flag, an argument and a missing value are refused, with --help', async (t) => {
  for (const [named, ...args] of [
    ['--prot', '--help', '--prot'],
    ['--api-kye', '--api-kye=a-secret-key'],
    ['--no-demo', '--no-demo'],
    ['-p', '-p', '80'],
    ['--port', '--port'],
    ['--port', '--port', '--demo'],
    ["'serve'", 'serve', '--demo'],
    ["'--demo'", '--', '--demo'],
  ]) {
    const { status, stdout, stderr } = await run(t, args)
    assert.deepEqual([status, stdout], [2, ''])
    assert.match(stderr, /^petstore-server: .* \(see --help\)\n$/)
    assert.ok(stderr.includes(String(named)) && !stderr.includes('secret'), stderr)
  }
})
