import type { Stats } from 'node:fs'
import { setTimeout } from 'node:timers' // a user's test may fake the global
import { setImmediate as nextTurn } from 'node:timers/promises'
import { messageOf } from '../guards.ts'
import type { Added, NewPet } from '../types.ts'
import { realPathOf, takeLock } from './lock.ts'
import { SnapshotFiles } from './snapshot-files.ts'
import type { Draft, LocalStore, Report } from '../pets/store.ts'
import { costOf, draftOf, FAILED, FULL, MemoryStore } from '../pets/store.ts'

type Addition = Readonly<{ pet: NewPet; resolve: (added: Added) => void }>

// The journal of a small store is folded into the snapshot this many milliseconds after the last
// addition, that of a larger one once it is as large as the snapshot.
const FOLD_DELAY = 1_000
const SMALL_BYTES = 2 ** 20
// A batch waits for more additions during this many turns of the event loop at most.
const MAX_TURNS = 16

/**
 * Opens a store in a JSON file, which is created if it is missing.
 *
 * @throws Error that names the file and what is wrong.
 */
export async function openSnapshotStore(
  file: string,
  maxBytes: number,
  report: Report,
): Promise<LocalStore> {
  const path = await realPathOf(file)
  const files = new SnapshotFiles(path, await takeLock(path), report)
  try {
    const memory = new MemoryStore(maxBytes, report)
    await files.open(memory)
    return new SnapshotStore(files, memory)
  } catch (error) {
    await files.close()
    throw error
  }
}

/**
 * Keeps pets in memory and on disk. The additions that arrive during a write to the journal go into
 * the next one. Each is acknowledged when it is on disk.
 */
class SnapshotStore implements LocalStore {
  readonly #files: SnapshotFiles
  #memory: MemoryStore
  #queue: Promise<unknown> = Promise.resolve() // its tasks use the files one after the other
  #batch: Addition[] | undefined // takes additions until it is written, or a task is queued
  #expectedSize = 0 // of the next batch
  #isFailing = false
  #repairing: Promise<void> | undefined
  #nextSnapshot: Promise<Stats> | undefined // being written while additions go on
  #foldTimer: NodeJS.Timeout | undefined
  #closing: Promise<void> | undefined

  readonly page: LocalStore['page'] = (query) => this.#memory.page(query)
  readonly get: LocalStore['get'] = (id) => this.#memory.get(id)
  readonly values: LocalStore['values'] = () => this.#memory.values()

  constructor(files: SnapshotFiles, memory: MemoryStore) {
    this.#files = files
    this.#memory = memory
  }

  get size(): number {
    return this.#memory.size
  }

  get bytes(): number {
    return this.#memory.bytes
  }

  add(pet: NewPet): Promise<Added> {
    if (this.#closing) return Promise.resolve(FAILED)
    return new Promise((resolve) => {
      this.#batch ??= this.#openBatch() // takes more until it is written; see #enqueue()
      this.#batch.push({ pet, resolve })
    })
  }

  async reset(pets: readonly NewPet[]): Promise<boolean> {
    const fresh = new MemoryStore(this.#memory.maxBytes, this.#files.report)
    if (!fresh.reset(pets)) return false
    await this.#enqueue(async () => {
      await this.#foldAtOnce() // a crash must not leave a journal of old pets with the fresh ones
      await this.#files.replace(fresh.values())
      this.#memory = fresh
    })
    return true
  }

