import type { Stats } from 'node:fs'
import { type FileHandle, link, open, rename, stat, unlink } from 'node:fs/promises'
import { dirname } from 'node:path'
import { hasCode, messageOf } from '../guards.ts'
import { journalLine, readJournal, readSnapshot, snapshotPieces } from './snapshot-format.ts'
import type { MemoryStore, Report } from './store.ts'

const PROBE = Buffer.alloc(4 * 1024, ' ')

/** A snapshot, only replaced whole, and the journal of what came since. Serialize its calls. */
export class SnapshotFiles {
  readonly path: string
  readonly #report: Report
  #snapshot: Stats | undefined // of the file that is ours
  #journal: Stats | undefined // of the file that is ours; undefined until the rename is synced
  #journalFile: FileHandle | undefined
  #end = 0 // of the last acknowledged line of the journal
  #folded = 0 // journal offset covered by the last snapshot
  #size = 0 // expected size of the journal; exceeds #end after a failed write

  constructor(path: string, report: Report) {
    this.path = path
    this.#report = report
  }

  get snapshotBytes(): number {
    return this.#snapshot?.size ?? 0
  }

  /** Bytes of the journal that no snapshot covers. */
  get unfoldedBytes(): number {
    return this.#end - this.#folded
  }

  /** Reads all pets, and makes them durable. Refuses damage before any file is changed. */
  async open(memory: MemoryStore): Promise<void> {
    let end = 0
    const journalPath = `${this.path}.journal`
    this.#snapshot = await readDurably(this.path, (file) => readSnapshot(file, memory))
    const journal = await readDurably(journalPath, async (file) => {
      end = await readJournal(file, memory)
    })
    if (this.#snapshot === undefined && journal !== undefined) {
      throw new Error(`${this.path} is missing, but not ${journalPath}: restore it`)
    }
    try {
      await this.fold(memory.values()) // proves that FILE can be replaced
    } catch (error) {
      await unlink(`${this.path}.new`).catch(ignoreMissing)
      if (this.#snapshot === undefined || !isNoRoom(error)) {
        throw new Error(`${this.path} cannot be replaced: ${messageOf(error)}`)
      }
      await this.#openJournal(end)
    }
    const torn = (journal?.size ?? 0) - end
    const cut = `${journalPath}: cut off ${torn} bytes after the last complete write`
    if (torn > 0) this.#report('warn', cut)
  }

  /** Adds a line to the journal; resolves when it is on disk. */
  async append(pets: readonly string[]): Promise<void> {
    try {
      await this.#write(journalLine(pets))
      this.#end = this.#size
    } catch (error) {
      await this.#takeBack().catch(() => {})
      throw error
    }
  }

  /** Writes the next snapshot next to the old one; meanwhile additions may go on. */
  async prepare(pets: Iterable<string>): Promise<Stats> {
    this.#folded = this.#end
    const newPath = `${this.path}.new`
    const { mode } = (await stat(this.path).catch(ignoreMissing)) ?? this.#snapshot ?? {}
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
    const journal = this.#journal
    this.#journal = undefined
    await this.#keepForeign()
    await rename(`${this.path}.new`, this.path)
    this.#snapshot = next
    await this.#syncNames()
    this.#journal = journal
    if (this.unfoldedBytes === 0) await this.#openJournal(0)
  }

  async fold(pets: Iterable<string>): Promise<void> {
    await this.place(await this.prepare(pets))
  }

  /** Replaces the pets by others. If that fails, FILE is put back: a kill must not show them. */
  async replace(pets: Iterable<string>): Promise<void> {
    const oldPath = `${this.path}.old`
    const old = this.#snapshot
    const next = await this.prepare(pets)
    await unlink(oldPath).catch(ignoreMissing)
    await link(this.path, oldPath).catch(() => {}) // not every disk has links
    try {
      await this.place(next)
    } catch (error) {
      const failure = await rename(oldPath, this.path).catch(String)
      if (failure === undefined) this.#snapshot = old
      throw error
    } finally {
      await unlink(oldPath).catch(() => {})
    }
  }

