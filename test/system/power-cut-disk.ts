// A disk whose power may be cut at any moment.
import fs from 'node:fs'
import type { Random } from '../support.ts'
import type { Event } from './power-cut-recorder.ts'

const PAGE = 4096

/** A write within one page, and the file's size since; doubtful after a sync of it has failed. */
type Change = { at: number; data: Buffer; size: number; isDoubtful?: boolean }

const page = ({ at }: Change) => Math.floor(at / PAGE)
const resize = (size: number): Change => ({ at: size, data: Buffer.alloc(0), size })

function* split(at: number, data: Buffer, unit: number): Generator<{ at: number; data: Buffer }> {
  for (let start = 0, end; start < data.length; start = end) {
    end = Math.min(data.length, start + unit - ((at + start) % unit))
    yield { at: at + start, data: data.subarray(start, end) }
  }
}

function applied(content: Buffer, changes: readonly Change[]): Buffer<ArrayBuffer> {
  const ends = changes.map(({ at, data, size }) => Math.max(size, at + data.length))
  const result = Buffer.alloc(Math.max(content.length, ...ends))
  content.copy(result)
  for (const { at, data } of changes) data.copy(result, at)
  return result.subarray(0, changes.at(-1)?.size ?? content.length)
}

class Inode {
  durable = Buffer.alloc(0)
  changes: Change[] = []
  content = Buffer.alloc(0)

  write(data: Buffer, at = this.content.length, size?: number): void {
    for (const part of split(at, data, PAGE))
      this.#change({ ...part, size: Math.max(part.at + part.data.length, this.content.length) })
    if (size !== undefined) this.#change(resize(size))
  }

  #change(change: Change): void {
    this.content = applied(this.content, [change])
    this.changes.push(change)
  }

  /** Ends a sync: whole pages are durable, except those that a failed sync left looking written. */
  settle(changes: readonly Change[], isDone: boolean): void {
    if (!isDone) return changes.forEach((change) => (change.isDoubtful = true))
    const dirty = new Set(changes.filter(({ isDoubtful }) => !isDoubtful).map(page))
    const isSettled = (change: Change) => change.data.length === 0 || dirty.has(page(change))
    const settled = changes.filter((change) => this.changes.includes(change) && isSettled(change))
    const size = changes.at(-1)?.size ?? this.durable.length
    this.durable = applied(this.durable, [...settled, resize(size)])
    this.changes = this.changes.filter((change) => !settled.includes(change))
  }

  /** What a cut may leave: any version of each sector, and any file size, since the last sync. */
  image(random: Random): Buffer {
    const [sector, chance] = [random.pick([512, PAGE]), random.pick([0, 0.1, 0.5, 0.9, 1])]
    const sizes = [this.durable.length, ...this.changes.map(({ size }) => size)]
    const image = applied(this.durable, [resize(Math.max(...sizes))])
    const versions = new Map<number, number>()
    const choose = () =>
      random.chance(0.7) ? (random.chance(chance) ? Infinity : 0) : random.integer(0, 3)
    for (const change of this.changes)
      for (const { at, data } of split(change.at, change.data, sector)) {
        const left = versions.get(Math.floor(at / sector)) ?? choose()
        versions.set(Math.floor(at / sector), left - 1)
        if (left > 0) data.copy(image, at)
      }
    if (chance === 0) return image.subarray(0, sizes[0])
    return image.subarray(0, chance === 1 ? sizes.at(-1) : random.pick(sizes))
  }
}

type Names = Map<string, Inode>

export class Disk {
  readonly #names: Names
  readonly #durableNames: Names
  #changes: ((names: Names) => void)[] = []
  #isDoubtful = false // a sync of the folder failed: it looks clean until it changes
  readonly #open = new Map<number, Inode | undefined>()
  readonly #syncs = new Map<number, readonly Change[]>()

  constructor(files: ReadonlyMap<string, Buffer> = new Map()) {
    const inode = (content: Buffer) =>
      Object.assign(new Inode(), { durable: content, content: Buffer.from(content) })
    this.#names = new Map(Array.from(files, ([name, content]) => [name, inode(content)]))
    this.#durableNames = new Map(this.#names)
  }

  get files(): Map<string, Buffer> {
    return new Map(Array.from(this.#names, ([name, { content }]) => [name, content]))
  }

  /** Any of the changes of names since the last sync may be lost: POSIX promises no order. */
  cut(random: Random): Map<string, Buffer> {
    const names = new Map(this.#durableNames)
    const chance = random.pick([0, 0.1, 0.5, 0.9, 1])
    for (const change of this.#changes) if (random.chance(chance)) change(names)
    return new Map(Array.from(names, ([name, inode]) => [name, inode.image(random)]))
  }

  apply({ op, id = 0, name = '', to = '', size = 0, data = '' }: Event): void {
    const [inode, moved] = [this.#open.get(id), this.#names.get(name)]
    if (op === 'open') this.#open.set(id, name === '.' ? undefined : this.#inode(name))
    else if (op === 'write') inode?.write(Buffer.from(data, 'base64'))
    // Zeros may come before the size.
    else if (op === 'truncate')
      inode?.write(Buffer.alloc(Math.max(inode.content.length - size, 0)), size, size)
    else if (op === 'sync') this.#syncs.set(id, [...(inode?.changes ?? [])])
    else if (op === 'synced' || op === 'failed') this.#settle(id, op === 'synced')
    else if (op === 'unlink') this.#change((names) => names.delete(name))
    else if (moved !== undefined)
      this.#change((names) => names.set(to, moved) && op === 'rename' && names.delete(name))
  }

  /** Takes over what a process that was killed did last, as it is seen in its files. */
  adopt(files: ReadonlyMap<string, Buffer>): void {
    for (const [name, content] of files) {
      if (this.#names.get(name)?.content.equals(content)) continue
      const [moved] =
        [...this.#names].find(([old, inode]) => !files.has(old) && inode.content.equals(content)) ??
        []
      if (moved !== undefined) this.apply({ op: 'rename', name: moved, to: name })
      else this.#inode(name).write(content, 0, content.length)
    }
    for (const name of this.#names.keys())
      if (!files.has(name)) this.#change((names) => names.delete(name))
  }

  #inode(name: string): Inode {
    const inode = this.#names.get(name) ?? new Inode()
    if (!this.#names.has(name)) this.#change((names) => names.set(name, inode))
    return inode
  }

  #change(change: (names: Names) => void): void {
    change(this.#names)
    this.#changes.push(change)
    this.#isDoubtful = false
  }

  #settle(id: number, isDone: boolean): void {
    const inode = this.#open.get(id)
    if (inode !== undefined) return inode.settle(this.#syncs.get(id) ?? [], isDone)
    if (!this.#open.has(id)) return // a file elsewhere
    this.#isDoubtful ||= !isDone
    if (!this.#isDoubtful) for (const change of this.#changes.splice(0)) change(this.#durableNames)
  }
}

export function read(folder: string): Map<string, Buffer> {
  const names = fs.readdirSync(folder).filter((name) => fs.lstatSync(`${folder}/${name}`).isFile())
  return new Map(names.map((name) => [name, fs.readFileSync(`${folder}/${name}`)]))
}

export function fill(folder: string, files: ReadonlyMap<string, Buffer>): void {
  for (const name of fs.readdirSync(folder)) fs.unlinkSync(`${folder}/${name}`)
  for (const [name, content] of files) fs.writeFileSync(`${folder}/${name}`, content)
}
