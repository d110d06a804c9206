import type { Stats } from 'node:fs'
import { type FileHandle, link, lstat, open, rename, stat, unlink } from 'node:fs/promises'
import { dirname } from 'node:path'
import { hasCode, messageOf } from '../guards.ts'
import type { Report } from '../pets/store.ts'

export const NO_ROOM: readonly string[] = ['ENOSPC', 'EDQUOT', 'EFBIG']

export function ignoreMissing(error: unknown): undefined {
  if (!hasCode(error, 'ENOENT')) throw error
}

/** Reads a file if there is one. An error names it. */
export async function readExisting<T>(
  path: string,
  read: (file: FileHandle) => Promise<T>,
): Promise<{ stats: Stats; content: T } | undefined> {
  const stats = await stat(path).catch(ignoreMissing)
  if (!stats) return undefined
  if (!stats.isFile()) throw new Error(`${path}: must be a regular file`) // a FIFO would never open
  const handle = await open(path)
  try {
    return { stats, content: await read(handle) }
  } catch (error) {
    throw new Error(`${path}: ${messageOf(error)}`)
  } finally {
    await handle.close()
  }
}

/** Syncs the folder of `path`: else a power cut may undo the creation or renaming of a file. */
export async function syncFolder(path: string): Promise<void> {
  const folder = await open(dirname(path))
  await folder.sync().finally(() => folder.close())
}

/**
 * Writes a new file, with the owner and the mode of another one; returns its size. If that fails,
 * no part of it is left.
 */
export async function writeNew(
  path: string,
  pieces: Iterable<string | Buffer>,
  like: Stats | undefined,
): Promise<number> {
  await unlink(path).catch(ignoreMissing)
  const handle = await open(path, 'wx', like?.mode)
  let size = 0
  try {
    await adoptOwner(handle, like)
    if (like) await handle.chmod(like.mode) // open() applies the umask
    for (const piece of pieces) {
      await handle.appendFile(piece)
      size += Buffer.byteLength(piece)
    }
    await handle.sync()
    return size
  } catch (error) {
    await unlink(path).catch(() => {})
    throw error
  } finally {
    await handle.close()
  }
}

/** Gives a file the owner of another one: what root writes, the owner must be able to use. */
export async function adoptOwner(file: FileHandle, like: Stats | undefined): Promise<void> {
  if (like) await file.chown(like.uid, like.gid).catch(() => {}) // only root may
}

/**
 * Whether a link proves that a file can be replaced, which it cannot where it is mounted by itself.
 * Not for another user's file: in a sticky folder, nobody else could remove the link.
 */
export async function isReplaceable(path: string, linkPath: string, own?: Stats): Promise<boolean> {
  if (own?.uid !== process.geteuid?.()) return false
  await unlink(linkPath).catch(ignoreMissing)
  try {
    await link(path, linkPath)
  } catch {
    return false
  }
  await unlink(linkPath)
  return true
}

/** Whether it is the same file. Not every file system keeps the number of an inode. */
export function isSame(found: Stats | undefined, own: Stats | undefined): boolean {
  return found?.size === own?.size && found?.mtimeMs === own?.mtimeMs
}

/** Keeps somebody else's file under another name. */
export async function keepForeign(
  path: string,
  own: Stats | undefined,
  report: Report,
): Promise<void> {
  const found = await lstat(path).catch(ignoreMissing)
  if (!found || isSame(found, own)) return
  const keptAs = `${path}.${Date.now()}`
  // A system may refuse links to files of others.
  await link(path, keptAs).catch(() => rename(path, keptAs))
  report('warn', `${path} was somebody else's file: kept as ${keptAs}`)
}

/** Keeps the end of a journal that is cut off, unless the disk is full. */
export async function keepTorn(
  path: string,
  torn: Buffer,
  journal: Stats,
  report: Report,
): Promise<void> {
  const keptAs = `${path}.torn-${Date.now()}`
  const cut = `${path}: cut off ${torn.length} bytes after the last complete write`
  try {
    await writeNew(keptAs, [torn], journal)
    report('warn', `${cut}, kept as ${keptAs}`)
  } catch (error) {
    if (!hasCode(error, ...NO_ROOM)) throw error
    report('warn', `${cut}, not kept: ${messageOf(error)}`)
  }
}
