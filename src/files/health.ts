import { messageOf } from '../guards.ts'
import { clearTimeout, setTimeout } from '../runtime.ts'
import type { SnapshotFiles } from './snapshot-files.ts'

const SLOW_WRITE = 1_000 // milliseconds

type Action = 'written' | 'replaced' | 'written quickly'

/**
 * Repairs files that could not be written. Logs each trouble of the disk once, and once that it is
 * over.
 */
export class Health {
  readonly #files: SnapshotFiles
  readonly #pets: () => Iterable<string>
  readonly #troubles = new Map<Action, string>() // what was logged of each
  #needsRepair = false

  /** @param pets Those that the files must have. */
  constructor(files: SnapshotFiles, pets: () => Iterable<string>) {
    this.#files = files
    this.#pets = pets
  }

  get needsRepair(): boolean {
    return this.#needsRepair
  }

  /** Puts the files in order if anything failed. */
  async repairIfNeeded(): Promise<void> {
    if (!this.#needsRepair) return
    await this.#files.repair(this.#pets())
    this.#needsRepair = false
  }

  /**
   * Repairs at once, before the callers are refused: no restart may show what was refused. If that
   * fails, too, the next use tries again.
   */
  async onFailure(action: Action, error: unknown): Promise<void> {
    if (this.#needsRepair) return
    this.#needsRepair = true
    this.#report('error', action, `cannot be ${action}: ${messageOf(error)}`)
    await this.repairIfNeeded().catch((why) => {
      this.#report('error', 'written', `cannot be repaired yet: ${messageOf(why)}`)
    })
  }

  onSuccess(action: Action): void {
    if (!this.#troubles.delete(action)) return
    this.#files.report('info', `${this.#files.path} can be ${action} again`)
  }

  /** Waits for a write. Reports a slow one while it lasts, because it may never end. */
  async watch(writing: Promise<void>): Promise<void> {
    let isSlow = false
    const timer = setTimeout(() => {
      isSlow = true
      const why = `a write takes more than ${SLOW_WRITE / 1_000} s`
      this.#report('warn', 'written quickly', `cannot be written quickly: ${why}`)
    }, SLOW_WRITE)
    await writing.finally(() => clearTimeout(timer))
    if (!isSlow) this.onSuccess('written quickly')
  }

  #report(level: 'warn' | 'error', action: Action, trouble: string): void {
    if (this.#troubles.get(action) === trouble) return
    this.#troubles.set(action, trouble)
    this.#files.report(level, `${this.#files.path} ${trouble}`)
  }
}
