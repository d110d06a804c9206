import type { Stats } from 'node:fs'
import { type FileHandle, lstat, open, rename, stat, unlink } from 'node:fs/promises'
import { hasCode, messageOf } from '../guards.ts'
import type { MemoryStore, Report } from '../pets/store.ts'
import {
  adoptOwner,
  ignoreMissing,
  isReplaceable,
  isSame,
  keepForeign,
  keepTorn,
  NO_ROOM,
  readExisting,
  syncFolder,
  writeNew,
} from './disk.ts'
import { type Lock, takeLock } from './lock.ts'
import {
  endsLine,
  journalLine,
  readJournal,
  readSnapshot,
  snapshotPieces,
} from './snapshot-format.ts'

// Written to the journal and cut off again, to see whether the disk takes a write.
const PROBE = Buffer.alloc(4 * 1024, ' ')

/**
 * A snapshot, only replaced whole, and the journal of pets added since. To fold the journal is to
 * write a snapshot with its pets, and to empty it. Call nothing before the previous call has ended.
 */
export class SnapshotFiles {
  readonly path: string
  readonly report: Report
  readonly #newPath: string
  readonly #journalPath: string
  #lock: Lock
  #journal: FileHandle | undefined // undefined while only a fold can put the files in order
  #journalBytes = 0 // of the lines that a restart would read
  // Of FILE as this server last read or wrote it, to notice changes by others.
  #snapshotStats: Stats | undefined

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

  get journalBytes(): number {
    return this.#journalBytes
  }

