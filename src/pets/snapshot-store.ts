import { type StatsListener, unwatchFile, watchFile } from 'node:fs'
import { nextTurn } from '../clock.ts'
import { hasCode, messageOf } from '../errors.ts'
import { bytesOf, FULL, MemoryStore, PetMap } from './memory-store.ts'
import { nextId, petJson } from './pet.ts'
import { type Change, type Plan, SnapshotFile } from './snapshot-file.ts'
import type { Added, Awaitable, InitialPet, NewPet, Pet } from './store.ts'

const WATCH_INTERVAL = 250 // milliseconds
const MANY = 100_000 // pets, with which a create takes 30 ms

/** An addition that waits for the next write. */
interface Waiting {
  readonly pet: NewPet
  readonly bytes: number
  readonly resolve: (added: Added) => void
}

/** Keeps pets in memory and in a file: what is added is in the file first. */
export class SnapshotStore extends MemoryStore {
  readonly #file: SnapshotFile
  readonly #warn: (message: string) => void
  readonly #watcher: StatsListener
  readonly #waiting: Waiting[] = []
  #waitingBytes = 0
  #turn: Promise<unknown> = Promise.resolve() // the end of the latest task
  #isFailing = false

  private constructor(file: SnapshotFile, maxBytes: number, warn: (message: string) => void) {
    super(maxBytes)
    this.#file = file
    this.#warn = warn
    this.#watcher = () => void this.#inTurn(() => this.#readAgain())
  }

  /** @throws Error that says why the file cannot be read or written. */
  static async open(
    path: string,
    maxBytes: number,
    warn: (message: string) => void,
  ): Promise<SnapshotStore> {
    const store = new SnapshotStore(await SnapshotFile.at(path), maxBytes, warn)
    await store.#start()
    return store
  }

  /** Reads the file, and writes it once, which proves that it can be written. */
  async #start(): Promise<void> {
    const { path } = this.#file
    this.#take(await this.#file.read())
    try {
      await this.#write((found) => this.#unchanged(found))
    } catch (error) {
      if (hasCode(error, 'EBUSY')) {
        throw new Error(`${path} is mounted by itself, and cannot be replaced: mount its folder`)
      }
      const isDiskFull = hasCode(error, 'ENOSPC', 'EDQUOT')
      if (!isDiskFull) throw new Error(`${path} cannot be written: ${messageOf(error)}`)
      this.#warn(`${path} cannot be written until there is room: ${messageOf(error)}`)
    }
    const { size } = this.pets
    if (size >= MANY) {
      this.#warn(`${path} has ${size} pets, and each create writes it whole: see --store`)
    }
    watchFile(path, { interval: WATCH_INTERVAL, persistent: false }, this.#watcher)
  }

  override add(pet: NewPet): Awaitable<Added> {
    const bytes = bytesOf(petJson(nextId(this.pets.lastId) ?? 0, pet))
    if (this.pets.bytes + this.#waitingBytes + bytes > this.maxBytes) return FULL
    this.#waitingBytes += bytes
    return new Promise((resolve) => {
      this.#waiting.push({ pet, bytes, resolve })
      if (this.#waiting.length === 1) void this.#inTurn(() => this.#addWaiting())
    })
  }

  override reset(pets: readonly InitialPet[]): Promise<boolean> {
    return this.#inTurn(async () => {
      const fresh = PetMap.of(pets)
      if (fresh.bytes > this.maxBytes) return false
      await this.#write((found) => {
        this.#take(found)
        const onReplaced = (): void => {
          this.pets = fresh
        }
        return { json: fresh.values(), onReplaced }
      })
      return true
    })
  }

  /** After a failure, a write tells: one for all who ask while it lasts, if it succeeds. */
  override isWritable(): Awaitable<boolean> {
    if (!this.#isFailing) return true
    return this.#inTurn(async () => {
      if (this.#isFailing) await this.#write((found) => this.#unchanged(found))
      return true
    })
  }

  override async close(): Promise<void> {
    unwatchFile(this.#file.path, this.#watcher)
    await this.#turn
  }

  /** Runs a task after those before it. */
  #inTurn<T>(task: () => Promise<T>): Promise<T> {
    const result = this.#turn.then(task)
    this.#turn = result.catch(() => {})
    return result
  }

  async #write(plan: Plan): Promise<void> {
    try {
      await this.#file.replace(plan)
      this.#isFailing = false
    } catch (error) {
      this.#isFailing = true
      throw error
    }
  }

  /** Takes over what somebody else has put into the file. */
  #take(found: readonly Pet[] | undefined): void {
    if (found) this.pets = PetMap.of(found, this.pets.lastId)
  }

  #unchanged(found: readonly Pet[] | undefined): Change {
    this.#take(found)
    return { json: this.pets.values(), onReplaced() {} }
  }

  async #readAgain(): Promise<void> {
    try {
      this.#take(await this.#file.read())
    } catch (error) {
      this.#isFailing = true
      this.#warn(`${messageOf(error)}; what was read before is served, and nothing can be added`)
    }
  }

  /** Adds all that wait, in one write. */
  async #addWaiting(): Promise<void> {
    await nextTurn() // requests of this turn are added together
    let batch: Waiting[] | undefined
    let outcomes: Added[] = []
    const plan: Plan = (found) => {
      this.#take(found)
      batch ??= this.#waiting.splice(0)
      const pets = batch.map(({ pet }) => pet)
      outcomes = this.#number(pets)
      return { json: this.#with(outcomes), onReplaced: () => this.#keep(pets, outcomes) }
    }
    let failure: Added | undefined
    try {
      await this.#write(plan)
    } catch (cause) {
      const isReplaced = hasCode(cause, 'outcome_unknown')
      failure = { ok: false, reason: isReplaced ? 'outcome_unknown' : 'storage_failed', cause }
    }
    batch ??= this.#waiting.splice(0) // it failed before the plan
    for (const [at, { bytes, resolve }] of batch.entries()) {
      this.#waitingBytes -= bytes
      resolve(failure ?? outcomes[at] ?? FULL)
    }
  }

  /** The pets with their ids; after the greatest id, there is no room. */
  #number(pets: readonly NewPet[]): Added[] {
    let last = this.pets.lastId
    return pets.map((pet) => {
      const id = nextId(last)
      if (id === undefined) return FULL
      last = id
      return { ok: true, id, json: petJson(id, pet) }
    })
  }

  *#with(outcomes: readonly Added[]): Generator<string> {
    yield* this.pets.values()
    for (const added of outcomes) if (added.ok) yield added.json
  }

  #keep(pets: readonly NewPet[], outcomes: readonly Added[]): void {
    for (const [at, { status }] of pets.entries()) {
      const added = outcomes[at]
      if (added?.ok) this.pets.keep(added.id, added.json, status)
    }
  }
}
