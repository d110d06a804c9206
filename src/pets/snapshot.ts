import { setImmediate as turn } from 'node:timers/promises'
import { messageOf } from './errors.ts'
import { realPath } from './files.ts'
import { takeLock } from './lock.ts'
import type { NewPet } from './pet.ts'
import { SnapshotFiles } from './snapshot-files.ts'
import { type Added, type Draft, MemoryStore, type PetStore, type Report } from './store.ts'

type Addition = Readonly<{ pet: NewPet; resolve: (added: Added) => void }>

// A small store is folded so many milliseconds after the last addition, a larger one when the journal has grown by as much.
const PAUSE = 1_000
const SMALL_BYTES = 2 ** 20
// A batch is complete after so many turns of the event loop without an addition, 20 µs each if it is idle.
const PATIENCE = 16

/**
 * Opens a store that keeps its pets in a JSON file, with journal and lock beside it; one that is missing is created.
 *
 * @throws Error that names the file, and what is wrong with it.
 */
export async function openSnapshotStore(file: string, maxBytes: number, report: Report): Promise<PetStore> {
  const path = await realPath(file)
  const release = await takeLock(path)
  try {
    const [files, memory] = [new SnapshotFiles(path, report), new MemoryStore(maxBytes, report)]
    await files.open(memory)
    return new SnapshotStore(files, memory, release)
  } catch (error) {
    await release()
    throw error
  }
}

/**
 * Keeps pets in memory and on disk. Additions go to the journal, all that arrive during a write in the next one, and are
 * acknowledged when they are on disk. Folding writes the snapshot from memory, and begins the journal anew.
 */
class SnapshotStore implements PetStore {
  readonly get: PetStore['get'] = (id) => this.#memory.get(id)
  readonly page: PetStore['page'] = (query) => this.#memory.page(query)
  readonly values: PetStore['values'] = () => this.#memory.values()
  readonly #files: SnapshotFiles
  readonly #release: () => Promise<void>
  #memory: MemoryStore
  /** The last of the tasks that use the files one after the other. */
  #task: Promise<unknown> = Promise.resolve()
  /** Additions that others may join, and how many are expected. */
  #batch: Addition[] | undefined
  #expected = 0
  #isFailing = false
  #folding: Promise<unknown> | undefined
  #pause: NodeJS.Timeout | undefined
  #closing: Promise<void> | undefined

  constructor(files: SnapshotFiles, memory: MemoryStore, release: () => Promise<void>) {
    this.#files = files
    this.#memory = memory
    this.#release = release
    this.#beginFold()
  }

  get size(): number {
    return this.#memory.size
  }

  add(pet: NewPet): Promise<Added> {
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

  async reset(pets: readonly NewPet[]): Promise<boolean> {
    const fresh = new MemoryStore(this.#memory.maxBytes, this.#files.report)
    if (!fresh.reset(pets)) return false
    await this.#inTurn(async () => {
      await this.#settle(true) // so that nothing on disk can follow the fresh pets
      await this.#files.place(await this.#files.prepare(fresh.values()))
      this.#memory = fresh
    })
    return true
  }

  async isWritable(): Promise<boolean> {
    if (this.#isFailing) await this.#inTurn(() => this.#settle(false)).catch(() => {})
    return !this.#isFailing
  }

  close(): Promise<void> {
    this.#closing ??= this.#inTurn(async () => {
      clearTimeout(this.#pause)
      try {
        await this.#settle(true)
        await this.#files.removeJournal()
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
    this.#task = done.catch(() => {})
    return done
  }

  async #write(batch: Addition[]): Promise<void> {
    await this.#gather(batch)
    if (this.#batch === batch) this.#batch = undefined
    const drafts: { draft: Draft; resolve: Addition['resolve'] }[] = []
    for (const { pet, resolve } of batch) {
      const draft = this.#memory.draft(pet, drafts.at(-1)?.draft)
      if (draft === undefined) resolve({ ok: false, reason: 'store_full' })
      else drafts.push({ draft, resolve })
    }
    if (drafts.length === 0) return
    try {
      await this.#settle(false)
      await this.#files.append(drafts.map(({ draft }) => draft.json))
    } catch (error) {
      this.#note(error)
      for (const { resolve } of drafts) resolve({ ok: false, reason: 'storage_failed' })
      return
    }
    for (const { draft, resolve } of drafts) {
      this.#memory.keep(draft)
      resolve({ ok: true, id: draft.id, json: draft.json })
    }
    this.#expected = batch.length + (this.#batch?.length ?? 0)
    this.#foldLater()
  }

  /** Waits briefly so that clients that were just answered can join this batch. */
  async #gather(batch: readonly Addition[]): Promise<void> {
    let [quiet, before] = [0, 0]
    while (quiet++ < PATIENCE && batch.length < this.#expected && batch === this.#batch) {
      if (batch.length > before) quiet = 0
      before = batch.length
      await turn()
    }
  }

  #foldLater(): void {
    const { end, folded, snapshot } = this.#files
    const size = snapshot?.size ?? 0
    if (size + end - folded < SMALL_BYTES) {
      this.#pause = this.#pause?.refresh() ?? setTimeout(() => this.#beginFold(), PAUSE).unref()
    } else if (end - folded >= size) {
      this.#beginFold()
    }
  }

  #beginFold(): void {
    this.#inTurn(async () => void this.#fold()).catch(() => {}) // closed meanwhile
  }

  /** Folds while additions go on; if any came, the journal goes on too. */
  async #fold(): Promise<void> {
    if (this.#folding !== undefined || this.#files.end === 0) return
    const { size } = this.#memory
    this.#files.folded = this.#files.end
    const folding = this.#files.prepare(this.#memory.values())
    this.#folding = folding
    const place = async () => {
      if (this.#folding !== folding) return // a reset or a repair has folded
      await this.#files.place(await folding)
      if (this.#memory.size === size) await this.#files.openJournal(0)
    }
    await folding.then(() => this.#inTurn(place)).catch((error: unknown) => this.#note(error))
    if (this.#folding === folding) this.#folding = undefined
  }

  /** Puts the files in order after a failure; folds if that is wanted. */
  async #settle(mustFold: boolean): Promise<void> {
    if (!this.#isFailing && !mustFold) return
    await this.#folding?.catch(() => {})
    this.#folding = undefined // its snapshot is not put in place
    if (this.#isFailing) await this.#files.repair(this.#memory.values())
    this.#note()
    if (mustFold && !(await this.#files.isWhole())) await this.#files.fold(this.#memory.values())
  }

  /** Reports that the files cannot be written, or, without an error, that they can be again. */
  #note(error?: unknown): void {
    const isFailing = error !== undefined
    if (isFailing === this.#isFailing || this.#closing !== undefined) return
    this.#isFailing = isFailing
    const { path, report } = this.#files
    if (isFailing) report('error', `${path} cannot be written: ${messageOf(error)}`)
    else report('info', `${path} can be written again`)
  }
}
