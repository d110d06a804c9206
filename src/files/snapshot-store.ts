import { hasCode, messageOf } from '../guards.ts'
import { clearTimeout, nextTurn, setTimeout } from '../runtime.ts'
import type { Added, InitialPet, NewPet } from '../types.ts'
import type { Draft, LocalStore, Report } from '../pets/store.ts'
import { costOf, draftOf, FULL, MemoryStore } from '../pets/store.ts'
import { Health } from './health.ts'
import { realPathOf, takeLock } from './lock.ts'
import { SnapshotFiles } from './snapshot-files.ts'

type Failure = Extract<Added, { ok: false }>

/** Additions that are written together. */
interface Batch {
  readonly additions: { pet: NewPet; resolve: (added: Added) => void }[]
  bytes: number
}

// The journal of a small store is folded into the snapshot this many milliseconds after the last
// addition, that of a larger one once it is as large as the snapshot.
const FOLD_DELAY = 1_000
const SMALL_BYTES = 64 * 2 ** 10
// A batch of as many bytes takes no more additions: it is copied several times on its way.
const MAX_BATCH_BYTES = 2 ** 20
// Bytes counted for an addition that waits, in addition to the name of its pet.
const WAITING_OVERHEAD = 200
const MAX_TURNS = 16 // of the event loop, in which a batch waits for more additions

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
  readonly #health: Health
  readonly #maxWaitingBytes: number // clients that wait for a hung disk must not fill the memory
  #memory: MemoryStore
  #queue: Promise<unknown> = Promise.resolve() // its tasks use the files one after the other
  #batch: Batch | undefined // takes additions until it is full or written, or a task is queued
  #waitingBytes = 0 // of all additions that are not settled
  #expectedSize = 0 // of the next batch
  #repairing: Promise<void> | undefined
  #foldAt = 0 // bytes of the journal below which no fold is due, however small the snapshot is
  #foldTimer: NodeJS.Timeout | undefined
  #closing: Promise<void> | undefined

  readonly page: LocalStore['page'] = (query) => this.#memory.page(query)
  readonly get: LocalStore['get'] = (id) => this.#memory.get(id)
  readonly values: LocalStore['values'] = () => this.#memory.values()

  constructor(files: SnapshotFiles, memory: MemoryStore) {
    this.#files = files
    this.#health = new Health(files, this.values)
    this.#maxWaitingBytes = Math.max(MAX_BATCH_BYTES, memory.maxBytes / 4)
    this.#memory = memory
  }

  get size(): number {
    return this.#memory.size
  }

  get bytes(): number {
    return this.#memory.bytes
  }

  add(pet: NewPet): Promise<Added> {
    if (this.#closing) return Promise.resolve(failedBecause('the store is closed'))
    if (this.#waitingBytes > this.#maxWaitingBytes) {
      return Promise.resolve(failedBecause('too many pets wait to be written'))
    }
    const bytes = Buffer.byteLength(pet.name) + WAITING_OVERHEAD
    this.#waitingBytes += bytes
    if (this.#waitingBytes > this.#maxWaitingBytes) {
      const wait = `${this.#waitingBytes} bytes of pets wait to be written`
      this.#files.report('warn', `${this.#files.path}: ${wait}: until they are, creates get 503`)
    }
    return new Promise((resolve) => {
      if (!this.#batch || this.#batch.bytes >= MAX_BATCH_BYTES) this.#batch = this.#openBatch()
      this.#batch.additions.push({ pet, resolve })
      this.#batch.bytes += bytes
    })
  }

  async reset(pets: readonly InitialPet[]): Promise<boolean> {
    const fresh = new MemoryStore(this.#memory.maxBytes, this.#files.report)
    if (!fresh.reset(pets)) return false
    await this.#enqueue(async () => {
      // A crash must not leave a journal of old pets with the fresh ones.
      await this.#files.foldIfNeeded(this.values())
      try {
        await this.#files.replace(fresh.values(), this.values())
      } catch (error) {
        if (hasCode(error, 'outcome_unknown')) this.#memory = fresh // as after a restart
        throw error
      }
      this.#memory = fresh
      this.#health.onSuccess('written')
      this.#health.onSuccess('replaced')
    })
    return true
  }

  /** Repairs the files if they could not be written. */
  async isWritable(): Promise<boolean> {
    if (this.#health.needsRepair) {
      const repair = () => this.#health.repairIfNeeded()
      this.#repairing ??= this.#enqueue(repair).finally(() => {
        this.#repairing = undefined
      })
      await this.#repairing.catch(() => {})
    }
    return !this.#health.needsRepair
  }

  close(): Promise<void> {
    this.#closing ??= this.#queue.then(() => this.#closeFiles())
    return this.#closing
  }

  async #closeFiles(): Promise<void> {
    const { path } = this.#files
    try {
      await this.#files.foldIfNeeded(this.values())
      await this.#files.removeJournal()
    } catch (error) {
      const why = messageOf(error)
      throw new Error(`${path} could not be completed; keep ${path}.journal with it: ${why}`)
    } finally {
      await this.#files.close()
    }
  }

  /** Queues a task. A later addition must not be written before it, so the open batch closes. */
  async #enqueue(
    task: () => Promise<void>,
    action: 'written' | 'replaced' = 'written',
  ): Promise<void> {
    if (this.#closing) throw new Error('the store is closed')
    this.#batch = undefined
    const done = this.#queue.then(task).catch(async (error) => {
      await this.#health.onFailure(action, error)
      throw error
    })
    this.#queue = done.catch(() => {})
    await done
  }

  #openBatch(): Batch {
    const batch: Batch = { additions: [], bytes: 0 }
    void this.#enqueue(async () => {
      await this.#waitForStragglers(batch)
      if (this.#batch === batch) this.#batch = undefined
      await this.#write(batch)
      this.#waitingBytes -= batch.bytes
    })
    return batch
  }

  async #write({ additions }: Batch): Promise<void> {
    const fitting: { draft: Draft; resolve: (added: Added) => void }[] = []
    let bytes = 0
    for (const { pet, resolve } of additions) {
      const draft = draftOf(this.#memory.lastId + fitting.length + 1, pet)
      if (this.#memory.hasRoom(draft, bytes)) {
        fitting.push({ draft, resolve })
        bytes += costOf(draft)
      } else resolve(FULL)
    }
    if (fitting.length === 0) return
    const failure = await this.#append(fitting.map(({ draft }) => draft.json))
    for (const { draft, resolve } of fitting) {
      // With an unknown outcome it is kept: a restart would show it.
      const added = failure?.reason === 'storage_failed' ? failure : this.#memory.keep(draft)
      resolve(failure ?? added)
    }
    // Each client that was just answered may send again; others are waiting.
    this.#expectedSize = additions.length + (this.#batch?.additions.length ?? 0)
    if (!failure) this.#foldLater()
  }

  /** Adds to the journal. Its failure is `outcome_unknown` if a restart would show the pets. */
  async #append(pets: readonly string[]): Promise<Failure | undefined> {
    let end = Infinity
    try {
      await this.#health.repairIfNeeded()
      end = this.#files.journalBytes
      await this.#health.watch(this.#files.append(pets))
      this.#health.onSuccess('written')
      return undefined
    } catch (cause) {
      await this.#health.onFailure('written', cause)
      const reason = this.#files.journalBytes > end ? 'outcome_unknown' : 'storage_failed'
      return { ok: false, reason, cause }
    }
  }

  /** Waits briefly so that clients that were just answered can join this batch. */
  async #waitForStragglers(batch: Batch): Promise<void> {
    for (let turn = 0; turn < MAX_TURNS && batch === this.#batch; turn++) {
      if (batch.additions.length >= this.#expectedSize) return
      await nextTurn()
    }
  }

  #foldLater(): void {
    const { snapshotBytes, journalBytes } = this.#files
    clearTimeout(this.#foldTimer)
    if (snapshotBytes + journalBytes < SMALL_BYTES) {
      this.#foldTimer = setTimeout(() => void this.#fold(), FOLD_DELAY).unref()
    } else if (journalBytes >= Math.max(snapshotBytes, this.#foldAt)) void this.#fold()
  }

  async #fold(): Promise<void> {
    this.#foldAt = Infinity // until this one has ended
    const fold = async () => {
      await this.#files.foldIfNeeded(this.values())
      this.#health.onSuccess('replaced')
    }
    await this.#enqueue(fold, 'replaced').catch(() => {}) // reported
    this.#foldAt = 2 * this.#files.journalBytes // if it failed, the journal has to double first
  }
}

function failedBecause(why: string): Failure {
  return { ok: false, reason: 'storage_failed', cause: new Error(why) }
}
