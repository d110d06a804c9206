import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { tmpdir } from 'node:os'
import { folderOf } from '../support.ts'

interface Output {
  status: number | null
  stdout: string
  output: string // standard error too
}

export function run(program: string, ...args: readonly string[]): Output {
  const { status, stdout, stderr } = spawnSync(program, args, {
    encoding: 'utf8',
    maxBuffer: 2 ** 26,
  })
  return { status, stdout, output: `${stdout}${stderr}` }
}

/** Runs a program that must succeed, and returns its standard output. */
export function must(program: string, ...args: readonly string[]): string {
  const { status, stdout, output } = run(program, ...args)
  assert.equal(status, 0, `${program} ${args.join(' ')}\n${output}`)
  return stdout
}

/** Installs packages of npm into a folder, without the scripts that they would run. */
export function npmInstall(folder: string, ...packages: readonly string[]): void {
  const flags = ['--ignore-scripts', '--no-audit', '--no-fund', '--prefer-offline']
  must('npm', 'install', '--silent', '--prefix', folder, ...flags, ...packages)
}

/** Installs packages of Python; returns their folder. */
export function pipInstall(...names: readonly string[]): string {
  const folder = folderOf()
  must('pip3', 'install', '--quiet', '--target', folder, ...names)
  return folder
}

/** Whether this process may mount a disk: in a container, root often may not. */
export function mayMount(): boolean {
  const folder = folderOf()
  const isMounted = run('mount', '-t', 'tmpfs', 'tmpfs', folder).status === 0
  if (isMounted) must('umount', folder)
  return isMounted
}

/** Whether a command is here. If not, tries to install its Debian package, one test at a time. */
export function isHere(command: string, debianPackage: string = command): boolean {
  const look = `command -v ${command}`
  const has = () => run('sh', '-c', look).status === 0
  if (has()) return true
  // Debian starts the services that it installs.
  const install = `export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq; apt-get install -y -qq ${debianPackage}
    for name in ${command} ${debianPackage}; do service $name stop; done`
  run('flock', `${tmpdir()}/petstore-packages`, 'sh', '-c', `${look} || { ${install}; }`)
  return has()
}
