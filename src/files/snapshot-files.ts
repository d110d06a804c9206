import type { Stats } from 'node:fs'
import { type FileHandle, link, lstat, open, rename, stat, unlink } from 'node:fs/promises'
import { hasCode, messageOf } from '../guards.ts'
import { type Lock, takeLock } from './lock.ts'
import {
  ignoreMissing,
  journalLine,
  readExisting,
  readJournal,
  readSnapshot,
  syncFolder,
  writeSnapshot,
} from './snapshot-format.ts'
import type { MemoryStore, Report } from '../pets/store.ts'

const NO_ROOM = ['ENOSPC', 'EDQUOT', 'EFBIG']
// Written to the journal and cut off again, to see whether the disk takes a write.
const PROBE = Buffer.alloc(4 * 1024, ' ')

/**
 * A snapshot, only replaced whole, and the journal of pets added since. To fold the journal is to
 * write a snapshot with its pets, and to empty it. Call nothing before the previous call has ended,
 * except `append` during `prepare`.
 */
export class SnapshotFiles {
  readonly path: string
  readonly report: Report
  readonly #newPath: string
  readonly #journalPath: string
  #lock: Lock
  #journal: FileHandle | undefined
  #acknowledgedEnd = 0 // of the last acknowledged line of the journal
  #foldedEnd = 0 // end of the journal when the latest snapshot was begun
  #journalSize = 0 // of the whole file: above #acknowledgedEnd only after a failed write
  // Of FILE as this server last read or wrote it, to notice changes by others.
  #snapshotStats: Stats | undefined
  #isHalfPlaced = false // from a rename until the folder and the journal are on disk

  constructor(path: string, lock: Lock, report: Report) {
    this.path = path
    this.#newPath = `${path}.petstore-new`
    this.#journalPath = `${path}.journal`
    this.#lock = lock
    this.report = report
  }

  get snapshotBytes(): number {
    return this.#snapshotStats?.size ?? 0
  }

  /** Whether a write that failed is still in the journal: a restart may show its pets. */
  get mayHoldRefusedPets(): boolean {
    return this.#journalSize > this.#acknowledgedEnd
  }

  /** Bytes of the journal since the latest snapshot was begun. */
  get unfoldedBytes(): number {
    return this.#acknowledgedEnd - this.#foldedEnd
  }

