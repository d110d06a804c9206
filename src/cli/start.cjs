'use strict'
// `npm start`: Node runs the sources itself, or before 22.18 with tsx, which npm fetches if need be.
const { spawn, spawnSync } = require('node:child_process')
const { realpathSync } = require('node:fs')
const { delimiter, dirname, join } = require('node:path')
const { pathToFileURL } = require('node:url')
const { problem, runsTypeScript } = require('./node-version.cjs')

const MAIN = join(__dirname, '../main.ts')
const TSX = 'tsx@4.23.15'
const NO_TSX = `npm start needs ${TSX} on this Node, and npm could not fetch it.
Connect to the network once, or use Node 22.18 or later, which needs no tsx.`

/** The loader of tsx: the installed one, or one that npm keeps in its cache. */
function findTsx() {
  try {
    require.resolve('tsx')
    return 'tsx'
  } catch {
    console.log('Loading tsx, which runs the TypeScript sources on this Node: some seconds.')
  }
  // One try: npm's own three take a minute where there is no network.
  const flags = ['--yes', '--prefer-offline', '--fetch-retries=0', '--package', TSX]
  const args = [...flags, '--', 'node', '-p', 'process.env.PATH']
  const shell = process.platform === 'win32'
  const { stdout, status } = spawnSync('npx', args, { shell })
  if (status !== 0) return undefined
  const [bin] = String(stdout).split(delimiter)
  return pathToFileURL(join(dirname(realpathSync(join(bin, 'tsx'))), 'loader.mjs')).href
}

function runWithTsx() {
  const tsx = findTsx()
  if (tsx === undefined) return fail(NO_TSX)
  const args = ['--import', tsx, MAIN, ...process.argv.slice(2)]
  const child = spawn(process.execPath, args, { stdio: 'inherit' })
  process.on('SIGINT', () => {}) // a terminal sends it to the child, too
  for (const signal of ['SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal))
  child.on('exit', (status) => {
    process.exitCode = status ?? 1
  })
}

function fail(message) {
  console.error(message)
  process.exitCode = 1
}

if (problem) fail(problem)
else if (runsTypeScript) import('../main.ts')
else runWithTsx()
