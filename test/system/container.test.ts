import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { after, before, describe, test, type TestContext } from 'node:test'
import { AUTHORIZATION, KEY, temporaryFile } from '../support.ts'
import * as engine from './engine.ts'
import { type Image, must, type Output, type Run, run } from './engine.ts'

const NODE = '/nodejs/bin/node'
const { version: VERSION } = JSON.parse(readFileSync('package.json', 'utf8'))
const ARGUMENTS = readFileSync('Dockerfile', 'utf8').matchAll(/^ARG \w+_IMAGE=(.+)$/gm)
const [BUILD_IMAGE = '', RUNTIME_IMAGE = ''] = Array.from(ARGUMENTS, ([, name]) => name)

const BUILD = { SOURCE: 'https://git.example/petstore', REVISION: '0123abc', CREATED: '2026-11-21T00:00:00Z' }

describe('the image', { skip: engine.lacksEngine([`docker.io/library/${BUILD_IMAGE}`, RUNTIME_IMAGE]) }, () => {
  let image: Image
  let containers = 0
  const nextName = () => `petstore-test-${process.pid}-${++containers}`

  before(() => {
    image = mustBuild('--no-cache', ...Object.entries(BUILD).flatMap(([name, of]) => ['--build-arg', `${name}=${of}`]))
  })
  after(engine.clean)

  function mustBuild(...flags: string[]): Image {
    const { status, output, image } = engine.build(...flags)
    assert.equal(status, 0, output)
    return image()
  }

  /** Starts a container that serves; the end of the test removes it. */
  async function start(t: TestContext, options: Run) {
    const name = nextName()
    const env = [`PETSTORE_API_KEYS=${KEY}`, 'PETSTORE_LOG=text', ...(options.env ?? [])]
    const container = spawn('runc', engine.argumentsOf(name, image, { ...options, env }))
    const ended = once(container, 'exit')
    t.after(async () => {
      run('runc', 'delete', '--force', name)
      await ended
    })
    let output = ''
    while (!/http:\/\/\S+\n/.test(output)) {
      const [chunk] = await Promise.race([once(container.stdout, 'data'), ended])
      assert.ok(chunk instanceof Buffer, `it ended: ${output}`)
      output += chunk
    }
    const exec = (...argv: string[]) => run('runc', 'exec', name, ...argv)
    return {
      exec,
      /** Asks from within; from an address other than 127.0.0.1, as anybody outside would. */
      ask(path: string, init: RequestInit = {}) {
        const request = { ...init, headers: { authorization: AUTHORIZATION, 'content-type': 'application/json' } }
        const fetched = `await fetch('http://127.0.0.2:8080${path}', ${JSON.stringify(request)})`
        const script = `const answer = ${fetched}; console.log(JSON.stringify([answer.status, await answer.json()]))`
        const { status, stdout, output } = exec(NODE, '--input-type=module', '-e', script)
        assert.equal(status, 0, output)
        return JSON.parse(stdout)
      },
      stop() {
        must('runc', 'kill', name, image.config.StopSignal)
        return ended
      },
    }
  }

  /** Runs another program in a container. */
  function runs(...program: string[]): Output {
    const name = nextName()
    const answer = run('runc', ...engine.argumentsOf(name, image, { program }))
    run('runc', 'delete', '--force', name)
    return answer
  }

  test('holds the runtime and dist, nothing else, in less than 300 kB of its own', (t) => {
    const base = mustBuild('--file', temporaryFile(t, `FROM ${RUNTIME_IMAGE}\nLABEL is=other`)) // than the base image, for clean() removes it
    const inherited = base.layers.map(({ digest }) => digest)
    const ours = image.layers.flatMap(({ digest, file }) => (inherited.includes(digest) ? [] : file))
    assert.ok(ours.length < image.layers.length)
    const bytes = ours.reduce((sum, file) => sum + statSync(file).size, 0)
    assert.ok(bytes < 300_000, `${bytes} bytes`)
    const entries = ours.flatMap((file) => must('tar', '--numeric-owner', '-tvf', file).trim().split('\n'))
    const shown = new Set(entries.map((entry) => entry.replace(/^(\S+) +(\S+) .* (\S+)$/, '$3 $1 $2')))
    const known = [
      'app/ drwxr-xr-x 0/0',
      'data/ drwxrwxr-x 65532/0',
      'app/main.js -rwxr-xr-x 0/0',
      'app/page.html -rw-r--r-- 0/0',
    ]
    for (const entry of known) assert.ok(shown.delete(entry), `${entry} is not in ${[...shown]}`)
    for (const entry of shown) assert.match(entry, /^app\/[\w-]+\.(?:js|json) -rw-r--r-- 0\/0$/)
    const all = image.layers.flatMap(({ file }) => must('tar', '-tf', file).trim().split('\n'))
    const unwanted =
      /(^|\/)((ba|da|a|z|k)?sh|busybox|np[mx]|corepack|yarn|tsc|node_modules|package\.json)$|\.ts$|\.map$/
    assert.deepEqual(
      all.filter((path) => unwanted.test(path)),
      [],
    )
  })

  test('is configured as it says', () => {
    const { User, Env, Entrypoint, Cmd, ExposedPorts, StopSignal, Labels, Healthcheck } = image.config
    assert.ok(Env.includes('HOST=0.0.0.0'))
    assert.deepEqual([User, StopSignal, Cmd ?? []], ['65532:65532', 'SIGTERM', []])
    assert.deepEqual(Entrypoint, [NODE, '/app/main.js'])
    assert.deepEqual(ExposedPorts, { '8080/tcp': {} })
    assert.deepEqual(Healthcheck.Test, ['CMD', ...Entrypoint, '--healthcheck'])
    const label = (name: string) => Labels[`org.opencontainers.image.${name}`]
    assert.deepEqual(['title', 'version', 'licenses'].map(label), ['petstore-server', VERSION, 'MIT'])
    assert.deepEqual(['source', 'revision', 'created'].map(label), Object.values(BUILD))
    assert.ok(label('description'))
  })

  test('is built from other base images when told so', () => {
    assert.notEqual(engine.build('--build-arg', 'BUILD_IMAGE=scratch').status, 0) // it has no npm
    const other = mustBuild('--build-arg', 'RUNTIME_IMAGE=scratch')
    assert.ok(other.layers.length < image.layers.length)
  })

  test('lets the build see what it needs, and no more', (t) => {
    const { layers } = mustBuild('--file', temporaryFile(t, 'FROM scratch\nCOPY . /'))
    const seen = layers.flatMap(({ file }) => must('tar', '-tf', file).trim().split('\n'))
    const sources = readdirSync('src', { recursive: true, withFileTypes: true }).map(
      (entry) => `${entry.parentPath}/${entry.name}${entry.isDirectory() ? '/' : ''}`,
    )
    const config = ['package-lock.json', 'package.json', 'tsconfig.build.json', 'tsconfig.json']
    assert.deepEqual(seen.sort(), ['src/', ...sources, ...config].sort())
  })

  test('serves with a read-only root, without capabilities, as user 65532, with arguments, on 0.0.0.0', async (t) => {
    const { ask, exec, stop } = await start(t, { args: ['--demo'] })
    const status = exec(NODE, '-p', `fs.readFileSync('/proc/1/status', 'utf8')`).stdout
    for (const id of ['Uid', 'Gid']) assert.match(status, new RegExp(`^${id}:(?:\\s65532){4}$`, 'm'))
    for (const capabilities of ['CapBnd', 'CapEff']) assert.match(status, new RegExp(`^${capabilities}:\\s0+$`, 'm'))
    for (const path of ['/app', '/data', '/home/nonroot']) {
      assert.match(exec(NODE, '-e', `fs.writeFileSync('${path}/file', '')`).output, /EROFS/)
    }
    const [code, pets] = ask('/v1/pets')
    assert.deepEqual([code, pets.length], [200, 12])
    assert.deepEqual(await stop(), [0, null])
  })

  test('keeps a snapshot in a volume at /data, whole after the stop signal, as its user and as any of group 0', async (t) => {
    const volume = engine.volumeOf(t, image)
    const added: unknown[] = []
    for (const [round, user] of [image.config.User, '12345:0'].entries()) {
      const { ask, stop } = await start(t, { env: ['PETSTORE_SNAPSHOT=/data/pets.json'], volume, user })
      assert.deepEqual(ask('/v1/pets'), [200, added])
      for (const name of ['Rex', 'Tom']) {
        const [code, pet] = ask('/v1/pets', { method: 'POST', body: JSON.stringify({ name, categoryId: round }) })
        assert.equal(code, 201)
        added.push(pet)
      }
      assert.deepEqual(await stop(), [0, null])
      assert.deepEqual(readdirSync(volume), ['pets.json'])
    }
  })

  for (const env of [[], ['PORT=9000', 'PETSTORE_BASE_PATH=/shop/v2'], ['HOST=127.0.0.1']]) {
    test(`is healthy with ${env.join(' ') || 'its own configuration'}, and not when nothing serves`, async (t) => {
      const check = image.config.Healthcheck.Test.slice(1)
      const { exec } = await start(t, { env })
      const { status, output } = exec(...check)
      assert.equal(status, 0, output)
      assert.equal(runs(...check).status, 1)
    })
  }
})
