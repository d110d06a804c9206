import { RequestRecorder } from '../fake/requests.ts'
import { KEY_MUST_BE } from '../http/bearer.ts'
import { redactor } from '../http/redact.ts'
import { type Budget, MemoryStore } from '../pets/store.ts'
import { isString, misuse, withCode } from '../rules.ts'
import { closeCore, type Core, makeCore, type Setup } from './core.ts'

/** Bytes counted for a store in addition to its pets. */
const STORE_OVERHEAD = 16 * 2 ** 10

/** With `storePerKey`, the core of each key, opened on first use. Their stores share `maxStore`. */
export class KeyCores implements Budget {
  readonly maxBytes: number
  bytes = 0 // of all pets, and the overhead of each store
  readonly #setup: Setup
  readonly #newBytes: number // that a new store takes
  readonly #cores = new Map<string, Core>()
  #opened = 0
  #recordedBytes = 0

  /** @param initialBytes Of the initial pets. */
  constructor(setup: Setup, initialBytes: number) {
    this.maxBytes = setup.options.maxStore
    this.#setup = setup
    this.#newBytes = STORE_OVERHEAD + initialBytes
    if (this.#hasRoom) return
    const message = `the store of a key takes ${this.#newBytes} bytes`
    const limit = `more than the ${this.maxBytes} of maxStore (--max-store)`
    throw withCode('store_full', new RangeError(`${message}, ${limit}`))
  }

  /** How many pets there are. */
  get size(): number {
    let size = 0
    for (const { context } of this.#cores.values()) size += context.store.size ?? 0
    return size
  }

  /** Those that are open, by key. */
  get open(): ReadonlyMap<string, Core> {
    return this.#cores
  }

  /** Whether there is room for the store of another key. */
  get #hasRoom(): boolean {
    return this.bytes + this.#newBytes <= this.maxBytes
  }

  /** The core of a key, opened if need be; undefined if there is no room. Throws if invalid. */
  coreOf(key: string): Core | undefined {
    const { keyring, log } = this.#setup
    const open = this.#cores.get(key)
    if (open) return open
    if (!isString(key) || !keyring.isValid(key)) {
      throw misuse(`key must be ${keyring.isAnyKeyValid ? KEY_MUST_BE : 'a valid API key'}`)
    }
    if (this.#hasRoom) return this.#open(key)
    log.count('warn', 'requests with a new key refused, because its store has no room')
    return undefined
  }

  #open(key: string): Core {
    const { options, keyring } = this.#setup
    // The keyring redacts only keys on its list: not if any is valid, nor once they are replaced.
    const redactKey = redactor([key])
    const redact = (text: string) => redactKey(keyring.redact(text))
    const store = new MemoryStore(this.maxBytes, undefined, this)
    store.reset(options.pets)
    const onGrowth = (bytes: number) => this.#onRecorded(bytes)
    const recorder = new RequestRecorder(options.maxRequests, redact, onGrowth)
    const core = makeCore(this.#setup, store, recorder, redact, this.#opened)
    this.#opened++
    this.bytes += STORE_OVERHEAD
    this.#cores.set(key, core)
    return core
  }

  /** Closes the stores of keys that are no longer valid. */
  closeInvalid(): void {
    for (const [key, core] of this.#cores) {
      if (!this.#setup.keyring.isValid(key)) this.close(key, core)
    }
  }

  /** Closes the core of a key, unless it is closed. The next use of the key opens another. */
  close(key: string, core: Core): void {
    if (this.#cores.get(key) !== core) return
    this.#cores.delete(key)
    void closeCore(core)
    core.recorder.clear()
    core.faults.clear()
    this.bytes -= STORE_OVERHEAD // its store has given back the bytes of the pets
  }

  closeAll(): void {
    for (const core of this.#cores.values()) void closeCore(core)
  }

  /** Recorded requests may take an eighth of `maxStore` more. Beyond it, the longest lists give. */
  #onRecorded(bytes: number): void {
    this.#recordedBytes += bytes
    if (bytes < 0 || this.#recordedBytes <= this.maxBytes / 8) return
    const enough = (this.maxBytes / 8) * (7 / 8) // so that this stays rare
    while (this.#recordedBytes > enough) {
      const average = this.#recordedBytes / this.#cores.size
      for (const { recorder } of this.#cores.values()) {
        if (recorder.bytes >= average) recorder.dropOlderHalf()
      }
    }
  }
}
