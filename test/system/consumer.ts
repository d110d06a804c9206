// A user's projects, outside of the repository.
import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { environment } from '../process.ts'

/** The folder of all projects of a test file. */
export const folder = mkdtempSync(join(tmpdir(), 'petstore-'))
process.once('exit', () => rmSync(folder, { recursive: true, force: true }))

/** A configuration of Playwright: Debian's Chromium, as no browser can be downloaded. */
export const BROWSER = `export default { use: { launchOptions: { executablePath: '/usr/bin/chromium' } } }`

/** Folders of programs: of the tools in `folder`, and of the Node that runs the test. */
const PATH = [join(folder, 'node_modules/.bin'), dirname(process.execPath), process.env['PATH']]

/** Runs a shell command that must succeed. Resolves to its output. */
export function shell(cwd: string, command: string, node = ''): Promise<string> {
  const env = { ...environment(), PATH: [node, ...PATH].join(delimiter), NO_COLOR: '1' }
  return new Promise((resolve, reject) => {
    execFile('sh', ['-c', `{ ${command}; } 2>&1`], { cwd, env }, (error, output) => {
      if (error) reject(new Error(`${command}\n${output}`))
      else resolve(output)
    })
  })
}

/** The folder of the newest Node. */
export async function newestNode(): Promise<string> {
  return dirname(await shell(folder, `npx --yes -p node@26 -c 'command -v node'`))
}

/** Packs what is built. Resolves to the path of the file. */
export async function pack(): Promise<string> {
  const name = await shell('.', `npm pack --silent --pack-destination ${folder}`)
  return join(folder, name.trim())
}

/** Installs packages, without the scripts that they would run. */
export async function install(cwd: string, ...packages: string[]): Promise<void> {
  const flags = '--ignore-scripts --no-audit --no-fund --prefer-offline'
  await shell(cwd, `npm install ${flags} ${packages.join(' ')}`)
}