  /** Reads all pets. Refuses damage before any file is changed. */
  async open(memory: MemoryStore): Promise<void> {
    const snapshot = await readExisting(this.path, (file) => readSnapshot(file, memory))
    const journal = await readExisting(this.#journalPath, async (file) => {
      if (!snapshot) throw new Error(`${this.path}, which it adds to, is missing: restore it`)
      return readJournal(file, memory)
    })
    this.#snapshotStats = snapshot?.stats
    this.#journalBytes = journal?.content.end ?? 0
    if (journal && journal.content.torn.length > 0) {
      await keepTorn(this.#journalPath, journal.content.torn, journal.stats, this.report)
    }
    try {
      // Otherwise a fold proves that FILE can be replaced.
      const needsNoFold =
        this.#journalBytes === 0 &&
        (await isReplaceable(this.path, this.#newPath, this.#snapshotStats))
      await (needsNoFold ? this.#renewJournal() : this.fold(memory.values()))
    } catch (error) {
      await unlink(this.#newPath).catch(() => {})
      const why = `${this.path} cannot be replaced: ${messageOf(error)}`
      // A full disk stops no start: the old files hold every pet.
      if (!this.#snapshotStats || !hasCode(error, ...NO_ROOM)) throw new Error(why)
      this.report('warn', why)
      await this.#openJournal()
    }
    if (await this.#isInOrder(this.#journalBytes)) return
    throw new Error(`${this.path} must be on a file system whose sizes and times are stable`)
  }

  /** Adds a line to the journal; resolves when it is on disk. */
  async append(pets: readonly string[]): Promise<void> {
    const line = journalLine(pets)
    await this.#write(line)
    this.#journalBytes += line.length
  }

  /** Writes all pets to FILE.petstore-new, renames it to FILE, and empties the journal. */
  async fold(pets: Iterable<string>): Promise<void> {
    await this.#holdLock()
    const old = (await stat(this.path).catch(ignoreMissing)) ?? this.#snapshotStats
    const bytes = await writeNew(this.#newPath, snapshotPieces(pets), old)
    await this.#holdLock() // writing may have taken long
    const next = await lstat(this.#newPath)
    if (next.size !== bytes) throw new Error(`somebody changed ${this.#newPath}`)
    await keepForeign(this.path, this.#snapshotStats, this.report)
    await rename(this.#newPath, this.path)
    this.#snapshotStats = next
    await this.#closeJournal()
    await syncFolder(this.path)
    await this.#renewJournal()
  }

  /**
   * Replaces all pets. If that fails, restores the old ones, so that no restart shows the new ones.
   *
   * @throws Error with the code `outcome_unknown` if FILE has the new pets nevertheless.
   */
  async replace(pets: Iterable<string>, old: Iterable<string>): Promise<void> {
    const before = this.#snapshotStats
    try {
      await this.fold(pets)
    } catch (error) {
      const replaced = this.#snapshotStats
      if (replaced === before) throw error
      await this.fold(old).catch(() => {})
      if (replaced !== this.#snapshotStats) throw error
      const message = `${messageOf(error)}, and the old pets could not be restored`
      throw Object.assign(new Error(message), { code: 'outcome_unknown' })
    }
  }

  /** Does nothing if the journal is empty and the files are in order. */
  async foldIfNeeded(pets: Iterable<string>): Promise<void> {
    const isEmpty = this.#journal !== undefined && this.#journalBytes === 0
    if (!isEmpty || !(await this.#isInOrder(0))) await this.fold(pets)
  }

  /** Puts the files in order after a failure, and proves that there is room. */
  async repair(pets: Iterable<string>): Promise<void> {
    try {
      await this.#write(PROBE)
      await this.#cutOff(PROBE)
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
    await this.#closeJournal()
    await this.#lock.release()
  }

  /** Takes the lock again if it was removed. Throws if another server has it. */
  async #holdLock(): Promise<void> {
    if (await lstat(this.#lock.path).catch(ignoreMissing)) return
    const taken = await takeLock(this.path)
    await this.#lock.release()
    this.#lock = taken
  }

  /** Replaces the journal by an empty one. The old file may be open elsewhere, or be a link. */
  async #renewJournal(): Promise<void> {
    await unlink(this.#journalPath).catch(ignoreMissing)
    this.#journalBytes = 0
    await this.#openJournal()
  }

  /** Opens the journal, and cuts off a torn write. */
  async #openJournal(): Promise<void> {
    const mode = (this.#snapshotStats?.mode ?? 0) | 0o600 // FILE may be read-only
    const journal = await open(this.#journalPath, 'a', mode)
    try {
      await adoptOwner(journal, this.#snapshotStats)
      await journal.truncate(this.#journalBytes)
      await journal.datasync()
      await syncFolder(this.path)
    } catch (error) {
      await journal.close()
      throw error
    }
    this.#journal = journal
  }

  /** Never rejects: what counts was synced. */
  async #closeJournal(): Promise<void> {
    const journal = this.#journal
    this.#journal = undefined
    await journal?.close().catch(() => {})
  }

  /**
   * Appends to the journal; resolves when that is on disk, and the files are in order. Cuts off a
   * write that failed.
   */
  async #write(bytes: Buffer): Promise<void> {
    const journal = this.#journal
    if (!journal) throw new Error('the journal is not open')
    let at = 0
    try {
      while (at < bytes.length) at += (await journal.write(bytes, at)).bytesWritten
      const size = this.#journalBytes + bytes.length
      const [isInOrder] = await Promise.all([this.#isInOrder(size), journal.datasync()])
      if (!isInOrder) throw new Error('the files are not as this server left them')
    } catch (error) {
      await this.#cutOff(bytes.subarray(0, at)).catch(() => {})
      throw error
    }
  }

  /** Cuts off the last write. If that fails, only a fold can put the files in order. */
  async #cutOff(written: Buffer): Promise<void> {
    const end = this.#journalBytes
    const size = end + written.length
    if (endsLine(written)) this.#journalBytes = size // a restart would read it
    try {
      if ((await this.#journal?.stat())?.size !== size)
        throw new Error('others wrote to the journal')
      await this.#journal?.truncate(end)
      this.#journalBytes = end
      await this.#journal?.datasync()
    } catch (error) {
      await this.#closeJournal()
      throw error
    }
  }

  /** Whether both files are in place, and as this server left them. */
  async #isInOrder(journalBytes: number): Promise<boolean> {
    const statsOf = (path: string) => lstat(path).catch(ignoreMissing)
    const [own, journal, snapshot] = await Promise.all([
      this.#journal?.stat(),
      ...[this.#journalPath, this.path].map(statsOf),
    ])
    const isWhole = own?.size === journalBytes && isSame(journal, own)
    return isWhole && isSame(snapshot, this.#snapshotStats)
  }
}
