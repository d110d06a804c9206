import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { readdir, readlink, realpath, rename, rm, unlink } from 'node:fs/promises'
import { connect, createServer } from 'node:net'
import { hostname } from 'node:os'
import { basename, dirname, isAbsolute, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as wait } from 'node:timers/promises'
import { hasCode, messageOf } from '../guards.ts'

/** Bytes of a path that a socket can have on every system. */
const MAX_PATH = 103
const STARTING = ', starting' // what a contender adds to its name
const SILENT = 'an unknown process'
const ANSWER_TIMEOUT = 1_000
const SILENCE_TIMEOUT = 5_000
const RETRY_DELAY = 10

export interface Lock {
  /** Of the socket. If it is removed, another server can take the lock. */
  readonly path: string
  /** Never rejects: a socket that cannot be removed is dead, and the next contender removes it. */
  release(): Promise<void>
}

/**
 * Takes the lock of a file: a Unix socket `FILE.lock.<random>`. The system accepts connections to
 * it for as long as its owner lives.
 *
 * 1. A contender listens on a socket of its own, and only then looks at all others: of two, at
 *    least one sees the other.
 * 2. The socket tells every user of the system who the process is, and whether it contends.
 * 3. A contender that sees an owner, or a contender whose name comes first, gives up; for any other
 *    contender it waits.
 * 4. A socket that refuses connections is removed.
 *
 * @throws Error that names the owner.
 */
export async function takeLock(file: string): Promise<Lock> {
  const id = randomUUID().slice(0, 8)
  const own = `${file}.lock.${id}`
  const unready = `${file}.lock-${id}` // not `.lock.`, so others ignore it
  if (Buffer.byteLength(own) > MAX_PATH) {
    throw new Error(`${file} cannot be locked: ${own} is longer than ${MAX_PATH} bytes`)
  }
  const owner = `process ${process.pid} on ${hostname()}`
  let answer = owner + STARTING
  const server = createServer((socket) =>
    socket.on('error', () => {}).end(answer, () => socket.destroy()),
  )
  const release = async () => {
    server.close()
    await unlink(own).catch(() => {})
  }
  try {
    server.listen({ path: unready, readableAll: true, writableAll: true })
    await once(server, 'listening').catch((error) => {
      if (hasCode(error, 'EACCES')) refuseFolder(file)
      throw error
    })
    server.unref() // it is the listener that keeps the process running
    server.on('error', () => {}) // a connection that the system refuses must not end the owner
    await rename(unready, own) // between bind and listen, others would have taken it for dead
    await waitForOthers(file, own)
  } catch (error) {
    await release()
    throw error
  }
  answer = owner
  return { path: own, release }
}

async function waitForOthers(file: string, own: string): Promise<void> {
  for (const entry of await readdir(dirname(file), { withFileTypes: true })) {
    const other = join(dirname(file), entry.name)
    const isLock = entry.isSocket() && other.startsWith(`${file}.lock.`)
    if (isLock && other !== own) await waitForOrRefuse(file, other, other < own)
  }
}

/** Waits until a contender has given up. Removes a dead socket. Rejects if the other goes first. */
async function waitForOrRefuse(file: string, path: string, isBefore: boolean): Promise<void> {
  const deadline = Date.now() + SILENCE_TIMEOUT
  let answer = await ask(path)
  while (answer !== undefined) {
    const mayRefuse = answer !== '' || Date.now() > deadline
    if (mayRefuse && (isBefore || !answer.endsWith(STARTING))) {
      throw new Error(`${file} is in use by ${answer || SILENT}`)
    }
    // A contender that will give up, or an owner without file descriptors, which says nothing.
    await wait(RETRY_DELAY)
    answer = await ask(path)
  }
  await rm(path, { force: true })
}

/** Who a socket belongs to; empty if it closed without a word, undefined if it is dead. */
async function ask(path: string): Promise<string | undefined> {
  const socket = connect(path)
  socket.setTimeout(ANSWER_TIMEOUT, () => socket.destroy(new Error('no answer')))
  try {
    return await text(socket)
  } catch (error) {
    if (hasCode(error, 'ECONNREFUSED', 'ECONNRESET', 'ENOENT')) return undefined
    return `${SILENT}: ${messageOf(error)}` // still an owner
  }
}

/** Resolves links, also those to a file that does not exist yet. */
export async function realPathOf(path: string): Promise<string> {
  try {
    return await realpath(path)
  } catch (error) {
    if (hasCode(error, 'ELOOP')) throw error
  }
  const folder = await realpath(dirname(path)).catch(() => refuseFolder(path))
  const target = await readlink(path).catch(() => undefined)
  if (target === undefined) return join(folder, basename(path))
  // Not resolve(): what `..` is after a link, only the system knows.
  return realPathOf(isAbsolute(target) ? target : `${folder}/${target}`)
}

function refuseFolder(file: string): never {
  throw new Error(`${file} must be in a folder that exists, and that this user may write to`)
}
