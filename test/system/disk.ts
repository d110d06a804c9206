// A disk whose power may be cut at any moment, and whose operations may be made to fail.
import files, { type FileHandle } from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'
import { basename, dirname } from 'node:path'
import type { TestContext } from 'node:test'

export function pick<T>(...values: readonly [T, ...T[]]): T {
  return values[Math.floor(Math.random() * values.length)] ?? values[0]
}

class Inode {
  content: Buffer = Buffer.alloc(0)
  isSynced = false

  /** What a cut may leave of it. */
  image(): Buffer {
    if (this.isSynced) return this.content
    const length = Math.floor(Math.random() * (this.content.length + 1))
    const zeros = Buffer.alloc(this.content.length - length)
    const prefix = this.content.subarray(0, length)
    return pick(Buffer.alloc(0), prefix, Buffer.concat([prefix, zeros]), this.content)
  }
}

type Names = Map<string, Inode>

export class Disk {
  /** Whether the step of this number is to fail, and how many there were. */
  fails: (step: number) => boolean = () => false
  steps = 0
  /** Called after each change: the moment for a cut. */
  onChange = (): void => {}
  readonly #names: Names = new Map()
  readonly #durable: Names = new Map()
  #changes: ((names: Names) => void)[] = []
  #hasNews = false // since a sync failed: without, the next sync does nothing

  /** What a cut may leave: POSIX promises no order of the changes since the last sync. */
  cut(): Map<string, Buffer> {
    const names = new Map(this.#durable)
    const chance = pick(0, 0.1, 0.5, 0.9, 1)
    for (const change of this.#changes) if (Math.random() < chance) change(names)
    return new Map(Array.from(names, ([name, inode]) => [name, inode.image()]))
  }

  step(): void {
    this.steps++
    if (this.fails(this.steps)) throw Object.assign(new Error('made to fail'), { code: 'EIO' })
  }

  create(name: string): Inode {
    const inode = new Inode()
    this.#change((names) => names.set(name, inode))
    return inode
  }

  rename(from: string, to: string): void {
    const moved = this.#names.get(from)
    if (!moved) throw new Error(`${from} is not known`)
    this.#change((names) => names.set(to, moved) && names.delete(from))
  }

  unlink(name: string): void {
    this.#change((names) => names.delete(name))
  }

  append(inode: Inode, bytes: Buffer): void {
    inode.content = Buffer.concat([inode.content, bytes])
    inode.isSynced = false
    this.onChange()
  }

  sync(inode: Inode | undefined, isDone: boolean): void {
    if (inode) inode.isSynced = isDone
    else if (!isDone) this.#hasNews = false
    else if (this.#hasNews) for (const change of this.#changes.splice(0)) change(this.#durable)
    this.onChange()
  }

  #change(change: (names: Names) => void): void {
    change(this.#names)
    this.#changes.push(change)
    this.#hasNews = true
    this.onChange()
  }
}

/** Lets a disk follow what this process does in a folder, until the test ends. */
export function follow(t: TestContext, folder: string, disk: Disk): void {
  const originals = { ...files }
  const inodes = new WeakMap<object, Inode>()
  const isHere = (path: unknown): boolean => dirname(String(path)) === folder
  files.open = async (path, flags, mode) => {
    if (path !== folder && !isHere(path)) return originals.open(path, flags, mode)
    disk.step()
    const handle = await originals.open(path, flags, mode)
    const inode = flags === 'wx' ? disk.create(basename(String(path))) : undefined
    if (inode) inodes.set(handle, inode)
    return followHandle(handle, inode, disk)
  }
  const stat: unknown = async (path: string, options: { bigint: true }) => {
    if (isHere(path)) disk.step()
    return originals.stat(path, options)
  }
  Object.assign(files, { stat })
  files.rename = async (from, to) => {
    if (isHere(from)) disk.step()
    await originals.rename(from, to)
    if (isHere(from)) disk.rename(basename(String(from)), basename(String(to)))
  }
  files.unlink = async (path) => {
    if (isHere(path)) disk.step()
    await originals.unlink(path)
    if (isHere(path)) disk.unlink(basename(String(path)))
  }
  const writeFile: unknown = async (handle: FileHandle, pieces: Iterable<string>) => {
    const inode = inodes.get(handle)
    if (!inode) return originals.writeFile(handle, pieces)
    for (const piece of pieces) {
      for (const part of [piece.slice(0, 99), piece.slice(99)]) {
        disk.step()
        await handle.write(part)
        disk.append(inode, Buffer.from(part))
      }
    }
  }
  Object.assign(files, { writeFile })
  syncBuiltinESMExports()
  t.after(() => {
    Object.assign(files, originals)
    syncBuiltinESMExports()
  })
}

function followHandle(handle: FileHandle, inode: Inode | undefined, disk: Disk): FileHandle {
  const { sync, close, stat } = handle
  const step = (run: (...args: unknown[]) => unknown) => {
    return async (...args: unknown[]) => {
      disk.step()
      return run.apply(handle, args)
    }
  }
  const followSync = async (): Promise<void> => {
    try {
      disk.step()
    } catch (error) {
      disk.sync(inode, false)
      throw error
    }
    await sync.call(handle)
    disk.sync(inode, true)
  }
  const followClose = async (): Promise<void> => {
    await close.call(handle)
    disk.step()
  }
  return Object.assign(handle, { sync: followSync, close: followClose, stat: step(stat as never) })
}
