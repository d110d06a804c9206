// A disk whose power may be cut at any moment, and whose operations may be made to fail.
import { fstatSync, readdirSync, readFileSync, statSync } from 'node:fs'
import files, { type FileHandle } from 'node:fs/promises'
import { join } from 'node:path'

export function pick<T>(...values: readonly [T, ...T[]]): T {
  return values[Math.floor(Math.random() * values.length)] ?? values[0]
}

class Inode {
  content: Buffer = Buffer.alloc(0)
  isSynced = false
  hasFailed = false // a sync of it: then another one proves nothing

  /** What a cut may leave of it. */
  image(): Buffer {
    if (this.isSynced) return this.content
    const length = Math.floor(Math.random() * (this.content.length + 1))
    const prefix = this.content.subarray(0, length)
    const zeros = Buffer.alloc(this.content.length - length)
    return pick(Buffer.alloc(0), prefix, Buffer.concat([prefix, zeros]), this.content)
  }
}

type Names = Map<string, Inode>
type Method = (...args: unknown[]) => Promise<unknown>

const FUNCTIONS = ['open', 'rename', 'rm', 'writeFile', 'stat', 'readdir']
const METHODS = ['write', 'writeFile', 'chmod', 'stat', 'readFile', 'sync', 'close']

/** Follows what this process does in a folder through node:fs/promises, until it is detached. */
export class Disk {
  /** Whether the operation of this number fails. */
  fails: (operation: number) => boolean = () => false
  operations = 0
  /** Called after each operation: the moment for a cut. */
  onOperation = (): void => {}
  readonly #originals = { ...files }
  readonly #folder: string
  readonly #inodes = new Map<number, Inode>() // those that have a name, by number
  readonly #durable: Names = new Map()
  #names: Names = new Map()
  #changes: ((names: Names) => void)[] = [] // since the last sync of the folder

  constructor(folder: string) {
    this.#folder = folder
    const handles = new WeakSet<object>()
    const isHere = (arg: unknown): boolean => {
      return typeof arg === 'string' ? arg.startsWith(folder) : handles.has(Object(arg))
    }
    for (const name of FUNCTIONS) {
      const original: Method = Reflect.get(files, name)
      const followed: Method = async (...args) => {
        if (!args.some(isHere)) return original(...args)
        const result = await this.#run(name, () => original(...args))
        if (name === 'open') {
          handles.add(Object(result))
          this.#follow(Object(result))
        }
        return result
      }
      Object.assign(files, { [name]: followed })
    }
  }

  detach(): void {
    Object.assign(files, this.#originals)
  }

  /** What a cut may leave: POSIX promises no order of the changes since the last sync. */
  cut(): Map<string, Buffer> {
    const names = new Map(this.#durable)
    const chance = pick(0, 0.1, 0.5, 0.9, 1)
    for (const change of this.#changes) if (Math.random() < chance) change(names)
    return new Map(Array.from(names, ([name, inode]) => [name, inode.image()]))
  }

  #follow(handle: FileHandle): void {
    const inode = this.#inodes.get(fstatSync(handle.fd).ino) // undefined for the folder
    for (const name of METHODS) {
      const original: Method = Reflect.get(handle, name)
      const followed: Method = async (...args) => {
        try {
          const result = await this.#run(name, () => original.apply(handle, args))
          if (name === 'sync') this.#sync(inode)
          return result
        } catch (error) {
          if (name === 'sync' && inode) inode.hasFailed = true
          throw error
        }
      }
      Object.assign(handle, { [name]: followed })
    }
  }

  #sync(inode: Inode | undefined): void {
    if (inode) inode.isSynced = !inode.hasFailed
    else for (const change of this.#changes.splice(0)) change(this.#durable)
    this.onOperation()
  }

  /** An operation may fail before it has an effect or after it, as far as systems do so. */
  async #run<T>(name: string, operation: () => Promise<T>): Promise<T> {
    this.operations++
    const isFailing = this.fails(this.operations)
    const isAtomic = name === 'open' || name === 'rename'
    const hasEffect = name === 'close' || (!isAtomic && pick(true, false))
    if (isFailing && !hasEffect) throw madeToFail()
    const result = await operation()
    this.#look()
    this.onOperation()
    if (isFailing) throw madeToFail()
    return result
  }

  /** Finds out what an operation has changed. */
  #look(): void {
    const before = this.#names
    this.#names = new Map()
    const numbers = new Set<number>()
    for (const name of readdirSync(this.#folder)) {
      const { ino, size } = statSync(join(this.#folder, name))
      const inode = this.#inodes.get(ino) ?? new Inode()
      if (inode.content.length !== size) {
        inode.content = readFileSync(join(this.#folder, name))
        inode.isSynced = false
      }
      numbers.add(ino)
      this.#inodes.set(ino, inode)
      this.#names.set(name, inode)
      if (before.get(name) !== inode) this.#changes.push((names) => names.set(name, inode))
    }
    for (const name of before.keys()) {
      if (!this.#names.has(name)) this.#changes.push((names) => names.delete(name))
    }
    for (const number of this.#inodes.keys()) {
      if (!numbers.has(number)) this.#inodes.delete(number) // it may be used again
    }
  }
}

function madeToFail(): Error {
  return Object.assign(new Error('made to fail'), { code: 'EIO' })
}
