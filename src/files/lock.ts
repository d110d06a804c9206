import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { lstat, readdir, readlink, realpath, rename, unlink } from 'node:fs/promises'
import { connect, createServer, type Server } from 'node:net'
import { hostname } from 'node:os'
import { basename, dirname, isAbsolute, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { hasCode, hasMembers, messageOf } from '../guards.ts'
import { now, setTimeout } from '../runtime.ts'
import { ignoreMissing } from './disk.ts'

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
 * 4. A socket that refuses connections is removed. Where only another user may remove it, it stays.
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
  const server = serverOf(() => answer)
  const release = async () => {
    server.close()
    await unlink(own).catch(() => {})
  }
  try {
    server.listen({ path: unready, readableAll: true, writableAll: true })
    await once(server, 'listening')
    server.unref() // it is the listener that keeps the process running
    server.on('error', () => {}) // a connection that the system refuses must not end the owner
    // Under its own name only now: between bind and listen, others would have taken it for dead. If
    // it is gone (ENOENT), the owner of the lock has removed it, so there is one.
    await rename(unready, own).catch((error) => {
      throw hasCode(error, 'ENOENT') ? new Error(`${file} is in use by ${SILENT}`) : error
    })
    for (const other of await socketsOf(`${file}.lock.`)) {
      if (other !== own) await waitForOrRefuse(file, other, other < own)
    }
    for (const left of await socketsOf(`${file}.lock-`)) await removeIfDead(left)
  } catch (error) {
    await release()
    throw refusalFor(file, error)
  }
  answer = owner
  return { path: own, release }
}

/** A server that tells everybody who asks. */
function serverOf(answer: () => string): Server {
  return createServer((socket) => {
    socket.on('error', () => {})
    socket.resume().end(answer())
    // Not once it is sent: Bun resets the connection then.
    socket.setTimeout(ANSWER_TIMEOUT, () => socket.destroy())
  })
}

/** The sockets whose paths begin so. Deno knows a socket by its stats, but not by its entry. */
async function socketsOf(beginning: string): Promise<string[]> {
  const folder = dirname(beginning)
  const paths = (await readdir(folder)).map((name) => join(folder, name))
  const found: string[] = []
  for (const path of paths.filter((path) => path.startsWith(beginning))) {
    if ((await lstat(path).catch(ignoreMissing))?.isSocket()) found.push(path)
  }
  return found
}

/** Removes a socket that a kill left before it was renamed. */
async function removeIfDead(path: string): Promise<void> {
  if ((await ask(path)) === undefined) await unlink(path).catch(() => {})
}

function refusalFor(file: string, error: unknown): unknown {
  if (!hasMembers(error) || !('code' in error)) return error
  if (hasCode(error, 'EACCES', 'ENOENT', 'ENOTDIR')) return badFolder(file)
  const mustBe = 'its folder must be writable and take Unix sockets, as local disks do'
  return new Error(`${file} cannot be locked: ${mustBe} (${messageOf(error)})`)
}

/** Waits until a contender has given up. Removes a dead socket. Rejects if the other goes first. */
async function waitForOrRefuse(file: string, path: string, isBefore: boolean): Promise<void> {
  const deadline = now() + SILENCE_TIMEOUT
  let answer = await ask(path)
  while (answer !== undefined) {
    const mayRefuse = answer !== '' || now() > deadline
    if (mayRefuse && (isBefore || !answer.endsWith(STARTING))) {
      throw new Error(`${file} is in use by ${answer || SILENT}`)
    }
    // A contender that will give up, or an owner without file descriptors, which says nothing.
    await new Promise((resolve) => setTimeout(resolve, RETRY_DELAY))
    answer = await ask(path)
  }
  await unlink(path).catch(() => {})
}

/** Who a socket belongs to; empty if it closed without a word, undefined if it is dead. */
async function ask(path: string): Promise<string | undefined> {
  const socket = connect(path)
  socket.setTimeout(ANSWER_TIMEOUT, () => socket.destroy(new Error('no answer')))
  try {
    return await text(socket)
  } catch (error) {
    if (hasCode(error, 'ECONNREFUSED', 'ENOENT')) return undefined
    if (hasCode(error, 'ECONNRESET')) return '' // it may just have been killed: the next one tells
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
  const folder = await realpath(dirname(path)).catch(() => {
    throw badFolder(path)
  })
  const target = await readlink(path).catch(() => undefined)
  if (target === undefined) return join(folder, basename(path))
  // Not resolve(): what `..` is after a link, only the system knows.
  return realPathOf(isAbsolute(target) ? target : `${folder}/${target}`)
}

function badFolder(file: string): Error {
  return new Error(`${file} must be in a folder that exists, and that this user may write to`)
}
