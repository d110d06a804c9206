import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { lstat, readdir, rename, unlink } from 'node:fs/promises'
import { connect, createServer } from 'node:net'
import { hostname } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { ignoreMissing } from './files.ts'

/** Bytes of a path that a socket can have on every system. */
const MAX_PATH = 103
// Decides only how long a refusal takes: an owner that stays silent, because it is stopped say, is still an owner.
const PATIENCE = 1_000
const CONTENDS = '?'
const GONE = ['ENOENT', 'ECONNRESET']

/**
 * Takes the lock of a file: a Unix socket `FILE.lock.<random>`, which the system answers for as long as its owner lives. Each
 * contender shows its socket first and looks at all others then, so of two, one at least sees the other. Of two that contend, the
 * one with the greater name gives up, and the other waits until it has.
 *
 * @returns Releases the lock.
 * @throws Error that names the owner.
 */
export async function takeLock(file: string): Promise<() => Promise<void>> {
  const id = randomBytes(4).toString('hex')
  const [own, hidden] = [`${file}.lock.${id}`, `${file}.lock-${id}`]
  if (Buffer.byteLength(own) > MAX_PATH)
    throw new Error(`${file} cannot be locked: ${own} is longer than ${MAX_PATH} bytes`)
  let answer = `${CONTENDS}process ${process.pid} on ${hostname()} since ${new Date().toISOString()}`
  const server = createServer((socket) => socket.on('error', () => {}).end(answer, () => socket.destroy()))
  const release = async () => {
    server.close()
    await unlink(own).catch(ignoreMissing)
  }
  try {
    await once(server.listen(hidden), 'listening')
    await rename(hidden, own) // so whatever has such a name listens, or is dead
    const others = (await readdir(dirname(file))).map((name) => join(dirname(file), name))
    for (const other of others)
      if (other !== own && other.startsWith(`${file}.lock.`)) await outlive(other, other < own)
  } catch (error) {
    await release()
    throw error
  }
  answer = answer.slice(CONTENDS.length)
  server.unref()
  return release
}

/** Waits until another contender has given up, and removes the socket of a dead one. Rejects if there is an owner. */
async function outlive(path: string, goesFirst: boolean): Promise<void> {
  while ((await lstat(path).catch(ignoreMissing))?.isSocket()) {
    const answer = await ask(path)
    if (answer === undefined) await unlink(path).catch(ignoreMissing)
    if (!answer) return
    if (goesFirst || !answer.startsWith(CONTENDS))
      throw new Error(`${path.replace(/\.lock\.\w+$/, '')} is in use by ${answer.replace(CONTENDS, '')}`)
    await wait(10)
  }
}

/** What a socket answers: nothing while it is being removed, undefined if it refuses connections, and so is dead for good. */
async function ask(path: string): Promise<string | undefined> {
  const socket = connect(path)
  socket.setTimeout(PATIENCE, () => socket.destroy(new Error('a process that does not say who it is')))
  const answer = socket.setEncoding('utf8').toArray()
  return answer.then(
    (texts) => texts.join(''),
    ({ code, message }) => (code === 'ECONNREFUSED' ? undefined : GONE.includes(code) ? '' : message),
  )
}
