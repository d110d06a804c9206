import { messageOf } from '../guards.ts'
import type { SnapshotFiles } from './snapshot-files.ts'

/** Repairs files that could not be written. Logs each cause once, and once that all is well. */
export class Repairs {
  readonly #files: SnapshotFiles
  #isNeeded = false
  #lastMessage = '' // empty while all is well

  constructor(files: SnapshotFiles) {
    this.#files = files
  }

  /** Whether the files are not in order. */
  get isNeeded(): boolean {
    return this.#isNeeded
  }

  /** Puts the files in order if anything failed. */
  async repairIfNeeded(pets: Iterable<string>): Promise<void> {
    if (!this.#isNeeded) return
    await this.#files.repair(pets)
    this.#isNeeded = false
  }

  /**
   * Repairs at once, before the callers are refused: no restart may show what was refused. If that
   * fails, too, the next use tries again.
   */
  async onFailure(error: unknown, pets: Iterable<string>): Promise<void> {
    if (this.#isNeeded) return
    this.#isNeeded = true
    this.#reportFailure('cannot be written', error)
    await this.repairIfNeeded(pets).catch((why) => {
      this.#reportFailure('cannot be repaired yet', why)
    })
  }

  onSuccess(): void {
    if (this.#lastMessage === '') return
    this.#lastMessage = ''
    this.#files.report('info', `${this.#files.path} can be written again`)
  }

  #reportFailure(what: string, error: unknown): void {
    const message = `${this.#files.path} ${what}: ${messageOf(error)}`
    if (message !== this.#lastMessage) this.#files.report('error', message)
    this.#lastMessage = message
  }
}
