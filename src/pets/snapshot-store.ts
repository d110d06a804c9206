import { readlink, realpath } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import { messageOf } from './errors.ts'
import { type Lock, takeLock } from './lock.ts'
import type { NewPet } from './pet.ts'
import { SnapshotFile } from './snapshot-file.ts'
import { type Added, type Draft, MemoryStore, type Page, type PageQuery, type PetStore } from './store.ts'

/** What {@link openSnapshotStore} is told. */
export interface SnapshotOptions {
  /** The file; it is made where it is missing. */
  path: string
  /** How many bytes of pets' JSON (UTF-8) are kept; a pet beyond them is not added. */
  maxBytes: number
  /** Told what its owner should know: what was mended, that writing fails, that it works again. */
  report: (level: 'info' | 'warn' | 'error', message: string) => void
}

// Nobody is waited for after so many turns of the event loop without an addition, 20 µs where it does nothing else, and so many
// milliseconds in all.
const PATIENCE = 16
const MAX_GATHERING = 5

interface Addition {
  readonly pet: NewPet
  readonly resolve: (added: Added) => void
}

/** Opens a store that keeps its pets in a file. Rejects with an Error that names file, line and reason. */
export async function openSnapshotStore(options: SnapshotOptions): Promise<PetStore> {
  const { path, maxBytes, report } = options
  let lock: Lock | undefined
  try {
    const real = await realPath(path)
    lock = await takeLock(`${real}.lock`)
    const memory = new MemoryStore(maxBytes)
    const file = new SnapshotFile(real, memory)
    const mended = await file.open()
    if (mended !== undefined) report('warn', `${path}: ${mended}`)
    return new SnapshotStore(options, memory, file, lock)
  } catch (error) {
    await lock?.release()
    throw new Error(`${path}: ${messageOf(error)}`)
  }
}

/**
 * Keeps pets in memory and in a file: a pet is added, and its addition answered, when it is on disk. Those that arrive while
 * a write is under way go out together in the next one.
 */
class SnapshotStore implements PetStore {
  readonly #options: SnapshotOptions
  #memory: MemoryStore
  readonly #file: SnapshotFile
  readonly #lock: Lock
  /** What is to be done with the file, in its order: batches of additions, which are written as one, and tasks. */
  readonly #waiting: (Addition[] | (() => Promise<void>))[] = []
  #writing: Promise<void> | undefined
  #isFailing = false
  #closing: Promise<void> | undefined

  constructor(options: SnapshotOptions, memory: MemoryStore, file: SnapshotFile, lock: Lock) {
    this.#options = options
    this.#memory = memory
    this.#file = file
    this.#lock = lock
  }

  get size(): number {
    return this.#memory.size
  }

  get(id: number): string | undefined {
    return this.#memory.get(id)
  }

  page(query: PageQuery): Page {
    return this.#memory.page(query)
  }

  values(): IterableIterator<string> {
    return this.#memory.values()
  }

  async reset(pets: readonly NewPet[]): Promise<boolean> {
    const fresh = new MemoryStore(this.#options.maxBytes)
    if (!fresh.reset(pets)) return false
    await this.#inTurn(async () => {
      await this.#file.rewrite(fresh)
      this.#memory = fresh
      this.#recover()
    })
    return true
  }

  isWritable(): boolean | Promise<boolean> {
    if (!this.#isFailing) return true
    const tested = this.#inTurn(async () => {
      await this.#file.test()
      this.#recover()
    })
    return tested.then(
      () => true,
      () => false,
    )
  }

  add(pet: NewPet): Promise<Added> {
    return new Promise((resolve) => {
      if (this.#closing !== undefined) return resolve({ ok: false, reason: 'storage_failed' })
      const last = this.#waiting.at(-1)
      if (Array.isArray(last)) last.push({ pet, resolve })
      else this.#waiting.push([{ pet, resolve }])
      this.#writing ??= this.#writeAll()
    })
  }

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    await this.#writing
    const { path, report } = this.#options
    await this.#file.close().catch((error: unknown) => {
      report('error', `${path}: what was acknowledged may not be in it: ${messageOf(error)}`)
    })
    await this.#lock.release()
  }

  /** Runs a task behind the additions before it, and before those that come after it. */
  #inTurn(task: () => Promise<void>): Promise<void> {
    if (this.#closing !== undefined) return Promise.reject(new Error(`${this.#options.path}: the store is closed`))
    return new Promise((resolve, reject) => {
      this.#waiting.push(() => task().then(resolve, reject))
      this.#writing ??= this.#writeAll()
    })
  }

  async #writeAll(): Promise<void> {
    await undefined // the other additions of this turn of the event loop join the first batch
    for (let next = this.#waiting.shift(); next !== undefined; next = this.#waiting.shift()) {
      await (Array.isArray(next) ? this.#write(next) : next())
      if (Array.isArray(next)) await this.#gather(next.length)
      // In a pause, so that nobody waits for it; what fails here is found by the next addition.
      if (this.#waiting.length === 0) await this.#file.writeSeal().catch(() => {})
    }
    this.#writing = undefined
  }

  /**
   * Waits for those who were just answered, as long as they come at once: what they add goes out with what waits already. Else two
   * halves would take turns, in writes half as long: with 64 connections on loopback, 15 % fewer additions.
   */
  async #gather(answered: number): Promise<void> {
    const expected = answered + (this.#countJoinable() ?? Number.NaN)
    if (!(expected > 1)) return
    const end = performance.now() + MAX_GATHERING
    for (let quiet = 0, before = 0; quiet < PATIENCE && performance.now() < end;) {
      await turn()
      const count = this.#countJoinable()
      if (count === undefined || count >= expected) return
      quiet = count > before ? 0 : quiet + 1
      before = count
    }
  }

  /** How many additions go out next; undefined where no other could join them, because of a task or the end. */
  #countJoinable(): number | undefined {
    const next = this.#waiting[0] ?? []
    return Array.isArray(next) && this.#waiting.length <= 1 && this.#closing === undefined ? next.length : undefined
  }

  async #write(batch: readonly Addition[]): Promise<void> {
    const drafts: { draft: Draft; resolve: Addition['resolve'] }[] = []
    for (const { pet, resolve } of batch) {
      const draft = this.#memory.draft(pet, drafts.at(-1)?.draft)
      if (draft === undefined) resolve({ ok: false, reason: 'store_full' })
      else drafts.push({ draft, resolve })
    }
    if (drafts.length === 0) return
    try {
      await this.#file.append(drafts.map(({ draft }) => draft.json))
    } catch (error) {
      this.#fail(error)
      for (const { resolve } of drafts) resolve({ ok: false, reason: 'storage_failed' })
      return
    }
    for (const { draft, resolve } of drafts) {
      this.#memory.keep(draft)
      resolve({ ok: true, id: draft.id, json: draft.json })
    }
    this.#recover()
  }

  #fail(error: unknown): void {
    if (this.#isFailing) return
    this.#isFailing = true
    const { path, report } = this.#options
    report('error', `${path}: animals are not added while it cannot be written: ${messageOf(error)}`)
  }

  #recover(): void {
    if (!this.#isFailing) return
    this.#isFailing = false
    this.#options.report('info', `${this.#options.path}: it can be written again`)
  }
}

/** The path without symbolic links, so that a file has one lock whatever it is called by, and is made where a link leads. */
async function realPath(path: string): Promise<string> {
  try {
    return await realpath(path)
  } catch (error) {
    const target = await readlink(path).catch(() => undefined)
    if (target !== undefined) return realPath(resolve(dirname(path), target))
    return join(await realpath(dirname(path)), basename(path))
  }
}
