// The image, built by buildah and run by runc: both run as root and need no daemon.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { chownSync, existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { after, before, describe, test, type TestContext } from 'node:test'
import { launch } from '../process.ts'
import { KEY, temporaryFolder } from '../support.ts'
import { isHere, must } from './programs.ts'

const NODE = '/nodejs/bin/node'
const NAME = `petstore-test-${process.pid}`
const IMAGES = readFileSync('Dockerfile', 'utf8').matchAll(/^FROM (?:--\S+ )?(\S+)/gm)
const [BUILD_IMAGE = '', RUNTIME_IMAGE = ''] = Array.from(IMAGES, ([, name]) => name)
// Makes stand-ins for both where no registry can be reached.
const STANDIN_IMAGES = '../shared/tools/standin-images'

/** Prepares the tools; returns what is missing. */
function lacksEngine(): string | false {
  const isAllowed =
    spawnSync('unshare', ['--mount', '--net', '--pid', '--fork', 'true']).status === 0
  if (!isAllowed) return 'no container may be made here'
  const missing = ['buildah', 'debootstrap', 'runc'].filter((command) => !isHere(command))
  if (missing.length > 0) return `cannot be installed: ${missing.join(', ')}`
  process.env['BUILDAH_FORMAT'] = 'docker' // that of the OCI has no HEALTHCHECK
  process.env['STORAGE_DRIVER'] ??= 'vfs'
  process.env['BUILDAH_ISOLATION'] ??= 'chroot'
  if (existsSync(STANDIN_IMAGES)) {
    must(STANDIN_IMAGES, `docker.io/library/${BUILD_IMAGE}`, RUNTIME_IMAGE)
  }
  return false
}

interface Config {
  User: string
  Env: string[]
  Entrypoint: string[]
  WorkingDir: string
  StopSignal: string
  Healthcheck: { Test: string[] }
}

describe('the image', { skip: lacksEngine() }, () => {
  let container = ''
  let root = ''
  let config: Config

  before(() => {
    must('buildah', 'build', '--no-cache', '-t', NAME, '.')
    container = must('buildah', 'from', '--pull-never', NAME).trim()
    root = must('buildah', 'mount', container).trim()
    config = JSON.parse(must('buildah', 'inspect', container)).Docker.config
  })
  after(() => {
    must('buildah', 'rm', container)
    must('buildah', 'rmi', '--force', NAME)
  })

  /** Runs it as docker would, with a read-only root and no capabilities. */
  async function start(t: TestContext, env: readonly string[], volume: string, user = config.User) {
    const [uid, gid] = user.split(':').map(Number)
    const bundle = {
      ociVersion: '1.0.2',
      process: {
        user: { uid, gid },
        args: config.Entrypoint,
        env: [...config.Env, `PETSTORE_API_KEYS=${KEY}`, 'PETSTORE_LOG=text', ...env],
        cwd: config.WorkingDir,
        capabilities: {},
        noNewPrivileges: true,
      },
      root: { path: root, readonly: true },
      mounts: [
        { destination: '/proc', type: 'proc', source: 'proc' },
        { destination: '/dev', type: 'tmpfs', source: 'tmpfs', options: ['nosuid', 'mode=755'] },
        { destination: '/data', type: 'bind', source: volume, options: ['bind'] },
      ],
      linux: { namespaces: ['pid', 'network', 'ipc', 'uts', 'mount'].map((type) => ({ type })) },
    }
    const folder = temporaryFolder(t)
    writeFileSync(join(folder, 'config.json'), JSON.stringify(bundle))
    const name = basename(folder)
    t.after(() => spawnSync('runc', ['delete', '--force', name]))
    const { exited } = await launch(t, ['runc', 'run', '--bundle', folder, name])
    const exec = (...command: string[]) =>
      spawnSync('runc', ['exec', name, ...command], { encoding: 'utf8' })
    return {
      exec,
      /** Asks from within; from an address other than 127.0.0.1, as anybody outside would. */
      ask(port: number, path: string, body?: string) {
        const headers = { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' }
        const sent = { method: body ? 'POST' : 'GET', body, headers }
        const args = `'http://127.0.0.2:${port}${path}', ${JSON.stringify(sent)}`
        const script = `const response = await fetch(${args})
          console.log(response.status, await response.text())`
        return exec(NODE, '--input-type=module', '-e', script).stdout.trim()
      },
      stop() {
        must('runc', 'kill', name, config.StopSignal)
        return exited
      },
    }
  }

  test('has the runtime and what the build made, no shell, no npm, no source', () => {
    const folders = { app: ['dist', 'package.json'], data: [] }
    for (const [folder, names] of Object.entries(folders)) {
      assert.deepEqual(readdirSync(join(root, folder)).sort(), names)
    }
    const built = readdirSync(join(root, 'app/dist'), { recursive: true }).map(String)
    const expected = /^[\w-]+$|\.(?:js|d\.ts|json|html)$/
    assert.deepEqual(
      built.filter((path) => !expected.test(path)),
      [],
    )
    for (const path of ['bin/sh', 'usr/bin/npm', 'app/node_modules', 'app/src']) {
      assert.ok(!existsSync(join(root, path)), path)
    }
  })

  test('keeps pets in a volume, as any user of group 0, healthy on any port', async (t) => {
    const volume = temporaryFolder(t)
    const { uid, gid } = statSync(join(root, 'data')) // as docker makes a new volume
    chownSync(volume, uid, gid)
    spawnSync('chmod', ['775', volume])
    for (const [round, user] of [config.User, '12345:0'].entries()) {
      const port = 8080 + round
      const env = ['PETSTORE_SNAPSHOT=/data/pets.json', ...(round ? [`PORT=${port}`] : [])]
      const { exec, ask, stop } = await start(t, env, volume, user)
      const pet = `{"id":${round + 1},"name":"Rex","categoryId":1}`
      assert.equal(ask(port, '/v1/pets', '{"name":"Rex","categoryId":1}'), `201 ${pet}`)
      assert.equal(ask(port, `/v1/pets?after=${round}`), `200 [${pet}]`)
      const [, ...check] = config.Healthcheck.Test
      assert.equal(exec(...check).status, 0)
      assert.equal(exec(...check, '--port', '9').status, 1)
      assert.match(exec(NODE, '-e', 'fs.writeFileSync("/app/file", "")').stderr, /EROFS/)
      assert.equal(await stop(), 0)
    }
    assert.deepEqual(readdirSync(volume), ['pets.json'])
  })
})
