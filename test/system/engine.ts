// Builds images by buildah and runs them by runc, which need no daemon; both are root's.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import { tmpdir } from 'node:os'
import type { TestContext } from 'node:test'
import { folderOf } from '../support.ts'
import { isHere } from './packages.ts'

// Makes stand-ins for the base images where no registry can be reached.
const STANDIN_IMAGES = '../shared/tools/standin-images'

/** An image as it is shipped, unpacked. */
export interface Image {
  folder: string
  /** The file system that its containers see. */
  root: string
  config: {
    User: string
    Env: string[]
    Entrypoint: string[]
    Cmd?: string[] | null
    WorkingDir: string
    ExposedPorts: Record<string, object>
    StopSignal: string
    Labels: Record<string, string>
    Healthcheck: { Test: string[] }
  }
  layers: { digest: string; file: string }[]
}

/** What a container is told beside its image. */
export interface Run {
  env?: readonly string[]
  args?: readonly string[]
  /** Instead of the image's entry point. */
  program?: readonly string[]
  /** A folder that is mounted at /data. */
  volume?: string
  /** Instead of the image's user: ids of user and group. */
  user?: string
}

export interface Output {
  status: number | null
  stdout: string
  /** Standard error too. */
  output: string
}

/** Runs a program to its end. */
export function run(program: string, ...args: readonly string[]): Output {
  const { status, stdout, stderr } = spawnSync(program, args, { encoding: 'utf8', maxBuffer: 2 ** 26 })
  return { status, stdout, output: `${stdout}${stderr}` }
}

/** Runs what must end well, and returns its standard output. */
export function must(program: string, ...args: readonly string[]): string {
  const { status, stdout, output } = run(program, ...args)
  assert.equal(status, 0, `${program} ${args.join(' ')}\n${output}`)
  return stdout
}

/** Makes ready what builds and runs; returns why it cannot be, or false. */
export function lacksEngine(baseImages: readonly string[]): string | false {
  if (run('unshare', '--mount', '--net', '--pid', '--fork', 'true').status !== 0) return 'no container may be made here'
  const missing = ['buildah', 'debootstrap', 'runc'].filter((command) => !isHere(command))
  if (missing.length > 0) return `cannot be installed: ${missing.join(', ')}`
  process.env['BUILDAH_FORMAT'] = 'docker' // that of the OCI has no HEALTHCHECK
  process.env['STORAGE_DRIVER'] ??= 'vfs'
  process.env['BUILDAH_ISOLATION'] ??= 'chroot'
  if (fs.existsSync(STANDIN_IMAGES)) must(STANDIN_IMAGES, ...baseImages)
  return false
}

const folder = fs.mkdtempSync(`${tmpdir()}/petstore-images-`)
const built: string[] = []

/** Builds the image of the repository, or of another Dockerfile in the same context. */
export function build(...flags: readonly string[]): Output & { image: () => Image } {
  const name = `petstore-test-${process.pid}-${built.length}`
  built.push(name)
  return { ...run('buildah', 'build', '-t', name, ...flags, '.'), image: () => unpack(name) }
}

function unpack(name: string): Image {
  const path = `${folder}/${name}`
  fs.mkdirSync(path)
  must('buildah', 'push', name, `docker-archive:${path}.tar`)
  must('tar', '-xf', `${path}.tar`, '-C', path)
  const read = (json: string) => JSON.parse(fs.readFileSync(`${path}/${json}`, 'utf8'))
  const [{ Config, Layers }] = read('manifest.json')
  const { config, rootfs } = read(Config)
  const layerOf = (layer: string, at: number) => ({ digest: rootfs.diff_ids[at], file: `${path}/${layer}` })
  const layers: Image['layers'] = Layers.map(layerOf)
  const root = `${path}/root`
  fs.mkdirSync(root)
  for (const { file } of layers) must('tar', '-xf', file, '-C', root)
  return { folder: path, root, config, layers }
}

/** Removes what was built, but not the images that it was built on. */
export function clean(): void {
  run('buildah', 'rmi', '--force', ...built)
  fs.rmSync(folder, { recursive: true })
}

/** Makes a volume, as docker does: its owner and mode are those of the image's folder. */
export function volumeOf(t: TestContext, image: Image): string {
  const volume = folderOf(t)
  const { uid, gid, mode } = fs.statSync(`${image.root}/data`)
  fs.chownSync(volume, uid, gid)
  fs.chmodSync(volume, mode)
  return volume
}

/** The arguments for runc to run an image by what docker would make of its configuration: read-only, without capabilities. */
export function argumentsOf(
  container: string,
  image: Image,
  { env = [], args = [], program, volume, user }: Run,
): string[] {
  const { User, Env, WorkingDir, Entrypoint } = image.config
  const [uid, gid] = (user ?? User).split(':').map(Number)
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
    root: { path: image.root, readonly: true },
    mounts: [
      { destination: '/proc', type: 'proc', source: 'proc' },
      { destination: '/dev', type: 'tmpfs', source: 'tmpfs', options: ['nosuid', 'mode=755'] },
      ...(volume === undefined ? [] : [{ destination: '/data', type: 'bind', source: volume, options: ['bind'] }]),
    ],
    linux: { namespaces: ['pid', 'network', 'ipc', 'uts', 'mount'].map((type) => ({ type })) },
  }
  const path = `${image.folder}/${container}`
  fs.mkdirSync(path)
  fs.writeFileSync(`${path}/config.json`, JSON.stringify(bundle))
  return ['run', '--bundle', path, container]
}
