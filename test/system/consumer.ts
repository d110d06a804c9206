// A project of somebody who uses the package: outside of the repository, with the packed file installed.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as after } from 'node:timers/promises'

export const REPOSITORY: string = resolve(import.meta.dirname, '../..')

const SOURCES = ['src', 'package.json', 'tsconfig.json', 'tsconfig.build.json', 'README.md', 'LICENSE', 'CHANGELOG.md']
const DEPENDENCIES = {
  typescript: '7.0.2',
  'typescript-5': 'npm:typescript@5.9.3',
  '@types/node': '20.19.43',
  vitest: '4.1.12',
  jest: '30.5.2',
}

// Not what npm and the test runner have set up for this process: the project is somebody else's.
const ENV = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => !/^(npm_|NODE_TEST_CONTEXT$|NODE_OPTIONS$|NODE_V8_)/.test(name)),
)

/** Runs a command to its end, and gives what it prints to standard output; rejects where it fails or takes two minutes. */
export async function run(cwd: string, command: string, ...args: readonly string[]): Promise<string> {
  const child = spawn(command, args, { cwd, env: ENV, detached: true, stdio: ['ignore', 'pipe', 'pipe'] })
  const stop = new AbortController()
  void after(120_000, undefined, { signal: stop.signal }).then(
    () => child.pid !== undefined && process.kill(-child.pid, 'SIGKILL'),
    () => {},
  )
  const [stdout, stderr, [status, signal]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close'),
  ])
  stop.abort()
  assert.equal(status, 0, `${command} ${args.join(' ')} ended with ${status ?? signal}:\n${stdout}${stderr}`)
  return stdout
}

/** The path of a Node of this major version. */
export async function nodeOf(major: number): Promise<string> {
  if (process.version.startsWith(`v${major}.`)) return process.execPath
  return (await run(REPOSITORY, 'npx', '--yes', '-p', `node@${major}`, '-c', 'command -v node')).trim()
}

export function write(folder: string, files: Readonly<Record<string, string>>): void {
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true })
    writeFileSync(join(folder, name), content)
  }
}

export interface Packed {
  path: string
  bytes: number
  /** The paths in it, sorted. */
  files: string[]
}

/** Packs a copy of the repository: packing makes `dist` anew, and other tests run the one that is there. */
export async function pack(folder: string): Promise<Packed> {
  const copy = join(folder, 'repository')
  write(copy, { 'dist/stale.js': '', 'dist/stale.d.ts': '' })
  for (const name of SOURCES) cpSync(join(REPOSITORY, name), join(copy, name), { recursive: true })
  symlinkSync(join(REPOSITORY, 'node_modules'), join(copy, 'node_modules'))
  const printed = await run(copy, 'npm', 'pack', '--pack-destination', folder)
  const path = join(folder, printed.trim().split('\n').at(-1) ?? '')
  const files = (await run(folder, 'tar', '-tzf', path)).trim().split('\n')
  return { path, bytes: statSync(path).size, files: files.map((file) => file.replace(/^package\//, '')).sort() }
}

/** Makes the project, and installs the packed file and what else it uses. */
export async function makeConsumer(folder: string, packed: Packed): Promise<string> {
  const consumer = join(folder, 'consumer')
  const dependencies = { ...DEPENDENCIES, 'petstore-server': `file:${packed.path}` }
  write(consumer, { 'package.json': JSON.stringify({ private: true, dependencies, jest: { transform: {} } }) })
  await run(consumer, 'npm', 'install', '--no-audit', '--no-fund', '--prefer-offline', '--ignore-scripts')
  return consumer
}
