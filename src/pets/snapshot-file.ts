import type { BigIntStats } from 'node:fs'
import { type FileHandle, open, readlink, realpath } from 'node:fs/promises'
import { rename, stat, unlink, writeFile } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { clearInterval, now, setInterval, sleep, timeOfDay } from '../clock.ts'
import { codedError, hasCode, messageOf } from '../errors.ts'
import { petsIn, piecesOf } from './snapshot-format.ts'
import type { Pet } from './store.ts'

const STALE = 2_000 // milliseconds without a change, after which FILE.new was left by a kill
const OLD = 60_000 // the same, for one that is found
const TOUCH = 500 // milliseconds between two touches of FILE.new
const RETRY = 10 // milliseconds until FILE.new may be free
const PAUSE = 20 // milliseconds before the next write, if another server wants to write, too
const MAX_TRIES = 100 // a file system may give a file another inode number at each look

/** What FILE is to have. */
export interface Change {
  readonly json: Iterable<string> // of all pets
  readonly onReplaced: () => void // called once FILE has them
}

/**
 * Makes a change of what FILE has: `found`, or what is known already. It is called again if
 * somebody else changes FILE meanwhile.
 */
export type Plan = (found: Pet[] | undefined) => Change

/**
 * A JSON file of pets, FILE, that is only ever replaced whole. FILE.new, which is created
 * exclusively, is the lock: of several servers, one writes at a time.
 */
export class SnapshotFile {
  readonly path: string
  readonly #newPath: string
  #seen: BigIntStats | undefined // FILE as it was read or written; undefined if there is none
  #isContended = false // whether the last write met another server

  private constructor(path: string) {
    this.path = path
    this.#newPath = `${path}.new`
  }

  /** @param path May be a link: what it leads to is replaced, not the link. */
  static async at(path: string): Promise<SnapshotFile> {
    return new SnapshotFile(await targetOf(path))
  }

