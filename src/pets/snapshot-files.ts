import type { Stats } from 'node:fs'
import { type FileHandle, link, open, rename, stat, unlink } from 'node:fs/promises'
import { dirname } from 'node:path'
import { hasCode, messageOf } from '../guards.ts'
import { journalLine, readJournal, readSnapshot, snapshotPieces } from './snapshot-format.ts'
import type { MemoryStore, Report } from './store.ts'

// Written to the journal and cut off again, to see whether the disk takes a write.
const PROBE = Buffer.alloc(4 * 1024, ' ')

/**
 * A snapshot, only replaced whole, and the journal of what came since. Call nothing before the last
 * call has ended, except `append` during `prepare`.
 */
export class SnapshotFiles {
  readonly path: string
  readonly report: Report
  #journal: FileHandle | undefined
  #end = 0 // of the last acknowledged line of the journal
  #folded = 0 // end of the journal when the latest snapshot was begun
  #size = 0 // of the journal; exceeds #end after a failed write
  // What FILE was when this server last wrote it, to notice that others did.
  #snapshotStats: Stats | undefined
  #isHalfPlaced = false // from a rename until the names and the journal are on disk

  constructor(path: string, report: Report) {
    this.path = path
    this.report = report
  }

  get snapshotBytes(): number {
    return this.#snapshotStats?.size ?? 0
  }

  /** Bytes of the journal that no snapshot covers. */
  get unfoldedBytes(): number {
    return this.#end - this.#folded
  }

  /** Reads all pets, and rewrites FILE. Refuses damage before any file is changed. */
  async open(memory: MemoryStore): Promise<void> {
    let end = 0
    const journalPath = `${this.path}.journal`
    this.#snapshotStats = await readExisting(this.path, (file) => readSnapshot(file, memory))
    const journal = await readExisting(journalPath, async (file) => {
      end = await readJournal(file, memory)
    })
    if (this.#snapshotStats === undefined && journal !== undefined) {
      throw new Error(`${this.path} is missing, but not ${journalPath}: restore it`)
    }
    try {
      await this.fold(memory.values()) // proves that FILE can be replaced
    } catch (error) {
      await unlink(`${this.path}.new`).catch(ignoreMissing)
      // A full disk stops no start: the old files hold every pet.
      if (this.#snapshotStats === undefined || !isNoRoom(error)) {
        throw new Error(`${this.path} cannot be replaced: ${messageOf(error)}`)
      }
      await this.#openJournal(end) // syncs the names, too
      this.#isHalfPlaced = false
    }
    const torn = (journal?.size ?? 0) - end
    const cut = `${journalPath}: cut off ${torn} bytes after the last complete write`
    if (torn > 0) this.report('warn', cut)
  }

  /** Adds a line to the journal; resolves when it is on disk. */
  async append(pets: readonly string[]): Promise<void> {
    await this.#write(journalLine(pets))
    this.#end = this.#size
  }

  /**
   * Writes the next snapshot next to the old one. Additions may go on: a pet that is then in the
   * snapshot and in the journal is read once.
   */
  async prepare(pets: Iterable<string>): Promise<Stats> {
    this.#folded = this.#end
    const newPath = `${this.path}.new`
    const { mode } = (await stat(this.path).catch(ignoreMissing)) ?? this.#snapshotStats ?? {}
    await unlink(newPath).catch(ignoreMissing)
    const handle = await open(newPath, 'wx', mode)
    try {
      if (mode !== undefined) await handle.chmod(mode) // open() applies the umask
      for (const piece of snapshotPieces(pets)) await handle.appendFile(piece)
      await handle.sync()
      return await handle.stat()
    } catch (error) {
      await unlink(newPath).catch(() => {})
      throw error
    } finally {
      await handle.close()
    }
  }

  /** Puts the next snapshot in place. Empties the journal unless anything was added meanwhile. */
  async place(next: Stats): Promise<void> {
    await this.#keepForeign()
    this.#isHalfPlaced = true
    await rename(`${this.path}.new`, this.path)
    this.#snapshotStats = next
    await this.#syncNames()
    if (this.unfoldedBytes === 0) await this.#openJournal(0)
    this.#isHalfPlaced = false
  }

  async fold(pets: Iterable<string>): Promise<void> {
    await this.place(await this.prepare(pets))
  }

  /** Replaces all pets. If that fails, restores FILE, so that no restart shows the new pets. */
  async replace(pets: Iterable<string>): Promise<void> {
    const oldPath = `${this.path}.old`
    const oldStats = this.#snapshotStats
    const putBack = async () => {
      await rename(oldPath, this.path)
      this.#snapshotStats = oldStats
    }
    const next = await this.prepare(pets)
    await unlink(oldPath).catch(ignoreMissing)
    await link(this.path, oldPath).catch(() => {}) // not every disk has links
    try {
      await this.place(next)
    } catch (error) {
      await putBack().catch(() => {})
      throw error
    } finally {
      await unlink(oldPath).catch(() => {})
    }
  }

