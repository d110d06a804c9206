import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readdir, rename, rm } from 'node:fs/promises'
import { connect, createServer } from 'node:net'
import { hostname } from 'node:os'
import { dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as wait } from 'node:timers/promises'

/** Bytes of a path that a socket can have on every system. */
const MAX_PATH = 103
// Decides only how long a refusal takes: an owner that stays silent, because it is stopped say, is still an owner.
const PATIENCE = 1_000
const CONTENDS = '?'
const DEAD = ['ECONNREFUSED', 'ECONNRESET', 'ENOENT']

// Takes the lock of a file: a Unix socket `FILE.lock.<random>`, which the system answers for as long as its owner lives.
// Each contender shows its socket first and looks at all others then, so of two, one at least sees the other. Of two that
// contend, the one with the greater name gives up, and the other waits until it has. Resolves to what releases the lock;
// rejects with an Error that names the owner.
export async function takeLock(file: string): Promise<() => Promise<void>> {
  const id = randomBytes(4).toString('hex')
  const [own, hidden] = [`${file}.lock.${id}`, `${file}.lock-${id}`]
  if (Buffer.byteLength(own) > MAX_PATH)
    throw new Error(`${file} cannot be locked: ${own} is longer than ${MAX_PATH} bytes`)
  let answer = `${CONTENDS}process ${process.pid} on ${hostname()} since ${new Date().toISOString()}`
  const server = createServer((socket) => socket.on('error', () => {}).end(answer, () => socket.destroy()))
  const release = async () => {
    server.close()
    await rm(own, { force: true })
  }
  try {
    await once(server.listen(hidden), 'listening')
    await rename(hidden, own) // so whatever has such a name listens, or is dead
    for (const entry of await readdir(dirname(file), { withFileTypes: true })) {
      const other = join(dirname(file), entry.name)
      if (entry.isSocket() && other !== own && other.startsWith(`${file}.lock.`)) await outlive(other, other < own)
    }
  } catch (error) {
    await release()
    throw error
  }
  answer = answer.slice(CONTENDS.length)
  server.unref()
  return release
}

/** Waits until a contender has given up, and removes the socket of a dead one. Rejects if there is an owner. */
async function outlive(path: string, goesFirst: boolean): Promise<void> {
  const socket = connect(path)
  socket.setTimeout(PATIENCE, () => socket.destroy(new Error('a process that does not say who it is')))
  const answer = await text(socket).catch(({ code, message }) => (DEAD.includes(code) ? undefined : message))
  if (answer === undefined) return rm(path, { force: true })
  if (answer !== '' && (goesFirst || !answer.startsWith(CONTENDS)))
    throw new Error(`${path.replace(/\.lock\.\w+$/, '')} is in use by ${answer.replace(CONTENDS, '')}`)
  await wait(10) // for one that gives up, or that has no file descriptor left to answer with
  return outlive(path, goesFirst)
}
