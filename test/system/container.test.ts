// The image, built by buildah and run by runc: both run as root and need no daemon.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { basename } from 'node:path'
import { after, before, describe, test, type TestContext } from 'node:test'
import { Running } from '../process.ts'
import { AUTHORIZATION, folderOf, KEY, temporaryFile } from '../support.ts'
import { verify } from '../verify.ts'
import { isHere, must, run } from './packages.ts'

const NODE = '/nodejs/bin/node'
const { version: VERSION } = JSON.parse(fs.readFileSync('package.json', 'utf8'))
const BASES = fs.readFileSync('Dockerfile', 'utf8').matchAll(/^FROM (?:--\S+ )?(\S+)/gm)
const [BUILD_IMAGE = '', RUNTIME_IMAGE = ''] = Array.from(BASES, ([, name]) => name)
// Makes stand-ins for the base images where no registry can be reached.
const STANDIN_IMAGES = '../shared/tools/standin-images'
const LABEL = 'org.opencontainers.image'
const GIVEN_LABELS = {
  source: 'https://git.example/petstore',
  revision: '0123abc',
  created: '2026-11-21T00:00:00Z',
}

/** Prepares the container tools; returns what is missing. */
function lacksEngine(): string | false {
  if (run('unshare', '--mount', '--net', '--pid', '--fork', 'true').status !== 0)
    return 'no container may be made here'
  const missing = ['buildah', 'debootstrap', 'runc'].filter((command) => !isHere(command))
  if (missing.length > 0) return `cannot be installed: ${missing.join(', ')}`
  process.env['BUILDAH_FORMAT'] = 'docker' // that of the OCI has no HEALTHCHECK
  process.env['STORAGE_DRIVER'] ??= 'vfs'
  process.env['BUILDAH_ISOLATION'] ??= 'chroot'
  if (fs.existsSync(STANDIN_IMAGES))
    must(STANDIN_IMAGES, `docker.io/library/${BUILD_IMAGE}`, RUNTIME_IMAGE)
  return false
}

const opened: string[] = []
const built: string[] = []

/** An image: its configuration, and the file system that its containers see. */
function open(name: string) {
  const container = must('buildah', 'from', '--pull-never', name).trim()
  opened.push(container)
  const { Docker } = JSON.parse(must('buildah', 'inspect', container))
  return { config: Docker.config, root: must('buildah', 'mount', container).trim() }
}

type Image = ReturnType<typeof open>

function build(...flags: readonly string[]): Image {
  const name = `petstore-test-${process.pid}-${built.length}`
  must('buildah', 'build', '-t', name, ...flags, '.')
  built.push(name)
  return open(name)
}

/** The files of an image, each with its mode, owner, size and time. */
function filesOf({ root }: Image): string[] {
  const listed = must('find', root, '-mindepth', '1', '-printf', '%P %M %U/%G %s %T@\n')
  return listed.trim().split('\n').sort()
}

interface Run {
  env?: readonly string[]
  args?: readonly string[]
  program?: readonly string[] // instead of the entry point
  volume?: string // at /data
  user?: string
}

/** Writes a bundle for runc, as docker would: with a read-only root and no capabilities. */
function bundleOf({ root, config }: Image, options: Run): string {
  const { env = [], args = [], program, volume, user } = options
  const { User, Env, WorkingDir, Entrypoint } = config
  const [uid, gid] = (user ?? User).split(':').map(Number)
  const data = { destination: '/data', type: 'bind', source: volume, options: ['bind'] }
  const bundle = {
    ociVersion: '1.0.2',
    process: {
      user: { uid, gid },
      args: [...(program ?? Entrypoint), ...args],
      env: [...Env, ...env],
      cwd: WorkingDir,
      capabilities: { bounding: [], effective: [], inheritable: [], permitted: [], ambient: [] },
      noNewPrivileges: true,
    },
    root: { path: root, readonly: true },
    mounts: [
      { destination: '/proc', type: 'proc', source: 'proc' },
      { destination: '/dev', type: 'tmpfs', source: 'tmpfs', options: ['nosuid', 'mode=755'] },
      ...(volume === undefined ? [] : [data]),
    ],
    linux: { namespaces: ['pid', 'network', 'ipc', 'uts', 'mount'].map((type) => ({ type })) },
  }
  const folder = folderOf()
  fs.writeFileSync(`${folder}/config.json`, JSON.stringify(bundle))
  return folder
}