  /** Folds unless the journal is empty and the files are in order. */
  async complete(pets: Iterable<string>): Promise<void> {
    const isInOrder = this.#size === 0 && (await this.#isInOrder())
    if (!isInOrder) await this.fold(pets)
  }

  /** Puts the files in order after a failure, and proves that there is room. */
  async repair(pets: Iterable<string>): Promise<void> {
    try {
      await this.#cutJournal() // before anything can fail: no restart may show a refused pet
      await this.#write(PROBE)
      await this.#openJournal(this.#end)
    } catch (error) {
      if (isNoRoom(error)) throw error
      await this.fold(pets) // a file was lost, or changed by others
    }
  }

  /** Removes the journal, which must be empty. */
  async close(): Promise<void> {
    await this.#journal?.close()
    await unlink(`${this.path}.journal`)
    await this.#syncNames()
  }

  /** Removes what was written after the last acknowledged line, unless others wrote there too. */
  async #cutJournal(): Promise<void> {
    const stats = await this.#journal?.stat()
    if (stats?.size !== this.#size) return
    await this.#journal?.truncate(this.#end)
    this.#size = this.#end
  }

  async #openJournal(end: number): Promise<void> {
    const mode = (this.#snapshotStats?.mode ?? 0) | 0o600 // FILE may be read-only
    await this.#journal?.close()
    this.#journal = await open(`${this.path}.journal`, 'a', mode)
    await this.#journal.truncate(end)
    await this.#journal.datasync()
    await this.#syncNames()
    this.#end = end
    this.#size = end
    this.#folded = Math.min(this.#folded, end)
  }

  /** Appends to the journal; resolves when that is on disk, and the files are in order. */
  async #write(bytes: Buffer): Promise<void> {
    if (this.#journal === undefined) throw new Error('the journal is not open')
    let at = 0
    while (at < bytes.length) {
      const { bytesWritten } = await this.#journal.write(bytes, at) // may write a part
      this.#size += bytesWritten
      at += bytesWritten
    }
    const [isInOrder] = await Promise.all([this.#isInOrder(), this.#journal.datasync()])
    if (!isInOrder) throw new Error('the files are not as this server left them')
  }

  /** Whether both files are in place, and as this server left them. */
  async #isInOrder(): Promise<boolean> {
    const statsOf = (path: string) => stat(path).catch(ignoreMissing)
    const paths = [this.path, `${this.path}.journal`]
    const [snapshot, journal] = await Promise.all(paths.map(statsOf))
    // A journal in place of ours does not grow with it.
    const isWhole = journal?.size === this.#size && !this.#isHalfPlaced
    return isWhole && isSame(snapshot, this.#snapshotStats)
  }

  /** Keeps somebody else's file under another name. */
  async #keepForeign(): Promise<void> {
    const found = await stat(this.path).catch(ignoreMissing)
    if (found === undefined || isSame(found, this.#snapshotStats)) return
    const keptAs = `${this.path}.${new Date().toISOString().replaceAll(':', '')}`
    // A system may refuse links to files of others.
    await link(this.path, keptAs).catch(() => rename(this.path, keptAs))
    this.report('warn', `${this.path} was somebody else's file, which is ${keptAs} now`)
  }

  /** Only then does a new, renamed or removed file stay so after a power cut. */
  async #syncNames(): Promise<void> {
    const folder = await open(dirname(this.path))
    await folder.sync().finally(() => folder.close())
  }
}

function isSame(found: Stats | undefined, own: Stats | undefined): boolean {
  const members = ['dev', 'ino', 'size', 'mtimeMs'] as const
  return members.every((member) => found?.[member] === own?.[member])
}

function isNoRoom(error: unknown): boolean {
  return hasCode(error, 'ENOSPC', 'EDQUOT', 'EFBIG')
}

function ignoreMissing(error: unknown): undefined {
  if (!hasCode(error, 'ENOENT')) throw error
}

/** Reads a file if there is one. An error names it. */
async function readExisting(
  path: string,
  read: (file: FileHandle) => Promise<void>,
): Promise<Stats | undefined> {
  const found = await stat(path).catch(ignoreMissing)
  if (found === undefined) return undefined
  if (!found.isFile()) throw new Error(`${path}: must be a regular file`) // a FIFO would never open
  const handle = await open(path)
  try {
    await read(handle)
    return found
  } catch (error) {
    throw new Error(`${path}: ${messageOf(error)}`)
  } finally {
    await handle.close()
  }
}
