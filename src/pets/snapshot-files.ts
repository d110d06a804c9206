import type { Stats } from 'node:fs'
import { type FileHandle, link, open, rename, stat, unlink } from 'node:fs/promises'
import { dirname } from 'node:path'
import { messageOf } from './errors.ts'
import { journalLine, readJournal, readSnapshot, snapshotPieces, type Unread } from './snapshot-format.ts'
import type { MemoryStore, Report } from './store.ts'

const PROOF = Buffer.alloc(4 * 1024, ' ')
const NO_ROOM = ['ENOSPC', 'EDQUOT', 'EFBIG']

/** A snapshot, only ever replaced whole, and the journal of what came since. Its methods are called in turn. */
export class SnapshotFiles {
  readonly path: string
  readonly report: Report
  end = 0 // of the last acknowledged line of the journal
  folded = 0 // where that was when the last snapshot was begun
  snapshot: Stats | undefined // of the file that is ours
  #journal: Stats | undefined // of the file that is ours; not set while other names may be on disk
  #handle: FileHandle | undefined
  #size = 0 // that the journal must have: above `end` after a write that failed

  constructor(path: string, report: Report) {
    this.path = path
    this.report = report
  }

  /** Reads all pets, and puts on disk what was read. Damage is refused before any file is changed. */
  async open(memory: MemoryStore): Promise<void> {
    let [lastId, end] = [0, 0]
    this.snapshot = await readDurably(this.path, (file) => (lastId = readSnapshot(file, memory)))
    const journal = await readDurably(`${this.path}.journal`, (file) => (end = readJournal(file, memory, lastId)))
    if (this.snapshot === undefined) await this.fold(memory.values())
    else await this.#openJournal(end)
    const torn = (journal?.size ?? 0) - end
    if (torn > 0)
      this.report('warn', `${this.path}.journal: cut off ${torn} bytes of a write that was never acknowledged`)
  }

  /** Adds a line to the journal; resolves when it is on disk. */
  async append(pets: readonly string[]): Promise<void> {
    await this.#write(journalLine(pets))
    this.end = this.#size
  }

  /** Writes the next snapshot beside the old one; meanwhile additions may go on. */
  async prepare(pets: Iterable<string>): Promise<Stats> {
    this.folded = this.end
    const beside = `${this.path}.new`
    const { mode } = (await stat(this.path).catch(ignoreMissing)) ?? this.snapshot ?? {}
    await unlink(beside).catch(ignoreMissing)
    const handle = await open(beside, 'wx', mode)
    try {
      if (mode !== undefined) await handle.chmod(mode) // whatever the umask is
      for (const piece of snapshotPieces(pets)) await handle.appendFile(piece)
      await handle.sync()
      return await handle.stat()
    } catch (error) {
      await unlink(beside)
      throw error
    } finally {
      await handle.close()
    }
  }

  /** Puts the next snapshot in place, and begins the journal anew unless anything was added meanwhile. */
  async place(next: Stats): Promise<void> {
    const journal = this.#journal
    this.#journal = undefined
    const found = await stat(this.path).catch(ignoreMissing)
    if (found !== undefined && !isSame(found, this.snapshot)) {
      const keptAs = `${this.path}.${new Date().toISOString().replaceAll(':', '')}`
      await link(this.path, keptAs)
      this.report('warn', `${this.path} was somebody else's file, which is ${keptAs} now`)
    }
    await rename(`${this.path}.new`, this.path)
    this.snapshot = next
    await this.#syncNames()
    this.#journal = journal
    if (this.end === this.folded) await this.#openJournal(0)
  }

  async fold(pets: Iterable<string>): Promise<void> {
    await this.place(await this.prepare(pets))
  }

  /** Folds unless the files are in order and the journal is empty. */
  async complete(pets: Iterable<string>): Promise<void> {
    const error = await this.#check().catch(String)
    if (error !== undefined || this.#size > 0) await this.fold(pets)
  }

  /** Cuts off what follows the last acknowledged line of the journal. */
  async cut(): Promise<void> {
    await this.#check()
    await this.#openJournal(this.end)
  }

  /** Puts the files in order after a failure, and proves that there is room. */
  async repair(pets: Iterable<string>): Promise<void> {
    try {
      await this.cut()
      await this.#write(PROOF)
      await this.cut()
    } catch (error) {
      if (NO_ROOM.includes(Object(error).code)) throw error
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

  /** Opens the journal, and cuts off what follows a line. */
  async #openJournal(end: number): Promise<void> {
    this.#journal = undefined
    await this.#handle?.close()
    this.#handle = await open(`${this.path}.journal`, 'a', this.snapshot?.mode)
    await this.#handle.truncate(end)
    await this.#handle.datasync()
    await this.#syncNames()
    this.#journal = await this.#handle.stat()
    this.#size = this.end = end
    this.folded = Math.min(this.folded, end)
  }

  async #write(bytes: Buffer): Promise<void> {
    if (this.#handle === undefined) return
    for (let at = 0; at < bytes.length;) {
      const { bytesWritten } = await this.#handle.write(bytes, at) // which may be a part of them
      this.#size += bytesWritten
      at += bytesWritten
    }
    await Promise.all([this.#handle.datasync(), this.#check()])
  }

  /** Rejects unless both files are ours and on disk, and the journal holds exactly what was written to it. */
  async #check(): Promise<void> {
    const [snapshot, { dev, ino, size }] = await Promise.all([stat(this.path), stat(`${this.path}.journal`)])
    const isJournal = dev === this.#journal?.dev && ino === this.#journal.ino && size === this.#size
    if (isJournal && isSame(snapshot, this.snapshot)) return
    throw new Error('somebody else changed the files, or they may not be on disk')
  }

  async #syncNames(): Promise<void> {
    const folder = await open(dirname(this.path))
    await folder.sync().finally(() => folder.close())
  }
}

function isSame(found: Stats, own: Stats | undefined): boolean {
  return found.dev === own?.dev && found.ino === own.ino && found.size === own.size && found.mtimeMs === own.mtimeMs
}

function ignoreMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error
}

/** Reads a file, if there is one, and makes sure that it is on disk. An error names file and line. */
async function readDurably(path: string, read: (file: Unread) => void): Promise<Stats | undefined> {
  const handle = await open(path).catch(ignoreMissing)
  if (handle === undefined) return undefined
  try {
    const stats = await handle.stat()
    if (!stats.isFile()) throw new Error(`${path}: must be a regular file`)
    const file = { fd: handle.fd, bytes: Buffer.alloc(0), at: 0, line: 1 }
    try {
      read(file)
    } catch (error) {
      throw new Error(`${path}: line ${file.line}: ${messageOf(error)}`)
    }
    await handle.sync()
    return stats
  } finally {
    await handle.close()
  }
}
