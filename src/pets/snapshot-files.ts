import type { Stats } from 'node:fs'
import { type FileHandle, link, open, rename, stat, unlink } from 'node:fs/promises'
import { ignoreMissing, isNoRoom, readDurably, syncNames, writeAll } from './files.ts'
import { journalLine, readJournal } from './journal.ts'
import { readSnapshot } from './snapshot-reader.ts'
import type { MemoryStore, Report } from './store.ts'

// Small enough that a piece is garbage before the collector moves it to where objects live long.
const PIECE_CHARACTERS = 2 ** 16
const PROOF = Buffer.alloc(4 * 1024, ' ')

/** A snapshot, which is only ever replaced whole, and the journal of what came since. */
export class SnapshotFiles {
  /** Where the last acknowledged line of the journal ends, and the last that the snapshot holds too. */
  end = 0
  folded = 0
  readonly path: string
  readonly #journalPath: string
  readonly report: Report
  /** The files that are ours; the journal is not set while other names may be on disk. */
  snapshot: Stats | undefined
  #journal: Stats | undefined
  #handle: FileHandle | undefined
  /** The size that the journal must have: above `end` after a write that failed. */
  #written = 0

  constructor(path: string, report: Report) {
    this.path = path
    this.#journalPath = `${path}.journal`
    this.report = report
  }

  /** Reads all pets, and puts on disk what was read. Damage is refused before any file is changed. */
  async open(memory: MemoryStore): Promise<void> {
    let lastId = 0
    this.snapshot = await readDurably(this.path, (file) => {
      lastId = readSnapshot(file, (pet) => memory.keep(pet))
    })
    const end = await readJournal(this.#journalPath, memory, lastId)
    if (this.snapshot === undefined) await this.place(await this.prepare(memory.values()))
    const torn = await this.openJournal(end)
    if (torn > 0)
      this.report('warn', `${this.#journalPath}: cut off ${torn} bytes of a write that was never acknowledged`)
  }

  /** Opens the journal, and cuts off what follows its last whole line; returns how many bytes. */
  async openJournal(end: number): Promise<number> {
    this.#journal = undefined
    await this.#handle?.close()
    this.#handle = await open(this.#journalPath, 'a', this.snapshot?.mode)
    const journal = await this.#handle.stat()
    await this.#handle.truncate(end)
    await this.#handle.datasync()
    await syncNames(this.path)
    this.#journal = journal
    this.#written = this.end = end
    this.folded = 0
    return journal.size - end
  }

  /** Adds a line to the journal; resolves when it is on disk. When it rejects, it is cut off, at the latest by a repair. */
  async append(pets: readonly string[]): Promise<void> {
    try {
      await this.#write(journalLine(pets))
      this.end = this.#written
    } catch (error) {
      await this.#cut().catch(() => {})
      throw error
    }
  }

  /** Writes the next snapshot beside the old one; additions may go on. */
  async prepare(pets: Iterable<string>): Promise<Stats> {
    const beside = `${this.path}.new`
    const mode = ((await stat(this.path).catch(ignoreMissing)) ?? this.snapshot)?.mode
    await unlink(beside).catch(ignoreMissing)
    const handle = await open(beside, 'wx', mode)
    try {
      if (mode !== undefined) await handle.chmod(mode) // whatever the umask is
      for (const piece of piecesOf(pets)) await writeAll(handle, Buffer.from(piece))
      await handle.sync()
      return await handle.stat()
    } catch (error) {
      await unlink(beside)
      throw error
    } finally {
      await handle.close()
    }
  }

  /** Puts the next snapshot in place of the old one, which is kept beside if it is somebody else's. */
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
    await syncNames(this.path)
    this.#journal = journal
  }

  /** Whether the snapshot holds all pets. */
  async isWhole(): Promise<boolean> {
    const isSound = await this.#check().then(() => true, String)
    return isSound === true && this.end === 0
  }

  /** Replaces the snapshot, and begins the journal anew. */
  async fold(pets: Iterable<string>): Promise<void> {
    await this.place(await this.prepare(pets))
    await this.openJournal(0)
  }

  async removeJournal(): Promise<void> {
    await this.#handle?.close()
    await unlink(this.#journalPath).catch(ignoreMissing)
    await syncNames(this.path)
  }

  /** Puts the files in order after a failure, and proves that there is room. */
  async repair(pets: Iterable<string>): Promise<void> {
    try {
      await this.#cut()
      await this.#write(PROOF)
      await this.#cut()
    } catch (error) {
      if (isNoRoom(error)) throw error
      await this.fold(pets)
    }
  }

  async #write(bytes: Buffer): Promise<void> {
    if (this.#handle === undefined) return
    await writeAll(this.#handle, bytes, (count) => (this.#written += count))
    await Promise.all([this.#handle.datasync(), this.#check()])
  }

  /** Cuts off what follows the last acknowledged line. */
  async #cut(): Promise<void> {
    await this.#check()
    await this.#handle?.truncate(this.end)
    this.#written = this.end
    await this.#handle?.datasync()
  }

  /** Rejects unless both files are ours and on disk, and the journal holds exactly what was written to it. */
  async #check(): Promise<void> {
    const [snapshot, { dev, ino, size }] = await Promise.all([stat(this.path), stat(this.#journalPath)])
    const isJournal = dev === this.#journal?.dev && ino === this.#journal.ino && size === this.#written
    if (isJournal && isSame(snapshot, this.snapshot)) return
    throw new Error('somebody else changed the files, or they may not be on disk')
  }
}

function isSame(found: Stats, own: Stats | undefined): boolean {
  return found.dev === own?.dev && found.ino === own.ino && found.size === own.size && found.mtimeMs === own.mtimeMs
}

function* piecesOf(pets: Iterable<string>): Generator<string> {
  let [piece, separator] = ['[', '\n']
  for (const pet of pets) {
    piece += separator + pet
    separator = ',\n'
    if (piece.length < PIECE_CHARACTERS) continue
    yield piece
    piece = ''
  }
  yield `${piece}\n]\n`
}
