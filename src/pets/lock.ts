import { lstat, open, stat, unlink } from 'node:fs/promises'
import { connect, createServer, type Server } from 'node:net'
import { hostname } from 'node:os'
import { setTimeout as wait } from 'node:timers/promises'
import { messageOf } from './errors.ts'

/** Milliseconds that an owner gets to say who it is. */
const OWNER_TIMEOUT = 1_000
/** Milliseconds after which a guard counts as left by a process that ended: it is held for one or two of them. */
const GUARD_TIMEOUT = 5_000
const GUARD_INTERVAL = 10
/** Bytes of a path that a socket can have on every system. */
const MAX_PATH = 103

/** A lock that is held. */
export interface Lock {
  release(): Promise<void>
}

/**
 * Takes a lock that ends with its process, however that ends: a Unix socket at the path, which the system answers for only
 * while its owner lives, also where process ids repeat from one container to the next.
 *
 * @throws Error whose message goes on behind the name of what is locked: "is in use by …".
 */
export async function takeLock(path: string): Promise<Lock> {
  if (Buffer.byteLength(path) > MAX_PATH) throw new Error(`cannot be locked: ${path} is longer than ${MAX_PATH} bytes`)
  const owner = `process ${process.pid} on ${hostname()} since ${new Date().toISOString()}`
  const server = createServer((socket) => socket.on('error', () => {}).end(owner, () => socket.destroy()))
  const guard = `${path}.guard`
  await takeGuard(guard) // so that of two that find a lock left behind none removes that of the other
  try {
    while (!(await listens(server, path))) await removeStale(path)
  } finally {
    await unlink(guard)
  }
  server.unref()
  return {
    async release() {
      server.close() // which removes the socket at once, and waits for nobody who asks for its owner
    },
  }
}

/** Makes a file that nobody else has made; waits while somebody has. */
async function takeGuard(path: string): Promise<void> {
  for (const start = Date.now(); ; await wait(GUARD_INTERVAL)) {
    try {
      return await (await open(path, 'wx')).close()
    } catch (error) {
      if (codeOf(error) !== 'EEXIST') throw new Error(`cannot be locked: ${messageOf(error)}`)
    }
    const held = await stat(path).catch(() => undefined)
    if (held !== undefined && Date.now() - held.mtimeMs > GUARD_TIMEOUT) await unlink(path).catch(() => {})
    if (Date.now() - start > 2 * GUARD_TIMEOUT) throw new Error(`cannot be locked: ${path} stands in the way`)
  }
}

/** Removes a lock whose owner is gone. */
async function removeStale(path: string): Promise<void> {
  const found = await lstat(path).catch(() => undefined)
  if (found === undefined) return
  if (!found.isSocket()) throw new Error(`cannot be locked: ${path} is not a lock of this server`)
  const owner = await askOwner(path)
  if (owner !== undefined) throw new Error(`is in use by ${owner}`)
  await unlink(path).catch(() => {})
}

/** Whether the server could take the path; false where something is there already. */
function listens(server: Server, path: string): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const failed = (error: NodeJS.ErrnoException) => {
      server.off('listening', listening)
      if (error.code === 'EADDRINUSE') resolve(false)
      else reject(new Error(`cannot be locked: ${error.message}`))
    }
    const listening = () => {
      server.off('error', failed)
      resolve(true)
    }
    server.once('error', failed).once('listening', listening).listen(path)
  })
}

/** Who holds the lock; undefined where nobody does any more. */
function askOwner(path: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    let owner = ''
    const socket = connect(path)
    socket.setTimeout(OWNER_TIMEOUT, () => socket.destroy())
    socket.on('data', (chunk) => (owner += chunk))
    socket.on('error', ({ code }: NodeJS.ErrnoException) => {
      if (code === 'ECONNREFUSED' || code === 'ENOENT') resolve(undefined)
    })
    socket.on('close', () => resolve(owner || 'a process that does not say who it is'))
  })
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined
}
