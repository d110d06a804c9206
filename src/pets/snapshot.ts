import { access, constants, readlink, realpath } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { takeLock } from './lock.ts'
import { SnapshotFiles } from './snapshot-files.ts'
import { SnapshotStore } from './snapshot-store.ts'
import { MemoryStore, type Report, type Store } from './store.ts'

const MAX_LINKS = 40

/**
 * Opens a store in a JSON file, which is created if it is missing.
 *
 * @throws Error that names the file and what is wrong.
 */
export async function openSnapshotStore(
  file: string,
  maxBytes: number,
  report: Report,
): Promise<Store> {
  const path = await realPath(file, MAX_LINKS)
  const release = await takeLock(path)
  try {
    const files = new SnapshotFiles(path, report)
    const memory = new MemoryStore(maxBytes, report)
    await files.open(memory)
    return new SnapshotStore(files, memory, release, report)
  } catch (error) {
    await release()
    throw error
  }
}

/** Resolves symbolic links, also those to a file that does not exist yet. */
async function realPath(path: string, linksLeft: number): Promise<string> {
  const refuse = () => {
    throw new Error(`${path} must be in a folder that exists, and that this user may write to`)
  }
  const folder = await realpath(dirname(path)).catch(refuse)
  const real = join(folder, basename(path))
  const target = await readlink(real).catch(() => undefined)
  if (target === undefined) {
    await access(folder, constants.W_OK | constants.X_OK).catch(refuse)
    return real
  }
  if (linksLeft === 0) throw new Error(`${path} is a loop of links`)
  return realPath(resolve(folder, target), linksLeft - 1)
}
