import { KEY_MUST_BE, type Keyring } from '../http/bearer.ts'
import { setImmediate } from '../http/clock.ts'
import type { Service } from '../http/dispatch.ts'
import type { Log } from '../http/log.ts'
import { redactor } from '../http/redact.ts'
import { type Options } from './options.ts'
import { isString, misuse } from '../rules.ts'
import type { AnyStore, Budget, LocalStore } from '../pets/store.ts'
import type { Awaitable, GetPetState } from '../types.ts'
import type { Faults } from '../fake/faults.ts'
import type { RequestRecorder } from '../fake/requests.ts'

/** What a petstore has before its store or, with `storePerKey`, what a key has before its own. */
export interface Setup {
  readonly options: Options
  readonly keyring: Keyring
  readonly log: Log
  readonly redact: (text: string) => string
  readonly storeNumber?: number // of the key, from 0, in the order of opening
  readonly requestBudget?: Budget // of the recorded requests of all keys
}

/** All that belongs to one store: the petstore's, or a key's. In testing/ for its faults. */
export interface Core extends Setup {
  // Not Context: testing imports nothing of api but its errors.
  readonly context: {
    readonly store: AnyStore
    getPetState: GetPetState
    isDraining: boolean
  }
  readonly faults: Faults
  readonly recorder: RequestRecorder
  readonly service: Service
  /** With `storePerKey`, the core of each key. This one then serves what needs no key. */
  readonly cores?: Cores
}

/** Ends every delay, rejects every wait, and closes the store. */
export function closeCore({ context, faults, recorder }: Core): Awaitable<void> {
  faults.clear()
  recorder.close()
  return context.store.close()
}

/** Bytes counted for a store beyond its pets. */
const STORE_OVERHEAD = 16 * 2 ** 10

/** A core for each key, opened on first use. Where a store has no room, it closes others. */
export class Cores implements Budget {
  readonly maxBytes: number
  bytes = 0 // of all pets, and the overhead of each store
  readonly #setup: Setup
  readonly #open: (keySetup: Setup) => Core
  readonly #newBytes: number // that a new store takes
  readonly #requestBudget: Budget
  readonly #cores = new Map<string, Core>() // by key, the longest unused first
  #opened = 0
  #isClosed = false

  /** @param initialBytes Of the pets of a new store, for which others make room. */
  constructor(setup: Setup, initialBytes: number, open: (keySetup: Setup) => Core) {
    const { maxStore } = setup.options
    this.maxBytes = maxStore
    this.#setup = setup
    this.#open = open
    this.#newBytes = STORE_OVERHEAD + initialBytes
    // Drops requests of the longest unused key first, until an eighth is free.
    const makeRoom = () => {
      for (const { recorder } of this.#cores.values()) recorder.dropOldest(7 / 8)
    }
    this.#requestBudget = { maxBytes: maxStore / 8, bytes: 0, makeRoom }
  }

  /** How many pets there are. */
  get size(): number {
    let size = 0
    for (const { context } of this.#cores.values()) size += context.store.size ?? 0
    return size
  }

  /** The core of a key, opened on first use; a closed one after closeAll(). Throws if invalid. */
  use(key: string): Core {
    const core = this.#cores.get(key) ?? this.#openFor(key)
    this.#cores.delete(key)
    this.#cores.set(key, core)
    return core
  }

  /** Closes the stores of keys that are no longer valid. */
  closeInvalid(): void {
    for (const key of this.#cores.keys()) {
      if (!this.#setup.keyring.isValid(key)) this.close(key)
    }
  }

  /** Closes the store of a key, if one is open. The next use opens another. */
  close(key: string): void {
    const core = this.#cores.get(key)
    if (!core) return
    this.#cores.delete(key)
    void closeCore(core)
    core.recorder.clear()
    // Once delayed requests have responses. Frees the pets, even if the store is still referred to.
    setImmediate(() => core.context.store.reset([]))
    this.bytes -= STORE_OVERHEAD // closeCore() gave back those of the pets
  }

  closeAll(): void {
    this.#isClosed = true
    for (const core of this.#cores.values()) void closeCore(core)
  }

  /** Closes the longest unused stores, never `kept`, until this many bytes are free. */
  makeRoom(bytes: number, kept?: LocalStore): void {
    for (const [key, { context }] of this.#cores) {
      if (this.bytes + bytes <= this.maxBytes) return
      if (context.store === kept) continue
      this.close(key)
      this.#setup.log.count('warn', 'stores closed to make room')
    }
  }

  #openFor(key: string): Core {
    const { keyring } = this.#setup
    const mustBe = keyring.isAnyKeyValid ? KEY_MUST_BE : 'a valid API key'
    if (!isString(key) || !keyring.isValid(key)) throw misuse(`key must be ${mustBe}`)
    this.makeRoom(this.#newBytes)
    // The keyring redacts only keys on its list: not if any is valid, nor once they are replaced.
    const redactForKey = redactor([key])
    const core = this.#open({
      ...this.#setup,
      redact: (text) => redactForKey(keyring.redact(text)),
      storeNumber: this.#opened,
      requestBudget: this.#requestBudget,
    })
    this.#opened++
    this.bytes += STORE_OVERHEAD
    if (this.#isClosed) void closeCore(core)
    return core
  }
}
