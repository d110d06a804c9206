import type { Stats } from 'node:fs'
import { type FileHandle, open, readlink, realpath } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'

/**
 * Reads a file, if there is one, and makes sure that it is on disk.
 *
 * @param use Throws if the content is damaged: the file is as it was then.
 */
export async function readDurably(
  path: string,
  use: (content: Buffer) => void,
  flags = 'r',
): Promise<Stats | undefined> {
  const handle = await open(path, flags).catch(ignoreMissing)
  if (handle === undefined) return undefined
  try {
    const stats = await handle.stat()
    if (!stats.isFile()) throw new Error(`${path}: must be a regular file`)
    const content = Buffer.alloc(stats.size)
    for (let at = 0, read = 1; read > 0 && at < stats.size; at += read) {
      read = (await handle.read(content, at, Math.min(stats.size - at, 2 ** 24), at)).bytesRead
    }
    use(content)
    // What can be read need never come to the disk after a sync that failed, unless it is written again.
    if (flags === 'r+') await writeAll(handle, content)
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

/** Puts on disk the names in the folder of a file. */
export async function syncNames(path: string): Promise<void> {
  const folder = await open(dirname(path))
  await folder.sync().finally(() => folder.close())
}

/** Turns ENOENT into undefined. */
export function ignoreMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error
}

/** Whether disk, quota or the limit on file sizes left no room. */
export function isNoRoom(error: unknown): boolean {
  return error instanceof Error && 'code' in error && ['ENOSPC', 'EDQUOT', 'EFBIG'].includes(String(error.code))
}

/** Resolves symbolic links, also of a file that does not exist yet. */
export async function realPath(path: string): Promise<string> {
  const target = await readlink(path).catch(() => undefined)
  if (target !== undefined) return realPath(resolve(dirname(path), target))
  return join(await realpath(dirname(path)), basename(path))
}
