import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { chownSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import type { TestContext } from 'node:test'
import { isHere } from './packages.ts'

const STANDIN_IMAGES = '../shared/tools/standin-images'

/** An image as it is shipped. */
export interface Image {
  name: string
  /** Where it is unpacked. */
  folder: string
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
  env?: string[]
  args?: string[]
  /** Instead of the image's entry point. */
  program?: string[]
  /** What `volume()` returned; it is mounted at /data. */
  volume?: string
}

interface Images {
  build: (name: string, context: string, ...flags: string[]) => Output
  save: (name: string) => Image
  /** Removes what was built, but not the images that it was built on. */
  clean: () => void
}

/** The command lines for containers, which have a read-only root and no capabilities. */
interface Containers {
  volume: (t: TestContext, image: Image) => string
  /** Runs in the foreground. */
  run: (container: string, image: Image, run: Run) => string[]
  exec: (container: string) => string[]
  stop: (container: string, image: Image) => string[]
  remove: (container: string) => string[]
}

export type Engine = Images & Containers

export interface Output {
  /** Null when the program could not be run. */
  status: number | null
  stdout: string
  /** All that it printed, to show when it fails. */
  output: string
}

/** Runs a program to its end. */
export function run([program = '', ...args]: readonly string[], cwd = '.'): Output {
  const { status, stdout, stderr } = spawnSync(program, args, { cwd, encoding: 'utf8', maxBuffer: 2 ** 26 })
  return { status, stdout, output: `${stdout}${stderr}` }
}

/** Runs what must end well, and returns its standard output. */
export function must(...argv: string[]): string {
  const { status, stdout, output } = run(argv)
  assert.equal(status, 0, `${argv.join(' ')}\n${output}`)
  return stdout
}

/** Finds docker, podman, or buildah and runc with stand-ins for the base images; else returns why there is nothing. */
export function findEngine(baseImages: readonly string[]): Engine | string {
  const cli = ['docker', 'podman'].find((command) => run([command, 'info']).status === 0)
  if (cli !== undefined) return { ...imagesOf(cli), ...containersOf(cli) }
  if (!existsSync(STANDIN_IMAGES)) return 'neither docker nor podman answers, and the base images have no stand-ins'
  const unshare = ['unshare', '--mount', '--net', '--pid', '--fork', 'mount', '-t', 'tmpfs', 'tmpfs', '/mnt']
  if (run(unshare).status !== 0) return 'neither docker nor podman answers, and no container may be made here'
  const missing = ['buildah', 'debootstrap', 'runc'].filter((command) => !isHere(command))
  if (missing.length > 0) return `cannot be installed: ${missing.join(', ')}`
  process.env['STORAGE_DRIVER'] ??= 'vfs'
  process.env['BUILDAH_ISOLATION'] ??= 'chroot'
  must(STANDIN_IMAGES, ...baseImages)
  return { ...imagesOf('buildah'), ...CONTAINERS_OF_RUNC }
}

function imagesOf(cli: string): Images {
  const folder = mkdtempSync(`${tmpdir()}/petstore-images-`)
  const built: string[] = []
  process.env['BUILDAH_FORMAT'] = 'docker' // that of the OCI has no HEALTHCHECK
  process.env['BUILDAH_LAYERS'] = 'true'
  return {
    build(name, context, ...flags) {
      const answer = run([cli, 'build', '-t', name, ...flags, '.'], context)
      // Buildah and podman keep an image of every step.
      const steps = answer.output.matchAll(/^(?!--> Using cache).*\n--> ([0-9a-f]{11})$/gm)
      built.push(...Array.from(steps, ([, id = '']) => id))
      if (answer.status === 0) built.push(name)
      return answer
    },
    save(name) {
      const path = `${folder}/${name}`
      const file = `${path}.tar`
      must(...(cli === 'buildah' ? [cli, 'push', name, `docker-archive:${file}`] : [cli, 'save', '-o', file, name]))
      mkdirSync(path)
      must('tar', '-xf', file, '-C', path)
      rmSync(file)
      const [{ Config, Layers }] = JSON.parse(readFileSync(`${path}/manifest.json`, 'utf8'))
      const { config, rootfs } = JSON.parse(readFileSync(`${path}/${Config}`, 'utf8'))
      const layers = Layers.map((layer: string, at: number) => ({
        digest: rootfs.diff_ids[at],
        file: `${path}/${layer}`,
      }))
      return { name, folder: path, config, layers }
    },
    clean() {
      run([cli, 'rmi', '--force', ...built.reverse()])
      rmSync(folder, { recursive: true })
    },
  }
}

function containersOf(cli: string): Containers {
  return {
    volume(t) {
      const volume = must(cli, 'volume', 'create').trim()
      t.after(() => must(cli, 'volume', 'rm', volume))
      return volume
    },
    run(container, { name }, { env = [], args = [], program: [file, ...rest] = [], volume }) {
      const limits = ['--network', 'none', '--read-only', '--cap-drop', 'ALL', '--security-opt', 'no-new-privileges']
      const variables = env.flatMap((variable) => ['--env', variable])
      const mount = volume === undefined ? [] : ['--volume', `${volume}:/data`]
      const entrypoint = file === undefined ? [] : ['--entrypoint', file]
      const flags = [...limits, ...variables, ...mount, ...entrypoint]
      return [cli, 'run', '--rm', '--name', container, ...flags, name, ...rest, ...args]
    },
    exec: (container) => [cli, 'exec', container],
    stop: (container) => [cli, 'stop', container],
    remove: (container) => [cli, 'rm', '--force', container],
  }
}

/** Containers without a daemon: runc is given what docker would make of the image's configuration. */
const CONTAINERS_OF_RUNC: Containers = {
  volume(t, image) {
    const volume = mkdtempSync(`${tmpdir()}/petstore-volume-`)
    t.after(() => rmSync(volume, { recursive: true }))
    const { uid, gid } = statSync(`${rootOf(image)}/data`)
    chownSync(volume, uid, gid)
    return volume
  },
  run(container, image, { env = [], args = [], program = image.config.Entrypoint, volume }) {
    const { User, Env, WorkingDir } = image.config
    const [uid, gid] = User.split(':').map(Number)
    const bundle = {
      ociVersion: '1.0.2',
      process: {
        user: { uid, gid },
        args: [...program, ...args],
        env: [...Env, ...env],
        cwd: WorkingDir,
        capabilities: { bounding: [], effective: [], inheritable: [], permitted: [], ambient: [] },
        noNewPrivileges: true,
      },
      root: { path: rootOf(image), readonly: true },
      mounts: [
        { destination: '/proc', type: 'proc', source: 'proc' },
        { destination: '/dev', type: 'tmpfs', source: 'tmpfs', options: ['nosuid', 'mode=755'] },
        ...(volume === undefined ? [] : [{ destination: '/data', type: 'bind', source: volume, options: ['bind'] }]),
      ],
      linux: { namespaces: ['pid', 'network', 'ipc', 'uts', 'mount'].map((type) => ({ type })) },
    }
    const folder = `${image.folder}/${container}`
    mkdirSync(folder)
    writeFileSync(`${folder}/config.json`, JSON.stringify(bundle))
    return ['runc', 'run', '--bundle', folder, container]
  },
  exec: (container) => ['runc', 'exec', container],
  stop: (container, { config }) => ['runc', 'kill', container, config.StopSignal],
  remove: (container) => ['runc', 'delete', '--force', container],
}

function rootOf({ folder, layers }: Image): string {
  const root = `${folder}/root`
  if (!existsSync(root)) {
    mkdirSync(root)
    for (const { file } of layers) must('tar', '-xf', file, '-C', root)
  }
  return root
}
