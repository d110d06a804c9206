import type { Stats } from 'node:fs'
import { type FileHandle, open, rename, stat, unlink } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { crc32 } from 'node:zlib'
import { ignoreMissing, syncFolder, takeAfter, writeAll } from './files.ts'
import { CLOSING, HEADER_BYTES, headerLine, readSnapshot, type Seal } from './snapshot-reader.ts'
import type { StoredPet } from './store.ts'

/** The memory that a snapshot file is read into, and written anew from. */
export interface Contents {
  keep(pet: StoredPet): void
  /** The JSON of all pets in ascending order of id. */
  values(): Iterable<string>
}

const CLOSING_LINE = Buffer.from(`${CLOSING}\n`)
// White space behind the closing line, so many times what is added: where the file does not grow, its size need not be
// synced either, and adding takes two thirds of the time. Closing the file takes it away.
const PADDING = 16
const MAX_PADDING = 2 ** 16
const TEST_BYTES = 4 * 1024
// So few that what a piece is made of is gone when garbage is collected, and never moved to where it stays: with 16 times as
// many, 1,000,000 animals are written anew in 30 MB more on Node 20, and 65 on Node 26.
const PIECE_CHARACTERS = 2 ** 16

/**
 * One JSON document, an animal a line. Adding overwrites the closing line at the known end with animals and a new closing
 * line; no animal's line is touched again. The first line tells how many bytes of animals were acknowledged for certain, and
 * their checksum: it is overwritten in pauses, after what it tells is on disk, so it is never ahead of that. By it a torn
 * end, which nobody was promised, is told from the loss of what somebody was.
 */
export class SnapshotFile {
  readonly #path: string
  readonly #beside: string
  #contents: Contents
  #handle: FileHandle | undefined
  /** Device and inode of the open file. */
  #place: Stats | undefined
  #seal: Seal = { bytes: 0, crc32: 0 }
  #size = 0
  /** A write failed: the file must be put in order before the next one. */
  #isBroken = false
  /** A new file took the place of the old one, and its folder is not synced yet. */
  #isUnplaced = false
  /** Somebody else took animals' lines away: it must be written anew. */
  #isCut = false

  constructor(path: string, contents: Contents) {
    this.#path = path
    this.#beside = join(dirname(path), `.${basename(path)}.petstore-new`)
    this.#contents = contents
  }

  /**
   * Opens the file, or makes it, and loads what it holds.
   *
   * @returns What was mended, for the log; undefined when nothing had to be.
   * @throws Error, the file being as it was, when it is not a snapshot, or damaged, or cannot be read and written.
   */
  async open(): Promise<string | undefined> {
    try {
      return await this.#load()
    } catch (error) {
      await this.#handle?.close()
      throw error
    }
  }

