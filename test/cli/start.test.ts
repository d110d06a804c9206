// `npm start` where nothing is installed, as in a fresh clone.
import assert from 'node:assert/strict'
import { cpSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { Running } from '../process.ts'
import { folderOf, KEY, send } from '../support.ts'

const SOURCES = join(import.meta.dirname, '../../src')
const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
const runsTypeScript = major > 22 || (major === 22 && minor >= 18)

/** Runs it in a folder without node_modules, and without a network or a cache for npm. */
function startAlone() {
  const folder = folderOf()
  cpSync(SOURCES, join(folder, 'src'), { recursive: true })
  const nobody = 'http://127.0.0.1:1' // refuses connections
  const npm = { npm_config_registry: nobody, npm_config_cache: join(folder, 'cache') }
  const env = { PATH: process.env['PATH'], ...npm, PORT: '0', PETSTORE_API_KEYS: KEY }
  const command = [process.execPath, 'src/cli/start.cjs', '--demo']
  return new Running(command, { cwd: folder, env })
}

test(
  'without tsx, a Node that runs TypeScript serves at once, and stops by SIGTERM',
  { skip: !runsTypeScript && 'this Node needs tsx' },
  async (t) => {
    const server = startAlone()
    t.after(() => server.process.kill('SIGKILL'))
    assert.equal((await send(await server.serves(), 'GET', '/v1/pets')).status, 200)
    server.process.kill('SIGTERM')
    const { status, stderr } = await server.exited
    assert.deepEqual([status, stderr.replace(/^Petstore .*\n/, '')], [0, ''])
  },
)

test(
  'without tsx and a network, an older Node says what is missing',
  { skip: runsTypeScript && 'this Node needs no tsx' },
  async () => {
    const { status, stderr } = await startAlone().exited
    assert.equal(status, 1)
    assert.match(stderr, /^npm start needs tsx@\S+ on this Node, and npm could not fetch it\.\n/)
    assert.match(stderr, /Connect to the network once, or use Node 22\.18 or later/)
  },
)