  /** Folds unless the files are in order and the journal is empty. */
  async complete(pets: Iterable<string>): Promise<void> {
    const error = await this.#check().catch(String)
    if (error !== undefined || this.#size > 0) await this.fold(pets)
  }

  /** Puts the files in order after a failure, and proves that there is room. */
  async repair(pets: Iterable<string>): Promise<void> {
    try {
      await this.#check()
      await this.#openJournal(this.#end)
      await this.#write(PROBE)
      await this.#openJournal(this.#end)
    } catch (error) {
      if (isNoRoom(error)) throw error
      await this.fold(pets)
    }
  }

  /** Removes the journal, which must be empty. */
  async close(): Promise<void> {
    await this.#journalFile?.close()
    await unlink(`${this.path}.journal`)
    await this.#syncNames()
  }

  /** Removes what was written in vain, whatever FILE is: a kill must not bring it back. */
  async #takeBack(): Promise<void> {
    const stats = await this.#journalFile?.stat()
    if (stats?.size !== this.#size) return // somebody else changed it
    await this.#journalFile?.truncate(this.#end)
    this.#size = this.#end
  }

  /** Opens the journal, and cuts off what follows a line. */
  async #openJournal(end: number): Promise<void> {
    const mode = (this.#snapshot?.mode ?? 0) | 0o600 // FILE may be read-only
    this.#journal = undefined
    await this.#journalFile?.close()
    this.#journalFile = await open(`${this.path}.journal`, 'a', mode)
    await this.#journalFile.truncate(end)
    await this.#journalFile.datasync()
    await this.#syncNames()
    this.#journal = await this.#journalFile.stat()
    this.#size = end
    this.#end = end
    this.#folded = Math.min(this.#folded, end)
  }

  async #write(bytes: Buffer): Promise<void> {
    if (this.#journalFile === undefined) return
    let at = 0
    while (at < bytes.length) {
      const { bytesWritten } = await this.#journalFile.write(bytes, at) // may write a part
      this.#size += bytesWritten
      at += bytesWritten
    }
    await Promise.all([this.#journalFile.datasync(), this.#check()])
  }

  /** Rejects unless both files are ours and on disk, and the journal is as long as it must be. */
  async #check(): Promise<void> {
    const [snapshot, { dev, ino, size }] = await Promise.all([
      stat(this.path),
      stat(`${this.path}.journal`),
    ])
    const isJournal = dev === this.#journal?.dev && ino === this.#journal.ino && size === this.#size
    if (isJournal && isSame(snapshot, this.#snapshot)) return
    throw new Error('the files are not as this server left them')
  }

  /** Keeps somebody else's file under another name. */
  async #keepForeign(): Promise<void> {
    const found = await stat(this.path).catch(ignoreMissing)
    if (found === undefined || isSame(found, this.#snapshot)) return
    const keptAs = `${this.path}.${new Date().toISOString().replaceAll(':', '')}`
    await link(this.path, keptAs).catch(() => rename(this.path, keptAs)) // others' files: no link
    this.#report('warn', `${this.path} was somebody else's file, which is ${keptAs} now`)
  }

  async #syncNames(): Promise<void> {
    const folder = await open(dirname(this.path))
    await folder.sync().finally(() => folder.close())
  }
}

function isSame(found: Stats, own: Stats | undefined): boolean {
  const members = ['dev', 'ino', 'size', 'mtimeMs'] as const
  return members.every((member) => found[member] === own?.[member])
}

function isNoRoom(error: unknown): boolean {
  return hasCode(error, 'ENOSPC', 'EDQUOT', 'EFBIG')
}

function ignoreMissing(error: unknown): undefined {
  if (!hasCode(error, 'ENOENT')) throw error
}

/** Reads a file if there is one, and makes sure that it is on disk. An error names the file. */
async function readDurably(
  path: string,
  read: (file: FileHandle) => Promise<void>,
): Promise<Stats | undefined> {
  const found = await stat(path).catch(ignoreMissing)
  if (found === undefined) return undefined
  if (!found.isFile()) throw new Error(`${path}: must be a regular file`) // a FIFO would never open
  const handle = await open(path)
  try {
    await read(handle).catch((error) => {
      throw new Error(`${path}: ${messageOf(error)}`)
    })
    await handle.sync()
    return found
  } finally {
    await handle.close()
  }
}