  /** Adds animals; resolves when they are on disk. When it rejects, they are not in the file. */
  async append(pets: readonly string[]): Promise<void> {
    if (this.#isBroken) await this.#mend()
    const comma = this.#seal.bytes === 0 ? '' : ','
    const lines = Buffer.from(`${comma}${pets.join('\n,')}\n`)
    try {
      const handle = this.#open
      const end = this.#end + lines.length + CLOSING_LINE.length
      if (end > this.#size) await this.#assertInPlace() // writing hides it when somebody has cut the file short
      await writeAll(handle, Buffer.concat([lines, CLOSING_LINE]), this.#end)
      if (end > this.#size) await this.#pad(end, lines.length)
      await Promise.all([handle.datasync(), this.#assertInPlace()])
      await this.#syncName()
    } catch (error) {
      this.#isBroken = true
      await this.#putBack().catch(() => {}) // tried again before the next addition
      throw error
    }
    this.#seal = { bytes: this.#seal.bytes + lines.length, crc32: crc32(lines, this.#seal.crc32) }
  }

  /** Writes the file anew with other animals. When it rejects, it is as it was. */
  async rewrite(contents: Contents): Promise<void> {
    const found = await stat(this.#path).catch(ignoreMissing)
    if (found !== undefined) this.#assertOurs(found)
    await this.#replace(found, contents).catch((error: unknown) => {
      if (this.#contents !== contents) throw error // else it is only the folder, which the next addition syncs again
    })
    this.#isBroken = this.#isCut = false
  }

  /** Finds out whether animals could be added: puts the file in order, and behind its end as much as a few animals take. */
  async test(): Promise<void> {
    if (this.#isBroken) await this.#mend()
    this.#isBroken = true // until it has proved to be well
    await this.#assertInPlace()
    const end = this.#end + CLOSING_LINE.length
    await writeAll(this.#open, Buffer.alloc(TEST_BYTES, ' '), end)
    this.#size = end + TEST_BYTES
    await Promise.all([this.#open.datasync(), this.#assertInPlace()])
    await this.#syncName()
    this.#isBroken = false
  }

  /** Writes into the first line what was acknowledged until now. */
  async writeSeal(): Promise<void> {
    await writeAll(this.#open, Buffer.from(headerLine(this.#seal)), 0)
  }

  /** Closes the file. Rejects when what was acknowledged is not found at its path, and cannot be put there. */
  async close(): Promise<void> {
    try {
      if (this.#isBroken) await this.#mend()
      await this.#assertInPlace().catch(() => this.#mend())
      await this.#assertInPlace()
      await this.writeSeal()
      await this.#open.truncate(this.#end + CLOSING_LINE.length)
      await this.#open.sync()
      await this.#syncName()
    } finally {
      await this.#open.close()
    }
  }

  async #load(): Promise<string | undefined> {
    await unlink(this.#beside).catch(ignoreMissing) // left by a process that ended while it wrote the file anew
    const found = await stat(this.#path).catch(ignoreMissing)
    if (found === undefined) {
      await this.#replace()
      return undefined
    }
    if (!found.isFile()) throw new Error('must be a regular file')
    this.#handle = await open(this.#path, 'r+')
    this.#place = await this.#handle.stat()
    const read = await readSnapshot(this.#handle, (pet) => this.#contents.keep(pet))
    this.#seal = read.seal
    this.#size = found.size
    if (!read.isSealed) await this.#replace(found)
    else if (!read.isClosed) await this.#putBack()
    if (read.isClosed) return undefined
    return `the last ${read.tornBytes} bytes were cut off: the end of a write that was never acknowledged`
  }

  get #end(): number {
    return HEADER_BYTES + this.#seal.bytes
  }

  get #open(): FileHandle {
    if (this.#handle === undefined) throw new Error('is not open')
    return this.#handle
  }

  /** Puts the file in order after a failure: a removed or shortened one is made again, any other put back to its last good end. */
  async #mend(): Promise<void> {
    const found = await stat(this.#path).catch(ignoreMissing)
    const isShort = found !== undefined && this.#isOurs(found) && found.size < this.#end
    if (found === undefined || this.#isCut || isShort) await this.#replace(found)
    else await this.#putBack()
    this.#isBroken = this.#isCut = false
  }

  /** Ends the file with the closing line behind the last animal that was acknowledged. */
  async #putBack(): Promise<void> {
    await writeAll(this.#open, CLOSING_LINE, this.#end)
    this.#size = this.#end + CLOSING_LINE.length
    await this.#open.truncate(this.#size)
    await this.writeSeal()
    await this.#open.datasync()
  }

  /** A file that is no longer found at its path would be lost with the process, however well it is written. */
  async #assertInPlace(): Promise<void> {
    const found = await stat(this.#path)
    this.#assertOurs(found)
    if (found.size >= this.#size) return
    this.#isCut = true
    throw new Error('somebody else has cut it short')
  }

  #isOurs({ ino, dev }: Stats): boolean {
    return ino === this.#place?.ino && dev === this.#place.dev
  }

  #assertOurs(found: Stats): void {
    if (!this.#isOurs(found)) throw new Error('another file stands in its place')
  }

  /** Puts the file's name in its folder on disk, where it is a new one: what is in the file is not kept without. */
  async #syncName(): Promise<void> {
    if (!this.#isUnplaced) return
    await syncFolder(dirname(this.#path))
    this.#isUnplaced = false
  }

  /** Puts white space behind the end, as much as the disk has room for. */
  async #pad(end: number, added: number): Promise<void> {
    const padding = Buffer.alloc(Math.min(added * PADDING, MAX_PADDING), ' ')
    this.#size = end
    await writeAll(this.#open, padding, end)
      .then(() => (this.#size += padding.length))
      .catch(() => {})
  }

  /** Writes the file anew, with the mode and owner of the old one: beside it, and in its place when it is on disk. */
  async #replace(old?: Stats, contents: Contents = this.#contents): Promise<void> {
    const before = this.#handle
    const handle = await open(this.#beside, 'wx+')
    try {
      if (old !== undefined) await takeAfter(handle, old)
      const seal = await writePets(handle, contents.values())
      await writeAll(handle, Buffer.from(headerLine(seal)), 0)
      await handle.sync()
      const place = await handle.stat()
      await rename(this.#beside, this.#path)
      this.#handle = handle
      this.#isUnplaced = true
      this.#contents = contents
      this.#place = place
      this.#seal = seal
      this.#size = this.#end + CLOSING_LINE.length
    } catch (error) {
      await handle.close()
      await unlink(this.#beside).catch(ignoreMissing)
      throw error
    }
    await before?.close()
    await this.#syncName()
  }
}

/** Writes all animals and the closing line behind the place of the first line. */
async function writePets(handle: FileHandle, pets: Iterable<string>): Promise<Seal> {
  const seal = { bytes: 0, crc32: 0 }
  let piece = ''
  const flush = async () => {
    const lines = Buffer.from(piece)
    await writeAll(handle, lines, HEADER_BYTES + seal.bytes)
    seal.bytes += lines.length
    seal.crc32 = crc32(lines, seal.crc32)
    piece = ''
  }
  let comma = ''
  for (const pet of pets) {
    piece += `${comma}${pet}\n`
    comma = ','
    if (piece.length > PIECE_CHARACTERS) await flush()
  }
  await flush()
  await writeAll(handle, CLOSING_LINE, HEADER_BYTES + seal.bytes)
  return seal
}
