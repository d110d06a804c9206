import type { Stats } from 'node:fs'
import { access, constants, readlink, realpath } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import { messageOf } from './errors.ts'
import { takeLock } from './lock.ts'
import type { NewPet } from './pet.ts'
import { SnapshotFiles } from './snapshot-files.ts'
import { type Added, type Draft, MemoryStore, type Report } from './store.ts'

type Addition = Readonly<{ pet: NewPet; resolve: (added: Added) => void }>

// A small store is folded so many milliseconds after the last addition, a larger one when the journal grew by as much.
const PAUSE = 1_000
const SMALL_BYTES = 2 ** 20
// A batch is complete after so many turns of the event loop without an addition, 20 µs each if it is idle.
const PATIENCE = 16

/** Opens a store in a JSON file, which is created if it is missing. An Error names the file and what is wrong. */
export async function openSnapshotStore(file: string, maxBytes: number, report: Report): Promise<MemoryStore> {
  const path = await realPath(file)
  const release = await takeLock(path)
  try {
    const store = new SnapshotStore(new SnapshotFiles(path, report), release, maxBytes, report)
    await store.open()
    return store
  } catch (error) {
    await release()
    throw error
  }
}

/** Resolves symbolic links, also those to a file that does not exist yet. */
async function realPath(path: string): Promise<string> {
  const target = await readlink(path).catch(() => undefined)
  if (target !== undefined) return realPath(resolve(dirname(path), target))
  try {
    await access(dirname(path), constants.W_OK | constants.X_OK)
    return join(await realpath(dirname(path)), basename(path))
  } catch {
    throw new Error(`${path} must be in a folder that exists, and that this user may write to`)
  }
}

// Keeps pets in memory and on disk. Additions go to the journal, all that arrive during a write in the next one, and
// are acknowledged when they are on disk. Folding writes the snapshot from memory, and begins the journal anew.
class SnapshotStore extends MemoryStore {
  readonly #files: SnapshotFiles
  readonly #release: () => Promise<void>
  #task: Promise<unknown> = Promise.resolve() // the last of those that use the files one after the other
  #batch: Addition[] | undefined // which others may join
  #expected = 0 // additions in the next batch
  #isFailing = false
  #next: Promise<Stats> | undefined // the snapshot that is being written while additions go on
  #pause: NodeJS.Timeout | undefined
  #closing: Promise<void> | undefined

  constructor(files: SnapshotFiles, release: () => Promise<void>, maxBytes: number, report: Report) {
    super(maxBytes, report)
    this.#files = files
    this.#release = release
  }

  async open(): Promise<void> {
    await this.#files.open(this)
    this.#beginFold()
  }

  override add(pet: NewPet): Promise<Added> {
    return new Promise((resolve) => {
      if (this.#closing !== undefined) return resolve({ ok: false, reason: 'storage_failed' })
      if (this.#batch === undefined) {
        const batch: Addition[] = []
        void this.#inTurn(() => this.#write(batch))
        this.#batch = batch
      }
      this.#batch.push({ pet, resolve })
    })
  }

  override async reset(pets: readonly NewPet[]): Promise<boolean> {
    const fresh = new MemoryStore(this.maxBytes)
    if (!fresh.reset(pets)) return false
    await this.#inTurn(async () => {
      await this.#settle(true) // so that nothing on disk can follow the fresh pets
      await this.#files.fold(fresh.values())
      super.reset(pets)
    })
    return true
  }

  override async isWritable(): Promise<boolean> {
    if (this.#isFailing) await this.#inTurn(() => this.#settle(false)).catch(() => {})
    return !this.#isFailing
  }

  override close(): Promise<void> {
    this.#closing ??= this.#inTurn(async () => {
      try {
        await this.#endFold().catch(() => {})
        await this.#files.close(this.values())
      } catch (error) {
        const { path } = this.#files
        throw new Error(`${path} could not be completed; keep ${path}.journal with it: ${messageOf(error)}`)
      } finally {
        await this.#release()
      }
    })
    return this.#closing
  }

  /** Runs a task behind all before it; additions that come from now on follow it. */
  #inTurn(task: () => Promise<void>): Promise<void> {
    if (this.#closing !== undefined) return Promise.reject(new Error(`${this.#files.path}: the store is closed`))
    this.#batch = undefined
    const done = this.#task.then(task)
    this.#task = done.catch(this.#note)
    return done
  }

  async #write(batch: Addition[]): Promise<void> {
    await this.#gather(batch)
    if (this.#batch === batch) this.#batch = undefined
    const drafts: { draft: Draft; resolve: Addition['resolve'] }[] = []
    for (const { pet, resolve } of batch) {
      const draft = this.draft(pet, drafts.at(-1)?.draft)
      if (draft === undefined) resolve({ ok: false, reason: 'store_full' })
      else drafts.push({ draft, resolve })
    }
    if (drafts.length === 0) return
    try {
      await this.#settle(false)
      await this.#files.append(drafts.map(({ draft }) => draft.json))
    } catch (error) {
      this.#note(error)
      await this.#files.cut().catch(() => {}) // so that a kill does not bring back what was refused
      for (const { resolve } of drafts) resolve({ ok: false, reason: 'storage_failed' })
      return
    }
    for (const { draft, resolve } of drafts) {
      this.keep(draft)
      resolve({ ok: true, id: draft.id, json: draft.json })
    }
    this.#expected = batch.length + (this.#batch?.length ?? 0)
    this.#foldLater()
  }

  /** Waits briefly so that clients that were just answered can join this batch. */
  async #gather(batch: readonly Addition[]): Promise<void> {
    let size = 0
    for (let quiet = 0; quiet < PATIENCE && batch.length < this.#expected && batch === this.#batch; quiet++) {
      if (batch.length > size) quiet = 0
      size = batch.length
      await turn()
    }
  }

  #foldLater(): void {
    const { end, folded, snapshot } = this.#files
    const size = snapshot?.size ?? 0
    if (size + end - folded < SMALL_BYTES)
      this.#pause = this.#pause?.refresh() ?? setTimeout(() => this.#beginFold(), PAUSE).unref()
    else if (end - folded >= size) this.#beginFold()
  }

  /** Writes the next snapshot while additions go on, and puts it in place. */
  #beginFold(): void {
    const begin = async () => {
      if (this.#next !== undefined || this.#files.end === 0) return
      this.#next = this.#files.prepare(this.values())
      const end = () => this.#inTurn(() => this.#endFold())
      this.#next.then(end, end).catch(() => {}) // closed meanwhile, or it is noted
    }
    this.#inTurn(begin).catch(() => {})
  }

  async #endFold(): Promise<void> {
    const next = this.#next
    this.#next = undefined
    if (next !== undefined) await this.#files.place(await next)
  }

  /** Puts the files in order after a failure, and all pets in the snapshot if that is wanted. */
  async #settle(mustFold: boolean): Promise<void> {
    if (!this.#isFailing && !mustFold) return
    await this.#endFold().catch(() => {})
    if (this.#isFailing) await this.#files.repair(this.values())
    this.#note()
    if (mustFold) await this.#files.complete(this.values())
  }

  /** Reports that the files cannot be written, or, without an error, that they can be again. */
  readonly #note = (error?: unknown): void => {
    const isFailing = error !== undefined
    if (isFailing === this.#isFailing || this.#closing !== undefined) return
    this.#isFailing = isFailing
    const how = isFailing ? `cannot be written: ${messageOf(error)}` : 'can be written again'
    this.#files.report(isFailing ? 'error' : 'info', `${this.#files.path} ${how}`)
  }
}
