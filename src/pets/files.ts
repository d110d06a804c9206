import type { Stats } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'

/** Gives a file the mode of another, and its owner where that is allowed. */
export async function takeAfter(handle: FileHandle, { mode, uid, gid }: Stats): Promise<void> {
  await handle.chown(uid, gid).catch(() => {})
  await handle.chmod(mode & 0o777)
}

/** Writes bytes at a place in a file; one write may take only a part of them. */
export async function writeAll(handle: FileHandle, bytes: Buffer, position: number): Promise<void> {
  for (let written = 0; written < bytes.length;) {
    const { bytesWritten } = await handle.write(bytes, written, bytes.length - written, position + written)
    written += bytesWritten
  }
}

/** Puts a new name in a folder on disk. */
export async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r')
  await folder.sync().finally(() => folder.close())
}

/** Turns the rejection of what is not there into undefined. */
export function ignoreMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error
}
