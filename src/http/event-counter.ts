import { clearTimeout, setTimeout } from '../runtime.ts'

export type LogLevel = 'info' | 'warn' | 'error'

const REPORT_INTERVAL = 10_000 // milliseconds

/** Logs the first event of a kind at once, and its repeats as a count. */
export class EventCounter {
  readonly #event: (level: LogLevel, message: string) => void
  readonly #kinds = new Map<string, { readonly level: LogLevel; repeats: number }>()
  #timer: NodeJS.Timeout | undefined

  constructor(event: (level: LogLevel, message: string) => void) {
    this.#event = event
  }

  count(level: LogLevel, what: string): void {
    const kind = this.#kinds.get(what)
    if (kind) {
      kind.repeats++
      return
    }
    this.#kinds.set(what, { level, repeats: 0 })
    this.#event(level, `${what}: 1`)
    this.#timer ??= setTimeout(() => this.report(), REPORT_INTERVAL).unref()
  }

  /** Logs the repeats, and begins to count anew. A kind without any is forgotten. */
  report(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    for (const [what, kind] of this.#kinds) {
      if (kind.repeats === 0) this.#kinds.delete(what)
      else this.#event(kind.level, `${what}: ${kind.repeats}`)
      kind.repeats = 0
    }
    if (this.#kinds.size === 0) return
    this.#timer = setTimeout(() => this.report(), REPORT_INTERVAL).unref()
  }
}