  /** Repairs the files if they could not be written. */
  async isWritable(): Promise<boolean> {
    if (this.#isFailing) {
      this.#repairing ??= this.#enqueue(() => this.#repairIfFailing()).finally(() => {
        this.#repairing = undefined
      })
      await this.#repairing.catch(() => {})
    }
    return !this.#isFailing
  }

  close(): Promise<void> {
    this.#closing ??= this.#queue.then(() => this.#closeFiles())
    return this.#closing
  }

  async #closeFiles(): Promise<void> {
    const { path } = this.#files
    try {
      await this.#foldAtOnce()
      await this.#files.removeJournal()
    } catch (error) {
      const why = messageOf(error)
      throw new Error(`${path} could not be completed; keep ${path}.journal with it: ${why}`)
    } finally {
      await this.#files.close()
    }
  }

  /** Queues a task. A later addition must not be written before it, so the open batch closes. */
  async #enqueue(task: () => Promise<void>): Promise<void> {
    if (this.#closing) throw new Error('the store is closed')
    this.#batch = undefined
    const done = this.#queue.then(task).catch(async (error) => {
      await this.#onFailure(error)
      throw error
    })
    this.#queue = done.catch(() => {})
    await done
  }

  #openBatch(): Addition[] {
    const batch: Addition[] = []
    this.#enqueue(() => this.#write(batch)).catch(() => {
      const reason = this.#files.mayHoldRefusedPets ? 'outcome_unknown' : 'storage_failed'
      for (const { resolve } of batch) resolve({ ok: false, reason })
    })
    return batch
  }

  async #write(batch: Addition[]): Promise<void> {
    await this.#waitForStragglers(batch)
    if (this.#batch === batch) this.#batch = undefined
    const fitting: { draft: Draft; resolve: Addition['resolve'] }[] = []
    let bytes = 0
    for (const { pet, resolve } of batch) {
      const draft = draftOf(this.#memory.lastId + fitting.length + 1, pet)
      if (this.#memory.hasRoom(draft, bytes)) {
        fitting.push({ draft, resolve })
        bytes += costOf(draft)
      } else resolve(FULL)
    }
    if (fitting.length === 0) return
    await this.#repairIfFailing()
    await this.#files.append(fitting.map(({ draft }) => draft.json))
    for (const { draft, resolve } of fitting) resolve(this.#memory.keep(draft))
    // Each client that was just answered may send again; others are waiting.
    this.#expectedSize = batch.length + (this.#batch?.length ?? 0)
    this.#foldLater()
  }

  /** Waits briefly so that clients that were just answered can join this batch. */
  async #waitForStragglers(batch: readonly Addition[]): Promise<void> {
    for (let turn = 0; turn < MAX_TURNS && batch === this.#batch; turn++) {
      if (batch.length >= this.#expectedSize) return
      await nextTurn()
    }
  }

  #foldLater(): void {
    const { snapshotBytes, unfoldedBytes } = this.#files
    const fold = () => this.#foldInBackground().catch(() => {}) // failures are already reported
    if (snapshotBytes + unfoldedBytes < SMALL_BYTES) {
      this.#foldTimer ??= setTimeout(fold, FOLD_DELAY).unref()
      this.#foldTimer.refresh() // starts it again, even if it has fired
    } else if (unfoldedBytes >= snapshotBytes) void fold()
  }

  /** Writes the next snapshot, during which additions go on, and puts it in place. */
  async #foldInBackground(): Promise<void> {
    await this.#enqueue(async () => {
      // Not awaited: the journal can be written meanwhile.
      this.#nextSnapshot ??= this.#files.prepare(this.values())
    })
    await this.#nextSnapshot?.catch(() => {}) // reported once it is to be placed
    await this.#enqueue(() => this.#placeNext())
  }

  /** Puts the next snapshot in place, if one is being written. */
  async #placeNext(): Promise<void> {
    const next = this.#nextSnapshot
    this.#nextSnapshot = undefined
    if (next) await this.#files.place(await next)
  }

  async #foldAtOnce(): Promise<void> {
    await this.#placeNext().catch(() => {}) // if that fails, the next line folds again
    await this.#files.foldIfNeeded(this.values())
  }

  /** Puts the files in order if anything failed. */
  async #repairIfFailing(): Promise<void> {
    if (!this.#isFailing) return
    await this.#placeNext().catch(() => {})
    await this.#files.repair(this.values())
    this.#isFailing = false
    this.#files.report('info', `${this.#files.path} can be written again`)
  }

  /**
   * Repairs at once, before the callers are refused: no restart may show what was refused. If that
   * fails, too, the next use tries again.
   */
  async #onFailure(error: unknown): Promise<void> {
    if (this.#isFailing) return
    this.#isFailing = true
    const { path, report } = this.#files
    report('error', `${path} cannot be written: ${messageOf(error)}`)
    await this.#repairIfFailing().catch((why) => {
      report('error', `${path} cannot be repaired yet: ${messageOf(why)}`)
    })
  }
}
