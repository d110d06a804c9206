// A project of somebody who uses the package: outside of the repository, with the packed file installed.
import { execFile } from 'node:child_process'
import { cpSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { promisify } from 'node:util'

export const REPOSITORY: string = resolve(import.meta.dirname, '../..')

const SOURCES = ['src', 'package.json', 'tsconfig.json', 'tsconfig.build.json', 'README.md', 'LICENSE', 'CHANGELOG.md']
const DEPENDENCIES = {
  typescript: '7.0.2',
  'typescript-5.0': 'npm:typescript@5.0.4',
  '@types/node': '20.19.43',
  bun: '1.4.5',
  deno: '2.9.6',
}

// Not what npm and the test runner have set up for this process: the project is somebody else's.
const ENV = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => !/^(npm_|NODE_TEST_CONTEXT$|NODE_OPTIONS$|NODE_V8_)/.test(name)),
)

/** Runs a command to its end, and gives what it prints to standard output; rejects where it fails. */
export async function run(cwd: string, command: string, ...args: readonly string[]): Promise<string> {
  return runWith({}, cwd, command, ...args)
}

/** The same with more variables. */
export async function runWith(
  env: Readonly<Record<string, string>>,
  cwd: string,
  command: string,
  ...args: readonly string[]
): Promise<string> {
  try {
    return (await promisify(execFile)(command, args, { cwd, env: { ...ENV, ...env }, maxBuffer: 2 ** 26 })).stdout
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string }
    throw new Error(`${command} ${args.join(' ')}\n${stdout}${stderr}`, { cause: error })
  }
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

/** Packs a copy of the repository: packing makes `dist` anew, and other tests run the one that is there. */
export async function pack(folder: string): Promise<string> {
  const copy = join(folder, 'repository')
  write(copy, { 'dist/stale.js': '', 'dist/stale.d.ts': '' })
  for (const name of SOURCES) cpSync(join(REPOSITORY, name), join(copy, name), { recursive: true })
  symlinkSync(join(REPOSITORY, 'node_modules'), join(copy, 'node_modules'))
  const printed = await run(copy, 'npm', 'pack', '--pack-destination', folder)
  return join(folder, printed.trim().split('\n').at(-1) ?? '')
}

/** Installs the packed file in a project, and what else it uses. */
export async function install(project: string, packed: string): Promise<void> {
  await run(project, 'npm', 'install', '--no-audit', '--no-fund', '--prefer-offline', '--ignore-scripts', packed)
}

/** Makes the project. */
export async function makeConsumer(folder: string, packed: string): Promise<string> {
  const consumer = join(folder, 'consumer')
  write(consumer, { 'package.json': JSON.stringify({ private: true, dependencies: DEPENDENCIES }) })
  await install(consumer, packed)
  await run(consumer, process.execPath, 'node_modules/bun/install.js') // puts the binary that npm has installed in its place
  return consumer
}
