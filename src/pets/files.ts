import { readSync, type Stats } from 'node:fs'
import { access, constants, type FileHandle, open, readlink, realpath } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { messageOf } from './errors.ts'

const PIECE_BYTES = 2 ** 20

/** A file that is read on as its bytes are used. */
export class Unread {
  bytes: Buffer = Buffer.alloc(0)
  /** Where the first byte is that was not used yet, and on which line. */
  at = 0
  line = 1
  readonly #file: number

  constructor(file: number) {
    this.#file = file
  }

  /** Reads on; false at the end of the file. */
  readMore(): boolean {
    const unused = this.bytes.subarray(this.at)
    const bytes = Buffer.allocUnsafe(2 * unused.length + PIECE_BYTES)
    unused.copy(bytes)
    const count = readSync(this.#file, bytes, { offset: unused.length })
    this.bytes = bytes.subarray(0, unused.length + count)
    this.at = 0
    return count > 0
  }
}

/**
 * Reads a file, if there is one, and makes sure that it is on disk.
 *
 * @throws Error with file, line and what `read` finds wrong there.
 */
export async function readDurably(path: string, read: (file: Unread) => void): Promise<Stats | undefined> {
  const handle = await open(path).catch(ignoreMissing)
  if (handle === undefined) return undefined
  try {
    const stats = await handle.stat()
    if (!stats.isFile()) throw new Error(`${path}: must be a regular file`)
    const file = new Unread(handle.fd)
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

/** Writes all bytes behind those before; one write may take only a part of them. */
export async function writeAll(handle: FileHandle, bytes: Buffer, onWritten?: (count: number) => void): Promise<void> {
  for (let at = 0; at < bytes.length;) {
    const { bytesWritten } = await handle.write(bytes, at)
    at += bytesWritten
    onWritten?.(bytesWritten)
  }
}

export async function syncNames(path: string): Promise<void> {
  const folder = await open(dirname(path))
  await folder.sync().finally(() => folder.close())
}

export function ignoreMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error
}

/** Whether disk, quota or the limit on file sizes left no room. */
export function isNoRoom(error: unknown): boolean {
  return error instanceof Error && 'code' in error && ['ENOSPC', 'EDQUOT', 'EFBIG'].includes(String(error.code))
}

/** Resolves symbolic links, also those to a file that does not exist yet. */
export async function realPath(path: string): Promise<string> {
  const target = await readlink(path).catch(() => undefined)
  if (target !== undefined) return realPath(resolve(dirname(path), target))
  try {
    await access(dirname(path), constants.W_OK | constants.X_OK)
    return join(await realpath(dirname(path)), basename(path))
  } catch {
    throw new Error(`${path} must be in a folder that exists, and that this user may write to`)
  }
}
