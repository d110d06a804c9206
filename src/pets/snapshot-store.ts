import { withStorageCode } from '../errors.ts'
import { bytesOf, MemoryStore } from './memory-store.ts'
import { withIds } from './pet.ts'
import { followLinks, PetFile } from './pet-file.ts'
import type { InitialPet, Int64, ListQuery, NewPet, Pet, Store } from './store.ts'

/**
 * @param memory Gets the pets of the file.
 * @param pets Pets for a file that is missing or empty.
 * @param warn Is told when somebody else has changed the file.
 */
export async function openSnapshot(
  path: string,
  memory: MemoryStore,
  pets: readonly InitialPet[],
  warn: Warn,
): Promise<Store> {
  return withStorageCode(async () => {
    const file = new PetFile(await followLinks(path))
    const store = new SnapshotStore(file, memory, warn)
    await store.begin(pets)
    return store
  })
}

type Warn = (message: string) => void

/** Keeps pets in memory and in a file. What it shows is in the file. */
class SnapshotStore implements Store {
  readonly #file: PetFile
  readonly #memory: MemoryStore
  readonly #warn: Warn
  #turn: Promise<unknown> = Promise.resolve() // the end of the latest write
  #waiting: (readonly NewPet[])[] = [] // additions for the next write
  #nextResults: Promise<Promise<Pet[]>[]> = Promise.resolve([]) // one for each, in its order
  #waitingBytes = 0 // of these, and of the write in progress

  constructor(file: PetFile, memory: MemoryStore, warn: Warn) {
    this.#file = file
    this.#memory = memory
    this.#warn = warn
  }

  /** Reads the file. Writes it only if it has no pet, and there are pets to begin with. */
  async begin(pets: readonly InitialPet[]): Promise<void> {
    for (;;) {
      await this.#read()
      await this.#file.prepareFolder()
      if (pets.length === 0 || this.#memory.all.length > 0) return
      const fresh = this.#memory.numbered(pets)
      if (await this.#file.replace(fresh)) return this.#accept(() => this.#memory.restart(fresh))
    }
  }

  list(query: ListQuery): Promise<Pet[]> {
    return this.#memory.list(query)
  }

  get(id: Int64): Promise<Pet | undefined> {
    return this.#memory.get(id)
  }

  /** What is added while a write goes on shares the next one. */
  add(pets: readonly NewPet[]): Promise<Pet[]> {
    return withStorageCode(async () => {
      const bytes = bytesOf(withIds(pets, 0)) // the ids may become longer: the write checks again
      this.#memory.checkRoom(this.#waitingBytes + bytes)
      this.#waitingBytes += bytes
      const place = this.#waiting.push(pets) - 1
      // The first addition starts the write that the others join.
      if (place === 0) this.#nextResults = this.#inTurn(() => this.#write(this.#waiting.splice(0)))
      try {
        const results = await this.#nextResults
        return (await results[place]) ?? [] // there is one for each place
      } finally {
        this.#waitingBytes -= bytes
      }
    })
  }

  reset(pets: readonly InitialPet[]): Promise<void> {
    return withStorageCode(async () => {
      const fresh = this.#memory.numbered(pets)
      await this.#inTurn(async () => {
        await this.#file.overwrite(fresh)
        await this.#accept(() => this.#memory.restart(fresh))
      })
    })
  }

  async close(): Promise<void> {
    await this.#turn
  }

  /** Runs a task after those before it. */
  #inTurn<T>(task: () => Promise<T>): Promise<T> {
    const result = this.#turn.then(task)
    this.#turn = result.catch(() => {})
    return result
  }

  /** Writes additions together. Each has its own result: one that does not fit fails alone. */
  async #write(additions: readonly (readonly NewPet[])[]): Promise<Promise<Pet[]>[]> {
    for (;;) {
      const batch = this.#memory.successor()
      const results = additions.map((pets) => batch.add(pets))
      await Promise.allSettled(results)
      if (await this.#file.replace(this.#memory.all.concat(batch.all))) {
        await this.#accept(() => this.#memory.append(batch.all))
        return results
      }
      const before = this.#memory.all.length
      await this.#read()
      const counts = `pets before: ${before}, now: ${this.#memory.all.length}`
      this.#warn(`others changed or removed ${this.#file.path}; ${counts}`)
    }
  }

  /** Takes what is in the file. If there is no file, the pets stay as they are. */
  async #read(): Promise<void> {
    const pets = await this.#file.read()
    if (pets) this.#memory.replace(pets)
  }

  /** The file has the pets, even if its folder cannot be synced: so memory must have them, too. */
  async #accept(take: () => void): Promise<void> {
    await this.#file.syncFolder().finally(take)
  }
}
