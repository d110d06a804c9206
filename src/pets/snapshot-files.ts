import type { Stats } from 'node:fs'
import { type FileHandle, link, open, rename, stat, unlink } from 'node:fs/promises'
import { dirname } from 'node:path'
import { isRecord, messageOf } from '../guards.ts'
import { journalLine, readJournal, readSnapshot, snapshotPieces } from './snapshot-format.ts'
import type { MemoryStore, Report } from './store.ts'

const PROBE = Buffer.alloc(4 * 1024, ' ')
const NO_ROOM = ['ENOSPC', 'EDQUOT', 'EFBIG']

/** A snapshot, only replaced whole, and the journal of what came since. Serialize its calls. */
export class SnapshotFiles {
  readonly path: string
  readonly #report: Report
  #snapshot: Stats | undefined // of the file that is ours
  #journal: Stats | undefined // of the file that is ours; undefined until the rename is synced
  #handle: FileHandle | undefined
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

  get journalBytes(): number {
    return this.#end
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
    if (this.#snapshot !== undefined) await this.#openJournal(end)
    else if (journal === undefined) await this.fold(memory.values())
    else throw new Error(`${this.path} is missing, but not ${journalPath}: restore it`)
    const torn = (journal?.size ?? 0) - end
    if (torn === 0) return
    this.#report('warn', `${journalPath}: cut off ${torn} bytes after the last complete write`)
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
      await unlink(newPath)
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

  /** Folds unless the files are in order and the journal is empty. */
  async complete(pets: Iterable<string>): Promise<void> {
    const error = await this.#check().catch(String)
    if (error !== undefined || this.#size > 0) await this.fold(pets)
  }

  /** Puts the files in order after a failure, and proves that there is room. */
  async repair(pets: Iterable<string>): Promise<void> {
    try {
      await this.#truncateJournal()
      await this.#write(PROBE)
      await this.#truncateJournal()
    } catch (error) {
      if (isRecord(error) && NO_ROOM.includes(String(error['code']))) throw error
      await this.fold(pets)
    }
  }

  /** Leaves nothing but a snapshot of all pets. */
  async close(pets: Iterable<string>): Promise<void> {
    await this.complete(pets)
    await this.#handle?.close()
    await unlink(`${this.path}.journal`).catch(ignoreMissing)
    await this.#syncNames()
  }

  /** Removes what was written in vain, whatever FILE is: a kill must not bring it back. */
  async #takeBack(): Promise<void> {
    const stats = await this.#handle?.stat()
    if (stats?.size !== this.#size) return // somebody else changed it
    await this.#handle?.truncate(this.#end)
    this.#size = this.#end
  }

  /** Cuts off what follows the last acknowledged line of the journal. */
  async #truncateJournal(): Promise<void> {
    await this.#check()
    await this.#openJournal(this.#end)
  }

  /** Opens the journal, and cuts off what follows a line. */
  async #openJournal(end: number): Promise<void> {
    this.#journal = undefined
    await this.#handle?.close()
    this.#handle = await open(`${this.path}.journal`, 'a', this.#snapshot?.mode)
    await this.#handle.truncate(end)
    await this.#handle.datasync()
    await this.#syncNames()
    this.#journal = await this.#handle.stat()
    this.#size = end
    this.#end = end
    this.#folded = Math.min(this.#folded, end)
  }

  async #write(bytes: Buffer): Promise<void> {
    if (this.#handle === undefined) return
    let at = 0
    while (at < bytes.length) {
      const { bytesWritten } = await this.#handle.write(bytes, at) // may write a part
      this.#size += bytesWritten
      at += bytesWritten
    }
    await Promise.all([this.#handle.datasync(), this.#check()])
  }

  /** Rejects unless both files are ours and on disk, and the journal is as long as it must be. */
  async #check(): Promise<void> {
    const [snapshot, { dev, ino, size }] = await Promise.all([
      stat(this.path),
      stat(`${this.path}.journal`),
    ])
    const isJournal = dev === this.#journal?.dev && ino === this.#journal.ino && size === this.#size
    if (isJournal && isSame(snapshot, this.#snapshot)) return
    throw new Error('somebody else changed the files, or they may not be on disk')
  }

  /** Keeps somebody else's file under another name. */
  async #keepForeign(): Promise<void> {
    const found = await stat(this.path).catch(ignoreMissing)
    if (found === undefined || isSame(found, this.#snapshot)) return
    const keptAs = `${this.path}.${new Date().toISOString().replaceAll(':', '')}`
    await link(this.path, keptAs)
    this.#report('warn', `${this.path} was somebody else's file, which is ${keptAs} now`)
  }

  async #syncNames(): Promise<void> {
    const folder = await open(dirname(this.path))
    await folder.sync().finally(() => folder.close())
  }
}

function isSame(found: Stats, own: Stats | undefined): boolean {
  return (
    found.dev === own?.dev &&
    found.ino === own.ino &&
    found.size === own.size &&
    found.mtimeMs === own.mtimeMs
  )
}

function ignoreMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error
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
    const stats = await handle.stat()
    await read(handle).catch((error) => {
      throw new Error(`${path}: ${messageOf(error)}`)
    })
    await handle.sync()
    return stats
  } finally {
    await handle.close()
  }
}
