import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { appendFileSync, cpSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { after, before, describe, test, type TestContext } from 'node:test'
import { VERSION } from '../../src/version.ts'
import { AUTHORIZATION, folderOf, KEY, temporaryFile } from '../support.ts'
import { type Engine, findEngine, type Image, must, type Output, type Run, run } from './engine.ts'

const NAME = `petstore-test-${process.pid}`
const DOCKERFILE = readFileSync('Dockerfile', 'utf8')
const [BUILD_IMAGE = '', RUNTIME_IMAGE = ''] = Array.from(
  DOCKERFILE.matchAll(/^ARG \w+_IMAGE=(.+)$/gm),
  ([, name]) => name,
)
const NODE = '/nodejs/bin/node'
const SOURCES = readdirSync('src', { recursive: true, withFileTypes: true }).map(
  (entry) => `${entry.parentPath}/${entry.name}${entry.isDirectory() ? '/' : ''}`,
)
const CONTEXT = ['package-lock.json', 'package.json', 'src/', ...SOURCES, 'tsconfig.build.json', 'tsconfig.json']

const found = findEngine([`docker.io/library/${BUILD_IMAGE}`, RUNTIME_IMAGE])

if (typeof found === 'string') test('the image', { skip: found })
else describe('the image', () => suite(found))

function suite(engine: Engine): void {
  let image: Image
  let containers = 0

  before(() => {
    const { status, output } = engine.build(NAME, '.', '--no-cache')
    assert.equal(status, 0, output)
    assert.match(output, /added \d+ packages/)
    image = engine.save(NAME)
  })
  after(engine.clean)

  /** Builds another Dockerfile in the same context. */
  function derive(t: TestContext, name: string, dockerfile: string): Image {
    const { status, output } = engine.build(`${NAME}-${name}`, '.', '--file', temporaryFile(t, dockerfile))
    assert.equal(status, 0, output)
    return engine.save(`${NAME}-${name}`)
  }

  /** Starts a container that serves; the end of the test removes it. */
  async function start(t: TestContext, options: Run) {
    const name = `${NAME}-${++containers}`
    const env = [`PETSTORE_API_KEYS=${KEY}`, 'PETSTORE_LOG=text', ...(options.env ?? [])]
    const [program = '', ...args] = engine.run(name, image, { ...options, env })
    const container = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'] })
    const ended = once(container, 'exit')
    t.after(async () => {
      run(engine.remove(name))
      await ended
    })
    let output = ''
    await new Promise((resolve) => {
      container.on('exit', resolve)
      container.stdout.on('data', (chunk) => {
        output += chunk
        if (output.includes(' listens on ')) resolve(undefined)
      })
    })
    assert.match(output, / listens on /)
    const exec = (...argv: string[]): Output => run([...engine.exec(name), ...argv])
    return {
      exec,
      evaluate(script: string) {
        const { status, stdout, output } = exec(NODE, '-p', script)
        assert.equal(status, 0, output)
        return JSON.parse(stdout)
      },
      /** Asks from within; from an address other than 127.0.0.1, as anybody outside would. */
      ask(path: string, init: RequestInit = {}) {
        const request = { ...init, headers: { authorization: AUTHORIZATION, 'content-type': 'application/json' } }
        const fetched = `await fetch('http://127.0.0.2:8080${path}', ${JSON.stringify(request)})`
        const script = `const answer = ${fetched}; console.log(JSON.stringify([answer.status, await answer.json()]))`
        const { status, stdout, output } = exec(NODE, '--input-type=module', '-e', script)
        assert.equal(status, 0, output)
        return JSON.parse(stdout)
      },
      async stop() {
        must(...engine.stop(name, image))
        return await ended
      },
    }
  }

  /** Runs another program in a container. */
  function runs(program: string[], volume?: string): Output {
    const name = `${NAME}-${++containers}`
    const answer = run(engine.run(name, image, { program, ...(volume !== undefined && { volume }) }))
    run(engine.remove(name))
    return answer
  }

  test('holds the runtime and dist, nothing else, in less than 300 kB of its own', (t) => {
    const base = derive(t, 'base', `FROM ${RUNTIME_IMAGE}\nLABEL is=other`) // than the base image, for clean() removes it
    const digests = ({ layers }: Image) => layers.map(({ digest }) => digest)
    assert.deepEqual(digests(image).slice(0, base.layers.length), digests(base))
    const ours = image.layers.slice(base.layers.length).map(({ file }) => file)
    const bytes = ours.reduce((sum, file) => sum + statSync(file).size, 0)
    t.diagnostic(`our layers have ${bytes} bytes`)
    assert.ok(bytes < 300_000, `${bytes} bytes`)
    const entries = ours.flatMap((file) => must('tar', '--numeric-owner', '-tvf', file).trim().split('\n'))
    const shown = entries.map((entry) => entry.replace(/^(\S+) +(\S+) .* (\S+)$/, '$3 $1 $2'))
    const named = shown.map((entry) => entry.replace(/-[A-Z\d]{8}\.js/, '.js')) // what is shared, or loaded later, has a hash
    const files = ['chunk.js', 'index.js', 'openapi.js', 'page.html', 'snapshot-store.js'].map(
      (name) => `app/${name} -rw-r--r-- 0/0`,
    )
    assert.deepEqual(
      [...new Set(named)].sort(),
      ['app/ drwxr-xr-x 0/0', ...files, 'app/main.js -rwxr-xr-x 0/0', 'data/ drwxr-xr-x 65532/65532'].sort(),
    )
    const all = image.layers.flatMap(({ file }) => must('tar', '-tf', file).trim().split('\n'))
    assert.ok(all.includes(NODE.slice(1)) || all.includes(`.${NODE}`))
    const unwanted =
      /(^|\/)((ba|da|a|z|k)?sh|busybox|np[mx]|corepack|yarn|tsc|node_modules|package\.json)$|\.ts$|\.map$/
    assert.deepEqual(
      all.filter((path) => unwanted.test(path)),
      [],
    )
  })

  test('is configured as it says', () => {
    const { User, Env, Entrypoint, Cmd, ExposedPorts, StopSignal, Labels, Healthcheck } = image.config
    assert.equal(User, '65532:65532')
    assert.ok(Env.includes('HOST=0.0.0.0'))
    assert.deepEqual(Entrypoint, [NODE, '/app/main.js'])
    assert.deepEqual(Cmd ?? [], [])
    assert.deepEqual(ExposedPorts, { '8080/tcp': {} })
    assert.equal(StopSignal, 'SIGTERM')
    assert.deepEqual(Healthcheck.Test, ['CMD', ...Entrypoint, '--healthcheck'])
    const label = (name: string) => Labels[`org.opencontainers.image.${name}`]
    assert.equal(label('title'), 'petstore-server')
    assert.ok(label('description'))
    assert.equal(label('version'), VERSION)
    assert.equal(label('licenses'), 'MIT')
  })

  test('is built from other base images when told so', () => {
    const built = (argument: string) => engine.build(`${NAME}-other`, '.', '--build-arg', argument)
    assert.notEqual(built('BUILD_IMAGE=scratch').status, 0) // it has no npm
    const { status, output } = built('RUNTIME_IMAGE=scratch')
    assert.equal(status, 0, output)
    assert.ok(engine.save(`${NAME}-other`).layers.length < image.layers.length)
  })

  test('lets the build see what it needs, and no more', (t) => {
    const { layers } = derive(t, 'context', 'FROM scratch\nCOPY . /')
    const seen = layers.flatMap(({ file }) => must('tar', '-tf', file).trim().split('\n'))
    assert.deepEqual(seen.sort(), CONTEXT.toSorted())
  })

  test('is built anew from a changed source without a new install', (t) => {
    const folder = folderOf(t)
    for (const path of ['Dockerfile', '.dockerignore', ...CONTEXT])
      cpSync(path, `${folder}/${path}`, { recursive: true })
    appendFileSync(`${folder}/src/index.ts`, 'export const isChanged = true\n')
    const { status, output } = engine.build(`${NAME}-changed`, folder)
    assert.equal(status, 0, output)
    assert.match(output, /tsc -p/)
    assert.doesNotMatch(output, /added \d+ packages/)
  })

  test('serves with a read-only root, without capabilities, as user 65532, with arguments, on 0.0.0.0', async (t) => {
    const { ask, exec, evaluate, stop } = await start(t, { args: ['--demo'] })
    const status: string = evaluate(`JSON.stringify(fs.readFileSync('/proc/1/status', 'utf8'))`)
    assert.match(status, /^Uid:\s65532\s65532\s65532\s65532$/m)
    assert.match(status, /^Gid:\s65532\s65532\s65532\s65532$/m)
    assert.match(status, /^CapBnd:\s0+$/m)
    assert.match(status, /^CapEff:\s0+$/m)
    for (const path of ['/app', '/data', '/home/nonroot']) {
      assert.match(exec(NODE, '-e', `fs.writeFileSync('${path}/file', '')`).output, /EROFS/)
    }
    const [code, pets] = ask('/v1/pets')
    assert.equal(code, 200)
    assert.equal(pets.length, 12)
    assert.deepEqual(await stop(), [0, null])
  })

  test('keeps a snapshot in a volume at /data, whole after the stop signal', async (t) => {
    const volume = engine.volume(t, image)
    const env = ['PETSTORE_SNAPSHOT=/data/pets.json']
    const added: unknown[] = []
    for (const round of [1, 2]) {
      const { ask, stop } = await start(t, { env, volume })
      assert.deepEqual(ask('/v1/pets'), [200, added])
      for (const name of ['Rex', 'Tom']) {
        const [code, pet] = ask('/v1/pets', { method: 'POST', body: JSON.stringify({ name, categoryId: round }) })
        assert.equal(code, 201)
        added.push(pet)
      }
      assert.deepEqual(await stop(), [0, null])
      const { stdout } = runs([NODE, '-p', `fs.readFileSync('/data/pets.json', 'utf8')`], volume)
      assert.deepEqual(JSON.parse(stdout).pets, added)
      assert.equal(runs([NODE, '-p', `fs.readdirSync('/data').join()`], volume).stdout, 'pets.json\n')
    }
  })

  const CONFIGURATIONS = [[], ['PORT=9000', 'PETSTORE_BASE_PATH=/shop/v2'], ['HOST=127.0.0.1']]
  for (const env of CONFIGURATIONS) {
    test(`is healthy with ${env.join(' ') || 'its own configuration'}`, async (t) => {
      const { exec } = await start(t, { env })
      const { status, output } = exec(...image.config.Healthcheck.Test.slice(1))
      assert.equal(status, 0, output)
    })
  }

  test('is unhealthy when nothing serves', () => {
    assert.equal(runs(image.config.Healthcheck.Test.slice(1)).status, 1)
  })
}
