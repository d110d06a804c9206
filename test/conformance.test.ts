// The conformance suite: this server keeps its rules, and no server comes to harm by it.
import assert from 'node:assert/strict'
import { createServer, type RequestListener } from 'node:http'
import { test, type TestContext } from 'node:test'
import { createPetstore } from '../src/index.ts'
import { Client } from './conformance/client.ts'
import { DEMO_PETS } from './demo.ts'
import { exec } from './documents.ts'
import { listen } from './http/raw.ts'
import { KEY, start, temporaryFile } from './support.ts'
import { assertConforms, verify } from './verify.ts'

const PETS = { pets: [...DEMO_PETS, ...DEMO_PETS] }

/** The names of rules in TAP that passed, or that did not. */
function namesIn(tap: string, result: 'ok' | 'not ok'): string[] {
  const lines = tap.matchAll(new RegExp(`^ {4}${result} \\d+ - (.*)$`, 'gm'))
  return Array.from(lines, ([, name = '']) => name)
}

/** A server that answers every request alike, and repeats what it was sent. */
async function startLenient(t: TestContext, before: RequestListener = () => {}) {
  const asked: string[] = []
  let pending = 0
  let most = 0
  const server = createServer((req, res) => {
    asked.push(`${req.method}`)
    most = Math.max(most, ++pending)
    res.on('close', () => pending--)
    before(req, res)
    if (!res.writableEnded) res.writeHead(201).end(JSON.stringify(req.headers))
  })
  return { url: `${await listen(t, server)}/v1`, asked, most: () => most }
}

test('this server keeps every rule, and each has a name of its own', async (t) => {
  const petstore = await start(t, PETS)
  const { status, stdout } = await verify(petstore.url, ['--create', '--decisions'])
  assert.equal(status, 0, stdout)
  assert.doesNotMatch(stdout, /# SKIP/)
  const names = namesIn(stdout, 'ok')
  assert.ok(names.length > 90)
  assert.equal(new Set(names).size, names.length)
  for (const { name } of petstore.pets.slice(PETS.pets.length))
    assert.match(name, /^petstore-server conformance/)
})

test('the listener of createPetstore() keeps them in a server of its user', async (t) => {
  const { listener } = createPetstore({ ...PETS, apiKeys: [KEY] })
  assert.deepEqual(await assertConforms(`${await listen(t, createServer(listener))}/v1`), [])
})

test('without permission to create, it changes nothing, and finds the same again', async (t) => {
  const petstore = await start(t, PETS)
  const skipped = await assertConforms(petstore.url, false)
  assert.ok(skipped.length > 0)
  assert.deepEqual(await assertConforms(petstore.url, false), skipped)
  assert.equal(petstore.pets.length, PETS.pets.length)
  for (const { method } of petstore.requests)
    assert.ok(['GET', 'HEAD', 'OPTIONS', 'PROPFIND'].includes(`${method}`), `${method}`)
})

test('it bounds what it asks of any server, and prints curl lines without the key', async (t) => {
  const { url, asked, most } = await startLenient(t)
  const { status, stdout, stderr } = await verify(url, ['--create', '--decisions'])
  assert.equal(status, 1)
  assert.ok(asked.length <= 200)
  assert.equal(asked.filter((method) => method === 'POST').length, 10)
  assert.equal(most(), 1)
  assert.doesNotMatch(asked.join(), /PUT|PATCH|DELETE/)
  assert.match(stderr, /^Adds at most ten pets, named "petstore-server conformance"/)
  assert.ok(!(stdout + stderr).includes(KEY))
  assert.match(stdout, /"authorization":"Bearer \[key\]"/)
  const commands = stdout.match(/(?<=^ *)curl .*$/gm) ?? []
  for (const one of [commands[0], commands.find((line) => line.includes('--data-binary'))]) {
    const env = { ...process.env, PETSTORE_API_KEY: KEY }
    const { stdout: answered } = await exec('sh', ['-c', `${one}`], { env })
    assert.match(answered, new RegExp(`^HTTP/1.1 201 .*"authorization":"Bearer ${KEY}"`, 's'))
  }
})

test('it waits as long as Retry-After says, and asks again', async (t) => {
  const times: number[] = []
  const { url } = await startLenient(t, (_req, res) => {
    times.push(performance.now())
    if (times.length === 1) res.writeHead(429, { 'retry-after': '1' }).end()
  })
  const { status } = await new Client({ url, key: KEY, create: false }).ask('GET /pets')
  assert.equal(status, 201)
  const [first = 0, second = 0] = times
  assert.ok(second - first >= 990, `${second - first} ms`) // a timer may be early by a millisecond
})

test('without --create it sends no POST; --expected-failures turns its names around', async (t) => {
  const { url, asked } = await startLenient(t)
  const run = (...names: string[]) =>
    verify(url, ['--expected-failures', temporaryFile(names.join('\n'))])
  const passing = 'Endpoints: the base address ends in /v1'
  const { status, stdout } = await run(passing, 'no rule')
  assert.equal(status, 1)
  assert.ok(!asked.includes('POST'))
  assert.match(stdout, /^not ok \d+ - no rule$/m)
  const failed = namesIn(stdout, 'not ok')
  assert.ok(failed.includes(passing))
  const expected = failed.filter((name) => name !== passing)
  assert.equal((await run(...expected)).status, 0)
})