describe('the image', { skip: lacksEngine() }, () => {
  let image: Image

  before(() => {
    const pairs = Object.entries(GIVEN_LABELS).map(([name, value]) => `${LABEL}.${name}=${value}`)
    image = build('--no-cache', ...pairs.flatMap((pair) => ['--label', pair]))
  })
  after(() => {
    if (opened.length > 0) must('buildah', 'rm', ...opened)
    if (built.length > 0) must('buildah', 'rmi', '--force', ...built)
  })

  async function start(t: TestContext, options: Run) {
    const env = [`PETSTORE_API_KEYS=${KEY}`, 'PETSTORE_LOG=text', ...(options.env ?? [])]
    const bundle = bundleOf(image, { ...options, env })
    const name = basename(bundle)
    const container = new Running(['runc', 'run', '--bundle', bundle, name])
    t.after(async () => {
      run('runc', 'delete', '--force', name)
      await container.exited
    })
    await container.serves()
    const exec = (...argv: string[]) => run('runc', 'exec', name, ...argv)
    const { pid } = JSON.parse(must('runc', 'state', name))
    return {
      pid,
      exec,
      /** Asks from within; from an address other than 127.0.0.1, as anybody outside would. */
      ask(path: string, init: RequestInit = {}) {
        const headers = { authorization: AUTHORIZATION, 'content-type': 'application/json' }
        const request = JSON.stringify({ ...init, headers })
        const script = `
          const response = await fetch('http://127.0.0.2:8080${path}', ${request})
          console.log(JSON.stringify([response.status, await response.json()]))`
        const { status, stdout, output } = exec(NODE, '--input-type=module', '-e', script)
        assert.equal(status, 0, output)
        return JSON.parse(stdout)
      },
      stop() {
        must('runc', 'kill', name, image.config.StopSignal)
        return container.exited.then(({ status }) => status)
      },
    }
  }

  test('holds the runtime and dist, nothing else, in less than 300 kB of its own', () => {
    const [inherited, all] = [filesOf(open(RUNTIME_IMAGE)), filesOf(image)]
    const ours = all.filter((file) => !inherited.includes(file)).map((file) => file.split(' '))
    assert.equal(inherited.length + ours.length, all.length)
    const bytes = ours.reduce((sum, [, , , size]) => sum + Number(size), 0)
    assert.ok(bytes < 300_000, `${bytes} bytes`)
    const shown = new Set(ours.map((file) => file.slice(0, 3).join(' ')))
    const unlike = ['app drwxr-xr-x 0/0', 'data drwxrwxr-x 65532/0', 'app/main.js -rwxr-xr-x 0/0']
    for (const entry of unlike) assert.ok(shown.delete(entry), `${entry} is not in ${[...shown]}`)
    const others = /^app\/[\w-]+\.(?:c?js|json|html) -rw-r--r-- 0\/0$/
    for (const entry of shown) assert.match(entry, others)
    const shell = '(?:ba|da|a|z|k)?sh|busybox'
    const tools = `${shell}|np[mx]|corepack|yarn|tsc|node_modules|package\\.json`
    const unwanted = new RegExp(`(?:^|/)(?:${tools}) |\\.(?:ts|map) `)
    for (const file of all) assert.doesNotMatch(file, unwanted)
  })

  test('has the configuration and the labels of its Dockerfile', () => {
    const { User, Env, Entrypoint, Cmd, ExposedPorts, StopSignal, Labels, Healthcheck } =
      image.config
    assert.ok(Env.includes('HOST=::'))
    assert.deepEqual([User, StopSignal, Cmd ?? []], ['65532:65532', 'SIGTERM', []])
    assert.deepEqual(Entrypoint, [NODE, '/app/main.js'])
    assert.deepEqual(ExposedPorts, { '8080/tcp': {} })
    assert.deepEqual(Healthcheck.Test, ['CMD', ...Entrypoint, '--healthcheck'])
    const label = (name: string) => Labels[`${LABEL}.${name}`]
    const [title, license] = ['petstore-server', 'MIT']
    assert.deepEqual(['title', 'version', 'licenses'].map(label), [title, VERSION, license])
    assert.deepEqual(Object.keys(GIVEN_LABELS).map(label), Object.values(GIVEN_LABELS))
    assert.ok(label('description'))
  })

  test('is built from other base images when told so', () => {
    const replace = (name: string, other: string) =>
      build('--build-context', `${name}=docker-image://${other}`)
    assert.throws(() => replace(BUILD_IMAGE, RUNTIME_IMAGE)) // it has no npm
    const other = replace(RUNTIME_IMAGE, `docker.io/library/${BUILD_IMAGE}`)
    assert.ok(fs.existsSync(`${image.root}${NODE}`) && !fs.existsSync(`${other.root}${NODE}`))
  })

  test('lets the build see what it needs, and no more', () => {
    const { root } = build('--file', temporaryFile('FROM scratch\nCOPY . /'))
    const seen = fs.readdirSync(root, { recursive: true })
    const sources = fs.readdirSync('src', { recursive: true }).map((path) => `src/${path}`)
    const config = ['package-lock.json', 'package.json', 'tsconfig.build.json', 'tsconfig.json']
    assert.deepEqual(seen.sort(), ['src', ...sources, ...config].sort())
  })

  test('serves on :: as user 65532, with a read-only root and no capabilities', async (t) => {
    const { ask, exec, stop } = await start(t, { args: ['--demo'] })
    const status = exec(NODE, '-p', `fs.readFileSync('/proc/1/status', 'utf8')`).stdout
    for (const id of ['Uid', 'Gid'])
      assert.match(status, new RegExp(`^${id}:(?:\\s65532){4}$`, 'm'))
    for (const capabilities of ['CapBnd', 'CapEff'])
      assert.match(status, new RegExp(`^${capabilities}:\\s0+$`, 'm'))
    for (const path of ['/app', '/data', '/home/nonroot']) {
      assert.match(exec(NODE, '-e', `fs.writeFileSync('${path}/file', '')`).output, /EROFS/)
    }
    const [code, pets] = ask('/v1/pets')
    assert.deepEqual([code, pets.length], [200, 12])
    assert.equal(await stop(), 0)
  })

  test('keeps every rule of the conformance suite', async (t) => {
    const { pid } = await start(t, { args: ['--demo'] })
    const within = ['nsenter', `--net=/proc/${pid}/ns/net`]
    const { status, stdout } = await verify(
      'http://127.0.0.1:8080/v1',
      ['--create', '--decisions'],
      within,
    )
    assert.equal(status, 0, stdout)
  })

  test('keeps a snapshot in a volume at /data, as its user and as any of group 0', async (t) => {
    const volume = folderOf()
    // Docker gives these to a new volume.
    const { uid, gid, mode } = fs.statSync(`${image.root}/data`)
    fs.chownSync(volume, uid, gid)
    fs.chmodSync(volume, mode)
    const added: unknown[] = []
    for (const [round, user] of [image.config.User, '12345:0'].entries()) {
      const env = ['PETSTORE_SNAPSHOT=/data/pets.json']
      const { ask, stop } = await start(t, { env, volume, user })
      assert.deepEqual(ask('/v1/pets'), [200, added])
      for (const name of ['Rex', 'Tom']) {
        const body = JSON.stringify({ name, categoryId: round })
        const [code, pet] = ask('/v1/pets', { method: 'POST', body })
        assert.equal(code, 201)
        added.push(pet)
      }
      assert.equal(await stop(), 0)
      assert.deepEqual(fs.readdirSync(volume), ['pets.json'])
    }
  })

  for (const env of [[], ['PORT=9000', 'PETSTORE_BASE_PATH=/shop/v2'], ['HOST=127.0.0.1']]) {
    const setting = env.join(' ') || 'its own configuration'
    test(`is healthy with ${setting} while it serves, and unhealthy otherwise`, async (t) => {
      const check = image.config.Healthcheck.Test.slice(1)
      const { exec } = await start(t, { env })
      const { status, output } = exec(...check)
      assert.equal(status, 0, output)
      const alone = bundleOf(image, { program: check })
      assert.equal(run('runc', 'run', '--bundle', alone, basename(alone)).status, 1)
    })
  }
})
