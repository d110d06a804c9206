import { messageOf } from '../guards.ts'
import type { Report } from '../pets/store.ts'

/** What the log says of a disk that fails: a cause once, and once that the disk is well again. */
export class FailureLog {
  readonly #path: string
  readonly #report: Report
  #last = '' // what was reported; empty while the disk is well

  constructor(path: string, report: Report) {
    this.#path = path
    this.#report = report
  }

  failed(what: string, error: unknown): void {
    const message = `${this.#path} ${what}: ${messageOf(error)}`
    if (message !== this.#last) this.#report('error', message)
    this.#last = message
  }

  succeeded(): void {
    if (this.#last === '') return
    this.#last = ''
    this.#report('info', `${this.#path} can be written again`)
  }
}
