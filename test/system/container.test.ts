// The image, built by buildah and run by runc: both run as root and need no daemon.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { chownSync, existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { after, before, describe, test, type TestContext } from 'node:test'
import { run } from '../process.ts'
import { KEY, temporaryFolder } from '../support.ts'
import { isHere, must } from './programs.ts'

const NODE = '/nodejs/bin/node'
const IMAGE = `petstore-test-${process.pid}`
const NO_IPV6 = { index: 0, value: 10, op: 'SCMP_CMP_EQ' } // AF_INET6
const ENVIRONMENT = {
  BUILDAH_FORMAT: 'docker', // that of the OCI has no HEALTHCHECK
  BUILDAH_ISOLATION: 'chroot',
  STORAGE_DRIVER: 'vfs',
}

/** Prepares the tools; returns what is missing. */
function lacksEngine(): string | false {
  const namespaces = ['--mount', '--net', '--pid', '--fork', 'true']
  if (spawnSync('unshare', namespaces).status !== 0) return 'no container may be made here'
  const missing = ['buildah', 'busybox', 'runc'].filter((command) => !isHere(command))
  return missing.length > 0 && `cannot be installed: ${missing.join(', ')}`
}

interface Config {
  User: string
  Env: string[]
  Entrypoint: string[]
  StopSignal: string
  Healthcheck: { Test: string[] }
}

interface Wishes {
  volume: string
  user?: string
  env?: readonly string[]
  seccomp?: object
}

describe('the image', { skip: lacksEngine() }, () => {
  let container = ''
  let root = ''
  let config: Config

  before(() => {
    Object.assign(process.env, ENVIRONMENT)
    const images = readFileSync('Dockerfile', 'utf8').matchAll(/^FROM (?:--\S+ )?(\S+)/gm)
    must('test/system/standin-images', ...Array.from(images, ([, name = '']) => name))
    must('buildah', 'build', '--no-cache', '-t', IMAGE, '.')
    container = must('buildah', 'from', '--pull-never', IMAGE).trim()
    root = must('buildah', 'mount', container).trim()
    config = JSON.parse(must('buildah', 'inspect', container)).Docker.config
  })
  after(() => {
    must('buildah', 'rm', container)
    must('buildah', 'rmi', '--force', IMAGE)
  })

  /** Runs it as docker would, with a read-only root and no capabilities. */
  async function start(t: TestContext, { volume, user, env = [], seccomp }: Wishes) {
    const [uid, gid] = (user ?? config.User).split(':').map(Number)
    const namespaces = ['pid', 'network', 'ipc', 'uts', 'mount'].map((type) => ({ type }))
    const bundle = {
      ociVersion: '1.0.0',
      process: {
        user: { uid, gid },
        args: config.Entrypoint,
        env: [...config.Env, `PETSTORE_API_KEYS=${KEY}`, ...env],
        cwd: '/',
        capabilities: {},
        noNewPrivileges: true,
      },
      root: { path: root, readonly: true },
      mounts: [
        { destination: '/proc', type: 'proc', source: 'proc' },
        { destination: '/dev', type: 'tmpfs', source: 'tmpfs' },
        { destination: '/data', type: 'bind', source: volume, options: ['bind'] },
      ],
      linux: { namespaces, seccomp },
    }
    const folder = temporaryFolder(t)
    writeFileSync(join(folder, 'config.json'), JSON.stringify(bundle))
    const name = basename(folder)
    t.after(() => spawnSync('runc', ['delete', '--force', name]))
    const { stdout, status } = run(t, ['runc', 'run', '--bundle', folder, name])
    await stdout.until(/listens on/)
    return {
      exec: (...command: string[]) => spawnSync('runc', ['exec', name, ...command]),
      /** Asks from within, by an address of the container other than 127.0.0.1. */
      ask(port: number, path: string, body?: string): string {
        const headers = { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' }
        const sent = JSON.stringify({ method: body ? 'POST' : 'GET', body, headers })
        const script = `fetch('http://127.0.0.2:${port}${path}', ${sent})
          .then(async (response) => console.log(response.status, await response.text()))`
        return must('runc', 'exec', name, NODE, '-e', script).trim()
      },
      async stop(): Promise<number | null> {
        must('runc', 'kill', name, config.StopSignal)
        return status
      },
    }
  }

  test('has what the build made, no shell, no npm and no source', () => {
    assert.deepEqual(readdirSync(join(root, 'app')).sort(), ['dist', 'package.json'])
    for (const path of ['bin/sh', 'usr/bin/npm']) assert.ok(!existsSync(join(root, path)), path)
  })

  test('keeps pets in a volume, as any user of group 0, healthy on any port', async (t) => {
    const volume = temporaryFolder(t)
    // As docker makes a new named volume.
    const { uid, gid } = statSync(join(root, 'data'))
    chownSync(volume, uid, gid)
    spawnSync('chmod', ['--reference', join(root, 'data'), volume])
    for (const [round, user] of [config.User, '12345:0'].entries()) {
      const port = 8080 + round
      const env = ['PETSTORE_SNAPSHOT=/data/pets.json', ...(round > 0 ? [`PORT=${port}`] : [])]
      const server = await start(t, { volume, user, env })
      const pet = `{"id":${round + 1},"name":"Rex","categoryId":1}`
      assert.equal(server.ask(port, '/v1/pets', '{"name":"Rex","categoryId":1}'), `201 ${pet}`)
      assert.equal(server.ask(port, `/v1/pets?after=${round}`), `200 [${pet}]`)
      const [, ...check] = config.Healthcheck.Test
      assert.equal(server.exec(...check).status, 0)
      assert.equal(server.exec(...check, '--port', '9').status, 1)
      assert.equal(await server.stop(), 0)
    }
    assert.deepEqual(readdirSync(volume), ['pets.json'])
  })

  test('listens where the system has no IPv6', async (t) => {
    const syscall = { names: ['socket'], action: 'SCMP_ACT_ERRNO', errnoRet: 97, args: [NO_IPV6] }
    const seccomp = { defaultAction: 'SCMP_ACT_ALLOW', syscalls: [syscall] }
    const server = await start(t, { volume: temporaryFolder(t), seccomp })
    assert.equal(server.ask(8080, '/livez').slice(0, 3), '200')
    assert.equal(await server.stop(), 0)
  })
})