  /** The pets in FILE; undefined if it is missing, or as it was last read or written. */
  async read(): Promise<Pet[] | undefined> {
    for (;;) {
      const found = await statOf(this.path)
      if (!found) this.#seen = undefined
      if (!found || isSame(found, this.#seen)) return undefined
      if (!found.isFile()) throw new Error(`${this.path} must be a regular file`)
      // What is open stays whole, however often another server replaces FILE meanwhile.
      const handle = await open(this.path)
      try {
        const opened = await handle.stat({ bigint: true })
        const bytes = await handle.readFile()
        if (!isSame(opened, await handle.stat({ bigint: true }))) continue // edited in place
        const pets = petsIn(this.path, bytes)
        this.#seen = opened
        return pets
      } finally {
        await handle.close()
      }
    }
  }

  /** Replaces FILE. If that fails with the code `outcome_unknown`, FILE was replaced. */
  async replace(plan: Plan): Promise<void> {
    if (this.#isContended) await sleep(PAUSE)
    this.#isContended = false
    for (let tries = 1; !(await this.#tryToReplace(plan)); tries++) {
      this.#isContended = true
      if (tries === MAX_TRIES) throw new Error(`${this.path} is changed all the time by others`)
    }
  }

  /** False if another server has changed FILE or FILE.new meanwhile. */
  async #tryToReplace(plan: Plan): Promise<boolean> {
    const handle = await this.#lock()
    let isRenamed = false
    try {
      const { json, onReplaced } = plan(await this.read())
      await this.#write(handle, json)
      const own = await handle.stat({ bigint: true })
      const looked = now()
      if ((await statOf(this.#newPath))?.ino !== own.ino) return false
      if (!isSame(await statOf(this.path), this.#seen)) return false
      await rename(this.#newPath, this.path)
      isRenamed = true
      // Our own file stays open until after this look, because only an open file keeps its inode
      // number to itself. If FILE is another one, a server has replaced ours after it read it, and
      // all is well. Only after a long delay may that server have taken FILE.new before our rename.
      const isOwn = (await statOf(this.path))?.ino === own.ino
      if (!isOwn && now() - looked > STALE - TOUCH) return false
      this.#seen = own
      onReplaced()
      await syncFolder(dirname(this.path))
      return true
    } catch (error) {
      if (isRenamed) throw codedError('outcome_unknown', messageOf(error), error)
      throw error
    } finally {
      if (!isRenamed) await this.#unlock(handle)
      await handle.close().catch(() => {}) // nothing depends on it after the sync
    }
  }

  /** Creates FILE.new. Waits for another server to give it up, and removes one left by a kill. */
  async #lock(): Promise<FileHandle> {
    const mode = this.#seen ? Number(this.#seen.mode) & 0o777 : 0o666
    let last: BigIntStats | undefined
    let since = 0
    for (;;) {
      try {
        return await open(this.#newPath, 'wx', mode)
      } catch (error) {
        if (!hasCode(error, 'EEXIST')) throw error
      }
      this.#isContended = true
      const found = await statOf(this.#newPath)
      if (!found) continue
      if (!isSame(found, last)) {
        last = found
        since = now()
      }
      const age = timeOfDay() - Number(found.mtimeMs)
      if (now() - since > STALE || age > OLD) await this.#removeStale()
      else await sleep(RETRY * (0.5 + Math.random()))
    }
  }

  async #removeStale(): Promise<void> {
    try {
      await unlink(this.#newPath)
    } catch (error) {
      if (hasCode(error, 'ENOENT')) return
      throw new Error(
        `${this.#newPath} was left by a kill, and cannot be removed: ${messageOf(error)}`,
      )
    }
  }

  /** Removes FILE.new, unless another server has made it its own. */
  async #unlock(handle: FileHandle): Promise<void> {
    try {
      const own = await handle.stat({ bigint: true })
      const found = await statOf(this.#newPath)
      if (found?.ino === own.ino) await unlink(this.#newPath)
    } catch {
      // What it leaves is stale in two seconds. The error that led here is the one to report.
    }
  }

  /** Writes FILE.new, and touches it all the while, so that nobody takes it for stale. */
  async #write(handle: FileHandle, json: Iterable<string>): Promise<void> {
    let touched: Promise<unknown> = Promise.resolve()
    const touch = async (): Promise<void> => {
      const seconds = timeOfDay() / 1_000
      await handle.utimes(seconds, seconds).catch(() => {})
    }
    const timer = setInterval(() => {
      touched = touched.then(touch)
    }, TOUCH)
    try {
      await writeFile(handle, piecesOf(json))
      await this.#copyOwnerAndMode(handle)
      await handle.sync()
    } finally {
      clearInterval(timer)
      await touched
    }
  }

  /** Where the system does not allow that, it is no failure. */
  async #copyOwnerAndMode(handle: FileHandle): Promise<void> {
    if (!this.#seen) return
    const { uid, gid, mode } = this.#seen
    await handle.chown(Number(uid), Number(gid)).catch(() => {})
    await handle.chmod(Number(mode) & 0o7777).catch(() => {})
  }
}

/** What is at a path; undefined if nothing is. */
async function statOf(path: string): Promise<BigIntStats | undefined> {
  try {
    return await stat(path, { bigint: true })
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return undefined
    throw error
  }
}

/** Whether a file was not changed between two looks. */
function isSame(one: BigIntStats | undefined, other: BigIntStats | undefined): boolean {
  return one?.ino === other?.ino && one?.size === other?.size && one?.mtimeNs === other?.mtimeNs
}

async function syncFolder(path: string): Promise<void> {
  const folder = await open(path)
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}

/** Where the links of a path lead, even if nothing is there yet. */
async function targetOf(path: string): Promise<string> {
  try {
    return await realpath(path)
  } catch (error) {
    if (!hasCode(error, 'ENOENT')) throw error
  }
  const folder = await realpath(dirname(path)).catch((cause) => {
    throw new Error(`${path} must be in a folder that exists`, { cause })
  })
  const link = await readlink(path).catch(() => undefined)
  return link === undefined ? join(folder, basename(path)) : targetOf(resolve(folder, link))
}