  /** Reads all pets, and rewrites FILE. Refuses damage before any file is changed. */
  async open(memory: MemoryStore): Promise<void> {
    this.#snapshotStats = await readExisting(this.path, (file) => readSnapshot(file, memory))
    const journal = await readExisting(this.#journalPath, async (file) => {
      if (!this.#snapshotStats)
        throw new Error(`${this.path}, which it adds to, is missing: restore it`)
      this.#acknowledgedEnd = await readJournal(file, memory)
    })
    const torn = (journal?.size ?? 0) - this.#acknowledgedEnd
    try {
      await this.fold(memory.values()) // proves that FILE can be replaced
    } catch (error) {
      await unlink(this.#newPath).catch(() => {})
      const why = `${this.path} cannot be replaced: ${messageOf(error)}`
      // A full disk stops no start: the old files hold every pet.
      if (!this.#snapshotStats || !hasCode(error, ...NO_ROOM)) throw new Error(why)
      this.report('warn', why)
      await this.#openJournal(this.#acknowledgedEnd) // syncs the folder, too
      this.#isHalfPlaced = false
    }
    if (torn <= 0) return
    this.report('warn', `${this.#journalPath}: cut off ${torn} bytes after the last complete write`)
  }

  /** Adds a line to the journal; resolves when it is on disk. */
  async append(pets: readonly string[]): Promise<void> {
    await this.#write(journalLine(pets))
    this.#acknowledgedEnd = this.#journalSize
  }

  /**
   * Writes the next snapshot next to the old one. Additions may go on: a pet that is then in the
   * snapshot and in the journal is read once.
   */
  async prepare(pets: Iterable<string>): Promise<Stats> {
    this.#foldedEnd = this.#acknowledgedEnd
    await this.#holdLock()
    const { mode } = (await stat(this.path).catch(ignoreMissing)) ?? this.#snapshotStats ?? {}
    return writeSnapshot(this.#newPath, mode, pets)
  }

  /** Puts the next snapshot in place. Empties the journal unless anything was added meanwhile. */
  async place(next: Stats): Promise<void> {
    await this.#holdLock()
    await this.#keepForeign()
    this.#isHalfPlaced = true
    await rename(this.#newPath, this.path)
    this.#snapshotStats = next
    await syncFolder(this.path)
    if (this.unfoldedBytes === 0) await this.#openJournal(0)
    this.#isHalfPlaced = false
  }

  /** Writes all pets to FILE.petstore-new, renames it to FILE, and empties the journal. */
  async fold(pets: Iterable<string>): Promise<void> {
    await this.place(await this.prepare(pets))
  }

  /** Replaces all pets. If that fails, restores FILE, so that no restart shows the new pets. */
  async replace(pets: Iterable<string>): Promise<void> {
    const oldPath = `${this.path}.petstore-old`
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

  /** Does nothing if the journal is empty and the files are in order. */
  async foldIfNeeded(pets: Iterable<string>): Promise<void> {
    if (this.#journalSize > 0 || !(await this.#isInOrder())) await this.fold(pets)
  }

  /** Puts the files in order after a failure, and proves that there is room. */
  async repair(pets: Iterable<string>): Promise<void> {
    try {
      await this.#cutJournal() // before anything can fail: no restart may show a refused pet
      await this.#write(PROBE).finally(() => this.#cutJournal())
    } catch (error) {
      if (hasCode(error, ...NO_ROOM)) throw error
      await this.fold(pets) // a file was lost, or changed by others
    }
  }

  /** Removes the journal, which must be empty. */
  async removeJournal(): Promise<void> {
    await unlink(this.#journalPath)
    await syncFolder(this.path)
  }

  /** Lets others use the files. Never rejects. */
  async close(): Promise<void> {
    await this.#journal?.close().catch(() => {})
    await this.#lock.release()
  }

  /** Takes the lock again if it was removed. Throws if another server has it. */
  async #holdLock(): Promise<void> {
    if (await lstat(this.#lock.path).catch(ignoreMissing)) return
    const taken = await takeLock(this.path)
    await this.#lock.release()
    this.#lock = taken
  }

  /** Removes what was written after the last acknowledged line. Throws if others wrote there. */
  async #cutJournal(): Promise<void> {
    const stats = await this.#journal?.stat()
    if (stats?.size !== this.#journalSize) throw new Error('others wrote to the journal')
    await this.#journal?.truncate(this.#acknowledgedEnd)
    this.#journalSize = this.#acknowledgedEnd
  }

  /** Opens the journal, and cuts off what follows its first `end` bytes. */
  async #openJournal(end: number): Promise<void> {
    this.#acknowledgedEnd = end
    this.#foldedEnd = Math.min(this.#foldedEnd, end)
    const mode = (this.#snapshotStats?.mode ?? 0) | 0o600 // FILE may be read-only
    await this.#journal?.close()
    // A new file: others may have the old one open, or have put a link or a pipe in its place.
    if (end === 0) await unlink(this.#journalPath).catch(ignoreMissing)
    this.#journalSize = end // not earlier: a refused write may be in the old file
    this.#journal = await open(this.#journalPath, 'a', mode)
    await this.#journal.truncate(end)
    await this.#journal.datasync()
    await syncFolder(this.path)
  }

  /** Appends to the journal; resolves when that is on disk, and the files are in order. */
  async #write(bytes: Buffer): Promise<void> {
    if (!this.#journal) throw new Error('the journal is not open')
    let at = 0
    while (at < bytes.length) {
      const { bytesWritten } = await this.#journal.write(bytes, at) // may write a part
      this.#journalSize += bytesWritten
      at += bytesWritten
    }
    const [isInOrder] = await Promise.all([this.#isInOrder(), this.#journal.datasync()])
    if (!isInOrder) throw new Error('the files are not as this server left them')
  }

  /** Whether both files are in place, and as this server left them. */
  async #isInOrder(): Promise<boolean> {
    const statsOf = (path: string) => lstat(path).catch(ignoreMissing)
    const paths = [this.path, this.#journalPath]
    const [snapshot, journal] = await Promise.all(paths.map(statsOf))
    // If our journal was replaced, the file at its path does not grow with our writes.
    const isWhole = journal?.size === this.#journalSize && !this.#isHalfPlaced
    return isWhole && isSame(snapshot, this.#snapshotStats)
  }

  /** Keeps somebody else's file under another name. */
  async #keepForeign(): Promise<void> {
    const found = await lstat(this.path).catch(ignoreMissing)
    if (!found || isSame(found, this.#snapshotStats)) return
    const keptAs = `${this.path}.${Date.now()}`
    // A system may refuse links to files of others.
    await link(this.path, keptAs).catch(() => rename(this.path, keptAs))
    this.report('warn', `${this.path} was somebody else's file: kept as ${keptAs}`)
  }
}

function isSame(found: Stats | undefined, own: Stats | undefined): boolean {
  const members = ['dev', 'ino', 'size', 'mtimeMs'] as const
  return members.every((member) => found?.[member] === own?.[member])
}
