// A user's project outside of the repository, with the package installed from the packed file.
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'

const { NODE_TEST_CONTEXT: _, ...ENV } = process.env // it changes what `node --test` prints
const INSTALL = ['install', '--ignore-scripts', '--no-audit', '--no-fund', '--prefer-offline']

/** The folder of all projects of a test file. */
export const folder = mkdtempSync(join(tmpdir(), 'petstore-'))
process.once('exit', () => rmSync(folder, { recursive: true, force: true }))

interface Outcome {
  status: number | null
  output: string
}

/** Runs a command. By default, `node` is the one that runs the test. */
export function run(cwd: string, command: string, node?: number): Outcome {
  const PATH = [folderOf(node), ENV['PATH']].join(delimiter)
  const env = { ...ENV, PATH, NO_COLOR: '1' }
  const { status, stdout, stderr } = spawnSync('sh', ['-c', command], {
    cwd,
    env,
    encoding: 'utf8',
  })
  return { status, output: stdout + stderr }
}

/** Runs a command that must succeed, and returns what it printed. */
export function must(cwd: string, command: string, node?: number): string {
  const { status, output } = run(cwd, command, node)
  assert.equal(status, 0, `${command}\n${output}`)
  return output
}

const folders = new Map<number | undefined, string>([[undefined, dirname(process.execPath)]])

/** The folder of a Node of that major version. */
function folderOf(node: number | undefined): string {
  const known = folders.get(node)
  if (known !== undefined) return known
  const find = ['--yes', '-p', `node@${node}`, '-c', 'command -v node']
  const found = dirname(execFileSync('npx', find, { encoding: 'utf8' }))
  folders.set(node, found)
  return found
}

/** Packs what is built. Returns the path of the file. */
export function pack(): string {
  must('.', `npm pack --ignore-scripts --pack-destination ${folder}`)
  return join(folder, 'petstore-server-1.0.0.tgz')
}

/** Installs packages, without the scripts that they would run. */
export function install(cwd: string, ...packages: string[]): void {
  must(cwd, ['npm', ...INSTALL, ...packages].join(' '))
}
